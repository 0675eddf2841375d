//! Plan of a response with changes: its items, in the order in which they are sent.
//!
//! 1. Removals that the wildcard covers, in the order in which they happened.
//! 2. Resources that the wildcard covers, in the order in which they changed.
//! 3. Removals of resources from which the client unsubscribed.
//! 4. Resources, removals and errors that are due by name, in the order in which they became due.
//!
//! A plan changes nothing and may be longer than a response. Its items are encoded until one does
//! not fit; those that fit are then [committed](super::commit). The next response begins with the
//! item that was left. So no resource of the wildcard is sent before all of its removals, and nothing
//! is sent by name while the wildcard has something left, except in a response that only answers
//! requests.

use alloc::vec::Vec;

use super::{draft::Draft, errors::EncodedErrors, stronger};
use crate::{
    server::{
        config::Absence,
        event::ResponseCause,
        session::{
            CatchUp, ResponseMode, Wildcard,
            context::SessionContext,
            deferred_removal::Portion,
            subscription::{ListKind, Subscription, SubscriptionKind},
        },
        store::{
            arena::{encoded_changes::ResourceSet, past::SentRemovals},
            encode::body::{BodyBuilder, FitResult},
            revision::Revision,
            transaction::ResourceError,
        },
    },
    slab::Slot,
    text::ResourceName,
};

/// Item of a response before it is encoded.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) source: Source,
    pub(crate) kind: PlannedKind,
    /// Reason to send a response with the item. `None` if it can wait for another reason.
    pub(crate) cause: Option<ResponseCause>,
}

/// Subscription that an item of a response serves.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The wildcard. The resource was changed or removed at this revision. `due` is the subscription
    /// by which it is due as well, or `Slot::NONE`.
    Wildcard { resource: Slot, revision: Revision, due: Slot },
    /// None: the client unsubscribed from this name.
    Unsubscribed(ResourceName),
    /// A subscription by name whose resource is due.
    Due { resource: Slot, subscription: Slot },
}

/// Contents of a response for one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlannedKind {
    /// The resource.
    Set,
    /// The name, as removed.
    Remove,
    /// A resource with only a name, which states that it does not exist.
    Absence,
    /// The error that was set for the resource.
    Error,
    /// An error because the resource is longer than any response to the client may be.
    TooLong,
    /// No contents, because the type has no removals or the client learns it from another item.
    Nothing,
}

/// Items that fit into a response.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) items: Vec<Planned>,
    /// First item that did not fit.
    pub(crate) left: Option<Planned>,
}

impl Source {
    fn resource(&self) -> Option<Slot> {
        match *self {
            Self::Wildcard { resource, .. } | Self::Due { resource, .. } => Some(resource),
            Self::Unsubscribed(_) => None,
        }
    }
}

impl Planned {
    pub(crate) fn is_of_wildcard(&self) -> bool {
        matches!(self.source, Source::Wildcard { .. })
    }
}

