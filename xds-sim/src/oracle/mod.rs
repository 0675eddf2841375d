//! Judges of a run: each knows a few rules and sees everything that happens.
//!
//! An [`Oracle`] is told each [`Event`] and may look at the whole [`World`]. It says what is wrong in a
//! [`Report`], and the run ends there. Oracles judge what can be seen from outside: messages, notices,
//! timers and the state that the cores show. They hold for any peer that keeps to the protocol, so they judge
//! a user's own application as they judge ours, and a user's own control plane but for what only ours does or shows
//! ([`ControlPlane`](crate::ControlPlane) lists that).
//!
//! | rules | judged by | where clients are lied to |
//! |---|---|---|
//! | IC1 to IC7, IC9 to IC12, IC30, IC40: what a client says on a stream | `client_talk` | no |
//! | IC3, IC8, IC13, IC18 to IC23, IC30, IC31, IC33: what a response makes of what a client holds, in gRPC's profile and where one server answers | `cache` | no |
//! | IC13 to IC16, IC27, IC28, IC32, IC35, IC39: what watchers are told | `watching` | no |
//! | IC32: what clients count | `figures` | no |
//! | IC14, IC20, IC28, IC32: that watchers hold what their client has | `holding` | no |
//! | IC34: what waits for watchers, and what does not | `busy` | yes, but for answers |
//! | IC33, IS27: how long resources last that may be used for a time only, in gRPC's profile | `expiry` | no |
//! | IC10, IC24 to IC27, IC29, IC31, IL5: connections, pauses, turning between servers | `trouble` | no |
//! | IC25, IC26: how long a client waits at most, in gRPC's profile and over one stream to one server | `punctual` | no |
//! | IC27, IC28: that watchers are told when their server fails and when it is well again, once each, in gRPC's profile and where one server answers | `reachability` | no |
//! | IC29: what a client may turn to the next server for, in gRPC's profile | `fallback` | no |
//! | IS1 to IS18, IS20, IS25 to IS30, IS33: what a server says on a stream, and that it holds nothing back for ever | `server_talk` | no |
//! | IC7, IS31: requests that stand for themselves, and their answers, over polls | `polling` | no |
//! | IS32: what becomes of those who read files | `reading` | no |
//! | IC13, IC17, IC36: what a client makes of lies, and of what cannot be read | `lies` | only |
//! | IC35, IS24: what is held is bounded | `bounds` | yes |
//! | IS4, IS19, IS21, IS22: who rejects or asks without end is not answered without end; who becomes another node, or asks for a type that nobody knows, is handled as configured; who asks for what a stream is not for is sent away | the strangers of a world | yes |
//! | IC29, IC39, IL1, IL2, IL7, IS23: how a run ends, also where all have to do without their first server | `convergence` | yes |
//! | IL3: what becomes of streams that went silent | `half_open` | yes |
//! | IC36, IC38: no panic, no busy loop | the world itself | yes |
//!
//! [`OTHERS`] are the rules that no oracle has to itself: they follow from others, are shown by comparing runs, or are
//! about what a world does not have. Of some, a world judges a part only: statuses and JSON of IS31 are the gateway's
//! (`xds-core/tests/server/fetches.rs`, `xds-rest/tests`), and when a file is whole its readers have to find out
//! (IS32: `xds-core/tests/client_files.rs`, `xds-fs/tests`, `xds-format`). Of IS18 it is what state-of-the-world clients
//! ask for after clusters; what incremental ones are sent unasked is tested in
//! `xds-core/tests/server/make_before_break`, and routes are not sent again for listeners (M154). That pauses and
//! deadlines go on while watchers are busy (IC34), but for the times in which a resource has to come, is shown by those
//! oracles that judge them, in runs with slow watchers as in all others. That what went silent is given up in time (IL3) is
//! the transport's to notice, here as in [`World::half_open`](crate::World::half_open), which is judged to be set right by
//! the cores; a real one is found out in `xds-tokio/tests/client.rs` (`a_frozen_server_is_found_out_by_keepalive`). By how
//! much servers spread the ends of streams (IS33) is tested in `xds-core/tests/server/lifecycle.rs`. How long a client waits
//! at most (IC26) has an upper bound only in gRPC's profile and over one stream to one server, and what a file says
//! is demanded to be used (IS32) only of that profile, one server and verdicts at once.
//!
//! Where something was to be rejected, the end of a storm puts good resources in the place of the bad ones before all have
//! to agree; for clients that refuse responses whole, and where servers wait for ACKs, it sets everything anew, for the
//! reasons below. So an update that is lost for ever in such a run may go unnoticed; in all others what was lost has to
//! come without being said again.
//!
//! Over polls and in files clients and servers are not judged as on streams (`client_talk`, `server_talk`), but by the
//! rules of these; all else is the same. Where verdicts come from outside, what is read is not used at once, and the
//! oracles that rely on that (`expiry`, and parts of `cache`, `trouble` and `reading`) are silent.
//!
//! Where resources have another name each ([`Action::WatchAlias`](crate::options::Action)), the oracles take both to be
//! names of one thing. They do not judge what is said of an alias that is given up, or that a client comes back with:
//! who has the resource may be told of it or not. That is judged by the model of
//! `xds-core/tests/server/aliases_model.rs` and by the scripts.
//!
//! Known limits that a run makes room for: a client that refuses responses whole is not told again of a
//! deletion that it refused, and not sent what was good beside a bad resource that was then deleted from a
//! type without removals (M107); one that was told an error of a resource that exists, and then
//! watches everything, is not sent it (M178); what has a time to live, and came beside something that was
//! rejected, is not renewed before it changes; where
//! responses are short, what goes along with a change since it was rejected does not fit into one with it, and what has
//! come since may come once more behind it, though it was accepted; a state-of-the-world client that was told an error of a resource is
//! not told in a way that it understands that this is then deleted; and a full state may be sent for the heartbeat
//! of a resource that its client is told an error of.

