//! State machine of one rollout: inputs and polls.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::fmt;

use thiserror::Error;

use super::{
    clients::{ClientProgress, RolloutClients, Side},
    halt::{HaltCause, HaltReason, HaltingClient, HaltingClients},
    policy::{PolicyError, RolloutPolicy},
    shared::{CohortReport, Sharing},
    state::{RolloutId, RolloutState, StoredPhase},
    table::{RolloutPhase, Trigger},
};
use crate::{
    id::StreamId,
    selector::NodeFacts,
    text::{ResourceName, TypeUrl},
    time::{Clock, Time},
    zoo::{self, Bug},
};

/// Action for the host of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum RolloutOutput {
    /// The client sees this side from now on.
    Move(StreamId, Side),
    /// Write this state to the source if the stored one has the generation before, or there is none,
    /// and call [`Rollout::stored`]. Only with [`Sharing::Replicas`].
    Store(RolloutState),
    /// Let the other replicas know these counts. A later report replaces an earlier one. Only with
    /// [`Sharing::Replicas`].
    Report(CohortReport),
    /// Apply the change to the stable views. The cohort moves back afterwards.
    Apply,
    /// The rollout has ended: no client sees the candidate any more. The last output.
    Ended(RolloutPhase),
}

/// Verdict of an external metric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricVerdict {
    /// The metric permits the rollout to continue.
    Good,
    /// The metric halts the rollout, for this reason.
    Bad(String),
}

/// Command of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RolloutCommand {
    /// Stay at this step. Rejections halt a paused rollout too.
    Pause,
    /// Begin the step of a paused or halted rollout anew.
    Resume,
    /// Roll back.
    Abort,
    /// Apply the change for all clients now.
    Promote,
}

/// Name of the command, as users type it.
impl fmt::Display for RolloutCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Abort => "abort",
            Self::Promote => "promote",
        })
    }
}

impl RolloutCommand {
    pub(super) const fn trigger(self) -> Trigger {
        match self {
            Self::Pause => Trigger::Pause,
            Self::Resume => Trigger::Resume,
            Self::Abort => Trigger::Abort,
            Self::Promote => Trigger::Promote,
        }
    }
}

/// Reason for which a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The command does nothing in this phase.
    #[error("{command} is not possible: the rollout is {}", phase.as_str())]
    NotPossible {
        /// Command.
        command: RolloutCommand,
        /// Phase of the rollout.
        phase: RolloutPhase,
    },
    /// A state is being stored; the command can be repeated afterwards.
    #[error("the rollout is storing its state: repeat {command} in a moment")]
    Busy {
        /// Command.
        command: RolloutCommand,
    },
    /// No rollout is under way.
    #[error("no rollout is under way, so there is nothing to {command}")]
    NoRollout {
        /// Command.
        command: RolloutCommand,
    },
}

/// Progress of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolloutProgress {
    /// Rollout.
    pub id: RolloutId,
    /// Phase.
    pub phase: RolloutPhase,
    /// Step, from 0.
    pub step: usize,
    /// Number of steps.
    pub steps: usize,
    /// Number of connected clients of this server that see the candidate.
    pub members: u32,
    /// Number of these that have acknowledged it.
    pub acknowledged: u32,
    /// Reason of a halt or rollback.
    pub reason: Option<HaltReason>,
}

/// State machine of one rollout. See the [module documentation](super).
#[derive(Clone, Debug)]
pub struct Rollout {
    pub(super) id: RolloutId,
    pub(super) policy: RolloutPolicy,
    pub(super) sharing: Sharing,
    pub(super) clock: Clock,
    pub(super) phase: RolloutPhase,
    pub(super) step: usize,
    /// Time at which the phase began.
    pub(super) entered: Time,
    /// Whether the rollout may begin: all connected clients are known.
    pub(super) is_ready: bool,
    /// Newest state known to be stored.
    pub(super) agreed: Option<RolloutState>,
    /// State that is being stored.
    pub(super) proposal: Option<RolloutState>,
    /// Time at which the proposal is repeated.
    pub(super) retry_at: Option<Time>,
    /// Whether this replica has halted, paused or rolled back, and that is not stored yet.
    pub(super) is_unstored: bool,
    /// Halt that waits until the outcome of a stored completion is known.
    pub(super) deferred: Option<HaltReason>,
    pub(super) clients: RolloutClients,
    pub(super) peers: BTreeMap<Arc<str>, Option<CohortReport>>,
    pub(super) reported: Option<CohortReport>,
    /// Largest number of clients in the cohort since the step began.
    pub(super) peak: u32,
    pub(super) shrunk_since: Option<Time>,
    /// Metrics that were good since the soak ended.
    pub(super) good: BTreeSet<String>,
    pub(super) rejections: HaltingClients,
    pub(super) warnings: HaltingClients,
    pub(super) reason: Option<HaltReason>,
    pub(super) outputs: VecDeque<RolloutOutput>,
}

