//! Coverage of the state machine's scenarios by protocol scripts.
//!
//! These are the scenarios of tier A. A scenario that no script can express has a reason in
//! `tests/coverage/without-script.txt` and a test in Rust.

use super::reasons::Reasons;
use super::suites::Results;
use crate::rules::{Catalogue, Item};

/// Tier of the scenarios that need a script.
const TIER: &str = "A";
/// Test program that runs the scripts, with or without the name of its package before it.
const SUITE: &str = "scripts";

/// Coverage by scripts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scripted {
    scenarios: usize,
    scripted: usize,
    /// Missing scripts and unnecessary reasons, one line each.
    pub(crate) findings: Vec<String>,
}

impl Scripted {
    pub(crate) fn new(catalogue: &Catalogue, without: &Reasons, results: &Results) -> Self {
        let mut scripted = Self { scenarios: 0, scripted: 0, findings: Vec::new() };
        let items = catalogue.themes.iter().flat_map(|theme| &theme.items);
        let is_scenario = |item: &&Item| item.tags == TIER;
        for Item { id, .. } in items.filter(is_scenario) {
            scripted.scenarios += 1;
            let tests = results.covered_by.get(id);
            let has_script = tests.is_some_and(|it| it.iter().any(|it| is_script(it)));
            scripted.scripted += usize::from(has_script);
            match (has_script, without.reason(id)) {
                (false, None) => scripted.findings.push(format!("{id} has no protocol script")),
                (true, Some(_)) => {
                    scripted
                        .findings
                        .push(format!("{id} has a script, and a reason for having none"));
                }
                (true, None) | (false, Some(_)) => {}
            }
        }
        for (id, _) in without.iter() {
            let is_scenario = catalogue
                .themes
                .iter()
                .any(|it| it.items.iter().any(|it| it.id == id && it.tags == TIER));
            if !is_scenario {
                scripted
                    .findings
                    .push(format!("{id} needs neither a script nor a reason for having none"));
            }
        }
        scripted
    }

    pub(crate) fn summary(&self) -> String {
        let Self { scenarios, scripted, .. } = self;
        format!("{scripted} of {scenarios} scenarios of tier {TIER} have a protocol script")
    }
}

/// Whether a test, such as `tests scripts: 01-acks`, is a protocol script.
fn is_script(test: &str) -> bool {
    test.split_once(": ").is_some_and(|(suite, _)| suite.split(' ').next_back() == Some(SUITE))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_a_script_or_a_reason_counts_as_scripted() {
        let catalogue = Catalogue::parse(
            "theme UN A,B unsubscribe\n\
             UN-01 A [d]\n  One.\n\
             UN-02 A [d]\n  Two.\n\
             UN-03 A [d]\n  Three.\n\
             UN-04 A [d]\n  Four.\n\
             UN-12 B [d]\n  Twelve.\n",
        )
        .unwrap();
        let mut results = Results::default();
        for (id, test) in [
            ("UN-01", "tests scripts: client/09.txt"),
            ("UN-02", "tests calls: a"),
            ("UN-03", "core x: a"),
            ("UN-04", "tests scripts: client/09.txt"),
        ] {
            results.covered_by.insert(id.into(), BTreeSet::from([test.into()]));
        }
        let without = Reasons::parse("[sockets]\nUN-03 UN-04 UN-12\n").unwrap();
        let scripted = Scripted::new(&catalogue, &without, &results);
        assert_eq!(scripted.summary(), "2 of 4 scenarios of tier A have a protocol script");
        assert_eq!(
            scripted.findings,
            [
                "UN-02 has no protocol script",
                "UN-04 has a script, and a reason for having none",
                "UN-12 needs neither a script nor a reason for having none",
            ]
        );
    }
}
