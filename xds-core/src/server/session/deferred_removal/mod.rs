//! Deferred removals, withheld while resources that the client has may reference the removed
//! ones.
//!
//! A name with a deferred removal has a subscription that is due but withheld. A resource that
//! only the wildcard covers gets one when the first response is sent without its removal; until
//! then its tombstone suffices. If a name comes back, it is sent like any other change, which
//! ends the deferral.
// M147, M149

pub(crate) mod carried_over;
pub(crate) mod last_accepted;

use alloc::vec::Vec;

use super::{
    Sends, Session, Staging,
    context::Turn,
    subscription::{Chain, Edge, Standing},
};
use crate::{
    server::store::{
        arena::Arena,
        encode::body::{Body, Payload},
        version::content::TypeVersion,
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
};

/// Part of the due contents that a response may include.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    Everything,
    /// Everything except removals.
    Additions,
    /// Unanswered requests only. In full state and for a wildcard, this is the same as
    /// `Additions`.
    Unanswered,
    /// Heartbeats only.
    Heartbeats,
}

impl Session {
    /// Whether removals may have to wait.
    pub(crate) fn lets_linger(&self, arena: &Arena) -> bool {
        let tells_deletions = match self.sends(arena) {
            Sends::FullState => arena.absence_deletes(),
            Sends::Changes => false,
            Sends::ChangesAndRemovals => arena.tells_removals(),
        };
        matches!(self.staging, Staging::Reversed | Staging::Lingering(_)) && tells_deletions
    }

    /// Whether the session learns from tombstones which resources its wildcard lost.
    pub(crate) fn follows_graves(&self, arena: &Arena) -> bool {
        self.variant == Variant::Incremental || self.needs_ghosts(arena)
    }

    /// Whether removals are withheld from the client for the sake of other types or other
    /// contents.
    pub(crate) fn is_kept_from_deletions(&self, arena: &Arena) -> bool {
        let waits = matches!(self.staging, Staging::Lingering(_)) && self.lets_linger(arena);
        self.needs_ghosts(arena) || waits && !self.is_waiting()
    }

    /// Whether responses may have to repeat removed resources.
    pub(crate) fn needs_ghosts(&self, arena: &Arena) -> bool {
        self.lets_linger(arena) && self.sends(arena) == Sends::FullState
    }
}

impl Turn<'_> {
    /// Converts the wildcard's unsent removals into deferred removals, because a response is sent
    /// without them.
    pub(crate) fn let_graves_linger(&mut self) {
        let Some(wildcard) = self.session.wildcard else { return };
        let lost: Vec<Slot> = {
            let knows = self.session.knows(&wildcard);
            self.arena.lost(knows, wildcard.reached).map(|(slot, _)| slot).collect()
        };
        for resource in lost {
            if self.edges.find(self.slot, resource).is_some() {
                continue;
            }
            let Some(edge) = self.connect(resource) else { return };
            self.session.named += 1;
            self.set_standing(edge, Standing::Lingering);
            self.linger(edge);
        }
        let clock = self.arena.clock();
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.told = clock;
        }
        self.session.with_rare(|rare| rare.telling = None);
        self.serve_as_accepted();
    }

    /// Defers the removal of a resource that a client states to have and that does not exist.
    pub(crate) fn let_linger_if_gone(&mut self, slot: Slot) {
        let Some(edge) = self.edges.at(slot) else { return };
        let exists = self.arena.payload(edge.resource).is_some();
        // For a glob the members' removals are deferred. An error is sent at once.
        let has_error = edge.standing.is_subscribed() && self.error_of(edge.resource).is_some();
        let is_told = exists || has_error || self.arena.is_glob(edge.resource);
        if is_told || !self.session.lets_linger(self.arena) {
            return;
        }
        if edge.standing == Standing::Parting {
            self.set_standing(slot, Standing::Lingering);
        }
        self.linger(slot);
    }

    fn linger(&mut self, edge: Slot) {
        let nonce = self.session.newest.map_or(1, |sent| sent.nonce.get());
        self.edges.set_sent(&mut self.session.edges, edge, nonce);
        self.edges.clear_due(&mut self.session.due, edge);
        self.edges.withhold(&mut self.session.due, edge);
    }

    /// Drops the deferred removals of a wildcard that is left.
    pub(crate) fn drop_lingering(&mut self) {
        for slot in self.apart() {
            if self.standing(slot) == Some(Standing::Lingering) {
                self.disconnect(slot);
            }
        }
    }

    /// Returns the version that is served while the resource's removal is withheld from the
    /// client.
    pub(crate) fn ghost(&self, edge: &Edge) -> Option<(&ResourceName, &Payload)> {
        let resource = self.arena.at(edge.resource)?;
        let brought = self.session.brought(edge.resource, resource.stamp);
        let payload = brought.unwrap_or_else(|| self.arena.ghosts.at(resource.stamp))?;
        edge.is_withheld().then_some((&resource.name, payload))
    }

    /// Returns the version of all resources including deferred removals.
    pub(crate) fn version_of_everything(&self) -> TypeVersion {
        self.for_each_ghost(|_, _| {})
    }

    fn for_each_ghost(&self, mut take: impl FnMut(&ResourceName, &Payload)) -> TypeVersion {
        let mut version = self.arena.version;
        let mut slot = self.session.due.withheld().first();
        while let Some(edge) = self.edges.at(slot) {
            if let Some((name, payload)) = self.ghost(edge) {
                version.add(name.as_str(), payload.hash);
                take(name, payload);
            }
            slot = self.edges.next(Chain::Due, slot);
        }
        version
    }

    /// Renders all resources including deferred removals. Returns the version of exactly these.
    pub(crate) fn body_of_everything(&mut self) -> (Body, TypeVersion) {
        let mut ghosts = Vec::new();
        let version =
            self.for_each_ghost(|name, payload| ghosts.push((name.clone(), payload.clone())));
        let ttls = self.form().ttls;
        match ghosts.is_empty() {
            true => (self.arena.full_body(ttls), version),
            false => (self.arena.full_body_with(&ghosts, version, ttls), version),
        }
    }
}
