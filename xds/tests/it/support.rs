//! Messages, servers and time limits of the tests.

use core::time::Duration;

use tokio::time::timeout;
use xds::{ManagementServer, types};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Cluster {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "28")]
    pub(crate) alt_stat_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Endpoints {
    #[prost(string, tag = "1")]
    pub(crate) cluster_name: String,
}

xds::resource_message!(Cluster, types::CLUSTER, name);
xds::resource_message!(Endpoints, types::CLUSTER_LOAD_ASSIGNMENT, cluster_name);

pub(crate) fn cluster(name: &str, stat: &str) -> Cluster {
    Cluster { name: name.into(), alt_stat_name: stat.into() }
}

/// Starts a server on a free port.
pub(crate) async fn server() -> ManagementServer {
    ManagementServer::builder().bind("127.0.0.1:0").await.unwrap()
}

/// Waits for a future, which must complete within 30 s.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.expect("it takes longer than 30 s")
}
