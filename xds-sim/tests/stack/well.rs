//! Drivers without deliberate bugs break no rule in any world.

use xds_sim::stack::{
    Stage,
    check::{StackScenario, check},
    storm::storm,
};

use crate::worlds;

fn is_well(seeds: u64, scenario: &impl StackScenario) {
    // Variables of the environment may set another number.
    assert!(check(0..seeds, scenario).runs > 0);
}

#[test]
fn half_closed_calls_end() {
    is_well(50, &async |stage: &Stage| worlds::half_close(stage).await);
}

#[test]
fn incomplete_requests_end_exactly_at_their_deadline() {
    is_well(50, &async |stage: &Stage| worlds::deadline(stage).await);
}

#[test]
fn response_is_held_once_for_many_slow_clients() {
    is_well(10, &async |stage: &Stage| worlds::crowd(stage).await);
}

#[test]
fn requests_are_not_read_while_their_events_are_not() {
    is_well(5, &async |stage: &Stage| worlds::unread_events(stage).await);
}

#[test]
fn hosts_of_storms_stay_within_their_memory() {
    is_well(60, &async |stage: &Stage| {
        stage.measure_memory(worlds::measure);
        storm(stage).await;
    });
}
