//! Changes of a source that are rolled out.
//!
//! A change that only sets endpoints is applied at once. Any other one is rolled out together with all
//! that the stable views lack of the source: snapshots of their views. Servers that share the source give a
//! change the same number, its revision. A rollout that another server has begun, of a change that this
//! one has not seen, is read from the store.

use core::future::pending;

use tokio::time::{Instant, sleep_until};
use xds_core::{
    rollout::{RolloutId, RolloutState},
    server::Transaction,
    types,
};
use xds_source::{Content, Object, Revision};
use xds_tokio::server::RolloutError;

use super::{
    follow::SourceFollower,
    reload::Reload,
    rollouts::{FollowedRollouts, RETRY, RolloutFailure, snapshots},
    sources::{Changes, Update},
};

/// Outcome of the attempt to roll out a change.
enum BeginResult {
    Began(RolloutId),
    /// The source is about to report the change of a newer rollout, which another server has begun.
    Waits,
    /// A change that another server has rolled out has to be read from the store first.
    Lacks,
}

/// Returns the greatest revision of an object that has not only endpoints.
fn newest_of(objects: &[Object]) -> Option<Revision> {
    let has_more = |it: &&Object| match &it.content {
        Content::Document { only: Some((type_url, _)), .. } => {
            type_url.as_str() != types::CLUSTER_LOAD_ASSIGNMENT
        }
        _ => true,
    };
    objects.iter().filter(has_more).map(|it| it.revision).max()
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

    /// Notes whether the next change has several changes of its author.
    pub(super) fn set_merged(&mut self, is_merged: bool) {
        if let Some(rollouts) = &mut self.rollouts {
            rollouts.known.is_merged = is_merged;
        }
    }

    fn is_rolled_out(&self, change: &Changes) -> bool {
        self.rollouts.as_ref().is_some_and(|it| !it.is_new())
            && !change.is_empty()
            && !change.is_endpoints_only()
    }

    /// Notes that the contents of the source have changed.
    pub(super) fn note_changed(&mut self, update: &Update) {
        if let Some(rollouts) = &mut self.rollouts {
            rollouts.known.changed_at = self.origin.revision().unwrap_or_default();
            rollouts.known.newest_object = match update {
                Update::All(objects) => newest_of(objects),
                _ => None,
            };
            // The files of a directory are always read as a whole.
            rollouts.known.is_merged |=
                matches!(update, Update::All(_)) && rollouts.store.is_shared();
        }
    }

    /// Waits until the source has to be examined again, because of the rollouts of other servers or
    /// because a state could not be stored.
    pub(super) async fn rollouts_due(rollouts: &mut Option<FollowedRollouts>) {
        let Some(rollouts) = rollouts else { return pending().await };
        loop {
            let retry = async {
                match rollouts.known.retry_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = retry => return,
                changed = rollouts.states.changed() => if changed.is_err() {
                    return pending().await;
                },
            }
            if rollouts.store.is_shared() && rollouts.lacking().is_some() {
                return;
            }
        }
    }

    /// Takes over what other servers, or an earlier process, have rolled out, if this one lacks it.
    /// Returns what is to be reported.
    pub(super) async fn catch_up(&mut self) -> Result<Reload, Reload> {
        if self.rollouts.as_ref().is_some_and(|it| it.lacks_first()) {
            self.begin_rollouts().await?;
        }
        let Some(rollouts) = &mut self.rollouts else { return Ok(Reload::default()) };
        rollouts.known.retry_at = None;
        if !rollouts.store.is_shared() {
            return Ok(Reload::default());
        }
        if rollouts.is_new()
            && let Err(why) = rollouts.read_state(&self.server).await
        {
            return Err(self.retry_rollouts(&why));
        }
        let reached = self.origin.revision().unwrap_or_default();
        let lacking = rollouts.lacking();
        let Some(state) = lacking.filter(|it| !rollouts.waits_for(it, reached)) else {
            return Ok(Reload::default());
        };
        // The number of a rollout is a revision of the source, which has been read after the state.
        if state.id.0 > reached.0 {
            let why = match self.origin.newest_revision().await {
                Ok(Some(newest)) if newest.0 < state.id.0 => {
                    RolloutFailure::OtherHistory { id: state.id.0, newest: newest.0 }
                }
                Ok(_) => return self.adopt(state, reached).await,
                Err(why) => why.into(),
            };
            return Err(self.retry_rollouts(&why));
        }
        self.adopt(state, reached).await
    }

    /// Takes over the state of rollouts that this server lacks. Returns what is to be reported.
    async fn adopt(&mut self, state: RolloutState, reached: Revision) -> Result<Reload, Reload> {
        let Some(rollouts) = &mut self.rollouts else { return Ok(Reload::default()) };
        let current = self.sources.contents();
        let begun = match rollouts.adopt(state, reached, &current, &self.server).await {
            Ok(begun) => begun,
            Err(why) => return Err(self.retry_rollouts(&why)),
        };
        let (id, restored) = (rollouts.known.newest, rollouts.take_restored());
        match rollouts.includes_source() && self.waiting.is_none() {
            true => self.sources.mark_served(),
            false => self.sources.restore_served(restored),
        }
        let rollout = begun.is_some().then_some(id);
        Ok(Reload { rollout, changes: begun.unwrap_or_default(), ..Reload::default() })
    }

    /// Applies a change or starts its rollout.
    pub(super) async fn serve_or_roll_out(&mut self, change: Changes) -> Reload {
        let Some(rollouts) = &self.rollouts else { return self.serve(change).await };
        if rollouts.lacks_first() {
            return self.serve_endpoints(change).await;
        }
        if rollouts.is_new() {
            return match self.begin_rollouts().await {
                Ok(true) => self.serve(change).await,
                // Another server was faster, and this one continues from its state.
                Ok(false) => self.examine_soon(),
                Err(failed) => {
                    let mut served = self.serve(change).await;
                    served.errors.splice(0..0, failed.errors);
                    served
                }
            };
        }
        if !self.is_rolled_out(&change) {
            self.set_merged(false);
            return self.serve(change).await;
        }
        if rollouts.includes_source() {
            return self.serve_endpoints(change).await;
        }
        // After a restart too, a change has all that has happened meanwhile.
        let (endpoints, rest) = match self.waiting.is_some() || rollouts.known.is_merged {
            true => change.split_endpoints(),
            false => (Changes::default(), change),
        };
        if let Err(failed) = self.apply_all(endpoints).await {
            return failed;
        }
        let rolled_out = self.roll_out(&rest).await;
        self.set_merged(rolled_out.rollout.is_none());
        rolled_out
    }

    /// Applies the endpoints of a change. The rest of it waits, or was rolled out by another server.
    async fn serve_endpoints(&mut self, change: Changes) -> Reload {
        let (endpoints, rest) = change.split_endpoints();
        let includes_rest = self.rollouts.as_ref().is_some_and(|it| it.includes_source());
        let applied = match self.apply_all(endpoints.clone()).await {
            Ok(applied) => applied,
            Err(failed) => return failed,
        };
        match includes_rest || rest.is_empty() {
            true => self.served(&endpoints, applied).await,
            false => Reload { applied, ..Reload::default() },
        }
    }

    /// Stores that the first resources are stable. Returns false if another server was faster.
    async fn begin_rollouts(&mut self) -> Result<bool, Reload> {
        let contents = self.sources.contents();
        let Some(rollouts) = &mut self.rollouts else { return Ok(true) };
        match rollouts.begin(contents, &self.server).await {
            Ok(is_first) => Ok(is_first),
            Err(why) => {
                let why =
                    format!("no change is rolled out until the first resources are stored: {why}");
                Err(self.retry_rollouts(&why))
            }
        }
    }

    async fn roll_out(&mut self, change: &Changes) -> Reload {
        let transactions = self.transactions(change);
        let contents = self.sources.contents();
        let reached = self.origin.revision().unwrap_or_default();
        let Some(rollouts) = &mut self.rollouts else { return Reload::default() };
        let started = async {
            if rollouts.store.is_shared() {
                rollouts.read_state(&self.server).await?;
                let state = rollouts.lacking().filter(|it| !rollouts.is_of_source(it));
                if let Some(state) = state {
                    return match rollouts.waits_for(&state, reached) {
                        true => Ok(BeginResult::Waits),
                        false => Ok(BeginResult::Lacks),
                    };
                }
            }
            let views = change.views().into_iter().chain(rollouts.pending()).collect();
            let id = rollouts.start(contents, transactions, views, &self.server).await?;
            Ok(BeginResult::Began(id))
        };
        match started.await {
            Ok(BeginResult::Began(id)) => {
                Reload { rollout: Some(id), ..self.served(change, None).await }
            }
            Ok(BeginResult::Lacks) => self.examine_soon(),
            Ok(BeginResult::Waits) => Reload::default(),
            Err(RolloutFailure::Ended(_) | RolloutFailure::Rollout(RolloutError::Ended(_))) => {
                Reload::default()
            }
            // It is tried again with the next change.
            Err(why @ RolloutFailure::Rollout(_)) => self.report_rollouts(why.to_string()),
            Err(why) => {
                let why = format!("the rollout cannot be stored: {why}");
                self.retry_rollouts(&why)
            }
        }
    }

    /// Has the source examined again at once.
    fn examine_soon(&mut self) -> Reload {
        if let Some(rollouts) = &mut self.rollouts {
            rollouts.known.retry_at = Some(Instant::now());
        }
        Reload::default()
    }

    /// Has the source examined again later.
    pub(super) fn retry_rollouts_later(&mut self) {
        if let Some(rollouts) = &mut self.rollouts {
            rollouts.known.retry_at = Some(Instant::now() + RETRY);
        }
    }

    /// Reports a failure, and has the source examined again later.
    fn retry_rollouts(&mut self, why: &impl ToString) -> Reload {
        self.retry_rollouts_later();
        self.report_rollouts(why.to_string())
    }

    /// Notes that nothing waits to be rolled out or to be taken over.
    pub(super) fn forget_rollout_failure(&mut self) {
        if let Some(rollouts) = &mut self.rollouts {
            rollouts.known.last_failure = None;
        }
    }

    /// Passes on to the metrics whether a change is not rolled out because of a failure.
    pub(super) fn note_rollouts(&self) {
        let last_failure = self.rollouts.as_ref().and_then(|it| it.known.last_failure.as_ref());
        self.metrics.set_rollout_failing(last_failure.is_some());
    }

    /// Reports a failure, once as long as it lasts.
    fn report_rollouts(&mut self, why: String) -> Reload {
        if let Some(rollouts) = &mut self.rollouts {
            let before = rollouts.known.last_failure.replace(why.clone());
            if before.as_ref() == Some(&why) {
                return Reload::default();
            }
        }
        self.report(why)
    }
}
