//! Application's handle of a rollout.

use thiserror::Error;
use tokio::sync::watch;
use xds_core::{
    rollout::{
        CommandError, MetricVerdict, RolloutCommand, RolloutId, RolloutPolicy, RolloutProgress,
        RolloutState, StartError,
    },
    server::{Server, Transaction, TransactionError},
};

use super::{ServerEnded, ServerHandle};
use crate::server::driver::rollouts::{HostedRollouts, Report, Watched};

/// Reason for which a rollout did not start, or has not applied its change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RolloutError {
    /// The policy or the change is invalid. Nothing has changed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The clients of all steps accepted the change, but it could not be applied for the others,
    /// because the server's resources have changed meanwhile. All clients have the earlier
    /// resources.
    #[error("the accepted change cannot be applied: {0}")]
    Apply(TransactionError),
    /// The change was merged into a newer rollout while it waited.
    #[error("the change is part of a newer rollout")]
    Merged,
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Reason for which a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RolloutCommandError {
    /// The command is not possible in the current phase of the rollout, or the rollout has ended.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Handle of a rollout ([`ServerHandle::rollout`]). Dropping it does not end the rollout.
#[derive(Clone, Debug)]
pub struct RolloutHandle {
    id: RolloutId,
    server: ServerHandle,
    reports: watch::Receiver<Report>,
}

impl RolloutHandle {
    fn new((id, mut reports): Watched, server: ServerHandle) -> Self {
        // The first progress is new to the handle.
        reports.mark_changed();
        Self { id, server, reports }
    }

    /// Returns the id of the rollout. Later rollouts of the server have greater ids.
    #[must_use]
    pub const fn id(&self) -> RolloutId {
        self.id
    }

    /// Waits for a change of the progress and returns the newest one. The first call returns the
    /// current progress immediately.
    ///
    /// The last progress has the phase
    /// [`Completed`](xds_core::rollout::RolloutPhase::Completed) or
    /// [`RolledBack`](xds_core::rollout::RolloutPhase::RolledBack). After it, or if the server has
    /// ended, this returns `None`.
    pub async fn next(&mut self) -> Option<RolloutProgress> {
        while self.reports.changed().await.is_ok() {
            let report = self.reports.borrow_and_update();
            if report.progress.is_some() {
                return report.progress.clone();
            }
        }
        None
    }

    /// Waits until the rollout has ended, and returns its last progress.
    ///
    /// # Errors
    ///
    /// Returns an error if the accepted change could not be applied, if it was merged into a newer
    /// rollout while it waited, or if the server has ended.
    pub async fn ended(&self) -> Result<RolloutProgress, RolloutError> {
        let mut reports = self.reports.clone();
        while reports.changed().await.is_ok() {}
        let Report { progress, error } = reports.borrow().clone();
        match (progress, error) {
            (_, Some(error)) => Err(RolloutError::Apply(error)),
            (Some(progress), None) if progress.phase.is_final() => Ok(progress),
            (None, None) if !self.server.has_ended() => Err(RolloutError::Merged),
            _ => Err(ServerEnded.into()),
        }
    }

    /// Pauses the rollout at the current step until [`resume`](Self::resume). A rejection halts a
    /// paused rollout too.
    ///
    /// # Errors
    ///
    /// Returns an error if the rollout is not under way, if it is paused or halted already, or if the
    /// server has ended.
    pub async fn pause(&self) -> Result<(), RolloutCommandError> {
        self.command(RolloutCommand::Pause).await
    }

    /// Resumes a paused or halted rollout: the current step starts again.
    ///
    /// # Errors
    ///
    /// Returns an error if the rollout is neither paused nor halted, or if the server has ended.
    pub async fn resume(&self) -> Result<(), RolloutCommandError> {
        self.command(RolloutCommand::Resume).await
    }

    /// Rolls the change back: all clients get the earlier resources.
    ///
    /// # Errors
    ///
    /// Returns an error if the rollout is not under way, or if the server has ended.
    pub async fn abort(&self) -> Result<(), RolloutCommandError> {
        self.command(RolloutCommand::Abort).await
    }

    /// Applies the change for all clients now.
    ///
    /// # Errors
    ///
    /// Returns an error if the rollout is not under way, or if the server has ended.
    pub async fn promote(&self) -> Result<(), RolloutCommandError> {
        self.command(RolloutCommand::Promote).await
    }

    /// Reports the verdict of an external metric that the policy names. [`Bad`](MetricVerdict::Bad)
    /// halts the rollout at any time, and [`Good`](MetricVerdict::Good) counts at the end of a
    /// soak. Does nothing if the policy does not name the metric, or if the rollout has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn metric(
        &self,
        name: impl Into<String>,
        verdict: MetricVerdict,
    ) -> Result<(), ServerEnded> {
        let (id, name) = (self.id, name.into());
        let note = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            rollouts.metric(server, id, &name, verdict, now);
        };
        self.server.with_rollouts(note).await
    }

    async fn command(&self, command: RolloutCommand) -> Result<(), RolloutCommandError> {
        let id = self.id;
        let call = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            rollouts.command(server, id, command, now)
        };
        Ok(self.server.with_rollouts(call).await??)
    }
}

