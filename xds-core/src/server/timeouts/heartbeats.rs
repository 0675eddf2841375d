//! Heartbeats that renew resources with a TTL. Each arena that has such resources and subscribers
//! has an alarm for the next heartbeat.
// M159-M170

use alloc::vec::Vec;

use crate::{
    server::{
        Server, config::AnswerOverdue, event::Observation, queue::timer_queue::Alarm,
        session::subscription::Chain, store::Touch,
    },
    slab::Slot,
};

impl Server {
    /// Restarts the TTL of a changed resource.
    // M164
    pub(crate) fn plan_heartbeats(&mut self, arena: Slot, resource: Slot, touch: Touch) {
        let (now, fraction) = (self.clock.now(), self.config.heartbeat_fraction);
        let Some(arena) = self.subscriptions.store.arena_mut(arena) else { return };
        if matches!(touch, Touch::Error | Touch::Turned) {
            return;
        }
        let ttl = arena.payload(resource).and_then(|payload| payload.ttl());
        let stamp = arena.at(resource).map(|resource| resource.stamp).unwrap_or_default();
        arena.beats.plan(resource, stamp, ttl.map(|ttl| fraction.of(ttl)), now);
    }

    /// Sets the alarm of an arena to the next heartbeat. The arena may no longer exist.
    // M168
    pub(crate) fn tend_heartbeats(&mut self, arena: Slot) {
        // Resources that layers had before a client subscribed to the type of the view above them.
        for (arena, resource, touch) in self.subscriptions.store.take_shown() {
            self.plan_heartbeats(arena, resource, touch);
        }
        let now = self.clock.now();
        let armed = self.heartbeats.get(&arena).copied();
        let beats = self.subscriptions.store.arena_mut(arena).map(|arena| &mut arena.beats);
        let wanted = beats.and_then(|beats| {
            if armed.is_none() {
                beats.skip(now);
            }
            beats.next()
        });
        if wanted == armed {
            return;
        }
        if let Some(at) = armed {
            self.alarms.cancel(at, Alarm::Heartbeat(arena));
            self.heartbeats.remove(&arena);
        }
        if let Some(at) = wanted {
            self.alarms.set(at, Alarm::Heartbeat(arena));
            self.heartbeats.insert(arena, at);
        }
    }

    /// Makes heartbeats due to the subscribers of the resources, by name or wildcard.
    // M161, M169
    pub(crate) fn heartbeat_is_due(&mut self, arena: Slot) {
        self.heartbeats.remove(&arena);
        let now = self.clock.now();
        let Some(state) = self.subscriptions.store.arena_mut(arena) else { return };
        let before = state.beats.clock();
        let struck = state.beats.strike(now);
        let mut sessions = Vec::new();
        for &resource in &struck {
            let mut edge = self.subscriptions.first_subscriber(arena, resource);
            while let Some(session) = self.subscriptions.edges.at(edge).map(|edge| edge.session) {
                if let Some(mut turn) = self.subscriptions.turn(session) {
                    turn.owe_heartbeat(resource, before, now);
                }
                sessions.push(session);
                edge = self.subscriptions.edges.next(Chain::Resource, edge);
            }
        }
        if let Some(state) = self.subscriptions.store.arena(arena).filter(|_| !struck.is_empty()) {
            let wildcards: Vec<Slot> = state.wildcards.iter().map(|(_, &it)| it).collect();
            for &session in &wildcards {
                if let Some(mut turn) = self.subscriptions.turn(session) {
                    turn.owe_heartbeats(before, now);
                }
            }
            sessions.extend(wildcards);
        }
        for session in sessions {
            self.announce(session);
            self.note_silence(session);
        }
        self.tend_heartbeats(arena);
    }

    /// Reports a response that a heartbeat waits for if it has been unanswered for half the TTL of
    /// a resource to be renewed, regardless of the configured time limit for answers.
    // M165
    fn note_silence(&mut self, session: Slot) {
        let now = self.clock.now();
        let Some(mut turn) = self.subscriptions.turn(session) else { return };
        if turn.arena.config.answer_overdue == AnswerOverdue::Wait {
            return;
        }
        let Some((nonce, after)) = turn.silence_in_the_way(now) else { return };
        let (stream, type_url) = (turn.session.stream, turn.arena.type_url.clone());
        self.out.observe(Observation::AnswerOverdue { stream, type_url, nonce, after });
    }
}
