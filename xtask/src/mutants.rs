//! Mutation tests: applies each bug of `tests/mutants/` to a copy of the checkout and runs the
//! tests of the client's state machine until one fails.
//!
//! A bug is a patch with a description above it:
//!
//! ```text
//! Description of the bug in terms of the protocol.
//!
//! Ids: the requirements that it violates
//! Shipped by: where it was found, if it was
//! Shown by: the test that is meant to find it
//!
//! --- a/xds-core/src/client/..
//! ```
//!
//! The copy is built without the dependencies of the adapters, without optimisation and without
//! debug information, so a bug takes only a few seconds: one build of the core and the simulator.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::repository::error::Error;
use crate::repository::tree::at;

/// Folder with the patches.
const FOLDER: &str = "tests/mutants";

/// Tests, in stages with the most effective first. A bug that a stage finds skips the later stages.
const STAGES: [&[&str]; 4] = [
    &["-p", "xds-tests", "--test", "scripts"],
    &["-p", "xds-tests", "--test", "calls"],
    &["-p", "xds-core", "--test", "it"],
    &["-p", "xds-core", "--lib", "--test", "server"],
];

/// Dependencies that the first stage does not need. With them it would be rebuilt for each bug.
const UNUSED: [&str; 6] =
    ["envoy-types", "serde", "serde_json", "tokio", "xds-bootstrap", "xds-tokio"];

/// Time limit of a stage including its build, because a bug may cause an endless loop.
const LIMIT: Duration = Duration::from_secs(600);

/// Exit code of `timeout` when the time limit was reached.
const TIMED_OUT: i32 = 124;

/// Bug.
#[derive(Debug, PartialEq, Eq)]
struct Mutant {
    number: u32,
    /// File name without its extension.
    name: String,
    path: PathBuf,
    ids: String,
    shipped_by: String,
    shown_by: String,
}

/// Result of one bug.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// At least one test failed.
    Killed(Vec<String>),
    /// Every test passed.
    Survived,
    /// The patch does not apply, or the result does not compile.
    Broken(String),
}

/// Tests the bugs with these numbers, or all bugs. Returns the table as the summary.
pub(crate) fn run(root: &Path, numbers: &[u32]) -> Result<String, Error> {
    let mut mutants = read_all(&root.join(FOLDER))?;
    mutants.retain(|mutant| numbers.is_empty() || numbers.contains(&mutant.number));
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let bench =
        Bench { copy: target.join("mutants/checkout"), build: target.join("mutants/build") };
    bench.copy_from(root)?;

    // For single bugs, only the first stage is run without a bug, which saves minutes.
    let without = if numbers.is_empty() { &STAGES[..] } else { &STAGES[..1] };
    println!("without any bug first");
    match bench.test(without)? {
        Outcome::Survived => {}
        Outcome::Killed(tests) => return Err(failed(format!("fails by itself: {tests:?}"))),
        Outcome::Broken(why) => return Err(failed(why)),
    }
    let mut table = String::from("| mutant | ids | shipped by | killed by | seconds |\n");
    table.push_str("|---|---|---|---|--:|\n");
    let mut findings = Vec::new();
    for mutant in &mutants {
        let start = Instant::now();
        let outcome = bench.try_out(mutant)?;
        let seconds = start.elapsed().as_secs();
        let verdict = mutant.verdict(&outcome);
        println!("{}: {verdict}, {seconds} s", mutant.name);
        let Mutant { name, ids, shipped_by, .. } = mutant;
        let _ = writeln!(table, "| {name} | {ids} | {shipped_by} | {verdict} | {seconds} |");
        if !matches!(outcome, Outcome::Killed(_)) {
            findings.push(format!("{name}: {verdict}"));
        }
    }
    let _ = write!(table, "\n{} of {} killed", mutants.len() - findings.len(), mutants.len());
    if findings.is_empty() {
        return Ok(table);
    }
    println!("{table}");
    Err(Error::Mutants { findings })
}

fn failed(why: String) -> Error {
    Error::Mutants { findings: vec![why] }
}

