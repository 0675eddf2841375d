//! A process of its own, because the bugs are switches of the process.
//!
//! The bug zoo: bugs that xDS implementations shipped, or similar ones, are enabled on purpose and
//! must be found.
//!
//! Each bug must be found by any rule, and by the rule that it breaks, which tests that rule's
//! oracle. `XDS_SIM_BUG=4` tests one bug. `XDS_SIM_ZOO=1` tests all and writes the result to
//! `docs/BUG_ZOO.md`. The bugs are switches in the cores (`xds_core::zoo`) that other builds do not
//! contain.

mod reproduction;

use std::{
    env, fs,
    sync::{Mutex, MutexGuard, PoisonError},
};

use xds_core::zoo::{Bug, activate};
use xds_sim::{Config, run_seed};

/// Held by a test while it enables bugs.
static BUGS: Mutex<()> = Mutex::new(());

fn lock_bugs() -> MutexGuard<'static, ()> {
    BUGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bug, the rules that must find it, and the limits.
struct Exhibit {
    bug: Bug,
    /// Description.
    what: &'static str,
    /// Public issue of an implementation with this or a similar bug.
    shipped: &'static str,
    /// Maximum number of runs, from seed 0, until any rule finds it: several times the number
    /// needed when this was written.
    limit: u64,
    meant: Meant,
}

/// Rules that must find a bug. A consequence of the bug may break another rule first, which ends
/// the run.
struct Meant {
    /// Rules about the bug, any one of which suffices.
    rules: &'static [&'static str],
    /// Maximum number of runs until one of them is broken.
    limit: u64,
}

const fn by(rules: &'static [&'static str], limit: u64) -> Meant {
    Meant { rules, limit }
}

