//! From what changed in the store to whoever has to hear of it.

use alloc::collections::{BTreeMap, BTreeSet};

use super::{
    Server,
    event::{Cause, CloseReason},
    session::subscription::Chain,
    store::{Touch, Touched},
};
use crate::{service::Variant, slab::Slot};

/// Sessions that a transaction concerns, and that are looked at once all of it is known.
#[derive(Debug, Default)]
struct Heard {
    /// Those on streams whose types wait for each other, and those below.
    late: BTreeSet<Slot>,
    /// Those whose clients may have rejected what it changed.
    rejecting: BTreeSet<Slot>,
}

impl Server {
    /// Makes what was touched due to its subscribers.
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

    /// Notes in `heard` whose types wait for each other, and who has rejected something: to look what that comes to
    /// costs what they are due, or name, so that it is done once for a transaction.
    fn tell_subscribers(&mut self, arena: Slot, resource: Slot, touch: Touch, heard: &mut Heard) {
        self.join_globs(arena, resource);
        let mut edge = self.subscriptions.first_subscriber(arena, resource);
        while let Some(session) = self.subscriptions.edges.at(edge).map(|edge| edge.session) {
            // Hearing of it may end the edge.
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

    /// What a session has rejected may be there no longer.
    pub(crate) fn forgive(&mut self, session: Slot) {
        let state = self.subscriptions.sessions.at(session);
        if !state.is_some_and(|it| it.is_held_to_answers() && it.is_rejected()) {
            return;
        }
        if let Some(mut turn) = self.subscriptions.turn(session) {
            turn.forgive();
        }
    }

    /// Of the state that a client rejected, something may have gone without a word: what is left of it is another
    /// one (M107).
    fn recover(&mut self, session: Slot) {
        if let Some(mut turn) = self.subscriptions.turn(session) {
            turn.recover_from_silence();
            self.note_progress(session, self.subscriptions.store.sequence());
        }
    }

    /// The application calls the same resources by another version: all state-of-the-world clients are sent
    /// what they subscribe to (M69).
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

    /// Who subscribes to a glob over a resource that there is subscribes to the resource (M138).
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
