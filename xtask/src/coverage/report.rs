//! Listing, table and findings of a coverage run.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use super::reasons::Reasons;
use super::suites::Results;
use super::{Listing, Strictness};
use crate::rules::{Catalogue, Item, Theme};

/// Coverage of a run.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    catalogue: &'a Catalogue,
    reasons: &'a Reasons,
    results: &'a Results,
}

/// Reasons for the command to fail, one line each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Findings(pub(crate) Vec<String>);

/// Coverage of one id.
#[derive(Debug, PartialEq, Eq)]
enum State<'a> {
    Covered(Vec<&'a str>),
    Reason(&'a str),
    Missing,
    /// The id is neither required nor covered.
    Optional,
}

/// Row of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    must: usize,
    covered: usize,
    reason: usize,
    missing: usize,
    /// Number of ids that are covered but not required.
    beyond: usize,
}

impl<'a> Report<'a> {
    pub(crate) fn new(
        catalogue: &'a Catalogue,
        reasons: &'a Reasons,
        results: &'a Results,
    ) -> Self {
        Self { catalogue, reasons, results }
    }

    /// Lists every id with its tests or its reason. Ids that are not required are listed only if
    /// they are covered.
    pub(crate) fn listing(&self, listing: Listing) -> String {
        let mut text = String::new();
        for theme in &self.catalogue.themes {
            let lines: String =
                theme.items.iter().filter_map(|item| self.line(theme, item, listing)).collect();
            if !lines.is_empty() {
                let _ = write!(text, "{}: {}\n{lines}\n", theme.key, theme.title);
            }
        }
        text
    }

    /// Formats the number of covered ids of each theme, and their sums.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let mut total = Count::default();
        let _ = writeln!(text, "{}", Count::HEADING);
        for theme in &self.catalogue.themes {
            let count = self.count(theme);
            total.add(count);
            let _ = writeln!(text, "{} {}", count.row(&theme.key), theme.title);
        }
        let _ = writeln!(text, "{}", total.row("all"));
        let _ = write!(text, "{} tests passed", self.results.passed);
        text
    }

    pub(crate) fn findings(&self, strictness: Strictness) -> Findings {
        let results = self.results;
        let mut findings = results.failed.clone();
        for (id, tests) in &results.covered_by {
            if !self.catalogue.knows(id) {
                let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
                findings.push(format!("{id} is not in the catalogue: {}", tests.join("; ")));
            }
        }
        for (id, _) in self.reasons.iter() {
            if !self.catalogue.must_be_shown(id) {
                findings.push(format!("{id} has a reason, but needs no test"));
            } else if strictness == Strictness::Strict && results.covered_by.contains_key(id) {
                findings.push(format!("{id} has a reason, but is covered"));
            }
        }
        if strictness == Strictness::Strict {
            for theme in &self.catalogue.themes {
                let missing =
                    theme.items.iter().filter(|item| self.state(theme, item) == State::Missing);
                findings.extend(missing.map(|item| format!("{} is not covered", item.id)));
            }
        }
        Findings(findings)
    }

    fn line(&self, theme: &Theme, item: &Item, listing: Listing) -> Option<String> {
        let state = match (self.state(theme, item), listing) {
            (State::Optional, _) | (State::Covered(_), Listing::Missing) => return None,
            (State::Covered(tests), Listing::Everything) => by_suite(&tests),
            (State::Reason(reason), _) => format!("not covered: {reason}"),
            (State::Missing, _) => "NOT COVERED".into(),
        };
        let tags = if item.tags == "-" { String::new() } else { format!(" {}", item.tags) };
        Some(format!("  {}{tags} {}: {state}\n", item.id, item.sentence.trim_end_matches('.')))
    }

    fn state(&self, theme: &Theme, item: &Item) -> State<'a> {
        if let Some(tests) = self.results.covered_by.get(&item.id) {
            return State::Covered(tests.iter().map(String::as_str).collect());
        }
        if !theme.must_show(item) {
            return State::Optional;
        }
        self.reasons.reason(&item.id).map_or(State::Missing, State::Reason)
    }

    fn count(&self, theme: &Theme) -> Count {
        let mut count = Count::default();
        for item in &theme.items {
            let must = theme.must_show(item);
            count.must += usize::from(must);
            match self.state(theme, item) {
                State::Covered(_) if must => count.covered += 1,
                State::Covered(_) => count.beyond += 1,
                State::Reason(_) => count.reason += 1,
                State::Missing => count.missing += 1,
                State::Optional => {}
            }
        }
        count
    }
}

