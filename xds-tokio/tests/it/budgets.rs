//! Limits of connections and handshakes of a server's listeners.

use core::{net::Ipv4Addr, time::Duration};
use std::net::SocketAddr;

use crate::support::{
    CLUSTER, RawClient, config, give_way,
    log::Log,
    names,
    server::{Running, set, start_with},
    soon,
    tls::{Ca, Directory},
    value,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};
use xds_bootstrap::{IdentityFiles, TlsFiles};
use xds_core::{client::TransportId, server::ServerConfig};
use xds_format::Schema;
use xds_rest::GatewayOptions;
use xds_tokio::{
    ClientOptions, Credentials, ManagementServer, ServerOptions, client,
    credentials::ServerCredentials, server::Observed,
};

/// Time in which a client is served at once: less than the timeout of a handshake, 10 s.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Opens connections that send `first` and then nothing.
async fn silent_clients(address: SocketAddr, count: usize, first: &[u8]) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..count {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(first).await.unwrap();
        silent.push(socket);
    }
    silent
}

/// Returns whether the server closes the connection, at once.
async fn is_closed(socket: &mut TcpStream) -> bool {
    // The connection may end with GOAWAY or a reset.
    timeout(AT_ONCE, socket.read_to_end(&mut Vec::new())).await.is_ok()
}

/// Returns whether the connection is still open after everything else has happened.
async fn is_open(socket: &mut TcpStream) -> bool {
    give_way().await;
    timeout(Duration::from_millis(50), socket.read_to_end(&mut Vec::new())).await.is_err()
}

async fn limited(options: ServerOptions) -> Running {
    let running = start_with(ServerConfig::default(), options).await;
    running.handle.apply(set(&[(CLUSTER, "a", "one")])).await.unwrap();
    running
}

/// Subscribes, and expects a response at once.
async fn is_served(address: SocketAddr) -> RawClient {
    let served = async {
        let mut client = RawClient::open(address).await;
        client.subscribe(CLUSTER, &[]);
        assert_eq!(names(&client.response().await), ["a"]);
        client
    };
    timeout(AT_ONCE, served).await.expect("a client is served at once")
}

// IS24
#[tokio::test]
async fn silent_clients_without_tls_do_not_keep_others_out() {
    let (log, _guard) = Log::start();
    let running = limited(ServerOptions::default().with_max_handshakes(2)).await;
    let served = is_served(running.address).await;
    let mut silent = silent_clients(running.address, 4, b"").await;
    let mut half = silent_clients(running.address, 2, b"PRI * HTTP/2.0\r\n\r\nSM").await;
    is_served(running.address).await;
    for oldest in silent.iter_mut().chain(half.first_mut()) {
        assert!(is_closed(oldest).await);
    }
    // The newest one is within the limit.
    assert!(is_open(half.last_mut().unwrap()).await);
    let lines = log.lines(&["WARN", "too many handshakes"]);
    assert_eq!(lines.len(), 5, "{lines:?}");
    // An established connection is no handshake.
    drop(served);
    println!("covers: IS24");
}

#[tokio::test]
async fn warnings_about_dropped_handshakes_are_rate_limited() {
    let (log, _guard) = Log::start();
    let running = limited(ServerOptions::default().with_max_handshakes(1)).await;
    let _silent = silent_clients(running.address, 150, b"").await;
    is_served(running.address).await;
    assert_eq!(log.lines(&["WARN", "too many handshakes"]).len(), 100);
    assert_eq!(log.lines(&["DEBUG", "too many handshakes"]).len(), 50);
}

