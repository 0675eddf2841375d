//! Progress of each type of a stream: what was sent, ACKed and rejected.

use alloc::{boxed::Box, vec::Vec};

use super::{MakeBeforeBreak, STAGES, SessionView, Sessions, rejected::RejectedWildcardResources};
use crate::{
    server::{
        config::Warming,
        session::{session_handle::SessionHandle, subscriptions::Subscriptions},
        store::revision::Revision,
    },
    service::Variant,
    slab::Slot,
    types::rank,
};

/// Progress of the types of a stream, by rank, up to the highest rank that the stream has used.
#[derive(Debug, Default)]
pub(crate) struct ProgressByRank(Vec<TypeProgress>);

impl ProgressByRank {
    pub(crate) fn get(&self, rank: usize) -> Option<&TypeProgress> {
        self.0.get(rank)
    }

    /// Returns the progress of a type, and adds it if there is none. `None` if types of this rank
    /// do not wait for each other.
    fn get_mut(&mut self, rank: usize) -> Option<&mut TypeProgress> {
        if (self.0.len()..STAGES).contains(&rank) {
            self.0.resize_with(rank + 1, TypeProgress::default);
        }
        self.0.get_mut(rank)
    }
}

/// Progress of one type.
#[derive(Debug, Default)]
pub(crate) struct TypeProgress {
    pub(crate) sent: Progress,
    pub(crate) accepted: Progress,
    /// Rejected resources, once there were any.
    rejected: Option<Box<RejectedWildcardResources>>,
}

/// State of the client for one type.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Revision up to which it has all requested resources.
    pub(crate) set: Revision,
    /// Revision up to which it has all requested resources and all deletions.
    pub(crate) deleted: Revision,
    /// Nonce of the response that completed this state.
    pub(crate) nonce: u64,
}

impl Progress {
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

    /// Lowest revision since which the client lacks a resource that it has permanently rejected.
    pub(crate) fn rejected_since(&self, rank: usize, view: SessionView<'_>) -> Option<Revision> {
        let progress = self.progress.get(rank).filter(|_| view.session.has_wildcard());
        let covered = progress.and_then(|progress| progress.rejected.as_ref()?.first(view.arena));
        covered.into_iter().chain(view.first_rejected_named()).min()
    }

    /// Resets the progress after the client was moved to another view. It may still have to request
    /// and warm the endpoints of clusters that it was sent with the same content.
    pub(crate) fn reset_progress(&mut self, sessions: &Sessions<'_>) {
        let warm = self.accepted(rank::ENDPOINTS).nonce;
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
        self.cold.move_to(shown, warm);
    }

    pub(crate) fn accepted(&self, rank: usize) -> Progress {
        self.progress.get(rank).map_or_else(Progress::default, |progress| progress.accepted)
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
    pub(crate) fn note_request(&mut self, handle: SessionHandle, subscriptions: &Subscriptions) {
        let Some(progress) = self.progress.get_mut(usize::from(handle.rank)) else { return };
        let Some(view) = SessionView::of(handle.session, subscriptions) else { return };
        let SessionView { session, arena, .. } = view;
        if session.variant() == Variant::Incremental && session.has_wildcard() {
            let part = session.newest_cursor_range();
            if session.is_nacked() {
                let rejected = progress.rejected.get_or_insert_default();
                rejected.add(arena, part, session.newest_nonce());
            } else if !session.awaits_answer()
                && let Some(rejected) = &mut progress.rejected
            {
                rejected.remove(arena, part);
            }
        }
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
                self.cold.reject(session.newest_nonce());
            }
        } else if !session.awaits_answer() {
            progress.accepted = progress.sent;
        }
    }
}
