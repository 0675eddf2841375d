//! What kind of run a seed leads to.
//!
//! A run does not do everything: each draws who takes part, and a subset of what can be done and of what
//! can go wrong ("swarm testing"). Runs that never delete anything find other bugs than runs that delete
//! all the time.

use std::{fmt, time::Duration};

use xds_core::{
    client::{DataErrorPolicy, ReadGate, Streams},
    service::Variant,
};

use crate::tape::Choices;

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident, $set:ident, $(#[$set_doc:meta])* {
        $($(#[$kind_doc:meta])* $kind:ident = $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$kind_doc])* $kind,)*
        }

        impl $name {
            /// All of them, the tamest first.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// It in a word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }
        }

        $(#[$set_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $set(u32);

        impl $set {
            /// None of them.
            pub const NONE: Self = Self(0);

            /// All of them.
            #[must_use]
            pub fn all() -> Self {
                $name::ALL.iter().copied().collect()
            }

            /// Whether it is among them.
            #[must_use]
            pub const fn contains(self, kind: $name) -> bool {
                self.0 & (1 << kind as u32) != 0
            }

            /// The same with one more.
            #[must_use]
            pub const fn with(self, kind: $name) -> Self {
                Self(self.0 | (1 << kind as u32))
            }

            /// The same with one less.
            #[must_use]
            pub const fn without(self, kind: $name) -> Self {
                Self(self.0 & !(1 << kind as u32))
            }

            /// Those that are among them, the tamest first.
            pub fn iter(self) -> impl Iterator<Item = $name> {
                $name::ALL.iter().copied().filter(move |kind| self.contains(*kind))
            }

            /// Half of them, by and large.
            fn draw(choices: &mut Choices) -> Self {
                $name::ALL
                    .iter()
                    .copied()
                    .filter(|kind| choices.below(kind.as_str(), 2) == 1)
                    .collect()
            }
        }

        impl FromIterator<$name> for $set {
            fn from_iter<I: IntoIterator<Item = $name>>(kinds: I) -> Self {
                kinds.into_iter().fold(Self::NONE, Self::with)
            }
        }

        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let words: Vec<&str> = self.iter().map($name::as_str).collect();
                write!(f, "{{{}}}", words.join(","))
            }
        }
    };
}

kinds! {
    /// What applications and operators may do in a run, beside watching one resource and setting one.
    Action, Actions,
    /// Which actions may happen in a run.
    {
        /// An application watches everything of a type.
        WatchAll = "watch-all",
        /// An application ends a watch.
        Unwatch = "unwatch",
        /// An application ends a watch and begins it anew in the same turn.
        WatchAgain = "watch-again",
        /// An operator deletes a resource.
        Delete = "delete",
        /// An operator sets a resource that clients find invalid.
        SetBad = "set-bad",
        /// An operator sets a resource back to what it was before.
        SetBack = "set-back",
        /// An operator changes many resources one after the other.
        Storm = "storm",
        /// An operator deletes everything of a type.
        Empty = "empty",
        /// A watcher takes its time with what it is told.
        SlowWatcher = "slow-watcher",
        /// A watcher begins or ends a watch in the middle of being told something.
        WatchWhenTold = "watch-when-told",
        /// An operator sets a resource that may be used for a time only, unless it is renewed.
        SetForAWhile = "set-for-a-while",
        /// An operator lets clients that name a resource be told an error.
        SetError = "set-error",
    }
}

kinds! {
    /// What a network, an operating system or a peer that keeps to the protocol may do.
    Fault, Faults,
    /// Which legal faults may happen in a run.
    {
        /// A message of the driver comes late: the core is not polled for a while.
        Starve = "starve",
        /// A core is told of the time although nothing is due.
        WakeForNothing = "wake-for-nothing",
        /// A stream is reset; what is under way on it is lost.
        Reset = "reset",
        /// A server ends a stream in good order.
        End = "end",
        /// Connections to a server are refused for a while.
        Refuse = "refuse",
        /// Connections to a server hang for a while.
        Hang = "hang",
        /// A stream goes silent: nothing arrives any more, until the transport gives up.
        HalfOpen = "half-open",
        /// The client's side of a stream takes no messages for a while.
        BlockRequests = "block-requests",
        /// The server's side of a stream takes no messages for a while.
        BlockResponses = "block-responses",
        /// A server starts anew: nonces, and what it knew of its clients, are lost.
        RestartServer = "restart-server",
        /// A client starts anew, with the same watches.
        RestartClient = "restart-client",
        /// A server does not get changes for a while.
        Lag = "lag",
        /// The network becomes slow for a while.
        Slow = "slow",
        /// A server ends every stream as soon as it is open, for a while.
        HangUp = "hang-up",
        /// A server ends its streams by plan, each after its answers, and then starts anew.
        GoAway = "go-away",
        /// A server that is polled answers with an error, or with something that is no response.
        BadAnswer = "bad-answer",
        /// A cache in front of a server that is polled answers with what it has from before.
        StaleAnswer = "stale-answer",
        /// A file is gone, written in part, or may not be read, for a while.
        BadFile = "bad-file",
        /// The next change of a file is noticed only when somebody looks at it anyway.
        LostEvent = "lost-event",
    }
}

