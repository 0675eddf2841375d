//! When a name comes to be wanted, and when it no longer is.

use crate::{
    server::{
        config::OnDemand,
        session::context::Turn,
        store::on_demand::{Kind, Want},
    },
    slab::Slot,
};

impl Turn<'_> {
    /// A client names a resource.
    pub(crate) fn want(&mut self, slot: Slot) {
        if self.wants.policy == OnDemand::Off {
            return;
        }
        // Of a glob, nothing is missing.
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

    /// A client no longer subscribes to a resource.
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

    /// Whether the application has been asked for a resource, and has not answered.
    pub(crate) fn is_asked_for(&self, slot: Slot) -> bool {
        self.arena.at(slot).is_some_and(|resource| resource.want == Want::Asked)
    }
}
