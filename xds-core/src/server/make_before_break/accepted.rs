//! Progress of each type of a stream: what was sent, ACKed and rejected.

use alloc::collections::BTreeMap;

use super::{
    MakeBeforeBreak, SessionView, Sessions,
    rejected::RejectedWildcardResources,
    warming::{ClustersInUse, EdsRequestMeaning},
};
use crate::{
    server::{
        config::Warming,
        session::{
            Session, session_handle::SessionHandle, subscription::SubscriptionTable,
            subscriptions::Subscriptions,
        },
        store::{
            arena::{Arena, ResourceEntry},
            revision::Revision,
            version::content::ContentHash,
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
    sent: ClusterSnapshot,
    accepted: ClusterSnapshot,
}

/// Clusters in a full state.
#[derive(Clone, Debug, Default)]
struct ClusterSnapshot {
    /// Revision of the state.
    at: Revision,
    /// Contents of clusters that the state had and the store did not: those whose removal was
    /// withheld, and those of the previous view.
    others: BTreeMap<ResourceName, ContentHash>,
}

impl ClusterSnapshot {
    /// Returns the clusters of the newest response, which was rendered at a revision. While rejected
    /// ones are searched for, it is a part of the clusters.
    fn of(clusters: SessionView<'_>, at: Revision, table: &SubscriptionTable) -> Self {
        if clusters.session.is_rejected() {
            return Self::default();
        }
        let withheld = clusters.session.retained_deletions(clusters.arena, table);
        Self { at, others: withheld.map(|(name, it)| (name.clone(), it.hash)).collect() }
    }

    /// Whether the state had the current content of a cluster, as far as is known.
    fn has_current(&self, cluster: &ResourceEntry, arena: &Arena) -> bool {
        let earlier = || {
            let slot = arena.find(cluster.name.as_str())?;
            arena.content_at(slot, self.at).known().map(|payload| payload.hash)
        };
        let current = cluster.payload.as_ref().map(|payload| payload.hash);
        cluster.revision <= self.at
            || self.others.get(&cluster.name).copied().or_else(earlier) == current
    }
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
        let covered = view.session.has_wildcard() && self.progress.get(rank).is_some_and(has_any);
        covered || view.has_rejected_named(to)
    }

    /// Whether the client still has an older version of a resource, or a removed one, because it
    /// rejected what it was sent.
    pub(crate) fn keeps_rejected(&self, rank: usize, view: SessionView<'_>) -> bool {
        view.session.keeps_removed_resources() || self.has_rejected(rank, view, Revision::MAX)
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
                .others
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
        if rank == rank::CLUSTERS && view.session.has_wildcard() {
            // A full state contains rejected resources again.
            let (from, to) = match view.session.variant() {
                Variant::Incremental => view.session.newest_cursor_range(),
                Variant::StateOfTheWorld => (self.accepted(rank).set, Revision::MAX),
            };
            let endpoints = Sessions::of(handles, subscriptions).get(rank::ENDPOINTS);
            let newest = self.expect_endpoints(view, (from, to), endpoints, &subscriptions.table);
            self.eds_request_meaning = EdsRequestMeaning::None;
            if let Some(newest) = newest
                && warming == Warming::AfterClusters
            {
                self.note_warming(view.session, from, newest, clock);
            }
            self.cluster_snapshots.sent = ClusterSnapshot::of(view, clock, &subscriptions.table);
        }
        if let Some(progress) = self.progress.get_mut(rank) {
            progress.sent.complete(view.session, view.arena, clock);
        }
    }

    /// Adds the endpoints of new clusters, which changed between two revisions. Returns the revision
    /// of the newest one with endpoints.
    fn expect_endpoints(
        &mut self,
        clusters: SessionView<'_>,
        (from, to): (Revision, Revision),
        endpoints: Option<SessionView<'_>>,
        table: &SubscriptionTable,
    ) -> Option<Revision> {
        let warm = self.accepted(rank::ENDPOINTS).nonce;
        let is_unaccepted =
            |name: &ResourceName| endpoints.is_some_and(|it| it.is_unaccepted(name, warm, table));
        // A client that is sent all clusters treats changed ones as new. It may not have warmed an
        // unchanged cluster whose endpoints did not exist before.
        let is_new = |cluster: &ResourceEntry, names: &[ResourceName]| {
            clusters.session.variant() == Variant::Incremental
                || !self.cluster_snapshots.accepted.has_current(cluster, clusters.arena)
                || names.iter().any(is_unaccepted)
        };
        let mut newest = None;
        for cluster in clusters.arena.set_after(from).take_while(|it| it.revision <= to) {
            let names = cluster.endpoint_names.names(&cluster.name);
            if !names.is_empty() && is_new(cluster, names) {
                newest = Some(cluster.revision);
                names.iter().for_each(|name| self.expected.add(name));
            }
        }
        newest
    }

    /// Records that the newest response has clusters that the client warms, changed after `from` and
    /// up to `newest`.
    fn note_warming(
        &mut self,
        clusters: &Session,
        from: Revision,
        newest: Revision,
        clock: Revision,
    ) {
        let warm = self.accepted(rank::ENDPOINTS).nonce;
        let Some(progress) = self.progress.get_mut(rank::CLUSTERS) else { return };
        let (sent, nonce) = (&mut progress.sent, clusters.newest_nonce());
        let is_warming = sent.warms > warm;
        let in_full = clusters.variant() == Variant::StateOfTheWorld;
        let were_in_use = in_full && newest <= self.in_use.at;
        if in_full && !were_in_use {
            let these = EdsRequestMeaning::Uses(ClustersInUse { at: clock, nonce });
            self.eds_request_meaning = if is_warming { EdsRequestMeaning::Warming } else { these };
        }
        sent.warms = sent.warms.max(if were_in_use { self.in_use.nonce } else { nonce });
        sent.warms_from = if is_warming { sent.warms_from.min(from) } else { from };
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
            self.cluster_snapshots.sent = ClusterSnapshot { at, ..ClusterSnapshot::default() };
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
