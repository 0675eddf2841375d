//! Node of a client, by which a server chooses its view.

use xds_core::proto::{self, value::Kind};
use xds_grpc::server::{AuthorizationRequest, Peer};

/// Node of a client that subscribes, with the identity of its connection.
///
/// A client can send any node. Only the [peer](Self::peer) is authenticated, and only if the server
/// requires client certificates.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    node: proto::Node,
    peer: Peer,
}

impl NodeInfo {
    pub(super) fn of(request: &AuthorizationRequest) -> Self {
        // A node that does not decode counts as an empty one, except for its id.
        let mut node = request.node().unwrap_or_default();
        node.id = (*request.node_id).into();
        Self { node, peer: request.peer.clone() }
    }

    /// Returns the id; empty if the client sent none.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.node.id
    }

    /// Returns the cluster, the name of the service that the client belongs to; empty if the client
    /// sent none.
    #[must_use]
    pub fn cluster(&self) -> &str {
        &self.node.cluster
    }

    /// Returns the region; empty if the client sent none.
    #[must_use]
    pub fn region(&self) -> &str {
        self.node.locality.as_ref().map_or("", |locality| &locality.region)
    }

    /// Returns the zone; empty if the client sent none.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.node.locality.as_ref().map_or("", |locality| &locality.zone)
    }

    /// Returns the sub-zone; empty if the client sent none.
    #[must_use]
    pub fn sub_zone(&self) -> &str {
        self.node.locality.as_ref().map_or("", |locality| &locality.sub_zone)
    }

    /// Returns the metadata value with this name if it is a string; otherwise `None`.
    #[must_use]
    pub fn metadata(&self, name: &str) -> Option<&str> {
        match self.node.metadata.as_ref()?.fields.get(name)?.kind.as_ref()? {
            Kind::StringValue(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the complete node.
    #[must_use]
    pub const fn node(&self) -> &proto::Node {
        &self.node
    }

    /// Returns the address and the certificate of the client.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }
}