impl Rollout {
    /// Creates a rollout that has not begun. `stored` is the state that the source has now: of this
    /// rollout, which then continues, or of an earlier one.
    ///
    /// Report the connected clients with [`joined`](Self::joined), and then call
    /// [`begin`](Self::begin).
    ///
    /// # Errors
    ///
    /// Returns an error if the policy is [invalid](RolloutPolicy::validate).
    pub fn new(
        id: RolloutId,
        policy: RolloutPolicy,
        sharing: Sharing,
        stored: Option<RolloutState>,
        now: Time,
    ) -> Result<Self, PolicyError> {
        policy.validate()?;
        Ok(Self {
            id,
            policy,
            sharing,
            clock: Clock::starting_at(now),
            phase: RolloutPhase::Starting,
            step: 0,
            entered: now,
            is_ready: false,
            agreed: stored,
            proposal: None,
            retry_at: None,
            is_unstored: false,
            deferred: None,
            clients: RolloutClients::default(),
            peers: BTreeMap::new(),
            reported: None,
            peak: 0,
            shrunk_since: None,
            good: BTreeSet::new(),
            rejections: HaltingClients::default(),
            warnings: HaltingClients::default(),
            reason: None,
            outputs: VecDeque::new(),
        })
    }

    /// Begins the rollout, or continues from the stored state.
    pub fn begin(&mut self, now: Time) {
        self.clock.advance(now);
        self.is_ready = true;
        if let Some(stored) = self.agreed.clone() {
            self.follow(stored);
        }
        self.advance();
    }

    /// Notes that a client has connected and stated its node. Returns the side that it sees, also
    /// for a client of an ended rollout.
    pub fn joined(&mut self, stream: StreamId, node: &NodeFacts, now: Time) -> Side {
        self.clock.advance(now);
        let first_step = self.policy.first_step(node);
        let served = self.served().filter(|_| !zoo::is(Bug::NewClientsStable));
        let side = self.clients.insert(stream, node.id.as_str().into(), first_step, served);
        self.advance();
        side
    }

    /// Notes that a client has disconnected.
    pub fn left(&mut self, stream: StreamId, now: Time) {
        self.clock.advance(now);
        self.clients.remove(stream);
        self.advance();
    }

    /// Notes that a client has acknowledged all that it subscribes to on the side that it sees.
    pub fn acknowledged(&mut self, stream: StreamId, now: Time) {
        self.note(stream, ClientProgress::Acknowledged, now);
    }

    /// Notes that a client is to acknowledge something on the side that it sees.
    pub fn pending(&mut self, stream: StreamId, now: Time) {
        self.note(stream, ClientProgress::Pending, now);
    }

    /// Notes that a client has rejected resources. Without effect if it sees the stable side.
    pub fn rejected(
        &mut self,
        stream: StreamId,
        type_url: TypeUrl,
        names: Vec<ResourceName>,
        reason: impl Into<String>,
        now: Time,
    ) {
        self.clock.advance(now);
        if self.clients.side(stream) != Some(Side::Candidate) {
            return;
        }
        self.clients.set_progress(stream, ClientProgress::Rejected);
        let node_id = self.clients.node_id(stream);
        let reason = reason.into();
        let culprit = HaltingClient { stream, node_id, type_url: Some(type_url), names, reason };
        self.rejections.push(culprit);
        if self.rejections.clients() > self.policy.halt.max_rejections {
            let culprits = self.rejections.clone();
            self.halt(HaltCause::Rejected, culprits);
        }
        self.advance();
    }

