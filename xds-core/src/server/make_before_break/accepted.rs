//! Progress of each type of a stream: what was sent and ACKed.

use alloc::vec::Vec;

use super::{MakeBeforeBreak, STAGES, SessionView, Sessions};
use crate::{
    server::{
        config::Warming,
        session::{session_handle::SessionHandle, subscriptions::Subscriptions},
        store::revision::Revision,
    },
    slab::Slot,
    types::rank,
};

/// Progress of the types of a stream. Most clients have accepted everything, and store one revision.
#[derive(Debug)]
pub(crate) enum ProgressByRank {
    /// The client has accepted the newest response of each type, and with it all resources and
    /// removals up to this revision.
    Settled(Revision),
    /// Progress up to the highest rank that the stream has used.
    Open(Vec<TypeProgress>),
}

impl Default for ProgressByRank {
    fn default() -> Self {
        Self::Open(Vec::new())
    }
}

impl ProgressByRank {
    pub(crate) fn sent(&self, rank: usize, view: Option<SessionView<'_>>) -> Progress {
        match self {
            Self::Settled(at) => Progress::settled(view, *at),
            Self::Open(types) => types.get(rank).map(|it| it.sent).unwrap_or_default(),
        }
    }

    pub(crate) fn accepted(&self, rank: usize, view: Option<SessionView<'_>>) -> Progress {
        match self {
            Self::Settled(at) => Progress::settled(view, *at),
            Self::Open(types) => types.get(rank).map(|it| it.accepted).unwrap_or_default(),
        }
    }

    /// Returns the progress of a type, and adds it if there is none. `None` if types of this rank
    /// do not wait for each other, or the client is settled.
    fn get_mut(&mut self, rank: usize) -> Option<&mut TypeProgress> {
        let Self::Open(types) = self else { return None };
        if (types.len()..STAGES).contains(&rank) {
            types.resize_with(rank + 1, TypeProgress::default);
        }
        types.get_mut(rank)
    }

    /// Stores the progress of each type, before that of one changes.
    pub(crate) fn open(&mut self, sessions: &Sessions<'_>) {
        let Self::Settled(at) = *self else { return };
        let used = sessions.0.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let progress = sessions.0.iter().take(used).map(|&view| {
            let progress = Progress::settled(view, at);
            TypeProgress { sent: progress, accepted: progress }
        });
        *self = Self::Open(progress.collect());
    }

    /// Drops the progress of each type if the client has accepted everything.
    fn settle(&mut self, sessions: &Sessions<'_>, clock: Revision) {
        let Self::Open(types) = self else { return };
        let mut types = types.iter().map(Some).chain(core::iter::repeat(None));
        let is_settled = sessions.0.iter().zip(&mut types).all(|(view, progress)| match view {
            None => true,
            Some(view) => progress.is_some_and(|progress| progress.is_settled(*view)),
        });
        if is_settled {
            *self = Self::Settled(clock);
        }
    }
}

/// Progress of one type.
#[derive(Debug, Default)]
pub(crate) struct TypeProgress {
    pub(crate) sent: Progress,
    pub(crate) accepted: Progress,
}

impl TypeProgress {
    /// Whether the client has accepted all resources and removals, in the newest response if there is
    /// one.
    fn is_settled(&self, view: SessionView<'_>) -> bool {
        let (newest, accepted) = (view.session.newest_response_position().nonce, self.accepted);
        let is_accepted = view.session.newest_content().unwrap_or_default() == newest
            && accepted.nonce == newest
            && (accepted.set == Revision::START) == (newest == 0);
        is_accepted && self.sent == accepted && view.is_settled() && !view.has_removals()
    }
}

/// State of the client for one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Revision up to which it has all requested resources.
    pub(crate) set: Revision,
    /// Revision up to which it has all requested resources and all deletions.
    pub(crate) deleted: Revision,
    /// Nonce of the response that completed this state.
    pub(crate) nonce: u64,
}

impl Progress {
    /// Returns the progress of one type if the client has accepted everything up to a revision.
    fn settled(view: Option<SessionView<'_>>, at: Revision) -> Self {
        let nonce = view.and_then(|view| view.session.newest_content());
        nonce.map_or_else(Self::default, |nonce| Self { set: at, deleted: at, nonce })
    }

    /// Records the newest response if it completed everything that was to be sent.
    fn complete(&mut self, view: SessionView<'_>, clock: Revision) {
        // A client with a pending rejection does not have everything either.
        if view.has_additions() || view.session.is_rejected() {
            return;
        }
        let Some(nonce) = view.session.newest_content() else { return };
        (self.set, self.nonce) = (clock, nonce);
        if !view.has_removals() {
            self.deleted = clock;
        }
    }
}

