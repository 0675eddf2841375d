//! Facts about the types of a stream from which it [follows](super::decision) what may be sent.

use super::{
    MakeBeforeBreak, STAGES, SessionView, Sessions,
    accepted::Progress,
    decision::{LateFacts, StreamFacts, TypeFacts, TypeState},
};
use crate::server::{config::MakeBeforeBreakPolicy, event::BlockedBy, store::revision::Revision};

/// Sessions of a stream, for the facts that are looked up when they are needed.
pub(crate) struct StreamSessions<'a> {
    pub(crate) state: &'a mut MakeBeforeBreak,
    pub(crate) sessions: &'a Sessions<'a>,
    /// Session of the type that is decided on.
    pub(crate) own: SessionView<'a>,
    pub(crate) policy: &'a MakeBeforeBreakPolicy,
}

impl TypeState {
    pub(crate) fn of(view: SessionView<'_>) -> Self {
        match view.session {
            session if session.is_rejected() => Self::Nacked,
            session if session.awaits_answer() => Self::Sent,
            _ if view.has_additions() => Self::Idle,
            _ => Self::Acked,
        }
    }
}

impl TypeFacts {
    pub(crate) fn of(view: SessionView<'_>, accepted: Progress, clock: Revision) -> Self {
        let SessionView { session, arena, .. } = view;
        Self {
            state: TypeState::of(view),
            due_set: view.has_additions().then(|| view.newest_due()),
            due_removed: view.has_removals().then(|| view.newest_deletion(clock)),
            has_unchanged: session.has_unchanged(arena),
            may_send: session.is_due(arena),
            awaits_answer: session.awaits_answer(),
            has_all: view.has_all(),
            accepted_set: accepted.set,
            accepted_removed: accepted.deleted,
            requests_removed: view.requests_removed(),
            keeps_removed: session.keeps_removed_resources(),
            awaits_first_exchange: session.awaits_first_exchange(),
        }
    }
}

impl MakeBeforeBreak {
    /// Returns the facts about the types of a stream.
    pub(crate) fn facts(&self, sessions: &Sessions<'_>, clock: Revision) -> StreamFacts {
        let mut types = [None; STAGES];
        for (rank, (facts, view)) in types.iter_mut().zip(sessions.0).enumerate() {
            let accepted = self.progress.accepted(rank, view);
            *facts = view.map(|view| TypeFacts::of(view, accepted, clock));
        }
        StreamFacts { types, waived: self.waived }
    }
}

impl LateFacts for StreamSessions<'_> {
    fn has_silent_removals(&self, rank: usize, after: Revision) -> bool {
        self.sessions.get(rank).is_some_and(|it| it.has_silent_removals(after))
    }

    fn has_outdated(&self, rank: usize, after: Revision) -> bool {
        self.sessions.get(rank).is_some_and(|it| it.has_outdated_recreated(after))
    }

    fn rejected_since(&self, rank: usize) -> Option<Revision> {
        self.sessions.get(rank)?.rejected_since()
    }

    fn waits_for_answer(&self) -> bool {
        self.own.has_unanswered()
    }

    fn cold_clusters(&mut self) -> Option<BlockedBy> {
        self.policy.references.as_ref()?;
        self.state.clusters_blocked_by(self.sessions)
    }

    fn endpoints_in_use(&mut self, removed: Revision) -> Option<BlockedBy> {
        self.state.uses_old_endpoints(removed, self.sessions, self.policy)
    }
}
