//! Move of a session to another view on the same stream.
//!
//! The subscriptions of the client and the resources that it has are exported, and imported on the
//! other view. Incremental responses omit resources that are identical there, and remove missing
//! ones; responses with the full state repeat everything if anything differs. State of the world
//! has no removal of endpoints or routes, so the client keeps them. If a removal is withheld and
//! responses contain the full state, the resource is repeated in the other view in the version that
//! the client [has](super::acked).
// M223

use alloc::{borrow::Cow, collections::BTreeMap, vec::Vec};
use core::num::NonZeroU64;

use super::{
    CatchUp, PriorState, ResponseMode,
    acked::{PreviousView, Versions},
    context::SessionContext,
    nack::rejection::SentPosition,
    subscription::{Delivery, ListKind, Subscription, SubscriptionKind},
    view_difference::ViewDifference,
    wildcard::{MustReply, Wildcard},
};
use crate::{
    server::{
        event::ResponseCause,
        store::{
            encode::body::Payload,
            transaction::ResourceError,
            version::content::{ContentHash, TypeVersion},
        },
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
    time::Time,
};

/// State of a session that moves from one view to another.
#[derive(Debug, Default)]
pub(crate) struct MigrationState {
    names: Vec<ExportedName>,
    wildcard: Option<Wildcard>,
    /// Whether the newest response contained the full state of the wildcard.
    has_state: bool,
    /// Resources that the client has under the wildcard, or whose coverage it waits to be told.
    covered: Vec<ExportedName>,
    /// Resources that a full-state client has accepted and has been sent since.
    previous_view: Option<PreviousView>,
    /// For an up-to-date client: all that differs in the other view. Nothing else is exported.
    difference: Option<ViewDifference>,
}

#[derive(Debug)]
struct ExportedName {
    name: ResourceName,
    known: ClientKnowledge,
    must_reply: MustReply,
    /// Error that the client was sent in place of the resource.
    error: Option<ResourceError>,
    /// Whether the name exists in the view that is left.
    existed: bool,
    /// Version that the client has, if its removal may be deferred in full state.
    carried: Option<Versions>,
}

/// Client's knowledge of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientKnowledge {
    Nothing,
    /// The client knows nothing and waits to be told that the name does not exist.
    Waiting,
    Absent,
    /// The client was sent the removal in the response with this nonce, and may reject it.
    RemovedIn(NonZeroU64),
    /// Some version of the resource.
    Something,
    Exactly(ContentHash),
}

