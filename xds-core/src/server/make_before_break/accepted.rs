//! Progress of each type of a stream: what was sent, ACKed and rejected.

use super::{
    MakeBeforeBreak, SessionView, Sessions,
    rejected::RejectedWildcardResources,
    warming::{ClustersInUse, EdsRequestMeaning},
};
use crate::{
    server::{
        config::Warming,
        session::{Session, session_handle::SessionHandle, subscriptions::Subscriptions},
        store::{
            arena::{Arena, ResourceEntry, past_contents::AckedSnapshot},
            revision::Revision,
        },
    },
    service::Variant,
    text::ResourceName,
    types::rank,
};

/// Progress of one type.
#[derive(Debug, Default)]
pub(crate) struct TypeProgress {
    pub(crate) sent: Progress,
    pub(crate) accepted: Progress,
    pub(crate) rejected: RejectedWildcardResources,
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
    /// Nonce of the response whose clusters it warms with endpoints that arrive later.
    pub(crate) warms: u64,
    /// Revision after which these clusters were set.
    pub(crate) warms_from: Revision,
}

/// Clusters of a client that is sent all clusters in each response.
#[derive(Debug, Default)]
pub(crate) struct ClusterSnapshots {
    /// Clusters of the newest response.
    sent: AckedSnapshot,
    accepted: AckedSnapshot,
}

impl ClusterSnapshots {
    fn accept(&mut self) {
        self.accepted.clone_from(&self.sent);
    }

    fn reject(&mut self) {
        self.sent.clone_from(&self.accepted);
    }
}

