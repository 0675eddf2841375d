//! Report of a failed run for people, and as a generated test.

use std::fmt::Write as _;

use super::{Failure, Reproduction, environment::command};
use crate::trace::printable::printable;

/// Number of newest events shown.
pub(super) const LAST_EVENTS: usize = 30;

/// Maximum line width in a generated test.
const WIDTH: usize = 92;

/// Placeholder for a user-defined configuration in a generated test.
const OWN_CONFIG: &str = r#"// TODO: insert the configuration of the failed run: its scenario, control plane and application.
fn config() -> Config {
    todo!("Config::new(...).with_control_plane(...).with_application(...)")
}

"#;

impl Failure {
    /// Formats the report: seed, options, the rule, the last events, and commands to reproduce it.
    ///
    /// If this failure was shrunk, `found` is the original failure with the number of attempts.
    #[must_use]
    pub fn to_text(&self, found: Option<(&Self, usize)>) -> String {
        let mut out = String::new();
        let original = found.map_or(self, |(original, _)| original);
        let header = &original.trace.header;
        let (sim, core) = (header.sim, header.core);
        let seed = original.seed.map_or_else(|| "a tape".into(), |seed| format!("seed {seed}"));
        let violation = &self.violation;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{seed}  xds-sim {sim}  xds-core {core}");
        let _ = writeln!(out, "options: {}", original.options);
        let _ = writeln!(
            out,
            "VIOLATION {} at t={}, event {}",
            violation.invariant, violation.at, violation.number
        );
        let _ = writeln!(out, "  rule: {}", violation.rule);
        let _ = writeln!(out, "  what: {}", printable(&violation.what));
        if let Some((original, tries)) = found {
            if original.violation.what != violation.what {
                let _ = writeln!(out, "found: {}", printable(&original.violation.what));
            }
            let _ = writeln!(
                out,
                "shrunk from {} to {} events and from {} to {} choices in {tries} tries",
                events(original),
                events(self),
                original.tape.values().len(),
                self.tape.values().len(),
            );
            if self.options != original.options {
                let _ = writeln!(out, "options of the smallest run: {}", self.options);
            }
        }
        out.push('\n');
        out.push_str(&self.trace.to_text(LAST_EVENTS));
        out.push('\n');
        out.push_str(&self.how_to_have_it_again());
        out
    }

    /// Formats the commands that reproduce the run. The command line supports only storms, and
    /// draws their options unless they are given.
    fn how_to_have_it_again(&self) -> String {
        let mut out = String::new();
        let (options, rest) = (self.options.differences(), self.tape_after_options());
        let by_options = format!("xds sim replay --options \"{options}\" --tape {rest}");
        // Writing to a string cannot fail.
        let _ = match self.reproduction {
            Reproduction::Tape => {
                let _ = writeln!(out, "again: xds sim replay --tape {}", self.tape);
                writeln!(out, " ever: {by_options}")
            }
            Reproduction::Options => writeln!(out, "again: {by_options}"),
            Reproduction::Config => writeln!(
                out,
                "again: the test below, with the scenario, control plane and application of this run"
            ),
        };
        let _ = writeln!(out, "   or: {}", command("XDS_SIM_TAPE", &self.tape));
        out
    }

    /// Generates a test in Rust: a file for `tests/` of a crate that has this one among its
    /// dev-dependencies.
    ///
    /// The test passes when the rule holds, and fails if the tape has
    /// [drifted](crate::Outcome::drift). The options are written out, so that the run stays the
    /// same when options are added.
    ///
    /// The test of a [`storm`](crate::storm()) is complete. If the run had a user-defined scenario,
    /// control plane or application, the test has a marked placeholder for the configuration and
    /// fails until it is filled in. Without it, a storm of the same choices would test nothing.
    #[must_use]
    pub fn to_test(&self) -> String {
        self.to_test_of(self.seed)
    }

