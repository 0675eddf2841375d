//! Connections that are refused, lost or no longer needed.

use core::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::Duration,
};
use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    select,
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use xds_channel::WaitForReady;
use xds_core::types;
use xds_routing::proto::envoy::config::{
    cluster::v3::{CircuitBreakers, Cluster, circuit_breakers::Thresholds},
    endpoint::v3::{
        ClusterLoadAssignment,
        cluster_load_assignment::{Policy, policy::DropOverload},
    },
    route::v3::Route,
};
use xds_routing::proto::envoy::r#type::v3::{
    FractionalPercent, fractional_percent::DenominatorType,
};

use crate::{
    failures::aggregate,
    support::*,
    world::{Backend, Change, World, assignment, check, eds, nobody, place, soon},
};

fn to(name: &str) -> Vec<Route> {
    vec![route(prefix(""), cluster(name))]
}

/// Proxy in front of a backend that counts connections.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    open: watch::Sender<usize>,
    slammed: Arc<Notify>,
}

impl Door {
    pub(crate) async fn to(behind: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, slammed) = (watch::Sender::new(0), Arc::<Notify>::default());
        let (count, shut) = (open.clone(), Arc::clone(&slammed));
        tokio::spawn(async move {
            while let Ok((mut outside, _)) = listener.accept().await {
                let (count, shut) = (count.clone(), Arc::clone(&shut));
                count.send_modify(|count| *count += 1);
                tokio::spawn(async move {
                    if let Ok(mut inside) = TcpStream::connect(behind).await {
                        select! {
                            _ = copy_bidirectional(&mut outside, &mut inside) => {}
                            () = shut.notified() => {}
                        }
                    }
                    count.send_modify(|count| *count -= 1);
                });
            }
        });
        Self { address, open, slammed }
    }

    /// Ends all current connections.
    pub(crate) fn slam(&self) {
        self.slammed.notify_waiters();
    }

    /// Waits until the number of connections is as given.
    pub(crate) async fn has(&self, connections: usize) {
        let mut open = self.open.subscribe();
        soon(open.wait_for(|open| *open == connections)).await.expect("it counts them");
    }
}

/// Reaction of an endpoint that does not process a request.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// `RST_STREAM` with `REFUSED_STREAM`.
    Stream,
    /// `GOAWAY` with `NO_ERROR` and last stream id 0.
    Connection,
    /// Accepts the request and closes the connection.
    None,
}

/// Starts an endpoint that refuses all streams and counts them.
async fn refusing(how: Refusal) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let refused = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(refuse(socket, how, Arc::clone(&count)));
        }
    });
    (address, refused)
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

async fn refuse(
    mut socket: TcpStream,
    how: Refusal,
    count: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let mut preface = [0; 24];
    socket.read_exact(&mut preface).await?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]).try_into().unwrap()];
        socket.read_exact(&mut payload).await?;
        match kind {
            SETTINGS if flags & ACK == 0 => {
                socket.write_all(&frame(SETTINGS, ACK, 0, &[])).await?;
            }
            HEADERS => {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = match how {
                    Refusal::Stream => {
                        frame(RST_STREAM, 0, u32::from_be_bytes(stream), &7_u32.to_be_bytes())
                    }
                    Refusal::Connection => frame(GOAWAY, 0, 0, &[0; 8]),
                    Refusal::None => return Ok(()),
                };
                socket.write_all(&answer).await?;
            }
            _ => {}
        }
    }
}

/// A request that a server has not processed is sent to another one.
#[tokio::test]
async fn call_refused_before_processing_is_retried_elsewhere_once() {
    for how in [Refusal::Stream, Refusal::Connection] {
        let world = World::new().await;
        let backend = Backend::new().await;
        let (at, refused) = refusing(how).await;
        world.apply(Change::new().routes(to("c")).at("c", &[backend.address]).0).await;
        let mut client = world.health();
        check(&mut client, &[]).await.expect("an answer");
        world.apply(Change::new().endpoints("c", &[at, backend.address]).0).await;
        let mut calls = 1;
        while refused.load(Ordering::SeqCst) == 0 || calls < 20 {
            check(&mut client, &[]).await.expect("an answer");
            calls += 1;
        }
        assert_eq!(backend.calls(), calls, "{how:?}");

        // Without another endpoint, the call fails with UNAVAILABLE.
        let world = World::new().await;
        let (at, refused) = refusing(how).await;
        world.apply(Change::new().routes(to("c")).at("c", &[at]).0).await;
        let status = check(&mut world.health(), &[]).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{how:?}: {status}");
        assert_eq!(refused.load(Ordering::SeqCst), 2, "{how:?}: it is tried twice");
    }
}

/// A call that an endpoint refused counts once towards the limit of active calls while another
/// endpoint is picked. The endpoints are in two localities, so that a pick is random.
#[tokio::test]
async fn refused_call_needs_one_circuit_breaker_permit() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let (at, refused) = refusing(Refusal::Stream).await;
    let one = Thresholds { max_requests: number(1), ..Thresholds::default() };
    let narrow = Cluster {
        circuit_breakers: Some(CircuitBreakers { thresholds: vec![one] }),
        ..eds("narrow")
    };
    let endpoints = ClusterLoadAssignment {
        endpoints: vec![place("one", 0, 1, &[at]), place("two", 0, 1, &[backend.address])],
        ..assignment("narrow", &[])
    };
    let mut change = Change::new().routes(to("narrow")).cluster_as(narrow);
    let bytes = prost::Message::encode_to_vec(&endpoints);
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "narrow", bytes);
    world.apply(change.0).await;
    let mut client = world.health();
    let mut calls = 0;
    while refused.load(Ordering::SeqCst) < 30 || backend.calls() < 30 {
        // A call that is refused twice fails.
        if let Err(status) = check(&mut client, &[]).await {
            assert!(!status.message().contains("maximum number"), "{status} after {calls} calls");
        }
        calls += 1;
    }
}

