//! Execution of one run.

use xds_core::Time;

use super::{Config, Failure, Outcome};
use crate::{
    options::Options,
    oracle::Rule,
    situations::Situations,
    tape::{Choices, Drift, Tape},
    trace::{Header, Keep, Recorder, Trace, Violation},
    world::{
        World,
        actor::{self, Actor, Caught},
    },
};

/// Result of a run, with its trace.
pub(crate) struct RunResult {
    pub(crate) outcome: Outcome,
    pub(crate) trace: Trace,
    /// Choices of the run, if it failed.
    pub(crate) broken: Option<Tape>,
}

/// Makes a run.
pub(crate) fn run(
    mut choices: Choices,
    seed: Option<u64>,
    config: &Config,
    keep: Keep,
) -> RunResult {
    drop(actor::take_reached());
    let options = config.options(&mut choices);
    let drawn = choices.taken().len();
    let before = (options.clone(), choices.to_tape());
    let world = actor::catch(Actor::World, || {
        World::new(options, choices, &config.participants, |it| config.oracles(it), keep)
    });
    let mut world = match world {
        Caught::Finished(world) => world,
        Caught::Stopped => {
            return without_world(seed, before, config, Actor::World, "the run ends".into());
        }
        Caught::Panicked(actor, what) => return without_world(seed, before, config, actor, what),
    };
    let ended = actor::catch(Actor::Scenario, || (config.scenario)(&mut world));
    if let Caught::Panicked(actor, what) = ended {
        world.note_panic(actor, what);
    }
    if let Caught::Panicked(actor, what) = actor::catch(Actor::World, || world.finish_run()) {
        world.note_panic(actor, what);
    }
    let mut ended = world.end();
    ended.situations.add_own(actor::take_reached());
    let mut trace = ended.trace;
    trace.header.seed = seed;
    let tape = ended.choices.to_tape();
    if ended.violation.is_some() || seed.is_none() {
        trace.header.tape = Some(tape.to_string());
    }
    let broken = ended.violation.is_some().then(|| tape.clone());
    let failure = ended.violation.zip(broken.clone()).map(|(violation, tape)| Failure {
        seed,
        options: ended.options.clone(),
        violation,
        tape,
        spans: ended.choices.spans().to_vec(),
        drawn,
        reproduction: config.reproduction(),
        trace: trace.clone(),
    });
    let drift = ended.choices.drift();
    // A run that breaks a rule stops early and leaves the rest of the tape unused.
    let drift = drift.filter(|it| failure.is_none() || !matches!(it, Drift::TooLong { .. }));
    let outcome = Outcome {
        seed,
        options: ended.options,
        events: ended.events,
        hash: ended.hash,
        tape,
        drift,
        choices: ended.choices.into_taken(),
        situations: ended.situations,
        violation: failure,
    };
    RunResult { outcome, trace, broken }
}

/// Returns the result of a run whose world could not be built.
fn without_world(
    seed: Option<u64>,
    (options, tape): (Options, Tape),
    config: &Config,
    actor: Actor,
    what: String,
) -> RunResult {
    let Rule { id: invariant, sentence: rule } = actor.rule();
    let violation = Violation { invariant, rule, what, at: Time::ZERO, number: 0 };
    let mut header = Header::new(seed, vec![options.to_string()]);
    header.tape = Some(tape.to_string());
    let trace = Recorder::new(Keep::Nothing).finish(header, Some(violation.clone()));
    let failure = Failure {
        seed,
        options: options.clone(),
        violation,
        tape: tape.clone(),
        spans: Vec::new(),
        drawn: usize::MAX, // The whole tape.
        reproduction: config.reproduction(),
        trace: trace.clone(),
    };
    let outcome = Outcome {
        seed,
        options,
        events: 0,
        hash: 0,
        tape: tape.clone(),
        choices: Vec::new(),
        drift: None,
        situations: Situations::default(),
        violation: Some(failure),
    };
    RunResult { outcome, trace, broken: Some(tape) }
}
