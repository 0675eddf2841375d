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
    accepted::{Marks, Shots},
    dependencies::Waits,
    requests::{Ask, Request},
    warming::{Asks, Expected, Patience, Taken},
};
pub(crate) use self::{
    dependencies::{goes_before, may_refer_to},
    requests::Requests,
};
use super::{
    config::{AckGated, OnStuck},
    event::{HeldBack, HeldBy},
    session::{
        Session, deferred_removal::Portion, pending::Rendering, seat::Seat, subscription::Edges,
        subscriptions::Subscriptions,
    },
    store::{arena::Arena, revision::Stamp},
};
use crate::{
    slab::Slot,
    text::ResourceName,
    time::Time,
    types::{self, rank},
};

/// Number of types that wait or are waited for: those with a rank of their own.
const STAGES: usize = types::RANKS;

/// Make-before-break state of a stream, in addition to the state of its sessions.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    on_stuck: OnStuck,
    marks: [Marks; STAGES],
    shots: Shots,
    /// Revision up to which the client has requested the endpoints of changed clusters.
    asked: Stamp,
    expected: Expected,
    /// Newest CDS response whose by-name clusters have all had their endpoints requested.
    asked_by_name: Rendering,
    /// Meaning of a request for endpoints after the newest clusters.
    asks: Asks,
    /// Clusters that the client uses, whether or not it has ACKed their response.
    taken: Taken,
    /// Whether to wait for a client that has endpoints and warms new clusters with them.
    for_warming: Patience,
    /// Revision up to which changes wait for nothing any more.
    waived: Stamp,
    /// Change that is held back, and the time since when.
    pub(crate) held: Option<(Hold, Time)>,
    /// Requests that are unanswered because their resources are held back.
    pub(crate) requests: Requests,
}

/// Decision on what may be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlook {
    pub(crate) next: Option<Next>,
    /// First change that is held back.
    pub(crate) hold: Option<Hold>,
    /// Types that have unanswered requests.
    pub(crate) asks: [Ask; STAGES],
}

/// Session that sends next, and what part of its due resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) seat: Seat,
    pub(crate) portion: Portion,
}

/// Change that is held back, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) rank: u8,
    pub(crate) what: HeldBack,
    pub(crate) waits_for: usize,
    pub(crate) why: HeldBy,
}

impl Hold {
    /// Whether both concern the same change, even if it waits for something else.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.rank, self.what) == (other.rank, other.what)
    }
}

/// Sessions of the stream by rank.
pub(crate) struct Sessions<'a>([Option<View<'a>>; STAGES]);

#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    slot: Slot,
    session: &'a Session,
    arena: &'a Arena,
}

impl<'a> Sessions<'a> {
    fn of(seats: &[Seat], subscriptions: &'a Subscriptions) -> Self {
        let mut views = [None; STAGES];
        for seat in seats {
            if let Some(view) = views.get_mut(usize::from(seat.rank)) {
                *view = View::of(seat.session, subscriptions);
            }
        }
        Self(views)
    }

    fn get(&self, rank: usize) -> Option<View<'a>> {
        self.0.get(rank).copied().flatten()
    }
}

impl<'a> View<'a> {
    fn of(slot: Slot, subscriptions: &'a Subscriptions) -> Option<Self> {
        let session = subscriptions.sessions.at(slot)?;
        Some(Self { slot, session, arena: subscriptions.store.arena(session.arena)? })
    }

    /// Whether the client has accepted all resources and deletions.
    fn is_settled(&self) -> bool {
        !self.session.has_additions(self.arena)
            && !self.session.is_waiting()
            && !self.session.is_rejected()
    }

    /// Whether the client has all resources. It may not have been sent all deletions, which a type
    /// that waits only for resources does not need.
    fn has_all(&self) -> bool {
        !self.session.has_additions(self.arena) && self.session.lacks_nothing()
    }

