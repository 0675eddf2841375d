//! Tests of a client with a server of this repository over a socket file.

use std::{fs, io, path::PathBuf};

use smol::future::yield_now;
use xds_core::types::CLUSTER;
use xds_grpc::{
    ManagementServer,
    runtime::Listen,
    server::{ListenAddress, UnixSocket},
};

use super::pair::{Certificates, NAME, RequestMode, Served, client_of, cluster};
use crate::{
    folder::Folder,
    wait::{first_value, no_value, soon, value},
};

/// Directory with a socket file.
struct Socket {
    path: PathBuf,
    _folder: Folder,
}

impl Socket {
    fn new() -> Self {
        let folder = Folder::new();
        Self { path: folder.path("xds.sock"), _folder: folder }
    }

    fn address(&self) -> ListenAddress {
        UnixSocket::new(&self.path).into()
    }
}

pub(super) async fn stream<C: Listen + Default, S: Listen + Default>() {
    exchange::<C, S>(RequestMode::Stream).await;
}

pub(super) async fn polls<C: Listen + Default, S: Listen + Default>() {
    exchange::<C, S>(RequestMode::Poll).await;
}

async fn exchange<C: Listen + Default, S: Listen + Default>(mode: RequestMode) {
    let socket = Socket::new();
    let served = Served::<S>::start(None);
    served.set("a", "1s").await;
    let bound = served.listen_on(&socket.address(), mode).await;
    assert_eq!(bound.to_string(), format!("unix:{}", socket.path.display()));
    let client = client_of::<C>(&bound.to_string(), mode, None);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.bytes, cluster("a", "1s"));
    served.set("a", "2s").await;
    assert_eq!(value(&mut watch).await.bytes, cluster("a", "2s"));
}

/// TLS over a socket file: the certificate must be valid for `localhost` or for the
/// client's server name.
pub(super) async fn secured<C: Listen + Default, S: Listen + Default>() {
    let (socket, certificates) = (Socket::new(), Certificates::new());
    let served = Served::<S>::start(Some(&certificates));
    served.set("a", "1s").await;
    let uri = served.listen_on(&socket.address(), RequestMode::Stream).await.to_string();

    let deceived = client_of::<C>(&uri, RequestMode::Stream, Some(certificates.of_client()));
    let why = no_value(&mut deceived.watch_untyped(CLUSTER, "a")).await.to_string();
    assert!(why.contains("not valid for"), "{why}");

    let known = certificates.of_client().with_server_name(NAME).expect("it is one");
    let known = client_of::<C>(&uri, RequestMode::Stream, Some(known));
    assert_eq!(value(&mut known.watch_untyped(CLUSTER, "a")).await.bytes, cluster("a", "1s"));
}

/// A server does not replace the socket file of a running server. Its own file is removed with it.
pub(super) async fn file<C: Listen + Default, S: Listen + Default>() {
    let socket = Socket::new();
    let served = Served::<S>::start(None);
    served.set("a", "1s").await;
    let uri = served.listen_on(&socket.address(), RequestMode::Stream).await.to_string();
    let refused = ManagementServer::<S>::bind(&socket.address()).await.expect_err("it is in use");
    assert_eq!(refused.kind(), io::ErrorKind::AddrInUse, "{refused}");
    assert!(refused.to_string().contains("another server listens"), "{refused}");

    let client = client_of::<C>(&uri, RequestMode::Stream, None);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.bytes, cluster("a", "1s"));
    served.handle.shut_down().await;
    soon("the end of the file", async {
        while socket.path.exists() {
            yield_now().await;
        }
    })
    .await;

    // The socket file of a killed server is replaced.
    drop(std::os::unix::net::UnixListener::bind(&socket.path).expect("a socket"));
    assert!(fs::symlink_metadata(&socket.path).is_ok(), "it is left behind");
    let next = Served::<S>::start(None);
    next.set("a", "2s").await;
    next.listen_on(&socket.address(), RequestMode::Stream).await;
    assert_eq!(first_value(&mut watch).await.bytes, cluster("a", "2s"));
}
