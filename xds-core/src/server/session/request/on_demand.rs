//! Notifications about names that become wanted or unwanted.

use crate::{
    server::{
        config::OnDemand,
        session::context::SessionContext,
        store::{
            arena::ResourceEntry,
            on_demand::{NotificationKind, OnDemandState},
        },
    },
    slab::Slot,
};

impl SessionContext<'_> {
    /// Notifies the application that a client subscribes to a resource that it has not provided.
    pub(crate) fn note_wanted(&mut self, slot: Slot) {
        if self.on_demand.policy == OnDemand::Off {
            return;
        }
        // A glob is never missing.
        let is_glob = self.arena.is_glob(slot);
        let is_alias = self.alias_target(slot).is_some();
        let Some(resource) = self.arena.at_mut(slot) else { return };
        let is_there = resource.is_held();
        let is_new = match resource.on_demand_state {
            OnDemandState::Idle => !is_there && !is_glob && !is_alias,
            OnDemandState::Released => true,
            OnDemandState::Requested | OnDemandState::Provided => false,
        };
        if !is_new {
            return;
        }
        resource.on_demand_state =
            if is_there { OnDemandState::Provided } else { OnDemandState::Requested };
        let name = resource.name.clone();
        self.on_demand.notify(self.arena, name, NotificationKind::Wanted);
    }

    /// Notifies the application when the last subscription to a resource ends.
    pub(crate) fn note_unwanted(&mut self, slot: Slot) {
        if self.on_demand.policy == OnDemand::Off {
            return;
        }
        let Some(resource) = self.arena.at_mut(slot) else { return };
        if !resource.on_demand_state.is_wanted() || !resource.subscribers.is_empty() {
            return;
        }
        resource.on_demand_state = OnDemandState::Released;
        let name = resource.name.clone();
        self.on_demand.notify(self.arena, name, NotificationKind::Unwanted);
    }

    /// Whether the application was asked for a resource and has not provided it yet.
    pub(crate) fn is_requested(&self, slot: Slot) -> bool {
        self.arena.at(slot).is_some_and(ResourceEntry::is_requested)
    }
}
