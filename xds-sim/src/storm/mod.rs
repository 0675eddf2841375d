//! The scenario that needs no author: applications, operators and the network do whatever the options
//! allow, everything is put right, and all have to agree.
//!
//! A storm has five parts, the phases of a trace: the participants get to know each other; things go
//! wrong; everything is put right; all must come to the same view within a bound, and then be silent;
//! everybody leaves, and nothing may stay behind.

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

/// Operations before anything goes wrong.
const WARM_UP: u32 = 6;

/// How long it takes from the last response until nobody says anything any more.
const SILENCE: Duration = Duration::from_secs(100);

/// How long a client keeps a stream that nobody wants anything of, and a bit.
const IDLE: Duration = Duration::from_secs(40);

/// Makes a storm.
pub fn storm(world: &mut World) {
    let operations = world.options().operations;
    let calm: Vec<Operation> = Operation::plan(world, WARM_UP, false);
    let plan = Operation::plan(world, operations, true);
    carry_out(world, &calm);
    world.advance(Duration::from_secs(1));
    world.enter(Phase::Faults);
    carry_out(world, &plan);
    settle(world);
}

fn carry_out(world: &mut World, plan: &[Operation]) {
    for operation in plan {
        world.advance(operation.after);
        if world.is_over() {
            return;
        }
        operation.carry_out(world);
    }
}

/// How many of a thousand runs end with clients that are shut down with all of their watches.
const ABRUPT: u32 = 250;

/// More watches than a client mostly has.
const SEVERAL: usize = 500;

/// What a client does that was shut down.
const AFTER_THE_END: &str = "a client that was shut down does nothing any more, and takes no watch";

/// Puts everything right, waits until all agree, and lets everybody leave: the end of a storm, and of a
/// scenario of one's own.
pub fn settle(world: &mut World) {
    world.enter(Phase::Heal);
    operation::make_good(world);
    world.heal();
    if !world.options().lies.spare_clients() {
        // A stream on which a lie was told is beyond repair; the next one has to put everything right.
        world.open_links().into_iter().for_each(|link| world.reset(link, 14));
    }
    world.enter(Phase::Converge);
    if may_stay_away(world) && world.choices().chance("without the first server", WITHOUT_FIRST) {
        lose_first_server(world);
    }
    for rest in [bound(world.options()), SILENCE] {
        world.advance(rest);
        world.judge_at_rest();
        if world.is_over() {
            return;
        }
    }
    world.enter(Phase::Teardown);
    if world.choices().chance("shut down while watched", ABRUPT) {
        bring_news(world);
    } else {
        end_all_watches(world);
        world.advance(IDLE);
        world.judge_at_rest();
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
    world.judge_at_rest();
}

/// How many of a thousand runs that could do without their first server have to, until all have agreed.
const WITHOUT_FIRST: u32 = 250;

/// How long attempts may be under way that began before a server was refused.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Whether there is somebody to turn to, and everybody can be judged who does or does not.
fn may_stay_away(world: &World) -> bool {
    let options = world.options();
    options.servers > 1
        && options.profile == ProfileName::Grpc
        && options.transport == Transport::Streams
        && options.lies.spare_clients()
        && !world.has_applications()
}

/// The first server cannot be reached until all have agreed.
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
        // By the thousand, they are given up in one go: each by itself is a request with all others.
        if watches.len() > SEVERAL {
            world.unwatch_several(client, &watches);
            continue;
        }
        for watch in watches {
            world.unwatch(client, watch);
        }
    }
}

/// Each type changes, and the news is on its way.
fn bring_news(world: &mut World) {
    for kind in 0..world.types().len() {
        let name = world.name(kind, 0);
        world.set_anew(kind, &name, "news");
    }
    let way = world.options().latency;
    world.advance(way / 2);
}
