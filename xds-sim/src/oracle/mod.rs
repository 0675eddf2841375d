//! Oracles: checkers of the protocol rules during a run.
//!
//! An [`Oracle`] receives each [`Event`] and can inspect the whole [`World`]. It reports a broken
//! rule in a [`Report`], which ends the run. Oracles check observable behaviour: messages, notices,
//! timers, and the state that the cores expose. The rules apply to any peer that conforms to the
//! protocol, so they also apply to user-defined applications, and to user-defined control planes
//! with the exceptions listed in [`ControlPlane`](crate::ControlPlane).
//!
//! | checked | oracle | in runs with lies to clients |
//! |---|---|---|
//! | requests of a client on a stream | `client_talk` | no |
//! | effect of a response on a client's resources, in the gRPC profile and if one server serves the name | `cache` | no |
//! | notices of watchers | `watching` | no |
//! | counters of clients | `figures` | no |
//! | agreement of watchers with their client | `holding` | no |
//! | flow control: reading waits for busy watchers, and nothing else does | `busy` | yes, except ACKs |
//! | TTLs, in the gRPC profile | `expiry` | no |
//! | connections, backoff, does-not-exist timers, fallback | `trouble` | no |
//! | upper bounds of backoff and does-not-exist timers, in the gRPC profile with one aggregated stream and one server | `punctual` | no |
//! | notifications of a server's failure and recovery, once each, in the gRPC profile with one server | `reachability` | no |
//! | reasons for fallback, in the gRPC profile | `fallback` | no |
//! | responses of a server on a stream, including that nothing is withheld forever | `server_talk` | no |
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
//! - Files: readers decide when a file is complete (`xds-core/tests/client_files.rs`,
//!   `xds-fs/tests`, `xds-format`). That a file's contents are used is checked only in the gRPC
//!   profile with one server and without external verdicts.
//! - Unchanged endpoints of changed clusters: checked for state-of-the-world clients, which request
//!   them. Incremental clients are sent them without a request, which is tested in
//!   `xds-core/tests/server/make_before_break`. Routes are not sent again for listeners.
//! - Busy watchers do not delay backoff and other deadlines, except the does-not-exist timer. The
//!   oracles of these deadlines check this in runs with slow watchers.
//! - Half-open streams: the transport must detect them, in the simulation
//!   [`World::half_open`](crate::World::half_open). Oracles check the recovery by the cores. A real
//!   transport is tested in `xds-tokio/tests/client.rs`
//!   (`a_frozen_server_is_found_out_by_keepalive`).
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
//! - Polled channels and files are checked by `polling` and `reading` instead of `client_talk` and
//!   `server_talk`; the other oracles are the same.
//! - With external verdicts, responses are not used at once. `expiry`, and parts of `cache`,
//!   `trouble` and `reading`, do not check such runs.
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
// - client_talk: IC1 to IC7, IC9 to IC12, IC30, IC40
// - cache: IC3, IC8, IC13, IC18 to IC23, IC30, IC31, IC33
// - watching: IC13 to IC16, IC27, IC28, IC32, IC35, IC39
// - figures: IC32
// - holding: IC14, IC20, IC28, IC32
// - busy: IC34
// - expiry: IC33, IS27
// - trouble: IC10, IC24 to IC27, IC29, IC31, IL5
// - punctual: IC25, IC26
// - reachability: IC27, IC28
// - fallback: IC29
// - server_talk: IS1 to IS18, IS20, IS25 to IS30, IS33
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
mod client_talk;
mod convergence;
mod elsewhere;
mod expiry;
mod fallback;
mod figures;
mod half_open;
mod holding;
mod lies;
mod polling;
mod punctual;
mod reachability;
mod reading;
mod server_talk;
mod subscription;
#[cfg(test)]
mod testing;
mod trouble;
mod watching;

use bytes::Bytes;
pub(crate) use convergence::bound;
pub use elsewhere::{RULES_WITHOUT_ORACLE, RuleWithoutOracle, TestedBy};
pub(crate) use subscription::SubscriptionState;
use xds_core::{
    WatchId,
    client::{Change, Notice},
};

