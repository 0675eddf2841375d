//! Endpoints that clusters name: whether the client has asked for them, and warms its clusters with them.

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

/// Whether it is worth waiting for the client to ask for endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    #[default]
    Waits,
    /// It did not when it should have.
    Lost,
}

/// Clusters that a client has taken, and asked for the endpoints of: those of a response.
///
/// A proxy takes what is good of a response that it rejects, unless it cannot read all of it. What it has
/// taken it does not ask about again when it is sent it once more. That it has, it says by asking.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// When it was rendered.
    pub(crate) at: Stamp,
    pub(crate) nonce: u64,
}

/// What it means if the client asks for endpoints now, without having been sent any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Asks {
    /// Nothing in particular.
    #[default]
    Nothing,
    /// That it does so when it has clusters to warm; these may be older ones.
    Again,
    /// That it has taken these.
    For(Taken),
}

/// Endpoints of clusters that a client was sent. Each moves on when it is looked at, so that however often that is
/// done, it costs what was sent.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// It may yet have to ask for them.
    unasked: BTreeSet<ResourceName>,
    /// It has, and may not have accepted them.
    asked: BTreeSet<ResourceName>,
}

impl Expected {
    pub(crate) fn add(&mut self, name: &ResourceName) {
        self.unasked.insert(name.clone());
    }

    /// One that it has not asked for.
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

    /// What keeps the first of them from being there that is not.
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
    /// The client has asked for endpoints, and for none less than before; that was no answer.
    pub(crate) fn note_asked(&mut self) {
        match self.asks {
            Asks::Nothing => return,
            Asks::Again => {}
            Asks::For(taken) => self.taken = taken,
        }
        self.for_warming = Patience::Waits;
    }

    /// Why the client may still use endpoints that no cluster which it has accepted names: a cluster that comes to
    /// name others is warmed with these, and the one before stays in use meanwhile.
    pub(crate) fn uses_old_endpoints(
        &mut self,
        endpoints: View<'_>,
        deleted: Stamp,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
        policy: &AckGated,
    ) -> Option<HeldBy> {
        // Without clusters on the stream nobody knows what they name.
        let named_by = sessions.get(rank::CLUSTERS)?;
        // What stays of these may never have got the endpoints that it named last.
        if named_by.session.has_removals(named_by.arena) {
            return Some(named_by.why_not());
        }
        let (accepted, clusters) = (self.accepted(rank::ENDPOINTS), self.accepted(rank::CLUSTERS));
        // It has asked for more since, or has to.
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

    /// Why clusters that the client was sent are not in use yet for want of endpoints.
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

    /// Endpoints that a cluster of the client names and that it has not asked for.
    fn unasked(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<ResourceName> {
        let clusters = sessions.get(rank::CLUSTERS)?;
        // A client without endpoints on the stream may never ask for any (M150, M158). One that has ended all of its
        // subscriptions is waited for: a proxy subscribes again once it has clusters.
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
            // It is about to get other clusters, but has these.
            return self.expected.first_unasked(is_asked);
        }
        for cluster in clusters.arena.set_after(self.asked) {
            match cluster.needs.names(&cluster.name).iter().find(|name| !is_asked(name)) {
                None => self.asked = cluster.stamp,
                Some(name) => return Some(name.clone()),
            }
        }
        // Until it has been sent them, they may go.
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
        // What is renewed, or repeated among others, it does not take as new.
        let new = clusters.session.new_by_name(asked, clusters.arena, &subscriptions.edges);
        let unasked =
            new.flat_map(|cluster| cluster.needs.names(&cluster.name)).find(|name| !is_asked(name));
        if unasked.is_none() {
            self.asked_by_name = newest;
        }
        unasked.cloned()
    }

    /// Why clusters are not warm that the client was sent.
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
                // Endpoints that went before they could be sent warmed nothing; other clusters are coming.
                let slot = endpoints.arena.find(name.as_str());
                let Some(slot) = slot.filter(|_| endpoints.has_resource(name)) else {
                    return Some(clusters.why_not());
                };
                // Nor did those that came after they were asked for, until they are sent.
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
            // It has been sent unasked what there was to warm, unless that went first; then so do the clusters.
            (true, Variant::Incremental) if clusters.has_all() => None,
            (true, Variant::Incremental) => Some(clusters.why_not()),
        }
    }

    /// The client is not expected any more to ask for the endpoints of the clusters it has.
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

/// Whether there is a cluster that was set after a position and is warmed with endpoints that exist.
fn has_to_warm(clusters: View<'_>, endpoints: View<'_>, from: Stamp) -> bool {
    let exists = |name: &ResourceName| endpoints.has_resource(name);
    let mut new = clusters.arena.set_after(from);
    new.any(|cluster| cluster.needs.names(&cluster.name).iter().any(exists))
}
