//! Rollouts in the driver of a management server.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use xds_core::{
    StreamId, Time, TypeUrl, ViewName,
    rollout::{
        CohortReport, CommandError, MetricVerdict, NodeDetail, PeerNews, RolloutCommand,
        RolloutEvent, RolloutId, RolloutPolicy, RolloutProgress, RolloutState, ServerRollouts,
        Sharing, StartError, StoreResult,
    },
    server::{Applied, Server, ServerOutput, Transaction, TransactionError},
};

/// News about rollouts that replicas share, from the source ([`ServerHandle::rollout_news`](crate::server::ServerHandle::rollout_news)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedNews {
    /// Result of storing a state ([`SharedEvent::Store`](crate::server::SharedEvent::Store)).
    Stored(RolloutState, StoreResult),
    /// State that was read from the source, such as the result of a
    /// [command](RolloutState::commanded).
    Observed(RolloutState),
    /// Name of another replica, and what it reported.
    Replica(Arc<str>, PeerNews),
}

/// Rollouts in the driver of a server.
#[derive(Debug)]
pub(crate) struct HostedRollouts {
    rollouts: ServerRollouts,
    detail: NodeDetail,
    newest: RolloutId,
    /// Senders of progress for the current and the waiting rollout.
    reporters: Vec<(RolloutId, watch::Sender<Report>)>,
    pub(crate) sharing: Sharing,
    /// Newest counts for the other replicas.
    pub(crate) report: watch::Sender<Option<CohortReport>>,
    /// Receiver of the states to store.
    pub(crate) states: Option<mpsc::Sender<RolloutState>>,
}

/// Newest progress of a rollout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Progress; `None` while the rollout waits for another one.
    pub(crate) progress: Option<RolloutProgress>,
    /// Reason why the completed change could not be applied.
    pub(crate) error: Option<TransactionError>,
}

/// Id of a rollout, and its progress.
pub(crate) type Watched = (RolloutId, watch::Receiver<Report>);

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
    ) -> bool {
        let is_assigned = self.rollouts.assign(server, stream, view, now);
        self.report(server, now);
        is_assigned
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

    pub(crate) fn remove_unless_named(
        &mut self,
        server: &mut Server,
        view: &ViewName,
        type_url: &TypeUrl,
        name: &str,
        now: Time,
    ) -> Result<Option<Applied>, TransactionError> {
        self.rollouts.remove_unless_named(server, view, type_url.as_str(), name, now)
    }

    pub(crate) fn start(
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

    pub(crate) fn command(
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

    pub(crate) fn metric(
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

    pub(crate) fn under_way(&self) -> Option<Watched> {
        let id = self.rollouts.progress()?.id;
        let (_, reporter) = self.reporters.iter().find(|(it, _)| *it == id)?;
        Some((id, reporter.subscribe()))
    }

    /// Sends a state to the receiver. Returns whether there is one with room for it.
    fn store(&self, state: &RolloutState) -> bool {
        self.states.as_ref().is_some_and(|it| it.try_send(state.clone()).is_ok())
    }

    fn is_under_way(&self, id: RolloutId) -> bool {
        self.rollouts.progress().is_some_and(|it| it.id == id)
    }

    pub(crate) fn note(&mut self, server: &mut Server, news: SharedNews, now: Time) {
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
        // A waiting rollout is merged into a newer one that replaces it.
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