    fn has_resource(&self, name: &ResourceName) -> bool {
        let slot = self.arena.find(name.as_str());
        slot.is_some_and(|slot| self.arena.payload(slot).is_some())
    }

    /// Whether a resource is yet to be sent to the client by its name, or was not accepted in the
    /// response with the nonce `accepted` or before.
    fn lacks(&self, name: &ResourceName, accepted: u64, edges: &Edges) -> bool {
        let slot = self.arena.find(name.as_str());
        let edge = slot.and_then(|slot| edges.at(edges.find(self.slot, slot)?));
        match edge {
            Some(edge) => edge.sent == 0 || edge.sent > accepted || edge.due.is_some(),
            None => !self.session.has_wildcard(),
        }
    }

    fn why_not(&self) -> HeldBy {
        match self.session {
            session if session.is_rejected() => HeldBy::Rejected,
            session if session.is_waiting() => HeldBy::Unanswered,
            _ => HeldBy::Unsent,
        }
    }
}

impl Gate {
    pub(crate) fn new(on_stuck: OnStuck) -> Self {
        Self { on_stuck, ..Self::default() }
    }

    /// Policy for changes that wait for a client which rejects.
    pub(crate) fn on_stuck(&self) -> OnStuck {
        self.on_stuck
    }

    /// Decides what is sent next and what is held back. Costs one step per type of the stream, and
    /// per due resource of the types that wait.
    pub(crate) fn look(
        &mut self,
        seats: &[Seat],
        subscriptions: &Subscriptions,
        policy: &AckGated,
    ) -> Outlook {
        let sessions = Sessions::of(seats, subscriptions);
        self.note_settled(&sessions, subscriptions.store.clock());
        let mut outlook = Outlook::default();
        let waits = |seat: &&Seat| !Waits::of(usize::from(seat.rank)).to_be_sent.is_empty();
        // Waiting types are checked first, so that frequent changes of the types they wait for
        // cannot delay them further.
        let (waiting, free) = (seats.iter().filter(waits), seats.iter().filter(|it| !waits(it)));
        for &seat in waiting.chain(free) {
            let Some(view) = View::of(seat.session, subscriptions) else { continue };
            // Keeps a change waiting while a response of its type, such as a heartbeat, is
            // unanswered.
            let is_due = view.session.is_due(view.arena);
            if !is_due && !view.session.is_waiting() {
                continue;
            }
            let has_additions = view.session.has_additions(view.arena);
            let additions = match has_additions {
                true => self.hold_additions(seat, view, &sessions, subscriptions, policy),
                false => None,
            };
            let removals = match view.session.has_removals(view.arena) {
                true => self.hold_removals(seat, view, &sessions, subscriptions, policy),
                false => None,
            };
            let renews = view.session.owes_heartbeats_alone(view.arena);
            let request = self.requests.of(seat.rank);
            let is_concerned = additions.is_some() || request != Request::Served;
            let asks = is_concerned && view.session.has_unanswered(&subscriptions.edges);
            if asks && let Some(of_type) = outlook.asks.get_mut(usize::from(seat.rank)) {
                let is_held = additions.is_some();
                *of_type = if is_held { Ask::Held } else { Ask::Free };
            }
            let portion = match (&additions, &removals) {
                (None, None) => Some(Portion::Everything),
                (None, Some(_)) if has_additions || renews => Some(Portion::Additions),
                (Some(_), _) if asks && request == Request::Overdue => Some(Portion::Unanswered),
                (Some(_), _) if renews => Some(Portion::Heartbeats),
                _ => None,
            };
            let next = portion.filter(|_| is_due).map(|portion| Next { seat, portion });
            outlook.next = outlook.next.or(next);
            outlook.hold = outlook.hold.or(additions).or(removals);
        }
        outlook
    }

