//! Deliberate bugs of the drivers, each of which a storm has to find.
//!
//! `XDS_SIM_ZOO=1` writes the result to `docs/DRIVER_ZOO.md`; `XDS_SIM_BUG=KeepaliveOff` tests one.

#![cfg(feature = "stack")]

#[expect(dead_code, reason = "the other tests of the stage use more of it")]
#[path = "stack/raw.rs"]
mod raw;
#[path = "stack/worlds.rs"]
mod worlds;

use std::{env, fmt::Write as _, fs};

use xds_grpc::zoo::{Bug, activate};
use xds_sim::{
    stack::{Stage, check::run_seed, storm::storm},
    trace::Keep,
};

/// A bug with its description, the first seed that found it when this was written, and the maximum
/// number of runs, from seed 0, until a rule finds it: several times the number needed then.
struct Exhibit {
    bug: Bug,
    world: WorldKind,
    what: &'static str,
    seed: u64,
    limit: u64,
}

/// World in which a bug is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorldKind {
    Storm,
    HalfClose,
    Deadline,
    Crowd,
    UnreadEvents,
}

impl WorldKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Storm => "storm",
            Self::HalfClose => "clients that end their requests",
            Self::Deadline => "incomplete requests",
            Self::Crowd => "clients that do not read",
            Self::UnreadEvents => "an application that does not read events",
        }
    }

    async fn play(self, stage: &Stage) {
        match self {
            Self::Storm => storm(stage).await,
            Self::HalfClose => worlds::half_close(stage).await,
            Self::Deadline => worlds::deadline(stage).await,
            Self::Crowd => worlds::crowd(stage).await,
            Self::UnreadEvents => worlds::unread_events(stage).await,
        }
    }
}

const EXHIBITS: [Exhibit; 20] = [
    Exhibit {
        bug: Bug::ResponseWakerLost,
        world: WorldKind::Storm,
        what: "server: an idle response body registers no waker",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::OpenBeforeSettings,
        world: WorldKind::Storm,
        what: "client: a connection counts as open before SETTINGS",
        seed: 14,
        limit: 200,
    },
    Exhibit {
        bug: Bug::KeepaliveOff,
        world: WorldKind::Storm,
        what: "client: no keepalive detects a lost connection",
        seed: 0,
        limit: 100,
    },
    Exhibit {
        bug: Bug::NoConnectTimeout,
        world: WorldKind::Storm,
        what: "client: an attempt to connect has no time limit",
        seed: 4,
        limit: 100,
    },
    Exhibit {
        bug: Bug::CloseNotReported,
        world: WorldKind::Storm,
        what: "server: a closed stream is not reported",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::ReadGateStuck,
        world: WorldKind::Storm,
        what: "server: reading stops after two requests",
        seed: 0,
        limit: 100,
    },
    Exhibit {
        bug: Bug::SlotFreeNotReported,
        world: WorldKind::Storm,
        what: "server: the driver is not told when a stream can take a response",
        seed: 1,
        limit: 50,
    },
    Exhibit {
        bug: Bug::CommandWakerLost,
        world: WorldKind::Storm,
        what: "client: commands are looked for in every second iteration only",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::ListenerOutlivesServer,
        world: WorldKind::Storm,
        what: "server: a listener outlives its server",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::ConnectionLeaked,
        world: WorldKind::Storm,
        what: "client: connections are never closed",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::FirstAddressOnly,
        world: WorldKind::Storm,
        what: "client: only the first address of a name is tried",
        seed: 4,
        limit: 100,
    },
    Exhibit {
        bug: Bug::StreamEndNotReported,
        world: WorldKind::Storm,
        what: "client: the end of a stream is not reported",
        seed: 0,
        limit: 100,
    },
    Exhibit {
        bug: Bug::HandleDropIgnored,
        world: WorldKind::Storm,
        what: "client: a client goes on after its last handle was dropped",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::PermitBeforeAccept,
        world: WorldKind::Storm,
        what: "server: accepting waits for the oldest handshake and does not drop it",
        seed: 51,
        limit: 300,
    },
    Exhibit {
        bug: Bug::ResponseBufferedWhole,
        world: WorldKind::Crowd,
        what: "server: a response is copied for each stream",
        seed: 0,
        limit: 10,
    },
    Exhibit {
        bug: Bug::GoAwayIgnored,
        world: WorldKind::Storm,
        what: "client: a GOAWAY before the call does not end the attempt",
        seed: 4,
        limit: 200,
    },
    Exhibit {
        bug: Bug::HalfCloseIgnored,
        world: WorldKind::HalfClose,
        what: "server: the end of a client's requests is ignored",
        seed: 0,
        limit: 10,
    },
    Exhibit {
        bug: Bug::DeadlineMissed,
        world: WorldKind::Deadline,
        what: "server: the deadline of an incomplete request is one tick late",
        seed: 0,
        limit: 10,
    },
    Exhibit {
        bug: Bug::TlsReloadRace,
        world: WorldKind::Storm,
        what: "both: credentials that were read while being replaced are not read again",
        seed: 113,
        limit: 400,
    },
    Exhibit {
        bug: Bug::UnboundedQueue,
        world: WorldKind::UnreadEvents,
        what: "server: requests are read while their events are not",
        seed: 0,
        limit: 10,
    },
];

#[test]
fn every_bug_of_the_drivers_is_found() {
    assert_eq!(EXHIBITS.map(|exhibit| exhibit.bug), Bug::ALL);
    let mut table = String::from("| bug | world | runs | rule |\n|---|---|---|---|\n");
    let mut missed = Vec::new();
    let is_written = env::var_os("XDS_SIM_ZOO").is_some();
    let only = env::var("XDS_SIM_BUG").ok();
    assert!(!is_written || only.is_none(), "the page has all bugs");
    for Exhibit { bug, world, what, seed, limit } in EXHIBITS {
        if only.as_ref().is_some_and(|only| *only != format!("{bug:?}")) {
            continue;
        }
        let scenario = async |stage: &Stage| world.play(stage).await;
        activate(Some(bug));
        // Usually the known seed suffices. All are tried for the table, or if it does not.
        let known = (!is_written).then_some(seed);
        let found = known.into_iter().chain(0..limit).find_map(|seed| {
            let outcome = run_seed(seed, &scenario, Keep::Nothing);
            outcome.trace.violation.map(|violation| (seed + 1, violation.invariant))
        });
        activate(None);
        match found {
            Some((runs, rule)) => {
                let world = world.as_str();
                writeln!(table, "| {what} | {world} | {runs} | {rule} |").expect("a text");
            }
            None => missed.push(what),
        }
    }
    println!("{table}");
    assert!(missed.is_empty(), "not found: {missed:?}");
    if is_written {
        let text = format!(
            "# Bugs of drivers that the simulation finds\n\nEach bug is put into the drivers, one at a \
             time, and a world on the stack runs from seed 0 until a rule is broken. Most worlds are \n\
             storms; the others have clients or applications that misbehave. Written by\n\
             `XDS_SIM_ZOO=1 cargo test -p xds-sim --features stack --test stack_zoo`.\n\n{table}"
        );
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/DRIVER_ZOO.md");
        fs::write(file, text).expect("docs can be written");
    }
}
