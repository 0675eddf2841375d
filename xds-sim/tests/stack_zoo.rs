//! Deliberate bugs of the drivers, each of which a storm has to find.
//!
//! `XDS_SIM_ZOO=1` writes the result to `docs/DRIVER_ZOO.md`.

#![cfg(feature = "stack")]

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
    what: &'static str,
    seed: u64,
    limit: u64,
}

const EXHIBITS: [Exhibit; 13] = [
    Exhibit {
        bug: Bug::ResponseWakerLost,
        what: "server: an idle response body registers no waker",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::OpenBeforeSettings,
        what: "client: a connection counts as open before SETTINGS",
        seed: 16,
        limit: 200,
    },
    Exhibit {
        bug: Bug::KeepaliveOff,
        what: "client: no keepalive detects a lost connection",
        seed: 10,
        limit: 100,
    },
    Exhibit {
        bug: Bug::NoConnectTimeout,
        what: "client: an attempt to connect has no time limit",
        seed: 4,
        limit: 100,
    },
    Exhibit {
        bug: Bug::CloseNotReported,
        what: "server: a closed stream is not reported",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::ReadGateStuck,
        what: "server: reading stops after two requests",
        seed: 7,
        limit: 100,
    },
    Exhibit {
        bug: Bug::SlotFreeNotReported,
        what: "server: the driver is not told when a stream can take a response",
        seed: 11,
        limit: 50,
    },
    Exhibit {
        bug: Bug::CommandWakerLost,
        what: "client: commands are looked for in every second iteration only",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::ListenerOutlivesServer,
        what: "server: a listener outlives its server",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::ConnectionLeaked,
        what: "client: connections are never closed",
        seed: 0,
        limit: 50,
    },
    Exhibit {
        bug: Bug::FirstAddressOnly,
        what: "client: only the first address of a name is tried",
        seed: 13,
        limit: 100,
    },
    Exhibit {
        bug: Bug::StreamEndNotReported,
        what: "client: the end of a stream is not reported",
        seed: 5,
        limit: 100,
    },
    Exhibit {
        bug: Bug::HandleDropIgnored,
        what: "client: a client goes on after its last handle was dropped",
        seed: 0,
        limit: 50,
    },
];

#[test]
fn every_bug_of_the_drivers_is_found() {
    assert_eq!(EXHIBITS.map(|exhibit| exhibit.bug), Bug::ALL);
    let scenario = async |stage: &Stage| storm(stage).await;
    let mut table = String::from("| bug | runs | rule |\n|---|---|---|\n");
    let mut missed = Vec::new();
    let is_written = env::var_os("XDS_SIM_ZOO").is_some();
    for Exhibit { bug, what, seed, limit } in EXHIBITS {
        activate(Some(bug));
        // Usually the known seed suffices. All are tried for the table, or if it does not.
        let known = (!is_written).then_some(seed);
        let found = known.into_iter().chain(0..limit).find_map(|seed| {
            let outcome = run_seed(seed, &scenario, Keep::Nothing);
            outcome.trace.violation.map(|violation| (seed + 1, violation.invariant))
        });
        activate(None);
        match found {
            Some((runs, rule)) => writeln!(table, "| {what} | {runs} | {rule} |").expect("a text"),
            None => missed.push(what),
        }
    }
    println!("{table}");
    assert!(missed.is_empty(), "not found: {missed:?}");
    if is_written {
        let text = format!(
            "# Bugs of drivers that the simulation finds\n\nEach bug is put into the drivers, one at a \
             time, and storms on the stack run from seed 0 until a rule is broken. Written by\n\
             `XDS_SIM_ZOO=1 cargo test -p xds-sim --features stack --test stack_zoo`.\n\n{table}"
        );
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/DRIVER_ZOO.md");
        fs::write(file, text).expect("docs can be written");
    }
}