// IS24
#[tokio::test]
async fn silent_tls_clients_do_not_keep_others_out() {
    let (ca, directory) = (Ca::new("ours"), Directory::new());
    let own = ca.issue(&["127.0.0.1"]);
    let credentials = ServerCredentials::tls(IdentityFiles {
        certificate: directory.write("server.pem", &own.certificate),
        private_key: directory.write("server.key", &own.private_key),
    });
    let options = ServerOptions::default().with_max_handshakes(2).with_credentials(credentials);
    let running = limited(options).await;
    let mut silent = silent_clients(running.address, 4, b"").await;
    // The beginning of a record.
    let _half = silent_clients(running.address, 2, b"\x16\x03\x01\x02\x00\x01").await;
    let mut config = config(running.address);
    config.servers[0] = config.servers[0].clone().with_transport("tls");
    let files = TlsFiles::default().with_ca_certificate(directory.write("ca.pem", &ca.pem));
    let options = ClientOptions::default()
        .with_credentials(TransportId::from("tls"), Credentials::tls(files));
    let client = client::connect(config, options);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    timeout(AT_ONCE, value(&mut watch)).await.expect("a client is served at once");
    for oldest in &mut silent {
        assert!(is_closed(oldest).await);
    }
    println!("covers: IS24");
}

// IS24
#[tokio::test]
async fn silent_rest_clients_do_not_keep_others_out() {
    let options = ServerOptions::default().with_max_handshakes(2);
    let server = ManagementServer::start(ServerConfig::default(), options);
    server.handle().apply(set(&[(CLUSTER, "a", "one")])).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve_rest(listener, Schema::envoy(), GatewayOptions::default()));
    let mut silent = silent_clients(address, 2, b"").await;
    let mut half =
        silent_clients(address, 2, b"POST /v3/discovery:clusters HTTP/1.1\r\nhost:").await;
    let mut polling = TcpStream::connect(address).await.unwrap();
    polling.write_all(b"GET /none HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut status = [0; 12];
    timeout(AT_ONCE, polling.read_exact(&mut status)).await.expect("at once").unwrap();
    assert_eq!(&status, b"HTTP/1.1 404");
    for oldest in silent.iter_mut().chain(half.first_mut()) {
        assert!(is_closed(oldest).await);
    }
    // After its first request, a connection is no handshake.
    let mut more = silent_clients(address, 4, b"").await;
    assert!(is_closed(&mut more[0]).await);
    polling.write_all(b"GET /none HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert!(matches!(soon(polling.read(&mut [0; 1])).await, Ok(1)));
    println!("covers: IS24");
}

/// At the limit of connections, a new one takes the place of a silent one, but not of an
/// established one.
// IS24
#[tokio::test]
async fn silent_clients_do_not_use_up_the_connection_limit() {
    let running = limited(ServerOptions::default().with_max_connections(2)).await;
    let _first = is_served(running.address).await;
    for _ in 0..3 {
        let mut silent = silent_clients(running.address, 1, b"").await;
        is_served(running.address).await;
        assert!(is_closed(&mut silent[0]).await);
        // The previous client must have been noticed as gone.
        soon(async {
            while running.handle.stats().await.unwrap().streams > 1 {
                give_way().await;
            }
        })
        .await;
    }
    println!("covers: IS24");
}

/// Connects from an address of this host.
async fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::from(from), 0).into()).unwrap();
    soon(socket.connect(to)).await.unwrap()
}

// IS24: other systems have only one loopback address.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connections_of_one_address_over_its_limit_are_closed_and_reported() {
    let (log, _guard) = Log::start();
    let running = limited(ServerOptions::default().with_max_connections_per_address(2)).await;
    let mut observations = running.handle.observations();
    let address = running.address;
    let mut first = connect_from([127, 0, 0, 1], address).await;
    let mut second = connect_from([127, 0, 0, 1], address).await;
    let mut third = connect_from([127, 0, 0, 1], address).await;
    let from = third.local_addr().unwrap();
    assert!(is_closed(&mut third).await);
    let refused = soon(async {
        loop {
            if let Some(Observed::ConnectionRefused { address, limit }) = observations.next().await
            {
                return (address, limit);
            }
        }
    });
    assert_eq!(refused.await, (Some(from), 2));
    assert_eq!(log.lines(&["WARN", "too many connections of one address", "limit=2"]).len(), 1);
    assert!(is_open(&mut first).await && is_open(&mut second).await);
    let mut other = connect_from([127, 0, 0, 2], address).await;
    assert!(is_open(&mut other).await);
    // A closed connection makes room for another.
    drop(first);
    soon(async {
        loop {
            let mut next = connect_from([127, 0, 0, 1], address).await;
            if is_open(&mut next).await {
                break;
            }
        }
    })
    .await;
    println!("covers: IS24");
}

