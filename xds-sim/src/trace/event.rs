//! Data types of a trace.

use std::fmt;

use xds_core::Time;

/// Events of one run, and the violation if there was one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Inputs that the run was made from.
    pub header: Header,
    /// Participants of the run, in the order of their first event.
    pub lanes: Vec<Participant>,
    /// Recorded events, oldest first. Their numbers have no gaps. The first number is above zero if
    /// older events were dropped.
    pub events: Vec<TraceEvent>,
    /// Rule that was broken, if there was one.
    pub violation: Option<Violation>,
}

/// Inputs of a run: everything needed to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Seed, if the run was made from one.
    pub seed: Option<u64>,
    /// Choices of the run as text, if they are needed to replay it.
    pub tape: Option<String>,
    /// Options of the run, one per line.
    pub options: Vec<String>,
    /// Version of this crate.
    pub sim: &'static str,
    /// Version of the cores.
    pub core: &'static str,
    /// Hash of all events of the run, including dropped ones.
    pub hash: u64,
}

impl Header {
    /// Creates the header of a run, with the versions of this build.
    #[must_use]
    pub fn new(seed: Option<u64>, options: Vec<String>) -> Self {
        // All crates of this workspace share one version.
        let version = env!("CARGO_PKG_VERSION");
        Self { seed, tape: None, options, sim: version, core: version, hash: 0 }
    }
}

/// A participant of a run, which is a column of a diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Kind of the participant.
    pub kind: ParticipantKind,
    /// Name of the participant.
    pub name: String,
    /// Owner: the client of a watcher, or the server of a store.
    pub owner: Option<ParticipantId>,
}

/// Kind of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParticipantKind {
    /// A client.
    Client,
    /// A management server.
    Server,
    /// The receiver of a watch's notifications.
    Watcher,
    /// The resource store of a management server.
    Store,
}

impl ParticipantKind {
    /// Name in one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Watcher => "watcher",
            Self::Store => "store",
        }
    }
}

/// Index of a participant in [`Trace::lanes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParticipantId(pub u32);

/// Identifier of one message, unique in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Virtual time of the event.
    pub at: Time,
    /// Number of the event in the run, starting at zero.
    pub number: u64,
    /// Content of the event.
    pub kind: TraceKind,
}

/// Content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A message is sent.
    Send {
        /// Message.
        message: MessageId,
        /// Sender.
        from: ParticipantId,
        /// Receiver.
        to: ParticipantId,
        /// Content.
        what: Description,
    },
    /// A message arrives.
    Deliver {
        /// Message.
        message: MessageId,
    },
    /// A message is lost.
    Lost {
        /// Message.
        message: MessageId,
        /// Reason.
        why: &'static str,
    },
    /// An event at one participant.
    Local {
        /// Participant.
        lane: ParticipantId,
        /// Content.
        what: Description,
    },
    /// A fault begins, ends, or occurs.
    Fault {
        /// Participants affected.
        lanes: Vec<ParticipantId>,
        /// Description.
        what: String,
        /// Whether the fault lasts. An end refers to the newest beginning with equal lanes and
        /// text.
        extent: Extent,
    },
    /// The next phase of the run begins.
    Phase(Phase),
}

/// Content of a message or of an event at one participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Category.
    pub kind: EventKind,
    /// Description in one line.
    pub text: String,
    /// Names of the resources concerned, for searching.
    pub names: Vec<String>,
}

impl Description {
    /// Creates content that concerns no resource.
    #[must_use]
    pub fn new(kind: EventKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), names: Vec::new() }
    }

    /// Adds the names of resources.
    #[must_use]
    pub fn about(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }
}

/// Categories of events. Diagrams show them in different colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A client subscribes, unsubscribes or sends its node.
    Request,
    /// A client sends an ACK.
    Ack,
    /// A client sends a NACK.
    Nack,
    /// A server sends resources.
    Response,
    /// A server removes resources and sends nothing else.
    Removal,
    /// A server reports errors of single resources.
    ResourceError,
    /// A transport opens, fails or ends.
    Transport,
    /// An application begins or ends a watch.
    Watch,
    /// A watcher receives a notice.
    Notice,
    /// The resources of a server change.
    Store,
    /// A timer fires.
    Timer,
    /// Any other event.
    Note,
}

impl EventKind {
    /// All categories, in the order of a legend.
    pub const ALL: [Self; 12] = [
        Self::Request,
        Self::Ack,
        Self::Nack,
        Self::Response,
        Self::Removal,
        Self::ResourceError,
        Self::Transport,
        Self::Watch,
        Self::Notice,
        Self::Store,
        Self::Timer,
        Self::Note,
    ];

    /// Name in one word, for machines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Response => "response",
            Self::Removal => "removal",
            Self::ResourceError => "resource_error",
            Self::Transport => "transport",
            Self::Watch => "watch",
            Self::Notice => "notice",
            Self::Store => "store",
            Self::Timer => "timer",
            Self::Note => "note",
        }
    }
}

/// Duration of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Beginning of a fault that lasts until its end is recorded, or until the end of the run.
    Begins,
    /// End of a fault.
    Ends,
    /// A fault without duration.
    Instant,
}

/// Phases of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Initial connections and resources, without failures.
    WarmUp,
    /// Faults and lies occur.
    Faults,
    /// All faults are repaired.
    Heal,
    /// Clients and servers must agree within a time limit.
    Converge,
    /// All watches end, and no state may remain.
    Teardown,
}

impl Phase {
    /// Name in a word or two.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Faults => "faults",
            Self::Heal => "heal",
            Self::Converge => "converge",
            Self::Teardown => "teardown",
        }
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Identifier of the rule, as printed in reports.
    pub invariant: &'static str,
    /// The rule in one sentence.
    pub rule: &'static str,
    /// Description of the violation.
    pub what: String,
    /// Virtual time at which it was detected.
    pub at: Time,
    /// Number of the event after which it was detected.
    pub number: u64,
}
