//! Endpoints that clusters name: whether the client has requested them and warmed its clusters with
//! them.

use alloc::collections::BTreeSet;

use super::{MakeBeforeBreak, SessionView, Sessions, accepted::Progress};
use crate::{
    server::{
        config::MakeBeforeBreakPolicy,
        event::BlockedBy,
        session::{
            pending::ResponsePosition, session_handle::SessionHandle, subscription::Subscription,
            subscriptions::Subscriptions,
        },
        store::revision::Revision,
    },
    service::Variant,
    text::ResourceName,
    types::rank,
};

/// Whether to wait for the client to request endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EdsWait {
    #[default]
    Waiting,
    /// The client did not request endpoints within `stage_timeout`.
    GaveUp,
}

/// Response whose clusters a client uses and has requested endpoints for.
///
/// A client such as Envoy uses the valid clusters of a response that it rejects, unless it cannot
/// decode the response. It shows that by requesting endpoints, and does not request them again when
/// it is sent the same clusters again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClustersInUse {
    /// Revision of the store when the response was rendered.
    pub(crate) at: Revision,
    pub(crate) nonce: u64,
}

/// Meaning of a request for endpoints that does not answer a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum EdsRequestMeaning {
    /// No particular meaning.
    #[default]
    None,
    /// The client sends such requests when it has clusters to warm, possibly older ones.
    Warming,
    /// The client uses these clusters.
    Uses(ClustersInUse),
}

/// Endpoints of the clusters that a client was sent. Names move from the first set to the second
/// and are then removed, so the total cost is proportional to what was sent.
#[derive(Debug, Default)]
pub(crate) struct ExpectedEndpoints {
    /// Endpoints that the client may not have requested yet.
    unrequested: BTreeSet<ResourceName>,
    /// Endpoints that the client has requested and may not have accepted.
    requested: BTreeSet<ResourceName>,
}

impl ExpectedEndpoints {
    pub(crate) fn add(&mut self, name: &ResourceName) {
        self.unrequested.insert(name.clone());
    }

    /// Returns the first name that the client has not requested.
    fn first_unrequested(
        &mut self,
        is_requested: impl Fn(&ResourceName) -> bool,
    ) -> Option<ResourceName> {
        while let Some(name) = self.unrequested.pop_first() {
            if !is_requested(&name) {
                self.unrequested.insert(name.clone());
                return Some(name);
            }
            self.requested.insert(name);
        }
        None
    }

    /// Returns the reason for which the first name that is not ready is not.
    fn first_not_ready<T>(&mut self, not_ready: impl Fn(&ResourceName) -> Option<T>) -> Option<T> {
        while let Some(name) = self.requested.first().or_else(|| self.unrequested.first()) {
            let not_ready = not_ready(name);
            if not_ready.is_some() {
                return not_ready;
            }
            if self.requested.pop_first().is_none() {
                self.unrequested.pop_first();
            }
        }
        None
    }
}

impl MakeBeforeBreak {
    /// Records a request for endpoints that answers no response and unsubscribes from nothing.
    pub(crate) fn note_eds_request(&mut self) {
        match self.eds_request_meaning {
            EdsRequestMeaning::None => return,
            EdsRequestMeaning::Warming => {}
            EdsRequestMeaning::Uses(clusters) => self.in_use = clusters,
        }
        self.eds_wait = EdsWait::Waiting;
    }

    /// Reason for which the client may still use endpoints that no accepted cluster names: when a
    /// cluster changes to other endpoints, the old cluster stays in use while the new one warms.
    pub(crate) fn uses_old_endpoints(
        &mut self,
        endpoints: SessionView<'_>,
        deleted: Revision,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
        policy: &MakeBeforeBreakPolicy,
    ) -> Option<BlockedBy> {
        // Without a CDS subscription on the stream, the names in clusters are unknown.
        let named_by = sessions.get(rank::CLUSTERS)?;
        // Deleted clusters that are still served may never have received the endpoints they named
        // last.
        if named_by.session.has_removals(named_by.arena) {
            return Some(named_by.blocked_by());
        }
        let (accepted, clusters) = (self.accepted(rank::ENDPOINTS), self.accepted(rank::CLUSTERS));
        // The client has requested more endpoints since, or has to.
        let is_behind = accepted.set == Revision::START || accepted.nonce < clusters.nonce;
        if is_behind && !endpoints.has_all() {
            return Some(endpoints.blocked_by());
        }
        if self.has_rejected(rank::ENDPOINTS, endpoints, deleted) {
            return Some(BlockedBy::Rejected);
        }
        policy.references.as_ref()?;
        self.clusters_blocked_by(sessions, subscriptions)
    }

