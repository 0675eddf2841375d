//! Store and sessions, connected by subscriptions.
//!
//! This module creates the borrow of a [`SessionContext`]: one session, the arena of its type and
//! all subscriptions, which is the state that a session's rules may access.

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    Role, Session,
    context::SessionContext,
    name_usage::{NameUnits, NameUsage},
    peer::Peer,
    session_handle::SessionHandle,
    session_view::SessionView,
    subscription::{ListKind, SubscriptionTable},
    view_difference::KnownDifference,
};
use crate::{
    id::StreamId,
    rng::Rng,
    server::{
        config::{OnDemand, ServerConfig, WarmedTypes, Warming},
        event::{ResponseCause, status::SubscriptionStatus},
        store::{Store, on_demand::OnDemandNotifications, revision::Revision},
    },
    service::Variant,
    slab::{Key, Slab, Slot},
    text::{ResourceName, TypeUrl},
    time::Time,
};

/// Store together with all sessions and their subscriptions.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    pub(crate) store: Store,
    pub(crate) sessions: Slab<Session>,
    pub(crate) table: SubscriptionTable,
    pub(crate) on_demand: OnDemandNotifications,
    pub(crate) usage: NameUsage,
    /// Sessions of closed streams whose names are not all freed yet. They are in no list except
    /// those of the subscribers of their resources.
    closed: VecDeque<(Slot, Session)>,
    /// Difference between two views that was computed last.
    pub(super) difference: Option<KnownDifference>,
}

impl Subscriptions {
    pub(crate) fn new(rng: &mut Rng, on_demand: OnDemand) -> Self {
        Self {
            store: Store::new(rng),
            sessions: Slab::default(),
            table: SubscriptionTable::new(rng.next_u64()),
            on_demand: OnDemandNotifications::new(on_demand),
            usage: NameUsage::default(),
            closed: VecDeque::new(),
            difference: None,
        }
    }

    /// Opens a session. Returns its arena and its slot.
    pub(crate) fn open(
        &mut self,
        peer: Peer,
        type_url: &str,
        config: &ServerConfig,
    ) -> Option<(Slot, Slot)> {
        let slot = self.store.open_arena(peer.view, type_url, config)?;
        let arena = self.store.arena(slot)?;
        let session = self.sessions.push_back(Session::new(peer, slot, arena))?.slot();
        self.context(session)?.register();
        Some((slot, session))
    }

    /// Closes a session. It receives nothing any more, and [`free_closed`](Self::free_closed) frees
    /// its names.
    pub(crate) fn close(&mut self, handle: SessionHandle) {
        if let Some(mut context) = self.context(handle.session) {
            context.leave();
        }
        if let Some(mut session) = self.sessions.take(handle.session) {
            self.usage.subtract(session.stream, session.units());
            session.stream = StreamId(Key::NONE);
            self.closed.push_back((handle.session, session));
        }
    }

    /// Number of closed sessions whose names are not all freed yet.
    pub(crate) fn closed(&self) -> usize {
        self.closed.len()
    }

    /// Frees at most `limit` names of closed sessions. Returns how many it freed, and the arenas of
    /// the sessions that had no more.
    pub(crate) fn free_closed(&mut self, limit: usize) -> (usize, Vec<Slot>) {
        let (mut freed, mut left) = (0, Vec::new());
        while let Some((slot, session)) = self.closed.front_mut() {
            let (slot, arena) = (*slot, session.arena);
            if let Some(state) = self.store.arena_mut(arena) {
                let mut context = SessionContext {
                    slot,
                    session,
                    arena: &mut *state,
                    subscriptions: &mut self.table,
                    on_demand: &mut self.on_demand,
                    usage: &mut self.usage,
                };
                freed += context.free_names(limit - freed);
                if !context.session.subscriptions.is_empty() {
                    break;
                }
                state.sessions -= 1;
            }
            self.closed.pop_front();
            self.sessions.free(slot);
            self.store.release_arena(arena);
            left.push(arena);
        }
        (freed, left)
    }

    /// Moves a session to another view. The client keeps resources that are identical there and
    /// is sent the difference.
    // M223
    pub(crate) fn move_to_view(
        &mut self,
        handle: &mut SessionHandle,
        view: Slot,
        config: &ServerConfig,
        now: Time,
    ) {
        let type_url = self.store.arena(handle.arena).map(|arena| arena.type_url.clone());
        let to = type_url.and_then(|it| self.store.open_arena(view, it.as_str(), config));
        let Some(to) = to else { return };
        let difference = self.difference_for(handle.session, to);
        let export = |mut context: SessionContext<'_>| context.export(difference);
        let Some(migration) = self.context(handle.session).map(export) else { return };
        let from = core::mem::replace(&mut handle.arena, to);
        if let Some(session) = self.sessions.at_mut(handle.session) {
            session.arena = to;
        }
        if let Some(mut context) = self.context(handle.session) {
            context.import(migration, now);
        }
        // Not earlier: the new arena may be a layer of the old one that nothing else keeps.
        self.store.release_arena(from);
    }

