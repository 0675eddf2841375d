//! Earlier contents of changed and removed resources, kept while a client may have them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{Arena, ResourceEntry, retained_deletions::RetainedDeletions};
use crate::{
    server::store::{encode::body::Payload, revision::Revision, version::content::ContentHash},
    text::ResourceName,
};

/// Earlier contents of resources, by name and the revision at which they were replaced.
#[derive(Debug, Default)]
pub(crate) struct PastContents(BTreeMap<(ResourceName, Revision), PastContent>);

#[derive(Debug)]
struct PastContent {
    /// Revision at which it was set.
    set: Revision,
    payload: Payload,
}

/// Set of resources in a full state.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckedSnapshot {
    /// Revision of the state.
    pub(crate) at: Revision,
    /// Resources that had been removed by then, identified by the revision of the removal.
    pub(crate) removed: BTreeSet<Revision>,
    /// Hashes of resources from the previous view.
    pub(crate) previous_view: BTreeMap<ResourceName, ContentHash>,
}

impl AckedSnapshot {
    /// Set without resources.
    pub(crate) const EMPTY: Self =
        Self { at: Revision::START, removed: BTreeSet::new(), previous_view: BTreeMap::new() };
}

impl PastContents {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops contents that were replaced up to `accepted`, except those for which `kept` returns
    /// true, and the oldest if there are more than `limit`.
    pub(crate) fn sweep(
        &mut self,
        accepted: Revision,
        limit: usize,
        kept: impl Fn(&ResourceName, Revision) -> bool,
    ) {
        self.0.retain(|(name, end), _| *end > accepted || kept(name, *end));
        if self.0.len() > limit {
            let mut ends: Vec<Revision> = self.0.keys().map(|(_, end)| *end).collect();
            ends.sort_unstable();
            let oldest = ends.len().checked_sub(limit).and_then(|excess| ends.get(excess).copied());
            self.0.retain(|(_, end), _| oldest.is_none_or(|oldest| *end >= oldest));
        }
    }

    /// Returns the content that a full state had for a name, if it was replaced since or removed
    /// before.
    fn content_in(&self, snapshot: &AckedSnapshot, name: &ResourceName) -> Option<ContentHash> {
        let after = (name.clone(), snapshot.at.next());
        let next = self.0.range(after.clone()..).next().filter(|((of, _), _)| of == name);
        if let Some((_, past_content)) =
            next.filter(|(_, past_content)| past_content.set <= snapshot.at)
        {
            return Some(past_content.payload.hash);
        }
        let last = self.0.range(..after).next_back();
        let last = last.filter(|((of, end), _)| of == name && snapshot.removed.contains(end));
        last.map(|(_, past_content)| past_content.payload.hash)
    }
}

impl RetainedDeletions {
    /// Keeps the content of a resource that is being replaced or removed.
    pub(crate) fn keep_past_content(
        &mut self,
        resource: &ResourceEntry,
        payload: &Payload,
        now: Revision,
    ) {
        if self.are_needed() {
            let past_content = PastContent { set: resource.revision, payload: payload.clone() };
            self.past_contents.0.insert((resource.name.clone(), now), past_content);
        }
    }
}

impl Arena {
    /// Returns the content at a revision of a resource that changed or was removed since, if
    /// known.
    pub(crate) fn content_at(
        &self,
        resource: &ResourceEntry,
        position: Revision,
    ) -> Option<&Payload> {
        let retained_deletion =
            self.retained_deletions.at(resource.revision).filter(|_| resource.payload.is_none());
        if retained_deletion.is_some()
            && !self.retained_deletions.was_set_after(resource.revision, position)
        {
            return retained_deletion;
        }
        let after = (resource.name.clone(), position.next());
        let ((name, _), past_content) =
            self.retained_deletions.past_contents.0.range(after..).next()?;
        (*name == resource.name && past_content.set <= position).then_some(&past_content.payload)
    }

    /// Whether a full state had the current content of the resource, as far as is known. Used for
    /// clusters that reference endpoints.
    pub(crate) fn had_current_content(
        &self,
        snapshot: &AckedSnapshot,
        resource: &ResourceEntry,
    ) -> bool {
        let Some(payload) = &resource.payload else { return false };
        resource.revision <= snapshot.at
            || snapshot.previous_view.get(&resource.name) == Some(&payload.hash)
            || self.retained_deletions.past_contents.content_in(snapshot, &resource.name)
                == Some(payload.hash)
    }
}
