//! Contents of incremental responses: resources that are new to the client, and names of
//! resources that were removed or never existed.

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem;

use super::{MinSome as _, draft::Draft};
use crate::{
    server::{
        config::WildcardExit,
        event::ResponseCause,
        session::{
            CatchUp, FirstResponse, MustReply, Session, Wildcard,
            context::SessionContext,
            deferred_removal::Portion,
            extras::PartialRemovals,
            subscription::{ListKind, Subscription, SubscriptionKind},
        },
        store::{
            arena::past::SentRemovals,
            encode::body::{BodyBuilder, FitResult, ResponseBody},
            revision::Revision,
        },
    },
    slab::Slot,
    text::ResourceName,
    wire::request::NameForm,
};

impl SessionContext<'_> {
    /// Renders the resources and removals that the client lacks, as many as fit.
    pub(crate) fn render_incremental(
        &mut self,
        draft: &mut Draft,
    ) -> Option<(ResponseBody, ResponseCause)> {
        let (nonce, limit) = (draft.nonce.get(), draft.limit);
        if draft.portion == Portion::Unanswered {
            let mut parts = self.parts(limit);
            let cause = self.take_due(draft, &mut parts, None);
            return Some((draft.finish(parts), cause?));
        }
        let pending =
            (self.session.first_response == FirstResponse::Pending).then_some(ResponseCause::First);
        if let Some(wildcard) = self.session.wildcard.filter(|it| self.shares_bytes(it)) {
            let sent_removals = self.sent_removals(&wildcard);
            let changes = self.arena.changes_body(
                self.encoding(),
                wildcard.cursor,
                Some(sent_removals),
                limit,
            );
            self.advance_removals(changes.to, changes.partial_to, nonce);
            let reason = wildcard.reason_for(changes.body.is_empty(), changes.to).or(pending);
            return reason.map(|reason| (changes.body, reason));
        }
        let mut parts = self.parts(limit);
        let (mut cause, mut walked) = (None, None);
        if let Some(wildcard) = self.session.wildcard {
            let partial_to = self.gather_removals(wildcard, &mut parts);
            // Until all removals are sent, the previous cursor determines which ones concern the
            // client.
            let to = match partial_to {
                Some(_) => wildcard.cursor,
                None => self.gather(draft, wildcard, &mut parts),
            };
            cause = wildcard.reason_for(parts.is_empty(), to);
            walked = Some((wildcard.cursor, to, partial_to));
        }
        if self.gather_unsubscribe_removals(&mut parts, walked.map(|(_, to, _)| to)) {
            let why = if draft.removes_uncovered {
                ResponseCause::Changed
            } else {
                ResponseCause::Resubscribed
            };
            cause = cause.min_some(Some(why));
        }
        let named = self.take_due(draft, &mut parts, walked.map(|(from, to, _)| (from, to)));
        if let Some((_, to, partial_to)) = walked {
            self.advance_removals(to, partial_to, nonce);
        }
        Some((draft.finish(parts), cause.min_some(named).or(pending)?))
    }

    /// Records that the wildcard was sent up to `to`, and removals completely or up to
    /// `partial_to`.
    fn advance_removals(&mut self, to: Revision, partial_to: Option<Revision>, nonce: u64) {
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

    /// Whether the response consists of the wildcard alone, so that all such clients share its
    /// bytes. This is the common case. The removals that concern a client depend on its highest
    /// cursor and on the errors sent to it by name. The cursor must therefore be the highest one
    /// and no names subscribed, unless there are no removals.
    fn shares_bytes(&self, wildcard: &Wildcard) -> bool {
        self.session.due.is_empty()
            && self.session.retained == 0
            && !self.isolates()
            && !self.session.has_unsubscribe_removals()
            && self.session.name_form == NameForm::Names
            && wildcard.catch_up == CatchUp::Everything
            && (self.arena.newest_tombstone() <= wildcard.removals_to
                || wildcard.reached == wildcard.cursor && self.session.named == 0)
    }

    /// Returns which removals the client was sent: all, if it is to keep removed resources.
    // M133
    fn sent_removals(&self, wildcard: &Wildcard) -> SentRemovals {
        match self.arena.sends_removals() {
            true => self.session.sent_removals(wildcard),
            false => SentRemovals::all(self.arena.clock()),
        }
    }

    /// Adds the names of removed resources that the wildcard covered, as many as fit. Names that
    /// are due anyway are left out, as are named resources with an error, which is sent by name.
    // IS28
    fn gather_removals(&self, wildcard: Wildcard, parts: &mut BodyBuilder) -> Option<Revision> {
        let (subscriptions, own) = (&*self.subscriptions, self.slot);
        let is_due = |resource: Slot| {
            let subscription = subscriptions.of(own, resource);
            let has_error = |subscription: &Subscription| {
                subscription.kind == SubscriptionKind::Named && self.error_of(resource).is_some()
            };
            subscription
                .is_some_and(|it| it.due.is_some() || it.is_unsent_one_shot() || has_error(it))
        };
        let may_be_held = |resource: Slot| {
            self.may_have_from_wildcard(resource)
                || subscriptions.of(own, resource).is_some_and(Subscription::was_ever_sent)
        };
        let (sent_removals, name_form) = (self.sent_removals(&wildcard), self.session.name_form);
        let is_pending = |slot| !is_due(slot) && may_be_held(slot);
        self.arena.gather_removals(sent_removals, wildcard.reached, parts, name_form, is_pending)
    }

    /// Whether the client may have a removed resource from the wildcard. Resources removed before the
    /// wildcard subscription are had by name or not at all.
    pub(crate) fn may_have_from_wildcard(&self, resource: Slot) -> bool {
        let revision = self.arena.at(resource).map(|resource| resource.revision);
        revision.is_none_or(|revision| revision > self.session.wildcard_since())
    }

    /// Adds removals of resources that the client no longer subscribes to, as many as fit. Names
    /// are dropped if the client subscribed to them again or if the wildcard sends or removes
    /// them. Existing resources beyond `to` are kept for later, because the wildcard has not sent
    /// them yet.
    // M93
    fn gather_unsubscribe_removals(
        &mut self,
        parts: &mut BodyBuilder,
        to: Option<Revision>,
    ) -> bool {
        let mut names = BTreeSet::new();
        self.session.update_extras(|extras| names = mem::take(&mut extras.unsubscribe_removals));
        let wildcard = self.session.wildcard;
        let mut unsent = BTreeSet::new();
        if let Some(to) = to {
            let is_behind = |name: &&ResourceName| {
                let found = self.arena.find(name.as_str()).and_then(|slot| self.arena.at(slot));
                found.is_some_and(|it| it.payload.is_some() && it.revision > to)
            };
            unsent = names.iter().filter(is_behind).cloned().collect();
            names.retain(|name| !unsent.contains(name));
        }
        let mut is_done = |name: &ResourceName| {
            let slot = self.arena.find(name.as_str());
            let has_entry =
                slot.and_then(|slot| self.subscriptions.find(self.slot, slot)).is_some();
            let is_covered = slot.zip(wildcard).is_some_and(|(slot, wildcard)| {
                self.arena.payload(slot).is_some()
                    || self.arena.is_known(slot, wildcard.reached, wildcard.removals_to)
            });
            has_entry
                || is_covered
                || parts.remove(name, self.session.name_form) == FitResult::Added
        };
        let count = names.len();
        while let Some(name) = names.pop_first() {
            if !is_done(&name) {
                names.insert(name);
                break;
            }
        }
        let removed = count - names.len();
        names.append(&mut unsent);
        if !names.is_empty() {
            self.session.extras_mut().unsubscribe_removals = names;
        }
        removed > 0
    }

    /// Records which resources the client has from the wildcard it is about to leave and also by
    /// another subscription; it keeps them. Takes time proportional to its other subscriptions,
    /// if anything was sent for the wildcard.
    pub(crate) fn note_wildcard_resources(&mut self) {
        let sent = self.session.wildcard.filter(|wildcard| wildcard.reached != Revision::START);
        let Some(Wildcard { reached, removals_to, .. }) = sent else { return };
        let own = self.subscriptions.list(ListKind::Session, self.session.subscriptions.first());
        let unsent = own.take_while(|(_, subscription)| subscription.sent == 0);
        let is_known = |(_, it): &(Slot, &Subscription)| {
            it.kind.is_subscribed() && self.arena.is_known(it.resource, reached, removals_to)
        };
        let known: Vec<Slot> = unsent.filter(is_known).map(|(slot, _)| slot).collect();
        // The newest response or an earlier one contained it. Subscriptions are in the order of
        // these.
        let nonce = self.session.newest_nonce().max(1);
        for slot in known {
            self.subscriptions.set_sent(&mut self.session.subscriptions, slot, nonce);
        }
    }

    /// Prepares removals of all resources that the client has from the wildcard alone. Takes time
    /// proportional to the resources of the type if anything was sent for the wildcard, and
    /// otherwise to the client's other subscriptions.
    pub(crate) fn prepare_unsubscribe_removals(&mut self) {
        if self.arena.config.wildcard_exit != WildcardExit::SendRemovals {
            return;
        }
        let Some(wildcard) = self.session.wildcard else { return };
        let known = wildcard.reached;
        let name_of = |slot: Slot| Some(self.arena.at(slot)?.name.clone());
        if known == Revision::START {
            let implicit_subscriptions =
                self.session.extras.iter().flat_map(|extras| &extras.implicit_subscriptions);
            let subscriptions =
                implicit_subscriptions.filter_map(|&slot| self.subscriptions.at(slot));
            let names = subscriptions
                .filter(|subscription| subscription.sent != 0)
                .filter_map(|it| name_of(it.resource));
            let names: BTreeSet<_> = names.collect();
            if !names.is_empty() {
                self.session.extras_mut().unsubscribe_removals.extend(names);
            }
            return;
        }
        let covered_by_wildcard_alone = |&slot: &Slot| match self.subscriptions.of(self.slot, slot)
        {
            Some(subscription) if subscription.kind.is_subscribed() => false,
            Some(subscription) if subscription.sent != 0 => true,
            Some(subscription) if subscription.is_unsent_one_shot() => false,
            _ => self.arena.is_known(slot, known, wildcard.removals_to),
        };
        let slots = self.arena.slots().filter(covered_by_wildcard_alone);
        let names: BTreeSet<_> = slots.filter_map(name_of).collect();
        if !names.is_empty() {
            self.session.extras_mut().unsubscribe_removals.extend(names);
        }
    }
}

