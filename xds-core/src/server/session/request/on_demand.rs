//! Notifications about names that become wanted or unwanted.

use crate::{
    server::{
        config::OnDemand,
        session::context::Turn,
        store::on_demand::{Kind, Want},
    },
    slab::Slot,
};

impl Turn<'_> {
    /// Notifies the application that a client subscribes to a resource that it has not provided.
    pub(crate) fn want(&mut self, slot: Slot) {
        if self.wants.policy == OnDemand::Off {
            return;
        }
        // A glob is never missing.
        let is_glob = self.arena.is_glob(slot);
        let is_alias = self.meaning(slot).is_some();
        let Some(resource) = self.arena.at_mut(slot) else { return };
        let is_there = resource.payload.is_some() || resource.error.is_some();
        let is_news = match resource.want {
            Want::Untold => !is_there && !is_glob && !is_alias,
            Want::Left => true,
            Want::Asked | Want::Answered => false,
        };
        if !is_news {
            return;
        }
        resource.want = if is_there { Want::Answered } else { Want::Asked };
        let name = resource.name.clone();
        self.wants.tell(self.arena.view, &self.arena.type_url, &name, Kind::Wanted);
    }

    /// Notifies the application when the last subscription to a resource ends.
    pub(crate) fn unwant(&mut self, slot: Slot) {
        if self.wants.policy == OnDemand::Off {
            return;
        }
        let Some(resource) = self.arena.at_mut(slot) else { return };
        let is_told = matches!(resource.want, Want::Asked | Want::Answered);
        if !is_told || !resource.subscribers.is_empty() {
            return;
        }
        resource.want = Want::Left;
        let name = resource.name.clone();
        self.wants.tell(self.arena.view, &self.arena.type_url, &name, Kind::Unwanted);
    }

    /// Whether the application was asked for a resource and has not provided it yet.
    pub(crate) fn is_asked_for(&self, slot: Slot) -> bool {
        self.arena.at(slot).is_some_and(|resource| resource.want == Want::Asked)
    }
}
