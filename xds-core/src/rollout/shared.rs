//! State that replicas share: proposals, agreed states, and counts of other replicas.

use alloc::{string::ToString as _, sync::Arc};
use core::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

use super::{
    halt::{HaltCause, HaltingClients},
    machine::{Rollout, RolloutOutput},
    state::{RolloutId, RolloutState, StoredPhase, one_line},
    table::RolloutPhase,
};
use crate::{
    time::Time,
    zoo::{self, Bug},
};

/// Time after which a state is stored again if the source could not be reached.
pub const STORE_RETRY: Duration = Duration::from_secs(1);

/// Whether other servers take part in a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// This server alone: its states need not be stored.
    #[default]
    Alone,
    /// Replicas agree on each state by storing it in their source.
    Replicas,
}

/// Result of storing a state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreResult {
    /// The state is stored.
    Stored,
    /// The source has another state, which does not precede the one to be stored.
    Conflict(RolloutState),
    /// The source cannot be reached, or the outcome is unknown. The state is stored again later.
    Unavailable,
}

impl StoreResult {
    /// Returns the result for a proposed state that is not to be written, because the source has it
    /// already, or has one that does not precede it; `None` if it is to be written. Without a stored state,
    /// any is.
    #[must_use]
    pub fn without_write(stored: Option<RolloutState>, proposed: &RolloutState) -> Option<Self> {
        let stored = stored?;
        if stored == *proposed {
            return Some(Self::Stored);
        }
        (stored.generation + 1 != proposed.generation).then_some(Self::Conflict(stored))
    }
}

/// Counts of the clients of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CohortReport {
    /// Generation of the state for which the counts are valid.
    pub generation: u64,
    /// Number of connected clients that see the candidate.
    pub members: u32,
    /// Number of these that have acknowledged it.
    pub acknowledged: u32,
}

impl CohortReport {
    /// Creates a report for a generation, with counts of zero.
    #[must_use]
    pub const fn new(generation: u64) -> Self {
        Self { generation, members: 0, acknowledged: 0 }
    }

    /// Sets the number of connected clients that see the candidate.
    #[must_use]
    pub const fn with_members(mut self, members: u32) -> Self {
        self.members = members;
        self
    }

    /// Sets the number of members that have acknowledged the candidate.
    #[must_use]
    pub const fn with_acknowledged(mut self, acknowledged: u32) -> Self {
        self.acknowledged = acknowledged;
        self
    }
}

/// Formats the counts as one line: `generation=3 members=20 acknowledged=19`.
impl fmt::Display for CohortReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, members, acknowledged } = self;
        write!(f, "generation={generation} members={members} acknowledged={acknowledged}")
    }
}

impl FromStr for CohortReport {
    type Err = InvalidReport;

    fn from_str(text: &str) -> Result<Self, InvalidReport> {
        let mut words = text.split_whitespace();
        let mut next = |prefix| words.next()?.strip_prefix(prefix)?.parse::<u64>().ok();
        let mut parse = || {
            Some(Self {
                generation: next("generation=")?,
                members: next("members=")?.try_into().ok()?,
                acknowledged: next("acknowledged=")?.try_into().ok()?,
            })
        };
        parse().ok_or(InvalidReport)
    }
}

/// Error of parsing a [`CohortReport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected `generation=N members=N acknowledged=N`")]
pub struct InvalidReport;

/// News of another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerNews {
    /// The replica exists. The rollout continues only with its reports.
    Joined,
    /// The replica has reported.
    Reported(CohortReport),
    /// The replica does not exist any more.
    Left,
}

impl Rollout {
    /// Notes news of another replica, by its name.
    pub fn peer(&mut self, name: &Arc<str>, news: PeerNews, now: Time) {
        self.clock.advance(now);
        match news {
            PeerNews::Joined => {
                self.peers.entry(name.clone()).or_default();
            }
            PeerNews::Reported(report) => {
                self.peers.insert(name.clone(), Some(report));
            }
            PeerNews::Left => {
                self.peers.remove(name);
            }
        }
        self.advance();
    }

    /// Notes the result of storing a state ([`RolloutOutput::Store`]).
    pub fn stored(&mut self, state: &RolloutState, result: StoreResult, now: Time) {
        self.clock.advance(now);
        let is_current = self.proposal.as_ref() == Some(state);
        match result {
            StoreResult::Unavailable if is_current => {
                self.retry_at = Some(self.clock.now().after(STORE_RETRY));
            }
            StoreResult::Unavailable => {}
            StoreResult::Stored => self.answered(is_current, state.clone()),
            StoreResult::Conflict(current) => self.answered(is_current, current),
        }
        self.advance();
    }

    /// Notes a state that was read from the source.
    pub fn observed(&mut self, state: RolloutState, now: Time) {
        self.clock.advance(now);
        self.learn(state);
        self.advance();
    }

    /// Returns the generation of the newest stored state; 0 if there is none.
    pub(super) fn generation(&self) -> u64 {
        self.agreed.as_ref().map_or(0, |it| it.generation)
    }

