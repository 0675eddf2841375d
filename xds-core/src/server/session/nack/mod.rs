//! NACKs: rejected responses, what is sent again (`NackRecovery`), and when a rejection ends.
//!
//! | file | subject |
//! |---|---|
//! | `error_detail.rs` | the error that a NACK states |
//! | `rejection.rs` | state of the rejection: which responses are rejected, and what is to be sent again |
//! | `rejected.rs` | resources that the client has rejected and not accepted since |
//! | `followed.rs` | removals that an incremental client may reject or has rejected |
//! | `retry.rs` | resources that are sent again with the next change |
//! | `isolation.rs` | resources that are sent alone, to find those that the client rejects |
//! | `kept_contents.rs` | contents of responses, from which it follows what a client has meanwhile |
//!
//! This file answers whether anything that was rejected is left.

pub(crate) mod error_detail;
mod followed;
pub(crate) mod isolation;
pub(crate) mod kept_contents;
pub(crate) mod rejected;
pub(crate) mod rejection;
mod retry;

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::mem;

use self::{
    error_detail::ErrorDetail,
    kept_contents::KeptContents,
    rejected::RejectedResources,
    rejection::{OpenRejections, SentPosition, SentRange, WildcardPart},
};
use super::{
    ResponseMode, Session, Wildcard,
    acked::Has,
    context::SessionContext,
    response::stated_version,
    session_view::SessionView,
    subscription::{ListKind, Subscription},
    window::Sent,
};
use crate::{
    server::{
        config::ServerConfig,
        event::{ResponseCause, status::Completeness},
        store::{arena::ResourceEntry, revision::Revision},
    },
    service::Variant,
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
    /// Oldest transaction with a change in it.
    pub(crate) oldest: u64,
}

