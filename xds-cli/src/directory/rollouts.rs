//! Rollouts of the changes of a source: their state, and what an earlier process has left.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use thiserror::Error;
use tokio::{sync::mpsc::UnboundedSender, task::spawn_blocking};
use xds_core::{
    ViewName,
    rollout::{RolloutId, RolloutState},
    server::Transaction,
};
use xds_source::{Revision, RolloutDirectory, StoredResource};
use xds_tokio::{
    ServerHandle,
    server::{ApplyError, RolloutError, RolloutHandle, ServerEnded, SharedNews},
};

use crate::rollouts::{RolloutSettings, RolloutStates};

/// Rollouts of the changes of a source.
#[derive(Debug)]
pub(crate) struct FollowedRollouts {
    pub(crate) settings: Arc<RolloutSettings>,
    pub(crate) directory: Arc<RolloutDirectory>,
    /// Newest stored state.
    pub(crate) states: RolloutStates,
    /// Receiver of the rollouts that have started.
    pub(crate) started: UnboundedSender<RolloutHandle>,
    pub(crate) restored: RestoredRollouts,
}

/// State and resources that an earlier process has left in the directory.
#[derive(Debug, Default)]
pub(crate) struct RestoredRollouts {
    /// State, if there is one.
    pub(crate) state: Option<RolloutState>,
    /// Newest contents that were rolled out. The source is compared with them.
    newest: Vec<StoredResource>,
    /// Number of these contents.
    pub(super) id: RolloutId,
    /// Views that the stable contents have otherwise.
    pub(super) differing: BTreeSet<ViewName>,
    /// Whether the stable contents could not be stored: a restart would serve nothing in their place,
    /// so no change is rolled out.
    pub(super) lacks_stable: bool,
}

/// Reason for which rollouts cannot continue.
#[derive(Debug, Error)]
pub(crate) enum RestoreError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0} lacks the resources with the number {1}, which its state names")]
    NoContents(String, u64),
    #[error("the resources of an earlier state are not accepted: {0}")]
    Apply(#[from] ApplyError),
    #[error("{0}; or end the rollout first: xds rollout abort (or promote) DIR")]
    Rollout(RolloutError),
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

impl RestoredRollouts {
    /// Reads what a directory has, and gives it to the server: the stable resources, and the rollout
    /// that is under way.
    pub(crate) async fn restore(
        directory: &Arc<RolloutDirectory>,
        settings: &RolloutSettings,
        server: &ServerHandle,
        started: &UnboundedSender<RolloutHandle>,
    ) -> Result<Self, RestoreError> {
        let from = Arc::clone(directory);
        let read = spawn_blocking(move || read(&from)).await.map_err(io::Error::other)?;
        let Some((state, stable, newest)) = read? else { return Ok(Self::default()) };
        let views = views_of(&stable).into_iter().chain(views_of(&newest)).collect();
        for transaction in snapshots(&stable, &views_of(&stable), Revision::default()) {
            server.apply(transaction).await?;
        }
        let differing = differing(&stable, &newest, views);
        server.rollout_news(SharedNews::Observed(state.clone())).await?;
        let id = state.id;
        if !state.phase.is_final() {
            let change = snapshots(&newest, &differing, Revision::default());
            let policy = settings.policy.clone();
            let rollout = server.rollout_numbered(id, change, policy, Some(state.clone())).await;
            let rollout = rollout.map_err(RestoreError::Rollout)?;
            // An error means that the process ends.
            let _ = started.send(rollout);
        }
        Ok(Self { state: Some(state), newest, id, differing, lacks_stable: false })
    }
}

type StateWithContents = (RolloutState, Vec<StoredResource>, Vec<StoredResource>);

/// Reads the state, its stable resources and its newest ones.
fn read(directory: &RolloutDirectory) -> Result<Option<StateWithContents>, RestoreError> {
    let Some(state) = directory.state()? else { return Ok(None) };
    let contents = |id: RolloutId| {
        let lacks = || RestoreError::NoContents(directory.state_file().display().to_string(), id.0);
        directory.contents(id)?.ok_or_else(lacks)
    };
    let (stable, newest) = (contents(state.stable)?, contents(state.id)?);
    Ok(Some((state, stable, newest)))
}

fn views_of(resources: &[StoredResource]) -> BTreeSet<ViewName> {
    resources.iter().map(|it| it.view.clone()).collect()
}

/// Returns the views whose resources differ.
fn differing(
    a: &[StoredResource],
    b: &[StoredResource],
    views: BTreeSet<ViewName>,
) -> BTreeSet<ViewName> {
    let of = |resources: &[StoredResource]| {
        let mut by_view: BTreeMap<ViewName, BTreeMap<_, _>> = BTreeMap::new();
        for it in resources {
            let key = (it.type_url.clone(), it.name.clone());
            by_view.entry(it.view.clone()).or_default().insert(key, it.bytes.clone());
        }
        by_view
    };
    let (a, b) = (of(a), of(b));
    views.into_iter().filter(|view| a.get(view) != b.get(view)).collect()
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

impl FollowedRollouts {
    /// Takes the contents with which the source is compared.
    pub(super) fn take_newest(&mut self) -> Vec<StoredResource> {
        core::mem::take(&mut self.restored.newest)
    }

    /// Whether an earlier process has left a state.
    pub(super) fn continues(&self) -> bool {
        self.restored.state.is_some()
    }

    /// Returns the views that the stable contents have otherwise than the newest ones.
    pub(super) fn pending(&self) -> BTreeSet<ViewName> {
        let is_stable =
            self.states.borrow().as_ref().is_some_and(|it| it.stable >= self.restored.id);
        if is_stable { BTreeSet::new() } else { self.restored.differing.clone() }
    }

    /// Saves contents with the next number.
    pub(super) async fn save(&self, resources: Vec<StoredResource>) -> io::Result<RolloutId> {
        let stored = self.states.borrow().as_ref().map_or(0, |it| it.id.0);
        let id = RolloutId(self.restored.id.0.max(stored) + 1);
        let directory = Arc::clone(&self.directory);
        let saved = spawn_blocking(move || directory.save_contents(id, &resources)).await;
        saved.map_err(io::Error::other)??;
        Ok(id)
    }
}
