//! What clusters were before they changed or went, while somebody may have that.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{Arena, Resource, retained_deletions::Ghosts};
use crate::{
    server::store::{encode::body::Payload, revision::Stamp, version::content::ContentHash},
    text::ResourceName,
};

/// Earlier contents of resources, by when they ceased to be.
#[derive(Debug, Default)]
pub(crate) struct Pasts(BTreeMap<(ResourceName, Stamp), Past>);

#[derive(Debug)]
struct Past {
    /// When it was set.
    set: Stamp,
    payload: Payload,
}

/// Which resources a full state had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shot {
    /// Those of this position.
    pub(crate) at: Stamp,
    /// And those that had been deleted then, by when they were.
    pub(crate) lingering: BTreeSet<Stamp>,
    /// And these, from another view.
    pub(crate) had: BTreeMap<ResourceName, ContentHash>,
}

impl Shot {
    /// One without a resource.
    pub(crate) const EMPTY: Self =
        Self { at: Stamp::START, lingering: BTreeSet::new(), had: BTreeMap::new() };
}

impl Pasts {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives up those that ceased to be up to `had`, but for `kept`; and the oldest, of more than `limit`.
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

    /// What a full state had under the name that ceased to be since, or was gone already.
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
    /// The resource is not like that any more.
    pub(crate) fn keep_past(&mut self, resource: &Resource, payload: &Payload, now: Stamp) {
        if self.are_needed() {
            let past = Past { set: resource.stamp, payload: payload.clone() };
            self.pasts.0.insert((resource.name.clone(), now), past);
        }
    }
}

impl Arena {
    /// What a resource was at a position that has changed since or was deleted, as far as that is known.
    pub(crate) fn as_it_was(&self, resource: &Resource, position: Stamp) -> Option<&Payload> {
        let ghost = self.ghosts.at(resource.stamp).filter(|_| resource.payload.is_none());
        if ghost.is_some() && !self.ghosts.was_set_after(resource.stamp, position) {
            return ghost;
        }
        let after = (resource.name.clone(), position.next());
        let ((name, _), past) = self.ghosts.pasts.0.range(after..).next()?;
        (*name == resource.name && past.set <= position).then_some(&past.payload)
    }

    /// Whether a full state had the resource just as it is, as far as that is known. Asked of clusters that
    /// name endpoints.
    pub(crate) fn had_as_it_is(&self, shot: &Shot, resource: &Resource) -> bool {
        let Some(payload) = &resource.payload else { return false };
        resource.stamp <= shot.at
            || shot.had.get(&resource.name) == Some(&payload.hash)
            || self.ghosts.pasts.seen_in(shot, &resource.name) == Some(payload.hash)
    }
}