kinds! {
    /// What no peer should do.
    Lie, Lies,
    /// Which lies may be told in a run.
    {
        /// A response comes with its end cut off.
        Truncate = "truncate",
        /// A byte of a response is another one.
        Flip = "flip",
        /// A response is of a type that nobody knows.
        UnknownType = "unknown-type",
        /// A response names a resource twice.
        Twice = "twice",
        /// A response has resources that nobody asked for, and contents that nobody set.
        Invent = "invent",
        /// A response comes twice, with the same nonce.
        Repeat = "repeat",
        /// A response has no nonce.
        NoNonce = "no-nonce",
        /// A response removes what exists.
        Remove = "remove",
        /// Somebody opens a stream to a server and sends garbage.
        HostileClient = "hostile-client",
    }
}

/// In which order things happen that are due at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// What arrives comes first.
    #[default]
    DeliveriesFirst,
    /// Timers come first.
    TimersFirst,
}

/// In which order servers send the types of a stream that carries several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// What is referred to goes before what refers to it.
    #[default]
    ByRank,
    /// As they become due.
    AsDue,
    /// What is referred to has to be accepted before what refers to it is sent; a cluster refers to the
    /// endpoints of its name. Where that takes too long, it is sent all the same.
    AfterAcks,
    /// The same, but what is rejected holds up the rest until it changes or goes.
    OnlyAfterAcks,
}

/// How clients and servers reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// By streams.
    #[default]
    Streams,
    /// Clients ask for each type again and again, as over REST.
    Polls,
    /// What a server has lies in files, one for each type, which clients read.
    Files,
}

/// Who has the last word on resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdicts {
    /// Their validation, at once.
    #[default]
    AtOnce,
    /// Somebody outside, who takes a moment.
    Soon,
    /// Somebody outside, who takes longer than resources are waited for.
    Late,
}

impl Verdicts {
    /// How long somebody outside takes with what is new in a response, if he is asked.
    #[must_use]
    pub const fn delay(self) -> Option<Duration> {
        match self {
            Self::AtOnce => None,
            Self::Soon => Some(Duration::from_millis(300)),
            Self::Late => Some(Duration::from_secs(16)),
        }
    }
}

/// Whose behaviour a client has where the field disagrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileName {
    /// gRPC's.
    #[default]
    Grpc,
    /// A proxy's.
    Envoy,
}

/// What kind of run it is. Printed as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How many clients.
    pub clients: u32,
    /// How many servers. The second one is the fallback of the first, the third answers for an authority
    /// of its own.
    pub servers: u32,
    /// The variant of the protocol.
    pub variant: Variant,
    /// Whether all types share a stream.
    pub streams: Streams,
    /// How many resource types, at most four: clusters, endpoints, listeners and routes.
    pub types: u32,
    /// How many resource names of each type.
    pub names: u32,
    /// Whose behaviour the clients have.
    pub profile: ProfileName,
    /// What data errors do to resources in use, where the profile is gRPC's.
    pub data_errors: DataErrorPolicy,
    /// Whether notices hold back reading.
    pub read_gate: ReadGate,
    /// How long a message is under way.
    pub latency: Duration,
    /// By how much some take longer.
    pub jitter: Duration,
    /// In which order things happen that are due at one instant.
    pub ties: Ties,
    /// Timers come at multiples of this only: how coarse the driver's clock is. Zero is exact.
    pub clock_grain: Duration,
    /// How many operations there are at most.
    pub operations: u32,
    /// In which order servers send types.
    pub order: Order,
    /// How clients and servers reach each other. Without streams there is the state-of-the-world variant
    /// only, a channel for each type, and nothing that needs more than responses: see
    /// [`fitting`](Self::fitting).
    pub transport: Transport,
    /// Who has the last word on resources.
    pub verdicts: Verdicts,
    /// What may be done.
    pub actions: Actions,
    /// What may go wrong.
    pub faults: Faults,
    /// Which lies may be told. A run with lies is judged by other rules: see [`oracle`](crate::oracle).
    pub lies: Lies,
}