    /// Generates the test of a failure that was shrunk from the run of a seed.
    pub(super) fn to_test_of(&self, seed: Option<u64>) -> String {
        let violation = &self.violation;
        let mut out = String::new();
        comment(&mut out, "//! ", &format!("Regression test: {}", violation.rule));
        out.push_str("//!\n");
        let found = match seed {
            Some(seed) => format!("in seed {seed}"),
            None => "in a run that was repeated from its tape, the list of its choices,".into(),
        };
        let header = &self.trace.header;
        comment(
            &mut out,
            "//! ",
            &format!("Found {found} by xds-sim {}. What happened:", header.sim),
        );
        out.push_str("//!\n");
        comment(&mut out, "//! ", &printable(&violation.what));
        let _ = writeln!(out, "// {}", violation.invariant);
        out.push_str("\n// With the crate `xds`: use xds::sim::{Config, Options, Tape, replay};\n");
        out.push_str("use xds_sim::{Config, Options, Tape, replay};\n\n");
        out.push_str("/// Options of the run that differ from the defaults.\n");
        let _ = writeln!(out, "const OPTIONS: &str = {};\n", words(&self.options.differences()));
        out.push_str("/// Choices of the run after the options.\n");
        let tape = self.tape_after_options();
        let _ = writeln!(out, "const TAPE: &str = {};\n", literal(&tape.to_string()));
        let config = match self.reproduction {
            Reproduction::Config => {
                out.push_str(OWN_CONFIG);
                "config()"
            }
            Reproduction::Tape | Reproduction::Options => "Config::default()",
        };
        let _ = writeln!(out, "#[test]\nfn {}() {{", self.test_name());
        let _ = write!(
            out,
            "    let options: Options = OPTIONS.parse().expect(\"options\");
    let tape: Tape = TAPE.parse().expect(\"a tape\");
    let outcome = replay(&tape, &{config}.with_fixed_options(options));
    if let Some(failure) = outcome.violation {{
        panic!(\"{{}}\", failure.to_text(None));
    }}
    assert_eq!(outcome.drift, None, \"the tape now leads to another run\");
}}
"
        );
        out
    }

    /// Name for the test and for files, such as `ic15_seed_24005`.
    #[must_use]
    pub fn test_name(&self) -> String {
        let word = |character: char| match character {
            'a'..='z' | '0'..='9' => character,
            'A'..='Z' => character.to_ascii_lowercase(),
            _ => '_',
        };
        let invariant: String = self.violation.invariant.chars().map(word).collect();
        match self.seed {
            Some(seed) => format!("{invariant}_seed_{seed}"),
            None => format!("{invariant}_{:016x}", self.trace.header.hash),
        }
    }
}

fn events(failure: &Failure) -> u64 {
    failure.trace.events.last().map_or(0, |event| event.number + 1)
}

/// Appends text as a comment with lines of limited width.
fn comment(out: &mut String, start: &str, text: &str) {
    let mut line = String::from(start);
    for word in text.split_whitespace() {
        let is_full = line.chars().count() + word.chars().count() > WIDTH;
        if is_full && line.len() > start.len() {
            out.push_str(line.trim_end());
            out.push('\n');
            line = String::from(start);
        }
        line.push_str(word);
        line.push(' ');
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Formats text without characters to escape as a literal, broken between words.
fn words(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() || line.len() + word.len() <= WIDTH - 4 => {
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    match &*lines {
        [line] => format!("\"{line}\""),
        // The backslash at the end of a line skips spaces after it, not before it.
        lines => format!("\"\\\n    {}\"", lines.join("\\\n    ")),
    }
}

/// Formats text without characters to escape as a literal, broken anywhere.
fn literal(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let lines: Vec<String> =
        letters.chunks(WIDTH - 4).map(|chunk| chunk.iter().collect()).collect();
    match &*lines {
        [] => "\"\"".into(),
        [line] => format!("\"{line}\""),
        lines => format!("\"\\\n    {}\"", lines.join("\\\n    ")),
    }
}
