//! Exhaustive enumeration of all runs of a small scenario. Random runs find deep faults;
//! enumeration proves that no shallow fault remains.

use super::{Config, Summary, of_environment, record_tape, run::run};
use crate::{
    tape::{Choice, Choices, Tape},
    trace::Keep,
    world::World,
};

/// Makes a run for every combination of answers to the questions with one label.
///
/// All other questions get the least disruptive answer. A scenario asks questions with
/// [`World::choices`].
/// [`World::choices`].
///
/// ```
/// use xds_sim::{Config, World, exhaust};
///
/// let summary = exhaust(&Config::default(), "step", |world: &mut World| {
///     for _ in 0..3 {
///         match world.choices().below("step", 2) {
///             0 => world.set_new_text(0, "r0", "good"),
///             _ => world.delete(0, "r0"),
///         }
///     }
/// });
/// assert_eq!(summary.runs, 8);
/// ```
///
/// # Panics
///
/// Panics in the cases of [`check`](crate::check()), and if there are more runs than the
/// [configuration](Config::with_runs) allows. `XDS_SIM_TAPE` is the only environment variable used.
pub fn exhaust(
    config: &Config,
    label: &'static str,
    scenario: impl Fn(&mut World) + Send + Sync + 'static,
) -> Summary {
    let config = config.of_scenario(scenario);
    if let Some(summary) = of_environment(&config) {
        return summary;
    }
    let mut summary = Summary::default();
    let mut next = Some(Tape::default());
    while let Some(tape) = next {
        assert!(summary.runs < config.runs, "more than {} runs are possible", config.runs);
        let ran = run(Choices::from_tape(&tape), None, &config, Keep::Hash);
        next = after(&ran.outcome.choices, label);
        let outcome = match ran.broken {
            Some(tape) => record_tape(&tape, &config).0,
            None => ran.outcome,
        };
        summary.add(outcome, &config);
    }
    summary
}

/// Returns the tape after that of a run with these choices: as in an odometer, the last answer that
/// can be incremented is, and the answers after it are dropped.
fn after(choices: &[Choice], label: &str) -> Option<Tape> {
    let turns = |it: &Choice| it.label == label && it.value + 1 < it.bound;
    let at = choices.iter().rposition(turns)?;
    let kept = choices[..at].iter().map(|it| it.value);
    Some(Tape::from_values(kept.chain([choices[at].value + 1])))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn exhaust_runs_every_combination_of_the_label_once() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        let summary = exhaust(&Config::default(), "step", move |world: &mut World| {
            let choices = world.choices();
            let first = choices.below("step", 3);
            let other = choices.below("other", 5);
            // The number of answers may depend on earlier answers.
            let second = choices.below("step", first + 1);
            kept.lock().expect("nobody panics with it").push((first, other, second));
        });
        let seen = seen.lock().expect("nobody panics with it");
        let all = [(0, 0, 0), (1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1), (2, 0, 2)];
        assert_eq!((summary.runs, &seen[..]), (6, &all[..]));
    }

    #[test]
    #[should_panic(expected = "more than 3 runs are possible")]
    fn exhaust_panics_if_the_run_limit_is_exceeded() {
        let ask = |world: &mut World| {
            let _ = world.choices().below("step", 4);
        };
        let _ = exhaust(&Config::default().with_runs(3), "step", ask);
    }

    #[test]
    #[should_panic(expected = "VIOLATION small")]
    fn exhaust_finds_the_one_failing_combination() {
        let _ = exhaust(&Config::default(), "step", |world: &mut World| {
            let answers: Vec<u32> = (0..4).map(|_| world.choices().below("step", 3)).collect();
            if answers == [2, 0, 1, 2] {
                world.fail("small", "not these four", "these four");
            }
        });
    }
}
