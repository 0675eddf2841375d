//! Invalid, oversized and nonsensical messages.

use tonic::Code;

use crate::{
    hostile::{
        NAMES, Witnesses,
        cases::{End, cases, delta, many},
        start,
    },
    support::{DELTA_AGGREGATED, ENDPOINTS, RawClient, server::streams},
};

#[tokio::test]
async fn invalid_messages_end_only_their_stream() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    let before = running.handle.stats().await.unwrap();
    for (what, path, messages, end) in cases() {
        let context = format!("{what} on {path}");
        println!("{context}");
        let mut client = RawClient::call(running.address, path).await.unwrap();
        messages.into_iter().for_each(|message| client.send(message));
        match end {
            End::Status(code, text) => {
                let status = client.end().await;
                assert_eq!(status.code(), code, "{context}: {status}");
                assert!(status.message().contains(text), "{context}: {status}");
            }
            End::Served if path == DELTA_AGGREGATED => {
                client.subscribe_delta(ENDPOINTS, &["e"]);
                while client.delta_response().await.type_url != ENDPOINTS {}
            }
            End::Served => {
                client.subscribe(ENDPOINTS, &["e"]);
                while client.response().await.type_url != ENDPOINTS {}
            }
        }
        witnesses.are_served(&context).await;
        drop(client);
    }
    // The server keeps nothing of them.
    streams(&running.handle, 2).await;
    let after = running.handle.stats().await.unwrap();
    assert_eq!(
        (after.subscriptions, after.names, after.types),
        (before.subscriptions, before.names, before.types),
        "the witnesses' resources, and nobody's else"
    );
    println!("covers: M3 M4 M5 M7 M8 M61 M241 M242 IS2 IS19 IS21 IS22 IS23 S0.070");
}

#[tokio::test]
async fn stream_with_more_versions_than_names_are_held_ends() {
    let running = start().await;
    let mut client = RawClient::call(running.address, DELTA_AGGREGATED).await.unwrap();
    client.send(delta(|it| {
        it.initial_resource_versions =
            many(NAMES + 1).into_iter().map(|name| (name, String::new())).collect();
    }));
    let status = client.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("resource names"), "{status}");
}
