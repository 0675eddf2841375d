//! The end of a server: by a request, by a signal, and with its driver.

use core::time::Duration;

use crate::support::{
    AGGREGATED, CLUSTER, RawClient, give_way,
    server::{Running, start, start_with},
    soon,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tonic::Code;
use xds_core::server::{ServerConfig, Transaction};
use xds_tokio::{
    ManagementServer, ServerOptions,
    server::{ApplyError, ServerEnded},
};

#[tokio::test]
async fn shutdown_closes_streams_with_unavailable_and_the_listener() {
    let Running { server, handle, address, serving } = start().await;
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &[]);
    soon(async {
        while handle.stats().await.unwrap().subscriptions == 0 {
            give_way().await;
        }
    })
    .await;
    soon(handle.shut_down()).await;
    let status = client.end().await;
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("shutting down"), "{status}");
    drop(client);
    soon(serving).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
    assert_eq!(handle.stats().await, Err(ServerEnded));
    assert_eq!(handle.apply(Transaction::new()).await, Err(ApplyError::Ended(ServerEnded)));
    assert_eq!(soon(handle.observations().next()).await, None);
    drop(server);
}

#[tokio::test]
async fn connection_that_stays_open_is_closed_after_the_shutdown_grace() {
    let options = ServerOptions::default().with_shutdown_grace(Duration::from_millis(50));
    let Running { handle, address, serving, .. } =
        start_with(ServerConfig::default(), options).await;
    // The client connects and sends nothing, so HTTP/2 has no graceful end.
    let silent = TcpStream::connect(address).await.unwrap();
    let mut client = RawClient::open(address).await;
    soon(handle.shut_down()).await;
    soon(serving).await.unwrap().unwrap();
    assert_eq!(client.end().await.code(), Code::Unavailable);
    soon(async {
        let mut byte = [0; 1_024];
        loop {
            silent.readable().await.unwrap();
            match silent.try_read(&mut byte) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    })
    .await;
}

#[tokio::test]
async fn shutdown_signal_ends_the_server() {
    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (signal, signalled) = oneshot::channel::<()>();
    let serving = {
        let server = server.clone();
        tokio::spawn(async move {
            server.serve_with_shutdown(listener, async { drop(signalled.await) }).await
        })
    };
    assert!(server.handle().stats().await.is_ok());
    signal.send(()).unwrap();
    soon(serving).await.unwrap().unwrap();
    assert_eq!(server.handle().stats().await, Err(ServerEnded));
}

#[tokio::test]
async fn driver_ends_when_the_last_handle_is_dropped() {
    let (server, driver) =
        ManagementServer::driver(ServerConfig::default(), ServerOptions::default());
    let driver = tokio::spawn(driver);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(server.serve(listener));
    drop(server);
    let mut client = RawClient::open(address).await;
    client.subscribe(CLUSTER, &["a"]);
    give_way().await;
    assert!(!driver.is_finished(), "it still serves");
    serving.abort();
    soon(driver).await.unwrap();
    assert_ne!(client.end().await.code(), Code::Ok);
}

#[tokio::test]
async fn server_with_a_dropped_driver_is_unavailable() {
    let (server, driver) =
        ManagementServer::driver(ServerConfig::default(), ServerOptions::default());
    let driver = tokio::spawn(driver);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let router = tonic::transport::Server::builder().add_routes(server.routes());
    tokio::spawn(router.serve_with_incoming(incoming));
    let mut client = RawClient::open(address).await;
    driver.abort();
    let status = client.end().await;
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let Err(status) = RawClient::call(address, AGGREGATED).await else { panic!("accepted") };
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    soon(server.handle().ended()).await;
}