    pub(crate) fn context(&mut self, slot: Slot) -> Option<SessionContext<'_>> {
        let session = self.sessions.at_mut(slot)?;
        let arena = self.store.arena_mut(session.arena)?;
        let Self { table: subscriptions, on_demand, usage, .. } = self;
        Some(SessionContext { slot, session, arena, subscriptions, on_demand, usage })
    }

    pub(crate) fn is_due(&self, slot: Slot) -> bool {
        SessionView::of(slot, self).is_some_and(|it| it.session.is_due(it.arena))
    }

    /// Returns the type of a session.
    pub(crate) fn type_of(&self, slot: Slot) -> Option<&TypeUrl> {
        Some(&SessionView::of(slot, self)?.arena.type_url)
    }

    /// Looks up and stores the newest due revision of each of these sessions.
    pub(crate) fn look_up_newest_due(&mut self, handles: &[SessionHandle]) {
        for handle in handles {
            let Some(session) = self.sessions.at_mut(handle.session) else { continue };
            if let Some(arena) = self.store.arena(session.arena) {
                session.look_up_newest_due(arena, &self.table);
            }
        }
    }

    /// Number of names to which a session subscribes, and number of names that it holds in total.
    pub(crate) fn names(&self, slot: Slot) -> (usize, usize) {
        self.sessions.at(slot).map_or((0, 0), |session| (session.names(), session.tracked_names()))
    }

    /// Names of a session, in units.
    pub(crate) fn units(&self, slot: Slot) -> NameUnits {
        self.sessions.at(slot).map_or_else(NameUnits::default, Session::units)
    }

    /// Whether a session would have something to send if changes of its type were not held back.
    pub(crate) fn is_held_back(&self, slot: Slot) -> bool {
        SessionView::of(slot, self).is_some_and(|it| it.session.is_held_back(it.arena))
    }

    pub(crate) fn first_subscriber(&self, arena: Slot, resource: Slot) -> Slot {
        self.store
            .arena(arena)
            .and_then(|arena| arena.at(resource))
            .map_or(Slot::NONE, |resource| resource.subscribers.first())
    }

    /// Returns the sessions that subscribe to a resource.
    pub(crate) fn subscribers(&self, arena: Slot, resource: Slot) -> impl Iterator<Item = Slot> {
        let first = self.first_subscriber(arena, resource);
        self.table.list(ListKind::Resource, first).map(|(_, subscription)| subscription.session)
    }

    /// Returns the session of a subscription, and the next subscription to the same resource.
    pub(crate) fn subscriber(&self, subscription: Slot) -> Option<(Slot, Slot)> {
        let session = self.table.at(subscription)?.session;
        Some((session, self.table.next(ListKind::Resource, subscription)))
    }

    /// Returns the sessions of the same stream that may need warming after this one was sent
    /// something.
    // M151-M153, M155
    pub(crate) fn warmed_by(
        &self,
        sent: Slot,
        handles: &[SessionHandle],
        warmed: WarmedTypes,
    ) -> Vec<Slot> {
        let role = |slot: Slot| self.sessions.at(slot).map(|session| session.role);
        let Some(sent @ (Role::Clusters | Role::Listeners)) = role(sent) else {
            return Vec::new();
        };
        let waits = |handle: &&SessionHandle| match role(handle.session) {
            Some(Role::Endpoints) => sent == Role::Clusters,
            Some(Role::Secrets) => warmed == WarmedTypes::EndpointsAndSecrets,
            _ => false,
        };
        handles.iter().filter(waits).map(|handle| handle.session).collect()
    }

    /// Warms a waiting session by sending its resources again. A state-of-the-world client is
    /// sent everything with its next request or at once. An incremental client, which would not
    /// ask, is sent the endpoints of the clusters in this part of the wildcard, or all secrets that it
    /// names.
    pub(crate) fn warm(
        &mut self,
        waiting: Slot,
        sent: Slot,
        part: (Revision, Revision),
        policy: Warming,
    ) {
        let Some(mut context) = self.context(waiting) else { return };
        match (context.session.variant(), policy) {
            (Variant::StateOfTheWorld, Warming::AfterClusters) => context.session.warms_next = true,
            (Variant::StateOfTheWorld, _) => context.make_everything_due(ResponseCause::Warming),
            (Variant::Incremental, _) if context.session.role == Role::Secrets => {
                context.make_names_due(ResponseCause::Warming, |it| it.kind.is_subscribed());
            }
            (Variant::Incremental, _) => {
                let names = self.endpoints_to_warm(sent, part);
                let Some(mut context) = self.context(waiting) else { return };
                names.iter().for_each(|name| context.warm(name.as_str()));
            }
        }
    }

    /// Returns the endpoints of the clusters in a part of the wildcard that a session was sent.
    fn endpoints_to_warm(&self, sent: Slot, part: (Revision, Revision)) -> Vec<ResourceName> {
        let Some(SessionView { session, arena, .. }) = SessionView::of(sent, self) else {
            return Vec::new();
        };
        match session.sent_clusters(part) {
            Some(clusters) => arena.endpoints_of(clusters.iter().copied()),
            None => arena.endpoints_of(arena.slots_between(part.0, part.1)),
        }
    }

    /// Drops tombstones if there are more than `limit`: those whose removals every client of the
    /// arena was sent and, if that is not enough, all except the newest `limit / 2`. The `newest`
    /// ones are always kept, because no client can have been sent them yet. Returns the streams
    /// left behind.
    // M231
    pub(crate) fn drop_tombstones(
        &mut self,
        arena: Slot,
        limit: usize,
        newest: usize,
        forgotten: &mut u64,
    ) -> Vec<StreamId> {
        let Some(state) = self.store.arena_mut(arena).filter(|it| it.tombstones() > limit) else {
            return Vec::new();
        };
        let removals_to = state
            .wildcards
            .iter()
            .filter_map(|(_, &session)| self.sessions.at(session)?.tombstones_seen_to(state))
            .min()
            .unwrap_or_else(|| state.clock());
        state.drop_tombstones_up_to(removals_to);
        if state.tombstones() <= limit {
            return Vec::new();
        }
        let kept = newest.max(limit / 2);
        *forgotten += state.tombstones().saturating_sub(kept) as u64;
        state.trim_tombstones(kept);
        self.streams_lagging_behind(arena)
    }

    /// Drops tombstones up to a revision. Removals withheld from a client become deferred
    /// removals of its session. Returns the streams left behind.
    pub(crate) fn drop_tombstones_until(
        &mut self,
        arena: Slot,
        until: Revision,
        forgotten: &mut u64,
    ) -> Vec<StreamId> {
        let Some(state) = self.store.arena(arena) else { return Vec::new() };
        let wildcards: Vec<Slot> = state.wildcards.iter().map(|(_, &session)| session).collect();
        let mut removals_to = until;
        for session in wildcards {
            let Some(mut context) = self.context(session) else { continue };
            let seen =
                |context: &SessionContext<'_>| context.session.tombstones_seen_to(context.arena);
            if seen(&context).is_some_and(|seen| seen < until)
                && context.session.withholds_removals(context.arena)
            {
                context.defer_wildcard_removals();
            }
            removals_to = removals_to.min(seen(&context).unwrap_or(until));
        }
        let Some(state) = self.store.arena_mut(arena) else { return Vec::new() };
        *forgotten += state.tombstones_between(removals_to, until) as u64;
        state.drop_tombstones_up_to(until);
        self.streams_lagging_behind(arena)
    }

    fn streams_lagging_behind(&self, arena: Slot) -> Vec<StreamId> {
        let Some(state) = self.store.arena(arena) else { return Vec::new() };
        let lagging = |&session: &Slot| {
            let session = self.sessions.at(session)?;
            let lags = session.removals_to(state).is_some_and(|it| it < state.horizon());
            lags.then_some(session.stream)
        };
        state.wildcards.iter().filter_map(|(_, session)| lagging(session)).collect()
    }

    pub(crate) fn status<'a>(
        &'a self,
        slot: Slot,
        node_id: &'a str,
    ) -> Option<SubscriptionStatus<'a>> {
        let SessionView { session, arena, .. } = SessionView::of(slot, self)?;
        Some(SubscriptionStatus {
            stream: session.stream,
            node_id,
            view: &self.store.view(arena.view)?.name,
            type_url: &arena.type_url,
            subscribed: session.subscribed_names(),
            state: session.sync_state(),
            sent_version: session.sent_version().map(|it| session.version_text(it, arena)),
            acked_version: session.accepted_version().map(|it| session.version_text(it, arena)),
            responses: session.counters.responses.get(),
            acks: session.counters.acks.get(),
            nacks: session.counters.nacks.get(),
            last_error: session.last_error(),
            rejected_resources: session
                .rejected_resources()
                .filter(|(name, hash)| arena.has(name, *hash))
                .map(|(name, _)| name)
                .collect(),
        })
    }
}