    /// Reason for which clusters that the client was sent are not in use yet, for lack of
    /// endpoints.
    pub(crate) fn clusters_blocked_by(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<BlockedBy> {
        match self.unrequested(sessions, subscriptions) {
            Some(name) => Some(BlockedBy::NotRequested(name)),
            None => self.warming_blocked_by(sessions, subscriptions),
        }
    }

    /// First endpoints that a cluster of the client names and the client has not requested.
    fn unrequested(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<ResourceName> {
        let clusters = sessions.get(rank::CLUSTERS)?;
        // A client without an EDS subscription on the stream may never request endpoints (M150,
        // M158). A client that has ended its subscriptions is waited for: Envoy subscribes again
        // once it has clusters.
        let endpoints = sessions.get(rank::ENDPOINTS)?;
        let is_covered = |endpoints: SessionView<'_>, name: &ResourceName| {
            let mut globs = endpoints.arena.globs_over(name.as_str()).into_iter();
            globs.any(|glob| subscriptions.table.find(endpoints.slot, glob).is_some())
        };
        let is_requested = |name: &ResourceName| {
            let resource = || endpoints.arena.find(name.as_str());
            let subscription = || subscriptions.table.find(endpoints.slot, resource()?);
            endpoints.session.has_wildcard()
                || subscription().is_some()
                || is_covered(endpoints, name)
        };
        if !clusters.session.has_wildcard() {
            return self.unrequested_by_name(clusters, subscriptions, is_requested);
        }
        if !clusters.has_all() {
            // Other clusters are due, but the client has these.
            return self.expected.first_unrequested(is_requested);
        }
        for cluster in clusters.arena.set_after(self.requested) {
            match cluster
                .endpoint_names
                .names(&cluster.name)
                .iter()
                .find(|name| !is_requested(name))
            {
                None => self.requested = cluster.revision,
                Some(name) => return Some(name.clone()),
            }
        }
        None
    }

    fn unrequested_by_name(
        &mut self,
        clusters: SessionView<'_>,
        subscriptions: &Subscriptions,
        is_requested: impl Fn(&ResourceName) -> bool,
    ) -> Option<ResourceName> {
        let (requested, newest) =
            (self.requested_by_name, clusters.session.newest_response_position());
        if newest.nonce <= requested.nonce {
            return None;
        }
        // The client does not treat renewed or repeated clusters as new.
        let new = clusters.session.new_by_name(requested, clusters.arena, &subscriptions.table);
        let unrequested = new
            .flat_map(|cluster| cluster.endpoint_names.names(&cluster.name))
            .find(|name| !is_requested(name));
        if unrequested.is_none() {
            self.requested_by_name = newest;
        }
        unrequested.cloned()
    }

    /// Reason for which clusters that the client was sent are not warm.
    fn warming_blocked_by(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<BlockedBy> {
        let endpoints = sessions.get(rank::ENDPOINTS)?;
        let Progress { warms, warms_from, .. } = self.accepted(rank::CLUSTERS);
        let is_warm = self.accepted(rank::ENDPOINTS).nonce >= warms;
        let clusters = sessions.get(rank::CLUSTERS)?;
        if self.eds_wait == EdsWait::GaveUp {
            return None;
        }
        if is_warm {
            let accepted = self.accepted(rank::ENDPOINTS).nonce;
            let not_ready = |name: &ResourceName| {
                // Endpoints that were deleted before they were sent warmed no cluster, unless all
                // clusters were sent since.
                let slot = endpoints.arena.find(name.as_str());
                let Some(slot) = slot.filter(|_| endpoints.has_resource(name)) else {
                    return (!clusters.has_all()).then(|| clusters.blocked_by());
                };
                // Nor did endpoints that were created after the request, or again after the clusters,
                // until they are sent.
                let subscription = subscriptions.table.of(endpoints.slot, slot)?;
                let Subscription { sent, due, .. } = *subscription;
                (sent == 0 || sent > accepted || sent < warms && due.is_some())
                    .then(|| endpoints.blocked_by())
            };
            return self.expected.first_not_ready(not_ready);
        }
        if clusters.has_all() && !has_to_warm(clusters, endpoints, warms_from) {
            return None;
        }
        match (endpoints.has_all(), endpoints.session.variant()) {
            (false, _) => Some(endpoints.blocked_by()),
            (true, Variant::StateOfTheWorld) => Some(BlockedBy::NotRequestedAgain),
            // The client has been sent all endpoints to warm with, unless they were deleted before;
            // then the clusters are deleted too.
            (true, Variant::Incremental) if clusters.has_all() => None,
            (true, Variant::Incremental) => Some(clusters.blocked_by()),
        }
    }

    /// Stops waiting for the client to request the endpoints of its clusters.
    pub(crate) fn stop_expecting(
        &mut self,
        reason: &BlockedBy,
        handles: &[SessionHandle],
        subscriptions: &Subscriptions,
    ) {
        if *reason == BlockedBy::NotRequestedAgain {
            self.eds_wait = EdsWait::GaveUp;
            return;
        }
        let sessions = Sessions::of(handles, subscriptions);
        self.requested = subscriptions.store.clock();
        self.expected = ExpectedEndpoints::default();
        let clusters = sessions.get(rank::CLUSTERS);
        self.requested_by_name = clusters
            .map_or_else(ResponsePosition::default, |it| it.session.newest_response_position());
    }
}

/// Whether a cluster was set after a revision and warms with endpoints that exist.
fn has_to_warm(clusters: SessionView<'_>, endpoints: SessionView<'_>, from: Revision) -> bool {
    let exists = |name: &ResourceName| endpoints.has_resource(name);
    let mut new = clusters.arena.set_after(from);
    new.any(|cluster| cluster.endpoint_names.names(&cluster.name).iter().any(exists))
}
