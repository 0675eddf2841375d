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
pub(crate) mod dependencies;
pub(crate) mod rejected;
pub(crate) mod requests;
pub(crate) mod warming;

use self::{
    accepted::{ClusterSnapshots, TypeProgress},
    dependencies::Dependencies,
    requests::{PendingRequest, RequestState},
    warming::{ClustersInUse, EdsRequestMeaning, EdsWait, ExpectedEndpoints},
};
pub(crate) use self::{
    dependencies::{may_refer_to, sent_before},
    requests::RequestStates,
};
use super::{
    config::{MakeBeforeBreakPolicy, StageTimeoutAction},
    event::{BlockedBy, BlockedChange},
    session::{
        deferred_removal::Portion, pending::ResponsePosition, session_handle::SessionHandle,
        session_view::SessionView, subscription::SubscriptionTable, subscriptions::Subscriptions,
    },
    store::revision::Revision,
};
use crate::{
    text::ResourceName,
    time::Time,
    types::{self, rank},
};

/// Number of types that wait or are waited for: those with a rank of their own.
const STAGES: usize = types::RANKS;

/// Make-before-break state of a stream, in addition to the state of its sessions.
#[derive(Debug, Default)]
pub(crate) struct MakeBeforeBreak {
    on_stage_timeout: StageTimeoutAction,
    progress: [TypeProgress; STAGES],
    cluster_snapshots: ClusterSnapshots,
    /// Revision up to which the client has requested the endpoints of changed clusters.
    requested: Revision,
    expected: ExpectedEndpoints,
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
    /// Change that is held back, and the time since when.
    pub(crate) blocked: Option<(Blocked, Time)>,
    /// Requests that are unanswered because their resources are held back.
    pub(crate) requests: RequestStates,
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

/// Change that is held back, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) rank: u8,
    pub(crate) change: BlockedChange,
    pub(crate) waits_for: usize,
    pub(crate) reason: BlockedBy,
}

impl Blocked {
    /// Whether both concern the same change, even if it waits for something else.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.rank, self.change) == (other.rank, other.change)
    }
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
    /// Whether the client has accepted all resources and deletions.
    fn is_settled(&self) -> bool {
        !self.session.has_additions(self.arena)
            && !self.session.awaits_answer()
            && !self.session.is_rejected()
    }

    fn has_resource(&self, name: &ResourceName) -> bool {
        let slot = self.arena.find(name.as_str());
        slot.is_some_and(|slot| self.arena.payload(slot).is_some())
    }

    /// Whether a resource is yet to be sent to the client by its name, or was not accepted in the
    /// response with the nonce `accepted` or before.
    fn is_unaccepted(&self, name: &ResourceName, accepted: u64, table: &SubscriptionTable) -> bool {
        let slot = self.arena.find(name.as_str());
        match slot.and_then(|slot| table.of(self.slot, slot)) {
            Some(subscription) => {
                subscription.sent == 0 || subscription.sent > accepted || subscription.due.is_some()
            }
            None => !self.session.has_wildcard(),
        }
    }

    fn blocked_by(&self) -> BlockedBy {
        match self.session {
            session if session.is_rejected() => BlockedBy::Rejected,
            session if session.awaits_answer() => BlockedBy::Unanswered,
            _ => BlockedBy::Unsent,
        }
    }
}

impl MakeBeforeBreak {
    pub(crate) fn new(on_stage_timeout: StageTimeoutAction) -> Self {
        Self { on_stage_timeout, ..Self::default() }
    }

    /// Policy for changes that wait for a client which rejects.
    pub(crate) fn on_stage_timeout(&self) -> StageTimeoutAction {
        self.on_stage_timeout
    }

    /// Decides what is sent next and what is held back. Costs one step per type of the stream, and
    /// per due resource of the types that wait.
    pub(crate) fn decide(
        &mut self,
        handles: &[SessionHandle],
        subscriptions: &Subscriptions,
        policy: &MakeBeforeBreakPolicy,
    ) -> Decision {
        let sessions = Sessions::of(handles, subscriptions);
        self.note_settled(&sessions, subscriptions.store.clock());
        let mut decision = Decision::default();
        let waits = |handle: &&SessionHandle| {
            !Dependencies::of(usize::from(handle.rank)).before_additions.is_empty()
        };
        // Waiting types are checked first, so that frequent changes of the types they wait for
        // cannot delay them further.
        let (waiting, free) =
            (handles.iter().filter(waits), handles.iter().filter(|it| !waits(it)));
        for &handle in waiting.chain(free) {
            let Some(view) = SessionView::of(handle.session, subscriptions) else { continue };
            // Keeps a change waiting while a response of its type, such as a heartbeat, is
            // unanswered.
            let is_due = view.session.is_due(view.arena);
            if !is_due && !view.session.awaits_answer() {
                continue;
            }
            let has_additions = view.session.has_additions(view.arena);
            let additions = match has_additions {
                true => self.blocked_additions(handle, view, &sessions, subscriptions, policy),
                false => None,
            };
            let removals = match view.session.has_removals(view.arena) {
                true => self.blocked_removals(handle, view, &sessions, subscriptions, policy),
                false => None,
            };
            let renews = view.session.has_heartbeats_alone(view.arena);
            let request = self.requests.of(handle.rank);
            let is_concerned = additions.is_some() || request != RequestState::NotBlocked;
            let is_pending = is_concerned && view.session.has_unanswered(&subscriptions.table);
            if is_pending
                && let Some(of_type) = decision.pending_requests.get_mut(usize::from(handle.rank))
            {
                let is_blocked = additions.is_some();
                *of_type =
                    if is_blocked { PendingRequest::Blocked } else { PendingRequest::Sendable };
            }
            let portion = match (&additions, &removals) {
                (None, None) => Some(Portion::Everything),
                (None, Some(_)) if has_additions || renews => Some(Portion::Additions),
                (Some(_), _) if is_pending && request == RequestState::Overdue => {
                    Some(Portion::Unanswered)
                }
                (Some(_), _) if renews => Some(Portion::Heartbeats),
                _ => None,
            };
            let next = portion.filter(|_| is_due).map(|portion| Next { handle, portion });
            decision.next = decision.next.or(next);
            decision.blocked = decision.blocked.or(additions).or(removals);
        }
        decision
    }

