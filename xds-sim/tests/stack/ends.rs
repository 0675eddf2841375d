//! Panics, deadlocks and busy loops of scenarios, applications and their tasks.

use core::{future::pending, time::Duration};
use std::{
    env,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use tokio::{
    sync::Notify,
    task::yield_now,
    time::{sleep, sleep_until},
};
use xds_sim::{
    app,
    stack::{
        Stage,
        check::{StackOutcome, check, run_seed},
    },
    trace::Keep,
};

use crate::failure;

/// Returns the violation of the run of seed 1, as text.
fn broken(scenario: &(impl AsyncFn(&Stage) + Sync)) -> (String, StackOutcome) {
    let outcome = run_seed(1, scenario, Keep::All);
    let violation = outcome.trace.violation.clone().expect("a rule is broken");
    (format!("{} {}: {}", violation.at, violation.invariant, violation.what), outcome)
}

#[test]
fn panic_of_a_task_is_reported_instead_of_the_wait_that_it_causes() {
    let text = failure(|| {
        app(|_| async {
            let done = Arc::new(Notify::new());
            let notifies = Arc::clone(&done);
            tokio::spawn(async move {
                sleep(Duration::from_secs(2)).await;
                assert!(Arc::strong_count(&notifies) > 9, "the cause");
                notifies.notify_one();
            });
            done.notified().await;
        })
        .with_limit(Duration::from_secs(60))
        .check(0..3);
    });
    assert!(text.contains("no panic: no task panics"), "{text}");
    assert!(text.contains("the cause"), "{text}");
    assert!(!text.contains("application-ends"), "{text}");
}

#[test]
fn panic_of_a_host_task_is_reported_with_its_time_and_host() {
    let (text, _) = broken(&async |stage| {
        stage.host("a").note("first");
        stage.host("b").start(async {
            sleep(Duration::from_secs(1)).await;
            panic!("a bug");
        });
        sleep(Duration::from_secs(5)).await;
        stage.violate("late", "nothing follows the panic", "it does");
    });
    assert!(text.starts_with("1.000s no panic: a task of host `b` panics at "), "{text}");
}

#[test]
fn scenario_that_awaits_a_panicking_task_is_not_the_cause() {
    let (text, _) = broken(&async |_| {
        tokio::spawn(async { panic!("the cause") }).await.expect("no panic");
    });
    assert!(text.contains("no panic: a task panics at ") && text.ends_with("the cause"), "{text}");
}

#[test]
fn panic_of_a_scenario_is_reported_and_shrunk() {
    let text = failure(|| {
        check(0..200, &async |stage: &Stage| {
            stage.host("a").note("hello");
            assert!(stage.below("first", 10) != 7, "an assertion");
            let _ = stage.below("second", 10);
        });
    });
    assert!(text.contains("scenario: the assertions of a scenario hold, and it ends"), "{text}");
    assert!(text.contains("the scenario panics at ") && text.contains("an assertion"), "{text}");
    assert!(text.contains("tape: ") && text.contains("note: hello"), "{text}");
}

#[test]
fn panic_of_the_scenario_of_a_single_run_is_a_panic_of_the_run() {
    let text = failure(|| {
        Stage::run(1, async |stage| {
            stage.host("a").note("hello");
            panic!("an assertion");
        });
    });
    assert!(text.contains("an assertion") && text.contains("note: hello"), "{text}");
}

#[test]
fn scenario_that_waits_without_a_timer_is_a_deadlock() {
    let (text, _) = broken(&async |stage| {
        let host = stage.host("host");
        host.start(pending());
        sleep(Duration::from_secs(3)).await;
        pending::<()>().await;
    });
    assert!(text.starts_with("3.000s deadlock: no task is ready and no timer is set"), "{text}");
}

#[test]
fn scenario_that_sleeps_forever_is_not_taken_for_a_deadlock() {
    let (text, _) = broken(&async |_| loop {
        sleep(Duration::from_secs(40 * 24 * 3_600)).await;
    });
    assert!(text.contains("deadlock: it has not ended after 20 years of virtual time"), "{text}");
}

/// Variable that makes [`code_that_never_waits_is_reported_on_standard_error`] block.
const BLOCKED_TEST: &str = "XDS_SIM_BLOCKED_TEST";

#[test]
fn code_that_never_waits_is_reported_on_standard_error() {
    let name = "ends::code_that_never_waits_is_reported_on_standard_error";
    if env::var_os(BLOCKED_TEST).is_some() {
        check(7..8, &async |stage: &Stage| {
            // Blocks the thread, like a loop without `await`.
            stage.host("host").start(async { thread::sleep(Duration::from_secs(20)) });
            yield_now().await;
        });
        return;
    }
    let mut test = Command::new(env::current_exe().unwrap());
    let output = test.args([name, "--exact"]).env(BLOCKED_TEST, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let expected = format!("the run of seed 7 in the test `{name}` has made no progress for 10 s");
    assert!(output.status.success() && text.contains(&expected), "{text}");
}

/// A run with such a loop takes ten seconds of real time, so it is not shrunk.
#[test]
fn busy_task_of_tokio_is_not_shrunk() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let text = failure(|| {
        check(0..1, &async |stage: &Stage| {
            RUNS.fetch_add(1, Ordering::Relaxed);
            let _ = stage.below("unused", 10);
            tokio::spawn(async {
                loop {
                    yield_now().await;
                }
            });
            pending::<()>().await;
        });
    });
    assert!(text.contains("seed 0 breaks a rule:\nno busy loop"), "{text}");
    assert_eq!(RUNS.load(Ordering::Relaxed), 2, "it is made again to compare the results");
}

#[test]
fn busy_loops_of_scenarios_and_tasks_of_tokio_are_reported() {
    let (scenario, _) = broken(&async |_| loop {
        yield_now().await;
    });
    let (spawned, _) = broken(&async |_| {
        let second = tokio::time::Instant::now() + Duration::from_secs(1);
        tokio::spawn(async move {
            sleep_until(second).await;
            loop {
                yield_now().await;
            }
        });
        pending::<()>().await;
    });
    assert!(scenario.starts_with("0.000s no busy loop: 200000 turns while"), "{scenario}");
    assert!(spawned.starts_with("1.000s no busy loop: no time passes while a task"), "{spawned}");
}
