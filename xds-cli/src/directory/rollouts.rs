//! Rollouts of the changes of a source: what the servers that share it have agreed on.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use thiserror::Error;
use tokio::{sync::mpsc::UnboundedSender, time::Instant};
use xds_core::{
    ViewName,
    rollout::{RolloutId, RolloutState, StoreResult},
    server::Transaction,
    types,
};
use xds_source::{Revision, RolloutStore, SourceError, StoredResource};
use xds_tokio::{
    ServerHandle,
    server::{ApplyError, RolloutError, RolloutHandle, ServerEnded, SharedNews},
};

use super::{parse::Key, sources::ChangedResources};
use crate::rollouts::{RolloutSettings, RolloutStates};

/// Rollouts of the changes of a source.
#[derive(Debug)]
pub(crate) struct FollowedRollouts {
    pub(crate) settings: Arc<RolloutSettings>,
    pub(crate) store: Arc<dyn RolloutStore>,
    /// Newest stored state, as the store reports it.
    pub(crate) states: RolloutStates,
    /// Receiver of the rollouts that have started.
    pub(crate) started: UnboundedSender<RolloutHandle>,
    pub(crate) known: KnownRollouts,
}

/// Numbers and resources that this server has of the rollouts.
#[derive(Debug, Default)]
pub(crate) struct KnownRollouts {
    /// Newest state that was read.
    state: Option<RolloutState>,
    /// Number of the newest contents that this server has served or rolled out; 0 before the first.
    pub(super) newest: RolloutId,
    /// Numbers whose contents the server has as stable ones, or will have as soon as a state says so.
    reachable: BTreeSet<RolloutId>,
    /// Views whose stable contents differ from the newest ones.
    differing: BTreeSet<ViewName>,
    /// Contents with the newest number, if an earlier process or another server has rolled them out.
    restored: Vec<StoredResource>,
    /// First contents, if they could not be stored: a restart would serve nothing in their place, so no
    /// change is rolled out.
    unstored: Option<(RolloutId, Vec<StoredResource>)>,
    /// Revision of the source at which its contents have changed last, or at which it was read as a whole.
    pub(super) changed_at: Revision,
    /// If it was read as a whole: the greatest revision of an object, which is the same at all servers
    /// that read the same objects. It says nothing of deletions.
    pub(super) newest_object: Option<Revision>,
    /// Whether the next change has several changes of its author: the source was read as a whole, or an
    /// earlier change has not been rolled out.
    pub(super) is_merged: bool,
    /// Time at which a state was first seen whose change this server lacks.
    lacking_since: Option<Instant>,
    /// Time at which the source is examined again.
    pub(super) retry_at: Option<Instant>,
    /// Failure that was reported, as long as it lasts.
    pub(super) last_failure: Option<String>,
}

