//! Endpoints that clusters name: whether the client has requested them and warmed its clusters with
//! them.

use alloc::collections::BTreeSet;

use super::{Gate, Sessions, View, accepted::Mark};
use crate::{
    server::{
        config::AckGated,
        event::HeldBy,
        session::{pending::Rendering, seat::Seat, subscriptions::Subscriptions},
        store::revision::Stamp,
    },
    service::Variant,
    text::ResourceName,
    types::rank,
};

/// Whether to wait for the client to request endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    #[default]
    Waits,
    /// The client did not request endpoints within `stage_timeout`.
    Lost,
}

/// Response whose clusters a client uses and has requested endpoints for.
///
/// A client such as Envoy uses the valid clusters of a response that it rejects, unless it cannot
/// decode the response. It shows that by requesting endpoints, and does not request them again when
/// it is sent the same clusters again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Revision of the store when the response was rendered.
    pub(crate) at: Stamp,
    pub(crate) nonce: u64,
}

/// Meaning of a request for endpoints that does not answer a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Asks {
    /// No particular meaning.
    #[default]
    Nothing,
    /// The client sends such requests when it has clusters to warm, possibly older ones.
    Again,
    /// The client uses these clusters.
    For(Taken),
}

/// Endpoints of the clusters that a client was sent. Names move from the first set to the second
/// and are then removed, so the total cost is proportional to what was sent.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Endpoints that the client may not have requested yet.
    unasked: BTreeSet<ResourceName>,
    /// Endpoints that the client has requested and may not have accepted.
    asked: BTreeSet<ResourceName>,
}

impl Expected {
    pub(crate) fn add(&mut self, name: &ResourceName) {
        self.unasked.insert(name.clone());
    }

    /// Returns the first name that the client has not requested.
    fn first_unasked(&mut self, is_asked: impl Fn(&ResourceName) -> bool) -> Option<ResourceName> {
        while let Some(name) = self.unasked.pop_first() {
            if !is_asked(&name) {
                self.unasked.insert(name.clone());
                return Some(name);
            }
            self.asked.insert(name);
        }
        None
    }

    /// Returns the reason for which the first name that is not ready is not.
    fn first_lack<T>(&mut self, lack: impl Fn(&ResourceName) -> Option<T>) -> Option<T> {
        while let Some(name) = self.asked.first().or_else(|| self.unasked.first()) {
            let lack = lack(name);
            if lack.is_some() {
                return lack;
            }
            if self.asked.pop_first().is_none() {
                self.unasked.pop_first();
            }
        }
        None
    }
}

impl Gate {
    /// Records a request for endpoints that answers no response and unsubscribes from nothing.
    pub(crate) fn note_asked(&mut self) {
        match self.asks {
            Asks::Nothing => return,
            Asks::Again => {}
            Asks::For(taken) => self.taken = taken,
        }
        self.for_warming = Patience::Waits;
    }

    /// Reason for which the client may still use endpoints that no accepted cluster names: when a
    /// cluster changes to other endpoints, the old cluster stays in use while the new one warms.
    pub(crate) fn uses_old_endpoints(
        &mut self,
        endpoints: View<'_>,
        deleted: Stamp,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
        policy: &AckGated,
    ) -> Option<HeldBy> {
        // Without a CDS subscription on the stream, the names in clusters are unknown.
        let named_by = sessions.get(rank::CLUSTERS)?;
        // Deleted clusters that are still served may never have received the endpoints they named
        // last.
        if named_by.session.has_removals(named_by.arena) {
            return Some(named_by.why_not());
        }
        let (accepted, clusters) = (self.accepted(rank::ENDPOINTS), self.accepted(rank::CLUSTERS));
        // The client has requested more endpoints since, or has to.
        let is_behind = accepted.set == Stamp::START || accepted.nonce < clusters.nonce;
        if is_behind && !endpoints.has_all() {
            return Some(endpoints.why_not());
        }
        if self.has_refused(rank::ENDPOINTS, endpoints, deleted) {
            return Some(HeldBy::Rejected);
        }
        policy.references.as_ref()?;
        self.has_cold_clusters(sessions, subscriptions)
    }

