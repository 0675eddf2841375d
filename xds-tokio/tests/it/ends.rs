//! Ends of streams and connections are noticed even if the driver does not read, and no wake-up is
//! lost. Connections are in-memory pipes, and the clock is paused.

use core::{
    future::{pending, poll_fn},
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};
use std::sync::Arc;

use crate::support::{CLUSTER, config, next, no_value, resource, value};
use bytes::{BufMut as _, Bytes, BytesMut};
use h2::{Reason, RecvStream, SendStream, server};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, copy, duplex, split},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use xds_conformance::kick::{Kicked, World};
use xds_core::{
    client::{ClientConfig, FlowControl, Notice, ServerAddress, WatchErrorKind},
    proto::{Any, DiscoveryResponse},
};
use xds_grpc::{ClientOptions, Keepalive, client, runtime::Runtime as _};
use xds_tokio::Tokio;

type VirtualTokio = Kicked<Tokio>;

/// Server side of a connection. Dropping it closes the connection.
struct Connection {
    calls: mpsc::UnboundedReceiver<(http::Request<RecvStream>, server::SendResponse<Bytes>)>,
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

enum Order {
    GoAway(Reason),
    /// Stops reading and writing, and leaves the connection open.
    Hang,
}

/// Stream of a client. Its request half stays open until this is dropped.
struct Call {
    requests: RecvStream,
    responses: SendStream<Bytes>,
}

impl Connection {
    async fn new(io: DuplexStream) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let (orders, mut ordered) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut connection = server::handshake(io).await.expect("HTTP/2");
            loop {
                tokio::select! {
                    call = connection.accept() => match call {
                        Some(Ok(call)) => drop(sender.send(call)),
                        Some(Err(_)) | None => return,
                    },
                    Some(order) = ordered.recv() => match order {
                        Order::GoAway(reason) => connection.abrupt_shutdown(reason),
                        Order::Hang => pending().await,
                    },
                }
            }
        });
        Self { calls, orders, task }
    }

    async fn call(&mut self) -> Call {
        let (request, mut respond) = self.calls.recv().await.expect("the connection lives");
        let head = http::Response::builder().header("content-type", "application/grpc");
        let responses = respond.send_response(head.body(()).expect("right"), false).expect("open");
        Call { requests: request.into_body(), responses }
    }

    async fn of(world: &World) -> Self {
        Self::new(soon(world.accept()).await.1).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Call {
    async fn request(&mut self) -> Bytes {
        let data = soon(self.requests.data()).await.expect("open").expect("a request");
        let _ = self.requests.flow_control().release_capacity(data.len());
        data
    }

    fn respond(&mut self, version: &str) {
        let any = Any { type_url: CLUSTER.into(), value: resource("a", version) };
        let response = DiscoveryResponse {
            version_info: version.into(),
            resources: vec![any],
            type_url: CLUSTER.into(),
            nonce: version.into(),
            ..Default::default()
        };
        let message = response.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).expect("short"));
        frame.put_slice(&message);
        self.responses.send_data(frame.freeze(), false).expect("open");
    }

    fn trailers(&mut self) {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("14"));
        self.responses.send_trailers(trailers).expect("open");
    }
}

/// Awaits a future for at most an hour of virtual time.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(3_600), work).await.expect("this should have happened by now")
}

/// Waits until all tasks are idle: only then the paused clock advances.
async fn quiet() {
    sleep(Duration::from_millis(1)).await;
}

fn gated(gate: FlowControl) -> ClientConfig {
    let mut config = config(([127, 0, 0, 1], 1).into());
    config.profile.flow_control = gate;
    config
}

/// Way in which a server ends a stream.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The process ends.
    Killed,
    /// The response half ends; the request half stays open.
    Trailers,
    /// The response half ends after responses that were not read.
    TrailersBehindResponses,
    Reset,
    ResetBehindResponses,
    GoAway,
}

