//! Make before break: decides what may be sent now on a stream whose types wait for each other's
//! ACKs.
//!
//! The decision is recomputed whenever something is to be sent, from what the sessions of the
//! stream still lack and have accepted. There is no stored rollout plan that a new transaction
//! could invalidate.
//!
//! A waiting type does not wait until nothing of the other types is due, which may never happen. It
//! waits until the client has ACKed a response of theirs that was made after the change, because
//! the resources it refers to existed then. Revisions of the store tell whether that is the case.
// M146-M150, M158; M149: no stored rollout plan.

pub(crate) mod accepted;
pub(crate) mod cold_clusters;
pub(crate) mod decision;
pub(crate) mod dependencies;
pub(crate) mod facts;
pub(crate) mod held_since;
pub(crate) mod new_clusters;
pub(crate) mod warming;

use alloc::boxed::Box;

pub(crate) use self::dependencies::Dependencies;
use self::{
    accepted::ProgressByRank,
    cold_clusters::ColdClusters,
    decision::{Blocked, PendingRequest, TypeDecision, TypeFacts, TypeState},
    facts::StreamSessions,
    held_since::HeldSince,
    warming::{ClustersInUse, EdsRequestMeaning, EdsWait},
};
use super::{
    config::MakeBeforeBreakPolicy,
    event::BlockedBy,
    session::{
        acked::Has, deferred_removal::Portion, pending::ResponsePosition,
        session_handle::SessionHandle, session_view::SessionView, subscriptions::Subscriptions,
    },
    store::revision::Revision,
};
use crate::{service::Variant, slab::Slot, text::ResourceName, types};

/// Number of types that wait or are waited for: those with a rank of their own.
pub(crate) const STAGES: usize = types::RANKS;

/// Make-before-break state of a stream, in addition to the state of its sessions.
#[derive(Debug, Default)]
pub(crate) struct MakeBeforeBreak {
    progress: ProgressByRank,
    /// Revision up to which the client has requested the endpoints of changed clusters.
    requested: Revision,
    /// Clusters that the client may not have warmed, if there are any.
    cold: Option<Box<ColdClusters>>,
    /// Revision up to which a returning client states to have all clusters.
    stated: Revision,
    /// Revision up to which the client may have been sent clusters while the server did not know
    /// which ones it has.
    unknown_to: Revision,
    /// Newest CDS response whose by-name clusters have all had their endpoints requested.
    requested_by_name: ResponsePosition,
    /// Meaning of a request for endpoints after the newest clusters.
    eds_request_meaning: EdsRequestMeaning,
    /// Clusters that the client uses, whether or not it has ACKed their response.
    in_use: ClustersInUse,
    /// Whether to wait for a client that has endpoints and warms new clusters with them.
    eds_wait: EdsWait,
    /// Revision up to which changes wait for nothing any more.
    waived: Revision,
    /// Times since which a change and requested resources are held back.
    pub(crate) held_since: HeldSince,
}

/// Decision on what may be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decision {
    pub(crate) next: Option<Next>,
    /// First change that is held back.
    pub(crate) blocked: Option<Blocked>,
    /// Types that have unanswered requests.
    pub(crate) pending_requests: [PendingRequest; STAGES],
}

/// Session that sends next, and what part of its due resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) handle: SessionHandle,
    pub(crate) portion: Portion,
}

/// Sessions of the stream by rank.
pub(crate) struct Sessions<'a>([Option<SessionView<'a>>; STAGES]);

impl<'a> Sessions<'a> {
    fn of(handles: &[SessionHandle], subscriptions: &'a Subscriptions) -> Self {
        let mut views = [None; STAGES];
        for handle in handles {
            if let Some(view) = views.get_mut(usize::from(handle.rank)) {
                *view = SessionView::of(handle.session, subscriptions);
            }
        }
        Self(views)
    }

    fn get(&self, rank: usize) -> Option<SessionView<'a>> {
        self.0.get(rank).copied().flatten()
    }
}

