//! A scenario in virtual time: hundreds of runs, each with other delays, in a second.

use std::time::Duration;

use xds::sim::{Config, World, check, storm::settle, world::Reach};

#[test]
fn late_resource_reaches_its_watcher_whatever_the_network_does() {
    let scenario = |world: &mut World| {
        world.watch(0, 0, Some("r0"));
        world.cut_off(0, Reach::Hanging, Duration::from_secs(40));
        world.advance(Duration::from_secs(60));
        world.set(0, "r0", "created late");
        world.reset_connection(0, 0, 14);
        settle(world);
    };
    let summary = check(&Config::default().with_runs(200), scenario);
    assert_eq!(summary.runs, 200);
}