impl ServerHandle {
    /// Rolls out a change: it is first served to the cohort of the policy's first step, and to
    /// further cohorts as clients accept it. If a condition of the policy is violated, for example
    /// because a client rejects the change, the cohort gets the earlier resources back.
    ///
    /// Transactions for the same view are applied in the given order. During the rollout, the
    /// cohort sees copies of the views that contain the change. These copies appear in
    /// [`views`](Self::views), and their resources count towards the limits of the server. Changes
    /// that are [applied](Self::apply) meanwhile reach all clients at once. If they change the same
    /// resources as the rollout, they take precedence.
    ///
    /// If another rollout is under way, the policy decides whether this one supersedes it or waits
    /// ([`RolloutPolicy::on_newer`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the policy or the change is invalid, or if the server has ended. A
    /// policy with conditions on the node, including its id, is invalid unless
    /// [`ServerOptions::node_detail`](crate::server::ServerOptions::node_detail) is
    /// [`NodeDetail::Full`](xds_core::rollout::NodeDetail::Full).
    pub async fn rollout(
        &self,
        change: Vec<Transaction>,
        policy: RolloutPolicy,
    ) -> Result<RolloutHandle, RolloutError> {
        self.start_rollout(None, change, policy, None).await
    }

    /// Rolls out a change under an id that the source assigns, or continues the rollout with this
    /// id. See [`rollout`](Self::rollout).
    ///
    /// With [`Sharing::Replicas`](xds_core::rollout::Sharing::Replicas)
    /// ([`ServerOptions::rollout_sharing`](crate::server::ServerOptions::rollout_sharing)), each
    /// transaction must be a [snapshot](Transaction::snapshot), and the application must store the
    /// states that [`shared_rollouts`](Self::shared_rollouts) returns. `stored` is the state in the
    /// source; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`rollout`](Self::rollout). Also fails if a newer rollout was started
    /// already, or if the stored state belongs to a policy with another number of steps.
    pub async fn rollout_numbered(
        &self,
        id: RolloutId,
        change: Vec<Transaction>,
        policy: RolloutPolicy,
        stored: Option<RolloutState>,
    ) -> Result<RolloutHandle, RolloutError> {
        self.start_rollout(Some(id), change, policy, stored).await
    }

    async fn start_rollout(
        &self,
        id: Option<RolloutId>,
        change: Vec<Transaction>,
        policy: RolloutPolicy,
        stored: Option<RolloutState>,
    ) -> Result<RolloutHandle, RolloutError> {
        let start = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            rollouts.start(server, id, change, policy, stored, now)
        };
        let watched = self.with_rollouts(start).await??;
        Ok(RolloutHandle::new(watched, self.clone()))
    }

    /// Returns a handle of the current rollout, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn rollout_under_way(&self) -> Result<Option<RolloutHandle>, ServerEnded> {
        let watch = |rollouts: &mut HostedRollouts, _: &mut Server, _| rollouts.under_way();
        let watched = self.with_rollouts(watch).await?;
        Ok(watched.map(|watched| RolloutHandle::new(watched, self.clone())))
    }
}