    /// Proposes a phase and step as the next state.
    pub(super) fn propose(&mut self, phase: RolloutPhase, step: usize) {
        let Some(phase) = phase.stored() else { return };
        let why = match (&self.reason, phase) {
            (Some(reason), StoredPhase::Halted | StoredPhase::RolledBack) => {
                one_line(&reason.to_string())
            }
            _ => Default::default(),
        };
        let (generation, steps) = (self.generation() + 1, self.policy.steps.len());
        let stable = match phase {
            StoredPhase::Completed => self.id,
            _ => self.agreed.as_ref().map_or_else(RolloutId::default, |it| it.stable),
        };
        let state = RolloutState { id: self.id, generation, phase, step, steps, stable, why };
        self.retry_at = None;
        match self.sharing {
            Sharing::Alone => self.learn(state),
            Sharing::Replicas => {
                self.outputs.push_back(RolloutOutput::Store(state.clone()));
                self.proposal = Some(state);
            }
        }
    }

    /// Proposes a halt, pause or rollback of this replica that is not stored yet.
    pub(super) fn store_unstored(&mut self) {
        if self.is_unstored && self.proposal.is_none() {
            self.propose(self.phase, self.step);
        }
    }

    /// Stores the proposal again if the source could not be reached.
    pub(super) fn retry_store(&mut self) {
        if self.retry_at.is_some_and(|at| at <= self.clock.now())
            && let Some(proposal) = self.proposal.clone()
        {
            self.retry_at = None;
            match self.is_unstored {
                // Whether or not the proposal was stored, the halt comes next.
                true => self.proposal = None,
                false => self.outputs.push_back(RolloutOutput::Store(proposal)),
            }
        }
    }

    /// Queues a report if the counts have changed.
    pub(super) fn report(&mut self) {
        let (members, acknowledged) = (self.clients.members, self.clients.acknowledged);
        let report = CohortReport { generation: self.generation(), members, acknowledged };
        let is_shared = self.sharing == Sharing::Replicas && self.phase.is_served();
        if !is_shared || self.reported == Some(report) {
            return;
        }
        self.reported = Some(report);
        match self.outputs.back_mut() {
            Some(RolloutOutput::Report(last)) => *last = report,
            _ => self.outputs.push_back(RolloutOutput::Report(report)),
        }
    }

    /// Ends the rollout because a newer one has taken its place.
    pub(super) fn end_superseded(&mut self) {
        (self.is_unstored, self.proposal, self.retry_at) = (false, None, None);
        self.deferred = None;
        self.reason = Some(self.reason_of(HaltCause::Superseded, HaltingClients::default()));
        self.enter(RolloutPhase::RolledBack, self.step);
    }

    fn answered(&mut self, is_current: bool, state: RolloutState) {
        if is_current {
            (self.proposal, self.retry_at) = (None, None);
        }
        self.learn(state);
    }

    /// Takes note of a stored state if it is newer than those known.
    fn learn(&mut self, state: RolloutState) {
        if state.generation <= self.generation() {
            return;
        }
        // Another state has its place.
        if self.proposal.as_ref().is_some_and(|it| it.generation <= state.generation) {
            (self.proposal, self.retry_at) = (None, None);
        }
        self.agreed = Some(state.clone());
        self.follow(state);
    }

    /// Continues from a stored state.
    pub(super) fn follow(&mut self, state: RolloutState) {
        if self.is_over() || state.id < self.id {
            return;
        }
        if state.id > self.id && state.stable == self.id && self.id > RolloutId::default() {
            // It was completed before the newer one began.
            self.is_unstored = false;
            return self.enter(RolloutPhase::Completed, self.step);
        }
        if state.id > self.id && !zoo::is(Bug::NewerRolloutIgnored) {
            return self.end_superseded();
        }
        let own = self.phase.stored().filter(|_| self.is_unstored);
        if own == Some(state.phase) && self.step == state.step {
            return self.end_unstored();
        }
        // A halt of this replica stays and is stored next, unless the other state is as careful, or
        // the change is completed.
        if own.is_some_and(|own| own > state.phase) && !zoo::is(Bug::RollbackNotRepeated) {
            return self.enter(self.phase, state.step);
        }
        self.is_unstored = false;
        if !state.why.is_empty() {
            let cause = HaltCause::Elsewhere(state.why);
            self.reason = Some(self.reason_of(cause, HaltingClients::default()));
        }
        self.enter(state.phase.resumed(), state.step);
    }

    /// Whether the rollout has ended, and the replicas know it.
    pub(super) fn is_over(&self) -> bool {
        self.phase.is_final() && !self.is_unstored
    }

    /// Notes that the phase is stored.
    fn end_unstored(&mut self) {
        self.is_unstored = false;
        if self.phase.is_final() {
            self.outputs.push_back(RolloutOutput::Ended(self.phase));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_report_is_parsed_again() {
        let report = CohortReport { generation: 3, members: 20, acknowledged: 19 };
        assert_eq!(report.to_string().parse(), Ok(report));
        assert_eq!(
            "generation=3 members=-1 acknowledged=0".parse::<CohortReport>(),
            Err(InvalidReport)
        );
    }
}
