//! Exhaustive test of short sequences of events between a client and a server, with all oracles.

use std::time::Duration;

use xds_sim::{
    Config, Options, World, exhaust,
    options::{Action, Fault, Faults, Variant},
    storm::settle,
};

/// Number of events in a sequence.
const STEPS: u32 = 4;

/// Number of event kinds.
const KINDS: u32 = 10;

/// Performs an event. The first three advance time: not at all, until the next delivery, and past
/// the does-not-exist timeout.
fn step(world: &mut World, which: u32) {
    let latency = world.options().latency;
    match which {
        0 => {}
        1 => world.advance(latency),
        2 => world.advance(Duration::from_secs(16)),
        3 => {
            let _ = world.watch(0, 0, Some("r0"));
        }
        4 => {
            let _ = world.watch(0, 0, None);
        }
        5 => {
            let watch = world.watches(0).next().map(|(watch, _)| watch);
            watch.into_iter().for_each(|watch| world.unwatch(0, watch));
        }
        6 => world.set_new_text(0, "r0", "good"),
        7 => world.set_new_text(0, "r0", "bad"),
        8 => world.delete(0, "r0"),
        _ => world.open_links().into_iter().for_each(|link| world.reset(link, 14)),
    }
}

#[test]
fn no_sequence_of_a_few_sotw_events_breaks_a_rule() {
    run_all(Variant::StateOfTheWorld);
}

#[test]
fn no_sequence_of_a_few_delta_events_breaks_a_rule() {
    run_all(Variant::Incremental);
}

fn run_all(variant: Variant) {
    let mut options = Options::default();
    (options.variant, options.types, options.names) = (variant, 1, 1);
    options.actions =
        [Action::WatchAll, Action::Unwatch, Action::Delete, Action::SetBad].into_iter().collect();
    options.faults = Faults::NONE.with(Fault::Reset);
    let all = u64::from(KINDS).pow(STEPS);
    let config = Config::default().with_fixed_options(options).with_runs(all);
    // Either the resource exists and is watched from the start, or it is created and watched later.
    let report = exhaust(&config, "step", |world: &mut World| {
        world.watch(0, 0, Some("r0"));
        world.set(0, "r0", "good");
        world.advance(Duration::from_millis(100));
        for _ in 0..STEPS {
            let which = world.choices().below("step", KINDS);
            step(world, which);
        }
        settle(world);
    });
    let is_one_of_them = std::env::var_os("XDS_SIM_TAPE").is_some();
    assert!(is_one_of_them || report.runs == all, "{} runs of {all}", report.runs);
    println!("{variant:?}: {} runs, {} events", report.runs, report.events);
}
