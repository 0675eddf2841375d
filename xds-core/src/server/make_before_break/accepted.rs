//! How far each type has got: what was sent, what the client has accepted, and what it has rejected.

use super::{
    Gate, Sessions, View,
    rejected::Refused,
    warming::{Asks, Taken},
};
use crate::{
    server::{
        config::Warming,
        session::{Session, seat::Seat, subscriptions::Subscriptions},
        store::{
            arena::{Arena, Resource, past_contents::Shot},
            revision::Stamp,
        },
    },
    service::Variant,
    text::ResourceName,
    types::rank,
};

/// How far one type has got.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) sent: Mark,
    pub(crate) accepted: Mark,
    pub(crate) refused: Refused,
}

/// What the client has of a type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// It has all that it asks for up to here.
    pub(crate) set: Stamp,
    /// The same, and knows what is gone.
    pub(crate) deleted: Stamp,
    /// It has what the response of this nonce completed.
    pub(crate) nonce: u64,
    /// It warms clusters of the response of this nonce, with endpoints that come later.
    pub(crate) warms: u64,
    /// These are clusters that were set after this.
    pub(crate) warms_from: Stamp,
}

/// Which clusters a client has that is told them all each time.
#[derive(Debug, Default)]
pub(crate) struct Shots {
    /// With the newest response.
    sent: Shot,
    accepted: Shot,
}

impl Shots {
    fn accept(&mut self) {
        self.accepted.clone_from(&self.sent);
    }

    fn reject(&mut self) {
        self.sent.clone_from(&self.accepted);
    }
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

impl Gate {
    /// The rest of a response that was split may go without being sent: it is gone, or the client asks for it
    /// no more.
    pub(crate) fn note_settled(&mut self, sessions: &Sessions<'_>, clock: Stamp) {
        for (rank, (marks, view)) in self.marks.iter_mut().zip(&sessions.0).enumerate() {
            let Some(view) = view.filter(View::is_settled) else { continue };
            let Some(nonce) = view.session.newest_content() else { continue };
            // It may have been forgiven for what it rejected, but does not have it.
            if marks.accepted.nonce < nonce && !view.session.is_refused() {
                // What is gone may have gone since without a word.
                (marks.sent.set, marks.sent.nonce) = (clock, nonce);
                marks.accepted = marks.sent;
                if rank == rank::CLUSTERS {
                    self.shots.accept();
                }
            }
        }
    }

    /// Whether the client has rejected for good what was set up to a position.
    pub(crate) fn has_refused(&self, rank: usize, view: View<'_>, to: Stamp) -> bool {
        let has_any = |marks: &Marks| marks.refused.has_any(view.arena, to);
        view.session.has_wildcard() && self.marks.get(rank).is_some_and(has_any)
    }

    /// The client sees another view. Of the clusters that it was sent, and that are just like that there, it may
    /// have to ask for the endpoints yet, and to warm them.
    pub(crate) fn start_marks_over(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) {
        let warm = self.accepted(rank::ENDPOINTS).nonce;
        let before = core::mem::take(&mut self.marks);
        self.shots = Shots::default();
        let warms = |mark: Mark| Some(mark.warms).filter(|&warms| warms > warm).unwrap_or_default();
        if let (Some(clusters), Some(before)) =
            (self.marks.get_mut(rank::CLUSTERS), before.get(rank::CLUSTERS))
        {
            clusters.sent.warms = warms(before.sent);
            clusters.accepted.warms = warms(before.accepted);
        }
        let clusters = sessions.get(rank::CLUSTERS).filter(|it| it.session.has_wildcard());
        let Some(clusters) = clusters else { return };
        for slot in clusters.arena.slots_after(Stamp::START) {
            if !clusters.session.was_sent(clusters.slot, slot, clusters.arena, &subscriptions.edges)
            {
                continue;
            }
            let Some(cluster) = clusters.arena.at(slot) else { continue };
            let names = cluster.needs.names(&cluster.name);
            names.iter().for_each(|name| self.expected.add(name));
            let payload = cluster.payload.as_ref().filter(|_| !names.is_empty());
            self.shots.sent.had.extend(payload.map(|it| (cluster.name.clone(), it.hash)));
        }
        if !clusters.session.is_waiting() {
            self.shots.accept();
        }
    }

    pub(crate) fn accepted(&self, rank: usize) -> Mark {
        self.marks.get(rank).map_or_else(Mark::default, |marks| marks.accepted)
    }

    /// A response was rendered.
    pub(crate) fn note_sent(
        &mut self,
        seat: Seat,
        seats: &[Seat],
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
            // Who is told all clusters each time takes as new what is other than what it has; and what it has it
            // may not have warmed, since the endpoints were gone then.
            let endpoints = Sessions::of(seats, subscriptions).get(rank::ENDPOINTS);
            let lacks = |name: &ResourceName| {
                endpoints.is_some_and(|it| it.lacks(name, warm, &subscriptions.edges))
            };
            let is_new = |cluster: &&Resource| match view.session.variant() {
                Variant::Incremental => true,
                Variant::StateOfTheWorld => {
                    !view.arena.had_as_it_is(&self.shots.accepted, cluster)
                        || cluster.needs.names(&cluster.name).iter().any(lacks)
                }
            };
            let new = view.arena.set_after(from).take_while(|cluster| cluster.stamp <= to);
            let mut newest = None;
            for cluster in new.filter(is_new) {
                for name in cluster.needs.names(&cluster.name) {
                    newest = Some(cluster.stamp);
                    self.expected.add(name);
                }
            }
            self.asks = Asks::Nothing;
            if let Some(newest) = newest
                && warming == Warming::AfterClusters
            {
                let is_warming = marks.sent.warms > warm;
                let from = if is_warming { marks.sent.warms_from.min(from) } else { from };
                let in_full = view.session.variant() == Variant::StateOfTheWorld;
                let was_taken = in_full && newest <= self.taken.at;
                if in_full && !was_taken {
                    let these = Asks::For(Taken { at: clock, nonce });
                    self.asks = if is_warming { Asks::Again } else { these };
                }
                let warms = if was_taken { self.taken.nonce } else { nonce };
                (marks.sent.warms, marks.sent.warms_from) = (marks.sent.warms.max(warms), from);
            }
            self.shots.sent = match view.session.is_rejected() {
                // It is a part of them, in search of what the client rejected.
                true => Shot::EMPTY,
                false => Shot {
                    at: clock,
                    lingering: view.session.withheld(view.arena, &subscriptions.edges).collect(),
                    ..Shot::EMPTY
                },
            };
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
        let is_clusters = usize::from(seat.rank) == rank::CLUSTERS;
        // What it says it has it does not take as new when it is sent that among others.
        if is_clusters && let Some(at) = session.came_with() {
            self.shots.sent = Shot { at, ..Shot::EMPTY };
        }
        if session.is_asked_for_more(&subscriptions.edges) {
            for mark in [&mut marks.sent, &mut marks.accepted] {
                (mark.set, mark.deleted) = (Stamp::START, Stamp::START);
            }
            if is_clusters {
                self.shots = Shots::default();
            }
        } else if session.is_rejected() || session.is_refused() {
            // It may be forgiven for that already, but has accepted nothing.
            marks.sent = marks.accepted;
            if is_clusters {
                self.shots.reject();
            }
        } else if !session.is_waiting() {
            marks.accepted = marks.sent;
            if is_clusters {
                self.shots.accept();
            }
        }
    }
}
