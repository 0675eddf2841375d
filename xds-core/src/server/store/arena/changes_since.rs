//! Resources changed after a revision.

use alloc::vec::Vec;

use super::{Arena, Resource};
use crate::{server::store::revision::Stamp, slab::Slot, text::ResourceName};

/// Position in the list of resources: the first one changed after a revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    pub(crate) at: Stamp,
    pub(crate) next: Slot,
}

impl Arena {
    /// Returns the revision of the last change, whether or not the resource still exists.
    pub(crate) fn clock(&self) -> Stamp {
        self.stamp
    }

    /// Returns the revision of the existing resource that changed last.
    pub(crate) fn newest(&self) -> Stamp {
        self.at(self.resources.last())
            .filter(|resource| resource.payload.is_some())
            .map_or(Stamp::START, |resource| resource.stamp)
    }

    /// Returns the names of resources changed after `from` and up to `to`.
    pub(crate) fn names_between(
        &self,
        from: Stamp,
        to: Stamp,
    ) -> impl Iterator<Item = &ResourceName> {
        self.slots_between(from, to).filter_map(|slot| self.at(slot)).map(|it| &it.name)
    }

    /// Returns the resources changed after `from` and up to `to`.
    pub(crate) fn slots_between(&self, from: Stamp, to: Stamp) -> impl Iterator<Item = Slot> {
        let slots = self.slots_after(from);
        slots.take_while(move |&slot| self.at(slot).is_some_and(|it| it.stamp <= to))
    }

    /// Returns the resources changed after `from` and up to `to`, newest first. Finding the first
    /// one takes time proportional to the resources changed after `to`.
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

    /// Returns the endpoints of clusters changed after `from` and up to `to`.
    pub(crate) fn endpoints_between(&self, from: Stamp, to: Stamp) -> Vec<ResourceName> {
        let clusters = self.set_after(from).take_while(|cluster| cluster.stamp <= to);
        clusters.flat_map(|it| it.needs.names_to_warm(&it.name)).cloned().collect()
    }

    /// Returns the resources changed after `from`, oldest first.
    pub(crate) fn set_after(&self, from: Stamp) -> impl Iterator<Item = &Resource> {
        self.slots_after(from).map_while(|slot| self.at(slot))
    }

    /// Returns the slots of resources changed after `from`, oldest first.
    pub(crate) fn slots_after(&self, from: Stamp) -> impl Iterator<Item = Slot> {
        let first = self.first_after(from);
        let slots = core::iter::successors(Some(first), |&slot| Some(self.resources.next(slot)));
        slots.take_while(|slot| !slot.is_none())
    }

    /// Returns the oldest resource changed after `from`. The search starts where the last walk
    /// stopped, or else at the tail, so it takes time proportional to the changes.
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
