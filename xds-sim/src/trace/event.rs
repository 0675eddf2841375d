//! The parts of a trace.

use std::fmt;

use xds_core::Time;

/// What happened in one run, and where it went wrong if it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What the run was made from.
    pub header: Header,
    /// Everybody to whom something happened, in the order of first appearance.
    pub lanes: Vec<Lane>,
    /// The events that were kept, oldest first. Their numbers have no gaps; the first is above zero if
    /// older ones were let go.
    pub events: Vec<TraceEvent>,
    /// The rule that was broken, if one was.
    pub violation: Option<Violation>,
}

/// What a run was made from: all that is needed to have it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The seed, if the run was made from one.
    pub seed: Option<u64>,
    /// The choices of the run as text, if they are to be replayed from there.
    pub tape: Option<String>,
    /// The options of the run, a line each.
    pub options: Vec<String>,
    /// The version of this crate.
    pub sim: &'static str,
    /// The version of the cores.
    pub core: &'static str,
    /// The hash over every event of the run, kept or not.
    pub hash: u64,
}

impl Header {
    /// A header for a run from a seed, with the versions of this build.
    #[must_use]
    pub fn new(seed: Option<u64>, options: Vec<String>) -> Self {
        // All crates of this workspace share one version.
        let version = env!("CARGO_PKG_VERSION");
        Self { seed, tape: None, options, sim: version, core: version, hash: 0 }
    }
}

/// A participant of a run: in a picture, its line from the beginning to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// What it is.
    pub kind: LaneKind,
    /// What it is called.
    pub name: String,
    /// To whom it belongs: a watcher to its client, a store to its server.
    pub owner: Option<LaneId>,
}

/// What a participant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneKind {
    /// A client.
    Client,
    /// A management server.
    Server,
    /// Who is told about a watch.
    Watcher,
    /// What a management server has its resources from.
    Store,
}

impl LaneKind {
    /// The kind in one word.
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

/// A participant, by its position in [`Trace::lanes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u32);

/// One message, from its sending to its end. Never used twice in a run.
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
    /// When, in virtual time.
    pub at: Time,
    /// Its position among all events of the run, from zero.
    pub number: u64,
    /// What happened.
    pub kind: TraceKind,
}

/// What happened in one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// A message goes out.
    Send {
        /// The message.
        message: MessageId,
        /// Who sends it.
        from: LaneId,
        /// Whom it is for.
        to: LaneId,
        /// What it says.
        what: What,
    },
    /// A message arrives.
    Deliver {
        /// The message.
        message: MessageId,
    },
    /// A message will never arrive.
    Lost {
        /// The message.
        message: MessageId,
        /// What became of it.
        why: &'static str,
    },
    /// Something happens at one place.
    Local {
        /// Where.
        lane: LaneId,
        /// What.
        what: What,
    },
    /// The world misbehaves.
    Fault {
        /// Who notices.
        lanes: Vec<LaneId>,
        /// What is wrong.
        what: String,
        /// Whether it lasts. An end belongs to the newest beginning with equal lanes and text.
        extent: Extent,
    },
    /// The run goes on to its next part.
    Phase(Phase),
}

/// What a message says, or what happened at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct What {
    /// Which sort of thing it is.
    pub sort: Sort,
    /// It in one line.
    pub text: String,
    /// The resources that it is about, for finding them again.
    pub names: Vec<String>,
}

impl What {
    /// Something that is about no resource.
    #[must_use]
    pub fn new(sort: Sort, text: impl Into<String>) -> Self {
        Self { sort, text: text.into(), names: Vec::new() }
    }

    /// The same, about these resources.
    #[must_use]
    pub fn about(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }
}

/// The sorts of things that happen: pictures show them in different colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sort {
    /// A client subscribes, unsubscribes or introduces itself.
    Request,
    /// A client takes a response into use.
    Ack,
    /// A client rejects a response.
    Nack,
    /// A server sends resources.
    Response,
    /// A server says that resources are gone, and nothing else.
    Removal,
    /// A server reports errors of single resources.
    ResourceError,
    /// A transport opens, fails or ends.
    Transport,
    /// An application begins or ends a watch.
    Watch,
    /// A watcher is told something.
    Notice,
    /// What a server has to offer changes.
    Store,
    /// A deadline has come.
    Timer,
    /// Anything else.
    Note,
}

impl Sort {
    /// Every sort, in the order of a legend.
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

    /// The sort in a word, for machines.
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

/// Whether a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// It begins and goes on until its end is recorded, or to the end of the run.
    Begins,
    /// It ends.
    Ends,
    /// It happens and is over.
    Instant,
}

/// The parts of a run, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Everybody gets to know each other; nothing goes wrong.
    WarmUp,
    /// Things go wrong.
    Faults,
    /// What went wrong is put right.
    Heal,
    /// Everybody must come to the same view within a bound.
    Converge,
    /// Everybody leaves, and nothing may stay behind.
    Teardown,
}

impl Phase {
    /// The phase in a word or two.
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
    /// The id of the rule, such as `IC15`.
    pub invariant: &'static str,
    /// The rule in one sentence.
    pub rule: &'static str,
    /// What happened instead.
    pub what: String,
    /// When it was found out.
    pub at: Time,
    /// The number of the event after which it was found out.
    pub number: u64,
}