fn read_all(folder: &Path) -> Result<Vec<Mutant>, Error> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "patch"));
    paths.sort();
    let read = |path: PathBuf| match fs::read_to_string(&path) {
        Ok(text) => Mutant::parse(&path, &text).ok_or_else(|| {
            failed(format!("{}: the file name must begin with a number", path.display()))
        }),
        Err(source) => Err(at(&path)(source)),
    };
    paths.into_iter().map(read).collect()
}

impl Mutant {
    fn parse(path: &Path, text: &str) -> Option<Self> {
        let name = path.file_stem()?.to_str()?;
        let number = name.split('-').next()?.parse().ok()?;
        let header = text.split("\n--- ").next().unwrap_or_default();
        let field = |key| {
            let value = header.lines().find_map(|line| line.strip_prefix(key));
            value.unwrap_or_default().trim().to_owned()
        };
        Some(Self {
            number,
            name: name.to_owned(),
            path: path.to_owned(),
            ids: field("Ids:"),
            shipped_by: field("Shipped by:"),
            shown_by: field("Shown by:"),
        })
    }

    /// Returns the test that is meant to find the bug if it failed, otherwise another failed test.
    fn verdict(&self, outcome: &Outcome) -> String {
        let tests = match outcome {
            Outcome::Survived => return String::from("SURVIVED"),
            Outcome::Broken(why) => return format!("BROKEN: {why}"),
            Outcome::Killed(tests) => tests,
        };
        let meant = tests.iter().find(|&test| *test == self.shown_by);
        let test = meant.or_else(|| tests.first()).map_or("", String::as_str);
        match tests.len() {
            0 | 1 => format!("`{test}`"),
            more => format!("`{test}` and {} more", more - 1),
        }
    }
}

/// Folders of the copy and its build.
struct Bench {
    copy: PathBuf,
    build: PathBuf,
}

impl Bench {
    /// Copies the checkout again, because the copy of an interrupted run contains a bug.
    fn copy_from(&self, root: &Path) -> Result<(), Error> {
        if self.copy.exists() {
            fs::remove_dir_all(&self.copy).map_err(at(&self.copy))?;
        }
        let listed = output(Command::new("git").args(["ls-files", "-z"]).current_dir(root))?;
        for name in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let (from, to) = (root.join(name), self.copy.join(name));
            let Some(folder) = to.parent().filter(|_| from.is_file()) else { continue };
            fs::create_dir_all(folder).map_err(at(folder))?;
            fs::copy(&from, &to).map_err(at(&from))?;
        }
        let manifest = self.copy.join("tests/Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(at(&manifest))?;
        fs::write(&manifest, without_unused(&text)).map_err(at(&manifest))
    }

    fn try_out(&self, mutant: &Mutant) -> Result<Outcome, Error> {
        let applied = self.apply(mutant, &[])?;
        if !applied.status.success() {
            let why = String::from_utf8_lossy(&applied.stderr);
            let why = why.lines().next().unwrap_or_default();
            return Ok(Outcome::Broken(format!("does not apply: {why}")));
        }
        let outcome = self.test(&STAGES)?;
        if self.apply(mutant, &["--reverse"])?.status.success() {
            Ok(outcome)
        } else {
            Err(failed(format!("cannot revert {}", mutant.name)))
        }
    }

    fn apply(&self, mutant: &Mutant, options: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new("git");
        command.arg("apply").args(options).arg(&mutant.path).current_dir(&self.copy);
        // Otherwise git ignores the copy, because it lies in an ignored folder of
        // the surrounding repository.
        output(command.env("GIT_CEILING_DIRECTORIES", self.copy.parent().unwrap_or(&self.copy)))
    }

