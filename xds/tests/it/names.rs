//! Types that a program gets from clients and servers, and has to name in its own signatures.

use xds::{
    Client, ManagementServer,
    client::{
        InvalidAddress, Service,
        handle::{ClientEnded, ClientHandle, ResourceSnapshot, WatchAll, WeakClientHandle},
    },
    server::{
        ConvergenceError, ListenAddress, Listener, NodeInfo, Peer, RejectionSnapshot, ServerHandle,
        SetLayersError, SubscriptionSnapshot, TransportStats, UnixSocket,
    },
    types,
};

use crate::support::{server, soon};

/// Handles of a client, as a program stores them.
struct Handles {
    client: ClientHandle,
    weak: WeakClientHandle,
    clusters: WatchAll,
}

impl Handles {
    fn of(client: &Client) -> Self {
        let client = client.handle().clone();
        let (weak, clusters) = (client.downgrade(), client.watch_all_untyped(types::CLUSTER));
        Self { client, weak, clusters }
    }

    async fn resources(&self) -> Result<Vec<ResourceSnapshot>, ClientEnded> {
        self.client.status().await
    }
}

/// Reports of a server, as a program prints them.
struct Reports {
    subscriptions: Vec<SubscriptionSnapshot>,
    rejections: Vec<RejectionSnapshot>,
    transport: TransportStats,
}

impl Reports {
    async fn of(server: &ServerHandle) -> Self {
        Self {
            subscriptions: server.status().await.unwrap(),
            rejections: server.rejections().await.unwrap(),
            transport: server.transport_stats(),
        }
    }
}

const fn peer_of(node: &NodeInfo) -> &Peer {
    node.peer()
}

#[tokio::test]
async fn types_of_handles_can_be_named() {
    let server: ManagementServer = server().await;
    let client = Client::connect(server.address().to_string()).node_id("test").start().unwrap();
    let handles = Handles::of(&client);
    assert!(handles.weak.upgrade().is_some() && !handles.clusters.is_caught_up());
    assert_eq!(soon(handles.resources()).await.unwrap().len(), 0);
    let reports = Reports::of(&server.handle()).await;
    assert_eq!((reports.subscriptions.len(), reports.rejections.len()), (0, 0));
    assert_eq!(reports.transport.refused_requests, 0);
    let addresses = [ListenAddress::from(UnixSocket::new("/run/xds.sock").with_mode(0o660))];
    assert!(matches!(&addresses[0], ListenAddress::Unix(_)));
    let _ = (peer_of, size_of::<(ConvergenceError, SetLayersError, InvalidAddress, Service)>());
    let _ = size_of::<Listener<(), ()>>();
}
