//! The bug zoo: bugs that implementations of xDS shipped, let loose on purpose, are found.
//!
//! `XDS_SIM_BUG=4` looks for one of them, and `XDS_SIM_ZOO=1` looks for all and writes what was found to
//! `docs/BUG_ZOO.md`. The bugs are switches in the cores (`xds_core::zoo`) that no other build has.

use std::{env, fmt::Write as _, fs};

use xds_core::zoo::{Bug, let_loose};
use xds_sim::{Config, run_seed};

/// A bug, and how soon it has to be found.
struct Exhibit {
    bug: Bug,
    /// What it is.
    what: &'static str,
    /// The public issue that shipped it or one like it, as it can be looked up.
    shipped: &'static str,
    /// Within how many seeds it is found, from zero on: several times what it took when that was written down.
    limit: u64,
}

const EXHIBITS: [Exhibit; 30] = [
    Exhibit {
        bug: Bug::NonceOverReconnect,
        what: "the nonce of a type outlives its stream",
        shipped: "envoy #30155, envoy #15767, grpc-node #2875",
        limit: 100,
    },
    Exhibit {
        bug: Bug::VersionOfRejected,
        what: "a NACK states the version that it rejects",
        shipped: "none known",
        limit: 100,
    },
    Exhibit {
        bug: Bug::NoUnsubscribeForLastWatch,
        what: "the server is not told when the last watch of a type ends",
        shipped: "none known; xds-client 0.1.0-alpha.4 has it",
        limit: 100,
    },
    Exhibit {
        bug: Bug::CacheNotEvicted,
        what: "a resource stays in the cache after its subscription has ended",
        shipped: "none known; xds-client 0.1.0-alpha.4 has it",
        limit: 1_000,
    },
    Exhibit {
        bug: Bug::TimerRunsInBackoff,
        what: "does-not-exist timers go on while there is no stream",
        shipped: "grpc-node #3074; xds-client 0.1.0-alpha.4 has it",
        limit: 100,
    },
    Exhibit {
        bug: Bug::TimerOutlivesReportedError,
        what: "a reported error does not end the does-not-exist timer",
        shipped: "grpc-java #8657, for an error of the client's own",
        limit: 500,
    },
    Exhibit {
        bug: Bug::WholeResponseRejected,
        what: "one bad resource makes the client refuse all others of the response",
        shipped: "kuma #12857, grpc-node #1947",
        limit: 200,
    },
    Exhibit {
        bug: Bug::RemovalsLostOnNack,
        what: "a response with a bad resource deletes nothing",
        shipped: "none known; orion has it",
        limit: 500,
    },
    Exhibit {
        bug: Bug::RejectedVersionOnReconnect,
        what: "`initial_resource_versions` states a version that was rejected",
        shipped: "envoy #20790, #23343",
        limit: 200,
    },
    Exhibit {
        bug: Bug::InterestNotSentAgain,
        what: "what is held is not subscribed to on a new stream",
        shipped: "kmesh #415",
        limit: 100,
    },
    Exhibit {
        bug: Bug::EmptyListAfterNames,
        what: "after names, an empty list is still meant as the wildcard",
        shipped: "envoy #21416",
        limit: 500,
    },
    Exhibit {
        bug: Bug::AbsenceDeletesEndpoints,
        what: "what a response leaves out is deleted whatever its type",
        shipped: "grpc-node #1925",
        limit: 500,
    },
    Exhibit {
        bug: Bug::AbsenceDeletesWhatNeverCame,
        what: "what was only just asked for is taken to be deleted",
        shipped: "grpc-go #5912",
        limit: 500,
    },
    Exhibit {
        bug: Bug::DuplicatesAccepted,
        what: "a name that comes twice in a response is no reason to reject it",
        shipped: "envoy #14847; gRPC C-core 1.85.1 has it",
        limit: 1_000,
    },
    Exhibit {
        bug: Bug::RejectedSentAgain,
        what: "a server sends what was rejected again, at once",
        shipped: "go-control-plane #962, istio #8471, kgateway #14264",
        limit: 100,
    },
    Exhibit {
        bug: Bug::SilentOnNewNames,
        what: "a server does not answer new names while the version is the same",
        shipped: "go-control-plane #399, #431",
        limit: 500,
    },
    Exhibit {
        bug: Bug::MissingNotRemembered,
        what: "a server forgets names that do not exist when they are asked for",
        shipped: "go-control-plane #1318, #488",
        limit: 100,
    },
    Exhibit {
        bug: Bug::DeletionToldTwice,
        what: "a server tells of a deletion with every change from then on",
        shipped: "istio #49195",
        limit: 2_000,
    },
    Exhibit {
        bug: Bug::VersionAsNonce,
        what: "a server's nonces are its versions",
        shipped: "cilium #45288",
        limit: 100,
    },
    Exhibit {
        bug: Bug::HoldNeverReleased,
        what: "a server that waits for another type to be accepted waits for ever",
        shipped: "go-control-plane #752, #875, #426",
        limit: 2_000,
    },
    Exhibit {
        bug: Bug::FallbackThoughCached,
        what: "the client falls back although all that is watched is known",
        shipped: "none known",
        limit: 100,
    },
    Exhibit {
        bug: Bug::NoWayBack,
        what: "the client stays with the fallback when the preferred server is back",
        shipped: "none known",
        limit: 500,
    },
    Exhibit {
        bug: Bug::AuthoritiesShareAbsence,
        what: "one authority's response deletes what another one's server sent",
        shipped: "none known",
        limit: 500,
    },
    Exhibit {
        bug: Bug::HeartbeatIsAnUpdate,
        what: "a heartbeat is told to watchers",
        shipped: "none known",
        limit: 500,
    },
    Exhibit {
        bug: Bug::BackoffEndsOnConnect,
        what: "a connection resets the backoff, though no response has come",
        shipped: "grpc-go #5280, grpc-java #9029, grpc-node #2077",
        limit: 100,
    },
    Exhibit {
        bug: Bug::PlannedEndIsAnError,
        what: "watchers are told of a stream that ended after it had delivered",
        shipped: "grpc-java #11596",
        limit: 100,
    },
    Exhibit {
        bug: Bug::QueuePerWatcher,
        what: "a slow watcher is told every change, one after the other",
        shipped: "none known; grpc #34099 is about reading on while watchers are behind",
        limit: 5_000,
    },
    Exhibit {
        bug: Bug::HashOrder,
        what: "names are subscribed in another order in every run",
        shipped: "none known of a client; of a server istio #40930",
        limit: 100,
    },
    Exhibit {
        bug: Bug::DeadlineInThePast,
        what: "a deadline that has passed is handed out again",
        shipped: "none known; messages that spin are envoy #2169",
        limit: 100,
    },
    Exhibit {
        bug: Bug::PanicOnUnknownType,
        what: "a response of an unknown type ends the process",
        shipped: "none known; quilkin has it",
        limit: 500,
    },
];

