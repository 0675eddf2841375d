//! Subscriptions by another name (X06, S0.187-S0.194, M136, M137).
//!
//! An alias is to its resource what a glob is to its only member: a client that subscribes to the alias has
//! an edge to that name and one to the resource, which is sent, remembered and told to be gone under its own
//! name. Of the alias there is something to say only if it stands for nothing. State-of-the-world clients
//! know no aliases: to them it is a name that there is no resource of.

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem;

use crate::{
    server::{
        event::Cause,
        session::{
            Session,
            context::Turn,
            extras::Bereft,
            subscription::{Chain, Due, Standing},
        },
        store::arena::Arena,
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
};

impl Session {
    /// The resource that a name stands for to this client, if it is an alias.
    pub(crate) fn meaning(&self, name: Slot, arena: &Arena) -> Option<Slot> {
        let has_aliases = self.variant == Variant::Incremental;
        arena.meaning(name).filter(|_| has_aliases)
    }
}

impl Turn<'_> {
    pub(crate) fn meaning(&self, name: Slot) -> Option<Slot> {
        self.session.meaning(name, self.arena)
    }

    /// The edges to aliases of a resource by which the client subscribes to it.
    fn edges_by_alias(&self, resource: Slot) -> impl Iterator<Item = Slot> {
        let has_aliases = self.session.variant == Variant::Incremental;
        let names = has_aliases.then(|| self.arena.other_names(resource)).into_iter().flatten();
        let edges = names.filter_map(|name| self.edges.find(self.slot, name));
        edges.filter(|&edge| self.standing(edge) == Some(Standing::Named))
    }

    /// The aliases of a resource that the client subscribes to.
    pub(crate) fn aliases_asked_for(&self, resource: Slot) -> impl Iterator<Item = Slot> {
        self.edges_by_alias(resource).filter_map(|edge| Some(self.edges.at(edge)?.resource))
    }

    /// Whether the client subscribes to an alias of the resource of this name.
    pub(crate) fn is_meant(&self, name: &str) -> bool {
        let resource = self.arena.find(name);
        resource.is_some_and(|resource| self.edges_by_alias(resource).next().is_some())
    }

    /// The edge to a resource that a client says it has, and also subscribes to by an alias without being seen to know
    /// that this is the same: it asks for the resource in another way as well. The alias has to be answered (IS7).
    pub(crate) fn edge_of_unknown_alias(&self, name: &str) -> Option<Slot> {
        let resource = self.arena.find(name)?;
        let mut aliases = self.edges_by_alias(resource);
        let is_meant = aliases.next().is_some();
        let has_more = aliases.next().is_some();
        let edge = self.edges.find(self.slot, resource)?;
        let is_named = self.standing(edge) == Some(Standing::Named);
        let asks_otherwise =
            has_more || is_named || self.session.wildcard.is_some() || self.is_in_glob(name);
        (is_meant && asks_otherwise).then_some(edge)
    }

    /// A name stands for another resource than before, or for none; or a resource has lost a name.
    pub(crate) fn name_turned(&mut self, slot: Slot) {
        if self.session.variant == Variant::StateOfTheWorld {
            return;
        }
        let Some(edge) = self.edges.at(slot) else { return };
        let (name, has_had_it, is_due) = (edge.resource, edge.sent != 0, edge.due.is_some());
        if edge.standing == Standing::Covered {
            if self.arena.payload(name).is_some()
                && let Some(name) = self.uncover(slot)
                && self.arena.tells_removals()
            {
                self.lose(name);
            }
            return;
        }
        if edge.standing != Standing::Named || self.arena.payload(name).is_some() {
            return;
        }
        if self.meaning(name).is_some() {
            if !has_had_it {
                self.edges.clear_due(&mut self.session.due, slot);
            }
            self.cover_members(name, Cause::Changed);
        } else if !is_due && self.arena.tells_removals() {
            // What it stood for, the client has until it is told that this is gone.
            match self.session.lets_linger(self.arena) {
                true => self.edges.withhold(&mut self.session.due, slot),
                false => self.make_due(slot, Cause::Changed),
            }
        }
    }

    /// The client has a resource that it has no claim to any more: to it that is gone, and told like that.
    fn lose(&mut self, name: ResourceName) {
        if self.session.wildcard.is_some() {
            return;
        }
        let at = self.arena.clock();
        let bereft = &mut self.session.rare_mut().bereft;
        bereft.names.insert(name);
        bereft.at = at;
    }

    /// What the client lost may be told. That is a change, and none of its own making.
    pub(crate) fn release_bereft(&mut self) {
        let mut bereft = Bereft::default();
        self.session.with_rare(|rare| bereft = mem::take(&mut rare.bereft));
        self.tells_losses = !bereft.names.is_empty();
        self.add_farewell(bereft.names);
    }

    /// Where the client is told that a name is gone which is an alias now, what it stands for goes along,
    /// be it known to the client.
    pub(crate) fn let_meanings_ride(&mut self) {
        if self.session.variant == Variant::StateOfTheWorld || !self.arena.has_aliases() {
            return;
        }
        let mut slot = self.session.due.first();
        while let Some(edge) = self.edges.at(slot) {
            let is_told = edge.sent != 0 && edge.standing == Standing::Named;
            if is_told
                && let Some(resource) = self.meaning(edge.resource)
                && let Some(edge) = self.edges.find(self.slot, resource)
            {
                let due = Due::because(Cause::Changed);
                self.edges.set_due(&mut self.session.due, edge, due);
            }
            slot = self.edges.next(Chain::Due, slot);
        }
    }

    /// The client unsubscribes an alias that it subscribed to. What it stands for goes, unless the client
    /// subscribes to that by another name.
    pub(crate) fn drop_alias(&mut self, edge: Slot, resource: Slot, cause: Cause) {
        self.disconnect(edge);
        let edge = self.edges.find(self.slot, resource);
        let edge = edge.filter(|&edge| self.standing(edge) == Some(Standing::Covered));
        let name = self.arena.at(resource).map(|resource| resource.name.clone());
        let (Some(edge), Some(name)) = (edge, name) else { return };
        if self.is_covered(name.as_str()) {
            return;
        }
        if self.session.wildcard.is_some() {
            // As for a name (M91).
            self.set_standing(edge, Standing::Parting);
            self.make_due(edge, cause);
        } else {
            self.disconnect(edge);
        }
    }

    /// The client unsubscribes a name that it did not subscribe to. That of a resource, or another alias
    /// of it, ends the subscriptions by whatever name (S0.191, S0.194): all at once, so that the resources `dropped` by
    /// the same message need not be looked at again.
    pub(crate) fn drop_by_other_name(
        &mut self,
        name: &str,
        cause: Cause,
        dropped: &mut BTreeSet<Slot>,
    ) {
        let own = self.arena.find(name).filter(|&slot| self.arena.payload(slot).is_some());
        let Some(resource) = own.or_else(|| self.arena.by_alias(name)) else { return };
        if !dropped.insert(resource) {
            return;
        }
        let aliases: Vec<Slot> = self.edges_by_alias(resource).collect();
        for edge in aliases {
            self.drop_alias(edge, resource, cause);
        }
        let edge = self.edges.find(self.slot, resource);
        let edge = edge.filter(|&edge| self.standing(edge) == Some(Standing::Named));
        let name = self.arena.at(resource).map(|resource| resource.name.clone());
        if let (Some(edge), Some(name)) = (edge, name) {
            self.drop_own_name(edge, name.as_str(), cause);
        }
    }

    /// The client came from another view with a resource that it does not subscribe to by any name here:
    /// it was meant by an alias there. It is told that it has that no longer.
    pub(crate) fn disown(&mut self, name: &ResourceName, cause: Cause) {
        let slot = self.arena.find(name.as_str());
        let has_edge = slot.is_some_and(|slot| self.edges.find(self.slot, slot).is_some());
        let is_subscribed =
            has_edge || self.session.wildcard.is_some() || self.is_covered(name.as_str());
        if is_subscribed || !self.arena.tells_removals() {
            return;
        }
        if slot.is_some_and(|slot| self.arena.payload(slot).is_some()) {
            self.lose(name.clone());
            return;
        }
        let slot = self.arena.slot_of(name.clone());
        let Some(edge) = slot.and_then(|slot| self.connect_parting(slot)) else { return };
        self.make_due(edge, cause);
        self.let_linger_if_gone(edge);
    }
}
