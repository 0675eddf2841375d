//! Rules without an [`Oracle`](super::Oracle), with the tests that cover them.

use super::Rule;

/// A rule without an oracle.
#[derive(Clone, Copy, Debug)]
pub struct RuleWithoutOracle {
    /// Rule.
    pub rule: Rule,
    /// Tests that cover it.
    pub tested_by: TestedBy,
}

/// Method by which a rule is tested.
#[derive(Clone, Copy, Debug)]
pub enum TestedBy {
    /// Comparison of several runs, by tests of this crate.
    Comparison(&'static str),
    /// Tests outside the simulation, because the subject is absent from a world or invisible in it.
    OtherTests {
        /// Reason why a world cannot test it.
        why: &'static str,
        /// Tests, as paths in this repository.
        tests: &'static [&'static str],
    },
}

const fn by_comparison(
    id: &'static str,
    sentence: &'static str,
    tests: &'static str,
) -> RuleWithoutOracle {
    RuleWithoutOracle { rule: Rule::new(id, sentence), tested_by: TestedBy::Comparison(tests) }
}

const fn by_other_tests(
    id: &'static str,
    sentence: &'static str,
    why: &'static str,
    tests: &'static [&'static str],
) -> RuleWithoutOracle {
    RuleWithoutOracle {
        rule: Rule::new(id, sentence),
        tested_by: TestedBy::OtherTests { why, tests },
    }
}

/// All rules without an oracle.
pub const RULES_WITHOUT_ORACLE: &[RuleWithoutOracle] = &[
    by_comparison(
        "IC37",
        "a client with the same inputs at the same times has the same outputs, byte for byte",
        "xds-sim/tests/it/meta.rs",
    ),
    by_comparison(
        "IS34",
        "a server with the same inputs at the same times has the same outputs, byte for byte",
        "xds-sim/tests/it/meta.rs",
    ),
    by_comparison(
        "IL4",
        "a scenario has the same result in both variants of the protocol",
        "xds-sim/tests/it/variants.rs",
    ),
    by_other_tests(
        "IL6",
        "a client of a relay sees the same as a client of the relay's server",
        "the servers of a world are not clients of other servers",
        &["tests/relay/transparent.rs"],
    ),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;
    use crate::{
        options::{Action, Actions, Lie, Lies, Options, Transport},
        oracle,
        world::{
            admission,
            events::{HONEST_TIMEOUTS, NO_PANIC},
        },
    };

    /// Returns the identifiers of rules that the oracles of any run check.
    fn judged() -> BTreeSet<&'static str> {
        let on = |transport| Options { transport, ..Options::default() };
        let kinds = [
            Options::default(),
            on(Transport::Polls),
            on(Transport::Files),
            Options { lies: Lies::NONE.with(Lie::Truncate), ..Options::default() },
            Options { actions: Actions::NONE.with(Action::WatchAlias), ..Options::default() },
        ];
        let oracles = kinds.iter().flat_map(oracle::all);
        let rules = oracles.flat_map(|oracle| oracle.rules()).map(|rule| rule.id);
        let of_worlds = [NO_PANIC, HONEST_TIMEOUTS].into_iter().chain(admission::RULES);
        rules.chain(of_worlds.map(|rule| rule.id)).collect()
    }

    #[test]
    fn every_rule_has_an_oracle_or_another_test() {
        let judged = judged();
        let others: BTreeSet<&str> =
            RULES_WITHOUT_ORACLE.iter().map(|other| other.rule.id).collect();
        assert_eq!(others.len(), RULES_WITHOUT_ORACLE.len(), "none twice");
        let of = |kind: &'static str, last: u32| (1..=last).map(move |at| format!("{kind}{at}"));
        for id in of("IC", 40).chain(of("IS", 34)).chain(of("IL", 7)) {
            let is_known = judged.contains(id.as_str()) != others.contains(id.as_str());
            assert!(is_known, "{id} is to be judged, or to be told of here, and not both");
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for other in RULES_WITHOUT_ORACLE {
            match other.tested_by {
                TestedBy::Comparison(test) => assert!(root.join(test).exists(), "{other:?}"),
                TestedBy::OtherTests { tests, .. } => {
                    assert!(tests.iter().all(|test| root.join(test).exists()), "{other:?}");
                }
            }
        }
    }
}
