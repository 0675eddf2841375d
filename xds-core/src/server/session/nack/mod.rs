//! NACKs: rejected responses, what is sent again (`NackRecovery`), and when a rejection ends.

pub(crate) mod isolation;
pub(crate) mod open_rejections;
pub(crate) mod rejection;

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::mem;

use self::{
    open_rejections::{RejectedRemovals, RejectionState, RetryBatch, SentPosition, SentRange},
    rejection::ErrorDetail,
};
use super::{
    PriorState, Purpose, ResponseMode, Wildcard,
    context::SessionContext,
    deferred_removal::last_accepted::KnownPayload,
    extras::RejectedData,
    response::stated_version,
    subscription::{ListKind, Subscription},
    window::Sent,
};
use crate::{
    server::{
        config::{NackRecovery, ServerConfig},
        event::{ResponseCause, status::Completeness},
        store::{revision::Revision, version::content::TypeVersion},
    },
    slab::Slot,
    text::{ResourceName, Version},
};

/// Rejected response.
#[derive(Clone, Debug)]
pub(crate) struct RejectedResponse {
    pub(crate) version: Version,
    pub(crate) code: i32,
    pub(crate) message: Arc<str>,
    /// Names of resources that were new to the client in it, possibly truncated (see `completeness`).
    pub(crate) names: Box<[ResourceName]>,
    pub(crate) completeness: Completeness,
}

