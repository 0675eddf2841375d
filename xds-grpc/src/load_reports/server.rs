//! Clusters whose load is reported to one server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tokio::sync::Notify;
use xds_core::{Time, client::ServerAddress, load_reports::LoadRequest, proto::ClusterStats};

use super::{counters::ClusterCounters, recorders::ClusterRecorder};
use crate::guard::locked;

/// Clusters whose load is reported to one server.
#[derive(Debug)]
pub(super) struct ServerReports {
    pub(super) address: ServerAddress,
    state: Mutex<ServerState>,
    /// Notified when a cluster may have lost its last recorder.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct ServerState {
    /// By the names of the cluster and of its EDS resource.
    clusters: BTreeMap<(String, String), Arc<ClusterCounters>>,
    has_task: bool,
}

impl ServerReports {
    pub(super) fn new(address: ServerAddress) -> Self {
        Self { address, state: Mutex::default(), changed: Notify::new() }
    }

    /// Returns a recorder of a cluster, and whether the caller has to start the task of the server.
    pub(super) fn cluster(
        self: &Arc<Self>,
        cluster: &str,
        service: &str,
        now: Time,
    ) -> (ClusterRecorder, bool) {
        let mut state = locked(&self.state);
        let key = (cluster.to_owned(), service.to_owned());
        let create = || Arc::new(ClusterCounters::new(cluster, service, now));
        let counters = state.clusters.entry(key).or_insert_with(create);
        let recorder = ClusterRecorder::new(counters, self);
        let needs_task = !core::mem::replace(&mut state.has_task, true);
        (recorder, needs_task)
    }

    /// Whether neither recorders nor a task exist.
    pub(super) fn is_unused(&self) -> bool {
        let state = locked(&self.state);
        !state.has_task && state.clusters.is_empty()
    }

    /// Takes the load of the requested clusters. The other counters are reset as well, because a
    /// report covers the time since the last one. Unused clusters are removed.
    pub(super) fn take(&self, request: &LoadRequest, now: Time) -> Vec<ClusterStats> {
        let mut taken = Vec::new();
        locked(&self.state).clusters.retain(|_, counters| {
            // Afterwards nobody can count here any more, if this is the only reference.
            let is_used = Arc::strong_count(counters) > 1;
            taken.extend(counters.take(now).filter(|_| request.includes(&counters.cluster)));
            is_used
        });
        taken
    }

    /// Removes unused clusters, whose last counts are lost. Returns whether there are others.
    pub(super) fn remove_unused(&self) -> bool {
        let mut state = locked(&self.state);
        state.clusters.retain(|_, counters| Arc::strong_count(counters) > 1);
        !state.clusters.is_empty()
    }

    pub(super) fn has_clusters(&self) -> bool {
        !locked(&self.state).clusters.is_empty()
    }

    /// Ends the task of the server if there are no clusters. Returns whether it ends.
    pub(super) fn end_task(&self) -> bool {
        let mut state = locked(&self.state);
        let ends = state.clusters.is_empty();
        state.has_task = !ends;
        ends
    }
}
