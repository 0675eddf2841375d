//! Requests of the state-of-the-world variant, which list everything the client wants.
//!
//! A request with a stale or bogus nonce is dropped together with its names, which the client's
//! next request repeats. The effects of a name list are in [`names`](super::names).
// M58-M61, S0.147

use super::progress::RequestProgress;
use crate::{
    server::{
        config::{Missing, ReconnectTrust},
        event::{ResponseCause, StreamLifetime},
        queue::outbox::Outbox,
        session::{
            FirstResponse,
            context::SessionContext,
            response::stated_version::ResponseScope,
            subscription::{Delivery, ListKind, Subscription},
        },
        store::{arena::encoded_changes::ResourceSet, encode::body::Ttls},
    },
    time::Time,
    wire::request::Request,
};

impl SessionContext<'_> {
    /// Finishes a request whose list was applied.
    pub(crate) fn finish_list(
        &mut self,
        progress: &RequestProgress,
        now: Time,
        out: &mut Outbox,
    ) -> bool {
        if progress.kind.is_outdated() {
            return false;
        }
        let is_changed = progress.changes > 0 || self.session.subscribed_names() != progress.before;
        let asks = is_changed || progress.is_first;
        if is_changed && self.isolates() {
            self.forget_unsubscribed_contents();
        }
        if asks {
            self.observe_interest(out);
        }
        if asks || progress.kind.is_answer() {
            self.clear_settled_rejections();
            self.recover_full_state();
        }
        self.make_first_response_due(now);
        if progress.is_first && progress.stated_version.is_empty() {
            self.note_held_state(ResourceSet::default());
        } else if progress.is_first {
            self.apply_version_info(&progress.stated_version);
            self.make_empty_response_due(&progress.stated_version);
        }
        if !progress.is_rejection && core::mem::take(&mut self.session.warms_next) {
            self.make_everything_due(ResponseCause::Warming);
        }
        asks
    }

    /// Returns the version that a returning client states to have. A polling client that rejected
    /// a response states the nonce, which stands for the rejected version, so that it is not sent
    /// again.
    // M189
    pub(super) fn client_version<'r>(&self, request: &Request<'r>, is_rejection: bool) -> &'r str {
        match self.session.lifetime {
            StreamLifetime::SingleResponse if is_rejection && !request.nonce.is_empty() => {
                request.nonce
            }
            StreamLifetime::SingleResponse | StreamLifetime::LongLived => request.version,
        }
    }

    /// Determines whether an empty first response is due, at once or after the hold time,
    /// although no requested resource exists.
    // M39
    fn make_first_response_due(&mut self, now: Time) {
        if self.session.first_response == FirstResponse::Done {
            return;
        }
        if self.arena.config.missing == Missing::EmptyResponse {
            self.session.first_response = if self.has_subscription() {
                FirstResponse::Pending
            } else {
                FirstResponse::NotSent
            };
        }
        self.hold_first_response(now);
    }

    /// Starts holding an empty first response, unless it is already held. It is empty if no
    /// requested resource exists, or if they were all removed before they could be sent.
    // M39
    pub(crate) fn hold_first_response(&mut self, now: Time) {
        let Missing::HoldFor(time) = self.arena.config.missing else { return };
        let has_no_content = self.session.awaits_first_response()
            && self.session.wildcard.is_none()
            && self.session.named > 0;
        if has_no_content && self.absence_means_removal() {
            let until = now.after(time);
            self.session.extras_mut().first_response_hold.get_or_insert(until);
        }
    }

    fn has_subscription(&self) -> bool {
        self.session.named > 0 || self.session.wildcard.is_some()
    }

    /// Whether a resource missing from a response counts as removed.
    fn absence_means_removal(&self) -> bool {
        self.sends_full_state() && self.arena.absence_deletes()
    }

    /// Releases the held first response, unless the application still has to provide a requested
    /// name.
    pub(crate) fn end_first_response_hold(&mut self) {
        let is_requested = |subscription: &Subscription| self.is_requested(subscription.resource);
        if self.session.first_response == FirstResponse::NotSent
            && self.has_subscription()
            && !self.session.own_subscriptions(self.subscriptions).any(is_requested)
        {
            self.session.first_response = FirstResponse::Pending;
        }
    }

    /// Makes an empty first response due for a returning client whose resources were all removed.
    /// A client without earlier resources may wait, but this one would keep removed resources.
    // M39, M76, IL1
    fn make_empty_response_due(&mut self, stated: &str) {
        let is_full = self.absence_means_removal();
        let is_named = self.session.wildcard.is_none() && self.session.named > 0;
        if !is_full || !is_named || self.session.first_response != FirstResponse::NotSent {
            return;
        }
        let current = self.named_version();
        let version = self.stated_version(current, ResponseScope::Complete);
        let has_that = self.arena.versions.differ() && self.is_stated_as(version, stated);
        if !has_that {
            self.session.first_response = FirstResponse::Pending;
        }
    }

    /// Skips the first response if a returning client states the current version, provided that
    /// the configured trust allows it. By default only a wildcard without names in full state
    /// qualifies: a list of names may contain new ones, and any other response may hold only a
    /// part of its version. A polling client qualifies if versions identify their content.
    // M41, B06, M42
    fn apply_version_info(&mut self, stated: &str) {
        let has_wildcard = self.session.wildcard.is_some();
        let is_trusted = match self.arena.reconnect_trust() {
            _ if self.session.lifetime == StreamLifetime::SingleResponse => {
                self.arena.versions.is_proof()
            }
            ReconnectTrust::Never => false,
            ReconnectTrust::WildcardOnly => {
                has_wildcard && self.session.named == 0 && self.sends_full_state()
            }
            ReconnectTrust::SameNames => has_wildcard || self.session.named > 0,
        };
        // Resources with a TTL are sent again, because their age at the client is unknown.
        if !is_trusted || self.encoding().ttls == Ttls::Sent {
            return;
        }
        let current = match self.sends_full_state() && !has_wildcard {
            true => self.named_version(),
            false => self.arena.version,
        };
        let version = self.stated_version(current, ResponseScope::Complete);
        if !self.is_stated_as(version, stated) {
            return;
        }
        let newest = self.arena.newest();
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.version = current;
            wildcard.cursor = newest;
            wildcard.reached = newest;
            wildcard.full_send = None;
        }
        let mut slot = self.session.subscriptions.last();
        while let Some(subscription) = self.subscriptions.at_mut(slot) {
            if self.arena.payload(subscription.resource).is_some() {
                subscription.delivery = Delivery::Before;
                self.subscriptions.clear_due(&mut self.session.due, slot);
            }
            slot = self.subscriptions.previous(ListKind::Session, slot);
        }
        self.session.first_response = FirstResponse::Done;
        self.session.accepted = Some(version);
        self.hold_sent();
        self.hold_accepted();
        if self.isolates() {
            let state = self.current_state();
            self.note_held_state(state);
        }
    }
}