impl Count {
    const HEADING: &str = "theme  must  covered  reason  missing  beyond";

    fn row(self, key: &str) -> String {
        let Self { must, covered, reason, missing, beyond } = self;
        format!("{key:5} {must:5} {covered:8} {reason:7} {missing:8} {beyond:7}")
    }

    fn add(&mut self, other: Self) {
        self.must += other.must;
        self.covered += other.covered;
        self.reason += other.reason;
        self.missing += other.missing;
        self.beyond += other.beyond;
    }
}

/// Formats tests grouped by their program.
fn by_suite(tests: &[&str]) -> String {
    let mut suites: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in tests {
        let (suite, test) = test.split_once(": ").unwrap_or(("", test));
        suites.entry(suite).or_default().push(test);
    }
    let suites: Vec<String> =
        suites.iter().map(|(suite, tests)| format!("{suite} ({})", tests.join(", "))).collect();
    suites.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::parse(
            "theme UN A,B unsubscribe\n\
             UN-01 A [d]\n  One of several.\n\
             UN-02 A [d]\n  The last.\n\
             UN-12 B [d]\n  Twice.\n\
             theme IC - invariants\n\
             IC1 - [d]\n  Always.\n\
             IC2 - [d]\n  Never.\n",
        )
        .unwrap()
    }

    fn results(covers: &[(&str, &str)]) -> Results {
        let mut results = Results { passed: covers.len(), ..Results::default() };
        for (id, test) in covers {
            let tests: &mut BTreeSet<String> =
                results.covered_by.entry((*id).to_owned()).or_default();
            tests.insert((*test).to_owned());
        }
        results
    }

    #[test]
    fn listing_names_tests_and_reasons() {
        let (catalogue, reasons) = (catalogue(), Reasons::parse("[server]\nUN-12\n").unwrap());
        let results = results(&[("UN-01", "core x: b"), ("UN-01", "core x: a"), ("IC1", "sim: c")]);
        let report = Report::new(&catalogue, &reasons, &results);
        assert_eq!(
            report.listing(Listing::Everything),
            "UN: unsubscribe\n  \
             UN-01 A One of several: core x (a, b)\n  \
             UN-02 A The last: NOT COVERED\n  \
             UN-12 B Twice: not covered: server\n\n\
             IC: invariants\n  \
             IC1 Always: sim (c)\n\n"
        );
        assert_eq!(
            report.listing(Listing::Missing),
            "UN: unsubscribe\n  \
             UN-02 A The last: NOT COVERED\n  \
             UN-12 B Twice: not covered: server\n\n"
        );
    }

    #[test]
    fn table_has_sums() {
        let (catalogue, reasons) = (catalogue(), Reasons::parse("[server]\nUN-12\n").unwrap());
        let results = results(&[("UN-01", "core x: a"), ("IC1", "core x: a")]);
        assert_eq!(
            Report::new(&catalogue, &reasons, &results).table(),
            "theme  must  covered  reason  missing  beyond\n\
             UN        3        1       1        1       0 unsubscribe\n\
             IC        0        0       0        0       1 invariants\n\
             all       3        1       1        1       1\n\
             2 tests passed"
        );
    }

    #[test]
    fn unknown_ids_and_failed_tests_are_always_findings() {
        let (catalogue, reasons) = (catalogue(), Reasons::parse("[r]\nIC1 UN-77\n").unwrap());
        let mut results = results(&[("UN-99", "core x: a")]);
        results.failed.push("core y: failed: a".into());
        let Findings(lines) =
            Report::new(&catalogue, &reasons, &results).findings(Strictness::Lenient);
        assert_eq!(
            lines,
            [
                "core y: failed: a",
                "UN-99 is not in the catalogue: core x: a",
                "IC1 has a reason, but needs no test",
                "UN-77 has a reason, but needs no test",
            ]
        );
    }

    #[test]
    fn strict_mode_requires_coverage_or_a_reason_but_not_both() {
        let (catalogue, reasons) = (catalogue(), Reasons::parse("[server]\nUN-01\n").unwrap());
        let results = results(&[("UN-01", "core x: a"), ("UN-12", "core x: a")]);
        let report = Report::new(&catalogue, &reasons, &results);
        assert_eq!(report.findings(Strictness::Lenient), Findings(Vec::new()));
        let Findings(lines) = report.findings(Strictness::Strict);
        assert_eq!(lines, ["UN-01 has a reason, but is covered", "UN-02 is not covered"]);
    }
}
