//! The bug zoo: bugs that implementations of xDS shipped, let loose on purpose, are found.
//!
//! `XDS_SIM_BUG=4` looks for one of them, and `XDS_SIM_ZOO=1` writes what was found to `docs/BUG_ZOO.md`. The bugs are switches in the cores
//! (`xds_core::zoo`) that no other build has.

use std::{env, fmt::Write as _, fs, panic};

use xds_core::zoo::{Bug, let_loose};
use xds_sim::{Config, run_seed};

/// How many seeds it may take to find a bug.
const BUDGET: u64 = 5_000;

/// A bug, what it is in a sentence, and who shipped it or one like it.
type Exhibit = (Bug, &'static str, &'static str);

const EXHIBITS: [Exhibit; 30] = [
    (
        Bug::NonceOverReconnect,
        "the nonce of a type outlives its stream",
        "envoy #30155, envoy #15767, grpc-node #2875",
    ),
    (Bug::VersionOfRejected, "a NACK states the version that it rejects", ""),
    (
        Bug::NoUnsubscribeForLastWatch,
        "the server is not told when the last watch of a type ends",
        "xds-client 0.1.0-alpha.4",
    ),
    (
        Bug::CacheNotEvicted,
        "a resource stays in the cache after its subscription has ended",
        "xds-client 0.1.0-alpha.4",
    ),
    (
        Bug::TimerRunsInBackoff,
        "does-not-exist timers go on while there is no stream",
        "xds-client 0.1.0-alpha.4, grpc-node #3074",
    ),
    (Bug::TimerOutlivesReportedError, "a reported error does not end the does-not-exist timer", ""),
    (
        Bug::WholeResponseRejected,
        "one bad resource makes the client refuse all others of the response",
        "orion",
    ),
    (Bug::RemovalsLostOnNack, "a response with a bad resource deletes nothing", "orion"),
    (
        Bug::RejectedVersionOnReconnect,
        "`initial_resource_versions` states a version that was rejected",
        "kmesh #415",
    ),
    (Bug::InterestNotSentAgain, "what is held is not subscribed to on a new stream", ""),
    (
        Bug::EmptyListAfterNames,
        "after names, an empty list is still meant as the wildcard",
        "envoy #21416",
    ),
    (Bug::AbsenceDeletesEndpoints, "what a response leaves out is deleted whatever its type", ""),
    (
        Bug::AbsenceDeletesWhatNeverCame,
        "what was only just asked for is taken to be deleted",
        "grpc-go #5912",
    ),
    (
        Bug::DuplicatesAccepted,
        "a name that comes twice in a response is no reason to reject it",
        "gRPC C-core 1.85.1, envoy #14847",
    ),
    (
        Bug::RejectedSentAgain,
        "a server sends what was rejected again, at once",
        "go-control-plane #962, istio #8471, kgateway #14264",
    ),
    (
        Bug::SilentOnNewNames,
        "a server does not answer new names while the version is the same",
        "go-control-plane #399, #431",
    ),
    (
        Bug::MissingNotRemembered,
        "a server forgets names that do not exist when they are asked for",
        "go-control-plane #1318, #488",
    ),
    (
        Bug::DeletionToldTwice,
        "a server tells of a deletion with every change from then on",
        "istio #49195",
    ),
    (Bug::VersionAsNonce, "a server's nonces are its versions", "cilium #45288"),
    (
        Bug::HoldNeverReleased,
        "a server that waits for another type to be accepted waits for ever",
        "go-control-plane #752, #875, #426",
    ),
    (Bug::FallbackThoughCached, "the client falls back although all that is watched is known", ""),
    (Bug::NoWayBack, "the client stays with the fallback when the preferred server is back", ""),
    (
        Bug::AuthoritiesShareAbsence,
        "one authority's response deletes what another one's server sent",
        "",
    ),
    (Bug::HeartbeatIsAnUpdate, "a heartbeat is told to watchers", ""),
    (
        Bug::BackoffEndsOnConnect,
        "a connection resets the backoff, though no response has come",
        "grpc-go #5280, grpc-java #9029, grpc-node #2077",
    ),
    (
        Bug::PlannedEndIsAnError,
        "watchers are told of a stream that ended after it had delivered",
        "grpc-java #11596",
    ),
    (Bug::QueuePerWatcher, "a slow watcher is told every change, one after the other", ""),
    (Bug::HashOrder, "names are subscribed in another order in every run", ""),
    (Bug::DeadlineInThePast, "a deadline that has passed is handed out again", ""),
    (Bug::PanicOnUnknownType, "a response of an unknown type ends the process", "quilkin"),
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

fn find(bug: Bug, config: &Config) -> Option<Found> {
    (0..BUDGET).find_map(|seed| {
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
    // Some are panics, which are told with the run that led to them.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let config = Config::default();
    let is_written = env::var_os("XDS_SIM_ZOO").is_some();
    let only: Option<usize> = env::var("XDS_SIM_BUG").ok().and_then(|number| number.parse().ok());
    let mut table = String::new();
    let mut escaped = Vec::new();
    for (number, (bug, what, shipped)) in EXHIBITS.into_iter().enumerate() {
        let number = number + 1;
        assert_eq!(bug as usize, number, "{bug:?}");
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let_loose(Some(bug));
        let found = find(bug, &config);
        let_loose(None);
        match found {
            Some(Found { invariant, rule, seed }) => {
                let runs = seed + 1;
                println!("{number:>2} {bug:?}: {invariant} after {runs} runs");
                // Writing to a string cannot fail.
                let _ = writeln!(
                    table,
                    "| {number} | {what} | {shipped} | {invariant}: {rule} | {runs} |"
                );
            }
            None => {
                println!("{number:>2} {bug:?}: not found");
                escaped.push(bug);
            }
        }
    }
    panic::set_hook(hook);
    assert!(escaped.is_empty(), "not found within {BUDGET} runs: {escaped:?}");
    if is_written {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/BUG_ZOO.md");
        fs::write(file, format!("{}{table}", include_str!("zoo.md")))
            .expect("the checkout can be written");
    }
}
