//! Events for the driver of a channel.

use xds_core::ResourceName;
use xds_routing::balancer::ConnectionId;

use crate::dial::ConnectionNews;

/// Event for the driver.
#[derive(Debug)]
pub(crate) enum News {
    /// Event of a connection of the cluster with this serial number.
    Connection { cluster: ResourceName, serial: u64, id: ConnectionId, news: ConnectionNews },
    /// The last [`Hold`](crate::routing::Hold) of a cluster was dropped.
    Released(ResourceName),
}
