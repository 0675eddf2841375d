//! What was deleted and is still served to who has not been told yet.

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

/// Payloads of deleted resources, for responses in full state that do not tell of the deletion.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    /// How many sessions may need one.
    sessions: usize,
    /// In the order of deletion.
    payloads: VecDeque<Ghost>,
    /// What clusters were earlier.
    pub(crate) pasts: Pasts,
    /// How many there may be before it is looked which are needed.
    sweep_at: usize,
    /// The newest body that has some of them; those who wait for the same share it.
    body: Option<(TypeVersion, Ttls, Body)>,
}

#[derive(Debug)]
struct Ghost {
    stamp: Stamp,
    resource: Slot,
    payload: Payload,
    /// When it was set.
    set: Stamp,
}

/// How many ghosts are kept without a look at who needs them.
const FEW: usize = 8;

impl Ghosts {
    /// One session more may need one.
    pub(crate) fn join(&mut self) {
        self.sessions += 1;
    }

    /// One session less.
    pub(crate) fn leave(&mut self) {
        self.sessions -= 1;
        if self.sessions == 0 {
            *self = Self::default();
        }
    }

    /// Whether anybody may need one.
    pub(crate) fn are_needed(&self) -> bool {
        self.sessions > 0
    }

    /// A resource was deleted.
    pub(crate) fn keep(&mut self, stamp: Stamp, resource: Slot, payload: &Payload, set: Stamp) {
        if self.are_needed() {
            self.payloads.push_back(Ghost { stamp, resource, payload: payload.clone(), set });
        }
    }

    /// Anything changed.
    pub(crate) fn forget_body(&mut self) {
        self.body = None;
    }

    /// What was deleted at that position.
    pub(crate) fn at(&self, stamp: Stamp) -> Option<&Payload> {
        self.ghost(stamp).map(|ghost| &ghost.payload)
    }

    /// Whether what was deleted at that position had been set as it was after this one.
    pub(crate) fn was_set_after(&self, stamp: Stamp, position: Stamp) -> bool {
        self.ghost(stamp).is_some_and(|ghost| ghost.set > position)
    }

    fn ghost(&self, stamp: Stamp) -> Option<&Ghost> {
        let position = self.payloads.binary_search_by_key(&stamp, |ghost| ghost.stamp).ok()?;
        self.payloads.get(position)
    }

    /// How many there are, or earlier contents if those are more.
    fn len(&self) -> usize {
        self.payloads.len().max(self.pasts.len())
    }
}

impl Arena {
    /// Whether it is time to see which ghosts are needed.
    pub(crate) fn has_many_ghosts(&self) -> bool {
        self.ghosts.len() > self.ghosts.sweep_at.max(FEW)
    }

    /// Gives up ghosts that nobody needs: everybody has been sent something since `sent`, and nobody
    /// waits to be told of the deletion. The same of earlier contents that nobody has: everybody has
    /// accepted what was there at `had`, or had not been told then that it was gone. No more than `limit` are
    /// kept in any case.
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

    /// All resources and these, which are deleted; `version` is that of all together.
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