const EXHIBITS: [Exhibit; 30] = [
    Exhibit {
        bug: Bug::NonceKeptOverReconnect,
        what: "the nonce of a type outlives its stream",
        shipped: "envoy #30155, envoy #15767, grpc-node #2875",
        limit: 100,
        meant: by(&["IC5", "IC6"], 100),
    },
    Exhibit {
        bug: Bug::VersionOfRejected,
        what: "a NACK states the version that it rejects",
        shipped: "none known",
        limit: 100,
        meant: by(&["IC3"], 100),
    },
    Exhibit {
        bug: Bug::NoUnsubscribeForLastWatch,
        what: "the server is not told when the last watch of a type ends",
        shipped: "none known; xds-client 0.1.0-alpha.4 has it",
        limit: 100,
        meant: by(&["IC10"], 100),
    },
    Exhibit {
        bug: Bug::CacheNotEvicted,
        what: "a resource stays in the cache after its subscription has ended",
        shipped: "none known; xds-client 0.1.0-alpha.4 has it",
        limit: 1_000,
        meant: by(&["IC15"], 1_000),
    },
    Exhibit {
        bug: Bug::TimerRunsInBackoff,
        what: "does-not-exist timers go on while there is no stream",
        shipped: "grpc-node #3074; xds-client 0.1.0-alpha.4 has it",
        limit: 100,
        meant: by(&["IC24"], 100),
    },
    Exhibit {
        bug: Bug::TimerOutlivesReportedError,
        what: "a reported error does not end the does-not-exist timer",
        shipped: "grpc-java #8657, for an error of the client's own",
        limit: 500,
        meant: by(&["IC31"], 500),
    },
    Exhibit {
        bug: Bug::WholeResponseRejected,
        what: "one bad resource makes the client refuse all others of the response",
        shipped: "kuma #12857, grpc-node #1947",
        limit: 200,
        meant: by(&["IC18"], 500),
    },
    Exhibit {
        bug: Bug::RemovalsLostOnNack,
        what: "a response with a bad resource deletes nothing",
        shipped: "none known; orion has it",
        limit: 500,
        meant: by(&["IC19"], 500),
    },
    Exhibit {
        bug: Bug::RejectedVersionOnReconnect,
        what: "`initial_resource_versions` states a version that was rejected",
        shipped: "envoy #20790, #23343",
        limit: 200,
        meant: by(&["IC8"], 200),
    },
    Exhibit {
        bug: Bug::SubscriptionsNotResent,
        what: "what is held is not subscribed to on a new stream",
        shipped: "kmesh #415",
        limit: 100,
        meant: by(&["IC10"], 500),
    },
    Exhibit {
        bug: Bug::EmptyListAfterNames,
        what: "after names, an empty list is still meant as the wildcard",
        shipped: "envoy #21416",
        limit: 500,
        meant: by(&["IC11"], 500),
    },
    Exhibit {
        bug: Bug::AbsenceDeletesEndpoints,
        what: "what a response leaves out is deleted whatever its type",
        shipped: "grpc-node #1925",
        limit: 500,
        meant: by(&["IC22"], 500),
    },
    Exhibit {
        bug: Bug::AbsenceDeletesNeverReceived,
        what: "what was only just asked for is taken to be deleted",
        shipped: "grpc-go #5912",
        limit: 500,
        meant: by(&["IC21"], 500),
    },
    Exhibit {
        bug: Bug::DuplicatesAccepted,
        what: "a name that comes twice in a response is no reason to reject it",
        shipped: "envoy #14847; gRPC C-core 1.85.1 has it",
        limit: 1_000,
        meant: by(&["IC17"], 1_000),
    },
    Exhibit {
        bug: Bug::RejectedSentAgain,
        what: "a server sends what was rejected again, at once",
        shipped: "go-control-plane #962, istio #8471, kgateway #14264",
        limit: 100,
        meant: by(&["IS4"], 100),
    },
    Exhibit {
        bug: Bug::SilentOnNewNames,
        what: "a server does not answer new names while the version is the same",
        shipped: "go-control-plane #399, #431",
        limit: 500,
        meant: by(&["IS6"], 500),
    },
    Exhibit {
        bug: Bug::MissingNotRemembered,
        what: "a server forgets names that do not exist when they are asked for",
        shipped: "go-control-plane #1318, #488",
        limit: 100,
        meant: by(&["IS8"], 500),
    },
    Exhibit {
        bug: Bug::DeletionSentTwice,
        what: "a server repeats a removal with every later change",
        shipped: "istio #49195",
        limit: 2_000,
        meant: by(&["IS11"], 2_000),
    },
    Exhibit {
        bug: Bug::VersionAsNonce,
        what: "a server's nonces are its versions",
        shipped: "cilium #45288",
        limit: 100,
        meant: by(&["IS1"], 100),
    },
    Exhibit {
        bug: Bug::BlockNeverReleased,
        what: "a server that waits for the ACK of another type waits forever",
        shipped: "go-control-plane #752, #875, #426",
        limit: 2_000,
        meant: by(&["IS17"], 1_000),
    },
    Exhibit {
        bug: Bug::FallbackDespiteCache,
        what: "the client falls back although all watched resources are known",
        shipped: "none known",
        limit: 100,
        meant: by(&["IC29"], 100),
    },
    Exhibit {
        bug: Bug::FallbackNeverEnds,
        what: "the client stays with the fallback when the preferred server is back",
        shipped: "none known",
        limit: 500,
        meant: by(&["IC29"], 500),
    },
    Exhibit {
        bug: Bug::AuthoritiesShareAbsence,
        what: "one authority's response deletes another authority's resources",
        shipped: "none known",
        limit: 500,
        meant: by(&["IC30"], 500),
    },
    Exhibit {
        bug: Bug::HeartbeatIsAnUpdate,
        what: "a heartbeat is notified to watchers",
        shipped: "none known",
        limit: 500,
        meant: by(&["IC16"], 500),
    },
    Exhibit {
        bug: Bug::BackoffEndsOnConnect,
        what: "a connection resets the backoff before a response arrives",
        shipped: "grpc-go #5280, grpc-java #9029, grpc-node #2077",
        limit: 100,
        meant: by(&["IC26"], 100),
    },
    Exhibit {
        bug: Bug::PlannedEndIsAnError,
        what: "watchers are notified of the end of a stream that had delivered a response",
        shipped: "grpc-java #11596",
        limit: 100,
        meant: by(&["IC27"], 100),
    },
    Exhibit {
        bug: Bug::QueuePerWatcher,
        what: "a slow watcher is notified of every change, one after the other",
        shipped: "none known; grpc #34099 is about reading on while watchers are behind",
        limit: 5_000,
        meant: by(&["IC35"], 5_000),
    },
    Exhibit {
        bug: Bug::HashOrder,
        what: "names are subscribed in another order in every run",
        shipped: "none known of a client; of a server istio #40930",
        limit: 100,
        meant: by(&["IC37"], 100),
    },
    Exhibit {
        bug: Bug::DeadlineInThePast,
        what: "a deadline that has passed is returned again",
        shipped: "none known; messages that spin are envoy #2169",
        limit: 100,
        meant: by(&["IC38"], 100),
    },
    Exhibit {
        bug: Bug::PanicOnUnknownType,
        what: "a response of an unknown type ends the process",
        shipped: "none known; quilkin has it",
        limit: 500,
        meant: by(&["IC36"], 500),
    },
];

/// Rule that found a bug, and the number of runs.
#[derive(Clone, Copy)]
struct Found {
    id: &'static str,
    sentence: &'static str,
    runs: u64,
}

/// Rule that repeating a run gives the same result, which one run alone cannot check, and the
/// number of runs that are repeated.
// IC37
const SAME: (&str, &str) = ("IC37", "the same inputs at the same times lead to the same outputs");
const TWICE: u64 = 200;

/// Returns the rule that the run of a seed breaks.
fn broken(seed: u64, config: &Config) -> Option<(&'static str, &'static str)> {
    let outcome = run_seed(seed, config);
    if let Some(failure) = outcome.violation {
        return Some((failure.violation.invariant, failure.violation.rule));
    }
    let is_same = seed >= TWICE || run_seed(seed, config).hash == outcome.hash;
    (!is_same).then_some(SAME)
}

