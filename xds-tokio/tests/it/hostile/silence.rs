//! Clients that do not read, do not answer, or disconnect.

use core::time::Duration;

use tonic::Code;
use xds_core::server::{AnswerOverdue, ServerConfig, SubscribedNames, SyncState};
use xds_tokio::ServerOptions;

use crate::{
    hostile::{Witnesses, start},
    support::{
        AGGREGATED, CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, connect, give_way, names,
        server::{set, start_with, streams},
    },
};

#[tokio::test]
async fn client_that_does_not_read_or_ack_delays_only_itself() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    let mut deaf = RawClient::open(running.address).await;
    deaf.subscribe(ENDPOINTS, &["big"]);
    let mut mute = RawClient::open(running.address).await;
    mute.subscribe(CLUSTER, &["c"]);
    let first = mute.response().await;
    for round in 0..6 {
        let content = round.to_string();
        let big = content.repeat(3 << 20);
        let change = set(&[(ENDPOINTS, "big", &big), (CLUSTER, "c", &content)]);
        running.handle.apply(change).await.unwrap();
        // Its requests are processed meanwhile and do not accumulate.
        (0..100).for_each(|_| deaf.subscribe(ENDPOINTS, &["big"]));
        witnesses.are_served("a client that does not read").await;
    }
    let rows = running.handle.status().await.unwrap();
    let of = |type_url: &str| rows.iter().find(|row| row.type_url.as_str() == type_url).unwrap();
    assert_eq!((of(CLUSTER).state, of(CLUSTER).responses), (SyncState::Sent, 1));
    assert_eq!((of(ENDPOINTS).subscribed, of(ENDPOINTS).responses), (SubscribedNames::Names(1), 1));
    // Each receives the newest state when it continues.
    mute.answer(&first, &["c"], None);
    assert!(mute.response().await.resources[0].value.ends_with(b"5"));
    let first = deaf.response().await;
    deaf.answer(&first, &["big"], None);
    let newest = deaf.response().await;
    assert_eq!(newest.resources[0].value.last(), Some(&b'5'));
    assert_eq!(names(&newest), ["big"]);
    println!("covers: M114 M230 IS16 IS25");
}

#[tokio::test]
async fn short_lived_streams_leave_no_state() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    for _ in 0..4 {
        let channel = connect(running.address).await;
        for n in 0..50 {
            // The server may close the connection because of too many resets.
            let path = [AGGREGATED, DELTA_AGGREGATED][n % 2];
            let Ok(client) = RawClient::call_on(channel.clone(), path).await else { break };
            match path {
                AGGREGATED => client.subscribe(CLUSTER, &["c"]),
                _ => client.subscribe_delta(CLUSTER, &["c"]),
            }
            if n % 3 == 0 {
                give_way().await;
            }
        }
        witnesses.are_served("streams that come and go").await;
    }
    streams(&running.handle, 2).await;
    assert_eq!(running.handle.stats().await.unwrap().subscriptions, 2);
    println!("covers: M13 IS23");
}

#[tokio::test]
async fn client_that_never_acks_is_closed_with_deadline_exceeded() {
    let mut config = ServerConfig::default();
    let overdue = AnswerOverdue::Close(Duration::from_millis(20));
    config = config.with_every_type(|it| it.answer_overdue = overdue);
    let running = start_with(config, ServerOptions::default()).await;
    running.handle.apply(set(&[(CLUSTER, "c", "1")])).await.unwrap();
    let mut mute = RawClient::open(running.address).await;
    mute.subscribe(CLUSTER, &["c"]);
    mute.response().await;
    let status = mute.end().await;
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains("was not answered within"), "{status}");
    println!("covers: M65");
}
