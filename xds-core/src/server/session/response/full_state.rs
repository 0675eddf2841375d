//! Responses with the full state of a type.

use alloc::vec::Vec;

use super::{draft::Draft, stronger};
use crate::{
    server::{
        event::ResponseCause,
        session::{
            FirstResponse,
            context::SessionContext,
            subscription::{Due, ListKind, Subscription, SubscriptionKind},
            window::Sent,
        },
        store::{
            arena::{ResourceEntry, past::SentRemovals},
            encode::body::{BodyBuilder, FitResult, Payload, ResponseBody},
            version::content::TypeVersion,
        },
    },
    slab::Slot,
    text::ResourceName,
};

/// Divisor of the size limit that gives the minimum space for errors next to a full state.
const LEAST_ROOM: usize = 256;

impl SessionContext<'_> {
    /// Renders all existing subscribed resources and as many errors as fit. Returns `None` if the
    /// client has exactly that, or was sent exactly that and nothing was added since.
    // M74, M76, M79-M81
    pub(crate) fn render_full_state(
        &mut self,
        draft: &mut Draft,
    ) -> Option<(ResponseBody, TypeVersion, ResponseCause)> {
        let has_only_removals = self.has_only_removals();
        let (body, version, cause) = self.take_full_state(draft);
        let cause = cause?;
        if has_only_removals && self.was_just_sent(version) {
            return None;
        }
        self.note_state(draft.nonce, Self::current_state);
        Some((body, version, cause))
    }

    /// Whether nothing is due except removals.
    fn has_only_removals(&self) -> bool {
        let newest = self.arena.newest();
        let is_removal = |it: &Subscription| {
            let had_it = it.has_version() || it.kind == SubscriptionKind::DeferredRemoval;
            let has_error = it.kind.is_subscribed() && self.error_of(it.resource).is_some();
            had_it && !has_error && self.arena.payload(it.resource).is_none()
        };
        self.session.first_response == FirstResponse::Done
            && self.session.wildcard.is_none_or(|it| it.full_send.is_none() && newest <= it.cursor)
            && self.session.due_subscriptions(self.subscriptions).all(is_removal)
    }

    /// Whether the newest response contained exactly this state.
    fn was_just_sent(&self, version: TypeVersion) -> bool {
        let is_same = |sent: Sent| {
            sent.content == version.stated() && !self.session.is_of_previous_view(sent.nonce)
        };
        self.session.newest.is_some_and(is_same)
    }

    /// Renders the full state. Returns a reason if the client does not have exactly that already.
    pub(crate) fn take_full_state(
        &mut self,
        draft: &mut Draft,
    ) -> (ResponseBody, TypeVersion, Option<ResponseCause>) {
        let (body, version) = match self.session.wildcard {
            Some(_) => self.body_of_everything(),
            None => self.named_body(),
        };
        let cause = self.take_due_in_full_state(draft, &body);
        if self.session.wildcard.is_none() {
            return (body, version, cause.or(Some(ResponseCause::Changed)));
        }
        draft.implies_removals |= self.has_wildcard_removals();
        let newest = self.arena.newest();
        let lacks_newest = self.session.has_settled_newest()
            || self
                .session
                .wildcard
                .as_ref()
                .is_some_and(|it| self.session.changed_since_state(it, self.arena));
        let Some(wildcard) = &mut self.session.wildcard else { return (body, version, cause) };
        let why = match wildcard.full_send.take() {
            Some(full_send) if newest <= full_send.at => Some(full_send.cause),
            Some(full_send) => Some(full_send.cause.min(ResponseCause::Changed)),
            None if wildcard.version != version || cause.is_none() && lacks_newest => {
                Some(ResponseCause::Changed)
            }
            // Due for a name that the wildcard covers as well.
            None => cause,
        };
        wildcard.version = version;
        self.advance(self.arena.clock());
        (body, version, stronger(cause, why))
    }

    /// Clears the due list, because the body contains all resources; errors without room stay
    /// due. Returns the strongest reason for one.
    fn take_due_in_full_state(
        &mut self,
        draft: &mut Draft,
        body: &ResponseBody,
    ) -> Option<ResponseCause> {
        let limit = draft.limit;
        // A state over the limit is sent anyway, with as many errors as any other response. If
        // the state leaves almost no room, it must not be repeated once per error.
        let room = limit.checked_sub(body.bytes.len()).unwrap_or(limit).max(limit / LEAST_ROOM);
        let mut errors = BodyBuilder::new(self.encoding(), room);
        // Withheld resources that this view never had are not in the state, so their removal is
        // complete (M223).
        let list = |first| self.subscriptions.list(ListKind::Due, first);
        let withheld = list(self.session.due.withheld().first());
        let never_had = withheld.filter(|(_, it)| self.retained_deletion(it).is_none());
        let due = list(self.session.due.first()).chain(never_had).map(|(slot, _)| slot);
        let (mut cause, due) = (None, due.collect::<Vec<Slot>>());
        for slot in due {
            let Some(&Subscription { resource, kind, .. }) = self.subscriptions.at(slot) else {
                continue;
            };
            // Only a client that names the resource is sent its error, not one that is due a
            // removal (M178).
            let error = self.error_of(resource).filter(|_| kind.is_subscribed());
            let make_room = |bytes| errors.reserve(bytes);
            let error =
                error.map(|it| self.push_error(resource, &it, &mut draft.errors, make_room));
            if error == Some(FitResult::Full) {
                continue;
            }
            let due = self.subscriptions.clear_due(&mut self.session.due, slot);
            cause = stronger(cause, due.map(|due| due.cause));
            match (error, self.subscriptions.at_mut(slot)) {
                // The state does not contain the resource, so the client no longer has it.
                (Some(_), Some(subscription)) => {
                    subscription.delivery = subscription.delivery.after_absence(draft.nonce);
                }
                _ => self.take_in_full_state(draft, slot, due),
            }
        }
        self.session.due.mark_leftover();
        cause
    }

    /// Records that the full state contains the resource of a subscription, or omits it because
    /// it does not exist.
    fn take_in_full_state(&mut self, draft: &mut Draft, slot: Slot, due: Option<Due>) {
        let Some(subscription) = self.subscriptions.at(slot) else { return };
        // A rejected state is made due through one of its resources, which may be accepted already.
        let accepted = self.session.accepted_response(self.arena);
        let has_it = due.is_some_and(|due| due.cause == ResponseCause::Recovery)
            && subscription.has_version()
            && accepted.is_some_and(|it| subscription.last_sent() <= it.nonce.get());
        let delivery = match has_it {
            true => subscription.delivery,
            false => self.delivery_after(subscription, draft.nonce),
        };
        let (kind, resource) = (subscription.kind, subscription.resource);
        let exists = self.arena.payload(resource).is_some();
        draft.implies_removals |= subscription.has_version() && !exists;
        let has_ended = match kind {
            SubscriptionKind::Named => false,
            SubscriptionKind::ViaGlobOrAlias => !exists,
            // If the client rejects the resource that has come back, it still has the version before.
            SubscriptionKind::Retained | SubscriptionKind::DeferredRemoval => {
                !(exists && self.session.is_withheld(resource))
            }
        };
        if has_ended {
            self.disconnect(slot);
        } else if let Some(subscription) = self.subscriptions.at_mut(slot) {
            subscription.delivery = delivery;
        }
    }

    /// Whether the wildcard lost resources that are not repeated.
    fn has_wildcard_removals(&self) -> bool {
        let wildcard =
            self.session.wildcard.filter(|_| self.session.needs_retained_deletions(self.arena));
        let pending_removals = wildcard.map(|wildcard| {
            self.arena.pending_removals(SentRemovals::all(wildcard.removals_to), wildcard.reached)
        });
        pending_removals.is_some_and(|mut pending_removals| pending_removals.next().is_some())
    }

    /// Returns all existing named resources with the version of exactly these. A client with a
    /// part of the state must not be mistaken for one with all of it when it reconnects.
    // B06
    fn named_body(&self) -> (ResponseBody, TypeVersion) {
        let (resources, bytes) =
            self.named().fold((0_usize, 0), |(resources, bytes), (_, payload)| {
                (resources + 1, bytes + payload.framed.len())
            });
        // A single resource is not copied. Others would be copied again whenever the buffer grows.
        let mut parts = match resources {
            0 | 1 => BodyBuilder::new(self.encoding(), usize::MAX),
            _ => BodyBuilder::with_capacity(self.encoding(), bytes),
        };
        let mut version = TypeVersion::default();
        for (name, payload) in self.named() {
            parts.push(name, payload);
            version.add(name.as_str(), payload.hash);
        }
        (parts.into_body(), version)
    }

    /// Returns the version of all existing named resources.
    pub(crate) fn named_version(&self) -> TypeVersion {
        let mut version = TypeVersion::default();
        self.named().for_each(|(name, payload)| version.add(name.as_str(), payload.hash));
        version
    }

    /// Returns all existing named resources.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&ResourceName, &Payload)> {
        let named =
            self.subscriptions.list_back(ListKind::Session, self.session.subscriptions.last());
        named.filter_map(|(_, subscription)| match self.arena.at(subscription.resource) {
            // A resource with an error is not listed next to the error (M172).
            Some(ResourceEntry { name, payload: Some(payload), error: None, .. }) => {
                Some((name, payload))
            }
            _ => self.retained_deletion(subscription),
        })
    }
}
