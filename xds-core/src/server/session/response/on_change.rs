//! Effects of a change in the store on subscriptions by name.

use crate::{
    server::{
        event::ResponseCause,
        session::{
            ResponseMode,
            context::SessionContext,
            subscription::{Delivery, Due, SubscriptionKind},
            wildcard::MustReply,
        },
        store::{ChangeKind, revision::Revision},
    },
    slab::Slot,
};

impl SessionContext<'_> {
    /// Updates a subscription after its resource was created, changed or removed, or its error
    /// changed.
    pub(crate) fn resource_changed(&mut self, slot: Slot, change_kind: ChangeKind) {
        if change_kind == ChangeKind::AliasChanged {
            return self.alias_changed(slot);
        }
        self.hold_before_change();
        let Some(subscription) = self.subscriptions.at(slot) else { return };
        let exists = self.arena.payload(subscription.resource).is_some();
        let (was_sent, due_before) = (subscription.has_version(), subscription.due);
        // A client that does not name the resource is only sent its removal (M178).
        let has_error =
            subscription.kind.is_subscribed() && self.error_of(subscription.resource).is_some();
        if change_kind == ChangeKind::Error && exists && !has_error {
            return;
        }
        let (resource, kind) = (subscription.resource, subscription.kind);
        let is_retained = kind == SubscriptionKind::Retained;
        if !exists && !has_error && kind == SubscriptionKind::Named {
            // For a glob or an alias, this is the end of an error.
            self.cover_members(resource, ResponseCause::Changed);
            let was_resource =
                self.arena.at(resource).is_some_and(|it| it.revision != Revision::START);
            if !was_resource && self.alias_target(resource).is_some() {
                self.set_delivery(slot, Delivery::Nothing);
            }
        }
        self.session.forget_rejected_removal(resource);
        let response_mode = self.session.response_mode(self.arena);
        // A client is not sent removals of resources that it neither names nor was sent (IS11). After a
        // move these include resources that the wildcard covers.
        let is_never_sent = response_mode == ResponseMode::ChangesAndRemovals
            && !was_sent
            && change_kind == ChangeKind::Content
            && !due_before.is_some_and(Due::answers_request)
            && (self.session.wildcard.is_none() || is_retained);
        if !exists && is_retained && is_never_sent {
            // The wildcard need not tell its removal either.
            self.subscriptions.clear_due(&mut self.session.due, slot);
            return;
        }
        let is_covered = kind == SubscriptionKind::ViaGlobOrAlias;
        let has_ended = is_covered && (response_mode == ResponseMode::Changes || is_never_sent);
        if !exists && has_ended {
            self.disconnect(slot);
            return;
        }
        let may_defer = was_sent && !has_error && self.session.may_defer_removals(self.arena);
        if !exists && may_defer && !self.arena.is_glob(resource) {
            self.note_withheld(slot);
            self.withhold_removal(slot);
            return;
        }
        match exists || has_error {
            true => self.make_changed_due(slot, resource),
            false => self.make_absence_due(slot, (was_sent, due_before), change_kind),
        }
    }

    fn make_changed_due(&mut self, slot: Slot, resource: Slot) {
        let due = &mut self.session.due;
        let before = due.newest();
        self.subscriptions.set_due(due, slot, Due::because(ResponseCause::Changed));
        // This change is the newest one, so no lookup is needed.
        if let Some((before, resource)) = before.zip(self.arena.at(resource)) {
            due.note_newest(before.max(resource.revision));
        }
    }

    /// Updates a subscription whose resource does not exist after a change. `was_sent` and
    /// `due_before` are its state before.
    fn make_absence_due(
        &mut self,
        slot: Slot,
        (was_sent, due_before): (bool, Option<Due>),
        change_kind: ChangeKind,
    ) {
        let response_mode = self.session.response_mode(self.arena);
        let due = &mut self.session.due;
        match response_mode {
            // Never sent, or removed silently by configuration (M77): nothing is due.
            ResponseMode::Changes => {
                self.subscriptions.clear_due(due, slot);
            }
            // The client was sent the error, which has ended as well (M176).
            _ if change_kind == ChangeKind::ContentAndError => {
                self.subscriptions.set_due(due, slot, Due::because(ResponseCause::Changed));
            }
            ResponseMode::FullState if !was_sent || !self.arena.absence_deletes() => {
                self.subscriptions.clear_due(due, slot);
            }
            // The client requested it by name, so a removal is due even if it was never sent
            // (M115, M131).
            ResponseMode::ChangesAndRemovals
                if !was_sent && due_before.is_none() && change_kind != ChangeKind::Answer => {}
            // The client keeps what it has and is answered what it requested (M133).
            ResponseMode::ChangesAndRemovals
                if !self.arena.sends_removals() && change_kind != ChangeKind::Answer =>
            {
                if was_sent && due_before.is_some_and(|due| due.must_reply == MustReply::No) {
                    self.subscriptions.clear_due(due, slot);
                }
            }
            ResponseMode::FullState | ResponseMode::ChangesAndRemovals => {
                self.subscriptions.set_due(due, slot, Due::because(ResponseCause::Changed));
            }
        }
    }
}