impl MakeBeforeBreak {
    /// Records sessions that became complete without another response, because the rest of a split
    /// response was deleted or unsubscribed.
    pub(crate) fn note_settled(&mut self, sessions: &Sessions<'_>, clock: Revision) {
        for (rank, view) in sessions.0.iter().enumerate() {
            let Some(view) = view.filter(SessionView::is_settled) else { continue };
            let Some(nonce) = view.session.newest_content() else { continue };
            let Some(progress) = self.progress.get_mut(rank) else { continue };
            // The rejection may be cleared, but the client does not have these resources.
            if progress.accepted.nonce < nonce && !view.session.is_nacked() {
                // Resources may have been deleted silently since.
                (progress.sent.set, progress.sent.nonce) = (clock, nonce);
                progress.accepted = progress.sent;
            }
        }
    }

    /// Resets the progress after the client was moved to another view. It may still have to request
    /// and warm the endpoints of clusters that it was sent with the same content.
    pub(crate) fn reset_progress(&mut self, sessions: &Sessions<'_>) {
        let warm = self.accepted(rank::ENDPOINTS, sessions).nonce;
        self.progress = ProgressByRank::default();
        let clusters = sessions.get(rank::CLUSTERS).filter(|it| it.session.has_wildcard());
        let Some(clusters) = clusters else { return };
        let was_sent = |&slot: &Slot| clusters.was_sent(slot);
        let slots = clusters.arena.slots_after(Revision::START).filter(was_sent);
        let shown = slots.filter_map(|slot| {
            let it = clusters.arena.at(slot)?;
            let names = it.endpoint_names.names(&it.name);
            (!names.is_empty()).then_some((&it.name, it.revision, &it.endpoint_names))
        });
        self.cold.get_or_insert_default().move_to(shown, warm);
    }

    pub(crate) fn accepted(&self, rank: usize, sessions: &Sessions<'_>) -> Progress {
        self.progress.accepted(rank, sessions.get(rank))
    }

    /// Records a rendered response.
    pub(crate) fn note_sent(
        &mut self,
        handle: SessionHandle,
        handles: &[SessionHandle],
        subscriptions: &Subscriptions,
        warming: Warming,
    ) {
        let (rank, clock) = (usize::from(handle.rank), subscriptions.store.clock());
        let Some(view) = SessionView::of(handle.session, subscriptions) else { return };
        if rank == rank::CLUSTERS && view.session.has_wildcard() {
            self.note_clusters(view, &Sessions::of(handles, subscriptions), clock, warming);
        }
        if let Some(progress) = self.progress.get_mut(rank) {
            progress.sent.complete(view, clock);
        }
    }

    /// Records a request, which may have answered a response.
    pub(crate) fn note_request(
        &mut self,
        handle: SessionHandle,
        handles: &[SessionHandle],
        subscriptions: &Subscriptions,
    ) {
        let sessions = Sessions::of(handles, subscriptions);
        self.progress.open(&sessions);
        self.note_progress(handle, subscriptions);
        let ranked = handles.iter().filter(|it| usize::from(it.rank) < STAGES).count();
        // A type in two versions of the API has two sessions and one progress, which cannot be derived from
        // one of them.
        if ranked == sessions.0.iter().flatten().count() {
            self.progress.settle(&sessions, subscriptions.store.clock());
        }
        if let (ProgressByRank::Settled(_), Some(_)) = (&self.progress, &self.cold) {
            self.drop_warm_clusters(&sessions);
        }
    }

    fn note_progress(&mut self, handle: SessionHandle, subscriptions: &Subscriptions) {
        let Some(progress) = self.progress.get_mut(usize::from(handle.rank)) else { return };
        let Some(view) = SessionView::of(handle.session, subscriptions) else { return };
        let session = view.session;
        let is_clusters = usize::from(handle.rank) == rank::CLUSTERS;
        // A client does not treat clusters whose versions it stated as new.
        if is_clusters && let Some(at) = session.stated_revision() {
            self.stated = at;
        }
        if view.has_unanswered_request() {
            for side in [&mut progress.sent, &mut progress.accepted] {
                (side.set, side.deleted) = (Revision::START, Revision::START);
            }
        } else if session.is_rejected() || session.is_nacked() {
            // The rejection may be cleared already, but nothing was accepted.
            progress.sent = progress.accepted;
            if is_clusters && session.is_nacked() {
                self.cold.iter_mut().for_each(|it| it.reject(session.newest_nonce()));
            }
        } else if !session.awaits_answer() {
            progress.accepted = progress.sent;
        }
    }
}
