//! Clients that do it without end, and what others notice of that.
//!
//! Delay is counted in what the server takes from the offender while a change is on its way to others, not
//! in time, which on a shared machine says nothing. Test, server and all clients have one thread between them.

use bytes::Bytes;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use xds_core::server::{ServerConfig, ServerLimits, ServerStats};
use xds_tokio::ServerOptions;

use crate::{
    Witnesses,
    cases::{delta, many, rejection, whole},
    support::{
        AGGREGATED, CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, connect, give_way, names,
        server::{Running, set, start_with, streams},
    },
};

/// What an offender does all the time.
#[derive(Clone, Copy, Debug)]
enum Offence {
    /// It asks for a name, and for none, in both variants.
    Churn,
    IncrementalChurn,
    /// It lists two thousand names, then none of them.
    LongLists,
    /// The same on many streams, and each list has other names.
    LongListsEverywhere,
    /// It rejects what it is sent, at length, and says so again and again.
    Rejections,
    /// It repeats an ACK.
    OldAnswers,
    /// It opens streams and says what is no message.
    Garbage,
    /// It opens streams and says more than anybody may.
    TooLong,
    /// It opens streams and leaves them.
    Visits,
    /// It asks for much, on more and more streams, and reads nothing.
    Deafness,
}

use Offence::{
    Churn, Deafness, Garbage, IncrementalChurn, LongLists, LongListsEverywhere, OldAnswers,
    Rejections, TooLong, Visits,
};

const OFFENCES: [Offence; 10] = [
    Churn,
    IncrementalChurn,
    LongLists,
    LongListsEverywhere,
    Rejections,
    OldAnswers,
    Garbage,
    TooLong,
    Visits,
    Deafness,
];

/// So many requests it says before it looks whether they were taken.
const BURST: usize = 4 * TURN as usize;

impl Offence {
    /// Never ends.
    async fn commit(self, channel: Channel) {
        match self {
            Churn => {
                let request = |n: usize| {
                    whole(|it| it.resource_names = vec![format!("n{n}")][n % 2..].to_vec())
                };
                flood(channel, AGGREGATED, request).await;
            }
            IncrementalChurn => {
                let request = |n: usize| {
                    delta(|it| {
                        let name = vec![format!("n{}", n / 2)];
                        match n % 2 {
                            0 => it.resource_names_subscribe = name,
                            _ => it.resource_names_unsubscribe = name,
                        }
                    })
                };
                flood(channel, DELTA_AGGREGATED, request).await;
            }
            OldAnswers => {
                let request = |_| whole(|it| it.response_nonce = "1".into());
                flood(channel, AGGREGATED, request).await;
            }
            LongLists => {
                let lists = [whole(|it| it.resource_names = many(2_000)), whole(|_| {})];
                let client = RawClient::call_on(channel, AGGREGATED).await.unwrap();
                self.and_wait(client, lists).await;
            }
            LongListsEverywhere => {
                let list = |from: usize| {
                    let names = (from..from + 2_000).map(|n| format!("n{n}")).collect();
                    whole(|it| it.resource_names = names)
                };
                let mut clients = Vec::new();
                for _ in 0..20 {
                    clients.push(RawClient::call_on(channel.clone(), AGGREGATED).await.unwrap());
                }
                for round in 0_usize.. {
                    for (n, client) in clients.iter().enumerate() {
                        client.send(list((round * clients.len() + n) * 2_000));
                        client.send(whole(|_| {}));
                    }
                    for client in &mut clients {
                        wait_for_answer(client).await;
                    }
                }
            }
            Rejections => {
                let bad = |nonce: &str| {
                    whole(|it| {
                        it.response_nonce = nonce.into();
                        it.error_detail = rejection(1 << 20);
                    })
                };
                let client = RawClient::call_on(channel, AGGREGATED).await.unwrap();
                client.subscribe(CLUSTER, &[]);
                self.and_wait(client, [bad("1"), bad("2")]).await;
            }
            Garbage => Self::ends(channel, Bytes::from_static(&[0xff; 99])).await,
            TooLong => Self::ends(channel, whole(|it| it.version_info = "x".repeat(5 << 20))).await,
            Visits => loop {
                // A server may well have enough of resets; then it is another connection.
                let Ok(client) = RawClient::call_on(channel.clone(), AGGREGATED).await else {
                    return core::future::pending().await;
                };
                client.subscribe(CLUSTER, &["c"]);
                give_way().await;
            },
            Deafness => {
                let mut deaf = Vec::new();
                loop {
                    if deaf.len() < 50 {
                        deaf.push(RawClient::call_on(channel.clone(), AGGREGATED).await.unwrap());
                    }
                    deaf.iter().for_each(|client| client.subscribe(ENDPOINTS, &["big"]));
                    give_way().await;
                }
            }
        }
    }

    /// Says these and something that is answered, again and again.
    async fn and_wait(self, mut client: RawClient, messages: [Bytes; 2]) {
        loop {
            messages.iter().for_each(|message| client.send(message.clone()));
            wait_for_answer(&mut client).await;
        }
    }