/// Reason for which rollouts cannot continue.
#[derive(Debug, Error)]
pub(crate) enum RolloutFailure {
    #[error(transparent)]
    Store(#[from] SourceError),
    #[error("the resources with the number {0}, which the state of the rollout names, are missing")]
    NoContents(u64),
    #[error(
        "the stored rollout has the number {id}, and the source is only at revision {newest}: it is of \
         another history, such as that of a cluster from which the keys were copied. Delete it (in \
         etcd, the keys below PREFIX/@rollout/) and restart the servers"
    )]
    OtherHistory { id: u64, newest: u64 },
    #[error("the resources of an earlier state are not accepted: {0}")]
    Apply(#[from] ApplyError),
    #[error("{0}; or end the rollout first: xds rollout abort (or promote)")]
    Rollout(RolloutError),
    #[error("the state of the rollout cannot be stored now")]
    Unavailable,
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Time that the source has to report a change which another server has begun to roll out.
const GRACE: Duration = Duration::from_secs(2);
/// Time until a failed call to the store is repeated.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Number of attempts to read resources of which other servers delete the older ones.
const ATTEMPTS: u32 = 5;

impl FollowedRollouts {
    /// Whether no state was read or stored yet.
    pub(super) fn is_new(&self) -> bool {
        self.known.newest == RolloutId::default()
    }

    /// Reads the newest state, and passes it on to the server.
    pub(super) async fn read_state(&mut self, server: &ServerHandle) -> Result<(), RolloutFailure> {
        if let Some(state) = self.store.state().await? {
            self.note(state.clone());
            server.rollout_news(SharedNews::Observed(state)).await?;
        }
        Ok(())
    }

    /// Gives the server what an earlier process has left, before the source is read.
    pub(crate) async fn restore(&mut self, server: &ServerHandle) -> Result<(), RolloutFailure> {
        self.read_state(server).await?;
        match self.lacking() {
            Some(state) => self.adopt(state, Revision::default(), &[], server).await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns the newest state that is known.
    pub(super) fn state(&mut self) -> Option<&RolloutState> {
        let reported = self.states.borrow().clone();
        if let Some(state) = reported {
            self.note(state);
        }
        self.known.state.as_ref()
    }

    fn note(&mut self, state: RolloutState) {
        if self.known.state.as_ref().is_none_or(|it| it.generation < state.generation) {
            self.known.reachable.retain(|it| *it >= state.stable);
            self.known.state = Some(state);
        }
    }

    /// Returns the newest state, if this server lacks a change that it names: another server has begun to
    /// roll it out, or has completed it.
    pub(super) fn lacking(&mut self) -> Option<RolloutState> {
        let state = self.state()?.clone();
        let KnownRollouts { newest, reachable, .. } = &self.known;
        let is_newer = state.id > *newest;
        // While a rollout is under way, the server continues from what it has.
        let is_other =
            state.id == *newest && state.phase.is_final() && !reachable.contains(&state.stable);
        if is_newer || is_other {
            return Some(state);
        }
        self.known.lacking_since = None;
        None
    }

    /// Whether a change that this server lacks is the one that its source has now, and the only one that
    /// it lacks.
    pub(super) fn is_of_source(&self, state: &RolloutState) -> bool {
        let RolloutState { id, stable, .. } = *state;
        let has_stable = stable == id || self.known.reachable.contains(&stable);
        self.store.is_shared() && id == self.next_id() && has_stable
    }

    /// Whether to wait for the source before a change is read from the store: the change usually arrives
    /// a moment later, and is then rolled out.
    pub(super) fn waits_for(&mut self, state: &RolloutState, reached: Revision) -> bool {
        if self.is_new() || reached.0 >= state.id.0 && !self.is_of_source(state) {
            return false;
        }
        let since = *self.known.lacking_since.get_or_insert_with(Instant::now);
        self.known.retry_at = Some(since + GRACE);
        since.elapsed() < GRACE
    }

    /// Gives the server what a state names: its stable resources, and the rollout that is under way. The
    /// endpoints of the source are newer than those that were stored with the contents. Returns
    /// what the rollout changes, if one has begun.
    pub(super) async fn adopt(
        &mut self,
        state: RolloutState,
        reached: Revision,
        current: &[StoredResource],
        server: &ServerHandle,
    ) -> Result<Option<ChangedResources>, RolloutFailure> {
        let (state, mut stable, mut newest) = self.read_contents(state).await?;
        let is_behind = reached.0 < state.id.0;
        for contents in [&mut stable, &mut newest] {
            update_endpoints(contents, current, is_behind);
        }
        let of = |id: RolloutId| match self.store.is_shared() {
            true => Revision(id.0.max(reached.0)),
            false => Revision::default(),
        };
        // A rollout under way ends, as it has become an older one.
        server.rollout_news(SharedNews::Observed(state.clone())).await?;
        let current = views_of(current);
        let views = views_of(&stable).into_iter().chain(current).collect();
        for transaction in snapshots(&stable, &views, of(state.stable)) {
            server.apply(transaction).await?;
        }
        let (changes, differing) = differences(&stable, &newest);
        let begins = state.id > self.known.newest && !state.phase.is_final();
        if begins {
            let change = snapshots(&newest, &differing, of(state.id));
            let policy = self.settings.policy.clone();
            let rollout =
                server.rollout_numbered(state.id, change, policy, Some(state.clone())).await;
            // An error means that the process ends.
            let _ = self.started.send(rollout.map_err(RolloutFailure::Rollout)?);
        }
        // A server that cannot continue the rollout, because its policy is another one, does not take
        // part: the others would wait for its reports, and halt.
        self.store.join();
        self.known.newest = state.id;
        self.known.reachable = [state.stable, state.id].into();
        self.known.differing = differing;
        self.known.restored = newest;
        (self.known.lacking_since, self.known.last_failure) = (None, None);
        Ok(begins.then_some(changes))
    }

    /// Reads the stable and the newest resources of a state, or of a newer one.
    async fn read_contents(
        &self,
        mut state: RolloutState,
    ) -> Result<(RolloutState, Vec<StoredResource>, Vec<StoredResource>), RolloutFailure> {
        let mut attempt = 0;
        loop {
            let stable = self.store.contents(state.stable).await?;
            let newest = match state.id == state.stable {
                true => stable.clone(),
                false => self.store.contents(state.id).await?,
            };
            let missing = match (stable, newest) {
                (Some(stable), Some(newest)) => return Ok((state, stable, newest)),
                (None, _) => state.stable,
                _ => state.id,
            };
            // Those that a newer state does not name are deleted.
            attempt += 1;
            match self.store.state().await? {
                Some(newer) if newer != state && attempt < ATTEMPTS => state = newer,
                _ => return Err(RolloutFailure::NoContents(missing.0)),
            }
        }
    }

    /// Takes the contents with which the source is compared, after they were adopted.
    pub(super) fn take_restored(&mut self) -> Vec<StoredResource> {
        core::mem::take(&mut self.known.restored)
    }

    /// Stores that the first contents are stable. Returns false if another server was faster.
    pub(super) async fn begin(
        &mut self,
        contents: Vec<StoredResource>,
        server: &ServerHandle,
    ) -> Result<bool, RolloutFailure> {
        let (id, contents) = match self.known.unstored.take() {
            Some(unstored) => unstored,
            None => (self.next_id(), contents),
        };
        let stored = self.store_first(id, &contents, server).await;
        match &stored {
            Ok(true) => {
                self.known.newest = id;
                self.known.reachable.insert(id);
                self.known.last_failure = None;
                self.store.join();
            }
            Ok(false) => {}
            Err(_) => self.known.unstored = Some((id, contents)),
        }
        stored
    }

    async fn store_first(
        &mut self,
        id: RolloutId,
        contents: &[StoredResource],
        server: &ServerHandle,
    ) -> Result<bool, RolloutFailure> {
        self.store.save_contents(id, contents).await?;
        let state = RolloutState::initial(id);
        let (state, is_first) = match self.store.replace(&state).await? {
            StoreResult::Stored => (state, true),
            StoreResult::Conflict(state) => (state, false),
            _ => return Err(RolloutFailure::Unavailable),
        };
        self.note(state.clone());
        server.rollout_news(SharedNews::Observed(state)).await?;
        Ok(is_first)
    }

    /// Whether the first contents could not be stored.
    pub(super) fn lacks_first(&self) -> bool {
        self.known.unstored.is_some()
    }

    /// Returns the number of the change that the source has now.
    fn next_id(&self) -> RolloutId {
        if self.store.is_shared() {
            let KnownRollouts { newest, changed_at, newest_object, .. } = self.known;
            let of_object = newest_object.filter(|it| it.0 > newest.0);
            return RolloutId(of_object.unwrap_or(changed_at).0);
        }
        let stored = self.known.state.as_ref().map_or(0, |it| it.id.0);
        RolloutId(self.known.newest.0.max(stored) + 1)
    }

    /// Whether the newest number has the contents of the source already, or newer ones.
    pub(super) fn includes_source(&self) -> bool {
        self.store.is_shared() && !self.is_new() && self.next_id() <= self.known.newest
    }

    /// Saves the contents of a change, and begins its rollout.
    pub(super) async fn start(
        &mut self,
        contents: Vec<StoredResource>,
        change: Vec<Transaction>,
        views: BTreeSet<ViewName>,
        server: &ServerHandle,
    ) -> Result<RolloutId, RolloutFailure> {
        let id = self.next_id();
        self.store.save_contents(id, &contents).await?;
        let (policy, state) = (self.settings.policy.clone(), self.state().cloned());
        let rollout = server.rollout_numbered(id, change, policy, state).await;
        // An error means that the process ends.
        let _ = self.started.send(rollout.map_err(RolloutFailure::Rollout)?);
        self.known.newest = id;
        self.known.reachable.insert(id);
        self.known.differing = views;
        self.known.last_failure = None;
        Ok(id)
    }

    /// Returns the views whose stable contents differ from the newest ones.
    pub(super) fn pending(&self) -> BTreeSet<ViewName> {
        let is_stable = |it: &RolloutState| it.stable >= self.known.newest;
        let reported = self.states.borrow();
        match reported.iter().chain(&self.known.state).any(is_stable) {
            true => BTreeSet::new(),
            false => self.known.differing.clone(),
        }
    }
}

fn views_of(resources: &[StoredResource]) -> BTreeSet<ViewName> {
    resources.iter().map(|it| it.view.clone()).collect()
}

/// Replaces the endpoints of stored contents by those of the source, and keeps others only if asked to.
fn update_endpoints(
    contents: &mut Vec<StoredResource>,
    current: &[StoredResource],
    keeps_others: bool,
) {
    if current.is_empty() {
        return;
    }
    let is_endpoints =
        |it: &&StoredResource| it.type_url.as_str() == types::CLUSTER_LOAD_ASSIGNMENT;
    let endpoints: Vec<_> = current.iter().filter(is_endpoints).cloned().collect();
    let names: BTreeSet<_> = endpoints.iter().map(|it| (&it.view, &it.name)).collect();
    contents
        .retain(|it| !is_endpoints(&it) || keeps_others && !names.contains(&(&it.view, &it.name)));
    contents.extend(endpoints.iter().cloned());
}

/// Returns the resources that differ, and their views.
fn differences(
    stable: &[StoredResource],
    newest: &[StoredResource],
) -> (ChangedResources, BTreeSet<ViewName>) {
    let of = |resources: &[StoredResource]| -> BTreeMap<_, _> {
        let all = resources.iter().map(|it| {
            let key = Key { type_url: it.type_url.clone(), name: it.name.clone() };
            ((it.view.clone(), key), it.bytes.clone())
        });
        all.collect()
    };
    let (stable, newest) = (of(stable), of(newest));
    let (mut changes, mut views) = (ChangedResources::default(), BTreeSet::new());
    for (place, bytes) in &newest {
        let list = match stable.get(place) {
            None => &mut changes.added,
            Some(had) if had != bytes => &mut changes.changed,
            Some(_) => continue,
        };
        list.push(place.1.clone());
        views.insert(place.0.clone());
    }
    for place in stable.keys().filter(|it| !newest.contains_key(*it)) {
        changes.removed.push(place.1.clone());
        views.insert(place.0.clone());
    }
    (changes, views)
}

/// Returns a snapshot of each of these views.
pub(super) fn snapshots(
    resources: &[StoredResource],
    views: &BTreeSet<ViewName>,
    source: Revision,
) -> Vec<Transaction> {
    let new = |view: &ViewName| {
        let mut snapshot = Transaction::snapshot(view.clone());
        snapshot.source_revision(source.0);
        (view.clone(), snapshot)
    };
    let mut snapshots: BTreeMap<ViewName, Transaction> = views.iter().map(new).collect();
    for it in resources {
        if let Some(snapshot) = snapshots.get_mut(&it.view) {
            snapshot.set(it.type_url.clone(), it.name.clone(), it.bytes.clone());
            if it.revision < source.0 {
                snapshot.changed_at(it.revision);
            }
        }
    }
    snapshots.into_values().collect()
}