/// One of each, and nothing goes wrong.
impl Default for Options {
    fn default() -> Self {
        Self {
            clients: 1,
            servers: 1,
            variant: Variant::StateOfTheWorld,
            streams: Streams::Aggregated,
            types: 4,
            names: 2,
            profile: ProfileName::Grpc,
            data_errors: DataErrorPolicy::KeepCached,
            read_gate: ReadGate::Notices,
            latency: Duration::from_millis(5),
            jitter: Duration::ZERO,
            ties: Ties::DeliveriesFirst,
            clock_grain: Duration::ZERO,
            operations: 0,
            order: Order::ByRank,
            transport: Transport::Streams,
            verdicts: Verdicts::AtOnce,
            actions: Actions::NONE,
            faults: Faults::NONE,
            lies: Lies::NONE,
        }
    }
}

/// Most runs have streams: most of what can go wrong does so there.
const TRANSPORTS: [Transport; 8] = {
    let mut transports = [Transport::Streams; 8];
    transports[6] = Transport::Polls;
    transports[7] = Transport::Files;
    transports
};

impl Options {
    /// What the run of a seed is like.
    #[must_use]
    pub fn draw(choices: &mut Choices) -> Self {
        let lies = choices.chance("lies", 125);
        let is_envoy = choices.chance("proxy", 200);
        let drawn = Self {
            clients: choices.pick("clients", &[1, 1, 1, 2, 2, 3]),
            servers: choices.pick("servers", &[1, 1, 1, 2, 2, 3]),
            variant: choices.pick("variant", &[Variant::StateOfTheWorld, Variant::Incremental]),
            streams: choices
                .pick("streams", &[Streams::Aggregated, Streams::Aggregated, Streams::PerType]),
            types: choices.between("types", 1, 4),
            names: choices.pick("names", &[1, 2, 3, 4, 6, 8]),
            profile: if is_envoy { ProfileName::Envoy } else { ProfileName::Grpc },
            data_errors: choices
                .pick("data errors", &[DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached]),
            read_gate: choices.pick("read gate", &[ReadGate::Notices, ReadGate::Off]),
            latency: Duration::from_millis(choices.pick("latency", &[5, 0, 1, 50, 300])),
            jitter: Duration::from_millis(choices.pick("jitter", &[0, 0, 1, 20, 2_000])),
            ties: choices.pick("ties", &[Ties::DeliveriesFirst, Ties::TimersFirst]),
            clock_grain: Duration::from_millis(choices.pick("clock grain", &[0, 0, 0, 10])),
            operations: choices.pick("operations", &[20, 5, 40, 80, 120]),
            order: choices.pick(
                "order of types",
                &[
                    Order::ByRank,
                    Order::ByRank,
                    Order::AsDue,
                    Order::AfterAcks,
                    Order::OnlyAfterAcks,
                ],
            ),
            actions: Actions::draw(choices),
            faults: Faults::draw(choices),
            lies: if lies { Lies::draw(choices) } else { Lies::NONE },
            transport: choices.pick("transport", &TRANSPORTS),
            verdicts: choices.pick(
                "verdicts",
                &[
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::AtOnce,
                    Verdicts::Soon,
                    Verdicts::Late,
                ],
            ),
        };
        drawn.fitting()
    }

    /// The same without what does not go together. Over polls and in files there are no other variants than the
    /// state of the world, no aggregated streams, no lies, and nothing that resources have beside their bytes.
    /// Where verdicts come late, nothing can last for a while only.
    #[must_use]
    pub fn fitting(mut self) -> Self {
        if self.verdicts == Verdicts::Late {
            // Types that share a stream wait for each other's verdicts, longer than anything may last.
            self.actions = self.actions.without(Action::SetForAWhile);
        }
        if self.transport == Transport::Streams {
            return self;
        }
        (self.variant, self.streams) = (Variant::StateOfTheWorld, Streams::PerType);
        self.lies = Lies::NONE;
        self.actions = self.actions.without(Action::SetForAWhile).without(Action::SetError);
        self
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self.variant {
            Variant::StateOfTheWorld => "sotw",
            Variant::Incremental => "delta",
        };
        write!(
            f,
            "clients={} servers={} variant={variant} streams={:?} types={} names={} profile={:?} \
             data_errors={:?} read_gate={:?} latency={:?} jitter={:?} ties={:?} clock_grain={:?} \
             operations={} order={:?} transport={:?} verdicts={:?} actions={} faults={} lies={}",
            self.clients,
            self.servers,
            self.streams,
            self.types,
            self.names,
            self.profile,
            self.data_errors,
            self.read_gate,
            self.latency,
            self.jitter,
            self.ties,
            self.clock_grain,
            self.operations,
            self.order,
            self.transport,
            self.verdicts,
            self.actions,
            self.faults,
            self.lies,
        )
    }
}