impl SessionContext<'_> {
    /// Exports the session's state and removes it from its arena.
    pub(crate) fn export(&mut self, difference: Option<ViewDifference>) -> MigrationState {
        if difference.is_some() {
            self.forget_renewals();
            self.unregister();
            return MigrationState { difference, ..MigrationState::default() };
        }
        let mut migration =
            MigrationState { previous_view: self.new_previous_view(), ..MigrationState::default() };
        let last = self.session.subscriptions.last();
        for (_, subscription) in self.subscriptions.list_back(ListKind::Session, last) {
            self.export_name(subscription, &mut migration);
        }
        if let Some(wildcard) = self.session.wildcard {
            migration.wildcard = Some(wildcard);
            migration.has_state =
                !self.sends_full_state() || !self.session.was_sent_another_state(&wildcard);
            if self.session.needs_retained_deletions(self.arena) || !self.sends_full_state() {
                self.export_covered(wildcard, &mut migration);
            }
        }
        self.session.forget_rejections_of_view();
        self.forget_renewals();
        self.unregister();
        migration
    }

    /// Exports a subscription by name.
    fn export_name(&self, subscription: &Subscription, migration: &mut MigrationState) {
        let Some(resource) = self.arena.at(subscription.resource) else { return };
        let hash = resource.payload.as_ref().map(|payload| payload.hash);
        let error = self.error_of(subscription.resource);
        // A client that was sent an error may have dropped the resource.
        let holds =
            self.session.holds(subscription) && !self.may_reject(subscription) && error.is_none();
        let waits = subscription.is_in_grace_period || self.is_requested(subscription.resource);
        let removal = subscription.delivery.removal();
        let removal = removal.filter(|_| self.awaits_answer_to_removal(subscription));
        let has_version = subscription.has_version();
        let known = match (has_version, hash, subscription.due.is_some(), removal) {
            (true, Some(hash), ..) if holds => ClientKnowledge::Exactly(hash),
            (false, None, false, _) if waits => ClientKnowledge::Waiting,
            (true, ..) => ClientKnowledge::Something,
            (false, .., Some(nonce)) => ClientKnowledge::RemovedIn(nonce),
            // Unless it is an alias of another resource.
            (false, None, false, None) if self.alias_target(subscription.resource).is_none() => {
                ClientKnowledge::Absent
            }
            (false, ..) => ClientKnowledge::Nothing,
        };
        let newest = || match &resource.payload {
            Some(payload) => Some(payload),
            None => Some(self.retained_deletion(subscription)?.1),
        };
        let previous_view = migration.previous_view.as_mut();
        let carried = previous_view.and_then(|view| {
            let versions = self.view().versions(subscription.resource, Some(subscription));
            view.note(&resource.name, &versions);
            let has_it = subscription.has_version() && error.is_none();
            has_it.then(|| self.versions_to_carry(versions, newest()))?
        });
        let named = ExportedName {
            name: resource.name.clone(),
            known,
            must_reply: subscription.due.map_or(MustReply::No, |due| due.must_reply),
            error: error.filter(|_| subscription.due.is_none()).map(Cow::into_owned),
            existed: hash.is_some(),
            carried,
        };
        match (subscription.kind, known) {
            (SubscriptionKind::Named, _) => migration.names.push(named),
            (SubscriptionKind::ViaGlobOrAlias, ClientKnowledge::Nothing)
                if !subscription.awaits_unsubscribe_reply() => {}
            (_, ClientKnowledge::Absent) => {}
            _ if subscription.is_retained_unsent() => {}
            (..) => migration.covered.push(named),
        }
    }

    /// Exports the resources that the client has from the wildcard alone.
    fn export_covered(&self, wildcard: Wildcard, migration: &mut MigrationState) {
        let rejections = self.session.rejections();
        let unaccepted = self.accepted_state_revision();
        let unanswered = self
            .session
            .newest
            .filter(|_| self.session.follows_until_accepted() && self.session.awaits_answer());
        let may_reject = |revision| {
            rejections.is_some_and(|it| it.has(SentPosition::Revision(revision)))
                || unaccepted.is_some_and(|accepted| revision > accepted)
                || unanswered.is_some_and(|sent| revision > sent.from)
        };
        for slot in self.arena.slots() {
            let is_known = self.arena.is_known(slot, wildcard.reached, wildcard.removals_to);
            let has_entry = self.subscriptions.find(self.slot, slot).is_some();
            let Some(resource) = self.arena.at(slot).filter(|_| is_known && !has_entry) else {
                continue;
            };
            let is_current = resource.revision <= wildcard.cursor && !may_reject(resource.revision);
            let known = match &resource.payload {
                Some(payload) if is_current => ClientKnowledge::Exactly(payload.hash),
                _ => ClientKnowledge::Something,
            };
            let newest = || resource.payload.as_ref().or_else(|| self.arena.removed_content(slot));
            let carried = migration.previous_view.as_mut().and_then(|view| {
                let versions = self.view().versions(slot, None);
                view.note(&resource.name, &versions);
                self.versions_to_carry(versions, newest())
            });
            let name = resource.name.clone();
            let (must_reply, error, existed) = (MustReply::No, None, true);
            migration.covered.push(ExportedName {
                name,
                known,
                must_reply,
                error,
                existed,
                carried,
            });
        }
    }

    /// Returns empty records for the resources that the client has accepted and was sent.
    fn new_previous_view(&self) -> Option<PreviousView> {
        if !self.session.needs_retained_deletions(self.arena) {
            return None;
        }
        let is_known_before =
            || self.session.previous_view().is_some_and(|view| view.accepted.is_some());
        let is_known = self.view().accepted_here().is_some() || is_known_before();
        let awaited = self.session.newest.filter(|_| self.session.awaits_answer());
        Some(PreviousView {
            accepted: is_known.then(BTreeMap::new),
            newest: awaited.map(|sent| (sent.nonce.get(), BTreeMap::new())),
        })
    }

    /// Imports the exported state into the session on its new arena.
    pub(crate) fn import(&mut self, migration: MigrationState, now: Time) {
        self.register();
        self.session.prior_state = PriorState::up_to(self.session.newest_nonce());
        self.set_previous_view(migration.previous_view);
        let response_mode = self.session.response_mode(self.arena);
        let cause = self.session.subscribe_cause().min(ResponseCause::Changed);
        if let Some(difference) = migration.difference {
            return self.import_difference(&difference, cause);
        }
        if migration.wildcard.is_some() {
            self.subscribe_wildcard(cause);
        }
        let mut names = Vec::new();
        for name in migration.names {
            names.extend(self.import_name(name, response_mode, cause, now));
        }
        for name in names {
            self.cover_new_members(name, cause);
        }
        for name in migration.covered {
            self.import_covered(name, cause);
        }
        if let Some(wildcard) = migration.wildcard {
            self.import_wildcard(wildcard, migration.has_state, response_mode);
        }
    }

    /// Imports the version that a full-state client was last sent of its wildcard, unless an answer is
    /// pending, and the response that an incremental client waits for.
    fn import_wildcard(&mut self, before: Wildcard, has_state: bool, response_mode: ResponseMode) {
        let has_version = before.full_send.is_none_or(|full_send| {
            full_send.cause == ResponseCause::Changed && before.version != TypeVersion::default()
        });
        if response_mode == ResponseMode::FullState && has_state && has_version {
            self.note_client_state(before.version);
        }
        let is_incremental = self.session.variant == Variant::Incremental;
        if !is_incremental || before.must_reply() == MustReply::No {
            return;
        }
        match before.catch_up {
            CatchUp::Everything => self.make_wildcard_due(ResponseCause::Resubscribed),
            // A response is required with the resources that the client does not have.
            CatchUp::ExceptKnown => {
                let wildcard = self.session.wildcard.as_mut();
                if let Some(full_send) = wildcard.and_then(|it| it.full_send.as_mut()) {
                    full_send.must_reply = MustReply::Yes;
                }
            }
        }
    }

    /// Imports a name that the client has, or waits for, without naming it.
    fn import_covered(&mut self, covered: ExportedName, cause: ResponseCause) {
        let ExportedName { name, known, carried, .. } = covered;
        let is_current =
            |it: &Payload| matches!(known, ClientKnowledge::Exactly(held) if held == it.hash);
        match (self.session.variant, known) {
            (Variant::Incremental, ClientKnowledge::Nothing) => {
                self.answer_unsubscribed(&name, cause)
            }
            (Variant::Incremental, ClientKnowledge::RemovedIn(nonce))
                if !self.exists(name.as_str()) && self.session.wildcard.is_some() =>
            {
                let slot = self.arena.slot_of(name).and_then(|slot| self.add_retained(slot));
                slot.into_iter().for_each(|slot| self.follow_removal(slot, nonce));
            }
            (Variant::Incremental, _) => {
                self.note_client_version(name.as_str(), is_current, cause);
                self.remove_unsubscribed(&name, cause);
            }
            (Variant::StateOfTheWorld, _) if carried.is_some() || self.exists(name.as_str()) => {
                self.note_client_version(name.as_str(), is_current, cause);
                let slot = self.arena.find(name.as_str());
                let subscription = slot.and_then(|slot| self.subscriptions.find(self.slot, slot));
                if let Some(subscription) = subscription {
                    self.carry_over(subscription, carried);
                }
            }
            (Variant::StateOfTheWorld, _) => {}
        }
    }

    /// Records that the client was sent a full state of this version.
    fn note_client_state(&mut self, version: TypeVersion) {
        let is_current = version == self.version_of_everything();
        let newest = self.arena.newest();
        let Some(wildcard) = &mut self.session.wildcard else { return };
        wildcard.version = version;
        if is_current {
            wildcard.full_send = None;
            (wildcard.cursor, wildcard.reached) = (newest, newest);
            self.end_retained();
        }
        self.renew_all_at_once();
    }

    /// Makes an answer due for a name from which the client unsubscribed and whose resource it
    /// does not have. The client waits for it because the wildcard, a glob or an alias covered
    /// the name.
    fn answer_unsubscribed(&mut self, name: &ResourceName, cause: ResponseCause) {
        let is_covered = self.is_covered(name.as_str());
        if !is_covered && self.session.wildcard.is_none() {
            return;
        }
        let Some(slot) = self.arena.slot_of(name.clone()) else { return };
        let subscription = match self.subscriptions.find(self.slot, slot) {
            None if is_covered => self.add_covered(slot),
            None => self.add_retained(slot),
            subscription => subscription,
        };
        if let Some(subscription) = subscription {
            self.make_requested_due(subscription, cause);
            self.subscriptions.note_unsubscribed(subscription);
        }
    }

    fn import_name(
        &mut self,
        named: ExportedName,
        response_mode: ResponseMode,
        cause: ResponseCause,
        now: Time,
    ) -> Option<Slot> {
        let resource = self.arena.slot_of(named.name.clone())?;
        let subscription = self.connect(resource)?;
        let exists = self.arena.payload(resource).is_some();
        let has_it = match named.known {
            ClientKnowledge::Something | ClientKnowledge::Exactly(_) => true,
            ClientKnowledge::RemovedIn(_) => exists,
            ClientKnowledge::Nothing | ClientKnowledge::Waiting | ClientKnowledge::Absent => false,
        };
        if has_it {
            self.set_delivery(subscription, Delivery::Before);
        }
        if has_it && response_mode != ResponseMode::FullState {
            self.skip_known_resources();
        }
        if let ClientKnowledge::RemovedIn(nonce) = named.known
            && !exists
        {
            self.follow_removal(subscription, nonce);
        }
        self.note_wanted(resource);
        // In full state the client may have members that are not known here.
        let is_due = self.is_name_due(&named, (subscription, resource), response_mode, now)
            || response_mode == ResponseMode::FullState && self.arena.is_glob(resource);
        // For an alias, its resource is due instead.
        let is_alias = !has_it && self.alias_target(resource).is_some();
        if is_due && !is_alias {
            self.make_due(subscription, cause);
            if has_it {
                self.defer_removal_if_missing(subscription);
                self.carry_over(subscription, named.carried);
            }
            let must_reply = named.must_reply;
            self.subscriptions.note_must_reply(&mut self.session.due, subscription, must_reply);
        } else {
            self.renew_at_once(resource);
        }
        Some(resource)
    }

    /// Whether the resource of an imported name, or its removal, is to be sent. If the resource is
    /// missing, this may instead start its grace period.
    fn is_name_due(
        &mut self,
        ExportedName { known, must_reply, error, existed, .. }: &ExportedName,
        (subscription, resource): (Slot, Slot),
        response_mode: ResponseMode,
        now: Time,
    ) -> bool {
        let hash = self.arena.payload(resource).map(|payload| payload.hash);
        let error_here = self.error_of(resource);
        match (hash, *known) {
            // A client with the resource knows of the same error, but not that the resource is
            // removed.
            _ if error_here.is_some() => {
                error_here.as_deref() != error.as_ref() || hash.is_none() && *existed
            }
            // It is not yet known whether the resource exists.
            (None, _) if self.is_requested(resource) => false,
            (Some(hash), ClientKnowledge::Exactly(held)) => hash != held,
            (Some(_), _) => true,
            (None, ClientKnowledge::Absent) => false,
            (None, ClientKnowledge::RemovedIn(_)) => *must_reply == MustReply::Yes,
            (None, ClientKnowledge::Nothing) => response_mode == ResponseMode::ChangesAndRemovals,
            (None, ClientKnowledge::Waiting) => {
                response_mode == ResponseMode::ChangesAndRemovals
                    && !self.start_grace_period(subscription, now)
            }
            (None, ClientKnowledge::Something | ClientKnowledge::Exactly(_)) => match response_mode
            {
                ResponseMode::Changes => false,
                ResponseMode::FullState => self.arena.absence_deletes(),
                ResponseMode::ChangesAndRemovals => {
                    self.arena.sends_removals()
                        || self.session.may_defer_removals(self.arena)
                        || *must_reply == MustReply::Yes
                }
            },
        }
    }
}