impl SessionContext<'_> {
    /// Encodes the planned items, as many as fit.
    pub(super) fn fill(&self, draft: &mut Draft, parts: &mut BodyBuilder) -> Filled {
        let unsubscribed = match draft.removes_uncovered {
            true => ResponseCause::Changed,
            false => ResponseCause::Resubscribed,
        };
        let mut items = Vec::new();
        for item in self.plan(draft.portion, parts.limit(), unsubscribed) {
            if self.encode(&item, parts, &mut draft.errors) == FitResult::Full {
                return Filled { items, left: Some(item) };
            }
            items.push(item);
        }
        Filled { items, left: None }
    }

    /// Lists what the client lacks, in the order in which it is sent.
    fn plan(
        &self,
        portion: Portion,
        limit: usize,
        unsubscribed: ResponseCause,
    ) -> impl Iterator<Item = Planned> {
        let is_answer = portion == Portion::Unanswered;
        let wildcard = self.session.wildcard.filter(|_| !is_answer);
        let removals = wildcard.into_iter().flat_map(|it| self.plan_wildcard_removals(it));
        let sets = wildcard.into_iter().flat_map(|it| self.plan_wildcard_changes(it));
        let names = self.session.extras.as_deref().filter(|_| !is_answer);
        let names = names.into_iter().flat_map(|extras| &extras.unsubscribe_removals);
        let names = names.map(move |name| self.plan_unsubscribe_removal(name, unsubscribed));
        let due = self.subscriptions.list(ListKind::Due, self.session.due.first());
        let due =
            due.filter(move |(_, it)| !is_answer || self.session.is_unanswered(it, self.arena));
        let due = due.filter_map(move |(slot, it)| self.plan_due(slot, it, limit));
        removals.chain(sets).chain(names).chain(due)
    }

    /// Lists the removals that the wildcard covers. Names that are due anyway are left out, as are
    /// named resources with an error, which is sent by name.
    // IS28
    fn plan_wildcard_removals(&self, wildcard: Wildcard) -> impl Iterator<Item = Planned> {
        let pending = self.arena.pending_removals(self.sent_removals(&wildcard), wildcard.reached);
        let is_told_by_name = |it: &Subscription| {
            let is_named = it.kind == SubscriptionKind::Named;
            let has_error = is_named && self.error_of(it.resource).is_some();
            it.due.is_some() || it.is_retained_unsent() || has_error
        };
        let is_due = move |slot: Slot| match self.subscriptions.of(self.slot, slot) {
            Some(it) if is_told_by_name(it) => false,
            Some(it) if it.was_ever_sent() => true,
            _ => self.may_have_from_wildcard(slot),
        };
        pending.filter(move |&(slot, _)| is_due(slot)).map(move |(resource, removed)| {
            let revision = removed.revision;
            let source = Source::Wildcard { resource, revision, due: Slot::NONE };
            let cause = Some(wildcard.reason(revision));
            Planned { source, kind: PlannedKind::Remove, cause }
        })
    }

    /// Lists the resources changed after the cursor of the wildcard, except those that the client
    /// has by name if these are to be left out.
    fn plan_wildcard_changes(&self, wildcard: Wildcard) -> impl Iterator<Item = Planned> {
        let changed = self.arena.slots_after(wildcard.cursor);
        changed.filter_map(move |resource| {
            let entry = self.arena.at(resource).filter(|entry| entry.payload.is_some())?;
            // A client that was sent an error by name may have dropped the resource (M178).
            let is_wanted = wildcard.catch_up == CatchUp::Everything
                || entry.error.is_some()
                || !self.session.has(self.slot, resource, self.subscriptions);
            let (revision, reason) = (entry.revision, wildcard.reason(entry.revision));
            let (due, cause) = match self.released(resource) {
                Some((subscription, cause)) => (subscription, reason.min(cause)),
                None => (Slot::NONE, reason),
            };
            let source = Source::Wildcard { resource, revision, due };
            is_wanted.then_some(Planned { source, kind: PlannedKind::Set, cause: Some(cause) })
        })
    }

    /// Returns the subscription by which a resource is due in this response, with the reason.
    fn released(&self, resource: Slot) -> Option<(Slot, ResponseCause)> {
        if self.session.due.is_empty() {
            return None;
        }
        let slot = self.subscriptions.find(self.slot, resource)?;
        let subscription = self.subscriptions.at(slot).filter(|it| !it.is_withheld())?;
        Some((slot, subscription.due?.cause))
    }

    /// Plans the removal of a resource from which the client unsubscribed. Nothing is sent if it
    /// has subscribed again, or if the wildcard sends or removes the resource.
    // M93
    fn plan_unsubscribe_removal(&self, name: &ResourceName, cause: ResponseCause) -> Planned {
        let (found, wildcard) = (self.arena.find(name.as_str()), self.session.wildcard);
        let is_told_otherwise = |slot| {
            let is_sent_by = |wildcard: Wildcard| {
                self.arena.payload(slot).is_some()
                    || self.arena.is_known(slot, wildcard.reached, wildcard.removals_to)
            };
            self.subscriptions.find(self.slot, slot).is_some() || wildcard.is_some_and(is_sent_by)
        };
        let kind = match found.is_some_and(is_told_otherwise) {
            true => PlannedKind::Nothing,
            false => PlannedKind::Remove,
        };
        // The resource may have been removed after the client subscribed to the wildcard.
        let revision = found.and_then(|slot| self.arena.at(slot)).map(|entry| entry.revision);
        let reason = wildcard.zip(revision).map(|(wildcard, revision)| wildcard.reason(revision));
        let source = Source::Unsubscribed(name.clone());
        Planned { source, kind, cause: stronger(Some(cause), reason) }
    }

    /// Plans what is due by a subscription, unless the wildcard sends it in the same response.
    fn plan_due(&self, subscription: Slot, it: &Subscription, limit: usize) -> Option<Planned> {
        let resource = it.resource;
        let entry = self.arena.at(resource)?;
        let cause = it.due.map(|due| due.cause);
        let source = Source::Due { resource, subscription };
        // Only a client that names the resource is sent its error, not one that is due a removal
        // (M178).
        let has_error = |is_error: bool| is_error && it.kind.is_subscribed();
        let (kind, cause) = match &entry.payload {
            _ if has_error(self.is_too_long(entry, limit)) => (PlannedKind::TooLong, cause),
            _ if has_error(self.set_error_of(resource).is_some()) => (PlannedKind::Error, cause),
            Some(_) if self.session.wildcard.is_some_and(|it| entry.revision > it.cursor) => {
                return None;
            }
            Some(_) => (PlannedKind::Set, cause),
            None => self.plan_absence(it, cause),
        };
        Some(Planned { source, kind, cause })
    }

    /// Plans the answer about a due name without a resource.
    fn plan_absence(
        &self,
        it: &Subscription,
        cause: Option<ResponseCause>,
    ) -> (PlannedKind, Option<ResponseCause>) {
        // A glob is represented by its members, if any, and an alias by its resource.
        let is_alias = !it.has_version() && self.alias_target(it.resource).is_some();
        if is_alias || self.arena.has_members(it.resource) {
            return (PlannedKind::Nothing, None);
        }
        let kind = match self.arena.config.absence {
            _ if self.session.response_mode(self.arena) == ResponseMode::Changes => {
                PlannedKind::Nothing
            }
            Absence::EmptyResource if !it.has_version() => PlannedKind::Absence,
            _ => PlannedKind::Remove,
        };
        (kind, cause)
    }

    /// Returns which removals the client was sent: all, if it is to keep removed resources.
    // M133
    pub(super) fn sent_removals(&self, wildcard: &Wildcard) -> SentRemovals {
        let mode = self.session.response_mode(self.arena);
        match mode == ResponseMode::ChangesAndRemovals && self.arena.sends_removals() {
            true => self.session.sent_removals(wildcard),
            false => SentRemovals::all(self.arena.clock()),
        }
    }

    /// Returns the resources that a response contains.
    pub(super) fn resources_in(&self, filled: &Filled) -> ResourceSet {
        let sets = filled.items.iter().filter(|item| item.kind == PlannedKind::Set);
        let entries = sets.filter_map(|item| self.arena.at(item.source.resource()?));
        entries.filter_map(|entry| Some((entry.name.clone(), entry.payload.clone()?))).collect()
    }

    /// Encodes an item, if it fits.
    fn encode(
        &self,
        item: &Planned,
        parts: &mut BodyBuilder,
        errors: &mut EncodedErrors,
    ) -> FitResult {
        let slot = item.source.resource().unwrap_or(Slot::NONE);
        let entry = self.arena.at(slot);
        let name = match &item.source {
            Source::Unsubscribed(name) => Some(name),
            Source::Wildcard { .. } | Source::Due { .. } => entry.map(|entry| &entry.name),
        };
        let payload = entry.and_then(|entry| entry.payload.as_ref());
        let make_room = |bytes| parts.reserve(bytes);
        let room = match item.kind {
            PlannedKind::Set => name.zip(payload).map(|(name, it)| parts.push(name, it)),
            PlannedKind::Remove => name.map(|name| parts.remove(name, self.session.name_form)),
            PlannedKind::Absence => name.map(|name| parts.push_absence(name)),
            PlannedKind::Error => {
                self.set_error_of(slot).map(|it| self.push_error(slot, it, errors, make_room))
            }
            PlannedKind::TooLong => {
                Some(self.push_error(slot, &ResourceError::too_long(), errors, make_room))
            }
            PlannedKind::Nothing => None,
        };
        room.unwrap_or(FitResult::Added)
    }
}