/// Finds the first run in which the enabled bug breaks one of the rules searched for.
fn find(bug: Bug, limit: u64, is_looked_for: impl Fn(&str) -> bool) -> Option<Found> {
    let config = Config::default();
    (0..limit).find_map(|seed| {
        let (id, sentence) = broken(seed, &config).filter(|(id, _)| is_looked_for(id))?;
        // The run must not fail without the bug.
        activate(None);
        let is_sound = run_seed(seed, &config).violation.is_none();
        activate(Some(bug));
        is_sound.then_some(Found { id, sentence, runs: seed + 1 })
    })
}

impl Exhibit {
    /// Returns the first rule that finds the bug, and the first one that must find it.
    fn look_for(&self) -> Result<(Found, Found), String> {
        let Self { bug, limit, meant, .. } = self;
        let is_meant = |id: &str| meant.rules.contains(&id);
        activate(Some(*bug));
        let first = find(*bug, *limit, |_| true);
        // A run ends with its first broken rule, so other rules need other runs.
        let best = first.filter(|found| is_meant(found.id));
        let best = best.or_else(|| find(*bug, meant.limit, is_meant));
        activate(None);
        let first = first.ok_or_else(|| format!("{bug:?}: not found within {limit} runs"))?;
        let best = best.ok_or_else(|| {
            format!("{bug:?}: not by {} within {} runs", meant.rules.join(", "), meant.limit)
        })?;
        Ok((first, best))
    }

    /// Returns the bug's row of the page.
    fn row(&self, first: Found, best: Found) -> String {
        let Self { bug, what, shipped, limit, meant } = self;
        let Found { id, sentence, runs } = best;
        let (most, before) = match first.id == id {
            true => (*limit, "the same".into()),
            false => (meant.limit, format!("{}, {} of {limit}", first.id, first.runs)),
        };
        let number = bug.number();
        format!(
            "| {number} | {what} | {shipped} | {id}: {sentence} | {runs} of {most} | {before} |"
        )
    }
}

/// Head of the page, and the current page.
const HEAD: &str = include_str!("zoo.md");
const PAGE: &str = include_str!("../../../docs/BUG_ZOO.md");

#[test]
fn every_seeded_bug_is_found() {
    let is_written = env::var_os("XDS_SIM_ZOO").is_some();
    let only: Option<usize> = env::var("XDS_SIM_BUG").ok().and_then(|number| number.parse().ok());
    assert!(
        !is_written || only.is_none(),
        "the page has all bugs: XDS_SIM_ZOO without XDS_SIM_BUG"
    );
    let _bugs = lock_bugs();
    let mut table = String::new();
    let mut escaped = Vec::new();
    for (number, exhibit) in (1..).zip(&EXHIBITS) {
        let bug = exhibit.bug;
        assert_eq!(usize::from(bug.number()), number, "{bug:?}");
        if only.is_some_and(|only| only != number) {
            continue;
        }
        match exhibit.look_for() {
            Ok((first, best)) => {
                let row = exhibit.row(first, best);
                let is_told = PAGE.contains(&row);
                let news = if is_told { "" } else { "; XDS_SIM_ZOO=1 renews the page" };
                println!(
                    "{number:>2} {bug:?}: {} after {} runs, {} after {}{news}",
                    best.id, best.runs, first.id, first.runs
                );
                table += &row;
                table += "\n";
            }
            Err(what) => {
                println!("{number:>2} {what}");
                escaped.push(what);
            }
        }
    }
    assert!(escaped.is_empty(), "{escaped:#?}");
    if is_written {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/BUG_ZOO.md");
        fs::write(file, format!("{HEAD}{table}")).expect("the checkout can be written");
    }
}

/// Compares the page with this table. The number of runs changes with the code, so only the limit
/// is checked.
#[test]
fn bug_zoo_page_matches_the_table() {
    let (page, head) = (PAGE.replace("\r\n", "\n"), HEAD.replace("\r\n", "\n"));
    let rows = page.strip_prefix(&head).expect("the head of the page is that of zoo.md");
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(" | ").collect()).collect();
    assert_eq!(rows.len(), EXHIBITS.len(), "XDS_SIM_ZOO=1 writes the page anew");
    for (at, (row, exhibit)) in rows.iter().zip(&EXHIBITS).enumerate() {
        let [number, what, shipped, rule, runs, first] = row[..] else { panic!("{row:?}") };
        assert_eq!(number, format!("| {}", at + 1));
        assert_eq!((what, shipped), (exhibit.what, exhibit.shipped));
        let meant = &exhibit.meant;
        let id = rule.split_once(':').map(|(id, _)| id);
        assert!(id.is_some_and(|id| meant.rules.contains(&id)), "{what}: {rule}");
        let (most, is_first) = match first {
            "the same |" => (exhibit.limit, true),
            _ => (meant.limit, first.ends_with(&format!(" of {} |", exhibit.limit))),
        };
        let runs = runs.strip_suffix(&format!(" of {most}")).and_then(|it| it.parse().ok());
        assert!(runs.is_some_and(|runs: u64| runs <= most) && is_first, "{what}: XDS_SIM_ZOO=1");
        let names_an_issue = shipped.contains(" #") || shipped.starts_with("none known");
        assert!(names_an_issue, "{what}: {shipped:?} is nothing to look up");
    }
}