impl SessionContext<'_> {
    /// Collects the details of a response that was just rejected. Takes time proportional to its
    /// contents.
    pub(crate) fn rejected(
        &self,
        sent_range: SentRange,
        version: Version,
        rejection: &ErrorDetail,
        oldest: u64,
        config: &ServerConfig,
    ) -> RejectedResponse {
        let limit = config.limits.rejected_names;
        let mut names = self.new_names(sent_range, limit.saturating_add(1));
        let completeness =
            if names.len() > limit { Completeness::Truncated } else { Completeness::Complete };
        names.truncate(limit);
        RejectedResponse {
            version,
            code: rejection.code,
            message: rejection.message.clone(),
            names: names.into(),
            completeness,
            oldest,
        }
    }

    /// Returns the names of the resources of a response that were new to the client, at most `limit`.
    fn new_names(&self, sent_range: SentRange, limit: usize) -> Vec<ResourceName> {
        if let Some(names) = self.session.new_names(sent_range.last) {
            return names.take(limit).cloned().collect();
        }
        let mut names: Vec<_> = self.view().named_in(sent_range).take(limit).cloned().collect();
        if let Some(part) = self.covered_part(sent_range) {
            let covered = self.arena.names_between(part.after, part.up_to);
            let is_named = |name: &&ResourceName| !names.contains(name);
            let room = limit.saturating_sub(names.len());
            let covered: Vec<_> = covered.filter(is_named).take(room).cloned().collect();
            names.extend(covered);
        }
        names
    }

    /// Returns whether any rejected resource is still unchanged after a response was accepted.
    /// Takes time proportional to the resources sent since the rejection.
    pub(crate) fn still_rejects(&mut self) -> bool {
        self.drop_stale_suspects();
        let Some(extras) = self.session.extras.as_deref_mut() else { return false };
        let mut rejections = mem::take(&mut extras.rejections);
        let has_any = |sent_range: &SentRange| {
            let covered = self.covered_part(*sent_range);
            covered.is_some_and(|it| self.arena.names_between(it.after, it.up_to).next().is_some())
                || self.view().named_in(*sent_range).next().is_some()
        };
        let still_rejects = match self.isolates() {
            true => rejections.suspects().is_some(),
            // The accepted response contained everything.
            false if self.sends_full_state() => false,
            false => rejections.review(has_any),
        };
        if !still_rejects {
            rejections.forget_until_changed();
        }
        self.session.update_extras(|extras| extras.rejections = rejections);
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
        // Contents that are still due will be answered.
        if self.session.has_additions(self.arena) {
            return;
        }
        self.drop_stale_suspects();
        let may_have_removed_resources = match self.session.wildcard {
            Some(_) if self.session.needs_retained_deletions(self.arena) => {
                self.has_rejected_removals()
            }
            Some(_) if self.sends_full_state() => !self.has_accepted_everything(),
            _ => {
                let retry_batch = self.session.retry_batch();
                self.has_rejected_removals() || retry_batch.is_some_and(|it| it.has_removals)
            }
        };
        if !may_have_removed_resources && !self.view().has_unaccepted_resources() {
            self.session.update_extras(|extras| extras.rejections.clear());
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
        let view = self.view();
        let withheld = self.subscriptions.list(ListKind::Due, self.session.due.withheld().first());
        let is_released = |(_, it): &(Slot, &Subscription)| {
            let is_kept = !self.session.needs_retained_deletions(self.arena)
                || self.session.repeated_version(it.resource, self.arena).is_some();
            !is_kept || matches!(view.has(it.resource, Some(it)), Has::Nothing)
        };
        let mut due: Vec<Slot> = withheld.filter(is_released).map(|(slot, _)| slot).collect();
        let pending_removals: Vec<Slot> = match self.session.wildcard {
            Some(wildcard) => {
                let sent_removals = self.session.sent_removals(&wildcard);
                let pending_removals = self.arena.pending_removals(sent_removals, wildcard.reached);
                let pending_removals = pending_removals.map(|(resource, _)| resource);
                let is_released = |&resource: &Slot| {
                    self.subscriptions.find(self.slot, resource).is_none()
                        && matches!(view.has(resource, None), Has::Nothing)
                };
                pending_removals.filter(is_released).collect()
            }
            None => Vec::new(),
        };
        for resource in pending_removals {
            if let Some(subscription) = self.add_retained(resource) {
                self.note_held(subscription);
                due.push(subscription);
            }
        }
        for subscription in due {
            self.make_due(subscription, ResponseCause::Changed);
        }
    }

    /// Whether the responses since the last accepted one contained removals that are not followed one
    /// by one.
    fn has_rejected_removals(&self) -> bool {
        let accepted = self.session.accepted_response(self.arena);
        !self.session.follows_until_accepted() && self.session.may_have_removed_resources(accepted)
    }

    /// Whether the full state of the wildcard is the one that the client accepted last. A client that
    /// has accepted nothing may have resources from an earlier stream, even if it states no version.
    fn has_accepted_everything(&mut self) -> bool {
        let current = self.version_of_everything();
        let current = self.stated_version(current, stated_version::ResponseScope::Complete);
        self.session.accepted_version() == Some(current)
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

    /// Returns the location of the resources of a response.
    pub(crate) fn sent_range(&self, sent: Sent) -> SentRange {
        let part = |_| match self.session.response_mode(self.arena) {
            ResponseMode::FullState => {
                let accepted = self.session.accepted_response(self.arena);
                let after = accepted.map_or(Revision::START, |accepted| accepted.to);
                WildcardPart { after, up_to: sent.at }
            }
            ResponseMode::Changes | ResponseMode::ChangesAndRemovals => {
                let rejections = self.session.rejections();
                let repeated = rejections.map_or(Revision::START, OpenRejections::sent_again_to);
                WildcardPart { after: sent.from.max(repeated), up_to: sent.to }
            }
        };
        SentRange { wildcard: self.session.wildcard.map(part), ..SentRange::of(sent.nonce.get()) }
    }

    /// Returns the part of a range that the wildcard of the client covers, if it still has one.
    pub(super) fn covered_part(&self, sent_range: SentRange) -> Option<WildcardPart> {
        sent_range.wildcard.filter(|_| self.session.wildcard.is_some())
    }
}

impl Session {
    /// Whether rejected resources are being searched for.
    pub(crate) fn is_isolating(&self) -> bool {
        self.rejections().is_some_and(|rejections| rejections.suspects().is_some())
    }
}

impl<'a> SessionView<'a> {
    /// Whether the client has all resources. It may not have been sent all deletions, which a type
    /// that waits only for resources does not need.
    pub(crate) fn has_all(self) -> bool {
        !self.session.has_additions(self.arena)
            && !self.session.awaits_answer()
            && (!self.session.is_rejected() || !self.has_unaccepted_resources())
    }

    /// Whether anything exists that the client rejected, or that was sent since it last accepted a
    /// response.
    pub(crate) fn has_unaccepted_resources(self) -> bool {
        if self.session.is_isolating() {
            return true;
        }
        let accepted = self.session.accepted_response(self.arena);
        let (first, after) =
            accepted.map_or((1, Revision::START), |it| (it.nonce.get() + 1, it.to));
        let part = WildcardPart { after, up_to: self.arena.clock() };
        let last = self.session.newest_nonce().max(first);
        let since = SentRange { first, last, wildcard: Some(part) };
        let sent_range = self.session.retry_batch().map_or(since, |it| it.range.with(since));
        // The client accepted nothing of the wildcard yet, but perhaps some resources by name.
        let before_wildcard = self.session.before_wildcard(first - 1);
        let part = sent_range.wildcard.filter(|_| before_wildcard.is_none());
        let after = part.map_or(Revision::START, |part| part.after);
        let is_covered = |wildcard: Wildcard| {
            let mut sent = self.arena.slots_back(after, wildcard.cursor);
            sent.any(|slot| !self.accepted_before_wildcard(slot))
        };
        self.session.wildcard.is_some_and(is_covered) || self.named_in(sent_range).next().is_some()
    }

    /// Whether the client accepted a resource by name before it subscribed to the wildcard, and has
    /// accepted no response since.
    fn accepted_before_wildcard(self, resource: Slot) -> bool {
        let Some(accepted) = self.session.accepted_response(self.arena) else { return false };
        let before_wildcard = self.session.before_wildcard(accepted.nonce.get());
        self.arena.at(resource).zip(before_wildcard).is_some_and(|(it, before_wildcard)| {
            it.revision <= accepted.at && before_wildcard.names.contains(&it.name)
        })
    }

    /// Returns the resources last sent by name in these responses and unchanged since.
    pub(crate) fn named_in(self, sent_range: SentRange) -> impl Iterator<Item = &'a ResourceName> {
        self.subscriptions_in(sent_range).map(|(_, resource)| &resource.name)
    }

    /// Returns the subscriptions whose resources were last sent in these responses and are unchanged
    /// since. Subscriptions are in the order in which they were last sent, except in full state, where
    /// the order does not matter because everything was sent.
    fn subscriptions_in(
        self,
        sent_range: SentRange,
    ) -> impl Iterator<Item = (&'a Subscription, &'a ResourceEntry)> {
        let is_full_state = self.session.response_mode(self.arena) == ResponseMode::FullState;
        let last = self.session.subscriptions.last();
        let own = self.subscriptions.list_back(ListKind::Session, last).map(|(_, it)| it);
        own.take_while(move |it| is_full_state || it.last_sent() >= sent_range.first)
            .filter(move |it| sent_range.has(SentPosition::Nonce(it.last_sent())))
            .filter_map(move |it| {
                let resource = self.arena.at(it.resource).filter(|it| it.payload.is_some());
                Some((it, resource?))
            })
    }
}

impl Session {
    /// Forgets the rejected resources that are not sent again until they change.
    pub(crate) fn forget_rejections(&mut self) {
        self.update_extras(|extras| extras.rejections.forget_until_changed());
    }

    /// Forgets what was to be sent again when the client is moved to another view. What an
    /// incremental client rejected is sent there if it exists, and removed otherwise.
    pub(crate) fn forget_rejections_of_view(&mut self) {
        let is_over = self.variant == Variant::Incremental;
        self.update_extras(|extras| {
            extras.rejections.leave_view(is_over);
            extras.contents = KeptContents::default();
            extras.acked.rejected = RejectedResources::default();
        });
    }
}
