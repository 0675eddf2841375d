//! Versions that a client has: those that it accepted last, and those that it may use.
//!
//! [`has`](SessionView::has) is the store as of the response that the client accepted last, except
//! for resources whose removal is withheld. Full-state responses repeat those in the version that
//! the client has, because a version that it rejects would be rejected with every response. They
//! are exceptions, which hold what the client has and may use since their removal was withheld.
//! [`may_use`](SessionView::may_use) is the same for an unanswered response.
//!
//! Under make before break, the session holds snapshots of its arena as of both responses, so that
//! the versions in them can be repeated.
//!
//! A client that moves to another view takes along what it has of the resources of that view, until
//! it has accepted a response of the new one.
// M147, M148, M223

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::num::NonZeroU64;

use super::{
    PriorState, ResponseMode, Session,
    context::SessionContext,
    nack::rejected::RejectedResources,
    session_view::SessionView,
    subscription::Subscription,
    window::{Answer, Sent},
};
use crate::{
    server::store::{
        arena::{
            Arena,
            past::{HeldSnapshots, PastContent},
        },
        encode::body::Payload,
        revision::Revision,
    },
    slab::Slot,
    text::ResourceName,
};

/// Version of a resource that a client has.
#[derive(Clone, Debug)]
pub(crate) enum Has {
    Version(Payload),
    Nothing,
    /// Some version or nothing.
    Unknown,
}

/// Versions of a resource that a client accepted last and may use.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    pub(crate) accepted: Has,
    /// Version in the unanswered response with this nonce.
    pub(crate) newest: Option<(u64, Has)>,
}

/// Resources of which a client has something else than the last accepted response says.
#[derive(Debug, Default)]
pub(crate) struct AckedExceptions {
    withheld: BTreeMap<Slot, Withheld>,
    /// Revision at which the client was last moved to another view with withheld removals.
    moved_at: Option<Revision>,
    /// Resources that a full-state client has from the previous view, until it ACKs a response in
    /// this one.
    previous_view: Option<PreviousView>,
    /// Subscriptions that are [followed](super::nack) until an incremental client has accepted what it
    /// was sent.
    pub(crate) followed: BTreeSet<Slot>,
    /// Resources whose removal an incremental client rejected.
    pub(crate) rejected_removals: BTreeSet<Slot>,
    /// Resources that the client has rejected and not accepted since.
    pub(crate) rejected: RejectedResources,
}

/// Resource whose removal is or was withheld.
#[derive(Debug)]
struct Withheld {
    /// Revision of the last change or removal of the name by then.
    revision: Revision,
    versions: Versions,
}

/// Resources that a client has from its previous view. Others are missing.
#[derive(Debug, Default)]
pub(crate) struct PreviousView {
    /// Resources that the client accepted last, if known. A returning client may have unknown
    /// ones.
    pub(crate) accepted: Option<BTreeMap<ResourceName, Has>>,
    /// Unanswered response sent since then, with its nonce.
    pub(crate) newest: Option<(u64, BTreeMap<ResourceName, Has>)>,
}

impl Versions {
    /// Returns what the client may use.
    fn in_use(&self) -> &Has {
        self.newest.as_ref().map_or(&self.accepted, |(_, newest)| newest)
    }

    /// Applies the answer to the response with this nonce.
    fn note_answer(&mut self, nonce: u64, answer: Answer) {
        if let Some((_, newest)) = self.newest.take_if(|(newest, _)| *newest <= nonce)
            && answer == Answer::Ack
        {
            self.accepted = newest;
        }
    }
}

impl AckedExceptions {
    pub(crate) fn is_empty(&self) -> bool {
        self.withheld.is_empty()
            && self.previous_view.is_none()
            && self.followed.is_empty()
            && self.rejected_removals.is_empty()
            && self.rejected.is_empty()
    }
}

impl PreviousView {
    /// Records what the client has of a resource when it leaves the view.
    pub(crate) fn note(&mut self, name: &ResourceName, Versions { accepted, newest }: &Versions) {
        let note = |all: &mut BTreeMap<_, _>, has: &Has| {
            if !matches!(has, Has::Nothing) {
                all.insert(name.clone(), has.clone());
            }
        };
        self.accepted.iter_mut().for_each(|all| note(all, accepted));
        if let (Some((_, all)), Some((_, has))) = (&mut self.newest, newest) {
            note(all, has);
        }
    }
}

