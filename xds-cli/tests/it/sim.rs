//! `xds sim` as a user runs it.

use std::fs;

use crate::support::{self, Ended, TempDir, run};
use serde_json::Value as Json;

fn sim(args: &[&str]) -> Ended {
    run(&[&["sim"], args].concat())
}

#[test]
fn runs_without_violation_are_summarized() {
    let ended = sim(&["run", "--seeds", "40", "--jobs", "2"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let mut lines = ended.stdout.lines();
    assert_eq!(lines.next(), Some("40 seeds from 0: no violation"));
    let speed = lines.next().unwrap();
    assert!(
        speed.contains(" events in ") && speed.ends_with(" a second in each of 2 jobs"),
        "{speed}"
    );
    let hash = lines.next().unwrap();
    let digits = hash.strip_prefix("hash of all traces: ").unwrap();
    assert!(digits.len() == 16 && u64::from_str_radix(digits, 16).unwrap() != 0, "{hash}");
    assert!(lines.next().unwrap().starts_with("situations reached, "), "{}", ended.stdout);
    assert_eq!(ended.stderr, "", "no progress where there is no terminal");
    assert_eq!(ended.stdout.lines().last(), Some("no violation in 40 runs"));

    let one_job = sim(&["run", "--seeds", "40", "--jobs", "1"]);
    assert_eq!(one_job.stdout.lines().nth(2), Some(hash), "the order of the runs does not matter");
    let other_seeds = sim(&["run", "--seeds", "40", "--seed", "1", "--jobs", "2"]);
    assert_ne!(other_seeds.stdout.lines().nth(2), Some(hash));
}

#[test]
fn runs_can_be_made_without_oracles() {
    let ended = sim(&["run", "--seeds", "5", "--seed", "7", "--jobs", "1", "--unjudged"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("5 seeds from 7: rules not checked\n"), "{}", ended.stdout);
    assert_eq!(ended.stdout.lines().count(), 4, "{}", ended.stdout);
    assert_eq!(ended.stdout.lines().last(), Some("rules not checked in 5 runs"));
}

#[test]
fn runs_can_be_limited_by_time() {
    let ended = sim(&["run", "--minutes", "0.02", "--jobs", "1", "--without-oracles"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains(" from 0: rules not checked\n"), "{}", ended.stdout);
    let both = sim(&["run", "--minutes", "1", "--seeds", "4"]);
    assert_eq!(both.code, Some(2), "{}", both.stderr);
    let never = sim(&["run", "--minutes", "0"]);
    assert_eq!(never.code, Some(2), "{}", never.stderr);
}

#[test]
fn run_is_shown_in_each_output_format() {
    let directory = TempDir::new();
    let text = sim(&["replay", "--seed", "3", "--last", "5"]);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    assert!(text.stdout.starts_with("options: clients="), "{}", text.stdout);
    assert!(text.stdout.contains("events before"), "{}", text.stdout);

    let ndjson = sim(&["replay", "--seed", "3", "--ndjson"]);
    let events: Vec<Json> =
        ndjson.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&events[0]["event"], &events[0]["seed"]), (&"run".into(), &"3".into()));
    assert!(events.iter().any(|event| event["event"] == "deliver"));

    let mermaid = sim(&["replay", "--seed", "3", "--mermaid"]);
    assert!(mermaid.stdout.starts_with("sequenceDiagram\n"), "{}", mermaid.stdout);

    let file = directory.join("run.html");
    let html = sim(&["replay", "--seed", "3", "--html", file.to_str().unwrap()]);
    let written = format!("written: {}", file.display());
    assert_eq!((html.code, &*html.stdout), (Some(0), &*written), "{}", html.stderr);
    assert!(fs::read_to_string(file).unwrap().starts_with("<!doctype html>"));
}

/// A seed gives the same run in every process; the output is equal byte for byte.
#[test]
fn same_seed_gives_the_same_run_in_every_process() {
    let show = || sim(&["replay", "--seed", "11", "--ndjson"]).stdout;
    let first = show();
    assert!(first.lines().count() > 20, "{first}");
    assert_eq!(first, show());
}

#[test]
fn tape_can_be_replayed_and_a_passing_run_is_not_shrunk() {
    let replayed = sim(&["replay", "--tape", "AQIDBA"]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.stderr);
    let ended = sim(&["shrink", "--tape", "AQIDBA"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr, "xds: nothing to shrink: the run breaks no rule");
}

#[test]
fn tape_of_another_run_is_an_error() {
    let other = "the tape does not fit the run: answer 1 is out of range for the choice \"lies\"; \
                 this run breaks no rule";
    let replayed = sim(&["replay", "--tape", "iCc"]);
    assert_eq!((replayed.code, replayed.stderr), (Some(1), format!("xds: {other}")));
    assert!(replayed.stdout.starts_with("options: clients="), "{}", replayed.stdout);
    let shrunk = sim(&["shrink", "--tape", "iCc"]);
    let nothing = format!("xds: nothing to shrink: {other}");
    assert_eq!((shrunk.code, shrunk.stderr), (Some(1), nothing));

    let broken = ["--options", "clock_grain=1000s", "--tape", "AEE"];
    for command in ["replay", "shrink"] {
        let ended = sim(&[&[command][..], &broken].concat());
        assert_eq!(ended.code, Some(1), "{command}");
        let part = "xds: the tape does not fit the run: answer 2 is out of range for ";
        assert!(ended.stderr.starts_with(part), "{}", ended.stderr);
        assert!(ended.stderr.ends_with("xds: the run breaks IL7"), "{}", ended.stderr);
    }
}

#[test]
fn faults_imply_operations_by_default() {
    let options = |args: &[&str]| {
        let ended = sim(&[&["replay", "--last", "1"], args].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let options = ended.stdout.lines().next().unwrap().to_owned();
        (options, ended.stderr)
    };
    for (line, operations) in [
        ("clients=2", "operations=0 "),
        ("faults={reset} clients=2", "operations=20 "),
        ("actions={delete}", "operations=20 "),
        ("lies={flip}", "operations=20 "),
        ("faults={reset} operations=0", "operations=0 "),
    ] {
        let (options, stderr) = options(&["--seed", "1", "--options", line]);
        assert!(options.contains(operations), "{line}: {options}");
        assert_eq!(stderr, "", "{line}");
    }
    let (options, _) = options(&["--tape", "AAE", "--options", "faults={reset}"]);
    assert!(
        options.contains("operations=0 "),
        "a tape has the options it was printed with: {options}"
    );
}

#[test]
fn options_that_cannot_be_combined_are_reported() {
    let line = "transport=Files lies={flip,remove} actions={delete,set-error} variant=sotw";
    let ended = sim(&["replay", "--seed", "1", "--last", "1", "--options", line]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        ended.stderr,
        "xds: some of these options cannot be combined: actions={delete,set-error} becomes actions={delete}, \
         lies={flip,remove} becomes lies={}"
    );
}

#[test]
fn option_keys_and_values_are_listed() {
    let ended = sim(&["options"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for word in ["clients=1 ", "faults={} ", "  reset ", "  flip ", "one of Streams, Polls, Files"]
    {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    assert!(sim(&["run", "--help"]).stdout.contains("xds sim options"));
}

#[test]
fn numbers_may_be_hexadecimal_or_have_underscores() {
    let ended = sim(&["run", "--seeds", "0x2", "--seed", "0x5eed", "--without-oracles"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.starts_with("2 seeds from 24301: rules not checked\n"),
        "{}",
        ended.stdout
    );
    let shown = |seed| sim(&["replay", "--seed", seed, "--ndjson"]).stdout;
    assert_eq!(shown("24_301"), shown("0x5eed"));
}

/// A driver with a very coarse clock breaks rules. The report contains everything that is needed to
/// repeat the run.
#[test]
fn failing_run_is_shrunk_and_reported() {
    let options = "clock_grain=1000s";
    let shrink = ["shrink", "--seed", "0", "--options", options, "--tries", "300"];
    let ended = sim(&shrink);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert_eq!(ended.stderr, "xds: seed 0 breaks IL7");
    for part in ["\nVIOLATION IL7 at t=", "\nshrunk from ", "\nas a test:\n", "fn il7_seed_0() {"] {
        assert!(ended.stdout.contains(part), "{part}\n{}", ended.stdout);
    }
    let again = ended.stdout.lines().find_map(|line| line.strip_prefix("again: xds sim replay "));
    let again = again.expect("how to have it again");
    let tape = again.strip_prefix(&format!("--options \"{options}\" --tape "));
    let tape = tape.unwrap_or_else(|| panic!("{again}"));
    let again = sim(&["replay", "--options", options, "--tape", tape, "--last", "5"]);
    assert_eq!((again.code, &*again.stderr), (Some(1), "xds: the run breaks IL7"));

    let directory = TempDir::new();
    let folder = directory.join("found");
    let ended = sim(&[&shrink[..], &["--html", folder.to_str().unwrap()]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    for file in ["il7_seed_0.html", "il7_seed_0.ndjson", "il7_seed_0.txt", "il7_seed_0.rs"] {
        assert!(folder.join(file).is_file(), "{file}\n{}", ended.stdout);
    }

    let run = sim(&["run", "--seeds", "3", "--jobs", "1", "--options", options]);
    assert_eq!((run.code, &*run.stderr), (Some(1), ""), "{}", run.stdout);
    assert_eq!(
        run.stdout.trim_end().lines().last(),
        Some(
            "FAILED: 1 of 1 run violates IL7, replay: xds sim replay --seed 0 --options \"clock_grain=1000s\""
        )
    );
}

#[test]
fn keep_going_reports_all_violations() {
    let directory = TempDir::new();
    let folder = directory.join("found");
    let ended =
        sim(&[
            &[
                "run",
                "--seeds",
                "3",
                "--jobs",
                "2",
                "--options",
                "clock_grain=1000s",
                "--keep-going",
            ][..],
            &["--html", folder.to_str().unwrap()],
        ]
        .concat());
    assert_eq!((ended.code, &*ended.stderr), (Some(1), ""), "{}", ended.stdout);
    for seed in 0..3 {
        for end in [".html", ".ndjson", ".txt", ".rs", "-whole.html"] {
            let file = folder.join(format!("il7_seed_{seed}{end}"));
            assert!(file.is_file(), "{file:?}\n{}", ended.stdout);
        }
    }
    assert_eq!(ended.stdout.matches("\nVIOLATION IL7 at t=").count(), 3, "{}", ended.stdout);
    assert!(ended.stdout.contains("3 seeds from 0: 3 violations\n"), "{}", ended.stdout);
    let end = "\nviolations:\n  seed 0 breaks IL7\n  seed 1 breaks IL7\n  seed 2 breaks IL7\n\
               FAILED: 3 of 3 runs violate IL7, replay: xds sim replay --seed 0 --options \
               \"clock_grain=1000s\"";
    assert!(ended.stdout.trim_end().ends_with(end), "{}", ended.stdout);
}

#[cfg(target_os = "linux")]
#[test]
fn interrupt_ends_the_runs_and_prints_the_summary() {
    let mut runs = support::Xds::spawn(&["sim", "run", "--minutes", "5", "--jobs", "2"]);
    runs.wait_for_handler();
    // Until the runs begin, an interrupt ends the command without a summary.
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(runs.signal("INT").code(), Some(130), "{}", runs.stderr());
    assert_eq!(runs.stderr(), "xds: interrupted");
    let stdout = runs.stdout();
    for part in [" from 0: no violation\n", " events in ", "\nsituations reached, "] {
        assert!(stdout.contains(part), "{part}\n{stdout}");
    }
}

/// Writing a report that nobody reads never ends.
#[cfg(target_os = "linux")]
#[test]
fn second_interrupt_ends_at_once() {
    let directory = TempDir::new();
    let pipe = directory.join("il7_seed_0.html");
    assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let folder = directory.path().to_str().unwrap();
    let options = "clock_grain=1000s";
    let mut runs = support::Xds::spawn(&[
        "sim",
        "run",
        "--keep-going",
        "--jobs",
        "1",
        "--options",
        options,
        "--html",
        folder,
    ]);
    runs.wait_stdout("VIOLATION IL7");
    runs.send_signal("INT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(runs.is_running(), "it is still to be written: {}", runs.stdout());
    assert_eq!(runs.signal("INT").code(), Some(130));
    assert!(!runs.stdout().contains("violations"), "{}", runs.stdout());
}

#[test]
fn invalid_run_arguments_are_a_usage_error() {
    for (args, part) in [
        (&["replay"][..], "--seed <SEED>"),
        (&["replay", "--tape", "!"], "invalid tape"),
        (&["replay", "--seed", "1", "--tape", "AQ"], "cannot be used with"),
        (&["replay", "--seed", "1", "--text", "--ndjson"], "cannot be used with"),
        (&["run", "--seeds", "0"], "must be at least 1"),
        (&["run", "--seed", "seven"], "expected a whole number such as 7, 1_000 or 0x5eed"),
        (&["run", "--options", "colour=red"], "is not a run option: expected one of clients, "),
        (
            &["run", "--options", "faults={gremlins}"],
            "gremlins is unknown, expected one of starve, ",
        ),
        (&["run", "--options", "servers=0"], "servers=0: must be from 1 to 3"),
        (&["replay", "--seed", "1", "--options", "types=9"], "types=9: must be from 1 to 4"),
    ] {
        let ended = sim(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn unwritable_output_file_exits_with_one() {
    let directory = TempDir::new();
    directory.save("file", "");
    let below_a_file = directory.join("file/found");
    let below_a_file = below_a_file.to_str().unwrap();
    // Before the first run.
    for command in [&["run", "--minutes", "60"][..], &["shrink", "--seed", "1"]] {
        let ended = sim(&[command, &["--html", below_a_file]].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{command:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("xds: cannot write "), "{command:?}: {}", ended.stderr);
    }
    let ended = sim(&["replay", "--seed", "1", "--html", "no/such/directory/run.html"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("cannot write no/such/directory/run.html"), "{}", ended.stderr);
}