    /// Notes a problem of a client that is not a rejection. Without effect if it sees the stable
    /// side.
    pub fn warned(&mut self, stream: StreamId, reason: impl Into<String>, now: Time) {
        self.clock.advance(now);
        if self.clients.side(stream) != Some(Side::Candidate) {
            return;
        }
        let (node_id, reason) = (self.clients.node_id(stream), reason.into());
        let names = Vec::new();
        self.warnings.push(HaltingClient { stream, node_id, type_url: None, names, reason });
        let warnings = self.warnings.listed().len() + self.warnings.omitted();
        let is_tolerated = |max: u32| warnings <= max as usize;
        if !self.policy.halt.max_warnings.is_none_or(is_tolerated) {
            let culprits = self.warnings.clone();
            self.halt(HaltCause::Warned, culprits);
        }
        self.advance();
    }

    /// Notes the verdict of an external metric. `Bad` halts at any time; `Good` counts at the end of
    /// a soak. Without effect if the policy does not name the metric.
    pub fn metric(&mut self, name: &str, verdict: MetricVerdict, now: Time) {
        self.clock.advance(now);
        if !self.policy.metrics.iter().any(|it| it == name) {
            return;
        }
        match verdict {
            MetricVerdict::Good if self.phase == RolloutPhase::Judging => {
                self.good.insert(name.into());
            }
            MetricVerdict::Good => {}
            MetricVerdict::Bad(why) => {
                let cause = HaltCause::MetricBad { metric: name.into(), why };
                self.halt(cause, HaltingClients::default());
            }
        }
        self.advance();
    }

    /// Carries out a command.
    ///
    /// # Errors
    ///
    /// Returns an error if the command does nothing in the current phase, or a state is being
    /// stored.
    pub fn command(&mut self, command: RolloutCommand, now: Time) -> Result<(), CommandError> {
        self.clock.advance(now);
        let completes = self.is_completing();
        let is_busy = match command {
            RolloutCommand::Pause | RolloutCommand::Abort => completes,
            RolloutCommand::Resume | RolloutCommand::Promote => self.proposal.is_some(),
        };
        if is_busy {
            return Err(CommandError::Busy { command });
        }
        let before = self.reason.clone();
        if command == RolloutCommand::Abort {
            self.reason = Some(self.reason_of(HaltCause::Aborted, HaltingClients::default()));
        }
        if !self.fire(command.trigger()) {
            self.reason = before;
            return Err(CommandError::NotPossible { command, phase: self.phase });
        }
        self.advance();
        Ok(())
    }

    /// Ends the rollout for a newer one, whose state replaces this one's. The cohort moves back.
    pub fn supersede(&mut self, now: Time) {
        self.clock.advance(now);
        if !self.is_over() {
            self.end_superseded();
        }
    }

    /// Handles the timers that are due. Calling it early has no effect.
    pub fn handle_timeout(&mut self, now: Time) {
        self.clock.advance(now);
        self.retry_store();
        self.advance();
    }

    /// Returns the next output. O(1).
    #[must_use]
    pub fn poll_output(&mut self) -> Option<RolloutOutput> {
        self.outputs.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due: now while outputs
    /// are queued.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.outputs.is_empty() {
            return Some(self.clock.now());
        }
        [self.retry_at, self.deadline()].into_iter().flatten().min()
    }

    /// Returns the progress.
    #[must_use]
    pub fn progress(&self) -> RolloutProgress {
        RolloutProgress {
            id: self.id,
            phase: self.phase,
            step: self.step,
            steps: self.policy.steps.len(),
            members: self.clients.members,
            acknowledged: self.clients.acknowledged,
            reason: self.reason.clone(),
        }
    }

    /// Returns the phase.
    #[must_use]
    pub fn phase(&self) -> RolloutPhase {
        self.phase
    }

    /// Whether the completion of the rollout is being stored. A rejection waits for its outcome.
    #[must_use]
    pub fn is_completing(&self) -> bool {
        self.proposal.as_ref().is_some_and(|it| it.phase == StoredPhase::Completed)
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &RolloutPolicy {
        &self.policy
    }

    /// Returns the newest state that is known to be stored.
    #[must_use]
    pub fn state(&self) -> Option<&RolloutState> {
        self.agreed.as_ref()
    }

    /// Returns the side of a client; `None` if it is not connected.
    #[must_use]
    pub fn side(&self, stream: StreamId) -> Option<Side> {
        self.clients.side(stream)
    }

    /// Returns the connected clients that see the candidate, sorted.
    pub fn members(&self) -> impl Iterator<Item = StreamId> {
        self.clients.members()
    }

    fn note(&mut self, stream: StreamId, progress: ClientProgress, now: Time) {
        self.clock.advance(now);
        self.clients.set_progress(stream, progress);
        self.advance();
    }
}
