//! Changes of a source that are rolled out.
//!
//! A change that only sets endpoints is applied at once. Any other one is rolled out together with all
//! that the stable views lack of the source: snapshots of their views.

use std::{io, sync::Arc};

use tokio::task::spawn_blocking;
use xds_core::{rollout::RolloutState, server::Transaction};
use xds_tokio::server::{RolloutError, SharedNews};

use super::{follow::SourceFollower, reload::Reload, rollouts::snapshots, sources::Changes};

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
            rollouts.restored.lacks_stable = true;
            let mut failed = self.report(format!("the state of rollouts cannot be stored: {why}"));
            failed.errors.extend(served.errors);
            return Reload { errors: failed.errors, ..served };
        }
        served
    }

    async fn roll_out(&mut self, change: &Changes) -> Reload {
        let transactions = self.transactions(change);
        let Some(rollouts) = &mut self.rollouts else { return Reload::default() };
        if rollouts.restored.lacks_stable {
            let why = "no change is rolled out, because the state of rollouts could not be stored at \
                       the start: repair the directory of --state and start again";
            return self.report(why.to_owned());
        }
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