/// A request that an endpoint may have processed is not sent again. The message does not claim a
/// missing endpoint.
#[tokio::test]
async fn call_lost_with_its_connection_is_unavailable_and_not_retried() {
    let world = World::new().await;
    let (at, received) = refusing(Refusal::None).await;
    let spare = nobody().await;
    let change = Change::new().routes(to("all")).cluster_as(aggregate("all", &["c", "spare"]));
    world.apply(change.at("c", &[at]).at("spare", &[spare]).0).await;
    let status = check(&mut world.health(), &[]).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let message = status.message();
    let why = format!("call to an endpoint of cluster `c` failed: {at}: ");
    assert!(message.starts_with(&why), "{message}");
    assert!(message.ends_with("(resolution note: xDS node ID: node-1)"), "{message}");
    assert_eq!(received.load(Ordering::SeqCst), 1, "it is not sent again");
}

/// A cluster with an unsupported policy has no connections, even if routes refer to it. It has
/// connections again when the policy is supported.
#[tokio::test]
async fn failed_cluster_has_no_connections() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let door = Door::to(backend.address).await;
    let mut client = world.health();
    for _ in 0..2 {
        world.apply(Change::new().routes(to("c")).at("c", &[door.address]).0).await;
        soon(async { while check(&mut client, &[]).await.is_err() {} }).await;
        door.has(1).await;
        let odd = Cluster { load_balancing_policy: unsupported_policy(), ..eds("c") };
        world.apply(Change::new().cluster_as(odd).0).await;
        soon(async { while check(&mut client, &[]).await.is_ok() {} }).await;
        door.has(0).await;
    }
}

/// A slow call keeps its own connection and no other.
#[tokio::test]
async fn slow_call_keeps_only_its_own_connection() {
    let world = World::new().await;
    let slow = Backend::slow(Duration::from_secs(60)).await;
    let quick = Backend::new().await;
    let doors = [Door::to(slow.address).await, Door::to(quick.address).await];
    let all = [doors[0].address, doors[1].address];
    world.apply(Change::new().routes(to("c")).at("c", &all).0).await;
    let client = world.health();
    let mut calls = Vec::new();
    while slow.calls() == 0 {
        let mut client = client.clone();
        calls.push(tokio::spawn(async move { client.check(HealthCheckRequest::default()).await }));
        sleep(Duration::from_millis(5)).await;
    }
    doors[1].has(1).await;
    world.apply(Change::new().endpoints("c", &all[..1]).0).await;
    doors[1].has(0).await;
    doors[0].has(1).await;
    assert!(calls.iter().any(|call| !call.is_finished()), "one is still under way");
}

/// The endpoint receives the remaining time as its timeout.
#[tokio::test]
async fn timeout_sent_after_waiting_is_the_remaining_time() {
    let world = World::new().await;
    let backend = Backend::new().await;
    world.apply(Change::new().routes(to("c")).cluster("c").0).await;
    let mut client = world.health();
    let mut request = Request::new(HealthCheckRequest::default());
    request.metadata_mut().insert("grpc-timeout", "20S".parse().unwrap());
    request.extensions_mut().insert(WaitForReady);
    let mut waiting = pin!(client.check(request));
    let is_waiting = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await;
    assert!(is_waiting);
    // The call has started, and is sent after this moment.
    let begun = Instant::now();
    world.apply(Change::new().endpoints("c", &[backend.address]).0).await;
    let left = Duration::from_secs(20) - begun.elapsed();
    assert_eq!(backend.calls(), 0, "nobody has asked for it since");
    soon(waiting).await.expect("an answer");
    let header = backend.counted.headers.lock().unwrap()["grpc-timeout"].clone();
    let header = header.to_str().unwrap().to_owned();
    let micros: u64 = header.strip_suffix('u').expect(&header).parse().unwrap();
    assert!(Duration::from_micros(micros) <= left, "{micros} us of {left:?}");
}

/// Half of the calls are dropped. Drop is not decided again after an endpoint refused the call.
#[tokio::test]
async fn drop_decision_is_made_once_per_call() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let (at, refused) = refusing(Refusal::Stream).await;
    let half = FractionalPercent { numerator: 50, denominator: DenominatorType::Hundred as i32 };
    let drops = DropOverload { category: "half".into(), drop_percentage: Some(half) };
    let endpoints = ClusterLoadAssignment {
        policy: Some(Policy { drop_overloads: vec![drops] }),
        ..assignment("c", &[at, backend.address])
    };
    let bytes = prost::Message::encode_to_vec(&endpoints);
    world.apply(Change::new().routes(to("c")).at("c", &[backend.address]).0).await;
    let mut client = world.health();
    check(&mut client, &[]).await.expect("an answer");
    let mut change = Change::new();
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "c", bytes);
    world.apply(change.0).await;
    // Until the new endpoints are in use.
    while check(&mut client, &[]).await.is_ok() || refused.load(Ordering::SeqCst) == 0 {}
    let mut dropped = 0;
    for _ in 0..400 {
        if let Err(status) = check(&mut client, &[]).await {
            assert!(status.message().contains("dropped: half"), "{status}");
            dropped += 1;
        }
    }
    // Four standard deviations. If drop were decided again after a refusal, 250 would be expected.
    assert!((160..=240).contains(&dropped), "{dropped}");
}
