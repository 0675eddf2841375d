//! Resources that are due by subscription, in responses with changes.

use super::{MinSome as _, draft::Draft};
use crate::{
    server::{
        config::Absence,
        event::ResponseCause,
        session::{
            ResponseMode,
            context::SessionContext,
            deferred_removal::Portion,
            subscription::{DueKind, ListKind, Subscription, SubscriptionKind},
        },
        store::{
            encode::body::{BodyBuilder, FitResult},
            revision::Revision,
        },
    },
    slab::Slot,
};

/// Part of the wildcard that a response contains: the revisions after the first, up to the second.
type Walked = Option<(Revision, Revision)>;

/// Result for a subscription that is due.
enum Taken {
    /// The response contains it, or it needs no response; with the reason for one.
    Done(Option<ResponseCause>),
    /// The next response contains it.
    Later,
    Full,
}

impl SessionContext<'_> {
    /// Adds the resources of due subscriptions, all of them or the unanswered ones, as many as
    /// fit. Returns the strongest reason for one. Resources in the part `walked` of the wildcard
    /// are included already.
    pub(crate) fn take_due(
        &mut self,
        draft: &mut Draft,
        parts: &mut BodyBuilder,
        walked: Walked,
    ) -> Option<ResponseCause> {
        // The walk may cover further subscriptions after one that does not fit.
        let is_walk_empty = walked.is_none_or(|(from, to)| from == to);
        let mut cause = None;
        let mut slot = self.session.due.first();
        while let Some(subscription) = self.subscriptions.at(slot) {
            let next = self.subscriptions.next(ListKind::Due, slot);
            if draft.portion != Portion::Unanswered
                || self.session.is_unanswered(subscription, self.arena)
            {
                match self.take_subscription(draft, slot, parts, walked) {
                    Taken::Done(reason) => cause = cause.min_some(reason),
                    Taken::Full if is_walk_empty => break,
                    Taken::Full | Taken::Later => {}
                }
            }
            slot = next;
        }
        cause
    }

    fn take_subscription(
        &mut self,
        draft: &mut Draft,
        slot: Slot,
        parts: &mut BodyBuilder,
        walked: Walked,
    ) -> Taken {
        let nonce = draft.nonce.get();
        let Some(&Subscription { resource: at, kind, sent, .. }) = self.subscriptions.at(slot)
        else {
            return Taken::Later;
        };
        // Only a client that names the resource is sent its error, not one that is due a removal
        // (M178).
        let error = match kind.is_subscribed() {
            true => self.push_error_into(draft, at, parts),
            false => None,
        };
        match error {
            Some(FitResult::Full) => return Taken::Full,
            Some(FitResult::Added) => return self.take_error(slot, at, nonce),
            None => {}
        }
        let Some(resource) = self.arena.at(at) else { return Taken::Later };
        let revision = resource.revision;
        if let Some(payload) = &resource.payload {
            // The wildcard sends it in the next response.
            if walked.is_some_and(|(_, to)| revision > to) {
                return Taken::Later;
            }
            // What the walk covers still has to leave the list.
            let is_covered = walked.is_some_and(|(from, _)| revision > from);
            if !is_covered && parts.push(&resource.name, payload) == FitResult::Full {
                return Taken::Full;
            }
            return Taken::Done(self.take_from_due(slot, nonce));
        }
        // A glob is represented by its members, if any, and an alias by its resource.
        let was_sent = sent != 0;
        let is_alias = !was_sent && self.alias_target(at).is_some();
        let is_represented = is_alias || self.arena.has_members(at);
        let sends_removals =
            self.session.response_mode(self.arena) == ResponseMode::ChangesAndRemovals;
        if sends_removals && !is_represented {
            let room = match self.arena.config.absence {
                Absence::EmptyResource if !was_sent => parts.push_absence(&resource.name),
                _ => parts.remove(&resource.name, self.session.name_form),
            };
            if room == FitResult::Full {
                return Taken::Full;
            }
            draft.absences += usize::from(!was_sent);
        }
        let cause = self.take_from_due(slot, nonce);
        Taken::Done(cause.filter(|_| !is_represented))
    }

    /// Records that a response contains the error of a resource.
    fn take_error(&mut self, slot: Slot, resource: Slot, nonce: u64) -> Taken {
        let due = self.subscriptions.clear_due(&mut self.session.due, slot);
        if self.arena.payload(resource).is_none() || self.session.is_reported_too_long(resource) {
            // When the error ends, the client must be sent that.
            self.subscriptions.set_sent(&mut self.session.subscriptions, slot, nonce);
        }
        Taken::Done(due.map(|due| due.cause))
    }

    /// Records that a response contains the resource of a subscription or its removal. Returns the
    /// reason for which it was due.
    fn take_from_due(&mut self, slot: Slot, nonce: u64) -> Option<ResponseCause> {
        let due = self.subscriptions.clear_due(&mut self.session.due, slot);
        let &Subscription { resource, kind, sent, .. } = self.subscriptions.at(slot)?;
        let exists = self.arena.payload(resource).is_some();
        let (follows, was_sent) = (self.session.follows_until_accepted(), sent != 0);
        let is_followed = follows && !kind.is_subscribed() && (exists || was_sent);
        let has_ended = kind.is_passing() || kind == SubscriptionKind::ViaGlobOrAlias && !exists;
        if has_ended && !is_followed {
            self.disconnect(slot);
        } else if due.is_some_and(|due| due.kind != DueKind::Piggyback) {
            let sent = if exists { nonce } else { 0 };
            self.note_in_response(slot, nonce);
            self.subscriptions.set_sent(&mut self.session.subscriptions, slot, sent);
        }
        if is_followed {
            self.set_kind(slot, SubscriptionKind::DeferredRemoval);
        }
        if is_followed || follows && was_sent && !exists {
            self.session.extras_mut().acked.followed.insert(slot);
        }
        due.map(|due| due.cause)
    }

    /// Records in a subscription that the response with this nonce contains the resource or its
    /// removal.
    pub(crate) fn note_in_response(&mut self, slot: Slot, nonce: u64) {
        let accepted = self.session.accepted_response(self.arena, Revision::START);
        let is_covered = self.session.wildcard.is_some();
        let Some(subscription) = self.subscriptions.at_mut(slot) else { return };
        match self.arena.payload(subscription.resource) {
            None => subscription.note_removed_in(nonce),
            Some(_) if is_covered => subscription.note_sent_under_wildcard(),
            Some(_) => subscription.note_sent_in(nonce, accepted.map_or(0, |it| it.nonce.get())),
        }
    }
}
