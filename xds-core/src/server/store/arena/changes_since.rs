//! Resources changed after a revision.

use alloc::vec::Vec;

use super::{Arena, ResourceEntry};
use crate::{server::store::revision::Revision, slab::Slot, text::ResourceName};

/// Position in the list of resources: the first one changed after a revision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResumePoint {
    pub(crate) at: Revision,
    pub(crate) next: Slot,
}

impl Arena {
    /// Returns the revision of the last change, whether or not the resource still exists.
    pub(crate) fn clock(&self) -> Revision {
        self.revision
    }

    /// Returns the revision of the existing resource that changed last.
    pub(crate) fn newest(&self) -> Revision {
        self.at(self.resources.last())
            .filter(|resource| resource.payload.is_some())
            .map_or(Revision::START, |resource| resource.revision)
    }

    /// Returns the names of resources changed after `from` and up to `to`.
    pub(crate) fn names_between(
        &self,
        from: Revision,
        to: Revision,
    ) -> impl Iterator<Item = &ResourceName> {
        self.slots_between(from, to).filter_map(|slot| self.at(slot)).map(|it| &it.name)
    }

    /// Returns the resources changed after `from` and up to `to`.
    pub(crate) fn slots_between(&self, from: Revision, to: Revision) -> impl Iterator<Item = Slot> {
        let slots = self.slots_after(from);
        slots.take_while(move |&slot| self.at(slot).is_some_and(|it| it.revision <= to))
    }

    /// Returns the resources changed after `from` and up to `to`, newest first. Finding the first
    /// one takes time proportional to the resources changed after `to`.
    pub(crate) fn slots_back(&self, from: Revision, to: Revision) -> impl Iterator<Item = Slot> {
        let is_after = move |slot: &Slot| {
            self.at(*slot).is_some_and(|it| it.payload.is_some() && it.revision > from)
        };
        let is_before = move |slot: &Slot| self.at(*slot).is_some_and(|it| it.revision <= to);
        let slots = core::iter::successors(Some(self.resources.last()), |&slot| {
            Some(self.resources.previous(slot))
        });
        slots.take_while(is_after).filter(is_before)
    }

    /// Returns the endpoints of clusters.
    pub(crate) fn endpoints_of(&self, clusters: impl Iterator<Item = Slot>) -> Vec<ResourceName> {
        let clusters = clusters.filter_map(|slot| self.at(slot));
        clusters.flat_map(|it| it.endpoint_names.names_to_warm(&it.name)).cloned().collect()
    }

    /// Returns the resources changed after `from`, oldest first.
    pub(crate) fn set_after(&self, from: Revision) -> impl Iterator<Item = &ResourceEntry> {
        self.slots_after(from).map_while(|slot| self.at(slot))
    }

    /// Returns the slots of resources changed after `from`, oldest first.
    pub(crate) fn slots_after(&self, from: Revision) -> impl Iterator<Item = Slot> {
        let first = self.first_after(from);
        let slots = core::iter::successors(Some(first), |&slot| Some(self.resources.next(slot)));
        slots.take_while(|slot| !slot.is_none())
    }

    /// Returns the oldest resource changed after `from`. The search starts where the last walk
    /// stopped, or else at the tail, so it takes time proportional to the changes.
    pub(crate) fn first_after(&self, from: Revision) -> Slot {
        if self.resume_point.at == from && self.is_first_after(self.resume_point.next, from) {
            return self.resume_point.next;
        }
        let mut first = Slot::NONE;
        let mut slot = self.resources.last();
        while let Some(resource) = self.at(slot)
            && resource.payload.is_some()
            && resource.revision > from
        {
            first = slot;
            slot = self.resources.previous(slot);
        }
        first
    }

    /// Remembers the first resource changed after a revision, for the client that goes on there.
    pub(crate) fn resume_at(&mut self, at: Revision, next: Slot) {
        self.resume_point = ResumePoint { at, next };
    }

    fn is_first_after(&self, slot: Slot, from: Revision) -> bool {
        let is_after = |slot: Slot| {
            self.at(slot)
                .is_some_and(|resource| resource.payload.is_some() && resource.revision > from)
        };
        is_after(slot) && !is_after(self.resources.previous(slot))
    }
}
