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
pub(crate) use self::operation::{MANY, SHORTEST_TTL};
use crate::{oracle::bound, trace::Phase, world::World};

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
    world.advance(bound(world.options()));
    world.judge_at_rest();
    world.advance(SILENCE);
    world.judge_at_rest();
    world.enter(Phase::Teardown);
    for client in 0..world.client_count() {
        let watches: Vec<_> = world.watches(client).map(|(watch, _)| watch).collect();
        for watch in watches {
            world.unwatch(client, watch);
        }
    }
    world.advance(IDLE);
    world.judge_at_rest();
    for client in 0..world.client_count() {
        world.shut_down(client);
    }
    world.advance(IDLE);
    world.judge_at_rest();
}
