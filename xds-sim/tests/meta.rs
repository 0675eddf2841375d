//! What the simulation itself has to keep to: the same run again is the same run, and a failure becomes
//! small.

use std::{
    collections::BTreeMap,
    env,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use xds_core::service::Variant;
use xds_sim::{
    Config, World,
    options::{Action, Actions, Faults, Lies, Transport, Verdicts},
    replay, run_seed, shrink,
    storm::settle,
    world::{Party, message::Text},
};

#[path = "../examples/control_plane.rs"]
mod control_plane;
#[path = "../examples/watcher.rs"]
mod watcher;

#[test]
fn the_examples_run() {
    control_plane::main();
    watcher::main();
}

const SEEDS: u64 = 60;

#[test]
fn the_same_seed_is_the_same_run() {
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

/// Set in the other process, which prints what the first one compares.
const CHILD: &str = "XDS_SIM_TEST_CHILD";

#[test]
fn every_process_says_the_same() {
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
        .args(["--exact", "every_process_says_the_same", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("it starts");
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains(&format!("hashes: {hashes}\n")), "{hashes} is not in {output}");
    println!("covers: IC37 IS34");
}

type Views = Vec<Vec<BTreeMap<Text, Bytes>>>;

/// What the watches of every client hold when all is well again, after a storm in which `before` was done
/// before each part.
fn views(seed: u64, variant: Variant, before: fn(&mut World)) -> Views {
    let seen = Arc::new(Mutex::new(Views::new()));
    let kept = Arc::clone(&seen);
    let scenario = move |world: &mut World| {
        for turn in 0..12 {
            let kind = world.choices().below("type", 2) as usize;
            let name = format!("r{}", world.choices().below("name", 3));
            let text = ["good", "bad"][usize::from(world.choices().chance("bad", 200))];
            before(world);
            match world.choices().below("what", 3) {
                0 => assert!(world.watch(0, kind, Some(&name)).is_some()),
                1 if turn % 2 == 0 => assert!(world.watch(0, kind, None).is_some()),
                _ => world.set_anew(kind, &name, text),
            }
            let pause = world.choices().below("pause", 3_000);
            world.advance(Duration::from_millis(pause.into()));
        }
        world.heal();
        for kind in 0..2 {
            for name in ["r0", "r1", "r2"] {
                world.set(kind, name, "in the end");
            }
        }
        world.advance(Duration::from_secs(120));
        let views = world.watches(0).map(|(_, watch)| watch.view.clone()).collect();
        kept.lock().expect("nobody panics with it").push(views);
    };
    let config = Config::new(scenario).with_options(move |options| {
        (options.clients, options.servers, options.types) = (1, 1, 2);
        (options.variant, options.lies) = (variant, Lies::NONE);
        options.transport = Transport::Streams;
        // What is drawn for messages would change what is drawn after them.
        options.jitter = Duration::ZERO;
    });
    let outcome = run_seed(seed, &config);
    assert!(outcome.violation.is_none(), "seed {seed}: {:?}", outcome.violation);
    std::mem::take(&mut *seen.lock().expect("nobody panics with it"))
}

#[test]
fn both_variants_end_equal() {
    for seed in 0..100 {
        let whole = views(seed, Variant::StateOfTheWorld, |_| {});
        let incremental = views(seed, Variant::Incremental, |_| {});
        assert!(whole == incremental, "seed {seed}");
    }
    println!("covers: IL4");
}

#[test]
fn late_drains_end_equal() {
    for seed in 0..100 {
        for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
            let at_once = views(seed, variant, |_| {});
            let late = views(seed, variant, |world| {
                world.starve(Party::Client(0), Duration::from_millis(2_500));
                world.starve(Party::Server(0), Duration::from_millis(1_500));
            });
            assert!(at_once == late, "seed {seed}");
        }
    }
}

/// A scenario with a fault: the third seven in a row of operations is too much.
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
fn a_failure_becomes_small() {
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
fn a_panic_is_a_failure_like_any_other() {
    let config = Config::new(|world: &mut World| {
        world.advance(Duration::from_secs(1));
        panic!("on purpose");
    });
    let failure = run_seed(1, &config).violation.expect("it panics");
    assert_eq!(
        (failure.violation.invariant, failure.violation.what.as_str()),
        ("IC36", "on purpose")
    );
}

/// A quiet run ends like a wild one.
#[test]
fn a_scenario_of_ones_own_can_be_settled() {
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
