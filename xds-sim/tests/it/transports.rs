//! Runs over polls and files: cases that random runs once found.

use std::time::Duration;

use xds_core::client::DataErrorPolicy;
use xds_sim::{
    Config, Options, Situation, World,
    options::Transport,
    run_seed,
    storm::settle,
    world::{BadAnswer, FileState},
};

fn run(transport: Transport, scenario: fn(&mut World)) -> xds_sim::Outcome {
    let config = Config::new(scenario).with_options(move |options| {
        *options = Options::default();
        options.transport = transport;
        options.data_errors = DataErrorPolicy::DropCached;
    });
    let outcome = run_seed(0, &config);
    if let Some(failure) = &outcome.violation {
        panic!("{}", failure.to_text(None));
    }
    outcome
}

fn advance(world: &mut World, seconds: u64) {
    world.advance(Duration::from_secs(seconds));
}

/// A server whose current version the request states does not answer, so a client that released the
/// resource must not state a version.
// RJ-01
#[test]
fn released_resource_is_requested_without_a_version() {
    run(Transport::Polls, |world| {
        world.set(0, "r0", "good");
        let watch = world.watch(0, 0, Some("r0")).expect("a good name");
        advance(world, 1);
        world.watch_again(0, watch);
        settle(world);
    });
}

/// A request for a wildcard must not state the version of other requests, which may be that of all
/// resources.
#[test]
fn new_wildcard_is_requested_without_a_version() {
    run(Transport::Polls, |world| {
        world.set(0, "r0", "good");
        world.watch(0, 0, Some("r1"));
        let watch = world.watch(0, 0, Some("r0")).expect("a good name");
        advance(world, 1);
        world.unwatch(0, watch);
        advance(world, 120);
        world.watch(0, 0, None);
        settle(world);
    });
    run(Transport::Polls, |world| {
        world.set(0, "r0", "good");
        world.watch(0, 0, Some("r0"));
        advance(world, 1);
        world.watch(0, 0, None);
        advance(world, 1);
        let (_, all) = world.watches(0).last().expect("there are two");
        assert_eq!(all.view.len(), 1, "at once, and not when something changes");
        settle(world);
    });
}

/// A client that dropped a resource because of a rejected update must not state its version, even
/// if the update was reverted.
#[test]
fn resource_dropped_by_a_nack_is_requested_without_a_version() {
    run(Transport::Polls, |world| {
        world.watch(0, 0, Some("r0"));
        world.set(0, "r0", "good");
        advance(world, 1);
        world.set(0, "r0", "bad");
        advance(world, 20);
        for link in world.open_links() {
            world.end_stream(link);
        }
        world.set(0, "r0", "good");
        settle(world);
    });
}

#[test]
fn invalid_and_cached_poll_responses_only_delay_updates() {
    let outcome = run(Transport::Polls, |world| {
        world.set(0, "r0", "old");
        world.watch(0, 0, Some("r0"));
        advance(world, 1);
        world.set(0, "r0", "new");
        for bad in [BadAnswer::Stale, BadAnswer::Unusable, BadAnswer::Status(14)] {
            advance(world, 10);
            for link in world.open_links() {
                world.answer_badly(link, bad);
            }
            advance(world, 60);
        }
        settle(world);
    });
    assert!(outcome.situations.hits(Situation::StaleAnswer) > 0);
    assert!(outcome.situations.hits(Situation::Unchanged) > 0);
}

#[test]
fn unreadable_files_keep_the_last_valid_state() {
    let outcome = run(Transport::Files, |world| {
        world.set(0, "r0", "old");
        let watch = world.watch(0, 0, Some("r0")).expect("a good name");
        advance(world, 1);
        for state in [FileState::Cut, FileState::Gone, FileState::Forbidden] {
            world.spoil_files(0, state, Duration::from_secs(5));
            advance(world, 1);
            let (_, known) = world.watches(0).find(|(id, _)| *id == watch).expect("it goes on");
            assert_eq!(known.view.len(), 1, "{state:?}");
            advance(world, 10);
        }
        world.lose_event(0);
        world.set(0, "r0", "unheard of");
        advance(world, 60);
        settle(world);
    });
    assert!(outcome.situations.hits(Situation::FileUnreadable) >= 3);
    assert_eq!(outcome.situations.hits(Situation::FileReadLate), 1);
}