    fn test(&self, stages: &[&[&str]]) -> Result<Outcome, Error> {
        for stage in stages {
            let output = self.cargo_test(stage)?;
            if output.status.success() {
                continue;
            }
            let (stdout, stderr) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if output.status.code() == Some(TIMED_OUT) {
                return Ok(Outcome::Killed(vec![format!("{} s", LIMIT.as_secs())]));
            }
            if let Some(error) = stderr.lines().find(|line| line.starts_with("error: could not ")) {
                return Ok(Outcome::Broken(error.to_owned()));
            }
            let mut tests = failed_tests(&stdout);
            if tests.is_empty() {
                tests.push(format!("end of {}", stage.join(" ")));
            }
            return Ok(Outcome::Killed(tests));
        }
        Ok(Outcome::Survived)
    }

    fn cargo_test(&self, stage: &[&str]) -> Result<Output, Error> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new("timeout");
        command.arg(LIMIT.as_secs().to_string()).arg(cargo).args(["test", "--quiet", "--offline"]);
        command.args(stage).current_dir(&self.copy).env("CARGO_TARGET_DIR", &self.build);
        for package in ["xds-core", "xds-format", "xds-routing", "xds-sim"] {
            let unoptimised = format!("profile.dev.package.{package}.opt-level=0");
            command.args(["--config", &unoptimised]);
        }
        output(command.env("CARGO_PROFILE_DEV_DEBUG", "0"))
    }
}

fn output(command: &mut Command) -> Result<Output, Error> {
    let program = PathBuf::from(command.get_program());
    command.output().map_err(at(&program))
}

fn without_unused(manifest: &str) -> String {
    let is_unused = |line: &&str| UNUSED.contains(&line.split(['.', ' ']).next().unwrap_or(line));
    manifest.lines().filter(|line| !is_unused(line)).map(|line| format!("{line}\n")).collect()
}

/// Returns the names on the last list of failures, which the harness indents.
fn failed_tests(stdout: &str) -> Vec<String> {
    let list = stdout.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    let names =
        list.lines().skip_while(|line| line.is_empty()).map_while(|line| line.strip_prefix("    "));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_header_is_parsed() {
        let text = "A nonce\nis kept.\n\nIds: IC6\nShown by: client/07.txt\n\n--- a/x\n+Ids: no\n";
        let mutant = Mutant::parse(Path::new("tests/mutants/01-nonce.patch"), text).unwrap();
        assert_eq!((mutant.number, &*mutant.ids, &*mutant.shipped_by), (1, "IC6", ""));
        let killed = |tests: &[&str]| Outcome::Killed(tests.iter().map(|&it| it.into()).collect());
        assert_eq!(mutant.verdict(&killed(&["a", "client/07.txt"])), "`client/07.txt` and 1 more");
        assert_eq!(mutant.verdict(&killed(&["a"])), "`a`");
    }

    #[test]
    fn failed_tests_are_read_from_the_last_list() {
        let stdout = "failures:\n\n---- a ----\n    not me\n\n\nfailures:\n    a\n    b::c\n\ntest result: FAILED.";
        assert_eq!(failed_tests(stdout), ["a", "b::c"]);
        assert_eq!(failed_tests("test result: ok."), Vec::<String>::new());
    }

    #[test]
    fn unused_dependencies_are_matched_by_whole_name() {
        let manifest =
            "serde.workspace = true\nserde-x = 1\ntokio = { workspace = true }\nbytes = 1\n";
        assert_eq!(without_unused(manifest), "serde-x = 1\nbytes = 1\n");
    }

    #[test]
    fn every_patch_has_a_unique_number_ids_and_a_test() {
        let mutants = read_all(&crate::repository::root().join(FOLDER)).unwrap();
        assert!(mutants.windows(2).all(|pair| pair[0].number < pair[1].number));
        assert!(mutants.iter().all(|mutant| !mutant.ids.is_empty() && !mutant.shown_by.is_empty()));
    }

    #[test]
    fn every_patch_applies_to_the_current_code() {
        for mutant in read_all(&crate::repository::root().join(FOLDER)).unwrap() {
            let mut git = Command::new("git");
            git.args(["apply", "--check"]).arg(&mutant.path).current_dir(crate::repository::root());
            let checked = output(&mut git).unwrap();
            let why = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "renew {}: {why}", mutant.name);
        }
    }
}