mod bounds;
mod busy;
mod cache;
mod client_talk;
mod convergence;
mod elsewhere;
mod expiry;
mod fallback;
mod figures;
mod fold;
mod half_open;
mod holding;
mod lies;
mod polling;
mod punctual;
mod reachability;
mod reading;
mod server_talk;
#[cfg(test)]
mod testing;
mod trouble;
mod watching;

use bytes::Bytes;
pub(crate) use convergence::bound;
pub use elsewhere::{OTHERS, Other, Shown};
pub(crate) use fold::Fold;
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

/// A rule that everybody has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its id in this project's list of requirements.
    pub id: &'static str,
    /// It in one sentence.
    pub sentence: &'static str,
}

impl Rule {
    /// A rule.
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

/// How a stream ended, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No connection could be made.
    Refused,
    /// The server or the network ended it.
    ByServer,
    /// The client ended it because nothing was wanted of it.
    ByClient,
    /// The client ended it for what the server sent.
    Fault,
}

/// Something that happened. Where not said otherwise, it has just been done.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A watch has begun.
    Watched {
        /// The client.
        client: usize,
        /// The watch.
        watch: WatchId,
        /// The type.
        kind: usize,
        /// The name; `None` watches everything.
        name: Option<&'a str>,
        /// Whether the client has no other watch for the same.
        is_first: bool,
    },
    /// A watch has ended.
    Unwatched {
        /// The client.
        client: usize,
        /// The watch.
        watch: WatchId,
    },
    /// A client is about to connect to a server.
    Opening {
        /// The stream to be.
        link: LinkId,
    },
    /// A stream is open.
    Opened {
        /// The stream.
        link: LinkId,
    },
    /// A client sends a request.
    Requested {
        /// The stream.
        link: LinkId,
        /// What it says.
        request: &'a Request,
    },
    /// A server is about to be handed a request.
    Arrived {
        /// The stream.
        link: LinkId,
        /// What it says.
        request: &'a Request,
    },
    /// A server sends a response.
    Responded {
        /// The stream.
        link: LinkId,
        /// What it says.
        response: &'a Response,
    },
    /// A client is about to be handed a response.
    Reading {
        /// The stream.
        link: LinkId,
        /// What it says.
        response: &'a Response,
    },
    /// A client is about to be handed what cannot be read as a response.
    ReadingGarbage {
        /// The stream.
        link: LinkId,
    },
    /// A client has been handed a response, and nothing was taken out of it yet.
    Read {
        /// The stream.
        link: LinkId,
        /// What it says, if it is one that a server sent.
        response: Option<&'a Response>,
    },
    /// A client that polls is told that there is nothing new.
    Unchanged {
        /// The channel.
        link: LinkId,
    },
    /// The gateway of a server gives a request up that the server did not answer for as long as it may wait.
    GivenUp {
        /// The channel.
        link: LinkId,
    },
    /// A client is about to be told that its file cannot be read.
    FindsUnreadable {
        /// The channel.
        link: LinkId,
    },
    /// A client has been told that its file cannot be read, and nothing was taken out of it yet.
    Unreadable {
        /// The channel.
        link: LinkId,
    },
    /// Nothing arrives any more on a stream, in one direction or both, and nobody knows yet.
    Silent {
        /// The stream.
        link: LinkId,
    },
    /// A client has seen the end of a stream, or has ended it.
    EndedAtClient {
        /// The stream.
        link: LinkId,
        /// How.
        end: End,
    },
    /// A server has seen the end of a stream, or has ended it.
    EndedAtServer {
        /// The stream.
        link: LinkId,
    },
    /// A watch is about to be told something.
    Notified {
        /// The client.
        client: usize,
        /// The watch.
        watch: WatchId,
        /// What.
        notice: &'a Notice,
    },
    /// A watch of everything is about to be told a change.
    Changed {
        /// The client.
        client: usize,
        /// The watch.
        watch: WatchId,
        /// What.
        change: &'a Change,
    },
    /// A watcher has said that it is done with what it was told.
    Handled {
        /// The client.
        client: usize,
        /// The watch.
        watch: WatchId,
    },
    /// A client was told that time has passed, and nothing was taken out of it yet.
    ClientWoken {
        /// The client.
        client: usize,
    },
    /// Everything was taken out of a client.
    ClientDrained {
        /// The client.
        client: usize,
    },
    /// Somebody asks a server to be told when all have accepted a change.
    Asked {
        /// The server.
        server: usize,
        /// The position of the view.
        view: usize,
        /// The type.
        kind: usize,
        /// The number of the change.
        sequence: u64,
    },
    /// A server says that all have.
    Converged {
        /// The server.
        server: usize,
        /// The position of the view.
        view: usize,
        /// The type.
        kind: usize,
        /// The number of the change.
        sequence: u64,
    },
    /// Everything was taken out of a server.
    ServerDrained {
        /// The server.
        server: usize,
    },
    /// A client has begun anew.
    ClientRestarted {
        /// The client.
        client: usize,
    },
    /// A client was shut down.
    ShutDown {
        /// The client.
        client: usize,
    },
    /// A server has begun anew, without resources.
    ServerRestarted {
        /// The server.
        server: usize,
    },
    /// What is true has changed, though no server knows yet.
    Stored {
        /// The type.
        kind: usize,
        /// The name.
        name: &'a str,
        /// The bytes; `None` if it is gone.
        bytes: Option<&'a Bytes>,
    },
    /// Servers are about to let a client see another view.
    Moved {
        /// The client.
        client: usize,
        /// The position of the view.
        view: usize,
    },
    /// A server is about to be told of a change.
    Applied {
        /// The server.
        server: usize,
        /// The position of the view.
        view: usize,
        /// The type.
        kind: usize,
        /// The name.
        name: &'a str,
        /// The bytes; `None` if it is gone.
        bytes: Option<&'a Bytes>,
    },
    /// The run goes on to its next part.
    Phase(Phase),
    /// Nobody has anything to do.
    Rest,
    /// The run is over.
    Ended,
}

