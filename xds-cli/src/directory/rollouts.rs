//! Changes of a source that are rolled out.
//!
//! A change that only sets endpoints is applied at once. Any other one is rolled out together with all
//! that the stable views lack of the source: snapshots of their views.

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

use super::{follow::SourceFollower, reload::Reload, sources::Changes};
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

/// What an earlier process has left in the directory.
#[derive(Debug, Default)]
pub(crate) struct RestoredRollouts {
    /// State, if there is one.
    pub(crate) state: Option<RolloutState>,
    /// Newest contents that were rolled out. The source is compared with them.
    newest: Vec<StoredResource>,
    /// Number of these contents.
    id: RolloutId,
    /// Views that the stable contents have otherwise.
    differing: BTreeSet<ViewName>,
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
        Ok(Self { state: Some(state), newest, id, differing })
    }
}

type Read = (RolloutState, Vec<StoredResource>, Vec<StoredResource>);

fn read(directory: &RolloutDirectory) -> Result<Option<Read>, RestoreError> {
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
fn snapshots(
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
    fn continues(&self) -> bool {
        self.restored.state.is_some()
    }

    /// Returns the views that the stable contents have otherwise than the newest ones.
    fn pending(&self) -> BTreeSet<ViewName> {
        let is_stable =
            self.states.borrow().as_ref().is_some_and(|it| it.stable >= self.restored.id);
        if is_stable { BTreeSet::new() } else { self.restored.differing.clone() }
    }

    /// Saves contents with the next number.
    async fn save(&self, resources: Vec<StoredResource>) -> io::Result<RolloutId> {
        let stored = self.states.borrow().as_ref().map_or(0, |it| it.id.0);
        let id = RolloutId(self.restored.id.0.max(stored) + 1);
        let directory = Arc::clone(&self.directory);
        let saved = spawn_blocking(move || directory.save_contents(id, &resources)).await;
        saved.map_err(io::Error::other)??;
        Ok(id)
    }
}

impl SourceFollower {
    /// Returns the transactions of a change: snapshots if it is rolled out.
    pub(super) fn transactions(&self, change: &Changes) -> Vec<Transaction> {
        let revision = self.origin.revision();
        match &self.rollouts {
            Some(rollouts) if self.is_rolled_out(change) => {
                let views = change.views().into_iter().chain(rollouts.pending()).collect();
                snapshots(&self.sources.contents(), &views, revision.unwrap_or_default())
            }
            _ => change.clone().into_transactions(revision),
        }
    }

    fn is_rolled_out(&self, change: &Changes) -> bool {
        let is_first = self.waiting.is_some();
        self.rollouts.as_ref().is_some_and(|it| !is_first || it.continues())
            && !change.is_empty()
            && !change.is_endpoints_only()
    }

    /// Applies a change or starts its rollout.
    pub(super) async fn serve_or_roll_out(&mut self, change: Changes) -> Reload {
        if !self.is_rolled_out(&change) {
            let is_first = self.waiting.is_some();
            let served = self.serve(change).await;
            return match is_first && served.applied.is_some() {
                true => self.begin_rollouts(served).await,
                false => served,
            };
        }
        // After a restart, a change has all that has happened meanwhile.
        let (endpoints, rest) = match self.waiting {
            Some(_) => change.split_endpoints(),
            None => (Changes::default(), change),
        };
        if let Err(failed) = self.apply_all(endpoints).await {
            return failed;
        }
        self.roll_out(&rest).await
    }

    /// Stores that the first resources are stable.
    async fn begin_rollouts(&mut self, served: Reload) -> Reload {
        let Some(rollouts) = self.rollouts.as_mut().filter(|it| !it.continues()) else {
            return served;
        };
        let begin = async {
            let id = rollouts.save(self.sources.contents()).await?;
            let (directory, state) = (Arc::clone(&rollouts.directory), RolloutState::initial(id));
            let stored = state.clone();
            let stored = spawn_blocking(move || directory.replace(&stored)).await;
            stored.map_err(io::Error::other)??;
            rollouts.restored.id = id;
            let news = SharedNews::Observed(state);
            self.server.rollout_news(news).await.map_err(io::Error::other)
        };
        if let Err(why) = begin.await {
            let mut failed = self.report(format!("the state of rollouts cannot be stored: {why}"));
            failed.errors.extend(served.errors);
            return Reload { errors: failed.errors, ..served };
        }
        served
    }

    async fn roll_out(&mut self, change: &Changes) -> Reload {
        let transactions = self.transactions(change);
        let Some(rollouts) = &mut self.rollouts else { return Reload::default() };
        let views = change.views().into_iter().chain(rollouts.pending()).collect();
        let id = match rollouts.save(self.sources.contents()).await {
            Ok(id) => id,
            Err(why) => return self.report(format!("the rollout cannot be stored: {why}")),
        };
        let policy = rollouts.settings.policy.clone();
        match self.server.rollout_numbered(id, transactions, policy, None).await {
            Ok(rollout) => {
                (rollouts.restored.id, rollouts.restored.differing) = (id, views);
                // An error means that the process ends.
                let _ = rollouts.started.send(rollout);
                Reload { rollout: Some(id), ..self.served(change, None).await }
            }
            Err(RolloutError::Start(why)) => self.report(why.to_string()),
            Err(_) => Reload::default(),
        }
    }
}
