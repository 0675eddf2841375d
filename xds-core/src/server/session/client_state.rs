//! Synchronization status of each resource at a client, read without changing the session.
//!
//! The status depends on which response contained the current version of the resource, and on the
//! answer to it. Subscriptions hold this for named resources; for resources that only a wildcard
//! covers, it follows from their revisions.
// M234, IS30

use super::{
    Answer, ResponseMode, Revision,
    nack::rejection::{OpenRejections, SentPosition},
    session_view::SessionView,
    subscription::{DueKind, ListKind, Subscription},
};
use crate::{
    server::{
        event::{ResponseCause, status::ResourceSync},
        store::arena::{ResourceEntry, encoded_changes::ResourceSet},
    },
    slab::Slot,
};

impl<'a> SessionView<'a> {
    /// Returns the resources to which the client subscribes: named ones first, then others that a
    /// wildcard covers.
    pub(crate) fn resources(self) -> impl Iterator<Item = (&'a ResourceEntry, ResourceSync)> {
        let wildcard = self.session.wildcard.is_some();
        let covered = wildcard.then(|| self.arena.slots()).into_iter().flatten();
        self.named().chain(covered.filter_map(move |slot| self.covered(slot)))
    }

    fn named(self) -> impl Iterator<Item = (&'a ResourceEntry, ResourceSync)> {
        let last = self.session.subscriptions.last();
        let subscriptions = self.subscriptions.list_back(ListKind::Session, last);
        let named = subscriptions.map(|(_, it)| it).filter(|it| it.kind.is_subscribed());
        named.filter_map(move |subscription| {
            let resource = self.arena.at(subscription.resource)?;
            let is_represented = self.arena.has_members(subscription.resource)
                || self.session.alias_target(subscription.resource, self.arena).is_some();
            let sync = self.sync_of_subscription(subscription, resource);
            (resource.payload.is_some() || !is_represented).then_some((resource, sync))
        })
    }

    fn covered(self, slot: Slot) -> Option<(&'a ResourceEntry, ResourceSync)> {
        let resource = self.arena.at(slot).filter(|resource| resource.payload.is_some())?;
        let sync = match self.subscriptions.of(self.slot, slot) {
            Some(subscription) if subscription.kind.is_subscribed() => return None,
            Some(subscription) if subscription.has_version() => {
                self.sync_of_subscription(subscription, resource)
            }
            _ => self.sync_of_revision(resource),
        };
        Some((resource, sync))
    }

    fn sync_of_subscription(
        &self,
        subscription: &Subscription,
        resource: &ResourceEntry,
    ) -> ResourceSync {
        if resource.payload.is_none() {
            return ResourceSync::Missing;
        }
        // Resources sent again for these reasons are unchanged.
        let repeats = |cause| matches!(cause, ResponseCause::Warming | ResponseCause::Recovery);
        let is_due = subscription
            .due
            .is_some_and(|due| due.kind != DueKind::Piggyback && !repeats(due.cause));
        if !subscription.has_version() || is_due {
            return ResourceSync::NotSent;
        }
        self.sync_of(resource, SentPosition::Nonce(subscription.last_sent()))
    }

    fn sync_of_revision(&self, resource: &ResourceEntry) -> ResourceSync {
        let reached = self.session.reached();
        let sent_to = match (self.session.response_mode(self.arena), self.session.newest) {
            (ResponseMode::FullState, Some(newest)) => newest.at,
            // The client stated that it had everything when it connected.
            (ResponseMode::FullState, None) if self.session.accepted.is_some() => {
                self.session.wildcard.map_or(Revision::START, |wildcard| wildcard.removals_to)
            }
            (ResponseMode::FullState, None) => Revision::START,
            _ => reached,
        };
        if resource.revision > sent_to {
            return ResourceSync::NotSent;
        }
        self.sync_of(resource, SentPosition::Revision(resource.revision))
    }

    /// Returns the status of a resource whose current version was sent.
    fn sync_of(&self, resource: &ResourceEntry, position: SentPosition) -> ResourceSync {
        let rejections = self.session.rejections();
        // In full state every response contains all resources.
        let is_full_state = self.session.response_mode(self.arena) == ResponseMode::FullState;
        let is_isolating = self.session.is_isolating();
        if is_isolating && let Some(sync) = self.sync_while_isolating(resource) {
            return sync;
        }
        if !is_full_state && !is_isolating && rejections.is_some_and(|it| it.has(position)) {
            return ResourceSync::Error;
        }
        let accepted = self.session.accepted_response(self.arena);
        let is_accepted = accepted.is_some_and(|accepted| match position {
            SentPosition::Nonce(nonce) => nonce <= accepted.nonce.get(),
            SentPosition::Revision(revision) => revision <= accepted.to,
        });
        let sent_again = rejections.and_then(OpenRejections::sent_again);
        if is_accepted && !sent_again.is_some_and(|range| range.has(position)) {
            return ResourceSync::Synced;
        }
        self.sync_of_newest()
    }

    /// Returns the status of a resource that the client was sent, while rejected resources are
    /// isolated. `None` if it does not depend on that.
    fn sync_while_isolating(&self, resource: &ResourceEntry) -> Option<ResourceSync> {
        let (name, hash) = (&resource.name, resource.payload.as_ref()?.hash);
        let is_full_state = self.session.response_mode(self.arena) == ResponseMode::FullState;
        let has_it = |state: &ResourceSet| state.has(name, hash);
        if is_full_state && self.session.accepted_state().is_some_and(has_it) {
            return Some(ResourceSync::Synced);
        }
        let unanswered = self.session.unanswered_nonce();
        if unanswered.and_then(|nonce| self.session.kept_state(nonce)).is_some_and(has_it) {
            return Some(ResourceSync::Stale);
        }
        let is_rejected = is_full_state || self.session.is_suspect(name, hash);
        is_rejected.then_some(ResourceSync::Error)
    }

    fn sync_of_newest(&self) -> ResourceSync {
        match self.session.newest.map(|newest| newest.answer) {
            Some(Answer::Pending | Answer::Overdue) => ResourceSync::Stale,
            Some(Answer::Nack) => ResourceSync::Error,
            Some(Answer::Ack) | None => ResourceSync::Synced,
        }
    }
}
