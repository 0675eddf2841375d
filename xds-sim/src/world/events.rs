//! Events of a world, the rules that apply to them, and the interface of oracles.

use bytes::Bytes;
use xds_core::{
    WatchId,
    client::{Change, Notice},
};

use super::{
    LinkId, World,
    message::{Request, Response},
};
use crate::{situations::Situation, trace::Phase};

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
pub(crate) const APPLICATION: Rule =
    Rule::new("application", "after all faults are repaired, an application has the current state");
pub(crate) const HONEST_TIMEOUTS: Rule =
    Rule::new("IC38", "handling a timeout makes progress: nothing stays due forever");

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
    /// Rules whose violation counts; `None` for all.
    pub(crate) judged: Option<Vec<Rule>>,
}

impl Report {
    /// Reports a broken rule and a description. Only the first report counts.
    pub fn breach(&mut self, rule: Rule, what: impl FnOnce() -> String) {
        let is_judged = self.judged.as_ref().is_none_or(|rules| rules.contains(&rule));
        if self.breach.is_none() && is_judged {
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
