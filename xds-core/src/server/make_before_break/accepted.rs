//! Progress of each type of a stream: what was sent, ACKed and rejected.

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

/// Progress of one type.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) sent: Mark,
    pub(crate) accepted: Mark,
    pub(crate) refused: Refused,
}

/// State of the client for one type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// Revision up to which it has all requested resources.
    pub(crate) set: Stamp,
    /// Revision up to which it has all requested resources and all deletions.
    pub(crate) deleted: Stamp,
    /// Nonce of the response that completed this state.
    pub(crate) nonce: u64,
    /// Nonce of the response whose clusters it warms with endpoints that arrive later.
    pub(crate) warms: u64,
    /// Revision after which these clusters were set.
    pub(crate) warms_from: Stamp,
}

/// Clusters of a client that is sent all clusters in each response.
#[derive(Debug, Default)]
pub(crate) struct Shots {
    /// Clusters of the newest response.
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
    /// Records the newest response if it completed everything that was to be sent.
    fn complete(&mut self, session: &Session, arena: &Arena, clock: Stamp) {
        // A client with a pending rejection does not have everything either.
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
    /// Records sessions that became complete without another response, because the rest of a split
    /// response was deleted or unsubscribed.
    pub(crate) fn note_settled(&mut self, sessions: &Sessions<'_>, clock: Stamp) {
        for (rank, (marks, view)) in self.marks.iter_mut().zip(&sessions.0).enumerate() {
            let Some(view) = view.filter(View::is_settled) else { continue };
            let Some(nonce) = view.session.newest_content() else { continue };
            // The rejection may be cleared, but the client does not have these resources.
            if marks.accepted.nonce < nonce && !view.session.is_refused() {
                // Resources may have been deleted silently since.
                (marks.sent.set, marks.sent.nonce) = (clock, nonce);
                marks.accepted = marks.sent;
                if rank == rank::CLUSTERS {
                    self.shots.accept();
                }
            }
        }
    }

    /// Whether the client has permanently rejected a resource that was set up to a revision.
    pub(crate) fn has_refused(&self, rank: usize, view: View<'_>, to: Stamp) -> bool {
        let has_any = |marks: &Marks| marks.refused.has_any(view.arena, to);
        view.session.has_wildcard() && self.marks.get(rank).is_some_and(has_any)
    }

    /// Resets the progress after the client was moved to another view. It may still have to request
    /// and warm the endpoints of clusters that it was sent with the same content.
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

    /// Records a rendered response.
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
            // A full state contains rejected resources again.
            let (from, to) = match view.session.variant() {
                Variant::Incremental => view.session.just_sent(),
                Variant::StateOfTheWorld => (marks.accepted.set, Stamp::MAX),
            };
            // A client that is sent all clusters treats changed ones as new. It may not have warmed
            // an unchanged cluster whose endpoints did not exist before.
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
                // The response is a part of the clusters, to find the rejected one.
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

    /// Records a request, which may have answered a response.
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
        // A client does not treat clusters whose versions it stated as new.
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
            // The rejection may be cleared already, but nothing was accepted.
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