use crate::{
    options::{Options, Transport, Verdicts},
    situations::Situation,
    trace::Phase,
    world::{
        LinkId, World,
        message::{Request, Response},
    },
};

/// A rule of the protocol or of this project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Identifier in this project's list of requirements, or a user-defined one.
    pub id: &'static str,
    /// Rule in one sentence.
    pub sentence: &'static str,
}

impl Rule {
    /// Creates a rule.
    #[must_use]
    pub const fn new(id: &'static str, sentence: &'static str) -> Self {
        Self { id, sentence }
    }
}

pub(crate) const NO_PANIC: Rule =
    Rule::new("IC36", "no input makes a state machine or an application panic");
pub(crate) const APPLICATION: Rule = Rule::new(
    "application",
    "once everything works again, an application has come to the right view",
);
pub(crate) const HONEST_TIMEOUTS: Rule =
    Rule::new("IC38", "handling what is due makes progress: nothing is due for ever");

/// Cause of a stream's end, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The connection failed.
    Refused,
    /// The server or the network ended the stream.
    ByServer,
    /// The client ended the stream because it had no subscriptions.
    ByClient,
    /// The client ended the stream because of a response.
    Fault,
}

/// Event in a run. Unless stated otherwise, it has just happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A watch began.
    Watched {
        /// Index of the client.
        client: usize,
        /// Watch.
        watch: WatchId,
        /// Index of the type.
        kind: usize,
        /// Name; `None` is the wildcard.
        name: Option<&'a str>,
        /// Whether it is the client's only watch of this name or wildcard.
        is_first: bool,
    },
    /// A watch ended.
    Unwatched {
        /// Index of the client.
        client: usize,
        /// Watch.
        watch: WatchId,
    },
    /// A client is about to connect to a server.
    Opening {
        /// New channel.
        link: LinkId,
    },
    /// A stream opened.
    Opened {
        /// Channel.
        link: LinkId,
    },
    /// A client sent a request.
    Requested {
        /// Channel.
        link: LinkId,
        /// Content.
        request: &'a Request,
    },
    /// A server is about to receive a request.
    Arrived {
        /// Channel.
        link: LinkId,
        /// Content.
        request: &'a Request,
    },
    /// A server sent a response.
    Responded {
        /// Channel.
        link: LinkId,
        /// Content.
        response: &'a Response,
    },
    /// A client is about to receive a response.
    Reading {
        /// Channel.
        link: LinkId,
        /// Content.
        response: &'a Response,
    },
    /// A client is about to receive an undecodable response.
    ReadingGarbage {
        /// Channel.
        link: LinkId,
    },
    /// A client received a response, and has not been drained yet.
    Read {
        /// Channel.
        link: LinkId,
        /// Content, if the server sent it.
        response: Option<&'a Response>,
    },
    /// A polling client received the answer that nothing has changed.
    Unchanged {
        /// Channel.
        link: LinkId,
    },
    /// A server's gateway stopped waiting for the answer to a request.
    GivenUp {
        /// Channel.
        link: LinkId,
    },
    /// A client is about to be notified that its file cannot be read.
    FindsUnreadable {
        /// Channel.
        link: LinkId,
    },
    /// A client was notified that its file cannot be read, and has not been drained yet.
    Unreadable {
        /// Channel.
        link: LinkId,
    },
    /// A stream became silent in one direction or both, and neither side has detected it.
    Silent {
        /// Channel.
        link: LinkId,
    },
    /// A client saw the end of a stream, or ended it.
    EndedAtClient {
        /// Channel.
        link: LinkId,
        /// Cause.
        end: StreamEnd,
    },
    /// A server saw the end of a stream, or ended it.
    EndedAtServer {
        /// Channel.
        link: LinkId,
    },
    /// A watch is about to receive a notice.
    Notified {
        /// Index of the client.
        client: usize,
        /// Watch.
        watch: WatchId,
        /// Notice.
        notice: &'a Notice,
    },
    /// A wildcard or glob watch is about to receive a change.
    Changed {
        /// Index of the client.
        client: usize,
        /// Watch.
        watch: WatchId,
        /// Change.
        change: &'a Change,
    },
    /// A watcher finished its notices.
    Handled {
        /// Index of the client.
        client: usize,
        /// Watch.
        watch: WatchId,
    },
    /// A client's timeout handler was called, and the client has not been drained yet.
    ClientWoken {
        /// Index of the client.
        client: usize,
    },
    /// All outputs of a client were drained.
    ClientDrained {
        /// Index of the client.
        client: usize,
    },
    /// An operator asked a server to report when all clients have accepted a change.
    Asked {
        /// Index of the server.
        server: usize,
        /// Index of the view.
        view: usize,
        /// Index of the type.
        kind: usize,
        /// Sequence number of the change.
        sequence: u64,
    },
    /// A server reported that all clients have accepted a change.
    Converged {
        /// Index of the server.
        server: usize,
        /// Index of the view.
        view: usize,
        /// Index of the type.
        kind: usize,
        /// Sequence number of the change.
        sequence: u64,
    },
    /// All outputs of a server were drained.
    ServerDrained {
        /// Index of the server.
        server: usize,
    },
    /// A client restarted.
    ClientRestarted {
        /// Index of the client.
        client: usize,
    },
    /// A client was shut down.
    ShutDown {
        /// Index of the client.
        client: usize,
    },
    /// A server restarted without resources.
    ServerRestarted {
        /// Index of the server.
        server: usize,
    },
    /// An operator changed a resource that no server has received yet.
    Stored {
        /// Index of the type.
        kind: usize,
        /// Name.
        name: &'a str,
        /// Encoded resource; `None` if it was deleted.
        bytes: Option<&'a Bytes>,
    },
    /// A client is about to be moved to another view.
    Moved {
        /// Index of the client.
        client: usize,
        /// Index of the new view.
        view: usize,
    },
    /// A server is about to receive a change.
    Applied {
        /// Index of the server.
        server: usize,
        /// Index of the view.
        view: usize,
        /// Index of the type.
        kind: usize,
        /// Name.
        name: &'a str,
        /// Encoded resource; `None` if it was deleted.
        bytes: Option<&'a Bytes>,
    },
    /// The next phase of the run began.
    Phase(Phase),
    /// The world is at rest.
    Rest,
    /// The run ended.
    Ended,
}

