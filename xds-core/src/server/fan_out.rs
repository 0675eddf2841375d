//! Fan-out of a change to the sessions that subscribe to it.

use alloc::collections::{BTreeMap, BTreeSet};

use super::{
    Server,
    event::{Cause, CloseReason},
    session::subscription::Chain,
    store::{Touch, Touched},
};
use crate::{service::Variant, slab::Slot};

/// Sessions that a transaction concerns and that are reviewed once after all of its changes.
#[derive(Debug, Default)]
struct Heard {
    /// Sessions under make before break, and rejected sessions below.
    late: BTreeSet<Slot>,
    /// Sessions whose clients may have rejected a changed resource.
    rejecting: BTreeSet<Slot>,
}

impl Server {
    /// Makes the touched resources due to their subscribers.
    pub(crate) fn tell(&mut self, touched: Touched) {
        self.hold_back(&touched.arenas);
        let mut heard = Heard::default();
        let mut deleted = BTreeMap::<Slot, usize>::new();
        for (arena, resource, touch) in touched.resources {
            let state = self.subscriptions.store.arena(arena);
            if state.is_some_and(|state| state.payload(resource).is_none()) {
                *deleted.entry(arena).or_default() += 1;
            }
            self.plan_heartbeats(arena, resource, touch);
            self.tell_subscribers(arena, resource, touch, &mut heard);
        }
        for session in heard.rejecting {
            self.forgive(session);
            self.recover(session);
        }
        for session in heard.late {
            self.announce(session);
        }
        for arena in touched.restated {
            self.send_again(arena);
        }
        for arena in touched.arenas {
            if self.config.debounce.is_none() {
                self.tell_wildcards(arena);
            }
            let limit = self.config.limits.deletions_per_type;
            let forgotten = &mut self.stats.forgotten_deletions;
            let newest = deleted.get(&arena).copied().unwrap_or_default();
            for stream in self.subscriptions.forget_deletions(arena, limit, newest, forgotten) {
                self.close(stream, CloseReason::Behind);
            }
            self.subscriptions.sweep_ghosts(arena, limit);
            if newest > 0 {
                self.remember_deletions(arena);
            }
            self.subscriptions.store.release_arena(arena);
            self.tend_heartbeats(arena);
        }
    }

    /// Notifies the subscribers of one resource. Sessions under make before break and sessions with
    /// rejections are noted in `heard`: reviewing them costs what they are due or subscribe to, so
    /// it is done once per transaction.
    fn tell_subscribers(&mut self, arena: Slot, resource: Slot, touch: Touch, heard: &mut Heard) {
        self.join_globs(arena, resource);
        let mut edge = self.subscriptions.first_subscriber(arena, resource);
        while let Some(session) = self.subscriptions.edges.at(edge).map(|edge| edge.session) {
            // The change may remove the subscription.
            let next = self.subscriptions.edges.next(Chain::Resource, edge);
            let mut is_late = false;
            if let Some(mut turn) = self.subscriptions.turn(session) {
                turn.resource_changed(edge, touch);
                is_late = turn.session.is_held_to_answers() || turn.session.is_refused();
                if is_late && turn.session.is_rejected() {
                    heard.rejecting.insert(session);
                }
            }
            self.hold_first_answer(session);
            self.note_progress(session, self.subscriptions.store.sequence());
            if is_late {
                heard.late.insert(session);
            } else {
                self.announce(session);
            }
            edge = next;
        }
    }

    /// Clears a session's rejections of resources that no longer exist.
    pub(crate) fn forgive(&mut self, session: Slot) {
        let state = self.subscriptions.sessions.at(session);
        if !state.is_some_and(|it| it.is_held_to_answers() && it.is_rejected()) {
            return;
        }
        if let Some(mut turn) = self.subscriptions.turn(session) {
            turn.forgive();
        }
    }

    /// Sends a rejected full state again if a silent deletion has changed what remains of it.
    // M107
    fn recover(&mut self, session: Slot) {
        if let Some(mut turn) = self.subscriptions.turn(session) {
            turn.recover_from_silence();
            self.note_progress(session, self.subscriptions.store.sequence());
        }
    }

    /// Sends state-of-the-world clients everything they subscribe to, because the application set a
    /// new version of unchanged resources.
    // M69
    fn send_again(&mut self, arena: Slot) {
        let Some(state) = self.subscriptions.store.arena(arena) else { return };
        let mut sessions: BTreeSet<Slot> = state.wildcards.iter().map(|(_, &it)| it).collect();
        for resource in state.slots() {
            let mut edge = self.subscriptions.first_subscriber(arena, resource);
            while let Some(session) = self.subscriptions.edges.at(edge).map(|edge| edge.session) {
                sessions.insert(session);
                edge = self.subscriptions.edges.next(Chain::Resource, edge);
            }
        }
        for session in sessions {
            let Some(mut turn) = self.subscriptions.turn(session) else { continue };
            if turn.session.variant() == Variant::StateOfTheWorld {
                turn.owe_everything(Cause::Changed);
                self.note_progress(session, self.subscriptions.store.sequence());
                self.announce(session);
            }
        }
    }

    /// Subscribes the sessions with a glob that matches an existing resource to that resource.
    // M138
    fn join_globs(&mut self, arena: Slot, resource: Slot) {
        let Some(state) = self.subscriptions.store.arena(arena) else { return };
        let Some(member) = state.at(resource).filter(|it| it.payload.is_some()) else { return };
        for glob in state.globs_over(member.name.as_str()) {
            let mut edge = self.subscriptions.first_subscriber(arena, glob);
            while let Some(session) = self.subscriptions.edges.at(edge).map(|edge| edge.session) {
                if let Some(mut turn) = self.subscriptions.turn(session) {
                    turn.cover(resource);
                }
                edge = self.subscriptions.edges.next(Chain::Resource, edge);
            }
        }
    }

    pub(crate) fn tell_wildcards(&mut self, arena: Slot) {
        let mut seat = self.subscriptions.store.arena(arena).map(|arena| arena.wildcards.first());
        while let Some((session, next)) = seat.and_then(|seat| {
            let wildcards = &self.subscriptions.store.arena(arena)?.wildcards;
            Some((*wildcards.at(seat)?, wildcards.next(seat)))
        }) {
            self.forgive(session);
            self.note_progress(session, self.subscriptions.store.sequence());
            self.announce(session);
            seat = Some(next);
        }
    }
}
