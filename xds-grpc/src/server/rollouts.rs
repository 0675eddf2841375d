//! Rollouts of a management server: the driver's part, and the application's handle.

use std::sync::Arc;

use thiserror::Error;
use tokio::{
    select,
    sync::{mpsc, watch},
};
use xds_core::{
    StreamId, Time, ViewName,
    rollout::{
        CohortReport, CommandError, MetricVerdict, NodeDetail, PeerNews, RolloutCommand,
        RolloutEvent, RolloutId, RolloutPolicy, RolloutProgress, RolloutState, ServerRollouts,
        Sharing, StartError, StoreResult,
    },
    server::{Applied, Server, ServerOutput, Transaction, TransactionError},
};

use super::handle::{ServerEnded, ServerHandle};

/// Rollouts in the driver of a server.
#[derive(Debug)]
pub(crate) struct HostedRollouts {
    rollouts: ServerRollouts,
    detail: NodeDetail,
    newest: RolloutId,
    /// Senders of the progress: of the rollout under way and of the one that waits.
    reporters: Vec<(RolloutId, watch::Sender<Report>)>,
    sharing: Sharing,
    /// Newest counts for the other replicas.
    report: watch::Sender<Option<CohortReport>>,
    /// Receiver of the states to store.
    states: Option<mpsc::Sender<RolloutState>>,
}

/// Newest progress of a rollout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Progress; `None` while the rollout waits for another one.
    progress: Option<RolloutProgress>,
    /// Reason for which the completed change could not be applied.
    error: Option<TransactionError>,
}

type Watched = (RolloutId, watch::Receiver<Report>);

impl HostedRollouts {
    pub(crate) fn new(detail: NodeDetail, sharing: Sharing) -> Self {
        Self {
            rollouts: ServerRollouts::new(detail, sharing),
            detail,
            newest: RolloutId::default(),
            reporters: Vec::new(),
            sharing,
            report: watch::Sender::default(),
            states: None,
        }
    }

    /// Whether outputs of the server matter.
    pub(crate) fn needs_outputs(&self) -> bool {
        self.detail == NodeDetail::Full || self.rollouts.rollout().is_some()
    }

    pub(crate) fn handle_output(&mut self, server: &mut Server, output: &ServerOutput, now: Time) {
        self.rollouts.handle_output(server, output, now);
        self.report(server, now);
    }

