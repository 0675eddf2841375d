//! Reports of failed runs, and the runs that the environment selects.

use core::time::Duration;
use std::{
    collections::hash_map::RandomState,
    env,
    hash::BuildHasher as _,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::time::{sleep, timeout};
use xds_core::{client::Notice, types::CLUSTER};
use xds_handle::ClientHandle;
use xds_sim::{
    Toy, ToyType, app, sometimes,
    stack::{
        Conditions, DialOutcome, Host, Stage,
        check::{check, replay, run_seed},
    },
    trace::Keep,
};

use crate::failure;

#[test]
fn failure_that_cannot_be_repeated_is_reported_as_such() {
    let runs = AtomicU64::new(0);
    let text = failure(|| {
        check(12..20, &async |stage: &Stage| {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            stage.host("host").note(format!("run {run}"));
            if run == 0 {
                stage.violate("first", "The rule holds.", "only the first run breaks it");
            }
        });
    });
    assert!(text.starts_with("seed 12 is not repeatable: two runs have hashes "), "{text}");
    assert!(text.contains("first run: first: only the first run breaks it"), "{text}");
    assert!(text.contains("second run: breaks no rule"), "{text}");
    assert!(text.contains("`HashMap`") && text.contains("note: run 1"), "{text}");
}

#[test]
fn report_ends_with_commands_that_repeat_the_run() {
    let scenario = async |stage: &Stage| {
        if stage.below("number", 3) > 0 {
            stage.host("host").note("a line");
            stage.violate("rule", "The rule holds.", "it does not");
        }
    };
    let text = failure(|| _ = check(0..100, &scenario));
    let test = "cargo test reports::report_ends_with_commands_that_repeat_the_run -- --exact";
    assert!(text.contains(&format!("\nagain: XDS_SIM_TAPE=AAAB {test}\n")), "{text}");
    assert!(text.contains(&format!("\nwhole: XDS_SIM_SEED={} {test}\n", seed_of(&text))), "{text}");
    let (_, files) = text.split_once("\nfiles: ").expect("the files");
    let file = files.split(", ").next().expect("the timeline");
    let written = std::fs::read_to_string(file).expect("the timeline");
    assert!(written.contains("a line"), "{file}");

    let outcome = run_seed(seed_of(&text), &scenario, Keep::All);
    let header = outcome.trace.header;
    assert_eq!(header.seed, outcome.seed);
    assert_eq!(header.tape, Some(outcome.tape.to_string()));
    assert_eq!(replay(&outcome.tape, &scenario).hash, outcome.hash);
}

fn seed_of(text: &str) -> u64 {
    let word = text.strip_prefix("seed ").and_then(|rest| rest.split(' ').next());
    word.expect("a seed").parse().expect("a number")
}

#[test]
fn shrinking_keeps_the_location_of_a_panic() {
    let text = failure(|| {
        check(0..200, &async |stage: &Stage| {
            let (first, second) = (stage.below("first", 10), stage.below("second", 1_000));
            stage.host("host").start(async move {
                assert!(first < 7, "common bug");
                assert!(first > 0 || second > 0, "rare bug");
            });
            sleep(Duration::from_secs(1)).await;
        });
    });
    assert!(text.contains("common bug") && !text.contains("rare bug"), "{text}");
}

/// Runs `scenarios_of_children` in another process and returns its output.
fn child(name: &str, value: &str) -> String {
    let output = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "reports::scenarios_of_children", "--nocapture"])
        .env("XDS_STACK_CHILD", "1")
        .env(name, value)
        .output()
        .expect("it runs");
    let [out, err] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    out + &err
}

#[test]
fn scenarios_of_children() {
    if env::var_os("XDS_STACK_CHILD").is_none() {
        return;
    }
    let summary = check(0..20, &async |stage: &Stage| {
        let random = RandomState::new().hash_one(stage.below("number", 3));
        stage.host("host").note(format!("{random}"));
    });
    println!("{} runs", summary.runs);
}

