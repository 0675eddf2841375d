//! Coverage of requirements by tests.
//!
//! The listing is based on tests that ran and passed, not on a text search: every test program is
//! run, and only the ids printed by passing tests count ([`suites`]). They are compared with the
//! list of all ids in `tests/coverage/catalogue/` ([`crate::rules`]). An id that must be covered
//! and is not needs a reason in `tests/coverage/reasons.txt` ([`reasons`]). Scenarios of the state
//! machine must be covered by protocol scripts ([`scripted`]).

mod reasons;
mod report;
mod scripted;
mod suites;

use std::fs;
use std::path::{Path, PathBuf};

use reasons::Reasons;
use report::{Findings, Report};
use scripted::Scripted;

use crate::repository::error::Error;
use crate::repository::read;
use crate::rules::load_catalogue;

/// File with the reasons why ids are not covered.
const REASONS: &str = "tests/coverage/reasons.txt";
/// File with the reasons why scenarios have no protocol script.
const WITHOUT_SCRIPT: &str = "tests/coverage/without-script.txt";

/// Options of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) listing: Listing,
    pub(crate) strictness: Strictness,
    /// Output of `cargo test --workspace -- --show-output`, to use instead of running the tests.
    pub(crate) log: Option<PathBuf>,
}

/// Ids listed above the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listing {
    #[default]
    Everything,
    /// Only ids that are not covered.
    Missing,
}

/// Conditions under which the command fails, besides failing tests and unknown ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strictness {
    #[default]
    Lenient,
    /// Fails if an id has neither coverage nor a reason, or has both.
    Strict,
}

impl Options {
    /// Parses the command line. Returns `None` if an option is unknown.
    pub(crate) fn parse(args: &[&str]) -> Option<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--missing" => options.listing = Listing::Missing,
                "--strict" => options.strictness = Strictness::Strict,
                "--from" => options.log = Some(args.next()?.into()),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Runs the tests, or reads their output, and prints the listing. Returns the table as the summary.
pub(crate) fn run(root: &Path, options: Options) -> Result<String, Error> {
    let catalogue = load_catalogue(root)?;
    let reasons = Reasons::parse(&read(root, REASONS)?).map_err(|it| it.in_file(REASONS))?;
    let without = Reasons::parse(&read(root, WITHOUT_SCRIPT)?);
    let without = without.map_err(|it| it.in_file(WITHOUT_SCRIPT))?;

    let results = match options.log {
        Some(path) => match fs::read(&path) {
            // Output of tests may be invalid UTF-8.
            Ok(log) => suites::read(&String::from_utf8_lossy(&log)),
            Err(source) => return Err(Error::File { path, source }),
        },
        None => suites::run(root)?,
    };
    let report = Report::new(&catalogue, &reasons, &results);

    println!("{}", report.listing(options.listing));
    let scripted = Scripted::new(&catalogue, &without, &results);
    let summary = format!("{}\n{}", report.table(), scripted.summary());
    let Findings(mut lines) = report.findings(options.strictness);
    if options.strictness == Strictness::Strict {
        lines.extend(scripted.findings);
    }
    if lines.is_empty() {
        return Ok(summary);
    }
    println!("{summary}");
    Err(Error::Coverage { findings: lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_in_any_order_and_unknown_ones_rejected() {
        assert_eq!(Options::parse(&[]), Some(Options::default()));
        let both = Options {
            listing: Listing::Missing,
            strictness: Strictness::Strict,
            ..Options::default()
        };
        assert_eq!(Options::parse(&["--strict", "--missing"]), Some(both));
        let log = Options { log: Some("tests.log".into()), ..Options::default() };
        assert_eq!(Options::parse(&["--from", "tests.log"]), Some(log));
        assert_eq!(Options::parse(&["--loose"]), None);
        assert_eq!(Options::parse(&["--from"]), None);
    }

    /// Checks the checked-in files against each other without running tests.
    #[test]
    fn every_id_with_a_reason_is_in_the_catalogue_and_required() {
        let root = crate::repository::root();
        let catalogue = load_catalogue(&root).unwrap();
        let reasons = Reasons::parse(&read(&root, REASONS).unwrap()).unwrap();
        for (id, reason) in reasons.iter() {
            assert!(catalogue.must_be_shown(id), "{id} needs no reason such as `{reason}`");
        }
    }
}