/// Result of an oracle: a broken rule and the situations that it observed.
#[derive(Debug, Default)]
pub struct Report {
    pub(crate) breach: Option<(Rule, String)>,
    pub(crate) situations: Vec<Situation>,
}

impl Report {
    /// Reports a broken rule and a description. Only the first report counts.
    pub fn breach(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        if self.breach.is_none() {
            self.breach = Some((rule, what()));
        }
    }

    /// Reports a broken rule unless `holds` is true.
    pub fn ensure(&mut self, holds: bool, rule: Rule, what: impl FnOnce() -> String) {
        if !holds {
            self.breach(rule, what);
        }
    }

    /// Counts a situation that the run has reached.
    pub fn note(&mut self, situation: Situation) {
        self.situations.push(situation);
    }
}

/// Checker of rules during a run.
pub trait Oracle {
    /// Rules that the oracle checks.
    fn rules(&self) -> &'static [Rule];

    /// Called for each event.
    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report);
}

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
                oracles.push(Box::new(client_talk::ClientRequests::default()));
                oracles.push(Box::new(server_talk::ServerResponses::default()));
            }
            Transport::Polls => oracles.push(Box::new(polling::Polling::default())),
            Transport::Files => oracles.push(Box::new(reading::Reading::default())),
        }
        oracles.push(Box::new(watching::Watching::default()));
        oracles.push(Box::new(figures::CounterAgreement::default()));
        oracles.push(Box::new(holding::Holding::default()));
        if options.transport != Transport::Files {
            oracles.push(Box::new(cache::CacheModel::default()));
        }
        if options.verdicts == Verdicts::AtOnce {
            // With external verdicts, a resource is not used as soon as it is read.
            oracles.push(Box::new(expiry::Expiry::default()));
        }
        oracles.push(Box::new(fallback::Fallback::default()));
        oracles.push(Box::new(trouble::Connections::default()));
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
