//! Earlier contents of changed and removed resources, kept while a client may have them. Full-state
//! responses repeat those of resources whose removal is withheld.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{Arena, ResourceEntry};
use crate::{
    server::store::{
        encode::body::{BodyBuilder, Payload, ResponseBody, Ttls},
        revision::Revision,
        version::content::{ContentHash, TypeVersion},
    },
    text::ResourceName,
};

/// Earlier contents of resources.
#[derive(Debug, Default)]
pub(crate) struct PastContents {
    /// Number of sessions that may need them.
    sessions: usize,
    /// Contents by name and the revision at which they were replaced or removed.
    contents: BTreeMap<(ResourceName, Revision), PastContent>,
    /// Number of contents above which the unneeded ones are searched for.
    sweep_at: usize,
    /// Newest body with removed resources, shared by clients that need the same ones.
    body: Option<(TypeVersion, Ttls, ResponseBody)>,
}

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

/// Number of contents that are always kept without a search.
const FEW: usize = 8;

impl PastContents {
    /// Registers a session that may need earlier contents.
    pub(crate) fn join(&mut self) {
        self.sessions += 1;
    }

    /// Unregisters a session. Drops everything after the last one.
    pub(crate) fn leave(&mut self) {
        self.sessions -= 1;
        if self.sessions == 0 {
            *self = Self::default();
        }
    }

    /// Keeps the content of a resource that is being replaced or removed, if any session may need
    /// it.
    pub(crate) fn keep(&mut self, resource: &ResourceEntry, payload: &Payload, now: Revision) {
        if self.sessions > 0 {
            let past_content = PastContent { set: resource.revision, payload: payload.clone() };
            self.contents.insert((resource.name.clone(), now), past_content);
        }
    }

    /// Drops the shared body after a change.
    pub(crate) fn forget_body(&mut self) {
        self.body = None;
    }

    /// Returns the content that a full state had for a name, if it was replaced since or removed
    /// before.
    fn content_in(&self, snapshot: &AckedSnapshot, name: &ResourceName) -> Option<ContentHash> {
        let after = (name.clone(), snapshot.at.next());
        let next = self.contents.range(after.clone()..).next().filter(|((of, _), _)| of == name);
        if let Some((_, past_content)) =
            next.filter(|(_, past_content)| past_content.set <= snapshot.at)
        {
            return Some(past_content.payload.hash);
        }
        let last = self.contents.range(..after).next_back();
        let last = last.filter(|((of, end), _)| of == name && snapshot.removed.contains(end));
        last.map(|(_, past_content)| past_content.payload.hash)
    }
}

impl Arena {
    /// Returns the last content of a removed resource, if known.
    pub(crate) fn removed_content(&self, resource: &ResourceEntry) -> Option<&Payload> {
        let key = (resource.name.clone(), resource.revision);
        let past_content = self.past_contents.contents.get(&key);
        past_content.filter(|_| resource.payload.is_none()).map(|it| &it.payload)
    }

    /// Returns the content at a revision of a resource that changed or was removed since, if
    /// known.
    pub(crate) fn content_at(
        &self,
        resource: &ResourceEntry,
        position: Revision,
    ) -> Option<&Payload> {
        let after = (resource.name.clone(), position.next());
        let ((name, _), past_content) = self.past_contents.contents.range(after..).next()?;
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
            || self.past_contents.content_in(snapshot, &resource.name) == Some(payload.hash)
    }

    /// Whether it is time to search for unneeded contents.
    pub(crate) fn has_many_past_contents(&self) -> bool {
        self.past_contents.contents.len() > self.past_contents.sweep_at.max(FEW)
    }

    /// Drops contents that no client has, because all clients have accepted the contents at
    /// `accepted` or were not sent the removal then. At most `limit` are kept; those of withheld
    /// removals are dropped last.
    pub(crate) fn sweep_past_contents(&mut self, accepted: Revision, limit: usize) {
        let mut past = core::mem::take(&mut self.past_contents);
        let resource = |name: &ResourceName| self.find(name.as_str()).and_then(|it| self.at(it));
        past.contents.retain(|(name, end), _| {
            let is_last = |it: &ResourceEntry| {
                it.revision == *end || it.revision > accepted && it.removed_at() == Some(*end)
            };
            *end > accepted || resource(name).is_some_and(is_last)
        });
        let excess = past.contents.len().saturating_sub(limit);
        if excess > 0 {
            let is_withheld = |(name, end): &(ResourceName, Revision)| {
                resource(name).is_some_and(|it| it.revision == *end && !it.subscribers.is_empty())
            };
            let mut order: Vec<_> =
                past.contents.keys().map(|key| (is_withheld(key), key.1)).collect();
            order.sort_unstable();
            let dropped: BTreeSet<_> = order.into_iter().take(excess).map(|(_, end)| end).collect();
            past.contents.retain(|(_, end), _| !dropped.contains(end));
        }
        past.sweep_at = past.contents.len().saturating_mul(2);
        self.past_contents = past;
    }

    /// Returns all resources and these removed ones. `version` is that of all of them together.
    pub(crate) fn full_body_with(
        &mut self,
        removed: &[(ResourceName, Payload)],
        version: TypeVersion,
        ttls: Ttls,
    ) -> ResponseBody {
        let is_kept =
            |kept: &&(TypeVersion, Ttls, ResponseBody)| (kept.0, kept.1) == (version, ttls);
        if let Some((.., body)) = self.past_contents.body.as_ref().filter(is_kept) {
            return body.clone();
        }
        let mut parts = {
            let more = removed.iter().map(|(_, payload)| payload.framed.len()).sum();
            BodyBuilder::from_body(&self.full_body(ttls), ttls, more)
        };
        for (name, payload) in removed {
            parts.push(name, payload);
        }
        let body = parts.into_body();
        self.past_contents.body = Some((version, ttls, body.clone()));
        body
    }
}
