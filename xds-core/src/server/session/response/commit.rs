//! Records in a session what a response contains.

use core::num::NonZeroU64;

use super::{
    draft::Draft,
    plan::{Filled, Planned, PlannedKind, Source},
    stronger,
};
use crate::{
    server::{
        event::ResponseCause,
        session::{
            CatchUp, Role, Wildcard,
            context::SessionContext,
            deferred_removal::Portion,
            extras::PartialRemovals,
            subscription::{Delivery, DueKind, Subscription, SubscriptionKind},
        },
        store::revision::Revision,
    },
    slab::Slot,
    zoo::{self, Bug},
};

impl SessionContext<'_> {
    /// Records the items that a response contains. Returns the strongest reason for one.
    pub(super) fn commit(&mut self, draft: &mut Draft, filled: &Filled) -> Option<ResponseCause> {
        let nonce = draft.nonce.get();
        let wildcard = self.session.wildcard.filter(|_| draft.portion != Portion::Unanswered);
        if wildcard.is_some_and(|it| it.catch_up == CatchUp::ExceptKnown) {
            self.note_clusters(draft, filled);
        }
        let mut cause = None;
        for item in &filled.items {
            cause = stronger(cause, item.cause);
            match &item.source {
                Source::Wildcard { due, .. } if due.is_none() => {}
                Source::Wildcard { due, .. } => self.end_due(*due, draft.nonce),
                Source::Unsubscribed(name) => self.session.update_extras(|extras| {
                    extras.unsubscribe_removals.remove(name);
                }),
                Source::Due { resource, subscription } => {
                    self.commit_due(draft, item.kind, *resource, *subscription);
                }
            }
        }
        if let Some(wildcard) = wildcard {
            let (to, partial_to) = self.progress(&wildcard, filled);
            self.advance_removals(to, partial_to, nonce);
        }
        cause
    }

    /// Returns how far the wildcard is sent, and how far its removals are, if these are not complete.
    fn progress(&mut self, wildcard: &Wildcard, filled: &Filled) -> (Revision, Option<Revision>) {
        let Some(&Planned { source: Source::Wildcard { resource, revision, .. }, kind, .. }) =
            filled.left.as_ref()
        else {
            return (self.arena.clock(), None);
        };
        if kind == PlannedKind::Remove {
            // The cursor tells which of the other removals concern the client.
            return (wildcard.cursor, Some(revision.before()));
        }
        let is_set = |item: &Planned| item.is_of_wildcard() && item.kind == PlannedKind::Set;
        let to = match filled.items.last().is_some_and(is_set) {
            true => revision.before(),
            false => wildcard.cursor,
        };
        self.arena.resume_at(to, resource);
        (to, None)
    }

    /// Notes which clusters of the wildcard are in the response.
    fn note_clusters(&self, draft: &mut Draft, filled: &Filled) {
        if self.session.role != Role::Clusters {
            return;
        }
        let clusters = filled.items.iter().filter_map(|item| match (&item.source, item.kind) {
            (Source::Wildcard { resource, .. }, PlannedKind::Set) => Some(*resource),
            _ => None,
        });
        draft.clusters = Some(clusters.collect());
    }

    /// Records an item that is due by a subscription.
    fn commit_due(&mut self, draft: &mut Draft, kind: PlannedKind, resource: Slot, slot: Slot) {
        let was_sent = self.subscriptions.at(slot).is_some_and(|it| it.has_version());
        let is_absence = matches!(kind, PlannedKind::Remove | PlannedKind::Absence);
        draft.absences += usize::from(is_absence && !was_sent);
        if kind == PlannedKind::TooLong {
            self.session.extras_mut().too_long.insert(resource);
            let entry = self.arena.at(resource);
            let entry =
                entry.and_then(|it| Some((it.name.clone(), it.payload.as_ref()?.value.len())));
            draft.too_long.extend(entry);
        } else {
            self.session.update_extras(|extras| {
                extras.too_long.remove(&resource);
            });
        }
        if !matches!(kind, PlannedKind::Error | PlannedKind::TooLong) {
            return self.end_due(slot, draft.nonce);
        }
        self.subscriptions.clear_due(&mut self.session.due, slot);
        if kind == PlannedKind::TooLong || self.arena.payload(resource).is_none() {
            // When the error ends, the client must be sent that.
            self.note_held_in(slot, draft.nonce);
        }
    }

    /// Records that a response contains the resource of a due subscription or its removal.
    fn end_due(&mut self, slot: Slot, nonce: NonZeroU64) {
        let due = self.subscriptions.clear_due(&mut self.session.due, slot);
        let Some(subscription) = self.subscriptions.at(slot) else { return };
        let (resource, kind) = (subscription.resource, subscription.kind);
        let was_sent = subscription.has_version();
        let delivery = self.delivery_after(subscription, nonce);
        let exists = self.arena.payload(resource).is_some();
        let follows = self.session.follows_until_accepted();
        let is_followed = follows && !kind.is_subscribed() && (exists || was_sent);
        let has_ended =
            !kind.is_subscribed() || kind == SubscriptionKind::ViaGlobOrAlias && !exists;
        if has_ended && !is_followed {
            self.disconnect(slot);
        } else if due.is_some_and(|due| due.kind != DueKind::Piggyback) {
            self.set_delivery(slot, delivery);
        }
        if is_followed {
            self.set_kind(slot, SubscriptionKind::DeferredRemoval);
        }
        if is_followed || follows && was_sent && !exists {
            self.session.extras_mut().acked.followed.insert(slot);
        }
    }

    /// Returns what the client was sent of the resource of a subscription once it is sent the response
    /// with this nonce, which contains the resource or its removal.
    pub(crate) fn delivery_after(&self, it: &Subscription, nonce: NonZeroU64) -> Delivery {
        let accepted = self.session.accepted_response(self.arena);
        let accepted = accepted.map_or(0, |accepted| accepted.nonce.get());
        let accepted = self.session.wildcard.is_none().then_some(accepted);
        match self.arena.payload(it.resource) {
            Some(_) => it.delivery.after_resource(nonce, accepted),
            None => it.delivery.after_absence(nonce),
        }
    }

    /// Records that the wildcard was sent up to `to`, and removals completely or up to
    /// `partial_to`.
    pub(super) fn advance_removals(
        &mut self,
        to: Revision,
        partial_to: Option<Revision>,
        nonce: u64,
    ) {
        let Some(Wildcard { removals_to, .. }) = self.session.wildcard else { return };
        if partial_to.is_none() {
            self.advance(to);
        }
        let before = self.session.extras.as_deref().and_then(|extras| extras.partial_removals);
        let is_going_on = partial_to.is_some() || before.is_some_and(|it| it.partial_to.is_some());
        if is_going_on {
            let since = before.map_or(removals_to, |before| before.since);
            self.session.extras_mut().partial_removals =
                Some(PartialRemovals { since, partial_to, last: nonce });
        }
    }

    /// Records that the wildcard was sent up to `to`.
    pub(crate) fn advance(&mut self, to: Revision) {
        let (newest, clock) = (self.arena.newest(), self.arena.clock());
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.cursor = to;
            wildcard.reached = wildcard.reached.max(to);
            if !zoo::is(Bug::DeletionSentTwice) {
                wildcard.removals_to = clock;
            }
            if to >= newest {
                wildcard.full_send = None;
                wildcard.catch_up = CatchUp::Everything;
                self.end_retained();
            }
        }
    }
}
