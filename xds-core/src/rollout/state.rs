//! State of a rollout that replicas share and that survives a restart: one line of text.

use alloc::string::{String, ToString as _};
use core::{fmt, str::FromStr};

use thiserror::Error;

use super::{
    machine::{CommandError, RolloutCommand},
    table::{RolloutPhase, transition},
};

/// Maximum length of the reason in a stored state, in bytes.
const LONGEST_REASON: usize = 1_024;

/// Number of a rollout: the revision of the source at which its change was made, or another number
/// above 0 that grows with each change. A rollout with a higher number is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RolloutId(pub u64);

/// Phase of a rollout as replicas agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StoredPhase {
    /// Steps are under way.
    Running,
    /// Paused by a command.
    Paused,
    /// Halted because a condition was not fulfilled.
    Halted,
    /// Ended without the change.
    RolledBack,
    /// Ended with the change.
    Completed,
}

/// State of a rollout that is stored in a source and replaced by compare-and-set: a state replaces
/// the one with the generation before its own, or is the first one.
///
/// Its text form is one line:
///
/// ```
/// use xds_core::rollout::RolloutState;
///
/// let line = "xds-rollout/1 id=7 generation=3 phase=halted step=2/5 stable=4 why=node \"a\" rejected";
/// let state: RolloutState = line.parse()?;
/// assert_eq!((state.step, state.steps), (1, 5));
/// assert_eq!(state.to_string(), line);
/// # Ok::<(), xds_core::rollout::InvalidState>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolloutState {
    /// Rollout.
    pub id: RolloutId,
    /// Number of the state, over all rollouts. Each state has the next number.
    pub generation: u64,
    /// Phase.
    pub phase: StoredPhase,
    /// Step, from 0. The text has it from 1.
    pub step: usize,
    /// Number of steps of the policy.
    pub steps: usize,
    /// Newest completed rollout, whose change the stable views have; 0 if there is none.
    pub stable: RolloutId,
    /// Reason of a halt or rollback, in one line of at most 1,024 bytes; empty otherwise.
    pub why: String,
}

/// Error of parsing a [`RolloutState`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error(
    "`{text}` is not the state of a rollout: expected `xds-rollout/1 id=N generation=N phase=P \
     step=N/N stable=N why=REASON`"
)]
pub struct InvalidState {
    /// Text that is not a state.
    pub text: String,
}

impl RolloutState {
    /// Returns the first state of a source: its contents with this number are stable, and no rollout
    /// is under way.
    #[must_use]
    pub fn initial(stable: RolloutId) -> Self {
        let (phase, why) = (StoredPhase::Completed, String::new());
        Self { id: stable, generation: 1, phase, step: 0, steps: 0, stable, why }
    }

    /// Returns the state with which a command replaces this one. Whoever stores it has carried out
    /// the command: the replicas continue from it.
    ///
    /// # Errors
    ///
    /// Returns an error if the command does nothing in this phase.
    pub fn commanded(&self, command: RolloutCommand) -> Result<Self, CommandError> {
        let phase = self.phase.resumed();
        let next = transition(phase, command.trigger()).and_then(|it| it.to.stored());
        let phase = next.ok_or(CommandError::NotPossible { command, phase })?;
        let why = match command {
            RolloutCommand::Abort => "it was aborted by a command".to_string(),
            _ => String::new(),
        };
        let stable = if phase == StoredPhase::Completed { self.id } else { self.stable };
        Ok(Self { generation: self.generation + 1, phase, stable, why, ..self.clone() })
    }
}

impl StoredPhase {
    const ALL: [(Self, &str); 5] = [
        (Self::Running, "running"),
        (Self::Paused, "paused"),
        (Self::Halted, "halted"),
        (Self::RolledBack, "rolled-back"),
        (Self::Completed, "completed"),
    ];

    /// Whether the phase ends a rollout.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::RolledBack | Self::Completed)
    }

    /// Returns the phase in which a replica continues from this one.
    pub(super) const fn resumed(self) -> RolloutPhase {
        match self {
            Self::Running => RolloutPhase::Deploying,
            Self::Paused => RolloutPhase::Paused,
            Self::Halted => RolloutPhase::Halted,
            Self::RolledBack => RolloutPhase::RolledBack,
            Self::Completed => RolloutPhase::Completed,
        }
    }

    /// Returns the name of the phase.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.into_iter().find(|it| it.0 == self).map_or("", |it| it.1)
    }
}

