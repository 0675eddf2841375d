//! Resources that are sent again after a NACK, and the times at which they are.

use super::rejection::{OpenRejections, RejectionState, RetryBatch, SentPosition, SentRange};
use crate::server::{
    config::NackRecovery,
    event::ResponseCause,
    session::{
        Purpose, ResponseMode, Wildcard,
        context::SessionContext,
        subscription::{Due, DueKind, ListKind},
        window::Sent,
    },
    store::revision::Revision,
};

impl SessionContext<'_> {
    /// Records the rejection of a response, whose resources are in `range`.
    pub(crate) fn note_nack(&mut self, sent: Sent, range: SentRange) {
        if sent.purpose == Purpose::Heartbeat {
            return;
        }
        let new = match self.arena.config.nack_recovery {
            NackRecovery::ResendBatch if self.sends_full_state() => {
                RejectionState::FullState(sent.content)
            }
            NackRecovery::ResendBatch => RejectionState::Whole(self.batch_to_retry(sent, range)),
            NackRecovery::Minimal | NackRecovery::Isolate => RejectionState::GivenUp,
        };
        let is_newest = self.session.newest_nonce() == sent.nonce.get();
        self.session.extras_mut().rejections.add(range, new, is_newest);
    }

    fn batch_to_retry(&self, sent: Sent, range: SentRange) -> RetryBatch {
        let has_removals = self.has_rejected_removals();
        let accepted = self.session.accepted_response(self.arena);
        let extras = self.session.extras.as_deref();
        let partial_removals = extras.and_then(|extras| extras.partial_removals);
        let removals_from = accepted.filter(|_| has_removals).map(|accepted| {
            partial_removals.map_or(accepted.at, |partial| accepted.at.min(partial.since))
        });
        RetryBatch { range, until: sent.at, removals_from, has_removals }
    }

    /// Re-sends the rest of the rejected resources once, together with the first later change.
    // M107, IS4
    pub(crate) fn piggyback_retry_batch(&mut self) {
        let Some(retry_batch) = self.session.retry_batch() else { return };
        if !self.has_change_after(retry_batch.until) {
            return;
        }
        let cursor = self.session.wildcard.map_or(Revision::START, |wildcard| wildcard.cursor);
        self.session.update_extras(|extras| extras.rejections.send_again(cursor));
        let may_repeat_removals =
            !self.session.defers_removals() && self.session.due.withheld().is_empty();
        let mut slot = self.session.subscriptions.last();
        while let Some(subscription) = self.subscriptions.at(slot)
            && subscription.last_sent() >= retry_batch.range.first
        {
            let previous = self.subscriptions.previous(ListKind::Session, slot);
            let exists = self.arena.payload(subscription.resource).is_some();
            let is_included = retry_batch.range.has(SentPosition::Nonce(subscription.last_sent()));
            if exists && is_included {
                let due = Due::because(ResponseCause::Changed).piggybacked();
                self.subscriptions.set_due(&mut self.session.due, slot, due);
            }
            slot = previous;
        }
        let least =
            if self.session.named == 0 { self.session.wildcard_since() } else { Revision::START };
        if let Some(wildcard) = &mut self.session.wildcard {
            let sent_after = retry_batch.range.wildcard.map(|part| part.after);
            wildcard.cursor = sent_after.into_iter().fold(wildcard.cursor, Revision::min);
            // A client that rejected the response as a whole did not process its removals (IS11).
            // Deferred removals have their own subscriptions and order.
            if may_repeat_removals {
                let from = retry_batch.removals_from.map(|from| from.max(least));
                wildcard.removals_to = from.into_iter().fold(wildcard.removals_to, Revision::min);
                self.session.update_extras(|extras| extras.partial_removals = None);
            }
        }
    }

    /// Whether a change after `revision` is due.
    fn has_change_after(&self, revision: Revision) -> bool {
        self.has_newer_due(revision, |due| due.cause == ResponseCause::Changed)
    }

    /// Whether a resource that changed after `revision` is due from the wildcard, or from a subscription
    /// for which `filter` returns `true`.
    pub(super) fn has_newer_due(&self, revision: Revision, filter: fn(Due) -> bool) -> bool {
        let is_newer =
            |slot| self.arena.at(slot).is_some_and(|resource| resource.revision > revision);
        let newest = self.arena.newest();
        let has_newer = |wildcard: Wildcard| {
            newest
                > revision.max(wildcard.full_send.map_or(wildcard.cursor, |full_send| full_send.at))
        };
        let has_newer_removal = |wildcard: Wildcard| {
            self.session.response_mode(self.arena) == ResponseMode::ChangesAndRemovals
                && !self.session.defers_removals()
                && self.arena.sends_removals()
                && self.arena.newest_tombstone() > revision.max(wildcard.removals_to)
                // Resources removed before the client was sent them need no removal.
                && self
                    .arena
                    .pending_removals(self.session.sent_removals(&wildcard), wildcard.reached)
                    .any(|(_, resource)| resource.revision > revision)
        };
        if self.session.wildcard.is_some_and(|it| has_newer(it) || has_newer_removal(it)) {
            return true;
        }
        let mut due = self.session.due_subscriptions(self.subscriptions);
        due.any(|it| it.due.is_some_and(filter) && is_newer(it.resource))
    }

    /// Records the ACK of a response with content. Nothing is sent again if the response contained
    /// all of it for another reason, for example because the client warms clusters.
    pub(crate) fn note_accepted(&mut self, sent: Sent) {
        // A part of what is sent again may have had no room.
        let is_rest = |due: Due| due.kind == DueKind::Piggyback;
        let has_rest = self.session.rejections().is_some()
            && self
                .session
                .due_subscriptions(self.subscriptions)
                .any(|it| it.due.is_some_and(is_rest));
        let sent_again = self.session.rejections().and_then(OpenRejections::sent_again);
        self.note_accepted_resources(sent, sent_again.filter(|_| !has_rest));
        self.session.update_extras(|extras| extras.rejections.note_accepted(sent.to, has_rest));
        let retry_batch = self.session.retry_batch().filter(|it| sent.nonce.get() > it.range.last);
        // Removals are not repeated to a client without a wildcard. After a change they count as
        // accepted with the next accepted response, even if that only answers a request.
        let is_settled = |it: &RetryBatch| {
            let is_after_change = sent.at > it.until && self.session.wildcard.is_none();
            !it.has_removals || is_after_change
        };
        let Some(RetryBatch { range, .. }) = retry_batch.filter(is_settled) else { return };
        let is_unsent = |from, to| self.arena.slots_between(from, to).next().is_some();
        let is_part_left = self.covered_part(range).is_some_and(|part| {
            is_unsent(part.after, sent.from.min(part.up_to))
                || is_unsent(sent.to.max(part.after), part.up_to)
        });
        if !is_part_left && self.view().named_in(range).next().is_none() {
            self.session.update_extras(|extras| extras.rejections.clear());
        }
    }

    /// Re-sends the full state if the resource that caused its rejection may have been removed
    /// silently.
    pub(crate) fn recover_after_silent_removal(&mut self) {
        if !self.arena.absence_deletes() {
            self.recover_full_state();
        }
    }

    /// Re-sends the full state after a NACK if the client unsubscribed from the resource that
    /// caused it and lacks other resources. Otherwise nothing might ever become due. Takes time
    /// proportional to the names of the client.
    // M107
    pub(crate) fn recover_full_state(&mut self) {
        let is_full = self.sends_full_state() && self.session.wildcard.is_none();
        let is_done = !self.session.is_nacked() || self.session.is_ready();
        let sends_again = self.arena.config.nack_recovery == NackRecovery::ResendBatch;
        if !is_full || is_done || !sends_again {
            return;
        }
        let lacks_resources =
            self.view().has_unaccepted_resources() || self.has_rejected_removals();
        let current = self.named_version().stated();
        if !lacks_resources || self.session.rejections().is_some_and(|it| it.has_state(current)) {
            return;
        }
        // If this resource is removed, nothing is due any more, so an existing one is preferred.
        let first = self.session.subscriptions.first();
        let own = || self.subscriptions.list(ListKind::Session, first);
        let existing = own().find(|(_, it)| self.arena.payload(it.resource).is_some());
        let found = existing.or_else(|| own().find(|(_, it)| !it.is_withheld()));
        if let Some(slot) = found.map(|(slot, _)| slot) {
            self.make_due(slot, ResponseCause::Recovery);
        }
    }
}