/// What an oracle has to say.
#[derive(Debug, Default)]
pub struct Report {
    pub(crate) breach: Option<(Rule, String)>,
    pub(crate) situations: Vec<Situation>,
}

impl Report {
    /// Says that a rule is broken, and how. The first one counts.
    pub fn breach(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        if self.breach.is_none() {
            self.breach = Some((rule, what()));
        }
    }

    /// Says that a rule is broken unless `holds`.
    pub fn ensure(&mut self, holds: bool, rule: Rule, what: impl FnOnce() -> String) {
        if !holds {
            self.breach(rule, what);
        }
    }

    /// Says that the run has come to a situation.
    pub fn note(&mut self, situation: Situation) {
        self.situations.push(situation);
    }
}

/// A judge.
pub trait Oracle {
    /// The rules that it knows.
    fn rules(&self) -> &'static [Rule];

    /// Something happened.
    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report);
}

/// All judges that a run of this kind is to have.
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
                oracles.push(Box::new(client_talk::ClientTalk::default()));
                oracles.push(Box::new(server_talk::ServerTalk::default()));
            }
            Transport::Polls => oracles.push(Box::new(polling::Polling::default())),
            Transport::Files => oracles.push(Box::new(reading::Reading::default())),
        }
        oracles.push(Box::new(watching::Watching::default()));
        oracles.push(Box::new(figures::Figures::default()));
        oracles.push(Box::new(holding::Holding::default()));
        if options.transport != Transport::Files {
            oracles.push(Box::new(cache::CacheModel::default()));
        }
        if options.verdicts == Verdicts::AtOnce {
            // Otherwise a resource is not used as soon as it was read.
            oracles.push(Box::new(expiry::Expiry::default()));
        }
        oracles.push(Box::new(fallback::Fallback::default()));
        oracles.push(Box::new(trouble::Trouble::default()));
        if let Some(punctual) = punctual::Punctual::of(options) {
            oracles.push(Box::new(punctual));
        }
        if reachability::Reachability::applies(options) {
            oracles.push(Box::new(reachability::Reachability::default()));
        }
    } else {
        oracles.push(Box::new(lies::Lied::default()));
    }
    // That not all agree in the end follows from much else, which says more of what is wrong.
    oracles.push(Box::new(convergence::Convergence::default()));
    oracles
}
