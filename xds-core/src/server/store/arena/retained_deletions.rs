//! Removed resources that are still served to clients from which the removal is withheld.

use alloc::collections::VecDeque;

use super::{Arena, Resource, past_contents::Pasts};
use crate::{
    server::store::{
        encode::body::{Body, Parts, Payload, Ttls},
        revision::Stamp,
        version::content::TypeVersion,
    },
    slab::Slot,
    text::ResourceName,
};

/// Payloads of removed resources, for full-state responses that repeat them.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    /// Number of sessions that may need removed resources.
    sessions: usize,
    /// Payloads in the order of removal.
    payloads: VecDeque<Ghost>,
    /// Earlier contents of resources.
    pub(crate) pasts: Pasts,
    /// Number of entries above which the unneeded ones are searched for.
    sweep_at: usize,
    /// Newest body with removed resources, shared by clients that need the same ones.
    body: Option<(TypeVersion, Ttls, Body)>,
}

#[derive(Debug)]
struct Ghost {
    stamp: Stamp,
    resource: Slot,
    payload: Payload,
    /// Revision at which the resource was set.
    set: Stamp,
}

/// Number of entries that are always kept without a search.
const FEW: usize = 8;

impl Ghosts {
    /// Registers a session that may need removed resources.
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

    /// Whether any session may need removed resources.
    pub(crate) fn are_needed(&self) -> bool {
        self.sessions > 0
    }

    /// Keeps the payload of a removed resource, if any session may need it.
    pub(crate) fn keep(&mut self, stamp: Stamp, resource: Slot, payload: &Payload, set: Stamp) {
        if self.are_needed() {
            self.payloads.push_back(Ghost { stamp, resource, payload: payload.clone(), set });
        }
    }

    /// Drops the shared body after a change.
    pub(crate) fn forget_body(&mut self) {
        self.body = None;
    }

    /// Returns the payload of the resource that was removed at this revision.
    pub(crate) fn at(&self, stamp: Stamp) -> Option<&Payload> {
        self.ghost(stamp).map(|ghost| &ghost.payload)
    }

    /// Whether the resource removed at revision `stamp` was last set after `position`.
    pub(crate) fn was_set_after(&self, stamp: Stamp, position: Stamp) -> bool {
        self.ghost(stamp).is_some_and(|ghost| ghost.set > position)
    }

    fn ghost(&self, stamp: Stamp) -> Option<&Ghost> {
        let position = self.payloads.binary_search_by_key(&stamp, |ghost| ghost.stamp).ok()?;
        self.payloads.get(position)
    }

    /// Number of removed resources or of earlier contents, whichever is greater.
    fn len(&self) -> usize {
        self.payloads.len().max(self.pasts.len())
    }
}

impl Arena {
    /// Whether it is time to search for unneeded entries.
    pub(crate) fn has_many_ghosts(&self) -> bool {
        self.ghosts.len() > self.ghosts.sweep_at.max(FEW)
    }

    /// Drops removed resources that are not needed because all clients were sent something since
    /// `sent` and no removal is withheld. Drops earlier contents that no client has, because all
    /// clients have accepted the contents at `had` or were not sent the removal then. At most
    /// `limit` of each are kept.
    pub(crate) fn sweep_ghosts(&mut self, (sent, had): (Stamp, Stamp), limit: usize) {
        let mut ghosts = core::mem::take(&mut self.ghosts);
        ghosts.payloads.retain(|ghost| {
            let awaits = |it: &Resource| it.stamp == ghost.stamp && !it.subscribers.is_empty();
            ghost.stamp > sent || self.at(ghost.resource).is_some_and(awaits)
        });
        let excess = ghosts.payloads.len().saturating_sub(limit);
        ghosts.payloads.drain(..excess);
        ghosts.pasts.sweep(had, limit, |name, end| {
            let resource = self.find(name.as_str()).and_then(|slot| self.at(slot));
            resource.is_some_and(|it| it.stamp == end || it.stamp > had && it.buried() == Some(end))
        });
        ghosts.sweep_at = ghosts.len().saturating_mul(2);
        self.ghosts = ghosts;
    }

    /// Returns all resources and these removed ones. `version` is that of all of them together.
    pub(crate) fn full_body_with(
        &mut self,
        ghosts: &[(ResourceName, Payload)],
        version: TypeVersion,
        ttls: Ttls,
    ) -> Body {
        let is_kept = |kept: &&(TypeVersion, Ttls, Body)| (kept.0, kept.1) == (version, ttls);
        if let Some((.., body)) = self.ghosts.body.as_ref().filter(is_kept) {
            return body.clone();
        }
        let mut parts = {
            let more = ghosts.iter().map(|(_, payload)| payload.framed.len()).sum();
            Parts::from_body(&self.full_body(ttls), ttls, more)
        };
        for (name, payload) in ghosts {
            parts.push(name, payload);
        }
        let body = parts.into_body();
        self.ghosts.body = Some((version, ttls, body.clone()));
        body
    }
}