    /// Reason for which clusters that the client was sent are not in use yet, for lack of
    /// endpoints.
    pub(crate) fn has_cold_clusters(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<HeldBy> {
        match self.unasked(sessions, subscriptions) {
            Some(name) => Some(HeldBy::NotAsked(name)),
            None => self.unwarmed(sessions, subscriptions),
        }
    }

    /// First endpoints that a cluster of the client names and the client has not requested.
    fn unasked(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<ResourceName> {
        let clusters = sessions.get(rank::CLUSTERS)?;
        // A client without an EDS subscription on the stream may never request endpoints (M150,
        // M158). A client that has ended its subscriptions is waited for: Envoy subscribes again
        // once it has clusters.
        let endpoints = sessions.get(rank::ENDPOINTS)?;
        let is_covered = |endpoints: View<'_>, name: &ResourceName| {
            let mut globs = endpoints.arena.globs_over(name.as_str()).into_iter();
            globs.any(|glob| subscriptions.edges.find(endpoints.slot, glob).is_some())
        };
        let is_asked = |name: &ResourceName| {
            let resource = || endpoints.arena.find(name.as_str());
            let edge = || subscriptions.edges.find(endpoints.slot, resource()?);
            endpoints.session.has_wildcard() || edge().is_some() || is_covered(endpoints, name)
        };
        if !clusters.session.has_wildcard() {
            return self.unasked_by_name(clusters, subscriptions, is_asked);
        }
        if !clusters.has_all() {
            // Other clusters are due, but the client has these.
            return self.expected.first_unasked(is_asked);
        }
        for cluster in clusters.arena.set_after(self.asked) {
            match cluster.needs.names(&cluster.name).iter().find(|name| !is_asked(name)) {
                None => self.asked = cluster.stamp,
                Some(name) => return Some(name.clone()),
            }
        }
        // Names are kept until the client has been sent the endpoints that its clusters warm with.
        if self.accepted(rank::ENDPOINTS).nonce >= self.accepted(rank::CLUSTERS).warms {
            self.expected = Expected::default();
        }
        None
    }

    fn unasked_by_name(
        &mut self,
        clusters: View<'_>,
        subscriptions: &Subscriptions,
        is_asked: impl Fn(&ResourceName) -> bool,
    ) -> Option<ResourceName> {
        let (asked, newest) = (self.asked_by_name, clusters.session.newest_rendering());
        if newest.nonce <= asked.nonce {
            return None;
        }
        // The client does not treat renewed or repeated clusters as new.
        let new = clusters.session.new_by_name(asked, clusters.arena, &subscriptions.edges);
        let unasked =
            new.flat_map(|cluster| cluster.needs.names(&cluster.name)).find(|name| !is_asked(name));
        if unasked.is_none() {
            self.asked_by_name = newest;
        }
        unasked.cloned()
    }

    /// Reason for which clusters that the client was sent are not warm.
    fn unwarmed(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<HeldBy> {
        let endpoints = sessions.get(rank::ENDPOINTS)?;
        let Mark { warms, warms_from, .. } = self.accepted(rank::CLUSTERS);
        let is_warm = self.accepted(rank::ENDPOINTS).nonce >= warms;
        let clusters = sessions.get(rank::CLUSTERS)?;
        if self.for_warming == Patience::Lost {
            return None;
        }
        if is_warm && !clusters.has_all() {
            let accepted = self.accepted(rank::ENDPOINTS).nonce;
            let lack = |name: &ResourceName| {
                // Endpoints that were deleted before they were sent warmed no cluster; other
                // clusters are due.
                let slot = endpoints.arena.find(name.as_str());
                let Some(slot) = slot.filter(|_| endpoints.has_resource(name)) else {
                    return Some(clusters.why_not());
                };
                // Endpoints that were created after the request have not warmed a cluster until
                // they are sent.
                let edge = subscriptions.edges.find(endpoints.slot, slot);
                let edge = subscriptions.edges.at(edge?)?;
                (edge.sent == 0 || edge.sent > accepted).then(|| endpoints.why_not())
            };
            let lack = self.expected.first_lack(lack);
            if lack.is_some() {
                return lack;
            }
        }
        if is_warm || clusters.has_all() && !has_to_warm(clusters, endpoints, warms_from) {
            return None;
        }
        match (endpoints.has_all(), endpoints.session.variant()) {
            (false, _) => Some(endpoints.why_not()),
            (true, Variant::StateOfTheWorld) => Some(HeldBy::NotAskedAgain),
            // The client has been sent all endpoints to warm with, unless they were deleted before;
            // then the clusters are deleted too.
            (true, Variant::Incremental) if clusters.has_all() => None,
            (true, Variant::Incremental) => Some(clusters.why_not()),
        }
    }

    /// Stops waiting for the client to request the endpoints of its clusters.
    pub(crate) fn stop_expecting(
        &mut self,
        why: &HeldBy,
        seats: &[Seat],
        subscriptions: &Subscriptions,
    ) {
        if *why == HeldBy::NotAskedAgain {
            self.for_warming = Patience::Lost;
            return;
        }
        let sessions = Sessions::of(seats, subscriptions);
        self.asked = subscriptions.store.clock();
        self.expected = Expected::default();
        let clusters = sessions.get(rank::CLUSTERS);
        self.asked_by_name =
            clusters.map_or_else(Rendering::default, |it| it.session.newest_rendering());
    }
}

/// Whether a cluster was set after a revision and warms with endpoints that exist.
fn has_to_warm(clusters: View<'_>, endpoints: View<'_>, from: Stamp) -> bool {
    let exists = |name: &ResourceName| endpoints.has_resource(name);
    let mut new = clusters.arena.set_after(from);
    new.any(|cluster| cluster.needs.names(&cluster.name).iter().any(exists))
}
