//! Endpoints that clusters name: whether the client has requested them and warmed its clusters with
//! them.

use super::{
    MakeBeforeBreak, SessionView, Sessions, accepted::Progress, cold_clusters::SentCluster,
};
use crate::{
    server::{
        config::MakeBeforeBreakPolicy,
        event::BlockedBy,
        session::{
            pending::ResponsePosition, session_handle::SessionHandle, session_view::SentByName,
            subscriptions::Subscriptions,
        },
        store::{arena::ResourceEntry, revision::Revision},
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
    /// Revision up to which the response contains all clusters.
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

/// Facts from which it follows whether a client has warmed a cluster.
pub(crate) struct WarmingFacts<'a> {
    clusters: SessionView<'a>,
    endpoints: SessionView<'a>,
    /// Endpoints that the client has accepted.
    accepted: Progress,
    eds_wait: EdsWait,
}

impl<'a> WarmingFacts<'a> {
    /// Whether the client has requested certain endpoints.
    pub(crate) fn is_requested(&self, name: &ResourceName) -> bool {
        self.endpoints.is_requested(name)
    }

    /// Reason for which a version of a cluster that the client was sent is not warm.
    pub(crate) fn cold_because(
        &self,
        name: &ResourceName,
        sent: &SentCluster,
    ) -> Option<BlockedBy> {
        let clusters = self.clusters;
        let cluster = clusters.arena.at(clusters.arena.find(name.as_str())?)?;
        cluster.payload.as_ref()?;
        let is_newest = cluster.revision == sent.revision;
        let mut endpoints = sent.endpoints.names(name).iter();
        endpoints.find_map(|endpoints| self.missing_because(endpoints, sent.warms, is_newest))
    }

    /// Whether a cluster exists, or was removed and the client may still have it.
    pub(crate) fn may_have_cluster(&self, name: &ResourceName) -> bool {
        let Self { clusters, .. } = self;
        clusters.has_resource(name) || self.may_return(name)
    }

    /// Whether a cluster was removed and the client may still have it, so that it may come back while
    /// the client warms it.
    pub(crate) fn may_return(&self, name: &ResourceName) -> bool {
        let Self { clusters, .. } = self;
        let slot = clusters.arena.find(name.as_str());
        slot.is_some_and(|slot| clusters.arena.payload(slot).is_none()) && clusters.has_removals()
    }

    /// Whether the client has not answered the response with a cluster.
    pub(crate) fn is_unanswered(&self, sent: &SentCluster) -> bool {
        let accepted = self.clusters.accepted_here().map_or(0, |(nonce, _)| nonce);
        sent.nonce > accepted && self.clusters.session.awaits_answer()
    }

    /// Reason for which the client may not have accepted endpoints that were sent after a nonce.
    /// `is_newest` tells whether the newest version of a cluster names them.
    fn missing_because(
        &self,
        name: &ResourceName,
        warms: u64,
        is_newest: bool,
    ) -> Option<BlockedBy> {
        let Self { clusters, endpoints, accepted, eds_wait } = self;
        if !self.is_requested(name) {
            return Some(BlockedBy::NotRequested(name.clone()));
        }
        if *eds_wait == EdsWait::GaveUp {
            return None;
        }
        // Endpoints that were deleted before they were sent warm no cluster, unless all clusters were
        // sent since. A client that has rejected the newest version goes on with an earlier one.
        let slot = endpoints.arena.find(name.as_str());
        let Some(slot) = slot.filter(|_| endpoints.has_resource(name)) else {
            return match clusters.has_all() {
                false => Some(clusters.blocked_by()),
                true => (!is_newest).then_some(BlockedBy::Rejected),
            };
        };
        let sent = endpoints.last_sent_by_name(slot);
        if sent.is_some_and(|it| it.is_rejected) {
            return Some(BlockedBy::Rejected);
        }
        let is_missing = |it: SentByName| {
            let is_outdated =
                it.nonce < warms || endpoints.arena.recreated_after(slot, accepted.set);
            !it.has_version || it.nonce > accepted.nonce || it.is_due && is_outdated
        };
        // A returning client that has all endpoints may have stated them, and accepted none here.
        if sent.is_some_and(is_missing) && !endpoints.has_all() {
            return Some(endpoints.blocked_by());
        }
        if accepted.nonce >= warms || sent.is_some_and(|it| it.nonce >= warms) {
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

    /// Whether a cluster names endpoints that the client has not accepted.
    pub(crate) fn has_unaccepted(&self, cluster: &ResourceEntry) -> bool {
        let Self { endpoints, accepted, .. } = self;
        let mut names = cluster.endpoint_names.names(&cluster.name).iter();
        names.any(|name| endpoints.is_unaccepted(name, accepted.nonce))
    }

    /// Whether the client may have certain endpoints.
    pub(crate) fn may_have(&self, name: &ResourceName) -> bool {
        let Self { endpoints, .. } = self;
        let Some(slot) = endpoints.arena.find(name.as_str()) else { return false };
        match endpoints.last_sent_by_name(slot) {
            Some(sent) => sent.has_version,
            None => endpoints.session.has_wildcard(),
        }
    }

    /// Whether endpoints were removed and the client may still have them.
    pub(crate) fn has_removed(&self, name: &ResourceName) -> bool {
        !self.endpoints.has_resource(name) && self.may_have(name)
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
        deleted: Revision,
        sessions: &Sessions<'_>,
        policy: &MakeBeforeBreakPolicy,
    ) -> Option<BlockedBy> {
        // Without a CDS subscription on the stream, the names in clusters are unknown.
        let (named_by, endpoints) = (sessions.get(rank::CLUSTERS)?, sessions.get(rank::ENDPOINTS)?);
        // Deleted clusters that are still served may never have received the endpoints they named
        // last.
        if named_by.has_removals() {
            return Some(named_by.blocked_by());
        }
        // Clusters that a client requests by name are not followed.
        let is_followed = policy.references.is_some() && named_by.session.has_wildcard();
        let accepted = self.accepted(rank::ENDPOINTS, sessions);
        let clusters = self.accepted(rank::CLUSTERS, sessions);
        // The client has requested more endpoints since, or has to.
        let is_behind =
            accepted.set == Revision::START || !is_followed && accepted.nonce < clusters.nonce;
        if is_behind && !endpoints.has_all() {
            return Some(endpoints.blocked_by());
        }
        if is_followed {
            let facts = self.warming_facts(sessions)?;
            return self.cold.as_mut()?.first_using_removed(&facts);
        }
        if endpoints.rejected_since().is_some_and(|since| since <= deleted) {
            return Some(BlockedBy::Rejected);
        }
        policy.references.as_ref()?;
        self.clusters_blocked_by(sessions)
    }

    /// Facts about the clusters and endpoints of the client, if it has subscribed to both on the
    /// stream. A client without a subscription to endpoints may never request any. A client that has
    /// ended its subscriptions is waited for: Envoy subscribes again once it has clusters.
    // M150, M158
    pub(crate) fn warming_facts<'a>(&self, sessions: &Sessions<'a>) -> Option<WarmingFacts<'a>> {
        Some(WarmingFacts {
            clusters: sessions.get(rank::CLUSTERS)?,
            endpoints: sessions.get(rank::ENDPOINTS)?,
            accepted: self.accepted(rank::ENDPOINTS, sessions),
            eds_wait: self.eds_wait,
        })
    }

    /// Reason for which clusters that the client was sent are not in use yet, for lack of
    /// endpoints.
    pub(crate) fn clusters_blocked_by(&mut self, sessions: &Sessions<'_>) -> Option<BlockedBy> {
        let facts = self.warming_facts(sessions)?;
        let unrequested = match facts.clusters.session.has_wildcard() {
            true => self.unrequested(&facts),
            false => self.unrequested_by_name(&facts),
        };
        let unrequested = unrequested.map(BlockedBy::NotRequested);
        unrequested.or_else(|| self.cold.as_mut()?.first_cold(&facts))
    }

    /// Drops the clusters that the client has warmed.
    pub(crate) fn drop_warm_clusters(&mut self, sessions: &Sessions<'_>) {
        if let (Some(facts), Some(cold)) = (self.warming_facts(sessions), &mut self.cold) {
            cold.first_cold(&facts);
        }
        let endpoints = self.accepted(rank::ENDPOINTS, sessions).nonce;
        self.cold.take_if(|cold| cold.are_warm(endpoints));
    }

    /// First endpoints that a cluster of the client names and the client has not requested, if it
    /// has all clusters.
    fn unrequested(&mut self, facts: &WarmingFacts<'_>) -> Option<ResourceName> {
        if !facts.clusters.has_all() {
            return None;
        }
        for cluster in facts.clusters.arena.set_after(self.requested) {
            let mut names = cluster.endpoint_names.names(&cluster.name).iter();
            match names.find(|name| !facts.is_requested(name)) {
                None => self.requested = cluster.revision,
                Some(name) => return Some(name.clone()),
            }
        }
        None
    }

    fn unrequested_by_name(&mut self, facts: &WarmingFacts<'_>) -> Option<ResourceName> {
        let clusters = facts.clusters;
        let (requested, newest) =
            (self.requested_by_name, clusters.session.newest_response_position());
        if newest.nonce <= requested.nonce {
            return None;
        }
        // The client does not treat renewed or repeated clusters as new.
        let new = clusters.new_by_name(requested);
        let unrequested = new
            .flat_map(|cluster| cluster.endpoint_names.names(&cluster.name))
            .find(|name| !facts.is_requested(name));
        if unrequested.is_none() {
            self.requested_by_name = newest;
        }
        unrequested.cloned()
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
        if let Some(facts) = self.warming_facts(&sessions) {
            self.cold.iter_mut().for_each(|it| it.remove_unrequested(&facts));
        }
        let clusters = sessions.get(rank::CLUSTERS);
        self.requested_by_name = clusters
            .map_or_else(ResponsePosition::default, |it| it.session.newest_response_position());
    }
}