    /// Says what ends the stream, on one stream after the other.
    async fn ends(channel: Channel, message: Bytes) {
        loop {
            let mut client = RawClient::call_on(channel.clone(), AGGREGATED).await.unwrap();
            client.send(message.clone());
            client.end().await;
        }
    }
}

async fn flood(channel: Channel, path: &'static str, request: impl Fn(usize) -> Bytes) {
    let mut client = RawClient::call_on(channel, path).await.unwrap();
    client.send(request(0));
    for round in 0_usize.. {
        (0..BURST).for_each(|n| client.send(request(round * BURST + n)));
        match path {
            AGGREGATED => wait_for_answer(&mut client).await,
            _ => {
                let name = format!("e{round}");
                client.subscribe_delta(ENDPOINTS, &[&name]);
                loop {
                    let response = client.delta_response().await;
                    client.ack_delta(&response);
                    if response.type_url == ENDPOINTS {
                        break;
                    }
                }
            }
        }
    }
}

/// Waits until all was taken: a name that is new in a list is answered.
async fn wait_for_answer(client: &mut RawClient) {
    client.subscribe(ENDPOINTS, &["e"]);
    client.subscribe(ENDPOINTS, &["e", "f"]);
    loop {
        let response = client.response().await;
        if response.type_url != ENDPOINTS {
            continue;
        }
        client.answer(&response, &["e", "f"], None);
        if names(&response).contains(&"f".to_owned()) {
            return;
        }
    }
}

/// An offender at work; it stops when this is dropped.
struct Offender(JoinHandle<()>);

impl Offender {
    async fn start(offence: Offence, running: &Running) -> Self {
        let channel = connect(running.address).await;
        Self(tokio::spawn(offence.commit(channel)))
    }
}

impl Drop for Offender {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How much a server has taken from all its clients.
fn taken(stats: &ServerStats) -> u64 {
    stats.requests + stats.malformed_requests + stats.closed.by_clients
}

/// So much it may take from offenders while a change is on its way to others: what one turn of its loop
/// takes at most. An offender says four times that before it waits.
const TURN: u64 = 1_000;

/// Each a change that has to reach two clients.
const ROUNDS: u64 = 6;

async fn start_without_rates() -> Running {
    let mut limits = ServerLimits::default();
    // Nobody is slowed down: that is the worst case for the others.
    limits.requests = None;
    let config = ServerConfig::default().with_limits(limits);
    let options = ServerOptions::default().with_max_request_bytes(4 << 20);
    let running = start_with(config, options).await;
    let resources = [
        (CLUSTER, "c", "1"),
        (ENDPOINTS, "e", "1"),
        (ENDPOINTS, "f", "1"),
        (ENDPOINTS, "big", "1"),
    ];
    running.handle.apply(set(&resources)).await.unwrap();
    running
}

/// The most that was taken from offenders during one round, after they have begun.
async fn rounds_beside(running: &Running, witnesses: &mut Witnesses, what: &str) -> u64 {
    let stats = || async { running.handle.stats().await.unwrap() };
    // Until they are heard.
    let begin = taken(&stats().await);
    while taken(&stats().await) < begin + 10 {
        give_way().await;
    }
    let mut most = 0;
    let begin = taken(&stats().await);
    for _ in 0..ROUNDS {
        let before = taken(&stats().await);
        witnesses.are_served(what).await;
        most = most.max(taken(&stats().await) - before);
        give_way().await;
    }
    let all = taken(&stats().await) - begin;
    println!("{what}: at most {most} of {all} in one round");
    // Two ACKs are the witnesses' own.
    assert!(all > 2 * ROUNDS, "{what}: nobody offended meanwhile");
    most
}

#[tokio::test]
async fn a_change_overtakes_the_flood_of_an_offender() {
    for offence in OFFENCES {
        let running = start_without_rates().await;
        let mut witnesses = Witnesses::of(&running).await;
        let offender = Offender::start(offence, &running).await;
        let what = format!("{offence:?}");
        let most = rounds_beside(&running, &mut witnesses, &what).await;
        assert!(most <= TURN, "{what}: {most} requests went before a change");
        assert!(!offender.0.is_finished(), "{what} goes on");
        drop(offender);
        streams(&running.handle, 2).await;
    }
    println!("covers: IS23 IS24 IS25 M242");
}

#[tokio::test]
async fn a_change_overtakes_all_offenders_at_once() {
    let running = start_without_rates().await;
    let mut witnesses = Witnesses::of(&running).await;
    let mut offenders = Vec::new();
    for offence in OFFENCES {
        offenders.push(Offender::start(offence, &running).await);
    }
    let most = rounds_beside(&running, &mut witnesses, "all at once").await;
    assert!(most <= TURN, "{most} requests went before a change");
    drop(offenders);
    streams(&running.handle, 2).await;
    println!("covers: IS23 IS25 M242");
}
