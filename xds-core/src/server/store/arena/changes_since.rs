//! What was set after a position.

use alloc::vec::Vec;

use super::{Arena, Resource};
use crate::{server::store::revision::Stamp, slab::Slot, text::ResourceName};

/// A place in the list of resources: the first one after a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    pub(crate) at: Stamp,
    pub(crate) next: Slot,
}

impl Arena {
    /// The position of the last change, whatever became of the resource.
    pub(crate) fn clock(&self) -> Stamp {
        self.stamp
    }

    /// When the most recently changed resource that exists changed.
    pub(crate) fn newest(&self) -> Stamp {
        self.at(self.resources.last())
            .filter(|resource| resource.payload.is_some())
            .map_or(Stamp::START, |resource| resource.stamp)
    }

    /// The names of what was set after `from` and up to `to`.
    pub(crate) fn names_between(
        &self,
        from: Stamp,
        to: Stamp,
    ) -> impl Iterator<Item = &ResourceName> {
        self.slots_between(from, to).filter_map(|slot| self.at(slot)).map(|it| &it.name)
    }

    /// The resources that were set after `from` and up to `to`.
    pub(crate) fn slots_between(&self, from: Stamp, to: Stamp) -> impl Iterator<Item = Slot> {
        let slots = self.slots_after(from);
        slots.take_while(move |&slot| self.at(slot).is_some_and(|it| it.stamp <= to))
    }

    /// The same, the newest first: to find whether there is any costs what was set after `to`.
    pub(crate) fn slots_back(&self, from: Stamp, to: Stamp) -> impl Iterator<Item = Slot> {
        let is_after = move |slot: &Slot| {
            self.at(*slot).is_some_and(|it| it.payload.is_some() && it.stamp > from)
        };
        let is_before = move |slot: &Slot| self.at(*slot).is_some_and(|it| it.stamp <= to);
        let slots = core::iter::successors(Some(self.resources.last()), |&slot| {
            Some(self.resources.previous(slot))
        });
        slots.take_while(is_after).filter(is_before)
    }

    /// The endpoints of clusters that were set after `from` and up to `to`.
    pub(crate) fn endpoints_between(&self, from: Stamp, to: Stamp) -> Vec<ResourceName> {
        let clusters = self.set_after(from).take_while(|cluster| cluster.stamp <= to);
        clusters.flat_map(|it| it.needs.names_to_warm(&it.name)).cloned().collect()
    }

    /// What was set after `from`, oldest first.
    pub(crate) fn set_after(&self, from: Stamp) -> impl Iterator<Item = &Resource> {
        self.slots_after(from).map_while(|slot| self.at(slot))
    }

    /// The same, where they are.
    pub(crate) fn slots_after(&self, from: Stamp) -> impl Iterator<Item = Slot> {
        let first = self.first_after(from);
        let slots = core::iter::successors(Some(first), |&slot| Some(self.resources.next(slot)));
        slots.take_while(|slot| !slot.is_none())
    }

    /// The oldest change after `from`: found from where the last walk stopped, or else from the tail, so
    /// that it costs what changed.
    pub(crate) fn first_after(&self, from: Stamp) -> Slot {
        if self.stopped.at == from && self.is_first_after(self.stopped.next, from) {
            return self.stopped.next;
        }
        let mut first = Slot::NONE;
        let mut slot = self.resources.last();
        while let Some(resource) = self.at(slot)
            && resource.payload.is_some()
            && resource.stamp > from
        {
            first = slot;
            slot = self.resources.previous(slot);
        }
        first
    }

    fn is_first_after(&self, slot: Slot, from: Stamp) -> bool {
        let is_after = |slot: Slot| {
            self.at(slot)
                .is_some_and(|resource| resource.payload.is_some() && resource.stamp > from)
        };
        is_after(slot) && !is_after(self.resources.previous(slot))
    }
}
