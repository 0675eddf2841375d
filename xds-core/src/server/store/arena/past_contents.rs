//! Earlier contents of changed and removed resources, kept while a client may have them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{Arena, Resource, retained_deletions::Ghosts};
use crate::{
    server::store::{encode::body::Payload, revision::Stamp, version::content::ContentHash},
    text::ResourceName,
};

/// Earlier contents of resources, by name and the revision at which they were replaced.
#[derive(Debug, Default)]
pub(crate) struct Pasts(BTreeMap<(ResourceName, Stamp), Past>);

#[derive(Debug)]
struct Past {
    /// Revision at which it was set.
    set: Stamp,
    payload: Payload,
}

/// Set of resources in a full state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shot {
    /// Revision of the state.
    pub(crate) at: Stamp,
    /// Resources that had been removed by then, identified by the revision of the removal.
    pub(crate) lingering: BTreeSet<Stamp>,
    /// Hashes of resources from the previous view.
    pub(crate) had: BTreeMap<ResourceName, ContentHash>,
}

impl Shot {
    /// Set without resources.
    pub(crate) const EMPTY: Self =
        Self { at: Stamp::START, lingering: BTreeSet::new(), had: BTreeMap::new() };
}

impl Pasts {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops contents that were replaced up to `had`, except those for which `kept` returns true,
    /// and the oldest if there are more than `limit`.
    pub(crate) fn sweep(
        &mut self,
        had: Stamp,
        limit: usize,
        kept: impl Fn(&ResourceName, Stamp) -> bool,
    ) {
        self.0.retain(|(name, end), _| *end > had || kept(name, *end));
        if self.0.len() > limit {
            let mut ends: Vec<Stamp> = self.0.keys().map(|(_, end)| *end).collect();
            ends.sort_unstable();
            let oldest = ends.len().checked_sub(limit).and_then(|excess| ends.get(excess).copied());
            self.0.retain(|(_, end), _| oldest.is_none_or(|oldest| *end >= oldest));
        }
    }

    /// Returns the content that a full state had for a name, if it was replaced since or removed
    /// before.
    fn seen_in(&self, shot: &Shot, name: &ResourceName) -> Option<ContentHash> {
        let after = (name.clone(), shot.at.next());
        let next = self.0.range(after.clone()..).next().filter(|((of, _), _)| of == name);
        if let Some((_, past)) = next.filter(|(_, past)| past.set <= shot.at) {
            return Some(past.payload.hash);
        }
        let last = self.0.range(..after).next_back();
        let last = last.filter(|((of, end), _)| of == name && shot.lingering.contains(end));
        last.map(|(_, past)| past.payload.hash)
    }
}

impl Ghosts {
    /// Keeps the content of a resource that is being replaced or removed.
    pub(crate) fn keep_past(&mut self, resource: &Resource, payload: &Payload, now: Stamp) {
        if self.are_needed() {
            let past = Past { set: resource.stamp, payload: payload.clone() };
            self.pasts.0.insert((resource.name.clone(), now), past);
        }
    }
}

impl Arena {
    /// Returns the content at a revision of a resource that changed or was removed since, if
    /// known.
    pub(crate) fn as_it_was(&self, resource: &Resource, position: Stamp) -> Option<&Payload> {
        let ghost = self.ghosts.at(resource.stamp).filter(|_| resource.payload.is_none());
        if ghost.is_some() && !self.ghosts.was_set_after(resource.stamp, position) {
            return ghost;
        }
        let after = (resource.name.clone(), position.next());
        let ((name, _), past) = self.ghosts.pasts.0.range(after..).next()?;
        (*name == resource.name && past.set <= position).then_some(&past.payload)
    }

    /// Whether a full state had the current content of the resource, as far as is known. Used for
    /// clusters that reference endpoints.
    pub(crate) fn had_as_it_is(&self, shot: &Shot, resource: &Resource) -> bool {
        let Some(payload) = &resource.payload else { return false };
        resource.stamp <= shot.at
            || shot.had.get(&resource.name) == Some(&payload.hash)
            || self.ghosts.pasts.seen_in(shot, &resource.name) == Some(payload.hash)
    }
}