fn find(all: Option<&BTreeMap<ResourceName, Has>>, name: &ResourceName) -> Has {
    all.map_or(Has::Unknown, |all| all.get(name).cloned().unwrap_or(Has::Nothing))
}

impl Session {
    pub(crate) fn acked_exceptions(&self) -> Option<&AckedExceptions> {
        self.extras.as_deref().map(|extras| &extras.acked)
    }

    pub(crate) fn previous_view(&self) -> Option<&PreviousView> {
        self.acked_exceptions()?.previous_view.as_ref()
    }

    /// Whether a response was sent before the client was moved to its view.
    pub(crate) fn is_of_previous_view(&self, nonce: NonZeroU64) -> bool {
        matches!(self.prior_state, PriorState::Before(next) if nonce < next)
    }

    fn withheld_version(&self, resource: Slot) -> Option<&Withheld> {
        self.acked_exceptions()?.withheld.get(&resource)
    }

    /// Whether the removal of a resource is withheld, or was and the client has not accepted what it
    /// was sent since.
    pub(crate) fn is_withheld(&self, resource: Slot) -> bool {
        self.withheld_version(resource).is_some()
    }

    /// Returns the version of a resource that full-state responses repeat while its removal is
    /// withheld.
    pub(crate) fn repeated_version<'a>(
        &'a self,
        resource: Slot,
        arena: &'a Arena,
    ) -> Option<&'a Payload> {
        match self.withheld_version(resource)?.versions.in_use() {
            Has::Version(payload) => Some(payload),
            Has::Nothing => None,
            Has::Unknown => arena.removed_content(resource),
        }
    }

    /// Returns the revision at which the client was moved, if removals were withheld then.
    pub(crate) fn moved_at(&self) -> Option<Revision> {
        self.acked_exceptions()?.moved_at
    }

    /// Whether responses may have to repeat what the client accepted before.
    pub(crate) fn needs_snapshots(&self, arena: &Arena) -> bool {
        self.defers_removals() && self.needs_retained_deletions(arena)
    }

    /// Forgets what the client has of a resource whose removal was withheld.
    pub(crate) fn forget_withheld(&mut self, resource: Slot) {
        self.update_extras(|extras| drop(extras.acked.withheld.remove(&resource)));
    }
}

