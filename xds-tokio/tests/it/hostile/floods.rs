//! Floods: misbehaviour that is repeated endlessly, and its effect on other clients.
//!
//! The delay of a change is measured as the number of the offender's inputs that the server
//! processes meanwhile, because time is meaningless on a shared machine. The test, the server and
//! all clients share one thread.

use bytes::Bytes;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use xds_core::server::{ServerConfig, ServerLimits, ServerStats};
use xds_tokio::ServerOptions;

use crate::{
    hostile::{
        Witnesses,
        cases::{delta, many, rejection, whole},
    },
    support::{
        AGGREGATED, CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, connect, give_way, names,
        server::{Running, set, start_with, streams},
    },
};

/// Misbehaviour that an offender repeats.
#[derive(Clone, Copy, Debug)]
enum Offence {
    /// Subscribes to a name and unsubscribes, in both variants.
    Churn,
    IncrementalChurn,
    /// Subscribes to two thousand names and unsubscribes.
    LongLists,
    /// Subscribes to long lists on many streams, each with different names.
    LongListsEverywhere,
    /// Rejects responses with a long message, and repeats the NACKs.
    Rejections,
    /// Repeats an ACK.
    OldAnswers,
    /// Opens streams and sends invalid messages.
    Garbage,
    /// Opens streams and sends messages above the size limit.
    TooLong,
    /// Opens streams and leaves them.
    Visits,
    /// Requests much on a growing number of streams and reads nothing.
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

/// Number of requests sent before waiting until they were processed.
const BURST: usize = 4 * TURN as usize;

impl Offence {
    /// Misbehaves endlessly.
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
                self.send_and_wait(client, lists).await;
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
                self.send_and_wait(client, [bad("1"), bad("2")]).await;
            }
            Garbage => Self::ends(channel, Bytes::from_static(&[0xff; 99])).await,
            TooLong => Self::ends(channel, whole(|it| it.version_info = "x".repeat(5 << 20))).await,
            Visits => loop {
                // The server may close the connection because of too many resets.
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

    /// Repeatedly sends these messages and one that is answered.
    async fn send_and_wait(self, mut client: RawClient, messages: [Bytes; 2]) {
        loop {
            messages.iter().for_each(|message| client.send(message.clone()));
            wait_for_answer(&mut client).await;
        }
    }

    /// Sends a message that ends the stream, on one stream after the other.
    async fn ends(channel: Channel, message: Bytes) {
        loop {
            // The server closes a connection with very many such streams. The channel makes another one.
            let Ok(mut client) = RawClient::call_on(channel.clone(), AGGREGATED).await else {
                give_way().await;
                continue;
            };
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

/// Waits until all requests were processed: a new name in a list is answered.
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

/// Running offender, stopped when dropped.
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

/// Returns the number of inputs that a server has processed from all clients.
fn processed_inputs(stats: &ServerStats) -> u64 {
    stats.requests + stats.malformed_requests + stats.closed.by_clients
}

/// Maximum number of inputs processed from offenders while a change is sent to others: those of one
/// driver iteration. An offender sends four times as many before it waits.
const TURN: u64 = 1_000;

/// Minimum number of rounds. In each, a change must reach two clients.
const MIN_ROUNDS: u64 = 6;

/// Number of rounds in which offenders must have a request processed. One with many names takes
/// several rounds, because a turn processes a part of it.
const MAX_ROUNDS: u64 = 1_000;

async fn start_without_rates() -> Running {
    let mut limits = ServerLimits::default();
    // Without a rate limit, which is the worst case for the other clients.
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

/// Returns the maximum number of inputs processed from offenders during one round.
async fn max_inputs_per_round(running: &Running, witnesses: &mut Witnesses, what: &str) -> u64 {
    let stats = || async { running.handle.stats().await.unwrap() };
    // Until the offenders' inputs are processed.
    let begin = processed_inputs(&stats().await);
    while processed_inputs(&stats().await) < begin + 10 {
        give_way().await;
    }
    let mut most = 0;
    let begin = processed_inputs(&stats().await);
    for round in 1..=MAX_ROUNDS {
        let before = processed_inputs(&stats().await);
        witnesses.are_served(what).await;
        most = most.max(processed_inputs(&stats().await) - before);
        give_way().await;
        let all = processed_inputs(&stats().await) - begin;
        // Two ACKs of each round come from the witnesses.
        if round >= MIN_ROUNDS && all > 2 * round {
            println!("{what}: at most {most} of {all} in one of {round} rounds");
            return most;
        }
    }
    panic!("{what}: nobody offended meanwhile");
}

#[tokio::test]
async fn change_is_sent_despite_a_flood_from_one_client() {
    for offence in OFFENCES {
        let running = start_without_rates().await;
        let mut witnesses = Witnesses::of(&running).await;
        let offender = Offender::start(offence, &running).await;
        let what = format!("{offence:?}");
        let most = max_inputs_per_round(&running, &mut witnesses, &what).await;
        assert!(most <= TURN, "{what}: {most} requests went before a change");
        assert!(!offender.0.is_finished(), "{what} goes on");
        drop(offender);
        streams(&running.handle, 2).await;
    }
    println!("covers: IS23 IS24 IS25 M242");
}

#[tokio::test]
async fn change_is_sent_despite_floods_from_all_clients() {
    let running = start_without_rates().await;
    let mut witnesses = Witnesses::of(&running).await;
    let mut offenders = Vec::new();
    for offence in OFFENCES {
        offenders.push(Offender::start(offence, &running).await);
    }
    let most = max_inputs_per_round(&running, &mut witnesses, "all at once").await;
    assert!(most <= TURN, "{most} requests went before a change");
    drop(offenders);
    streams(&running.handle, 2).await;
    println!("covers: IS23 IS25 M242");
}
