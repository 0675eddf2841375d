//! Log lines about clients that poll over REST-JSON.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use xds_core::{
    client::{PollPolicy, Profile, ServerAddress},
    server::{ServerConfig, Transaction},
};
use xds_format::Schema;
use xds_rest::GatewayOptions;
use xds_tokio::{ClientOptions, ManagementServer, ServerOptions, client};

use crate::support::{CLUSTER, config, log::Log, no_value, resource, server, soon};

async fn serve_rest() -> (ManagementServer, SocketAddr) {
    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let mut transaction = Transaction::new();
    transaction.set(CLUSTER, "a", resource("a", "1"));
    server.handle().apply(transaction).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    server.spawn_serve_rest(listener, Schema::envoy(), GatewayOptions::default());
    (server, address)
}

/// A client may poll every second for each type.
#[tokio::test]
async fn polls_are_not_logged_at_info() {
    let (log, _guard) = Log::start();
    let (_server, address) = serve_rest().await;
    for path in ["clusters", "listeners"] {
        let body = r#"{"node":{"id":"n"}}"#;
        let poll = format!(
            "POST /v3/discovery:{path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(poll.as_bytes()).await.unwrap();
        let mut response = String::new();
        soon(socket.read_to_string(&mut response)).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    assert_eq!(log.lines(&["DEBUG", "client polls", "node=n"]).len(), 2, "{}", log.text());
    assert_eq!(log.lines(&["INFO"]), [""; 0]);
    assert_eq!(log.lines(&["WARN"]), [""; 0]);
}

#[tokio::test]
async fn grpc_client_of_a_rest_port_and_poll_of_a_grpc_port_are_logged_with_advice() {
    let (log, _guard) = Log::start();
    let (_server, address) = serve_rest().await;
    let client = client::connect(config(address), ClientOptions::default());
    no_value(&mut client.watch_untyped(CLUSTER, "a")).await;
    let advice = ["WARN", "connection failed", "this port serves REST-JSON"];
    soon(async {
        while log.lines(&advice).is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;

    let grpc = server::start().await.address;
    let mut config = config(grpc);
    config.servers = vec![
        ServerAddress::new(grpc.to_string())
            .with_polling(PollPolicy::envoy(core::time::Duration::from_millis(10))),
    ];
    let client = client::connect(config, ClientOptions::default());
    let why = no_value(&mut client.watch_untyped(CLUSTER, "a")).await.to_string();
    assert!(why.contains("is it a gRPC port?"), "{why}");
}

/// Answers every request with this status.
async fn serve_status(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 1];
            if socket.read_exact(&mut request).await.is_ok() {
                let response = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: 5\r\nconnection: close\r\n\r\nsorry"
                );
                let _ = socket.write_all(response.as_bytes()).await;
            }
        }
    });
    address
}

/// Watchers get connection errors with gRPC's profile only, and the log has them with both, as over gRPC.
#[tokio::test]
async fn error_status_of_a_polled_server_is_logged_and_reported_by_the_profile() {
    for status in ["500 Internal Server Error", "401 Unauthorized"] {
        let address = serve_status(status).await;
        let reason = format!("HTTP status {status}: sorry");
        for (profile, is_reported) in [(Profile::grpc(), true), (Profile::envoy(), false)] {
            let (log, _guard) = Log::start();
            let policy = PollPolicy::envoy(core::time::Duration::from_millis(10));
            let mut config = config(address).with_profile(profile);
            config.servers = vec![ServerAddress::new(address.to_string()).with_polling(policy)];
            let client = client::connect(config, ClientOptions::default());
            let mut watch = client.watch_untyped(CLUSTER, "a");
            if is_reported {
                let why = no_value(&mut watch).await.to_string();
                assert!(why.contains(&reason), "{why}");
            }
            soon(async {
                while log.lines(&["WARN", &reason]).is_empty() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
        }
    }
}