impl SessionView<'_> {
    /// Returns what the client accepted last and may use of a resource.
    pub(crate) fn versions(self, slot: Slot, subscription: Option<&Subscription>) -> Versions {
        Versions {
            accepted: self.has(slot, subscription),
            newest: self.may_use(slot, subscription),
        }
    }

    /// Returns what the client accepted last of a resource.
    pub(crate) fn has(self, slot: Slot, subscription: Option<&Subscription>) -> Has {
        let Some(resource) = self.arena.at(slot) else { return Has::Unknown };
        let withheld = self.session.withheld_version(slot);
        match (self.accepted_here(), self.session.previous_view(), withheld) {
            (None, Some(view), _) => find(view.accepted.as_ref(), &resource.name),
            (_, _, Some(withheld)) => withheld.versions.accepted.clone(),
            (Some(accepted), ..) => self.version_in(slot, subscription, accepted),
            (None, None, None) => Has::Unknown,
        }
    }

    /// Returns what the newest response contains of a resource, with its nonce, if that is
    /// unanswered.
    fn may_use(self, slot: Slot, subscription: Option<&Subscription>) -> Option<(u64, Has)> {
        let sent = self.session.newest.filter(|_| self.session.awaits_answer())?;
        let (nonce, resource) = (sent.nonce.get(), self.arena.at(slot)?);
        if self.session.is_of_previous_view(sent.nonce) {
            let newest = self.session.previous_view().and_then(|view| view.newest.as_ref());
            return Some((nonce, find(newest.map(|(_, all)| all), &resource.name)));
        }
        let withheld = self.session.withheld_version(slot);
        let withheld = withheld
            .filter(|it| it.revision == resource.revision || self.arena.came_after(slot, sent.at));
        let has = match withheld {
            Some(withheld) => withheld.versions.in_use().clone(),
            None => self.version_in(slot, subscription, (nonce, sent.at)),
        };
        Some((nonce, has))
    }

    /// Returns the version of a resource in the response with this nonce, rendered at that
    /// revision.
    fn version_in(
        self,
        slot: Slot,
        subscription: Option<&Subscription>,
        (nonce, at): (u64, Revision),
    ) -> Has {
        let Some(resource) = self.arena.at(slot) else { return Has::Unknown };
        let is_named_alone = self.session.wildcard.is_none();
        let was_not_requested = |subscription: &Subscription| {
            subscription.was_first_sent_after(nonce)
                || is_named_alone && !subscription.has_version()
        };
        let before_wildcard = self.session.before_wildcard(nonce);
        // The client had it before it came back.
        let is_followed = self.session.follows_until_accepted()
            && subscription.is_some_and(|it| !it.kind.is_subscribed() && it.has_version());
        let is_new = !is_followed && self.arena.first_created_after(slot, at);
        if nonce == 0
            || subscription.is_some_and(was_not_requested)
            || before_wildcard.is_some_and(|it| !it.names.contains(&resource.name))
            || is_new
        {
            return Has::Nothing;
        }
        let is_full_state = self.session.response_mode(self.arena) == ResponseMode::FullState;
        // While rejected resources are sent alone, the client's state is none that the store had.
        if is_full_state && let Some(state) = self.session.kept_state(nonce) {
            return state.get(&resource.name).cloned().map_or(Has::Nothing, Has::Version);
        }
        let payload = match &resource.payload {
            _ if resource.error.is_some() => None,
            _ if resource.revision > at => match self.arena.content_at(slot, at) {
                PastContent::Missing if !is_followed => return Has::Nothing,
                content => content.known(),
            },
            None if is_full_state => return Has::Nothing,
            payload => payload.as_ref(),
        };
        payload.map_or(Has::Unknown, |payload| Has::Version(payload.clone()))
    }

    /// Returns nonce and revision of the last response accepted on this view, zeros if there was
    /// none. `None` if the client may have something from before.
    pub(crate) fn accepted_here(self) -> Option<(u64, Revision)> {
        let accepted = self.session.accepted_response(self.arena);
        match (accepted, self.session.prior_state) {
            (Some(accepted), PriorState::Before(next)) if accepted.nonce < next => None,
            (None, PriorState::Before(_)) => None,
            (Some(accepted), _) => Some((accepted.nonce.get(), accepted.at)),
            (None, PriorState::None) => Some((0, Revision::START)),
        }
    }
}