/// Returns a reason in one line of limited length.
pub(super) fn one_line(text: &str) -> String {
    let line = text.replace(|it: char| it.is_control(), " ");
    let mut end = line.len().min(LONGEST_REASON);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.get(..end).unwrap_or_default().trim().to_string()
}

impl fmt::Display for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, generation, phase, step, steps, stable, why } = self;
        let (phase, step) = (phase.as_str(), step + 1);
        write!(f, "xds-rollout/1 id={} generation={generation} phase={phase} ", id.0)?;
        write!(f, "step={step}/{steps} stable={} why={why}", stable.0)
    }
}

impl FromStr for RolloutState {
    type Err = InvalidState;

    fn from_str(text: &str) -> Result<Self, InvalidState> {
        parse(text.trim_end_matches(['\n', '\r']))
            .ok_or_else(|| InvalidState { text: one_line(text) })
    }
}

fn parse(text: &str) -> Option<RolloutState> {
    let mut parts = text.splitn(7, ' ');
    let mut next = |prefix: &str| parts.next()?.strip_prefix(prefix);
    next("xds-rollout/1").filter(|rest| rest.is_empty())?;
    let id = RolloutId(next("id=")?.parse().ok()?);
    let generation = next("generation=")?.parse().ok()?;
    let name = next("phase=")?;
    let phase = StoredPhase::ALL.into_iter().find(|it| it.1 == name)?.0;
    let (step, steps) = next("step=")?.split_once('/')?;
    let (step, steps) = (step.parse::<usize>().ok()?, steps.parse().ok()?);
    let step = step.checked_sub(1)?;
    let stable = RolloutId(next("stable=")?.parse().ok()?);
    let why = next("why=")?.to_string();
    let is_valid = step == 0 || step < steps;
    is_valid.then_some(RolloutState { id, generation, phase, step, steps, stable, why })
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn text_of_a_state_is_parsed_again() {
        for (phase, _) in StoredPhase::ALL {
            let state = RolloutState {
                id: RolloutId(u64::MAX),
                generation: 0,
                phase,
                step: 0,
                steps: 0,
                stable: RolloutId(3),
                why: one_line("a\nb = c "),
            };
            assert_eq!(state.to_string().parse(), Ok(state));
        }
    }

    #[test]
    fn command_is_the_next_state() {
        let running: RolloutState =
            "xds-rollout/1 id=7 generation=3 phase=running step=2/5 stable=4 why=".parse().unwrap();
        let commanded = |state: &RolloutState, command| {
            state.commanded(command).map(|it| it.to_string()).map_err(|it| it.to_string())
        };
        let state = |rest: &str| Ok(format!("xds-rollout/1 id=7 generation=4 {rest}"));
        assert_eq!(
            commanded(&running, RolloutCommand::Pause),
            state("phase=paused step=2/5 stable=4 why=")
        );
        assert_eq!(
            commanded(&running, RolloutCommand::Promote),
            state("phase=completed step=2/5 stable=7 why=")
        );
        let aborted = running.commanded(RolloutCommand::Abort).unwrap();
        let text = "phase=rolled-back step=2/5 stable=4 why=it was aborted by a command";
        assert_eq!(Ok(aborted.to_string()), state(text));
        let halted = RolloutState { phase: StoredPhase::Halted, ..running.clone() };
        assert_eq!(
            commanded(&halted, RolloutCommand::Resume),
            state("phase=running step=2/5 stable=4 why=")
        );
        assert!(commanded(&running, RolloutCommand::Resume).is_err());
        assert!(commanded(&aborted, RolloutCommand::Promote).is_err());
        assert!(commanded(&RolloutState::initial(RolloutId(1)), RolloutCommand::Pause).is_err());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "xds-rollout/2 id=1 generation=1 phase=running step=1/1 stable=0 why=",
            "xds-rollout/1 id=1 generation=1 phase=running step=0/1 stable=0 why=",
            "xds-rollout/1 id=1 generation=1 phase=running step=3/2 stable=0 why=",
            "xds-rollout/1 id=1 generation=1 phase=walking step=1/1 stable=0 why=",
            "xds-rollout/1 id=1 generation=1 phase=running step=1/1 stable=0",
            "xds-rollout/1 id=-1 generation=1 phase=running step=1/1 stable=0 why=",
        ] {
            assert!(text.parse::<RolloutState>().is_err(), "{text}");
        }
        assert_eq!(one_line(&"ä".repeat(1_000)).len(), 1_024);
    }
}
