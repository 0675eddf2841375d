//! What may be sent now on a stream whose types wait for each other: make before break, one step behind
//! the other's ACK (M146-M150, M158).
//!
//! It is asked anew whenever something is to be sent, and answers from what the sessions of the stream
//! still lack and have accepted: there is no plan of a rollout that a new transaction would upset
//! (M149).
//!
//! A type that waits need not wait until there is nothing left to say of the others, which may never
//! be. It is enough that the client has accepted a response of theirs that was made after the change:
//! what it refers to existed then. Positions in the history of the store tell which is the case.

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

/// How many types wait or are waited for: those with a rank of their own.
const STAGES: usize = types::RANKS;

/// What is known of a stream besides what its sessions know.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    on_stuck: OnStuck,
    marks: [Marks; STAGES],
    shots: Shots,
    /// The client has asked for the endpoints of clusters that changed up to here.
    asked: Stamp,
    expected: Expected,
    /// The same of those that it subscribes to by name, as they were in this response.
    asked_by_name: Rendering,
    /// Whether the client has to ask for endpoints after the newest clusters.
    asks: Asks,
    /// What it has taken of clusters, whether or not it accepted the response.
    taken: Taken,
    /// If it has endpoints, and warms new clusters with them.
    for_warming: Patience,
    /// Changes up to here wait for nothing any more.
    waived: Stamp,
    /// What is held back, and since when.
    pub(crate) held: Option<(Hold, Time)>,
    /// Requests that are not answered yet, since what was asked for is held back.
    pub(crate) requests: Requests,
}

/// What the gate says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlook {
    pub(crate) next: Option<Next>,
    /// The first thing that is held back.
    pub(crate) hold: Option<Hold>,
    /// Which types have unanswered requests.
    pub(crate) asks: [Ask; STAGES],
}

/// What is sent next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) seat: Seat,
    pub(crate) portion: Portion,
}

/// Something that waits, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) rank: u8,
    pub(crate) what: HeldBack,
    pub(crate) waits_for: usize,
    pub(crate) why: HeldBy,
}

impl Hold {
    /// Whether the same still waits, if perhaps for something else.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.rank, self.what) == (other.rank, other.what)
    }
}

/// The stream's sessions by rank.
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

    /// Whether the client has accepted all there is.
    fn is_settled(&self) -> bool {
        !self.session.has_additions(self.arena)
            && !self.session.is_waiting()
            && !self.session.is_rejected()
    }

    /// Whether the client has all there is. It may not have taken note that something is gone: what waits only
    /// for what there is does not wait for that.
    fn has_all(&self) -> bool {
        !self.session.has_additions(self.arena) && self.session.lacks_nothing()
    }

    fn has_resource(&self, name: &ResourceName) -> bool {
        let slot = self.arena.find(name.as_str());
        slot.is_some_and(|slot| self.arena.payload(slot).is_some())
    }

    /// Whether the client is to be sent a resource yet, by its name, or has not accepted it: neither in the
    /// response of this nonce nor before.
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

    /// What becomes of what waits for a client that rejects.
    pub(crate) fn on_stuck(&self) -> OnStuck {
        self.on_stuck
    }

    /// What is sent next, and what is not. Costs the types of the stream, and what is due of those that
    /// wait.
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
        // What has waited goes first once it may: who keeps changing what it waited for must not keep
        // it waiting.
        let (waiting, free) = (seats.iter().filter(waits), seats.iter().filter(|it| !waits(it)));
        for &seat in waiting.chain(free) {
            let Some(view) = View::of(seat.session, subscriptions) else { continue };
            // What waits goes on waiting while an answer of its own type is on its way, as to a heartbeat.
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
        // Nobody may know when, but not later than now.
        let deleted = view.session.newest_deletion(view.arena, &subscriptions.edges);
        let deleted = deleted.min(subscriptions.store.clock());
        let waits = Waits::of(usize::from(seat.rank)).to_be_told;
        // What went without a word the client has until it has nothing that refers to it.
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

    /// The client sees another view: nothing that it has accepted counts, nor that it was not waited for any
    /// longer. What there is may be older than that, and is new to it; but for what it was sent just like that.
    pub(crate) fn start_over(&mut self, seats: &[Seat], subscriptions: &Subscriptions) {
        self.waived = Stamp::START;
        self.asked = Stamp::START;
        self.asked_by_name = Rendering::default();
        self.expected = Expected::default();
        (self.asks, self.taken) = (Asks::Nothing, Taken::default());
        self.start_marks_over(&Sessions::of(seats, subscriptions), subscriptions);
    }

    /// What waits now is not made to wait any longer.
    pub(crate) fn waive(&mut self, clock: Stamp) {
        self.waived = clock;
    }
}