    fn hold_additions(
        &mut self,
        seat: Seat,
        view: View<'_>,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
        policy: &AckGated,
    ) -> Option<Hold> {
        let waits = Waits::of(usize::from(seat.rank)).to_be_sent;
        if waits.is_empty() {
            return None;
        }
        let changed = view.session.newest_due(view.arena, &subscriptions.edges);
        if changed <= self.waived {
            return None;
        }
        let hold = |waits_for, why| {
            Some(Hold { rank: seat.rank, what: HeldBack::Changes, waits_for, why })
        };
        for &rank in waits {
            let Some(other) = sessions.get(rank) else { continue };
            if self.has_refused(rank, other, changed) {
                let is_settled = other.is_settled();
                return hold(rank, if is_settled { HeldBy::Rejected } else { other.why_not() });
            }
            if !other.has_all() && self.accepted(rank).set < changed {
                return hold(rank, other.why_not());
            }
        }
        policy.references.as_ref()?;
        hold(rank::ENDPOINTS, self.has_cold_clusters(sessions, subscriptions)?)
    }

    fn hold_removals(
        &mut self,
        seat: Seat,
        view: View<'_>,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
        policy: &AckGated,
    ) -> Option<Hold> {
        // The revision of the deletion may be unknown, but it is not later than now.
        let deleted = view.session.newest_deletion(view.arena, &subscriptions.edges);
        let deleted = deleted.min(subscriptions.store.clock());
        let waits = Waits::of(usize::from(seat.rank)).to_be_told;
        // The client keeps a silently deleted resource until it has nothing that refers to it.
        let has_lost_silently = |to: usize, after: Stamp| {
            let refers = |&&rank: &&usize| Waits::of(rank).to_be_told.contains(&to);
            let mut lost = waits.iter().filter(refers).filter_map(|&rank| sessions.get(rank));
            lost.any(|it| it.session.has_lost_silently(it.arena, &subscriptions.edges, after))
        };
        let unfinished = |&&rank: &&usize| {
            sessions.get(rank).is_some_and(|other| {
                let is_finished = other.is_settled() && !other.session.has_removals(other.arena);
                let reached = self.accepted(rank).deleted.max(self.waived);
                let has_older =
                    || other.session.has_from_before(other.arena, &subscriptions.edges, reached);
                !is_finished
                    && (reached < deleted || has_lost_silently(rank, reached) || has_older())
                    || self.waived < deleted && self.has_refused(rank, other, Stamp::MAX)
            })
        };
        let hold = |waits_for, why| {
            Some(Hold { rank: seat.rank, what: HeldBack::Deletions, waits_for, why })
        };
        let Some(&waits_for) = waits.iter().find(unfinished) else {
            let is_endpoints = usize::from(seat.rank) == rank::ENDPOINTS;
            if !is_endpoints || deleted <= self.waived {
                return None;
            }
            let why = self.uses_old_endpoints(view, deleted, sessions, subscriptions, policy);
            return hold(rank::ENDPOINTS, why?);
        };
        let other = sessions.get(waits_for)?;
        let why = match other.is_settled() && self.has_refused(waits_for, other, Stamp::MAX) {
            true => HeldBy::Rejected,
            false => other.why_not(),
        };
        hold(waits_for, why)
    }

    /// Resets the state after the client was moved to another view, because earlier ACKs and waived
    /// waits do not apply there. Resources of the new view may be older and are new to the client,
    /// except those that it was sent with the same content.
    pub(crate) fn start_over(&mut self, seats: &[Seat], subscriptions: &Subscriptions) {
        self.waived = Stamp::START;
        self.asked = Stamp::START;
        self.asked_by_name = Rendering::default();
        self.expected = Expected::default();
        (self.asks, self.taken) = (Asks::Nothing, Taken::default());
        self.start_marks_over(&Sessions::of(seats, subscriptions), subscriptions);
    }

    /// Ends the wait of all changes up to now.
    pub(crate) fn waive(&mut self, clock: Stamp) {
        self.waived = clock;
    }
}
