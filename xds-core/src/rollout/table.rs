//! Phases of a rollout and the transitions between them, as a table.

use alloc::string::String;
use core::fmt::Write as _;

use super::state::StoredPhase;

macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($(#[doc = $doc:literal])+ $name:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[doc = $doc])+ $name,)+
        }

        impl $type {
            /// All values, in order.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Name and meaning for the page on rollouts.
            const fn described(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => (stringify!($name), concat!($($doc),+)),)+
                }
            }
        }
    };
}

named! {
    /// Phase of a rollout.
    RolloutPhase {
        /// The beginning is being stored. No client sees the candidate.
        Starting,
        /// The cohort of the step sees the candidate, and its acknowledgements are awaited.
        Deploying,
        /// The cohort is observed for the soak time.
        Soaking,
        /// Verdicts of the external metrics are awaited.
        Judging,
        /// The rollout waits for a command because of a command.
        Paused,
        /// The rollout waits for a command because a condition was not fulfilled.
        Halted,
        /// All clients see the stable views, without the change. Final.
        RolledBack,
        /// All clients see the stable views, with the change. Final.
        Completed,
    }
}

named! {
    /// Cause of a transition.
    Trigger {
        /// The beginning of the rollout is stored.
        Begun,
        /// The required share of the cohort has acknowledged.
        Acknowledged,
        /// The soak time is over, and the share has still acknowledged.
        Soaked,
        /// All metrics are good, and another step follows.
        StepDone,
        /// All metrics are good after the last step.
        LastStepDone,
        /// A condition was not fulfilled; the policy says hold.
        HaltAndHold,
        /// A condition was not fulfilled; the policy says roll back.
        HaltAndRollBack,
        /// Command `pause`.
        Pause,
        /// Command `resume`.
        Resume,
        /// Command `abort`, or a newer change that supersedes this one.
        Abort,
        /// Command `promote`, or a policy without steps.
        Promote,
    }
}

named! {
    /// Effect of a transition.
    Action {
        /// No further effect.
        Nothing,
        /// The cohort of the step moves to the candidate; conditions and times begin anew.
        BeginStep,
        /// Like `BeginStep`, with the next step.
        NextStep,
        /// The cohort moves back to the stable views.
        MoveBack,
        /// The change is applied to the stable views, and the cohort moves back.
        Apply,
    }
}

/// Row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transition {
    from: RolloutPhase,
    trigger: Trigger,
    pub(super) to: RolloutPhase,
    pub(super) action: Action,
}

const fn row(from: RolloutPhase, trigger: Trigger, to: RolloutPhase, action: Action) -> Transition {
    Transition { from, trigger, to, action }
}

use Action::{Apply, BeginStep, MoveBack, NextStep, Nothing};
use RolloutPhase::{Completed, Deploying, Halted, Judging, Paused, RolledBack, Soaking, Starting};
use Trigger::{
    Abort, Acknowledged, Begun, HaltAndHold, HaltAndRollBack, LastStepDone, Pause, Promote, Resume,
    Soaked, StepDone,
};

/// All transitions. A trigger has no effect in a phase without a row for it.
const TRANSITIONS: [Transition; 31] = [
    row(Starting, Begun, Deploying, BeginStep),
    row(Starting, Abort, RolledBack, MoveBack),
    row(Starting, Promote, Completed, Apply),
    row(Deploying, Acknowledged, Soaking, Nothing),
    row(Deploying, HaltAndHold, Halted, Nothing),
    row(Deploying, HaltAndRollBack, RolledBack, MoveBack),
    row(Deploying, Pause, Paused, Nothing),
    row(Deploying, Abort, RolledBack, MoveBack),
    row(Deploying, Promote, Completed, Apply),
    row(Soaking, Soaked, Judging, Nothing),
    row(Soaking, HaltAndHold, Halted, Nothing),
    row(Soaking, HaltAndRollBack, RolledBack, MoveBack),
    row(Soaking, Pause, Paused, Nothing),
    row(Soaking, Abort, RolledBack, MoveBack),
    row(Soaking, Promote, Completed, Apply),
    row(Judging, StepDone, Deploying, NextStep),
    row(Judging, LastStepDone, Completed, Apply),
    row(Judging, HaltAndHold, Halted, Nothing),
    row(Judging, HaltAndRollBack, RolledBack, MoveBack),
    row(Judging, Pause, Paused, Nothing),
    row(Judging, Abort, RolledBack, MoveBack),
    row(Judging, Promote, Completed, Apply),
    row(Paused, HaltAndHold, Halted, Nothing),
    row(Paused, HaltAndRollBack, RolledBack, MoveBack),
    row(Paused, Pause, Paused, Nothing),
    row(Paused, Resume, Deploying, BeginStep),
    row(Paused, Abort, RolledBack, MoveBack),
    row(Paused, Promote, Completed, Apply),
    row(Halted, Resume, Deploying, BeginStep),
    row(Halted, Abort, RolledBack, MoveBack),
    row(Halted, Promote, Completed, Apply),
];

