//! Runs every test program, or reads their output, and collects the ids that passing tests cover.
//!
//! A test declares coverage by printing a line `covers: ID ID ..`. The programs are those of
//! `cargo test --workspace`, run with `--show-output`: the test harness then prints the output of
//! each test under its name, so that lines of tests that ran in parallel are not mixed. The summary
//! line of each program is printed, and the whole output of a failing program. [`read`] takes the
//! output of `cargo test --workspace -- --show-output` instead of running the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::repository::error::Error;

/// Results of all tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    /// Tests that cover each id.
    pub(crate) covered_by: BTreeMap<String, BTreeSet<String>>,
    /// Number of tests that passed.
    pub(crate) passed: usize,
    /// Programs that failed, with their failed tests.
    pub(crate) failed: Vec<String>,
}

/// Test program.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    /// Package and target, such as `xds-core server`.
    name: String,
    executable: PathBuf,
    /// Working directory that cargo would use: the folder of the package.
    folder: PathBuf,
}

/// Builds all test programs and runs them one by one.
pub(crate) fn run(root: &Path) -> Result<Results, Error> {
    let mut results = Results::default();
    let suites = build(root)?;
    eprintln!("running {} test programs", suites.len());
    for suite in suites {
        // In the format of cargo.
        println!("     Running {} ({})", suite.name, suite.executable.display());
        let output = Command::new(&suite.executable)
            .arg("--show-output")
            .current_dir(&suite.folder)
            .env("CARGO_MANIFEST_DIR", &suite.folder)
            .output()
            .map_err(|source| Error::File { path: suite.executable.clone(), source })?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            stdout.lines().filter(|line| line.starts_with("test result: ")).for_each(|line| {
                println!("{line}");
            });
        } else {
            println!("{stdout}");
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            results.failed(&suite.name, &stdout);
        }
        results.passed(&suite.name, &stdout);
    }
    Ok(results)
}

/// Reads the results from the output of test programs under cargo's headings.
pub(crate) fn read(log: &str) -> Results {
    let mut results = Results::default();
    let mut unit_tests = "";
    for program in log.split(HEADING).skip(1) {
        let (heading, output) = program.split_once('\n').unwrap_or((program, ""));
        let Some(name) = target(heading) else { continue };
        if heading.starts_with("unittests ") {
            unit_tests = name;
        }
        // Many packages have a program of this name, which cargo runs after their unit tests.
        let name = if name == "it" { &format!("{unit_tests} it") } else { name };
        // Doc tests come last and have another heading.
        let output = output.split(DOC_TESTS).next().unwrap_or(output);
        if !output.lines().any(|line| line.starts_with("test result: ok.")) {
            results.failed(name, output);
        }
        results.passed(name, output);
    }
    results
}

/// Cargo's heading of a test program.
const HEADING: &str = "     Running ";
/// Cargo's heading of the doc tests of a crate.
const DOC_TESTS: &str = "   Doc-tests ";

/// Returns the program's name in a heading such as
/// `tests/acks.rs (target/debug/deps/acks-0123456789abcdef)`.
fn target(heading: &str) -> Option<&str> {
    let path = heading.trim_end().strip_suffix(')')?.rsplit_once('(')?.1;
    let file = path.rsplit(['/', '\\']).next()?;
    Some(file.rsplit_once('-')?.0)
}

impl Results {
    fn failed(&mut self, suite: &str, output: &str) {
        let failed: Vec<&str> = with_verdict(output, "FAILED").collect();
        self.failed.push(format!("{suite}: failed: {}", failed.join(", ")));
    }

    fn passed(&mut self, suite: &str, output: &str) {
        let tests = passed_tests(output);
        self.passed += tests.len();
        for (test, ids) in tests {
            for id in ids {
                let tests = self.covered_by.entry(id).or_default();
                tests.insert(format!("{suite}: {test}"));
            }
        }
    }
}

/// Builds the test programs like `cargo test --workspace`, without the doc tests.
fn build(root: &Path) -> Result<Vec<Suite>, Error> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(&cargo)
        .args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-run"])
        .args(["--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::File { path: PathBuf::from(&cargo), source })?;
    if !output.status.success() {
        return Err(Error::Build);
    }
    let mut suites: Vec<Suite> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(suite).collect();
    suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(suites)
}

/// Returns the test program that a message of cargo announces, if any.
fn suite(message: &str) -> Option<Suite> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = folder.file_name()?.to_string_lossy();
    let target = message["target"]["name"].as_str()?;
    Some(Suite { name: format!("{package} {target}"), executable, folder })
}

