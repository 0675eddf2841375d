//! Helpers for clients and resources. Scripted peers are in the submodules.

mod fake;
pub(crate) mod log;
mod raw;
mod raw_client;
pub(crate) mod server;
pub(crate) mod tls;

use core::{future::poll_fn, task::Poll, time::Duration};
use std::net::SocketAddr;

use bytes::Bytes;
use prost::Message as _;
use tokio::{
    net::{TcpListener, TcpSocket},
    time::timeout,
};
use xds_core::{
    client::{
        BackoffPolicy, Change, ClientConfig, InvalidWatch, Node, Notice, OpaqueType, Profile,
        Rejection, Resource, ResourceType, ServerAddress, ValidationContext as TypeContext, Value,
        WatchError,
    },
    proto::{Any, DiscoveryResponse},
    types,
};
use xds_tokio::{Watch, WatchAll};

pub(crate) use self::{
    fake::{FakeServer, FakeStream, Headers},
    raw_client::{AGGREGATED, DELTA_AGGREGATED, RawClient, connect},
};

pub(crate) const CLUSTER: &str = types::CLUSTER;
pub(crate) const ENDPOINTS: &str = types::CLUSTER_LOAD_ASSIGNMENT;
pub(crate) const SECRET: &str = types::SECRET;

/// Timeout that only a failing test reaches, even on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Awaits a future with a timeout.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("this should have happened by now")
}

// Clients.

/// Returns a client configuration with a backoff of milliseconds.
pub(crate) fn config(address: SocketAddr) -> ClientConfig {
    let mut profile = Profile::grpc();
    profile.backoff = BackoffPolicy::grpc();
    profile.backoff.initial = Duration::from_millis(20);
    profile.backoff.max = Duration::from_millis(100);
    ClientConfig::new(Node::new("node-1"), ServerAddress::new(address.to_string()))
        .with_profile(profile)
        .with_type(NoBadOnes(OpaqueType::new(CLUSTER)))
        .with_type(OpaqueType::new(ENDPOINTS))
        .with_type(OpaqueType::new(SECRET))
}

/// Resource type that rejects resources containing the word "bad".
#[derive(Debug)]
struct NoBadOnes(OpaqueType);

impl ResourceType for NoBadOnes {
    fn type_url(&self) -> &xds_core::TypeUrl {
        self.0.type_url()
    }

    fn validate(&self, bytes: &Bytes, _: &TypeContext<'_>) -> Result<Option<Value>, Rejection> {
        if bytes.windows(3).any(|word| word == b"bad") {
            return Err(Rejection::new("it is bad"));
        }
        Ok(None)
    }
}

/// Returns an encoded resource: the name in the first field, `content` in the second.
pub(crate) fn resource(name: &str, content: &str) -> Bytes {
    xds_core::proto::ResourceName { name: name.into(), ..Default::default() }
        .encode_to_vec()
        .into_iter()
        .chain(
            xds_core::proto::Status { message: content.into(), ..Default::default() }
                .encode_to_vec(),
        )
        .collect::<Vec<u8>>()
        .into()
}

pub(crate) async fn next(watch: &mut Watch) -> Notice {
    soon(watch.next()).await.expect("the client lives").expect("the watch is sound")
}

pub(crate) async fn value(watch: &mut Watch) -> Resource {
    match next(watch).await {
        Notice::Changed(Ok(resource)) => resource,
        other => panic!("no value but {other:?}"),
    }
}

pub(crate) async fn no_value(watch: &mut Watch) -> WatchError {
    match next(watch).await {
        Notice::Changed(Err(error)) => error,
        other => panic!("no error but {other:?}"),
    }
}

pub(crate) async fn next_change(watch: &mut WatchAll) -> Change {
    let change: Option<Result<Change, InvalidWatch>> = soon(watch.next()).await;
    change.expect("the client lives").expect("the watch is sound")
}

/// Bound socket that refuses connections and reserves its address.
pub(crate) struct Deaf(TcpSocket);

impl Deaf {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Starts to accept connections.
    pub(crate) fn listen(self) -> TcpListener {
        self.0.listen(16).unwrap()
    }
}

/// Returns the names of a response's resources.
pub(crate) fn names(response: &DiscoveryResponse) -> Vec<String> {
    let any_type = OpaqueType::new(CLUSTER);
    let name = |any: &Any| any_type.name(&any.value).unwrap().to_owned();
    response.resources.iter().map(name).collect()
}

/// Yields to all other tasks of a current-thread runtime.
pub(crate) async fn give_way() {
    for _ in 0..100 {
        let mut yielded = false;
        poll_fn(|cx| {
            if core::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
