//! Tests of the simulation itself: runs are reproducible, and failures are shrunk.

use std::{env, process::Command, time::Duration};

use xds_sim::{
    Config, World,
    options::{Action, Actions, Faults, Transport, Verdicts},
    replay, run_seed, shrink,
    storm::settle,
};

#[path = "../../examples/control_plane.rs"]
mod control_plane;
#[path = "../../examples/watcher.rs"]
mod watcher;

#[test]
fn examples_run() {
    control_plane::main();
    watcher::main();
}

const SEEDS: u64 = 60;

#[test]
fn same_seed_gives_the_same_run() {
    let config = Config::default();
    for seed in 0..SEEDS {
        let (one, other) = (run_seed(seed, &config), run_seed(seed, &config));
        assert_eq!(one.hash, other.hash, "seed {seed}");
        assert_eq!((one.events, one.situations), (other.events, other.situations));
        let again = replay(&one.tape, &config);
        assert_eq!(again.hash, one.hash, "the tape of seed {seed}");
        let told = one.tape.to_string().parse().map(|tape| replay(&tape, &config).hash);
        assert_eq!(told, Ok(one.hash), "the tape of seed {seed} as text");
    }
    println!("covers: IC37 IS34");
}

/// Environment variable that makes the child process print what the parent compares.
const CHILD: &str = "XDS_SIM_TEST_CHILD";

#[test]
fn every_process_gives_the_same_hashes() {
    let config = Config::default();
    let hashes: Vec<String> =
        (0..SEEDS).map(|seed| run_seed(seed, &config).hash.to_string()).collect();
    let hashes = hashes.join(" ");
    if env::var(CHILD).is_ok() {
        println!("hashes: {hashes}");
        return;
    }
    let this = env::current_exe().expect("a test has a file");
    let output = Command::new(this)
        .args(["--exact", "meta::every_process_gives_the_same_hashes", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("it starts");
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains(&format!("hashes: {hashes}\n")), "{hashes} is not in {output}");
    println!("covers: IC37 IS34");
}

/// A scenario that fails at the third answer seven.
fn count_sevens(world: &mut World) {
    let mut sevens = 0;
    for _ in 0..100 {
        let choices = world.choices();
        choices.begin_span();
        let goes_on = choices.below("another", 50) > 0;
        sevens += u32::from(goes_on && choices.below("number", 10) == 7);
        choices.end_span();
        if !goes_on {
            break;
        }
        if sevens == 3 {
            return world.fail("sevens", "two sevens are enough", "there are three");
        }
    }
}

#[test]
fn failure_is_shrunk() {
    let config = Config::new(count_sevens);
    let failed = (0..100).find_map(|seed| run_seed(seed, &config).violation);
    let failure = failed.expect("sevens are not that rare");
    let mut tries = 0;
    let smaller = shrink(&failure, &config, &mut |progress| tries = progress.tries);
    assert!(tries > 0);
    assert_eq!(smaller.violation.invariant, "sevens");
    assert_eq!(smaller.spans.len(), 3, "just the three sevens: {:?}", smaller.tape);
}

#[test]
fn panic_counts_as_a_failure() {
    let config = Config::new(|world: &mut World| {
        world.advance(Duration::from_secs(1));
        panic!("on purpose");
    });
    let failure = run_seed(1, &config).violation.expect("it panics");
    assert_eq!(failure.violation.invariant, "scenario");
    let what = &failure.violation.what;
    assert!(
        what.starts_with("the scenario panics at ") && what.ends_with(": on purpose"),
        "{what}"
    );
}

/// A run without faults ends like any other.
#[test]
fn custom_scenario_can_be_settled() {
    let config = Config::new(|world: &mut World| {
        world.set(0, "r0", "hello");
        let watch = world.watch(0, 0, Some("r0")).expect("a good name");
        world.advance(Duration::from_secs(1));
        let (_, watch) = world.watches(0).find(|(id, _)| *id == watch).expect("it goes on");
        assert_eq!(watch.view.len(), 1);
        settle(world);
    });
    let config = config.with_options(|options| {
        (options.actions, options.faults) = (Actions::NONE.with(Action::Unwatch), Faults::NONE);
        (options.clients, options.servers) = (1, 1);
        (options.transport, options.verdicts) = (Transport::Streams, Verdicts::AtOnce);
    });
    let outcome = run_seed(3, &config);
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
}
