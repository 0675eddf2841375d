//! Oracles: checkers of the protocol rules during a run.
//!
//! An [`Oracle`] receives each [`Event`] and can inspect the whole [`World`](crate::World). It reports a broken
//! rule in a [`Report`], which ends the run. Oracles check observable behaviour: messages, notices,
//! timers, and the state that the cores expose. The rules apply to any peer that conforms to the
//! protocol, so they also apply to user-defined applications, and to user-defined control planes
//! with the exceptions listed in [`ControlPlane`](crate::ControlPlane).
//!
//! | checked | oracle | in runs with lies to clients |
//! |---|---|---|
//! | requests of a client on a stream | `client_requests` | no |
//! | effect of a response on a client's resources, in the gRPC profile and if one server serves the name | `cache` | no |
//! | notices of watchers | `watching` | no |
//! | counters of clients | `counters` | no |
//! | agreement of watchers with their client | `holding` | no |
//! | flow control: reading waits for busy watchers, and nothing else does | `busy` | yes, except ACKs |
//! | TTLs, in the gRPC profile | `expiry` | no |
//! | connections, backoff, does-not-exist timers, fallback | `connections` | no |
//! | upper bounds of backoff and does-not-exist timers, in the gRPC profile with one aggregated stream and one server | `punctual` | no |
//! | notifications of a server's failure and recovery, once each, in the gRPC profile with one server | `reachability` | no |
//! | reasons for fallback, in the gRPC profile | `fallback` | no |
//! | responses of a server on a stream, including that nothing is withheld forever | `server_responses` | no |
//! | independent requests and their responses, over polls | `polling` | no |
//! | clients that read files | `reading` | no |
//! | effect of lies and of undecodable responses on a client | `lies` | only |
//! | limits of stored state | `bounds` | yes |
//! | treatment of rogue clients: endless NACKs and requests, changed nodes, unknown types, types that a stream does not serve | `World` | yes |
//! | the end of a run, also without the first server | `convergence` | yes |
//! | half-open streams | `half_open` | yes |
//! | no panics and no busy loops | `World` | yes |
//!
//! [`RULES_WITHOUT_ORACLE`] lists the rules without an oracle. They follow from other rules, are tested by
//! comparing runs, or concern what a world does not contain.
//!
//! # Rules that are checked in part
//!
//! - Polls: HTTP statuses and JSON belong to the gateway (`xds-core/tests/server/fetches.rs`,
//!   `xds-rest/tests`).
//! - Files: readers decide when a file is complete (`xds-core/tests/it/client_files.rs`,
//!   `xds-fs/tests`, `xds-format`). That a file's contents are used is checked only in the gRPC
//!   profile with one server and without external verdicts.
//! - Unchanged endpoints of changed clusters: checked for state-of-the-world clients, which request
//!   them. Incremental clients are sent them without a request, which is tested in
//!   `xds-core/tests/server/make_before_break`. Routes are not sent again for listeners.
//! - Busy watchers do not delay backoff and other deadlines, except the does-not-exist timer. The
//!   oracles of these deadlines check this in runs with slow watchers.
//! - Half-open streams: the transport must detect them, in the simulation
//!   [`World::half_open`](crate::World::half_open). Oracles check the recovery by the cores. A real
//!   transport is tested in `xds-tokio/tests/it/client.rs`
//!   (`keepalive_detects_a_server_that_stops_responding`).
//! - Draining: how a server spreads the ends of its streams is tested in
//!   `xds-core/tests/server/lifecycle.rs`.
//! - Does-not-exist timers have an upper bound only in the gRPC profile with one aggregated stream
//!   and one server.
//!
//! # Limits
//!
//! - If resources could be rejected, a storm replaces the invalid ones with valid ones before the
//!   participants must agree. If clients reject whole responses, or servers wait for ACKs without a
//!   timeout, it sets all resources again. An update that is lost forever may go unnoticed in such
//!   a run. In all others, lost updates must arrive without a new change.
//! - Polled channels and files are checked by `polling` and `reading` instead of `client_requests` and
//!   `server_responses`; the other oracles are the same.
//! - With external verdicts, responses are not used at once. `expiry`, and parts of `cache`,
//!   `connections` and `reading`, do not check such runs.
//! - With aliases ([`Action::WatchAlias`](crate::options::Action)), oracles treat both names as one
//!   resource. They do not check responses about an alias that is unsubscribed, or that a returning
//!   client subscribes again. A model in `xds-core/tests/server/aliases_model.rs` and scripts test
//!   this.
//!
//! Oracles permit these known limitations:
//!
//! - A client that rejects whole responses is not sent a rejected removal again. It is not sent a
//!   valid resource that was rejected together with an invalid one, if the invalid one was then
//!   deleted from a type without removals.
//! - A client that received an error of an existing resource, and then subscribes to the wildcard,
//!   is not sent the resource.
//! - A resource with a TTL that was rejected together with others is not renewed until it changes.
//! - With short responses, rejected resources that do not fit into one response with a change
//!   follow in another one. Resources sent in between may be sent again, although they were
//!   accepted.
//! - A state-of-the-world client that received an error of a resource is not notified of its later
//!   deletion in a way that it understands.
//! - A full state may be sent for the heartbeat of a resource whose client receives an error
//!   instead.

