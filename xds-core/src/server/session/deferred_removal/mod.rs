//! What is deleted and not told yet, because something that the client has may still refer to it
//! (M147).
//!
//! A name has an edge meanwhile, which is due but withheld. A resource that only the wildcard covers
//! gets one when the first response goes out without telling that it is gone: until then the graves
//! say so. A name that comes back is sent like any other change, which ends its edge (M149).

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

/// How much of what is due a response may tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    Everything,
    /// Not what is gone.
    Additions,
    /// Only what the client has asked for and not been sent. In full state, and of everything, that is all there is.
    Unanswered,
    /// Only that the client may go on using what it has.
    Heartbeats,
}

impl Session {
    /// Whether deletions may have to wait.
    pub(crate) fn lets_linger(&self, arena: &Arena) -> bool {
        let tells_deletions = match self.sends(arena) {
            Sends::FullState => arena.absence_deletes(),
            Sends::Changes => false,
            Sends::ChangesAndRemovals => arena.tells_removals(),
        };
        matches!(self.staging, Staging::Reversed | Staging::Lingering(_)) && tells_deletions
    }

    /// Whether the graves tell the session what its wildcard has lost.
    pub(crate) fn follows_graves(&self, arena: &Arena) -> bool {
        self.variant == Variant::Incremental || self.needs_ghosts(arena)
    }

    /// Whether it is for others, or for what else there is, that the client is not told what is gone.
    pub(crate) fn is_kept_from_deletions(&self, arena: &Arena) -> bool {
        let waits = matches!(self.staging, Staging::Lingering(_)) && self.lets_linger(arena);
        self.needs_ghosts(arena) || waits && !self.is_waiting()
    }

    /// Whether responses may have to repeat what is deleted.
    pub(crate) fn needs_ghosts(&self, arena: &Arena) -> bool {
        self.lets_linger(arena) && self.sends(arena) == Sends::FullState
    }
}

impl Turn<'_> {
    /// A response goes out that does not tell what is gone: what the wildcard has lost since the last
    /// one is remembered.
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

    /// The client says that it has what is gone. That may have to wait like any deletion.
    pub(crate) fn let_linger_if_gone(&mut self, slot: Slot) {
        let Some(edge) = self.edges.at(slot) else { return };
        let exists = self.arena.payload(edge.resource).is_some();
        // Of a glob, it is the members that linger; and an error is told at once.
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

    /// The wildcard is left, and what lingered of it with it.
    pub(crate) fn drop_lingering(&mut self) {
        for slot in self.apart() {
            if self.standing(slot) == Some(Standing::Lingering) {
                self.disconnect(slot);
            }
        }
    }

    /// What a client that the deletion of the resource is withheld from is served instead of it.
    pub(crate) fn ghost(&self, edge: &Edge) -> Option<(&ResourceName, &Payload)> {
        let resource = self.arena.at(edge.resource)?;
        let brought = self.session.brought(edge.resource, resource.stamp);
        let payload = brought.unwrap_or_else(|| self.arena.ghosts.at(resource.stamp))?;
        edge.is_withheld().then_some((&resource.name, payload))
    }

    /// The version of all resources, and what lingers.
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

    /// All resources, and what lingers; with the version of just these.
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