    fn blocked_additions(
        &mut self,
        handle: SessionHandle,
        view: SessionView<'_>,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
        policy: &MakeBeforeBreakPolicy,
    ) -> Option<Blocked> {
        let waits = Dependencies::of(usize::from(handle.rank)).before_additions;
        if waits.is_empty() {
            return None;
        }
        let changed = view.session.newest_due(view.arena, &subscriptions.table);
        if changed <= self.waived {
            return None;
        }
        let blocked = |waits_for, reason| {
            Some(Blocked { rank: handle.rank, change: BlockedChange::Changes, waits_for, reason })
        };
        for &rank in waits {
            let Some(other) = sessions.get(rank) else { continue };
            if self.has_rejected(rank, other, changed) {
                let is_settled = other.is_settled();
                return blocked(
                    rank,
                    if is_settled { BlockedBy::Rejected } else { other.blocked_by() },
                );
            }
            if !other.has_all() && self.accepted(rank).set < changed {
                return blocked(rank, other.blocked_by());
            }
        }
        policy.references.as_ref()?;
        blocked(rank::ENDPOINTS, self.clusters_blocked_by(sessions, subscriptions)?)
    }

    fn blocked_removals(
        &mut self,
        handle: SessionHandle,
        view: SessionView<'_>,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
        policy: &MakeBeforeBreakPolicy,
    ) -> Option<Blocked> {
        // The revision of the deletion may be unknown, but it is not later than now.
        let deleted = view.session.newest_deletion(view.arena, &subscriptions.table);
        let deleted = deleted.min(subscriptions.store.clock());
        let waits = Dependencies::of(usize::from(handle.rank)).before_deletions;
        if !waits.is_empty() && deleted > self.waived && view.session.awaits_first_exchange() {
            let (change, waits_for) = (BlockedChange::Deletions, usize::from(handle.rank));
            let reason = BlockedBy::Unsent;
            return Some(Blocked { rank: handle.rank, change, waits_for, reason });
        }
        // The client keeps a silently deleted resource until it has nothing that refers to it.
        let has_silent_removals = |to: usize, after: Revision| {
            let refers = |&&rank: &&usize| Dependencies::of(rank).before_deletions.contains(&to);
            let mut lost = waits.iter().filter(refers).filter_map(|&rank| sessions.get(rank));
            lost.any(|it| it.session.has_silent_removals(it.arena, &subscriptions.table, after))
        };
        let unfinished = |&&rank: &&usize| {
            sessions.get(rank).is_some_and(|other| {
                let is_finished = other.is_settled() && !other.session.has_removals(other.arena);
                let reached = self.accepted(rank).deleted.max(self.waived);
                let has_older = || {
                    other.session.has_outdated_recreated(other.arena, &subscriptions.table, reached)
                };
                !is_finished
                    && (reached < deleted || has_silent_removals(rank, reached) || has_older())
                    || self.waived < deleted && self.keeps_rejected(rank, other)
            })
        };
        let blocked = |waits_for, reason| {
            Some(Blocked { rank: handle.rank, change: BlockedChange::Deletions, waits_for, reason })
        };
        let Some(&waits_for) = waits.iter().find(unfinished) else {
            let is_endpoints = usize::from(handle.rank) == rank::ENDPOINTS;
            if !is_endpoints || deleted <= self.waived {
                return None;
            }
            let reason = self.uses_old_endpoints(view, deleted, sessions, subscriptions, policy);
            return blocked(rank::ENDPOINTS, reason?);
        };
        let other = sessions.get(waits_for)?;
        let reason = match other.is_settled() && self.keeps_rejected(waits_for, other) {
            true => BlockedBy::Rejected,
            false => other.blocked_by(),
        };
        blocked(waits_for, reason)
    }

    /// Resets the state after the client was moved to another view, because earlier ACKs and waived
    /// waits do not apply there. Resources of the new view may be older and are new to the client,
    /// except those that it was sent with the same content.
    pub(crate) fn reset(&mut self, handles: &[SessionHandle], subscriptions: &Subscriptions) {
        self.waived = Revision::START;
        self.requested = Revision::START;
        self.requested_by_name = ResponsePosition::default();
        self.expected = ExpectedEndpoints::default();
        (self.eds_request_meaning, self.in_use) =
            (EdsRequestMeaning::None, ClustersInUse::default());
        self.reset_progress(&Sessions::of(handles, subscriptions), subscriptions);
    }

    /// Ends the wait of all changes up to now.
    pub(crate) fn waive(&mut self, clock: Revision) {
        self.waived = clock;
    }
}