    pub(crate) fn handle_timeout(&mut self, server: &mut Server, now: Time) {
        self.rollouts.handle_timeout(server, now);
        self.report(server, now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.rollouts.poll_timeout()
    }

    pub(crate) fn assign(
        &mut self,
        server: &mut Server,
        stream: StreamId,
        view: &ViewName,
        now: Time,
    ) {
        self.rollouts.assign(server, stream, view, now);
        self.report(server, now);
    }

    pub(crate) fn set_ready(&mut self, server: &mut Server, now: Time) {
        self.rollouts.set_ready(server, now);
        self.report(server, now);
    }

    pub(crate) fn apply(
        &mut self,
        server: &mut Server,
        transaction: Transaction,
        now: Time,
    ) -> Result<Applied, TransactionError> {
        self.rollouts.apply(server, transaction, now)
    }

    fn start(
        &mut self,
        server: &mut Server,
        id: Option<RolloutId>,
        change: Vec<Transaction>,
        policy: RolloutPolicy,
        stored: Option<RolloutState>,
        now: Time,
    ) -> Result<Watched, StartError> {
        let id = id.unwrap_or(RolloutId(self.newest.0 + 1));
        self.rollouts.start(server, id, change, policy, stored, now)?;
        self.newest = id;
        let (reporter, reports) = watch::channel(Report::default());
        self.reporters.push((id, reporter));
        self.report(server, now);
        Ok((id, reports))
    }

    fn command(
        &mut self,
        server: &mut Server,
        id: RolloutId,
        command: RolloutCommand,
        now: Time,
    ) -> Result<(), CommandError> {
        if !self.is_under_way(id) {
            return Err(CommandError::NoRollout { command });
        }
        self.rollouts.command(server, command, now)?;
        self.report(server, now);
        Ok(())
    }

    fn metric(
        &mut self,
        server: &mut Server,
        id: RolloutId,
        name: &str,
        verdict: MetricVerdict,
        now: Time,
    ) {
        if self.is_under_way(id) {
            self.rollouts.metric(server, name, verdict, now);
            self.report(server, now);
        }
    }

    fn under_way(&self) -> Option<Watched> {
        let id = self.rollouts.progress()?.id;
        let (_, reporter) = self.reporters.iter().find(|(it, _)| *it == id)?;
        Some((id, reporter.subscribe()))
    }

    /// Passes a state on to the receiver. Returns whether there is one, with room for it.
    fn store(&self, state: &RolloutState) -> bool {
        self.states.as_ref().is_some_and(|it| it.try_send(state.clone()).is_ok())
    }

    fn is_under_way(&self, id: RolloutId) -> bool {
        self.rollouts.progress().is_some_and(|it| it.id == id)
    }

    fn note(&mut self, server: &mut Server, news: SharedNews, now: Time) {
        match news {
            SharedNews::Stored(state, result) => {
                self.rollouts.stored(server, &state, result, now);
            }
            SharedNews::Observed(state) => self.rollouts.observed(server, state, now),
            SharedNews::Replica(name, news) => self.rollouts.peer(server, &name, news, now),
        }
        self.report(server, now);
    }

    /// Passes events and the progress on to the handles. Those of ended rollouts get the last one.
    fn report(&mut self, server: &mut Server, now: Time) {
        while let Some(event) = self.rollouts.poll_event() {
            match event {
                RolloutEvent::Ended { progress, error } => {
                    if let Some(at) = self.reporters.iter().position(|(id, _)| *id == progress.id) {
                        let (_, reporter) = self.reporters.swap_remove(at);
                        reporter.send_replace(Report { progress: Some(progress), error });
                    }
                }
                RolloutEvent::Store(state) if !self.store(&state) => {
                    self.rollouts.stored(server, &state, StoreResult::Unavailable, now);
                }
                RolloutEvent::Report(report) => {
                    self.report.send_replace(Some(report));
                }
                _ => {}
            }
        }
        if self.reporters.is_empty() {
            return;
        }
        let (progress, waiting) = (self.rollouts.progress(), self.rollouts.queued());
        // A rollout that waits is part of a newer one that replaces it.
        self.reporters.retain(|(id, reporter)| {
            let Some(progress) = progress.as_ref().filter(|it| it.id == *id) else {
                return waiting == Some(*id);
            };
            reporter.send_if_modified(|report| {
                let is_new = report.progress.as_ref() != Some(progress);
                report.progress = Some(progress.clone());
                is_new
            });
            true
        });
    }
}

/// Event of rollouts that replicas share ([`SharedEvents`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedEvent {
    /// Replace the state in the source by this one, if the stored one has the generation before, or
    /// if there is none. Answer with [`SharedNews::Stored`].
    Store(RolloutState),
    /// Pass these counts on to the other replicas. They replace earlier ones, which a slow receiver
    /// may not get.
    Report(CohortReport),
}

/// News from the source of rollouts that replicas share ([`ServerHandle::rollout_news`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedNews {
    /// Result of storing a state ([`SharedEvent::Store`]).
    Stored(RolloutState, StoreResult),
    /// State that was read from the source. A [command](RolloutState::commanded) is one too.
    Observed(RolloutState),
    /// News of another replica, by its name.
    Replica(Arc<str>, PeerNews),
}

/// Stream of the events of rollouts that replicas share ([`ServerHandle::shared_rollouts`]).
#[derive(Debug)]
pub struct SharedEvents {
    states: mpsc::Receiver<RolloutState>,
    report: watch::Receiver<Option<CohortReport>>,
}

impl SharedEvents {
    /// Waits for the next event; `None` once the server has ended, or if there is a newer receiver.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<SharedEvent> {
        loop {
            select! {
                biased;
                state = self.states.recv() => return state.map(SharedEvent::Store),
                Ok(()) = self.report.changed() => {
                    if let Some(report) = *self.report.borrow_and_update() {
                        return Some(SharedEvent::Report(report));
                    }
                }
            }
        }
    }
}

/// Number of states that wait for their receiver. A state for which there is no room is stored later.
const WAITING_STATES: usize = 64;