#[tokio::test(start_paused = true)]
async fn stream_end_is_noticed_while_a_watch_is_not_polled() {
    use Ending::{GoAway, Killed, Reset, ResetBehindResponses, Trailers, TrailersBehindResponses};

    for ending in [Killed, Trailers, TrailersBehindResponses, Reset, ResetBehindResponses, GoAway] {
        let world = World::of_this_thread();
        let options = ClientOptions::default().with_seed(7);
        let client = client::connect(VirtualTokio::default(), gated(FlowControl::On), options);
        let _unpolled = client.watch_untyped(CLUSTER, "a");
        let mut connection = Connection::of(&world).await;
        let mut call = soon(connection.call()).await;
        call.request().await;
        call.respond("1");
        // The ACK shows that the response was read. From then on the notice waits for its watcher.
        call.request().await;
        world.assert_no_wake_up_is_lost(quiet, "a response was read").await;
        sleep(Duration::from_secs(7)).await;
        world.assert_no_wake_up_is_lost(quiet, "nobody reads").await;
        match ending {
            TrailersBehindResponses | ResetBehindResponses => {
                call.respond("2");
                call.respond("3");
                quiet().await;
            }
            _ => {}
        }
        let begin = Instant::now();
        match ending {
            Killed => {
                connection.task.abort();
                drop(call.responses);
                drop(call.requests);
            }
            Trailers | TrailersBehindResponses => call.trailers(),
            Reset | ResetBehindResponses => call.responses.send_reset(Reason::CANCEL),
            GoAway => {
                connection.orders.send(Order::GoAway(Reason::INTERNAL_ERROR)).expect("it lives")
            }
        }
        quiet().await;
        world.assert_no_wake_up_is_lost(quiet, &format!("{ending:?}")).await;
        let mut again = Connection::of(&world).await;
        assert!(begin.elapsed() < Duration::from_secs(1), "{ending:?}: {:?}", begin.elapsed());
        soon(again.call()).await.request().await;
        assert_eq!(client.stats().await.expect("it runs").responses, 1, "{ending:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn response_before_the_stream_end_is_delivered() {
    let world = World::of_this_thread();
    let options = ClientOptions::default().with_seed(7);
    let client = client::connect(VirtualTokio::default(), gated(FlowControl::Off), options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut connection = Connection::of(&world).await;
    let mut call = soon(connection.call()).await;
    call.request().await;
    call.respond("1");
    call.trailers();
    assert_eq!(value(&mut watch).await.version.as_str(), "1");
    let mut again = Connection::of(&world).await;
    soon(again.call()).await.request().await;
}

#[tokio::test(start_paused = true)]
async fn half_open_connection_is_detected_by_keepalive_while_not_reading() {
    let world = World::of_this_thread();
    let options = ClientOptions::default().with_seed(7);
    let client = client::connect(VirtualTokio::default(), gated(FlowControl::On), options);
    let _unpolled = client.watch_untyped(CLUSTER, "a");
    let mut connection = Connection::of(&world).await;
    let mut call = soon(connection.call()).await;
    call.request().await;
    call.respond("1");
    call.request().await;
    connection.orders.send(Order::Hang).expect("it lives");
    let begin = Instant::now();
    soon(Connection::of(&world).await.call()).await.request().await;
    let pings = Keepalive::CLIENT.interval + Keepalive::CLIENT.timeout;
    assert!(begin.elapsed() < pings + Duration::from_secs(2), "{:?}", begin.elapsed());
    println!("covers: B59");
}

fn frequent_pings() -> ClientOptions {
    let keepalive = Keepalive::new(Duration::from_secs(2), Duration::from_secs(1));
    ClientOptions::default().with_seed(7).with_keepalive(keepalive)
}

/// The HTTP/2 stack reports only to the task of a connection that a ping was not answered.
#[tokio::test(start_paused = true)]
async fn unanswered_ping_on_an_open_stream_is_stated_as_the_reason_for_the_end() {
    let world = World::of_this_thread();
    let client =
        client::connect(VirtualTokio::default(), gated(FlowControl::Off), frequent_pings());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut connection = Connection::of(&world).await;
    let mut call = soon(connection.call()).await;
    call.request().await;
    // The client has received the response head.
    quiet().await;
    connection.orders.send(Order::Hang).expect("it lives");
    let told = no_value(&mut watch).await.to_string();
    assert!(told.contains("the connection has ended: "), "{told}");
    assert!(told.contains("keep-alive timed out"), "{told}");
}

/// The HTTP/2 stack reports to the call that a ping was not answered.
#[tokio::test(start_paused = true)]
async fn unanswered_ping_before_the_response_head_is_stated_as_the_reason_for_the_end() {
    let world = World::of_this_thread();
    let client =
        client::connect(VirtualTokio::default(), gated(FlowControl::Off), frequent_pings());
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut connection = Connection::of(&world).await;
    let _unanswered = soon(connection.calls.recv()).await.expect("the connection lives");
    connection.orders.send(Order::Hang).expect("it lives");
    let told = no_value(&mut watch).await.to_string();
    assert!(!told.contains("the connection has ended: "), "{told}");
    assert!(told.contains("keep-alive timed out"), "{told}");
}

/// The message for two addresses: one answers at once, and the other one never.
#[tokio::test(start_paused = true)]
async fn timeout_reports_what_each_address_has_answered() {
    let world = World::of_this_thread();
    let mut config = gated(FlowControl::Off);
    config.servers = vec![ServerAddress::new("ipv4:127.0.0.1:1,127.0.0.1:2")];
    let timeout = Duration::from_secs(5);
    let options = ClientOptions::default().with_seed(7).with_connect_timeout(timeout);
    let client = client::connect(VirtualTokio::default(), config, options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let (first, mut http1) = soon(world.accept()).await;
    http1.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("it is open");
    drop(http1);
    let (second, _silent) = soon(world.accept()).await;
    let told = no_value(&mut watch).await.to_string();
    let failed = format!("no connection within 5s: {first}: the server does not speak HTTP/2: ");
    let silent = format!("; {second}: accepted the connection but sent no HTTP/2 SETTINGS");
    assert!(told.contains(&failed) && told.contains(&silent), "{told}");
}

/// `Duration::MAX` cannot be added to an instant.
#[tokio::test(start_paused = true)]
async fn longest_keepalive_times_are_accepted() {
    let world = World::of_this_thread();
    let keepalive = Keepalive::new(Duration::MAX, Duration::MAX);
    let options = ClientOptions::default().with_seed(7).with_keepalive(keepalive);
    let client = client::connect(VirtualTokio::default(), gated(FlowControl::Off), options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut connection = Connection::of(&world).await;
    let mut call = soon(connection.call()).await;
    call.request().await;
    call.respond("1");
    assert_eq!(value(&mut watch).await.version.as_str(), "1");
}

/// The HTTP/2 SETTINGS arrive late and byte by byte.
#[tokio::test(start_paused = true)]
async fn late_http2_settings_are_awaited() {
    let world = World::of_this_thread();
    let options = ClientOptions::default().with_seed(7);
    let client = client::connect(VirtualTokio::default(), gated(FlowControl::Off), options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let (_, io) = soon(world.accept()).await;
    sleep(Duration::from_secs(10)).await;
    let (near, far) = duplex(1 << 16);
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (split(io), split(near));
    tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
    tokio::spawn(async move {
        while let Ok(byte) = from_server.read_u8().await {
            to_client.write_u8(byte).await?;
            sleep(Duration::from_millis(1)).await;
        }
        std::io::Result::Ok(())
    });
    let mut connection = Connection::new(far).await;
    let mut call = soon(connection.call()).await;
    call.request().await;
    call.respond("1");
    assert_eq!(value(&mut watch).await.version.as_str(), "1");
    assert_eq!(client.stats().await.expect("it runs").server_failures, 0);
}

// S1.034: a server that accepts connections and sends nothing counts as unreachable.
#[tokio::test(start_paused = true)]
async fn silent_server_fails_over_without_resource_errors() {
    let world = World::of_this_thread();
    let mut config = gated(FlowControl::Off);
    config.servers.push(ServerAddress::new("127.0.0.1:2"));
    let options = ClientOptions::default().with_seed(7);
    let client = client::connect(VirtualTokio::default(), config, options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let begin = Instant::now();
    let (address, _silent) = soon(world.accept()).await;
    assert_eq!(address.port(), 1);
    let second = soon(async {
        loop {
            let (address, io) = world.accept().await;
            if address.port() == 2 {
                return io;
            }
        }
    })
    .await;
    assert_eq!(begin.elapsed().as_secs(), 20, "the connect timeout");
    let mut connection = Connection::new(second).await;
    let mut call = soon(connection.call()).await;
    call.request().await;
    call.respond("1");
    loop {
        match next(&mut watch).await {
            Notice::Changed(Ok(resource)) => {
                assert_eq!(resource.version.as_str(), "1");
                break;
            }
            Notice::Changed(Err(error)) => {
                let text = error.to_string();
                assert!(matches!(error.kind(), WatchErrorKind::Unavailable(_)), "{text}");
                assert!(text.contains("no connection within 20s"), "{text}");
                assert!(text.contains("sent no HTTP/2 SETTINGS"), "{text}");
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn server_without_http2_gets_a_specific_error() {
    for (answer, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "is it an HTTP/1 port, or a TLS port?"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "connect with TLS credentials"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "is it the port of a gRPC server, or a TLS port?"),
        (b"", "closed the connection before it sent HTTP/2 SETTINGS; is it a TLS port, or does"),
    ] {
        let world = World::of_this_thread();
        let options = ClientOptions::default().with_seed(7);
        let client = client::connect(VirtualTokio::default(), gated(FlowControl::Off), options);
        let mut watch = client.watch_untyped(CLUSTER, "a");
        let (_, mut io) = soon(world.accept()).await;
        io.write_all(answer).await.expect("it is open");
        drop(io);
        let told = no_value(&mut watch).await.to_string();
        assert!(told.contains(words), "{told}");
    }
}

/// The check detects a lost wake-up.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "a test: a wake-up was lost")]
async fn lost_wake_up_is_detected() {
    let world = World::of_this_thread();
    let runtime = Kicked::<Tokio>::default();
    let flag = Arc::new(AtomicBool::new(false));
    let (asked, to_spawn) = (Arc::clone(&flag), runtime.clone());
    runtime.spawn(Box::pin(poll_fn(move |_| match asked.load(Ordering::SeqCst) {
        true => {
            to_spawn.spawn(Box::pin(async {}));
            Poll::Ready(())
        }
        // The waker is not registered.
        false => Poll::Pending,
    })));
    world.assert_no_wake_up_is_lost(quiet, "before").await;
    flag.store(true, Ordering::SeqCst);
    world.assert_no_wake_up_is_lost(quiet, "a test").await;
}

#[tokio::test(start_paused = true)]
async fn connection_that_ends_before_a_response_states_the_reason() {
    for is_called in [true, false] {
        let world = World::of_this_thread();
        let options = ClientOptions::default().with_seed(7);
        let client = client::connect(VirtualTokio::default(), gated(FlowControl::Off), options);
        let mut watch = client.watch_untyped(CLUSTER, "a");
        let mut connection = Connection::of(&world).await;
        let _unanswered = match is_called {
            true => soon(connection.calls.recv()).await,
            false => None,
        };
        connection.orders.send(Order::GoAway(Reason::ENHANCE_YOUR_CALM)).expect("it lives");
        let why = no_value(&mut watch).await.to_string();
        assert!(why.contains("excessive load"), "called: {is_called}: {why}");
    }
}
