//! Generated scenario: applications, operators and the network do anything that the options allow,
//! then all faults are repaired, and the participants must agree.
//!
//! A storm has the five phases of a trace: warm-up without failures; faults; heal, which repairs
//! all faults; converge, in which the participants must agree within a time limit and then be
//! silent; and teardown, after which no state may remain.

mod lie;
mod operation;

use std::time::Duration;

use self::operation::Operation;
use crate::{
    Situation,
    options::{ProfileName, Transport},
    oracle::bound,
    trace::Phase,
    world::{Reach, World},
};

/// Number of operations before the faults.
const WARM_UP: u32 = 6;

/// Time from the last response until all participants must be silent.
const SILENCE: Duration = Duration::from_secs(100);

/// Time for which a client keeps a stream without subscriptions, with a margin.
const IDLE: Duration = Duration::from_secs(40);

/// Executes a storm in a world.
pub fn storm(world: &mut World) {
    let operations = world.options().operations;
    let calm: Vec<Operation> = Operation::plan(world, WARM_UP, false);
    let plan = Operation::plan(world, operations, true);
    execute(world, &calm);
    world.advance(Duration::from_secs(1));
    world.enter(Phase::Faults);
    execute(world, &plan);
    settle(world);
}

fn execute(world: &mut World, plan: &[Operation]) {
    for operation in plan {
        world.advance(operation.after);
        if world.is_over() {
            return;
        }
        operation.execute(world);
    }
}

/// Number of runs in a thousand that shut clients down while they have watches.
const ABRUPT: u32 = 250;

/// Number of watches above which a client ends them together.
const SEVERAL: usize = 500;

/// Rule broken by a client that accepts a watch after it was shut down.
const AFTER_THE_END: &str = "a client that was shut down does nothing and accepts no watch";

/// Repairs all faults, waits until all participants agree, and ends all watches.
///
/// This is the end of a storm, and can be the end of a user-defined scenario. It stops the run if
/// the participants do not agree in time, do not fall silent, or leave state behind.
pub fn settle(world: &mut World) {
    world.enter(Phase::Heal);
    operation::replace_invalid(world);
    world.heal();
    if !world.options().lies.spare_clients() {
        // Streams with lies are reset; the new ones must restore the correct state.
        world.open_links().into_iter().for_each(|link| world.reset(link, 14));
    }
    world.enter(Phase::Converge);
    if may_stay_away(world) && world.choices().chance("without the first server", WITHOUT_FIRST) {
        lose_first_server(world);
    }
    for rest in [bound(world.options()), SILENCE] {
        world.advance(rest);
        world.check_at_rest();
        if world.is_over() {
            return;
        }
    }
    world.enter(Phase::Teardown);
    if world.choices().chance("shut down while watched", ABRUPT) {
        change_everything(world);
    } else {
        end_all_watches(world);
        world.advance(IDLE);
        world.check_at_rest();
    }
    if world.is_over() {
        return;
    }
    for client in 0..world.client_count() {
        world.shut_down(client);
        if world.watch(client, 0, Some("too late")).is_some() {
            world.fail("IC39", AFTER_THE_END, "a watch begins");
        }
    }
    world.advance(IDLE);
    world.check_at_rest();
}

/// Number of runs in a thousand that converge without the first server, where that is possible.
const WITHOUT_FIRST: u32 = 250;

/// Maximum duration of connection attempts that began before a server became unreachable.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Whether clients have a fallback server, and the oracles can check every client that uses it.
fn may_stay_away(world: &World) -> bool {
    let options = world.options();
    options.servers > 1
        && options.profile == ProfileName::Grpc
        && options.transport == Transport::Streams
        && options.lies.spare_clients()
        && !world.has_applications()
}

/// Makes the first server unreachable until all participants have agreed.
fn lose_first_server(world: &mut World) {
    world.note(Situation::WithoutFirstServer);
    let lasting = ATTEMPT + bound(world.options()) + SILENCE + Duration::from_secs(1);
    world.set_reach(0, Reach::Refused, lasting);
    let reset = |world: &mut World| {
        let mut links = world.open_links();
        links.retain(|link| world.link(*link).server == 0);
        links.into_iter().for_each(|link| world.reset(link, 14));
    };
    reset(world);
    world.advance(ATTEMPT);
    reset(world);
}

fn end_all_watches(world: &mut World) {
    for client in 0..world.client_count() {
        let watches: Vec<_> = world.watches(client).map(|(watch, _)| watch).collect();
        // Thousands of watches are ended together: ending each one alone sends a request with all
        // the others.
        if watches.len() > SEVERAL {
            world.unwatch_several(client, &watches);
            continue;
        }
        for watch in watches {
            world.unwatch(client, watch);
        }
    }
}

/// Changes a resource of each type, so that responses are in flight.
fn change_everything(world: &mut World) {
    for kind in 0..world.types().len() {
        let name = world.name(kind, 0);
        world.set_new_text(kind, &name, "news");
    }
    let way = world.options().latency;
    world.advance(way / 2);
}
