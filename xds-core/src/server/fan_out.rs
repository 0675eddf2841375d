//! Application of a transaction, and fan-out of its changes to the sessions that subscribe to them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::{
    Applied, Server, Transaction, TransactionError,
    event::{CloseReason, ResponseCause},
    store::{ChangeKind, ChangeSet},
};
use crate::{service::Variant, slab::Slot, time::Time};

/// Sessions that a transaction concerns and that are reviewed once after all of its changes.
#[derive(Debug, Default)]
struct DeferredSessions {
    /// Sessions under make before break, and rejected sessions below.
    late: BTreeSet<Slot>,
    /// Sessions whose clients may have rejected a changed resource.
    rejecting: BTreeSet<Slot>,
}

impl Server {
    /// Applies a transaction atomically. Responses to subscribers of the changed resources become due.
    ///
    /// Setting a resource to the bytes that it already has is not a change.
    ///
    /// # Errors
    ///
    /// Returns an error, and applies nothing, if a change has no name or type, has a name or type
    /// that no client can request, or exceeds a limit.
    // M104
    pub fn apply(
        &mut self,
        transaction: Transaction,
        now: Time,
    ) -> Result<Applied, TransactionError> {
        self.clock.advance(now);
        let (applied, change_set) = self.subscriptions.store.apply(&transaction, &self.config)?;
        self.fan_out(change_set);
        self.watch_views();
        Ok(applied)
    }

    /// Makes the touched resources due to their subscribers.
    pub(crate) fn fan_out(&mut self, change_set: ChangeSet) {
        self.hold_back(&change_set.arenas);
        let mut deferred = DeferredSessions::default();
        let mut deleted = BTreeMap::<Slot, usize>::new();
        for (arena, resource, change_kind) in change_set.resources {
            let state = self.subscriptions.store.arena(arena);
            if state.is_some_and(|state| state.payload(resource).is_none()) {
                *deleted.entry(arena).or_default() += 1;
            }
            self.schedule_heartbeat(arena, resource, change_kind);
            self.notify_subscribers(arena, resource, change_kind, &mut deferred);
        }
        for session in deferred.rejecting {
            self.clear_rejections(session);
            self.resend_full_state(session);
        }
        for session in deferred.late {
            self.notify_if_due(session);
        }
        for arena in change_set.version_only {
            self.resend_all(arena);
        }
        for arena in change_set.arenas {
            if self.config.debounce.is_none() {
                self.notify_wildcards(arena);
            }
            let limit = self.config.limits.deletions_per_type;
            let forgotten = &mut self.stats.discarded_deletions;
            let newest = deleted.get(&arena).copied().unwrap_or_default();
            for stream in self.subscriptions.drop_tombstones(arena, limit, newest, forgotten) {
                self.close(stream, CloseReason::Behind);
            }
            if let Some(state) = self.subscriptions.store.arena_mut(arena) {
                state.settle_past(limit);
            }
            if newest > 0 {
                self.retain_deletions(arena);
            }
            self.subscriptions.store.release_arena(arena);
            self.update_heartbeat_alarm(arena);
        }
    }

    /// Notifies the subscribers of one resource. Sessions under make before break and sessions with
    /// rejections are noted in `deferred`: reviewing them costs what they are due or subscribe to, so
    /// it is done once per transaction.
    fn notify_subscribers(
        &mut self,
        arena: Slot,
        resource: Slot,
        change_kind: ChangeKind,
        deferred: &mut DeferredSessions,
    ) {
        self.join_globs(arena, resource);
        let mut subscription = self.subscriptions.first_subscriber(arena, resource);
        // The change may remove the subscription.
        while let Some((session, next)) = self.subscriptions.subscriber(subscription) {
            let mut is_late = false;
            if let Some(mut context) = self.subscriptions.context(session) {
                context.resource_changed(subscription, change_kind);
                is_late = context.session.gates_other_types() || context.session.is_nacked();
                if is_late && context.session.is_rejected() {
                    deferred.rejecting.insert(session);
                }
            }
            self.hold_first_response(session);
            self.note_progress(session, self.subscriptions.store.sequence());
            if is_late {
                deferred.late.insert(session);
            } else {
                self.notify_if_due(session);
            }
            subscription = next;
        }
    }

    /// Clears a session's rejections of resources that no longer exist.
    pub(crate) fn clear_rejections(&mut self, session: Slot) {
        let state = self.subscriptions.sessions.at(session);
        if !state.is_some_and(|it| it.gates_other_types() && it.is_rejected()) {
            return;
        }
        if let Some(mut context) = self.subscriptions.context(session) {
            context.clear_settled_rejections();
        }
    }

    /// Sends a rejected full state again if a silent deletion has changed what remains of it.
    // M107
    fn resend_full_state(&mut self, session: Slot) {
        if let Some(mut context) = self.subscriptions.context(session) {
            context.recover_after_silent_removal();
            self.note_progress(session, self.subscriptions.store.sequence());
        }
    }

    /// Sends state-of-the-world clients everything they subscribe to, because the application set a
    /// new version of unchanged resources.
    // M69
    fn resend_all(&mut self, arena: Slot) {
        let Some(state) = self.subscriptions.store.arena(arena) else { return };
        let mut sessions: BTreeSet<Slot> = state.wildcards.iter().map(|(_, &it)| it).collect();
        let subscribers = |resource| self.subscriptions.subscribers(arena, resource);
        sessions.extend(state.slots().flat_map(subscribers));
        for session in sessions {
            let Some(mut context) = self.subscriptions.context(session) else { continue };
            if context.session.variant() == Variant::StateOfTheWorld {
                context.make_everything_due(ResponseCause::Changed);
                self.note_progress(session, self.subscriptions.store.sequence());
                self.notify_if_due(session);
            }
        }
    }

    /// Subscribes the sessions with a glob that matches an existing resource to that resource.
    // M138
    fn join_globs(&mut self, arena: Slot, resource: Slot) {
        let Some(state) = self.subscriptions.store.arena(arena) else { return };
        let Some(member) = state.at(resource).filter(|it| it.payload.is_some()) else { return };
        for glob in state.globs_over(member.name.as_str()) {
            let sessions: Vec<_> = self.subscriptions.subscribers(arena, glob).collect();
            for session in sessions {
                if let Some(mut context) = self.subscriptions.context(session) {
                    context.cover(resource);
                }
            }
        }
    }

    pub(crate) fn notify_wildcards(&mut self, arena: Slot) {
        let mut slot = self.subscriptions.store.arena(arena).map(|arena| arena.wildcards.first());
        while let Some((session, next)) = slot.and_then(|slot| {
            let wildcards = &self.subscriptions.store.arena(arena)?.wildcards;
            Some((*wildcards.at(slot)?, wildcards.next(slot)))
        }) {
            self.clear_rejections(session);
            self.note_progress(session, self.subscriptions.store.sequence());
            self.notify_if_due(session);
            slot = Some(next);
        }
    }
}