/// Starts a request over REST with a body of `length` bytes, and sends `sent` of them.
async fn begin_rest(address: SocketAddr, length: usize, sent: usize) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = "POST /v3/discovery:clusters HTTP/1.1\r\nhost: a\r\n";
    let head = format!("{head}content-length: {length}\r\n\r\n{}", " ".repeat(sent));
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

/// Returns the status of a response over REST, and its text.
async fn rest_response(socket: &mut TcpStream) -> (u16, String) {
    let mut response = Vec::new();
    // The connection closes, because the server does not read the rest of the body.
    timeout(AT_ONCE, socket.read_to_end(&mut response)).await.expect("at once").unwrap();
    let text = String::from_utf8(response).unwrap();
    (text[9..12].parse().unwrap(), text)
}

async fn serve_rest(options: ServerOptions) -> (ManagementServer, SocketAddr) {
    let server = ManagementServer::start(ServerConfig::default(), options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server.serve_rest(listener, Schema::envoy(), GatewayOptions::default()));
    (server, address)
}

// IS24
#[tokio::test]
async fn incomplete_rest_requests_share_the_budget_of_the_server() {
    let options = ServerOptions::default().with_max_incomplete_bytes(10_000, 12_000);
    let (server, address) = serve_rest(options).await;
    let held = || server.handle().transport_stats().incomplete_request_bytes;
    let wait_for = async |bytes| {
        soon(async {
            while held() != bytes {
                give_way().await;
            }
        })
        .await;
    };
    let mut heavy = begin_rest(address, 9_000, 8_000).await;
    wait_for(8_000).await;
    let mut light = begin_rest(address, 9_000, 3_990).await;
    wait_for(11_990).await;
    light.write_all(&[b' '; 100]).await.unwrap();
    let (status, text) = rest_response(&mut heavy).await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("of all connections exceed 12000 bytes"), "{text}");
    wait_for(4_090).await;
    assert!(is_open(&mut light).await);
    drop(light);
    wait_for(0).await;
    println!("covers: IS24");
}

// IS24
#[tokio::test]
async fn rest_request_over_a_limit_of_its_size_gets_status_413() {
    let options = ServerOptions::default().with_max_incomplete_bytes(10_000, 1 << 20);
    let (server, address) = serve_rest(options).await;
    for (length, sent, why) in [
        ((4 << 20) + 1, 0, "longer than 4194304 bytes"),
        (20_000, 10_001, "of the connection exceed 10000 bytes"),
    ] {
        let mut socket = begin_rest(address, length, sent).await;
        let (status, text) = rest_response(&mut socket).await;
        assert_eq!(status, 413, "{text}");
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(server.handle().transport_stats().refused_requests, 2);
    println!("covers: IS24");
}

#[tokio::test]
async fn refused_and_dropped_connections_are_counted() {
    let options = ServerOptions::default().with_max_handshakes(1).with_max_connections(1);
    let running = limited(options).await;
    let mut silent = silent_clients(running.address, 1, b"").await;
    let served = is_served(running.address).await;
    assert!(is_closed(&mut silent[0]).await);
    let mut refused = TcpStream::connect(running.address).await.unwrap();
    assert!(is_closed(&mut refused).await);
    let stats = running.handle.transport_stats();
    assert_eq!((stats.dropped_handshakes, stats.refused_connections), (1, 1), "{stats:?}");
    drop(served);
}
