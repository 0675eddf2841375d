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

use alloc::collections::BTreeSet;

use super::{
    config::{AckGated, Warming},
    event::{HeldBack, HeldBy},
    refused::Refused,
    session::{Session, linger::Portion},
    store::{
        arena::{Arena, Resource},
        history::Stamp,
    },
    stream::Seat,
    subscriptions::Subscriptions,
};
use crate::{service::Variant, slab::Slot, text::ResourceName, time::Time, types::rank};

/// How many types wait or are waited for: those with a rank of their own.
const STAGES: usize = 9;

/// What a type waits for.
struct Waits {
    /// Before it is sent.
    to_be_sent: &'static [usize],
    /// Before it is told what of it is gone.
    to_be_told: &'static [usize],
}

impl Waits {
    /// [`AckGated`] shows it as a table. Nothing in it goes round in a circle.
    const fn of(seat: usize) -> Self {
        use rank::{
            CLUSTERS, ENDPOINTS, EXTENSIONS, LISTENERS, ROUTES, SCOPED_ROUTES, SECRETS,
            VIRTUAL_HOSTS,
        };

        const REFER_TO_CLUSTERS: &[usize] =
            &[LISTENERS, ROUTES, SCOPED_ROUTES, VIRTUAL_HOSTS, EXTENSIONS];
        const UP_TO_SCOPES: &[usize] =
            &[CLUSTERS, ENDPOINTS, SECRETS, LISTENERS, ROUTES, SCOPED_ROUTES];
        let (to_be_sent, to_be_told): (&[usize], &[usize]) = match seat {
            CLUSTERS => (&[], REFER_TO_CLUSTERS),
            ENDPOINTS => (&[], &[CLUSTERS]),
            SECRETS => (&[], &[CLUSTERS, LISTENERS, EXTENSIONS]),
            LISTENERS => (UP_TO_SCOPES.split_at(3).0, &[]),
            EXTENSIONS => (UP_TO_SCOPES.split_at(3).0, &[LISTENERS]),
            ROUTES => (UP_TO_SCOPES.split_at(4).0, &[LISTENERS, SCOPED_ROUTES]),
            SCOPED_ROUTES => (UP_TO_SCOPES.split_at(5).0, &[LISTENERS]),
            VIRTUAL_HOSTS => (UP_TO_SCOPES, &[ROUTES]),
            _ => (&[], &[]),
        };
        Self { to_be_sent, to_be_told }
    }
}

/// What may refer to resources of a type: those that are gone are told after it.
pub(crate) const fn may_refer_to(rank: u8) -> &'static [usize] {
    Waits::of(rank as usize).to_be_told
}

/// What is known of a stream besides what its sessions know.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    marks: [Marks; STAGES],
    /// The client has asked for the endpoints of clusters that changed up to here.
    asked: Stamp,
    /// Endpoints that it may yet have to ask for, of clusters that it was sent.
    expected: BTreeSet<ResourceName>,
    /// The same of those that it subscribes to by name, up to the response of this nonce.
    asked_by_name: u64,
    /// When those clusters were deleted that the last full state had all the same.
    lingering: BTreeSet<Stamp>,
    /// If it never has asked for any.
    for_endpoints: Patience,
    /// If it has them, and warms new clusters with them.
    for_warming: Patience,
    /// Changes up to here wait for nothing any more.
    waived: Stamp,
    /// What is held back, and since when.
    pub(crate) held: Option<(Hold, Time)>,
}

/// How far one type has got.
#[derive(Debug, Default)]
struct Marks {
    sent: Mark,
    accepted: Mark,
    refused: Refused,
}

/// What the client has of a type.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// It has all that it asks for up to here.
    set: Stamp,
    /// The same, and knows what is gone.
    deleted: Stamp,
    /// It has what the response of this nonce completed.
    nonce: u64,
    /// It warms clusters of the response of this nonce, with endpoints that come later.
    warms: u64,
    /// These are clusters that were set after this.
    warms_from: Stamp,
}

