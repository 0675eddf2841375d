//! Revisions of the source in versions.
// M72

use core::num::NonZeroU64;

use crate::{
    server::store::{arena::Arena, encode::body::entry_len},
    slab::Slot,
};

impl Arena {
    /// Notes the revision of the source at which a resource was changed or removed.
    pub(crate) fn note_source_revision(&mut self, revision: Option<NonZeroU64>) {
        if revision > self.versions.source_revision {
            self.versions.source_revision = revision;
            self.versions.current_text = None;
        }
    }

    /// Notes that the source has written a resource anew with equal content.
    pub(crate) fn rewrite(&mut self, slot: Slot, revision: Option<NonZeroU64>) {
        let Some(resource) = self.resources.at_mut(slot) else { return };
        let (name, Some(payload)) = (&resource.name, &mut resource.payload) else { return };
        if revision.is_none() || payload.source_revision == revision {
            return;
        }
        self.entry_bytes -= entry_len(name, payload);
        payload.source_revision = revision;
        self.entry_bytes += entry_len(name, payload);
        self.forget_bodies();
        self.note_source_revision(revision);
    }
}