impl Session {
    /// Returns the newest revision when the client subscribed to the wildcard. `START` if it has
    /// accepted a response since or had nothing before.
    pub(crate) fn wildcard_since(&self) -> Revision {
        self.extras.as_deref().map_or(Revision::START, |extras| extras.wildcard_since)
    }

    /// Returns which removals of the wildcard the client was sent.
    pub(crate) fn sent_removals(&self, wildcard: &Wildcard) -> SentRemovals {
        let partial_removals = self.extras.as_deref().and_then(|extras| extras.partial_removals);
        let partial_to = partial_removals.and_then(|partial_removals| partial_removals.partial_to);
        SentRemovals {
            removals_to: wildcard.removals_to,
            partial_to: partial_to.unwrap_or(wildcard.removals_to),
        }
    }
}

impl Wildcard {
    /// Returns the reason for a response that advances the wildcard to `to`. An empty response is
    /// sent only as an answer.
    // M97, M100, M126
    fn reason_for(&self, is_empty: bool, to: Revision) -> Option<ResponseCause> {
        let reason = self.reason(to);
        match self.must_reply() {
            _ if !is_empty => Some(reason),
            MustReply::Yes if reason == ResponseCause::First => Some(reason),
            MustReply::Yes => Some(ResponseCause::Resubscribed),
            MustReply::No => None,
        }
    }
}