impl SessionContext<'_> {
    /// Records what the client has of a resource whose removal is withheld from now on.
    pub(crate) fn note_withheld(&mut self, subscription: Slot) {
        if !self.session.needs_retained_deletions(self.arena) {
            return;
        }
        let Some(subscription) = self.subscriptions.at(subscription) else { return };
        let resource = subscription.resource;
        let versions = self.view().versions(resource, Some(subscription));
        self.insert_withheld(resource, versions);
    }

    /// Records what the client has of a resource that the previous view had and this one has not,
    /// if its removal is withheld.
    pub(crate) fn carry_over(&mut self, subscription: Slot, versions: Option<Versions>) {
        let subscription = self.subscriptions.at(subscription).filter(|it| it.is_withheld());
        if let Some(&Subscription { resource, .. }) = subscription
            && self.session.needs_retained_deletions(self.arena)
        {
            let nothing = Versions { accepted: Has::Nothing, newest: None };
            self.insert_withheld(resource, versions.unwrap_or(nothing));
            self.session.extras_mut().acked.moved_at = Some(self.arena.clock());
        }
    }

    fn insert_withheld(&mut self, resource: Slot, versions: Versions) {
        let revision = self.arena.at(resource).map_or(Revision::START, |it| it.revision);
        let withheld = &mut self.session.extras_mut().acked.withheld;
        withheld.insert(resource, Withheld { revision, versions });
    }

    /// Returns what a client takes along to another view, of which `newest` is the newest version.
    /// `None` if it has nothing that could be repeated: if its versions are unknown, the newest
    /// one might be rejected forever.
    pub(crate) fn versions_to_carry(
        &self,
        mut versions: Versions,
        newest: Option<&Payload>,
    ) -> Option<Versions> {
        let assumed = || newest.cloned().map_or(Has::Nothing, Has::Version);
        if let Some((_, newest @ Has::Unknown)) = &mut versions.newest {
            *newest = assumed();
        }
        if matches!(versions.accepted, Has::Unknown) {
            let rejects = versions.newest.is_some() || self.session.has_rejected_newest();
            versions.accepted = match &versions.newest {
                _ if rejects && self.session.may_defer_forever() => Has::Nothing,
                Some((_, newest)) => newest.clone(),
                None => assumed(),
            };
        }
        let has_version = |has: &Has| matches!(has, Has::Version(_));
        let is_in_newest = versions.newest.as_ref().is_some_and(|(_, newest)| has_version(newest));
        (is_in_newest || has_version(&versions.accepted)).then_some(versions)
    }

    /// Takes over what the client has from the previous view.
    pub(crate) fn set_previous_view(&mut self, previous_view: Option<PreviousView>) {
        if previous_view.is_some() {
            self.session.extras_mut().acked.previous_view = previous_view;
        }
    }

    /// Applies the answer to a response to what the client has. Takes time proportional to the
    /// withheld removals, and to the resources of the previous view if the client has accepted
    /// nothing in this one.
    pub(crate) fn note_answer_in_acked(&mut self, sent: Sent, answer: Answer) {
        let is_settled = self.view().accepted_here().is_some();
        let (arena, subscriptions, own) = (&*self.arena, &*self.subscriptions, self.slot);
        let (nonce, mut settled) = (sent.nonce.get(), Vec::new());
        self.session.update_extras(|extras| {
            extras.acked.withheld.retain(|&resource, it| {
                it.versions.note_answer(nonce, answer);
                let subscription = subscriptions.of(own, resource);
                let is_withheld = subscription.is_some_and(Subscription::is_withheld);
                let was_repeated = arena.came_after(resource, sent.at);
                let is_kept = is_withheld || was_repeated || answer != Answer::Ack;
                if !is_kept && subscription.is_some_and(|it| !it.kind.is_subscribed()) {
                    settled.push(resource);
                }
                is_kept
            });
            let Some(view) = &mut extras.acked.previous_view else { return };
            let newest = view.newest.take_if(|(newest, _)| *newest <= nonce);
            if is_settled {
                extras.acked.previous_view = None;
            } else if let Some((_, newest)) = newest.filter(|_| answer == Answer::Ack) {
                view.accepted = Some(newest);
            }
        });
        for resource in settled {
            let subscription = self.subscriptions.find(self.slot, resource);
            if let Some(slot) = subscription
                && self.subscriptions.at(slot).is_some_and(|it| it.due.is_none())
            {
                self.disconnect(slot);
            }
        }
    }

    /// Returns the revision of the last accepted full state of the wildcard, if the client
    /// rejected the next one.
    pub(crate) fn accepted_state_revision(&self) -> Option<Revision> {
        let is_rejected = self.sends_full_state() && self.session.has_rejected_newest();
        let accepted = self.view().accepted_here().filter(|_| is_rejected);
        accepted.map(|(_, revision)| revision)
    }

    /// Holds a snapshot of the response that is being sent, in place of that of the previous one.
    pub(crate) fn hold_sent(&mut self) {
        if self.session.needs_snapshots(self.arena) {
            let (sent, held) = (self.arena.clock(), self.arena.held_by(self.slot));
            self.arena.hold(self.slot, HeldSnapshots { sent, ..held });
        }
    }

    /// Holds the snapshot of the newest response as that of the accepted one. A client that has
    /// everything it names needs none until [that changes](Self::hold_before_change).
    pub(crate) fn hold_accepted(&mut self) {
        if self.session.needs_snapshots(self.arena) {
            let is_current =
                self.session.wildcard.is_none() && !self.session.has_pending_content(self.arena);
            let sent = self.arena.held_by(self.slot).sent;
            let accepted = if is_current { Revision::START } else { sent };
            self.arena.hold(self.slot, HeldSnapshots { accepted, sent: Revision::START });
        }
    }

    /// Holds a snapshot of the accepted response before one of its named resources changes.
    pub(crate) fn hold_before_change(&mut self) {
        if self.session.wildcard.is_some() || !self.session.needs_snapshots(self.arena) {
            return;
        }
        let held = self.arena.held_by(self.slot);
        if held.accepted == Revision::START
            && let Some((_, accepted)) = self.view().accepted_here()
        {
            self.arena.hold(self.slot, HeldSnapshots { accepted, ..held });
        }
    }
}
