//! Subscriptions to aliases of resources.
//!
//! An alias is treated like a glob with one member. A client that subscribes to an alias has a
//! subscription to the alias and one to the resource, which is sent, retained and removed under
//! its own name. The alias itself is reported only if it refers to no resource. For
//! state-of-the-world clients an alias is a name without a resource.
// X06, S0.187-S0.194, M136, M137

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
    /// Returns the resource to which a name refers for this client, if the name is an alias.
    pub(crate) fn meaning(&self, name: Slot, arena: &Arena) -> Option<Slot> {
        let has_aliases = self.variant == Variant::Incremental;
        arena.meaning(name).filter(|_| has_aliases)
    }
}

impl Turn<'_> {
    pub(crate) fn meaning(&self, name: Slot) -> Option<Slot> {
        self.session.meaning(name, self.arena)
    }

    /// Returns the client's subscriptions to aliases of a resource.
    fn edges_by_alias(&self, resource: Slot) -> impl Iterator<Item = Slot> {
        let has_aliases = self.session.variant == Variant::Incremental;
        let names = has_aliases.then(|| self.arena.other_names(resource)).into_iter().flatten();
        let edges = names.filter_map(|name| self.edges.find(self.slot, name));
        edges.filter(|&edge| self.standing(edge) == Some(Standing::Named))
    }

    /// Returns the aliases of a resource to which the client subscribes.
    pub(crate) fn aliases_asked_for(&self, resource: Slot) -> impl Iterator<Item = Slot> {
        self.edges_by_alias(resource).filter_map(|edge| Some(self.edges.at(edge)?.resource))
    }

    /// Whether the client subscribes to an alias of the resource with this name.
    pub(crate) fn is_meant(&self, name: &str) -> bool {
        let resource = self.arena.find(name);
        resource.is_some_and(|resource| self.edges_by_alias(resource).next().is_some())
    }

    /// Returns the subscription to a resource that the client stated to have and whose alias must
    /// be answered nevertheless. This is the case if the client subscribes to an alias and also
    /// to the resource in another way, because it may not know that they are the same.
    // IS7
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

    /// Updates a subscription after its name became an alias of another resource or of none, or
    /// after its resource lost an alias.
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
            // The client keeps the former resource until its removal is sent.
            match self.session.lets_linger(self.arena) {
                true => self.edges.withhold(&mut self.session.due, slot),
                false => self.make_due(slot, Cause::Changed),
            }
        }
    }

    /// Marks a resource that the client has and that no subscription covers now; its removal is
    /// pending.
    fn lose(&mut self, name: ResourceName) {
        if self.session.wildcard.is_some() {
            return;
        }
        let at = self.arena.clock();
        let bereft = &mut self.session.rare_mut().bereft;
        bereft.names.insert(name);
        bereft.at = at;
    }

    /// Releases the removals of resources without a subscription. They count as a change.
    pub(crate) fn release_bereft(&mut self) {
        let mut bereft = Bereft::default();
        self.session.with_rare(|rare| bereft = mem::take(&mut rare.bereft));
        self.tells_losses = !bereft.names.is_empty();
        self.add_farewell(bereft.names);
    }

    /// Sends the resource of an alias together with the removal of the alias's name, if the
    /// client has a subscription to that resource.
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

    /// Unsubscribes from a subscribed alias. The subscription to its resource ends, too, unless
    /// the client subscribes to the resource by another name.
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

    /// Unsubscribes from a name to which the client did not subscribe. If it is a resource or an
    /// alias of one, all subscriptions to that resource end, whatever the name. Resources in
    /// `dropped` were already handled for the same request.
    // S0.191, S0.194
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

    /// Sends the removal of a resource from the previous view to which the client does not
    /// subscribe by any name in this view. It subscribed to an alias of it there.
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