/// Reason for which a rollout did not start, or has not applied its change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RolloutError {
    /// The policy or the change is invalid. Nothing has changed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The change was accepted by the clients of all steps, but could not be applied for the others,
    /// because the server's resources have changed meanwhile. All clients have the earlier resources.
    #[error("the accepted change cannot be applied: {0}")]
    Apply(TransactionError),
    /// The change is part of a newer rollout.
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
    /// The command is not possible in the phase of the rollout, or the rollout is not under way.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Handle of a rollout ([`ServerHandle::rollout`]). The rollout goes on when it is dropped.
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

    /// Returns the number of the rollout. Later rollouts of the server have greater numbers.
    #[must_use]
    pub const fn id(&self) -> RolloutId {
        self.id
    }

    /// Waits until the progress has changed and returns it; at first, the current one. Only the newest
    /// progress is kept for a slow caller.
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
    /// Returns an error if the accepted change could not be applied, if it waited and became part of
    /// a newer rollout, or if the server has ended.
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

    /// Stays at the current step until [`resume`](Self::resume). Rejections halt a paused rollout too.
    ///
    /// # Errors
    ///
    /// Returns an error if the rollout is not under way, if it is paused or halted already, or if the
    /// server has ended.
    pub async fn pause(&self) -> Result<(), RolloutCommandError> {
        self.command(RolloutCommand::Pause).await
    }

    /// Begins the current step of a paused or halted rollout anew.
    ///
    /// # Errors
    ///
    /// Returns an error if the rollout is neither paused nor halted, or if the server has ended.
    pub async fn resume(&self) -> Result<(), RolloutCommandError> {
        self.command(RolloutCommand::Resume).await
    }

    /// Rolls back: all clients get the earlier resources.
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

    /// Reports the verdict of an external metric that the policy names.
    /// [`Bad`](MetricVerdict::Bad) halts the rollout at any time, and [`Good`](MetricVerdict::Good)
    /// counts at the end of a soak. Without effect if the policy does not name the metric, or the
    /// rollout is not under way.
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
    /// Rolls out a change: the first cohort of the policy is served it, and the others follow as
    /// clients accept it. If a condition of the policy is not fulfilled, such as when a client rejects
    /// the change, the cohort gets the earlier resources back.
    ///
    /// Transactions for the same view are applied in order. While the rollout is under way, the
    /// cohort sees copies of the views with the change in place of the views themselves. They
    /// appear in [`views`](Self::views), and their resources count towards the limits of the server.
    /// Changes that are [applied](Self::apply) meanwhile reach all clients at once, in place of what
    /// the rollout changes of the same resources.
    ///
    /// If another rollout is under way, the policy decides whether this one supersedes it or waits
    /// ([`RolloutPolicy::on_newer`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the policy or the change is invalid, if the policy has conditions, also on
    /// the node id, and [`ServerOptions::node_detail`](super::ServerOptions::node_detail) is not
    /// [`NodeDetail::Full`](xds_core::rollout::NodeDetail::Full), or if the server has ended.
    pub async fn rollout(
        &self,
        change: Vec<Transaction>,
        policy: RolloutPolicy,
    ) -> Result<RolloutHandle, RolloutError> {
        self.start_rollout(None, change, policy, None).await
    }

    /// Rolls out a change with a number that the source gives it, or continues the rollout with this
    /// number. See [`rollout`](Self::rollout).
    ///
    /// With [`Sharing::Replicas`] ([`ServerOptions::rollout_sharing`](super::ServerOptions::rollout_sharing)),
    /// each transaction has to be a [snapshot](Transaction::snapshot). Somebody has to store states
    /// meanwhile: see [`shared_rollouts`](Self::shared_rollouts). `stored` is the state that the
    /// source has, if any.
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

    /// Returns the stream of what a server with [`Sharing::Replicas`] has to share through its source.
    /// It takes the place of an earlier stream. While there is none, no rollout continues.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn shared_rollouts(&self) -> Result<SharedEvents, ServerEnded> {
        let (sender, states) = mpsc::channel(WAITING_STATES);
        let subscribe = move |rollouts: &mut HostedRollouts, _: &mut Server, _| {
            rollouts.states = Some(sender);
            let mut report = rollouts.report.subscribe();
            // The counts are new to this receiver.
            report.mark_changed();
            report
        };
        let report = self.with_rollouts(subscribe).await?;
        Ok(SharedEvents { states, report })
    }

    /// Passes on news from the source. Without effect with [`Sharing::Alone`].
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn rollout_news(&self, news: SharedNews) -> Result<(), ServerEnded> {
        let note = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            if rollouts.sharing == Sharing::Replicas {
                rollouts.note(server, news, now);
            }
        };
        self.with_rollouts(note).await
    }

    /// Returns a handle of the rollout that is under way, if there is one.
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
