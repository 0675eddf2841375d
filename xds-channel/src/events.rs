//! Events for the driver of a channel.

use xds_core::ResourceName;
use xds_routing::balancer::{ConnectionId, SessionRequest};

use crate::dial::DialEvent;

/// Event for the driver.
#[derive(Debug)]
pub(crate) enum DriverEvent {
    /// Event of a connection of the cluster with this serial number.
    Connection { cluster: ResourceName, serial: u64, id: ConnectionId, event: DialEvent },
    /// Request of a call of a session to the cluster with this serial number.
    Session { cluster: ResourceName, serial: u64, request: SessionRequest },
    /// The last [`ClusterRef`](crate::routing::ClusterRef) of a cluster was dropped.
    Released(ResourceName),
}