impl SessionContext<'_> {
    /// Collects the details of a response that was just rejected. Takes time proportional to its
    /// contents.
    pub(crate) fn rejected(
        &self,
        sent_range: SentRange,
        version: Version,
        rejection: &ErrorDetail,
        config: &ServerConfig,
    ) -> RejectedResponse {
        let limit = config.limits.rejected_names;
        let mut names: Vec<_> = self.named_in(sent_range).take(limit + 1).cloned().collect();
        if self.session.wildcard.is_some() {
            let covered = self.arena.names_between(sent_range.from, sent_range.to);
            let is_named = |name: &&ResourceName| !names.contains(name);
            let room = (limit + 1).saturating_sub(names.len());
            let covered: Vec<_> = covered.filter(is_named).take(room).cloned().collect();
            names.extend(covered);
        }
        let completeness =
            if names.len() > limit { Completeness::Truncated } else { Completeness::Complete };
        names.truncate(limit);
        RejectedResponse {
            version,
            code: rejection.code,
            message: rejection.message.clone(),
            names: names.into(),
            completeness,
        }
    }

    /// Returns the resources of a response that was just rejected, if they are to be re-sent.
    pub(crate) fn batch_to_retry(&self, sent: Sent) -> Option<RetryBatch> {
        if !self.resends_batches() || sent.purpose != Purpose::Content || self.sends_full_state() {
            return None;
        }
        let retried_at =
            self.session.wildcard.map_or(Revision::START, |wildcard| wildcard.retried_at);
        let removals = self.rejected_removals();
        let accepted = self.session.accepted_response(self.arena, Revision::START);
        let accepted = accepted.filter(|_| removals == RejectedRemovals::Present);
        let partial_removals =
            self.session.extras.as_deref().and_then(|extras| extras.partial_removals);
        let since =
            partial_removals.map_or(Revision::MAX, |partial_removals| partial_removals.since);
        let nonce = sent.nonce.get();
        let from = sent.from.max(retried_at);
        Some(RetryBatch {
            range: SentRange { first: nonce, last: nonce, from, to: sent.to },
            until: sent.at,
            removals_from: accepted.map_or(Revision::MAX, |accepted| accepted.at.min(since)),
            removals,
        })
    }

    /// Returns whether any rejected resource is still unchanged after a response was accepted.
    /// Takes time proportional to the resources sent since the rejection.
    pub(crate) fn still_rejects(&mut self) -> bool {
        let Some(extras) = self.session.extras.as_deref_mut() else { return false };
        let mut rejections = mem::take(&mut extras.rejections);
        let has_any = |sent_range: &SentRange| {
            let covered = self.session.wildcard.is_some()
                && self.arena.names_between(sent_range.from, sent_range.to).next().is_some();
            covered || self.named_in(*sent_range).next().is_some()
        };
        let still_rejects = match self.isolates() {
            // The accepted response contained everything.
            _ if self.sends_full_state() => false,
            true => self.session.has_suspects_or_rejected(),
            false => rejections.review(has_any),
        };
        self.session.update_extras(|extras| extras.rejections = rejections);
        if !still_rejects {
            self.session.forget_rejections();
        }
        still_rejects
    }

    /// Clears rejections of resources to which the client no longer subscribes or that were
    /// removed silently, so that nothing waits for their acceptance. Takes time proportional to
    /// the resources sent since the last ACK.
    // M148
    pub(crate) fn clear_settled_rejections(&mut self) {
        let is_over = !self.session.gates_other_types() || !self.session.is_rejected();
        if is_over || self.session.awaits_answer() {
            return;
        }
        self.release_never_accepted();
        self.serve_accepted_versions();
        // Contents that are still due will be answered.
        if self.session.has_additions(self.arena) {
            return;
        }
        self.drop_stale_suspects();
        let may_have_removed_resources = match self.session.wildcard {
            Some(_) if self.session.needs_retained_deletions(self.arena) => {
                self.rejected_removals() == RejectedRemovals::Present
            }
            Some(_) if self.sends_full_state() => !self.has_accepted_everything(),
            _ => {
                let retry_batch = self.session.retry_batch();
                self.rejected_removals() == RejectedRemovals::Present
                    || retry_batch.is_some_and(|it| it.removals == RejectedRemovals::Present)
            }
        };
        if self.has_unaccepted_resources() {
            return;
        }
        if may_have_removed_resources {
            self.session.extras_mut().rejected_data = RejectedData::RemovalsOnly;
        } else {
            self.session
                .update_extras(|extras| extras.rejections.end_pending(|_| RejectionState::Settled));
            self.session.clear_rejection();
        }
    }

    /// Whether resources rejected together with a bad one are re-sent once.
    pub(crate) fn resends_batches(&self) -> bool {
        self.arena.config.nack_recovery == NackRecovery::ResendBatch
    }

    /// Records the rejection of a response, which may have been a full state.
    pub(crate) fn note_rejected_state(&mut self, sent: Sent) {
        if !self.sends_full_state() {
            return;
        }
        self.session.due.hold_leftover();
        if self.resends_batches() {
            self.session.extras_mut().rejections.state = RejectionState::FullState(sent.content);
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
        let is_done = !self.session.is_nacked() || self.session.due.is_ready();
        if !is_full || is_done || !self.resends_batches() {
            return;
        }
        let state = self.session.open_rejections().map(|rejections| rejections.state);
        let lacks_resources = self.has_unaccepted_resources()
            || self.rejected_removals() == RejectedRemovals::Present;
        let current = self.named_version();
        let is_rejected =
            |it| matches!(it, RejectionState::FullState(of) if of == current.stated());
        if !lacks_resources || state.is_some_and(is_rejected) {
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

    /// Releases withheld removals of resources that the client never accepted. They came after
    /// the last accepted response, so nothing that the client accepted references them. One of
    /// them may be the bad resource for which everything else would wait forever. Takes time
    /// proportional to the deferred removals and to the tombstones since the last removals were
    /// sent.
    // M147
    fn release_never_accepted(&mut self) {
        if !self.session.may_defer_removals(self.arena) {
            return;
        }
        let accepted = self.accepted_here();
        let never_accepted = |resource: Slot| match accepted {
            Some(accepted) => self.existed_only_after(resource, accepted),
            None => matches!(self.last_accepted(resource, None), KnownPayload::Absent),
        };
        let withheld = self.subscriptions.list(ListKind::Due, self.session.due.withheld().first());
        let is_released = |(_, it): &(Slot, &Subscription)| {
            // The resource may have existed for long when the client named it.
            accepted.is_some_and(|(nonce, _)| it.was_first_sent_after(nonce))
                || never_accepted(it.resource)
                || self.has_no_carried_version(it.resource)
        };
        let mut due: Vec<Slot> = withheld.filter(is_released).map(|(slot, _)| slot).collect();
        let pending_removals: Vec<Slot> = match self.session.wildcard {
            Some(wildcard) => {
                let sent_removals = self.session.sent_removals(&wildcard);
                let pending_removals = self
                    .arena
                    .pending_removals(sent_removals, wildcard.reached)
                    .map(|(resource, _)| resource);
                pending_removals.filter(|&resource| never_accepted(resource)).collect()
            }
            None => Vec::new(),
        };
        let nonce = self.session.newest_nonce();
        for resource in pending_removals {
            if self.subscriptions.find(self.slot, resource).is_none()
                && let Some(subscription) = self.add_one_shot(resource)
            {
                self.subscriptions.set_sent(&mut self.session.subscriptions, subscription, nonce);
                due.push(subscription);
            }
        }
        for subscription in due {
            self.make_due(subscription, ResponseCause::Changed);
        }
    }

    /// Returns nonce and revision of the last response accepted on this view, zeros if there was
    /// none. `None` if the client may have something from before.
    pub(crate) fn accepted_here(&self) -> Option<(u64, Revision)> {
        let accepted = self.session.accepted_response(self.arena, Revision::START);
        match (accepted, self.session.prior_state) {
            (Some(accepted), PriorState::Before(next)) if accepted.nonce < next => None,
            (None, PriorState::Before(_)) => None,
            (Some(accepted), _) => Some((accepted.nonce.get(), accepted.at)),
            (None, PriorState::None) => Some((0, Revision::START)),
        }
    }

    /// Whether a missing resource was also missing, or not requested, when the client last
    /// accepted a response, the one with this nonce at revision `accepted`.
    fn existed_only_after(&self, slot: Slot, (nonce, accepted): (u64, Revision)) -> bool {
        let name = self.arena.at(slot).map(|resource| &resource.name);
        let before_wildcard = self.session.before_wildcard(nonce).zip(name);
        let is_new = before_wildcard
            .is_some_and(|(before_wildcard, name)| !before_wildcard.names.contains(name));
        self.arena.existed_only_after(slot, if is_new { Revision::START } else { accepted })
    }

    /// Returns whether the responses since the last accepted one contained removals.
    pub(crate) fn rejected_removals(&self) -> RejectedRemovals {
        let accepted = self.session.accepted_response(self.arena, Revision::START);
        match self.session.may_have_removed_resources(accepted) {
            true => RejectedRemovals::Present,
            false => RejectedRemovals::None,
        }
    }

    /// Whether the full state of the wildcard is the one that the client accepted last.
    fn has_accepted_everything(&mut self) -> bool {
        let current = self.version_of_everything();
        match self.session.accepted_version() {
            Some(accepted) => {
                accepted == self.stated_version(current, stated_version::ResponseScope::Complete)
            }
            None => current == TypeVersion::default(),
        }
    }

    /// Ends the pending re-send if an accepted response contained its resources for another
    /// reason, for example because the client warms clusters.
    pub(crate) fn settle_retry_batch(&mut self, sent: Sent) {
        let retry_batch = self.session.retry_batch().filter(|it| sent.nonce.get() > it.range.last);
        // Removals are not repeated to a client without a wildcard. After a change they count as
        // accepted with the next accepted response, even if that only answers a request.
        let is_settled = |it: &RetryBatch| {
            let is_after_change = sent.at > it.until && self.session.wildcard.is_none();
            it.removals == RejectedRemovals::None || is_after_change
        };
        let Some(RetryBatch { range, .. }) = retry_batch.filter(is_settled) else { return };
        let is_unsent = |from, to| self.arena.slots_between(from, to).next().is_some();
        let is_part_left = self.session.wildcard.is_some()
            && (is_unsent(range.from, sent.from.min(range.to))
                || is_unsent(sent.to.max(range.from), range.to));
        if !is_part_left && self.named_in(range).next().is_none() {
            self.session
                .update_extras(|extras| extras.rejections.end_pending(|_| RejectionState::Settled));
        }
    }

    /// Whether anything exists that was sent since the client last accepted a response.
    fn has_unaccepted_resources(&self) -> bool {
        let accepted = self.session.accepted_response(self.arena, Revision::START);
        let (first, from) = accepted.map_or((1, Revision::START), |it| (it.nonce.get() + 1, it.to));
        let since = SentRange { first, last: u64::MAX, from, to: Revision::MAX };
        let sent_range = self.session.retry_batch().map_or(since, |it| it.range.with(since));
        // The client accepted nothing of the wildcard yet, but perhaps some resources by name.
        let before_wildcard = self.session.before_wildcard(first - 1);
        let from = if before_wildcard.is_some() { Revision::START } else { sent_range.from };
        let accepted_by_name = |slot: Slot| {
            let resource = self.arena.at(slot).zip(before_wildcard).zip(accepted);
            resource.is_some_and(|((it, before_wildcard), accepted)| {
                it.revision <= accepted.at && before_wildcard.names.contains(&it.name)
            })
        };
        let is_covered = |wildcard: Wildcard| {
            let mut sent = self.arena.slots_back(from, wildcard.cursor);
            sent.any(|slot| !accepted_by_name(slot))
        };
        self.session.wildcard.is_some_and(is_covered) || self.named_in(sent_range).next().is_some()
    }

    /// Whether the client still subscribes to a name in any way.
    pub(crate) fn subscribes_to(&self, name: &ResourceName) -> bool {
        let slot = self.arena.find(name.as_str());
        let subscription = slot.and_then(|slot| self.subscriptions.find(self.slot, slot));
        self.session.wildcard.is_some() || subscription.is_some()
    }

    /// Whether the client has no subscriptions.
    pub(crate) fn subscribes_to_nothing(&self) -> bool {
        self.session.wildcard.is_none() && self.session.subscriptions.is_empty()
    }

    pub(crate) fn sent_range(&self, sent: Sent) -> SentRange {
        let (from, to) = match (self.session.response_mode(self.arena), self.session.wildcard) {
            (_, None) => (Revision::MAX, Revision::START),
            (ResponseMode::FullState, Some(_)) => {
                let accepted = self.session.accepted_response(self.arena, Revision::START);
                (accepted.map_or(Revision::START, |accepted| accepted.to), sent.at)
            }
            (_, Some(wildcard)) => (sent.from.max(wildcard.retried_at), sent.to),
        };
        SentRange { first: sent.nonce.get(), last: sent.nonce.get(), from, to }
    }

    /// Returns the resources last sent by name in these responses and unchanged since.
    /// Subscriptions are in the order in which they were last sent, except in full state, where
    /// the order does not matter because everything was sent.
    fn named_in(&self, sent_range: SentRange) -> impl Iterator<Item = &ResourceName> {
        let is_full_state = self.sends_full_state();
        let last = self.session.subscriptions.last();
        let own = self.subscriptions.list_back(ListKind::Session, last).map(|(_, it)| it);
        own.take_while(move |it| is_full_state || it.sent >= sent_range.first)
            .filter(move |it| sent_range.has(SentPosition::Nonce(it.sent)))
            .filter(|subscription| subscription.kind.is_subscribed())
            .filter_map(|it| self.arena.at(it.resource).filter(|it| it.payload.is_some()))
            .map(|resource| &resource.name)
    }
}
