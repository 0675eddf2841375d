//! Facts about the types of a stream from which it [follows](super::decision) what may be sent.

use super::{
    MakeBeforeBreak, STAGES, SessionView, Sessions,
    accepted::TypeProgress,
    decision::{LateFacts, StreamFacts, TypeFacts, TypeState},
};
use crate::server::{
    config::MakeBeforeBreakPolicy, event::BlockedBy, session::subscriptions::Subscriptions,
    store::revision::Revision,
};

/// Sessions of a stream, for the facts that are looked up when they are needed.
pub(crate) struct StreamSessions<'a> {
    pub(crate) state: &'a mut MakeBeforeBreak,
    pub(crate) sessions: &'a Sessions<'a>,
    /// Session of the type that is decided on.
    pub(crate) own: SessionView<'a>,
    pub(crate) subscriptions: &'a Subscriptions,
    pub(crate) policy: &'a MakeBeforeBreakPolicy,
}

impl TypeState {
    pub(crate) fn of(view: SessionView<'_>) -> Self {
        match view.session {
            session if session.is_rejected() => Self::Nacked,
            session if session.awaits_answer() => Self::Sent,
            session if session.has_additions(view.arena) => Self::Idle,
            _ => Self::Acked,
        }
    }
}

impl TypeFacts {
    pub(crate) fn of(
        view: SessionView<'_>,
        progress: Option<&TypeProgress>,
        subscriptions: &Subscriptions,
    ) -> Self {
        let SessionView { session, arena, .. } = view;
        let accepted = progress.map(|progress| progress.accepted).unwrap_or_default();
        let due_set =
            session.has_additions(arena).then(|| session.newest_due(arena, &subscriptions.table));
        let due_removed = session.has_removals(arena).then(|| {
            // The revision of the deletion may be unknown, but it is not later than now.
            let deleted = session.newest_deletion(arena, &subscriptions.table);
            deleted.min(subscriptions.store.clock())
        });
        Self {
            state: TypeState::of(view),
            due_set,
            due_removed,
            renews: session.has_heartbeats_alone(arena),
            may_send: session.is_due(arena),
            awaits_answer: session.awaits_answer(),
            has_all: view.has_all(),
            accepted_set: accepted.set,
            accepted_removed: accepted.deleted,
            requests_removed: session.requests_removed(&subscriptions.table),
            keeps_removed: session.keeps_removed_resources(),
            awaits_first_exchange: session.awaits_first_exchange(),
        }
    }
}

impl MakeBeforeBreak {
    /// Returns the facts about the types of a stream.
    pub(crate) fn facts(
        &self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) -> StreamFacts {
        let mut types = [None; STAGES];
        for ((facts, view), progress) in types.iter_mut().zip(sessions.0).zip(&self.progress) {
            *facts = view.map(|view| TypeFacts::of(view, Some(progress), subscriptions));
        }
        StreamFacts { types, waived: self.waived }
    }
}

impl LateFacts for StreamSessions<'_> {
    fn has_silent_removals(&self, rank: usize, after: Revision) -> bool {
        self.sessions.get(rank).is_some_and(|it| {
            it.session.has_silent_removals(it.arena, &self.subscriptions.table, after)
        })
    }

    fn has_outdated(&self, rank: usize, after: Revision) -> bool {
        self.sessions.get(rank).is_some_and(|it| {
            it.session.has_outdated_recreated(it.arena, &self.subscriptions.table, after)
        })
    }

    fn rejected_since(&self, rank: usize) -> Option<Revision> {
        let view = self.sessions.get(rank)?;
        self.state.rejected_since(rank, view)
    }

    fn waits_for_answer(&self) -> bool {
        self.own.session.has_unanswered(&self.subscriptions.table)
    }

    fn cold_clusters(&mut self) -> Option<BlockedBy> {
        self.policy.references.as_ref()?;
        self.state.clusters_blocked_by(self.sessions, self.subscriptions)
    }

    fn endpoints_in_use(&mut self, removed: Revision) -> Option<BlockedBy> {
        let Self { sessions, subscriptions, policy, .. } = *self;
        self.state.uses_old_endpoints(removed, sessions, subscriptions, policy)
    }
}
