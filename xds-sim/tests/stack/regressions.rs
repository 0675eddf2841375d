//! Shrunk storms that once broke a rule.
//!
//! Each run is kept with its options and the part of its tape that follows them, so that it stays
//! the same when options are added. `regressions.txt` has the questions that each tape answers, so
//! that a run that has drifted fails; `UPDATE=1` writes it. `XDS_SIM_TAPE=TAPE` prints a failed run
//! in this form.

use core::time::Duration;
use std::{env, fs, path::Path};

use xds_core::service::Variant;
use xds_sim::{
    Tape,
    stack::{
        Stage,
        check::{StackOutcome, replay},
        storm::{StackOptions, storm, storm_with},
    },
};

/// Description, options that are not the defaults, and the rest of the tape.
type Regression = (&'static str, fn(&mut StackOptions), &'static str);

const REGRESSIONS: &[Regression] = &[(
    "a message counted as read with the last byte of its write, after the client had answered it",
    |options| {
        options.variant = Variant::Incremental;
        options.operations = 7;
        options.conditions.latency = Duration::from_millis(73);
        options.conditions.window = 1;
    },
    "AAASAAAAAAAQAAAApwEAAAMCAAACAAAAAAAAAAAFEgAAAAUAAAAABhAAAAABAAACAAAD",
)];

#[test]
fn fixed_bugs_do_not_recur() {
    if let Ok(tape) = env::var("XDS_SIM_TAPE") {
        return print(&tape.parse().expect("a tape"));
    }
    let mut read = String::new();
    for (what, set, tape) in REGRESSIONS {
        let tape: Tape = tape.parse().expect("a tape that was printed");
        let mut options = StackOptions::default();
        set(&mut options);
        let outcome = replay(&tape, &async |stage: &Stage| {
            storm_with(stage, options.clone()).await;
        });
        assert_eq!(outcome.drift, None, "{what}: its tape is that of another run by now");
        assert!(!outcome.is_failure(), "{what}\n{outcome}");
        read += &format!("# {what}\n{}\n\n", questions(&outcome, tape.values().len()));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stack/regressions.txt");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &read).expect("the tests of this crate can be written");
    }
    let kept = fs::read_to_string(&path).expect("it is beside this file");
    assert_eq!(
        kept, read,
        "tapes answer other questions: UPDATE=1 after a check that they still fit"
    );
}

/// Questions that a tape answers, after its run.
fn questions(outcome: &StackOutcome, answers: usize) -> String {
    let answers = outcome.choices.iter().take(answers);
    let words =
        answers.map(|it| format!("{}={}/{}", it.label.replace(' ', "-"), it.value, it.bound));
    words.collect::<Vec<_>>().join(" ")
}

/// Prints the options of a run, and its tape without their answers.
fn print(tape: &Tape) {
    let outcome = replay(tape, &async |stage: &Stage| storm(stage).await);
    println!("{outcome}");
    // The seeds of entropy and of the order of tasks come first.
    let first = 2;
    let end = outcome.choices.iter().position(|choice| choice.label == "operation");
    let end = end.unwrap_or(outcome.choices.len());
    let mut choices = xds_sim::tape::Choices::from_tape(&Tape::from_values(
        outcome.choices.iter().skip(first).map(|choice| choice.value),
    ));
    let options = StackOptions::draw(&mut choices);
    assert_eq!(first + choices.taken().len(), end, "the options come before the operations");
    let kept = outcome.choices.iter().take(first).chain(outcome.choices.iter().skip(end));
    println!("{options:?}\n{}", Tape::from_values(kept.map(|choice| choice.value)));
}
