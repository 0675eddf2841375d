//! Routing state of a channel, as its calls see it.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{mpsc, watch};
use xds_core::ResourceName;
use xds_grpc::clock::Clock;
use xds_routing::{balancer::SessionRequest, dependencies::ResolutionNote, router::Router};

use crate::{
    cluster::ClusterState,
    events::DriverEvent,
    status::{self, Waiting},
};

/// Routing state of a channel.
#[derive(Clone, Debug)]
pub(crate) enum Routing {
    /// Unknown yet: calls wait.
    Unknown,
    /// Calls fail for this reason.
    Failing(Arc<str>),
    Known(Arc<RoutingTable>),
}

/// Routes with their clusters.
#[derive(Debug)]
pub(crate) struct RoutingTable {
    pub(crate) router: Router,
    pub(crate) clusters: BTreeMap<ResourceName, Arc<ClusterRef>>,
    /// Resolution note for calls that fail before a cluster is chosen.
    pub(crate) note: ResolutionNote,
}

/// Keeps a cluster alive for routes and calls that use it.
// B26
#[derive(Debug)]
pub(crate) struct ClusterRef {
    name: ResourceName,
    pub(crate) state: watch::Receiver<ClusterState>,
    events: mpsc::UnboundedSender<DriverEvent>,
    node_id: Arc<str>,
    /// Clock of the balancer.
    pub(crate) clock: Clock,
}

impl ClusterRef {
    pub(crate) fn new(
        name: ResourceName,
        state: watch::Receiver<ClusterState>,
        events: mpsc::UnboundedSender<DriverEvent>,
        node_id: Arc<str>,
        clock: Clock,
    ) -> Self {
        Self { name, state, events, node_id, clock }
    }

    /// Sends the request of a call of a session to the balancer, which then creates a new picker.
    pub(crate) fn request(&self, serial: u64, request: SessionRequest) {
        let event = DriverEvent::Session { cluster: self.name.clone(), serial, request };
        let _ = self.events.send(event);
    }

    /// Returns the state of the cluster, for error messages.
    pub(crate) fn waiting(&self) -> Waiting {
        match &*self.state.borrow() {
            ClusterState::Failing(why) => {
                Waiting::Failing(why.message(status::node_note(&self.node_id)))
            }
            ClusterState::Picking(picking) => {
                let note = picking.cluster.note.to_string();
                match picking.connections.is_empty() {
                    true => Waiting::For("a connection to an endpoint".into(), note),
                    false => Waiting::Noted(note),
                }
            }
            ClusterState::Unknown => Waiting::unresolved(&self.node_id),
        }
    }

    /// Returns the resolution note: known errors of the cluster's resources, or the node id.
    // S3.091
    pub(crate) fn note(&self) -> String {
        let known = match &*self.state.borrow() {
            ClusterState::Failing(why) => why.note().map(Into::into),
            ClusterState::Picking(picking) => Some(picking.cluster.note.to_string()),
            ClusterState::Unknown => None,
        };
        known.unwrap_or_else(|| status::node_note(&self.node_id))
    }
}

impl Drop for ClusterRef {
    fn drop(&mut self) {
        let _ = self.events.send(DriverEvent::Released(self.name.clone()));
    }
}
