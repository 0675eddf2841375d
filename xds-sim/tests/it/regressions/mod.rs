//! Regression tests: shrunk runs that once broke a rule.
//!
//! Each run is stored with the text of its options and the part of its tape that follows them, so
//! that it stays the same when options are added. `questions.txt` stores the questions that each
//! tape answers, so that a drifted run fails.

mod client_rules;
mod liveness_rules;
mod server_rules;

use std::{env, fs, path::Path};

use xds_sim::{Config, Options, Outcome, Tape, replay};

/// Description, relevant options, and the rest of the tape.
type Regression = (&'static str, &'static str, &'static str);

#[test]
fn fixed_bugs_do_not_recur() {
    let mut read = String::new();
    let regressions = [
        &client_rules::REGRESSIONS[..],
        &server_rules::REGRESSIONS[..],
        &liveness_rules::REGRESSIONS[..],
    ];
    for &(what, options, tape) in regressions.into_iter().flatten() {
        let tape: Tape = tape.parse().expect("a tape that was printed");
        let options: Options = options.parse().expect("options that were printed");
        let config = Config::default().with_fixed_options(options);
        let outcome = replay(&tape, &config);
        assert_eq!(outcome.drift, None, "{what}: its tape is that of another run by now");
        read += &format!("# {what}\n{}\n\n", questions_of(&tape, &outcome));
        if let Some(failure) = outcome.violation {
            panic!("{what}\n{}", failure.to_text(None));
        }
    }
    ensure_nothing_drifted(&read);
}

/// Returns the questions that a tape answers, after its run.
fn questions_of(tape: &Tape, outcome: &Outcome) -> String {
    let answers = outcome.choices.iter().take(tape.values().len());
    let words =
        answers.map(|it| format!("{}={}/{}", it.label.replace(' ', "-"), it.value, it.bound));
    words.collect::<Vec<_>>().join(" ")
}

/// Compares the questions with the stored ones. A tape has only answers: if runs ask other
/// questions, or in another order, it is a different run, which may not test the fixed bug any
/// more.
fn ensure_nothing_drifted(read: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/regressions/questions.txt");
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, read).expect("the tests of this crate can be written");
    }
    let kept = fs::read_to_string(&path).expect("it is beside this file");
    for (kept, read) in kept.lines().zip(read.lines()) {
        assert_eq!(
            kept, read,
            "a tape is asked for something else than when it was recorded (question=answer/answers): find a tape that \
             shows again what was mended, then run this test with UPDATE=1"
        );
    }
    let (kept, read) = (kept.lines().count(), read.lines().count());
    assert_eq!(kept, read, "a new tape: run this test with UPDATE=1");
}