impl Mark {
    /// Takes note that the newest response was the last part of what there was to send, if it was.
    fn complete(&mut self, session: &Session, arena: &Arena, clock: Stamp) {
        // Of what was rejected before, and was not sent again, it does not have all either.
        if session.has_additions(arena) || session.is_rejected() {
            return;
        }
        let Some(nonce) = session.newest_content() else { return };
        (self.set, self.nonce) = (clock, nonce);
        if !session.has_removals(arena) {
            self.deleted = clock;
        }
    }
}

/// Whether it is worth waiting for the client to ask for endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Patience {
    #[default]
    Waits,
    /// It did not when it should have.
    Lost,
}

/// What the gate says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlook {
    pub(crate) next: Option<Next>,
    /// The first thing that is held back.
    pub(crate) hold: Option<Hold>,
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
struct Sessions<'a>([Option<View<'a>>; STAGES]);

#[derive(Clone, Copy)]
struct View<'a> {
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

    fn has_resource(&self, name: &ResourceName) -> bool {
        let slot = self.arena.find(name.as_str());
        slot.is_some_and(|slot| self.arena.payload(slot).is_some())
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
                true => self.hold_removals(seat, view, &sessions, subscriptions),
                false => None,
            };
            let renews = view.session.owes_heartbeats_alone(view.arena);
            let portion = match (&additions, &removals) {
                (None, None) => Some(Portion::Everything),
                (None, Some(_)) if has_additions || renews => Some(Portion::Additions),
                (Some(_), _) if renews => Some(Portion::Heartbeats),
                _ => None,
            };
            let next = portion.filter(|_| is_due).map(|portion| Next { seat, portion });
            outlook.next = outlook.next.or(next);
            outlook.hold = outlook.hold.or(additions).or(removals);
        }
        outlook
    }

    /// The rest of a response that was split may go without being sent: it is gone, or the client asks for it
    /// no more.
    fn note_settled(&mut self, sessions: &Sessions<'_>, clock: Stamp) {
        for (marks, view) in self.marks.iter_mut().zip(&sessions.0) {
            let Some(view) = view.filter(View::is_settled) else { continue };
            let Some(nonce) = view.session.newest_content() else { continue };
            // It may have been forgiven for what it rejected, but does not have it.
            if marks.accepted.nonce < nonce && !view.session.is_refused() {
                // What is gone may have gone since without a word.
                (marks.sent.set, marks.sent.nonce) = (clock, nonce);
                marks.accepted = marks.sent;
            }
        }
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
                return hold(rank, HeldBy::Rejected);
            }
            if !other.is_settled() && self.accepted(rank).set < changed {
                return hold(rank, other.why_not());
            }
        }
        policy.references.as_ref()?;
        let why = match self.unasked(sessions, subscriptions) {
            Some(name) => HeldBy::NotAsked(name),
            None => self.unwarmed(sessions, subscriptions)?,
        };
        hold(rank::ENDPOINTS, why)
    }

    /// Why clusters are not warm that the client was sent.
    fn unwarmed(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<HeldBy> {
        let endpoints = sessions.get(rank::ENDPOINTS)?;
        let Mark { warms, warms_from, .. } = self.accepted(rank::CLUSTERS);
        let is_warm = self.accepted(rank::ENDPOINTS).nonce >= warms;
        let clusters = sessions.get(rank::CLUSTERS)?;
        if self.for_warming == Patience::Lost {
            return None;
        }
        if is_warm && !clusters.is_settled() {
            // Endpoints that went before they could be sent warmed nothing; other clusters are coming.
            let exists = |name: &ResourceName| endpoints.has_resource(name);
            if !self.expected.iter().all(exists) {
                return Some(clusters.why_not());
            }
            // Nor did those that came after they were asked for, until they are sent.
            let accepted = self.accepted(rank::ENDPOINTS).nonce;
            let is_lacking = |name: &ResourceName| {
                let edge =
                    subscriptions.edges.find(endpoints.slot, endpoints.arena.find(name.as_str())?);
                let edge = subscriptions.edges.at(edge?)?;
                (edge.sent == 0 || edge.sent > accepted).then_some(())
            };
            if self.expected.iter().find_map(is_lacking).is_some() {
                return Some(endpoints.why_not());
            }
            self.expected.clear();
        }
        if is_warm || clusters.is_settled() && !has_to_warm(clusters, endpoints, warms_from) {
            return None;
        }
        match endpoints.is_settled() {
            true => Some(HeldBy::NotAskedAgain),
            false => Some(endpoints.why_not()),
        }
    }

    fn hold_removals(
        &self,
        seat: Seat,
        view: View<'_>,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
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
        let &waits_for = waits.iter().find(unfinished)?;
        let other = sessions.get(waits_for)?;
        let why = match other.is_settled() && self.has_refused(waits_for, other, Stamp::MAX) {
            true => HeldBy::Rejected,
            false => other.why_not(),
        };
        Some(Hold { rank: seat.rank, what: HeldBack::Deletions, waits_for, why })
    }

    /// Endpoints that a cluster of the client names and that it has not asked for.
    fn unasked(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> Option<ResourceName> {
        let clusters = sessions.get(rank::CLUSTERS)?;
        let endpoints = sessions.get(rank::ENDPOINTS);
        match (endpoints, self.for_endpoints) {
            (None, Patience::Lost) => return None,
            (None, Patience::Waits) => {}
            (Some(_), _) => self.for_endpoints = Patience::Waits,
        }
        let is_covered = |endpoints: View<'_>, name: &ResourceName| {
            let mut globs = endpoints.arena.globs_over(name.as_str()).into_iter();
            globs.any(|glob| subscriptions.edges.find(endpoints.slot, glob).is_some())
        };
        let is_asked = |name: &ResourceName| {
            endpoints.is_some_and(|it| {
                let resource = || it.arena.find(name.as_str());
                let edge = || subscriptions.edges.find(it.slot, resource()?);
                it.session.has_wildcard() || edge().is_some() || is_covered(it, name)
            })
        };
        if !clusters.session.has_wildcard() {
            return self.unasked_by_name(clusters, subscriptions, is_asked);
        }
        if !clusters.is_settled() {
            // It is about to get other clusters, but has these.
            return self.expected.iter().find(|name| !is_asked(name)).cloned();
        }
        for cluster in clusters.arena.set_after(self.asked) {
            match cluster.needs.names(&cluster.name).iter().find(|name| !is_asked(name)) {
                None => self.asked = cluster.stamp,
                Some(name) => return Some(name.clone()),
            }
        }
        self.expected.clear();
        None
    }

    fn unasked_by_name(
        &mut self,
        clusters: View<'_>,
        subscriptions: &Subscriptions,
        is_asked: impl Fn(&ResourceName) -> bool,
    ) -> Option<ResourceName> {
        let newest = clusters.session.newest_nonce();
        if newest <= self.asked_by_name {
            return None;
        }
        let known = clusters.session.sent_by_name(&subscriptions.edges);
        let known = known.filter_map(|slot| clusters.arena.at(slot));
        let existing = known.filter(|cluster| cluster.payload.is_some());
        let unasked = existing
            .flat_map(|cluster| cluster.needs.names(&cluster.name))
            .find(|name| !is_asked(name));
        if unasked.is_none() {
            self.asked_by_name = newest;
        }
        unasked.cloned()
    }

    /// Whether the client has rejected for good what was set up to a position.
    fn has_refused(&self, rank: usize, view: View<'_>, to: Stamp) -> bool {
        let has_any = |marks: &Marks| marks.refused.has_any(view.arena, to);
        view.session.has_wildcard() && self.marks.get(rank).is_some_and(has_any)
    }

    fn accepted(&self, rank: usize) -> Mark {
        self.marks.get(rank).map_or_else(Mark::default, |marks| marks.accepted)
    }

    /// A response was rendered.
    pub(crate) fn note_sent(
        &mut self,
        seat: Seat,
        subscriptions: &Subscriptions,
        warming: Warming,
    ) {
        let (rank, clock) = (usize::from(seat.rank), subscriptions.store.clock());
        let Some(view) = View::of(seat.session, subscriptions) else { return };
        let warm = self.accepted(rank::ENDPOINTS).nonce;
        let Some(marks) = self.marks.get_mut(rank) else { return };
        let nonce = view.session.newest_nonce();
        if rank == rank::CLUSTERS && view.session.has_wildcard() {
            // What was rejected is in full state again.
            let (from, to) = match view.session.variant() {
                Variant::Incremental => view.session.just_sent(),
                Variant::StateOfTheWorld => (marks.accepted.set, Stamp::MAX),
            };
            // It had these all the time, and has nothing to warm: nothing was sent while they were gone, or a
            // full state that still had them.
            let (set, variant) = (marks.sent.set, view.session.variant());
            let is_new = |cluster: &&Resource| {
                let before = view.arena.came_back_as_it_was(cluster);
                let before = before.filter(|_| variant == Variant::StateOfTheWorld);
                !before.is_some_and(|(was_set, buried)| {
                    was_set <= set && (set < buried || self.lingering.contains(&buried))
                })
            };
            let new = view.arena.set_after(from).take_while(|cluster| cluster.stamp <= to);
            let new = new.filter(is_new);
            let mut warms = false;
            for cluster in new {
                for name in cluster.needs.names(&cluster.name) {
                    warms = true;
                    self.expected.insert(name.clone());
                }
            }
            self.lingering = view.session.withheld(view.arena, &subscriptions.edges).collect();
            if warms && warming == Warming::AfterClusters {
                let is_warming = marks.sent.warms > warm;
                let from = if is_warming { marks.sent.warms_from.min(from) } else { from };
                (marks.sent.warms, marks.sent.warms_from) = (nonce, from);
            }
        }
        marks.sent.complete(view.session, view.arena, clock);
    }

    /// A request was taken, which may have answered a response.
    pub(crate) fn note_request(&mut self, seat: Seat, subscriptions: &Subscriptions) {
        let Some(marks) = self.marks.get_mut(usize::from(seat.rank)) else { return };
        let Some(View { session, arena, .. }) = View::of(seat.session, subscriptions) else {
            return;
        };
        if session.variant() == Variant::Incremental && session.has_wildcard() {
            let part = session.just_sent();
            match (session.is_refused(), session.is_waiting()) {
                (true, _) => marks.refused.add(arena, part, session.newest_nonce()),
                (false, false) => marks.refused.remove(arena, part),
                (false, true) => {}
            }
        }
        if session.is_asked_for_more(&subscriptions.edges) {
            for mark in [&mut marks.sent, &mut marks.accepted] {
                (mark.set, mark.deleted) = (Stamp::START, Stamp::START);
            }
        } else if session.is_rejected() {
            marks.sent = marks.accepted;
        } else if !session.is_waiting() {
            marks.accepted = marks.sent;
        }
    }

    /// The client sees another view: nothing that it has accepted counts.
    pub(crate) fn start_over(&mut self) {
        self.marks = Default::default();
        self.asked = Stamp::START;
        self.asked_by_name = 0;
        self.expected.clear();
        self.lingering.clear();
    }

    /// What waits now is not made to wait any longer.
    pub(crate) fn waive(&mut self, clock: Stamp) {
        self.waived = clock;
    }

    /// The client is not expected any more to ask for the endpoints of the clusters it has.
    pub(crate) fn stop_expecting(
        &mut self,
        why: &HeldBy,
        seats: &[Seat],
        subscriptions: &Subscriptions,
    ) {
        if *why == HeldBy::NotAskedAgain {
            self.for_warming = Patience::Lost;
            return;
        }
        let sessions = Sessions::of(seats, subscriptions);
        self.asked = subscriptions.store.clock();
        self.expected.clear();
        let clusters = sessions.get(rank::CLUSTERS);
        self.asked_by_name = clusters.map_or(0, |it| it.session.newest_nonce());
        if sessions.get(rank::ENDPOINTS).is_none() {
            self.for_endpoints = Patience::Lost;
        }
    }
}

/// Whether there is a cluster that was set after a position and is warmed with endpoints that exist.
fn has_to_warm(clusters: View<'_>, endpoints: View<'_>, from: Stamp) -> bool {
    let exists = |name: &ResourceName| endpoints.has_resource(name);
    let mut new = clusters.arena.set_after(from);
    new.any(|cluster| cluster.needs.names(&cluster.name).iter().any(exists))
}
