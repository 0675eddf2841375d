//! Wording: beginnings of doc comments, requirement ids in doc comments, names of types, and
//! documents that mention what does not exist.
//!
//! The word lists are in `xtask/data/language/`. Its `exceptions.txt` has the highest number of
//! violations that a package may have while its comments are being rewritten.

mod doc_comments;
mod documents;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::repository::error::Error;
use crate::repository::exceptions::{Correction, Exceptions, corrected};
use crate::repository::tree::at;
use crate::repository::{print, read};
use crate::rules::{Ids, load_catalogue};
use crate::source::files;
use rules::{RULES, Violation, Words};

/// Words with which no doc comment may begin.
const BEGINNINGS: &str = "xtask/data/language/beginnings.txt";
/// Type names with their replacements.
const GLOSSARY: &str = "xtask/data/language/glossary.txt";
/// The generated page of the requirements.
const REQUIREMENTS: &str = "docs/REQUIREMENTS.md";
/// Highest numbers of violations by package and rule.
const EXCEPTIONS: &str = "xtask/data/language/exceptions.txt";

/// LanguageOptions of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LanguageOptions<'a> {
    /// Whether to list violations within the highest numbers too.
    pub(crate) all: bool,
    /// Whether to lower the highest numbers to the present ones.
    pub(crate) prune: bool,
    /// Folders or files whose violations are listed.
    pub(crate) paths: Vec<&'a str>,
}

impl<'a> LanguageOptions<'a> {
    /// Parses the command line. Returns `None` if an option is unknown.
    pub(crate) fn parse(args: &[&'a str]) -> Option<Self> {
        let mut options = Self::default();
        for &arg in args {
            match arg {
                "--all" => options.all = true,
                "--prune" => options.prune = true,
                path if !path.starts_with('-') => options.paths.push(path.trim_end_matches('/')),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Violations of all packages, with their highest numbers.
struct Wording {
    /// Violations by package and rule, such as `xds-core ids`.
    violations: BTreeMap<String, Vec<Violation>>,
    exceptions: Exceptions,
}

/// Checks the wording. Returns the counts as the summary.
pub(crate) fn run(root: &Path, options: &LanguageOptions<'_>) -> Result<String, Error> {
    let report = Wording::new(root)?;
    if options.prune {
        let corrections = report.corrections();
        let text = corrected(&read(root, EXCEPTIONS)?, &corrections);
        let path = root.join(EXCEPTIONS);
        fs::write(&path, text).map_err(at(&path))?;
        println!("{EXCEPTIONS}: {} lines corrected", corrections.len());
        return Ok(report.summary());
    }
    for violation in report.listed(options) {
        let Violation { rule, path, line, text } = violation;
        print(&format!("{path}:{line}: {}: {text}", rule.name()));
    }
    let findings = report.findings();
    if findings.is_empty() {
        return Ok(report.summary());
    }
    print(&report.summary());
    Err(Error::Language { findings })
}

impl Wording {
    fn new(root: &Path) -> Result<Self, Error> {
        let ids = Ids::new(&load_catalogue(root)?);
        let words = Words::parse(&read(root, BEGINNINGS)?, &read(root, GLOSSARY)?, ids)
            .map_err(|line| line.in_file(GLOSSARY))?;
        let exceptions =
            Exceptions::parse(&read(root, EXCEPTIONS)?).map_err(|it| it.in_file(EXCEPTIONS))?;
        exceptions.numbers().map_err(|line| line.in_file(EXCEPTIONS))?;
        let mut violations: BTreeMap<String, Vec<Violation>> = BTreeMap::new();
        let sources = files(root, "", "rs")?;
        let mut documents = files(root, "", "md")?;
        let others = [files(root, "", "proto")?, files(root, "", "py")?].concat();
        let code: BTreeSet<_> = sources
            .iter()
            .chain(&others)
            .flat_map(|file| file.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
            .collect();
        // The requirements quote the names of the protocol, of other implementations too.
        documents.retain(|file| file.path != REQUIREMENTS);
        let in_sources = sources.iter().flat_map(|file| words.violations(file));
        let in_documents = documents
            .iter()
            .flat_map(|file| documents::missing(file, &code, |path| root.join(path).exists()));
        for violation in in_sources.chain(in_documents) {
            let package = violation.path.split('/').next().unwrap_or_default();
            let key = format!("{package} {}", violation.rule.name());
            violations.entry(key).or_default().push(violation);
        }
        Ok(Self { violations, exceptions })
    }

    fn count(&self, key: &str) -> usize {
        self.violations.get(key).map_or(0, Vec::len)
    }

    fn highest(&self, key: &str) -> usize {
        let numbers = self.exceptions.numbers().unwrap_or_default().into_iter();
        numbers.filter(|(_, name, _)| *name == key).map(|(_, _, number)| number).sum()
    }

    /// Returns the violations to print: those of rules that are not kept, or of the given paths.
    fn listed(&self, options: &LanguageOptions<'_>) -> impl Iterator<Item = &Violation> {
        let is_below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let wanted = move |key: &str, path: &str| {
            let is_named = options.paths.iter().any(|folder| is_below(path, folder));
            let is_too_much = self.count(key) > self.highest(key);
            is_named || (options.paths.is_empty() && (options.all || is_too_much))
        };
        let all = self.violations.iter();
        all.flat_map(move |(key, violations)| {
            violations.iter().filter(move |violation| wanted(key, &violation.path))
        })
    }

    fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for key in self.violations.keys() {
            let (count, highest) = (self.count(key), self.highest(key));
            if count > highest {
                found.push(format!("{key}: {count}, at most {highest} are accepted"));
            }
        }
        for (exception, name, _) in self.exceptions.numbers().unwrap_or_default() {
            if self.count(name) == 0 {
                let line = exception.line;
                found.push(format!(
                    "{EXCEPTIONS}, line {line}: no longer needed (cargo xtask language --prune)"
                ));
            }
        }
        found
    }

    fn corrections(&self) -> Vec<Correction> {
        let mut found = Vec::new();
        for (exception, name, highest) in self.exceptions.numbers().unwrap_or_default() {
            let count = self.count(name);
            if count < highest {
                let text = (count > 0).then(|| format!("{name} {count}"));
                found.push(Correction { line: exception.line, text });
            }
        }
        found
    }

    fn summary(&self) -> String {
        let lines = RULES.map(|rule| {
            let name = rule.name();
            let of_rule = self.violations.iter().filter_map(|(key, violations)| {
                let package = key.strip_suffix(name)?.trim_end();
                Some((package, violations.len(), self.highest(key)))
            });
            let of_rule: Vec<_> = of_rule.collect();
            let total: usize = of_rule.iter().map(|(_, count, _)| count).sum();
            let packages: String = of_rule
                .iter()
                .map(|(package, count, highest)| {
                    format!("\n  {package} {count} (at most {highest})")
                })
                .collect();
            format!("{} {total}{packages}", rule.description())
        });
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_package_has_more_violations_than_accepted() {
        let findings = Wording::new(&crate::repository::root()).unwrap().findings();
        assert!(findings.is_empty(), "cargo xtask language:\n{}", findings.join("\n"));
    }

    #[test]
    fn options_are_parsed_in_any_order_and_unknown_ones_rejected() {
        let options = LanguageOptions::parse(&["xds-core/", "--all"]).unwrap();
        assert_eq!(options, LanguageOptions { all: true, prune: false, paths: vec!["xds-core"] });
        assert_eq!(LanguageOptions::parse(&["--loose"]), None);
    }
}