// Rules by oracle:
// - client_requests: IC1 to IC7, IC9 to IC12, IC30, IC40
// - cache: IC3, IC8, IC13, IC18 to IC23, IC30, IC31, IC33
// - watching: IC13 to IC16, IC27, IC28, IC32, IC35, IC39
// - counters: IC32
// - holding: IC14, IC20, IC28, IC32
// - busy: IC34
// - expiry: IC33, IS27
// - connections: IC10, IC24 to IC27, IC29, IC31, IL5
// - punctual: IC25, IC26
// - reachability: IC27, IC28
// - fallback: IC29
// - server_responses: IS1 to IS18, IS20, IS25 to IS30, IS33
// - polling: IC7, IS31
// - reading: IS32
// - lies: IC13, IC17, IC36
// - bounds: IC35, IS24
// - rogue clients (World): IS4, IS19, IS21, IS22
// - convergence: IC29, IC39, IL1, IL2, IL7, IS23
// - half_open: IL3
// - World: IC36, IC38
//
// In part: IS31 (polls), IS32 (files), IS18 and M154 (endpoints, routes), IC34 (busy watchers), IL3
// (half-open), IS33 (draining), IC26 (timers). Limitations: M107, M178.
mod bounds;
mod busy;
mod cache;
mod client_requests;
mod connections;
mod convergence;
mod counters;
mod expiry;
mod fallback;
mod half_open;
mod holding;
mod lies;
#[cfg(feature = "stack")]
pub(crate) mod on_the_wire;
mod polled_version;
mod polling;
mod punctual;
mod reachability;
mod reading;
mod server_responses;
#[cfg(test)]
mod testing;
mod watched_names;
mod watching;
mod without_oracle;

pub(crate) use self::convergence::bound;
pub use self::without_oracle::{RULES_WITHOUT_ORACLE, RuleWithoutOracle, TestedBy};
use crate::options::{Options, Transport, Verdicts};
pub use crate::world::events::{Event, Oracle, Report, Rule, StreamEnd};

/// Returns this project's oracles for a run with these options.
#[must_use]
pub fn all(options: &Options) -> Vec<Box<dyn Oracle>> {
    let mut oracles: Vec<Box<dyn Oracle>> = vec![Box::new(bounds::Bounds::default())];
    if half_open::HalfOpen::applies(options) {
        oracles.push(Box::new(half_open::HalfOpen::default()));
    }
    if busy::Busy::applies(options) {
        oracles.push(Box::new(busy::Busy::default()));
    }
    if options.lies.spare_clients() {
        match options.transport {
            Transport::Streams => {
                oracles.push(Box::new(client_requests::ClientRequests::default()));
                oracles.push(Box::new(server_responses::ServerResponses::default()));
            }
            Transport::Polls => oracles.push(Box::new(polling::Polling::default())),
            Transport::Files => oracles.push(Box::new(reading::FileReading::default())),
        }
        oracles.push(Box::new(watching::Watching::default()));
        oracles.push(Box::new(counters::CounterAgreement::default()));
        oracles.push(Box::new(holding::Holding::default()));
        if options.transport != Transport::Files {
            oracles.push(Box::new(cache::CacheModel::default()));
        }
        if options.verdicts == Verdicts::AtOnce {
            // With external verdicts, a resource is not used as soon as it is read.
            oracles.push(Box::new(expiry::Expiry::default()));
        }
        oracles.push(Box::new(fallback::Fallback::default()));
        oracles.push(Box::new(connections::Connections::default()));
        if let Some(punctual) = punctual::Punctual::of(options) {
            oracles.push(Box::new(punctual));
        }
        if reachability::Reachability::applies(options) {
            oracles.push(Box::new(reachability::Reachability::default()));
        }
    } else {
        oracles.push(Box::new(lies::LieEffects::default()));
    }
    // Last, because other oracles describe the cause of a missing agreement better.
    oracles.push(Box::new(convergence::Convergence::default()));
    oracles
}
