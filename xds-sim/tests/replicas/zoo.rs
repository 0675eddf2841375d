//! Deliberate bugs of replicas, each of which a storm has to find.
//!
//! `XDS_SIM_ZOO=1` writes the result to `docs/REPLICA_ZOO.md`.

use std::{env, fmt::Write as _, fs};

use xds_sim::replicas::{ReplicaBug, check::run_seed};
use xds_source::zoo::{Bug, activate};

/// A bug with its description, and the maximum number of runs, from seed 0, until a rule finds it.
struct Exhibit {
    bug: Place,
    what: &'static str,
    limit: u64,
}

/// Place of a bug.
#[derive(Clone, Copy)]
enum Place {
    Follower(Bug),
    Driver(ReplicaBug),
}

const EXHIBITS: [Exhibit; 7] = [
    Exhibit {
        bug: Place::Follower(Bug::GapOnResume),
        what: "follower: an interrupted watch leaves a gap",
        limit: 200,
    },
    Exhibit {
        bug: Place::Driver(ReplicaBug::ListAsDiff),
        what: "driver: a list that is read again is taken for a difference",
        limit: 500,
    },
    Exhibit {
        bug: Place::Follower(Bug::OlderListUsed),
        what: "follower: a list of a member that lags behind is used",
        limit: 1_000,
    },
    Exhibit {
        bug: Place::Driver(ReplicaBug::StaleConfirmation),
        what: "driver: the revision is confirmed by a stale read",
        limit: 500,
    },
    Exhibit {
        bug: Place::Driver(ReplicaBug::ReadyTooEarly),
        what: "driver: clients are answered before the first whole list",
        limit: 100,
    },
    Exhibit {
        bug: Place::Driver(ReplicaBug::RevisionNotCarried),
        what: "driver: transactions do not carry the revision of the source",
        limit: 1_000,
    },
    Exhibit {
        bug: Place::Driver(ReplicaBug::LastStateLost),
        what: "driver: the last state is dropped while the source is unreachable",
        limit: 100,
    },
];

#[test]
fn every_bug_of_replicas_is_found() {
    let _alone = crate::alone();
    let mut table = String::from("| bug | runs | limit | rule |\n|---|--:|--:|---|\n");
    let mut missed = Vec::new();
    for Exhibit { bug, what, limit } in EXHIBITS {
        let in_driver = match bug {
            Place::Follower(bug) => {
                activate(Some(bug));
                None
            }
            Place::Driver(bug) => Some(bug),
        };
        let found = (0..limit).find_map(|seed| {
            let outcome = run_seed(seed, in_driver, false);
            outcome.violation.map(|violation| (seed + 1, violation.invariant))
        });
        activate(None);
        match found {
            Some((runs, rule)) => {
                writeln!(table, "| {what} | {runs} | {limit} | {rule} |").expect("a text");
            }
            None => missed.push(what),
        }
    }
    println!("{table}");
    assert!(missed.is_empty(), "not found: {missed:?}");
    if env::var_os("XDS_SIM_ZOO").is_some() {
        let text = format!(
            "# Bugs of replicas that the simulation finds\n\nEach bug is put into the follower of a \
             source or into the driver of a replica, one at a time, and storms run from seed 0 until \na \
             rule is broken. Written by `XDS_SIM_ZOO=1 cargo test -p xds-sim --features replicas --test \
             replicas zoo`.\n\n{table}"
        );
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/REPLICA_ZOO.md");
        fs::write(file, text).expect("docs can be written");
    }
}
