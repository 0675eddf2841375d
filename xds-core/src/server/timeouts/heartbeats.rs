//! Heartbeats that renew resources with a TTL. Each arena that has such resources and subscribers
//! has an alarm for the next heartbeat.
// M159-M170

use alloc::vec::Vec;

use crate::{
    server::{
        Server, config::AnswerOverdue, event::Observation, queue::timer_queue::Alarm,
        store::ChangeKind,
    },
    slab::Slot,
};

impl Server {
    /// Restarts the TTL of a changed resource.
    // M164
    pub(crate) fn schedule_heartbeat(
        &mut self,
        arena: Slot,
        resource: Slot,
        change_kind: ChangeKind,
    ) {
        let (now, fraction) = (self.clock.now(), self.config.heartbeat_fraction);
        let Some(arena) = self.subscriptions.store.arena_mut(arena) else { return };
        if matches!(change_kind, ChangeKind::Error | ChangeKind::AliasChanged) {
            return;
        }
        let ttl = arena.payload(resource).and_then(|payload| payload.ttl());
        let revision = arena.at(resource).map(|resource| resource.revision).unwrap_or_default();
        arena.heartbeats.plan(resource, revision, ttl.map(|ttl| fraction.of(ttl)), now);
    }

    /// Sets the alarm of an arena to the next heartbeat. The arena may no longer exist.
    // M168
    pub(crate) fn update_heartbeat_alarm(&mut self, arena: Slot) {
        // Resources that layers had before a client subscribed to the type of the view above them.
        let opened = core::mem::take(&mut self.subscriptions.store.opened_over_layers);
        for (arena, resource, change_kind) in opened {
            self.schedule_heartbeat(arena, resource, change_kind);
        }
        let now = self.clock.now();
        let alarm = Alarm::Heartbeat(arena);
        let next = self.subscriptions.store.arena_mut(arena).and_then(|arena| {
            if !self.alarms.is_set(alarm) {
                arena.heartbeats.skip(now);
            }
            arena.heartbeats.next()
        });
        self.alarms.set(alarm, next);
    }

    /// Makes heartbeats due to the subscribers of the resources, by name or wildcard.
    // M161, M169
    pub(crate) fn heartbeat_is_due(&mut self, arena: Slot) {
        let now = self.clock.now();
        let Some(state) = self.subscriptions.store.arena_mut(arena) else { return };
        let before = state.heartbeats.clock();
        let due = state.heartbeats.take_due_heartbeats(now);
        let mut renewed = Vec::new();
        for &resource in &due {
            let subscribers = self.subscriptions.subscribers(arena, resource);
            renewed.extend(subscribers.map(|session| (session, Some(resource))));
        }
        if let Some(state) = self.subscriptions.store.arena(arena).filter(|_| !due.is_empty()) {
            renewed.extend(state.wildcards.iter().map(|(_, &session)| (session, None)));
        }
        for &(session, resource) in &renewed {
            let Some(mut context) = self.subscriptions.context(session) else { continue };
            match resource {
                Some(resource) => context.make_heartbeat_due(resource, before, now),
                None => context.make_heartbeats_due(before, now),
            }
        }
        for (session, _) in renewed {
            self.notify_if_due(session);
            self.report_overdue_answer(session);
        }
        self.update_heartbeat_alarm(arena);
    }

    /// Reports a response that a heartbeat waits for if it has been unanswered for half the TTL of
    /// a resource to be renewed, regardless of the configured time limit for answers.
    // M165
    fn report_overdue_answer(&mut self, session: Slot) {
        let now = self.clock.now();
        let Some(mut context) = self.subscriptions.context(session) else { return };
        if context.arena.config.answer_overdue == AnswerOverdue::Wait {
            return;
        }
        let Some((nonce, after)) = context.response_delaying_heartbeat(now) else { return };
        let (stream, type_url) = (context.session.stream, context.arena.type_url.clone());
        self.out.observe(Observation::AnswerOverdue { stream, type_url, nonce, after });
    }
}