/// Returns the passed tests with the ids that they printed.
///
/// A test counts only if the harness printed `ok` for it. Output of failed and ignored tests does
/// not count.
fn passed_tests(output: &str) -> BTreeMap<String, Vec<String>> {
    let mut tests: BTreeMap<String, Vec<String>> =
        with_verdict(output, "ok").map(|name| (name.to_owned(), Vec::new())).collect();
    let mut speaker = None;
    for line in output.lines() {
        let heading = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        if let Some(name) = heading {
            speaker = Some(name);
        } else if let Some(ids) = line.trim_start().strip_prefix("covers:")
            && let Some(known) = speaker.and_then(|name| tests.get_mut(name))
        {
            known.extend(ids.split_whitespace().map(str::to_owned));
        }
    }
    tests
}

/// Returns the names of the tests with this verdict of the harness.
fn with_verdict<'a>(output: &'a str, verdict: &'static str) -> impl Iterator<Item = &'a str> {
    output.lines().filter_map(move |line| {
        let name = line.strip_prefix("test ")?.strip_suffix(verdict)?.strip_suffix("... ")?;
        Some(name.trim_end().trim_end_matches(" - should panic"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 5 tests
test acks::in_order ... ok
test acks::slow ... ignored
test backoff ... FAILED
test nonces                   ... ok
test panics - should panic ... ok

successes:

---- acks::in_order stdout ----
case one
covers: IC1 IC2
covers: D1

---- nonces stdout ----
  covers: IC4
it covers: nothing

---- panics stdout ----
covers: IC36


successes:
    acks::in_order
    nonces
    panics

failures:

---- backoff stdout ----
covers: IC26
thread 'backoff' panicked

failures:
    backoff

test result: FAILED. 3 passed; 1 failed; 1 ignored
";

    #[test]
    fn only_output_of_passed_tests_counts() {
        let tests = passed_tests(OUTPUT);
        let tests: Vec<(&str, String)> =
            tests.iter().map(|(test, ids)| (test.as_str(), ids.join(" "))).collect();
        assert_eq!(
            tests,
            [
                ("acks::in_order", "IC1 IC2 D1".to_owned()),
                ("nonces", "IC4".to_owned()),
                ("panics", "IC36".to_owned()),
            ]
        );
    }

    #[test]
    fn failed_tests_are_named() {
        assert_eq!(with_verdict(OUTPUT, "FAILED").collect::<Vec<_>>(), ["backoff"]);
    }

    #[test]
    fn claim_outside_of_a_test_is_ignored() {
        let tests = passed_tests("covers: IC1\ntest a ... ok\ncovers: IC2\n");
        assert_eq!(tests, BTreeMap::from([("a".to_owned(), Vec::new())]));
    }

    #[test]
    fn output_is_attributed_to_its_test_program() {
        let log = format!(
            "   Compiling x\n     Running unittests src/lib.rs (/t/debug/deps/xds_core-01ab)\n{OUTPUT}\n\
             warning: none\n     Running tests/a-b.rs (target/debug/deps/a-b-ff)\n\
             test one ... ok\n---- one stdout ----\ncovers: IC1\ntest result: ok. 1 passed\n\
             \x20  Doc-tests xds_core\ntest two ... ok\n---- two stdout ----\ncovers: IC9\n"
        );
        let results = read(&log);
        assert_eq!(results.passed, 4);
        assert_eq!(results.failed, ["xds_core: failed: backoff"]);
        let covers_first: Vec<&String> = results.covered_by["IC1"].iter().collect();
        assert_eq!(covers_first, ["a-b: one", "xds_core: acks::in_order"]);
        assert!(!results.covered_by.contains_key("IC9"));
    }

    #[test]
    fn programs_named_it_are_told_apart_by_their_package() {
        let log = "     Running unittests src/lib.rs (/t/deps/xds_fs-01)\n\
                   test result: ok. 0 passed\n\
                   \x20    Running tests/it/main.rs (/t/deps/it-02)\n\
                   test one ... ok\n---- one stdout ----\ncovers: IC1\ntest result: ok. 1 passed\n";
        let results = read(log);
        let covers_first: Vec<&String> = results.covered_by["IC1"].iter().collect();
        assert_eq!(covers_first, ["xds_fs it: one"]);
    }

    #[test]
    fn program_without_a_result_has_failed() {
        let results = read("     Running tests/a.rs (target/debug/deps/a-1)\ntest one ... ok\n");
        assert_eq!(results.failed, ["a: failed: "]);
    }

    #[test]
    fn test_programs_are_found_in_cargo_messages() {
        let program = r#"{"reason":"compiler-artifact","manifest_path":"/w/core/Cargo.toml",
            "target":{"name":"model","kind":["test"]},"profile":{"test":true},
            "executable":"/t/deps/model-1"}"#;
        let expected = Suite {
            name: "core model".into(),
            executable: "/t/deps/model-1".into(),
            folder: "/w/core".into(),
        };
        assert_eq!(suite(program), Some(expected));
        assert_eq!(suite(&program.replace("true", "false")), None);
        assert_eq!(suite(&program.replace(r#""/t/deps/model-1""#, "null")), None);
        assert_eq!(suite(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(suite("not json"), None);
    }
}