/// What found a bug.
struct Found {
    invariant: &'static str,
    rule: &'static str,
    seed: u64,
}

/// The same run twice is the same run (IC37): this is the one rule that one run alone cannot show.
const SAME: Found = Found {
    invariant: "IC37",
    rule: "The same inputs at the same times lead to the same outputs.",
    seed: 0,
};

fn find(bug: Bug, limit: u64, config: &Config) -> Option<Found> {
    (0..limit).find_map(|seed| {
        let outcome = run_seed(seed, config);
        if let Some(failure) = outcome.violation {
            // It must be the bug that was found, not one that nobody let loose.
            let_loose(None);
            let is_sound = run_seed(seed, config).violation.is_none();
            let_loose(Some(bug));
            if !is_sound {
                return None;
            }
            let (invariant, rule) = (failure.violation.invariant, failure.violation.rule);
            return Some(Found { invariant, rule, seed });
        }
        let is_same = seed >= 200 || run_seed(seed, config).hash == outcome.hash;
        (!is_same).then_some(Found { seed, ..SAME })
    })
}

#[test]
fn every_bug_is_found() {
    let config = Config::default();
    let is_written = env::var_os("XDS_SIM_ZOO").is_some();
    let only: Option<usize> = env::var("XDS_SIM_BUG").ok().and_then(|number| number.parse().ok());
    assert!(
        !is_written || only.is_none(),
        "the page has all bugs: XDS_SIM_ZOO without XDS_SIM_BUG"
    );
    let mut table = String::new();
    let mut escaped = Vec::new();
    for (number, exhibit) in EXHIBITS.into_iter().enumerate() {
        let number = number + 1;
        let Exhibit { bug, what, shipped, limit } = exhibit;
        assert_eq!(bug as usize, number, "{bug:?}");
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let_loose(Some(bug));
        let found = find(bug, limit, &config);
        let_loose(None);
        match found {
            Some(Found { invariant, rule, seed }) => {
                let runs = seed + 1;
                println!("{number:>2} {bug:?}: {invariant} after {runs} runs");
                // Writing to a string cannot fail.
                let _ = writeln!(
                    table,
                    "| {number} | {what} | {shipped} | {invariant}: {rule} | {runs} | {limit} |"
                );
            }
            None => {
                println!("{number:>2} {bug:?}: not found within {limit} runs");
                escaped.push((bug, limit));
            }
        }
    }
    assert!(escaped.is_empty(), "not found within so many runs: {escaped:?}");
    if is_written {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/BUG_ZOO.md");
        fs::write(file, format!("{}{table}", include_str!("zoo.md")))
            .expect("the checkout can be written");
    }
}

/// The page says of each bug what this table does; only finding them takes runs.
#[test]
fn the_page_has_these_bugs() {
    let page = include_str!("../../docs/BUG_ZOO.md").replace("\r\n", "\n");
    let head = include_str!("zoo.md").replace("\r\n", "\n");
    let rows = page.strip_prefix(&head).expect("the head of the page is that of zoo.md");
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(" | ").collect()).collect();
    assert_eq!(rows.len(), EXHIBITS.len(), "XDS_SIM_ZOO=1 writes the page anew");
    for (at, (row, exhibit)) in rows.iter().zip(EXHIBITS).enumerate() {
        let [number, what, shipped, rule, runs, limit] = row[..] else { panic!("{row:?}") };
        assert_eq!(number, format!("| {}", at + 1));
        assert_eq!((what, shipped), (exhibit.what, exhibit.shipped));
        assert_eq!(limit, format!("{} |", exhibit.limit), "{what}");
        assert!(runs.parse::<u64>().is_ok_and(|runs| runs <= exhibit.limit), "{what}: {runs} runs");
        assert!(
            rule.starts_with("IC") || rule.starts_with("IS") || rule.starts_with("IL"),
            "{rule}"
        );
        let names_an_issue = shipped.contains(" #") || shipped.starts_with("none known");
        assert!(names_an_issue, "{what}: {shipped:?} is nothing to look up");
    }
}
