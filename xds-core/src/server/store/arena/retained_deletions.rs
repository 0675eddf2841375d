//! Removed resources that are still served to clients from which the removal is withheld.

use alloc::collections::VecDeque;

use super::{Arena, ResourceEntry, past_contents::PastContents};
use crate::{
    server::store::{
        encode::body::{BodyBuilder, Payload, ResponseBody, Ttls},
        revision::Revision,
        version::content::TypeVersion,
    },
    slab::Slot,
    text::ResourceName,
};

/// Payloads of removed resources, for full-state responses that repeat them.
#[derive(Debug, Default)]
pub(crate) struct RetainedDeletions {
    /// Number of sessions that may need removed resources.
    sessions: usize,
    /// Payloads in the order of removal.
    payloads: VecDeque<RetainedDeletion>,
    /// Earlier contents of resources.
    pub(crate) past_contents: PastContents,
    /// Number of entries above which the unneeded ones are searched for.
    sweep_at: usize,
    /// Newest body with removed resources, shared by clients that need the same ones.
    body: Option<(TypeVersion, Ttls, ResponseBody)>,
}

#[derive(Debug)]
struct RetainedDeletion {
    revision: Revision,
    resource: Slot,
    payload: Payload,
    /// Revision at which the resource was set.
    set: Revision,
}

/// Number of entries that are always kept without a search.
const FEW: usize = 8;

impl RetainedDeletions {
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
    pub(crate) fn keep(
        &mut self,
        revision: Revision,
        resource: Slot,
        payload: &Payload,
        set: Revision,
    ) {
        if self.are_needed() {
            self.payloads.push_back(RetainedDeletion {
                revision,
                resource,
                payload: payload.clone(),
                set,
            });
        }
    }

    /// Drops the shared body after a change.
    pub(crate) fn forget_body(&mut self) {
        self.body = None;
    }

    /// Returns the payload of the resource that was removed at this revision.
    pub(crate) fn at(&self, revision: Revision) -> Option<&Payload> {
        self.retained_deletion(revision).map(|retained_deletion| &retained_deletion.payload)
    }

    /// Whether the resource removed at `revision` was last set after `position`.
    pub(crate) fn was_set_after(&self, revision: Revision, position: Revision) -> bool {
        self.retained_deletion(revision)
            .is_some_and(|retained_deletion| retained_deletion.set > position)
    }

    fn retained_deletion(&self, revision: Revision) -> Option<&RetainedDeletion> {
        let position = self
            .payloads
            .binary_search_by_key(&revision, |retained_deletion| retained_deletion.revision)
            .ok()?;
        self.payloads.get(position)
    }

    /// Number of removed resources or of earlier contents, whichever is greater.
    fn len(&self) -> usize {
        self.payloads.len().max(self.past_contents.len())
    }
}

impl Arena {
    /// Whether it is time to search for unneeded entries.
    pub(crate) fn has_many_retained_deletions(&self) -> bool {
        self.retained_deletions.len() > self.retained_deletions.sweep_at.max(FEW)
    }

    /// Drops removed resources that are not needed because all clients were sent something since
    /// `sent` and no removal is withheld. Drops earlier contents that no client has, because all
    /// clients have accepted the contents at `accepted` or were not sent the removal then. At most
    /// `limit` of each are kept.
    pub(crate) fn sweep_retained_deletions(
        &mut self,
        (sent, accepted): (Revision, Revision),
        limit: usize,
    ) {
        let mut retained_deletions = core::mem::take(&mut self.retained_deletions);
        retained_deletions.payloads.retain(|retained_deletion| {
            let awaits = |it: &ResourceEntry| {
                it.revision == retained_deletion.revision && !it.subscribers.is_empty()
            };
            retained_deletion.revision > sent
                || self.at(retained_deletion.resource).is_some_and(awaits)
        });
        let excess = retained_deletions.payloads.len().saturating_sub(limit);
        retained_deletions.payloads.drain(..excess);
        retained_deletions.past_contents.sweep(accepted, limit, |name, end| {
            let resource = self.find(name.as_str()).and_then(|slot| self.at(slot));
            resource.is_some_and(|it| {
                it.revision == end || it.revision > accepted && it.removed_at() == Some(end)
            })
        });
        retained_deletions.sweep_at = retained_deletions.len().saturating_mul(2);
        self.retained_deletions = retained_deletions;
    }

    /// Returns all resources and these removed ones. `version` is that of all of them together.
    pub(crate) fn full_body_with(
        &mut self,
        retained_deletions: &[(ResourceName, Payload)],
        version: TypeVersion,
        ttls: Ttls,
    ) -> ResponseBody {
        let is_kept =
            |kept: &&(TypeVersion, Ttls, ResponseBody)| (kept.0, kept.1) == (version, ttls);
        if let Some((.., body)) = self.retained_deletions.body.as_ref().filter(is_kept) {
            return body.clone();
        }
        let mut parts = {
            let more = retained_deletions.iter().map(|(_, payload)| payload.framed.len()).sum();
            BodyBuilder::from_body(&self.full_body(ttls), ttls, more)
        };
        for (name, payload) in retained_deletions {
            parts.push(name, payload);
        }
        let body = parts.into_body();
        self.retained_deletions.body = Some((version, ttls, body.clone()));
        body
    }
}