impl SessionView<'_> {
    /// Whether the client has accepted all resources.
    fn is_settled(&self) -> bool {
        TypeState::of(*self) == TypeState::Acked
    }

    /// Whether a resource is yet to be sent to the client by its name, or was not accepted in the
    /// response with the nonce `accepted` or before.
    fn is_unaccepted(&self, name: &ResourceName, accepted: u64) -> bool {
        let slot = self.arena.find(name.as_str());
        match slot.and_then(|slot| self.last_sent_by_name(slot)) {
            Some(sent) => !sent.has_version || sent.nonce > accepted || sent.is_due,
            None => !self.session.has_wildcard(),
        }
    }

    /// Whether the client has accepted the current version of a resource of its wildcard, as far as
    /// is known. While rejected resources are isolated, it is known only for clients that are sent full
    /// states.
    fn has_current(&self, slot: Slot) -> bool {
        let is_full_state = self.session.variant() == Variant::StateOfTheWorld;
        let is_known = is_full_state || !self.session.is_isolating();
        let current = self.arena.payload(slot).filter(|_| is_known);
        match self.has(slot, self.subscriptions.of(self.slot, slot)) {
            Has::Version(payload) => current.is_some_and(|current| current.hash == payload.hash),
            Has::Nothing | Has::Unknown => false,
        }
    }

    fn blocked_by(&self) -> BlockedBy {
        TypeState::of(*self).blocked_by()
    }
}

impl MakeBeforeBreak {
    /// Decides what is sent next and what is held back. Costs one step per type of the stream, and
    /// per due resource of the types that wait.
    pub(crate) fn decide(
        &mut self,
        handles: &[SessionHandle],
        subscriptions: &Subscriptions,
        policy: &MakeBeforeBreakPolicy,
    ) -> Decision {
        let (sessions, clock) = (Sessions::of(handles, subscriptions), subscriptions.store.clock());
        let requests = self.held_since.requests.by_rank();
        self.note_settled(&sessions, clock);
        let facts = self.facts(&sessions, clock);
        let waits = |handle: &&SessionHandle| {
            !Dependencies::of(usize::from(handle.rank)).before_additions.is_empty()
        };
        // Waiting types are checked first, so that frequent changes of the types they wait for
        // cannot delay them further.
        let (waiting, free) =
            (handles.iter().filter(waits), handles.iter().filter(|it| !waits(it)));
        let mut decision = Decision::default();
        for &handle in waiting.chain(free) {
            let Some(own) = SessionView::of(handle.session, subscriptions) else { continue };
            let rank = usize::from(handle.rank);
            // Several sessions may have one rank: a type in two versions of the API.
            let is_known = sessions.get(rank).is_some_and(|view| view.slot == own.slot);
            let known = facts.types.get(rank).copied().flatten().filter(|_| is_known);
            let of_type = known.unwrap_or_else(|| {
                TypeFacts::of(own, self.progress.accepted(rank, Some(own)), clock)
            });
            let request = requests.get(rank).copied().unwrap_or_default();
            let (state, sessions) = (&mut *self, &sessions);
            let mut late = StreamSessions { state, sessions, own, policy };
            let TypeDecision { portion, blocked, pending_request } =
                facts.decide(handle.rank, &of_type, request, &mut late);
            if pending_request != PendingRequest::None
                && let Some(pending) = decision.pending_requests.get_mut(rank)
            {
                *pending = pending_request;
            }
            let next = portion.map(|portion| Next { handle, portion });
            decision.next = decision.next.or(next);
            decision.blocked = decision.blocked.or(blocked);
        }
        if decision.next.is_some() {
            self.progress.open(&sessions);
        }
        decision
    }

    /// Resets the state after the client was moved to another view, because earlier ACKs and waived
    /// waits do not apply there. Resources of the new view may be older and are new to the client,
    /// except those that it was sent with the same content.
    pub(crate) fn reset(&mut self, handles: &[SessionHandle], subscriptions: &Subscriptions) {
        self.waived = Revision::START;
        (self.requested, self.stated) = (Revision::START, Revision::START);
        self.requested_by_name = ResponsePosition::default();
        (self.eds_request_meaning, self.in_use) =
            (EdsRequestMeaning::None, ClustersInUse::default());
        self.reset_progress(&Sessions::of(handles, subscriptions));
    }

    /// Ends the wait of all changes up to now.
    pub(crate) fn waive(&mut self, clock: Revision) {
        self.waived = clock;
    }
}
