//! Clusters of a response: those that the client has to warm.
// M151, IS17, IS18

use super::{
    MakeBeforeBreak, SessionView, Sessions,
    cold_clusters::SentCluster,
    warming::{ClustersInUse, EdsRequestMeaning, WarmingFacts},
};
use crate::{
    server::{
        config::Warming,
        store::{
            arena::{ResourceEntry, endpoint_names::EndpointNames},
            revision::Revision,
        },
    },
    service::Variant,
    slab::Slot,
    types::rank,
};

/// Newest response with clusters, before it is recorded.
struct ClusterResponse<'a> {
    clusters: SessionView<'a>,
    /// Facts about the endpoints, if the client has subscribed to any.
    endpoints: Option<WarmingFacts<'a>>,
    in_full: bool,
    /// Revision up to which a returning client states to have all clusters.
    stated: Revision,
    /// Revision at which the client was last sent the newest version of all clusters.
    since: Revision,
    /// Revision up to which the client may have been sent clusters while the server did not know
    /// which ones it has.
    unknown_to: Revision,
    /// Revision up to which the client has accepted all removals.
    removed_to: Revision,
}

impl<'a> ClusterResponse<'a> {
    /// Whether the client treats a cluster as new. A client that is sent all clusters does so with
    /// those that changed.
    fn is_new(&self, slot: Slot, cluster: &ResourceEntry) -> bool {
        let Self { clusters, .. } = self;
        !self.in_full || cluster.revision > self.stated && !clusters.has_current(slot)
    }

    /// Whether the response contains the newest version of a cluster. A full state contains earlier
    /// versions while rejected resources are sent alone.
    fn contains(&self, cluster: &ResourceEntry) -> bool {
        let session = self.clusters.session;
        let state = self.in_full.then(|| session.kept_state(session.newest_nonce())).flatten();
        state.is_none_or(|state| {
            let sent = state.get(&cluster.name).map(|sent| sent.hash);
            sent == cluster.payload.as_ref().map(|payload| payload.hash)
        })
    }

    /// Whether a cluster names endpoints that the client has not accepted. It may not have warmed the
    /// cluster before they existed.
    fn has_unaccepted(&self, cluster: &ResourceEntry) -> bool {
        self.endpoints.as_ref().is_some_and(|facts| facts.has_unaccepted(cluster))
    }

    /// Returns other endpoints that the version of a cluster that the client used before may name.
    /// Endpoints are not removed from a client that is sent all clusters.
    fn names_before(
        &self,
        slot: Slot,
        cluster: &ResourceEntry,
    ) -> impl Iterator<Item = EndpointNames> + use<'a> {
        // The client may not have been told of the removal of a cluster that came back since.
        let (since, known_to) = match cluster.created > self.since {
            true => (Revision::START, self.removed_to),
            false => (self.since, self.since),
        };
        let arena = self.clusters.arena;
        let unknown = (known_to < self.unknown_to).then_some(&EndpointNames::Unknown);
        let known = arena.earlier_endpoints(slot, since);
        let names = (!self.in_full).then(|| unknown.into_iter().chain(known));
        names.into_iter().flatten().cloned()
    }

    fn may_have(&self, cluster: &ResourceEntry, names: &EndpointNames) -> bool {
        let facts = self.endpoints.as_ref();
        facts.is_some_and(|facts| names.may_be_any(&cluster.name, |name| facts.may_have(name)))
    }
}

impl MakeBeforeBreak {
    /// Returns the facts about the newest response with clusters.
    fn cluster_response<'a>(
        &mut self,
        clusters: SessionView<'a>,
        sessions: &Sessions<'a>,
        clock: Revision,
    ) -> ClusterResponse<'a> {
        let is_returning = clusters.accepted_here().is_none();
        if is_returning {
            self.unknown_to = clock;
        }
        let sent = self.progress.sent(rank::CLUSTERS, Some(clusters));
        ClusterResponse {
            clusters,
            endpoints: self.warming_facts(sessions),
            in_full: clusters.session.variant() == Variant::StateOfTheWorld,
            stated: if is_returning { self.stated } else { Revision::START },
            since: sent.set,
            unknown_to: self.unknown_to,
            removed_to: self.accepted(rank::CLUSTERS, sessions).deleted,
        }
    }

    /// Records the clusters of the newest response that the client has to warm.
    pub(crate) fn note_clusters(
        &mut self,
        clusters: SessionView<'_>,
        sessions: &Sessions<'_>,
        clock: Revision,
        warming: Warming,
    ) {
        let nonce = clusters.session.newest_nonce();
        let response = self.cluster_response(clusters, sessions, clock);
        // A full state contains rejected resources again.
        let (from, to) = match response.in_full {
            true => (self.accepted(rank::CLUSTERS, sessions).set, clusters.arena.clock()),
            false => clusters.session.newest_cursor_range().unwrap_or_default(),
        };
        let mut cold = self.cold.take().unwrap_or_default();
        let were_warming = cold.warms > self.accepted(rank::ENDPOINTS, sessions).nonce;
        let (mut has_new, mut at) = (false, clock);
        for slot in clusters.arena.slots_between(from, to) {
            let Some(cluster) = clusters.arena.at(slot) else { continue };
            if !response.contains(cluster) {
                at = at.min(cluster.revision.before());
                continue;
            }
            let (name, revision) = (&cluster.name, cluster.revision);
            let (is_new, known) = (response.is_new(slot, cluster), cold.get(name));
            let is_recorded = known.map(|known| known.revision == revision);
            if !is_new && is_recorded.unwrap_or_else(|| !response.has_unaccepted(cluster)) {
                continue;
            }
            // A cluster without endpoints of its own is warm, unless the client rejects it.
            if known.is_none() && cluster.endpoint_names.names(name).is_empty() {
                continue;
            }
            let was_in_use = response.in_full && revision <= self.in_use.at;
            has_new |= is_new && !was_in_use;
            let warms = match warming {
                Warming::AfterClusters if is_new && was_in_use => self.in_use.nonce,
                Warming::AfterClusters if is_new => nonce,
                _ => known.map_or(0, |known| known.warms),
            };
            let endpoints = cluster.endpoint_names.clone();
            let sent = SentCluster { revision, endpoints, nonce, warms };
            let before = response.names_before(slot, cluster);
            cold.add(name, sent, before, |names| response.may_have(cluster, names));
        }
        // The client loses the clusters that the response leaves out.
        self.in_use.at = self.in_use.at.min(at);
        cold.sweep(clusters.arena);
        self.cold = Some(cold);
        self.eds_request_meaning = match warming {
            Warming::AfterClusters if response.in_full && has_new && were_warming => {
                EdsRequestMeaning::Warming
            }
            Warming::AfterClusters if response.in_full && has_new => {
                EdsRequestMeaning::Uses(ClustersInUse { at, nonce })
            }
            _ => EdsRequestMeaning::None,
        };
    }
}