/// Returns the transition of a trigger in a phase, if it has one there.
pub(super) fn transition(from: RolloutPhase, trigger: Trigger) -> Option<Transition> {
    TRANSITIONS.into_iter().find(|it| it.from == from && it.trigger == trigger)
}

impl RolloutPhase {
    /// Whether clients of the cohort see the candidate.
    #[must_use]
    pub const fn is_served(self) -> bool {
        matches!(self, Deploying | Soaking | Judging | Paused | Halted)
    }

    /// Whether the phase ends the rollout.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, RolledBack | Completed)
    }

    /// Returns the name of the phase, such as `rolled-back`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Starting => "starting",
            Deploying => "deploying",
            Soaking => "soaking",
            Judging => "judging",
            Paused => "paused",
            Halted => "halted",
            RolledBack => "rolled-back",
            Completed => "completed",
        }
    }

    /// Whether a condition that is not fulfilled halts the rollout.
    #[must_use]
    pub(super) fn may_halt(self) -> bool {
        transition(self, HaltAndHold).is_some()
    }

    /// Returns the phase as other replicas see it; `None` before the beginning.
    pub(super) const fn stored(self) -> Option<StoredPhase> {
        Some(match self {
            Starting => return None,
            Deploying | Soaking | Judging => StoredPhase::Running,
            Paused => StoredPhase::Paused,
            Halted => StoredPhase::Halted,
            RolledBack => StoredPhase::RolledBack,
            Completed => StoredPhase::Completed,
        })
    }
}

impl Action {
    /// Whether the action waits until the new state is stored.
    pub(super) const fn waits_for_store(self) -> bool {
        matches!(self, BeginStep | NextStep | Apply)
    }
}

/// Formats phases, triggers, actions and the table of transitions as Markdown.
#[must_use]
pub fn transitions_as_markdown() -> String {
    let mut text = String::new();
    let mut list = |title: &str, rows: &mut dyn Iterator<Item = (&str, &str)>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {title} | meaning |\n|---|---|");
        for (name, meaning) in rows {
            let _ = writeln!(text, "| `{name}` |{meaning} |");
        }
        text.push('\n');
    };
    list("phase", &mut RolloutPhase::ALL.iter().map(|it| it.described()));
    list("trigger", &mut Trigger::ALL.iter().map(|it| it.described()));
    list("action", &mut Action::ALL.iter().map(|it| it.described()));
    text.push_str("| phase | trigger | next phase | action |\n|---|---|---|---|\n");
    for Transition { from, trigger, to, action } in TRANSITIONS {
        let _ = writeln!(text, "| `{from:?}` | `{trigger:?}` | `{to:?}` | `{action:?}` |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trigger_has_at_most_one_transition_in_a_phase() {
        for (index, row) in TRANSITIONS.iter().enumerate() {
            assert_eq!(transition(row.from, row.trigger), Some(*row), "row {index}");
        }
    }

    #[test]
    fn final_phases_have_no_transition_and_others_can_be_ended_by_a_command() {
        for &phase in RolloutPhase::ALL {
            let ends = [Abort, Promote].map(|it| transition(phase, it).map(|it| it.to));
            match phase.is_final() {
                true => assert!(TRANSITIONS.iter().all(|it| it.from != phase), "{phase:?}"),
                false => assert_eq!(ends, [Some(RolledBack), Some(Completed)], "{phase:?}"),
            }
        }
    }
}