#[test]
fn environment_selects_runs_and_its_mistakes_are_reported() {
    for (name, value, expected) in [
        ("XDS_SIM_SEED", "7", "1 runs"),
        ("XDS_SIM_RUNS", "0x5", "5 runs"),
        ("XDS_SIM_TAPE", "AAAB", "1 runs"),
        ("XDS_SIM_SEED", "abc", "XDS_SIM_SEED=abc is not a number"),
        ("XDS_SIM_TAPE", "CQkJCQk", "; this run breaks no rule"),
        ("XDS_SIM_TWICE", "1", "seed 0 is not repeatable: two runs have hashes "),
    ] {
        let text = child(name, value);
        assert!(text.contains(expected), "{name}={value}: {text}");
    }
}

#[test]
fn timeline_has_each_fault_that_changes_something_and_no_other() {
    let report = Stage::run(1, async |stage| {
        let (a, b) = (stage.host("a"), stage.host("b"));
        let listener = b.listen((b.address(), 80).into()).expect("a free port");
        let address = listener.address();
        stage.heal(&a, &b);
        stage.reset(&a, &b);
        stage.set_reach(address, DialOutcome::Open);
        stage.set_conditions(&a, &b, Conditions::default());
        for outcome in [DialOutcome::Refused, DialOutcome::Silent, DialOutcome::Open] {
            stage.set_reach(address, outcome);
        }
        let dialing = timeout(Duration::from_secs(1), a.dial(address)).await;
        let _socket = dialing.expect("an answer").expect("a connection");
        stage.partition(&a, &b);
        stage.heal(&b, &a);
        let mut conditions = Conditions::default();
        (conditions.latency, conditions.chunk) = (Duration::from_millis(30), 9);
        stage.set_conditions(&a, &b, conditions);
        stage.kill(&b);
        stage.power_off(&a);
    });
    let text = report.trace.to_text(100);
    let faults: Vec<_> =
        text.lines().filter_map(|line| Some(line.split_once("fault")?.1.trim())).collect();
    assert_eq!(
        faults,
        [
            "begins: connections to b:80 are refused",
            "ends: connections to b:80 are refused",
            "begins: connections to b:80 are established but not served",
            "ends: connections to b:80 are established but not served",
            "begins: partition",
            "ends: partition",
            ": conditions from a to b: latency 30ms, chunk 9",
            ": host is killed",
            ": connection lost without a sign",
            ": host loses its power",
        ],
        "{text}"
    );
}

#[test]
fn application_knows_its_host_and_writes_notes() {
    let text = failure(|| {
        app(|_| async {
            let host = Host::current().expect("a task of a host");
            host.note("the application begins");
            assert!(tokio::spawn(async { Host::current() }).await.expect("no panic").is_none());
            panic!("a bug on {}", host.name());
        })
        .check(0..3);
    });
    assert!(text.contains("note: the application begins"), "{text}");
    assert!(text.contains("a task of host `application` panics at "), "{text}");
    assert!(text.contains("a bug on application"), "{text}");
    assert!(Host::current().is_none());
}

/// Waits until a resource is rejected.
async fn rejected(client: ClientHandle) {
    let mut watch = client.watch_untyped(CLUSTER, "web");
    loop {
        if let Some(Ok(Notice::Changed(Err(error)))) = watch.next().await
            && error.to_string().contains("text: ")
        {
            return;
        }
    }
}

#[test]
fn client_of_an_application_rejects_bad_resources() {
    let summary =
        app(rejected).with_resource(CLUSTER, "web", Toy::bytes("web", "bad text")).check(0..10);
    assert_eq!(summary.runs, 10);
}

#[test]
fn client_of_an_application_has_the_given_types_and_configuration() {
    let summary = app(rejected)
        .with_type(ToyType::new(CLUSTER))
        .with_config(|config| {
            assert_eq!(config.types.len(), 1);
            config
        })
        .with_resource(CLUSTER, "web", Toy::bytes("web", "privileged"))
        .check(0..10);
    assert_eq!(summary.runs, 10);
}

#[test]
fn applications_count_faults_and_require_situations() {
    let application = || {
        app(|_| async {
            tokio::spawn(async { sometimes("it runs") }).await.expect("no panic");
        })
    };
    let summary = application().with_situation("it runs").check(0..20);
    assert_eq!(summary.situations.get("it runs"), Some(&20));
    assert!(summary.faults > 0, "{summary:?}");
    let text = failure(|| _ = application().with_situation("it rests").check(0..20));
    assert_eq!(text, "20 runs never reached the required situations: [\"it rests\"]");
}