impl Progress {
    /// Records the newest response if it completed everything that was to be sent.
    fn complete(&mut self, session: &Session, arena: &Arena, clock: Revision) {
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

impl MakeBeforeBreak {
    /// Records sessions that became complete without another response, because the rest of a split
    /// response was deleted or unsubscribed.
    pub(crate) fn note_settled(&mut self, sessions: &Sessions<'_>, clock: Revision) {
        for (rank, (progress, view)) in self.progress.iter_mut().zip(&sessions.0).enumerate() {
            let Some(view) = view.filter(SessionView::is_settled) else { continue };
            let Some(nonce) = view.session.newest_content() else { continue };
            // The rejection may be cleared, but the client does not have these resources.
            if progress.accepted.nonce < nonce && !view.session.is_nacked() {
                // Resources may have been deleted silently since.
                (progress.sent.set, progress.sent.nonce) = (clock, nonce);
                progress.accepted = progress.sent;
                if rank == rank::CLUSTERS {
                    self.cluster_snapshots.accept();
                }
            }
        }
    }

    /// Whether the client has permanently rejected a resource that was set up to a revision.
    pub(crate) fn has_rejected(&self, rank: usize, view: SessionView<'_>, to: Revision) -> bool {
        let has_any = |progress: &TypeProgress| progress.rejected.has_any(view.arena, to);
        view.session.has_wildcard() && self.progress.get(rank).is_some_and(has_any)
    }

    /// Resets the progress after the client was moved to another view. It may still have to request
    /// and warm the endpoints of clusters that it was sent with the same content.
    pub(crate) fn reset_progress(
        &mut self,
        sessions: &Sessions<'_>,
        subscriptions: &Subscriptions,
    ) {
        let warm = self.accepted(rank::ENDPOINTS).nonce;
        let before = core::mem::take(&mut self.progress);
        self.cluster_snapshots = ClusterSnapshots::default();
        let warms = |progress: Progress| {
            Some(progress.warms).filter(|&warms| warms > warm).unwrap_or_default()
        };
        if let (Some(clusters), Some(before)) =
            (self.progress.get_mut(rank::CLUSTERS), before.get(rank::CLUSTERS))
        {
            clusters.sent.warms = warms(before.sent);
            clusters.accepted.warms = warms(before.accepted);
        }
        let clusters = sessions.get(rank::CLUSTERS).filter(|it| it.session.has_wildcard());
        let Some(clusters) = clusters else { return };
        for slot in clusters.arena.slots_after(Revision::START) {
            if !clusters.session.was_sent(clusters.slot, slot, clusters.arena, &subscriptions.table)
            {
                continue;
            }
            let Some(cluster) = clusters.arena.at(slot) else { continue };
            let names = cluster.endpoint_names.names(&cluster.name);
            names.iter().for_each(|name| self.expected.add(name));
            let payload = cluster.payload.as_ref().filter(|_| !names.is_empty());
            self.cluster_snapshots
                .sent
                .previous_view
                .extend(payload.map(|it| (cluster.name.clone(), it.hash)));
        }
        if !clusters.session.awaits_answer() {
            self.cluster_snapshots.accept();
        }
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
        let warm = self.accepted(rank::ENDPOINTS).nonce;
        let Some(progress) = self.progress.get_mut(rank) else { return };
        let nonce = view.session.newest_nonce();
        if rank == rank::CLUSTERS && view.session.has_wildcard() {
            // A full state contains rejected resources again.
            let (from, to) = match view.session.variant() {
                Variant::Incremental => view.session.newest_cursor_range(),
                Variant::StateOfTheWorld => (progress.accepted.set, Revision::MAX),
            };
            // A client that is sent all clusters treats changed ones as new. It may not have warmed
            // an unchanged cluster whose endpoints did not exist before.
            let endpoints = Sessions::of(handles, subscriptions).get(rank::ENDPOINTS);
            let is_unaccepted = |name: &ResourceName| {
                endpoints.is_some_and(|it| it.is_unaccepted(name, warm, &subscriptions.table))
            };
            let is_new = |cluster: &&ResourceEntry| match view.session.variant() {
                Variant::Incremental => true,
                Variant::StateOfTheWorld => {
                    !view.arena.had_current_content(&self.cluster_snapshots.accepted, cluster)
                        || cluster.endpoint_names.names(&cluster.name).iter().any(is_unaccepted)
                }
            };
            let new = view.arena.set_after(from).take_while(|cluster| cluster.revision <= to);
            let mut newest = None;
            for cluster in new.filter(is_new) {
                for name in cluster.endpoint_names.names(&cluster.name) {
                    newest = Some(cluster.revision);
                    self.expected.add(name);
                }
            }
            self.eds_request_meaning = EdsRequestMeaning::None;
            if let Some(newest) = newest
                && warming == Warming::AfterClusters
            {
                let is_warming = progress.sent.warms > warm;
                let from = if is_warming { progress.sent.warms_from.min(from) } else { from };
                let in_full = view.session.variant() == Variant::StateOfTheWorld;
                let were_in_use = in_full && newest <= self.in_use.at;
                if in_full && !were_in_use {
                    let these = EdsRequestMeaning::Uses(ClustersInUse { at: clock, nonce });
                    self.eds_request_meaning =
                        if is_warming { EdsRequestMeaning::Warming } else { these };
                }
                let warms = if were_in_use { self.in_use.nonce } else { nonce };
                (progress.sent.warms, progress.sent.warms_from) =
                    (progress.sent.warms.max(warms), from);
            }
            self.cluster_snapshots.sent = match view.session.is_rejected() {
                // The response is a part of the clusters, to find the rejected one.
                true => AckedSnapshot::EMPTY,
                false => AckedSnapshot {
                    at: clock,
                    removed: view.session.withheld(view.arena, &subscriptions.table).collect(),
                    ..AckedSnapshot::EMPTY
                },
            };
        }
        progress.sent.complete(view.session, view.arena, clock);
    }

    /// Records a request, which may have answered a response.
    pub(crate) fn note_request(&mut self, handle: SessionHandle, subscriptions: &Subscriptions) {
        let Some(progress) = self.progress.get_mut(usize::from(handle.rank)) else { return };
        let Some(SessionView { session, arena, .. }) =
            SessionView::of(handle.session, subscriptions)
        else {
            return;
        };
        if session.variant() == Variant::Incremental && session.has_wildcard() {
            let part = session.newest_cursor_range();
            match (session.is_nacked(), session.awaits_answer()) {
                (true, _) => progress.rejected.add(arena, part, session.newest_nonce()),
                (false, false) => progress.rejected.remove(arena, part),
                (false, true) => {}
            }
        }
        let is_clusters = usize::from(handle.rank) == rank::CLUSTERS;
        // A client does not treat clusters whose versions it stated as new.
        if is_clusters && let Some(at) = session.stated_revision() {
            self.cluster_snapshots.sent = AckedSnapshot { at, ..AckedSnapshot::EMPTY };
        }
        if session.has_unanswered_request(&subscriptions.table) {
            for side in [&mut progress.sent, &mut progress.accepted] {
                (side.set, side.deleted) = (Revision::START, Revision::START);
            }
            if is_clusters {
                self.cluster_snapshots = ClusterSnapshots::default();
            }
        } else if session.is_rejected() || session.is_nacked() {
            // The rejection may be cleared already, but nothing was accepted.
            progress.sent = progress.accepted;
            if is_clusters {
                self.cluster_snapshots.reject();
            }
        } else if !session.awaits_answer() {
            progress.accepted = progress.sent;
            if is_clusters {
                self.cluster_snapshots.accept();
            }
        }
    }
}
