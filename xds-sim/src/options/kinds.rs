//! Actions, features, faults and lies that the options of a run select.

use std::fmt;

use crate::tape::Choices;

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident, $set:ident, $(#[$set_doc:meta])* {
        $($(#[doc = $meaning:literal])* $kind:ident = $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[doc = $meaning])* $kind,)*
        }

        impl $name {
            /// All values, the least disruptive first.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Name in one word, as in the options line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }

            /// Description in a sentence or two.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                let text = match self {
                    $(Self::$kind => concat!($($meaning),*),)*
                };
                text.trim()
            }
        }

        $(#[$set_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $set(u64);

        impl $set {
            /// The empty set.
            pub const NONE: Self = Self(0);

            /// The set of all values.
            #[must_use]
            pub fn all() -> Self {
                $name::ALL.iter().copied().collect()
            }

            /// Whether the set contains `kind`.
            #[must_use]
            pub const fn contains(self, kind: $name) -> bool {
                self.0 & (1 << kind as u32) != 0
            }

            /// Returns the set with `kind` added.
            #[must_use]
            pub const fn with(self, kind: $name) -> Self {
                Self(self.0 | (1 << kind as u32))
            }

            /// Returns the set with `kind` removed.
            #[must_use]
            pub const fn without(self, kind: $name) -> Self {
                Self(self.0 & !(1 << kind as u32))
            }

            /// Iterates over the members, the least disruptive first.
            pub fn iter(self) -> impl Iterator<Item = $name> {
                $name::ALL.iter().copied().filter(move |kind| self.contains(*kind))
            }

            /// Draws a set with about half of all values.
            pub(super) fn draw(choices: &mut Choices) -> Self {
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
    /// Operations of applications and operators, besides watching and setting one resource.
    Action, Actions,
    /// Set of [`Action`]s that may occur in a run.
    {
        /// An application watches all resources of a type (wildcard).
        WatchAll = "watch-all",
        /// An application ends a watch.
        Unwatch = "unwatch",
        /// An application ends a watch and starts it again before the driver polls the client.
        WatchAgain = "watch-again",
        /// An operator deletes a resource.
        Delete = "delete",
        /// An operator sets a resource that clients reject: by validation, or by the external
        /// verdict if the run has external verdicts.
        SetBad = "set-bad",
        /// An operator restores the previous content of a resource.
        SetBack = "set-back",
        /// An operator changes many resources one after the other.
        Storm = "storm",
        /// An operator deletes all resources of a type.
        Empty = "empty",
        /// A watcher delays finishing its notices.
        SlowWatcher = "slow-watcher",
        /// A watcher starts or ends a watch while it handles a notice.
        WatchInNotice = "watch-when-told",
        /// An operator sets a resource with a TTL.
        SetWithTtl = "set-for-a-while",
        /// An operator makes the server report an error to clients that name a resource.
        SetError = "set-error",
        /// An operator assigns a client to another view while its streams are open.
        Move = "move",
        /// An application watches a glob.
        WatchGlob = "watch-glob",
        /// An application watches many names at once, most of which do not exist.
        WatchMany = "watch-many",
        /// An application watches a resource by its alias. Each resource has one.
        WatchAlias = "watch-alias",
        /// An operator sets a resource that clients accept only from a trusted server.
        SetPrivileged = "set-privileged",
    }
}

kinds! {
    /// Non-default capabilities and configuration of clients and servers.
    Feature, Features,
    /// Set of [`Feature`]s of the clients and servers of a run.
    {
        /// Clients are configured to drop resources that their servers report as invalid or
        /// deleted.
        FailOnDataErrors = "fail-on-data-errors",
        /// Clients are configured to treat a missing resource as a transient server error.
        TransientTimer = "transient-timer",
        /// Clients are configured to ignore deletions; the setting has no effect any more.
        IgnoreDeletion = "ignore-deletion",
        /// Clients do not declare support for TTLs.
        WithoutTtl = "without-ttl",
        /// State-of-the-world clients do not declare support for `Resource` wrappers.
        WithoutWrappers = "without-wrappers",
        /// Clients are configured with `trusted_xds_server`.
        TrustedServer = "trusted-server",
        /// Servers end streams whose client changes its node or requests an unknown type.
        StrictServer = "strict-server",
    }
}

kinds! {
    /// Failures of a network, an operating system or a peer that conform to the protocol.
    Fault, Faults,
    /// Set of [`Fault`]s that may occur in a run.
    {
        /// The driver does not poll the core for a while.
        Suspend = "starve",
        /// The driver calls a core's timeout handler although no timer is due.
        WakeForNothing = "wake-for-nothing",
        /// A stream is reset; messages in flight on it are lost.
        Reset = "reset",
        /// A server ends a stream with status OK.
        End = "end",
        /// Connections to a server are refused for a while.
        Refuse = "refuse",
        /// Connections to a server hang for a while.
        Hang = "hang",
        /// A stream becomes silent: messages are lost until the transport's keepalive fails.
        HalfOpen = "half-open",
        /// The client's transport accepts no messages on a stream for a while.
        BlockRequests = "block-requests",
        /// The server's transport accepts no messages on a stream for a while.
        BlockResponses = "block-responses",
        /// A server restarts and loses its nonces and all state of its clients.
        RestartServer = "restart-server",
        /// A client restarts with the same watches.
        RestartClient = "restart-client",
        /// A server does not receive changes for a while.
        Lag = "lag",
        /// The network has a higher latency for a while.
        Slow = "slow",
        /// A server ends every stream as soon as it is open, for a while.
        HangUp = "hang-up",
        /// A server drains: it ends each stream once it is acknowledged, then restarts.
        GoAway = "go-away",
        /// A polled server answers with an error or with an invalid response.
        BadAnswer = "bad-answer",
        /// A cache in front of a polled server answers with an older response.
        StaleAnswer = "stale-answer",
        /// A file is missing, truncated or unreadable for a while.
        BadFile = "bad-file",
        /// The next file change is not reported; the periodic read finds it.
        LostEvent = "lost-event",
        /// Timers fire late for a while.
        LateTimers = "late-timers",
        /// The clock jumps forward, as after suspend: events due in between happen late.
        ClockJump = "clock-jump",
        /// The network has a limited bandwidth for a while and delivers messages in batches.
        LimitBandwidth = "narrow",
        /// All streams are blocked one after the other and are released in another order.
        BlockAll = "clog",
        /// A load balancer moves the clients of a server to another replica with an older or newer
        /// state.
        OtherReplica = "other-replica",
        /// A client cannot reach any of its servers for a while: its streams become silent, and new
        /// connections are refused or hang.
        CutOff = "cut-off",
        /// A connection is reset: all streams of a client to a server end at once with one status.
        ResetConnection = "reset-connection",
        /// One client cannot reach one server for a while; all other connections work.
        Partition = "partition",
        /// One stream has a higher latency for a while, so that other streams overtake it.
        SlowLink = "slow-link",
        /// Client credentials expire at a server for a while: it ends open and new streams with
        /// `UNAUTHENTICATED`.
        Expire = "expire",
        /// The next file change is reported twice.
        DoubleEvent = "double-event",
        /// A file change is reported at once but becomes visible later, as on a network file
        /// system.
        StaleFile = "stale-file",
    }
}

kinds! {
    /// Protocol violations by a peer.
    Lie, Lies,
    /// Set of [`Lie`]s that may occur in a run.
    {
        /// A response is truncated.
        Truncate = "truncate",
        /// One byte of a response is changed.
        Flip = "flip",
        /// A response has an unknown type.
        UnknownType = "unknown-type",
        /// A response contains a resource twice.
        Twice = "twice",
        /// A response contains resources that were not requested, with invented contents.
        Invent = "invent",
        /// A response is sent twice with the same nonce.
        Repeat = "repeat",
        /// A response has no nonce.
        NoNonce = "no-nonce",
        /// A response removes existing resources.
        Remove = "remove",
        /// A rogue client opens a stream to a server and sends garbage.
        HostileClient = "hostile-client",
        /// A response contains a resource, removes it, and reports an error for it.
        Contradict = "contradict",
        /// A response removes many names: a hundred, sometimes thousands, rarely a hundred
        /// thousand.
        RemoveMany = "remove-many",
        /// A response contains an overlong name, sometimes of 1 MiB, and an empty name.
        LongName = "long-name",
        /// A response contains malformed `xdstp:` names.
        MalformedName = "malformed-name",
        /// A response is a message of the other protocol variant.
        OtherVariant = "other-variant",
        /// A resource in a response has an unknown type.
        WrongAny = "wrong-any",
        /// A state-of-the-world response is empty.
        Empty = "empty-response",
        /// A rogue client rejects each response at once, with an error message of 1 MiB.
        Rejecter = "rejecter",
        /// A rogue client subscribes and unsubscribes endlessly.
        Churner = "churner",
        /// A rogue client acknowledges responses that were never sent.
        FutureAck = "prophet",
        /// A rogue client changes its node with every request.
        Impostor = "impostor",
        /// A rogue client requests thousands of malformed, overlong or empty names.
        ExcessiveNames = "babbler",
        /// A rogue client sends messages of both protocol variants on one stream.
        Bilingual = "bilingual",
        /// A response has a different known type URL than its resources.
        OtherEnvelope = "other-envelope",
        /// A resource in a response has a different known type than the response.
        OtherAny = "other-any",
        /// A rogue client requests an unknown or missing type in addition to a known one.
        UnknownTypes = "foreigner",
        /// A rogue client requests a different type on a stream dedicated to one type.
        WrongType = "stray",
    }
}

impl Lies {
    /// Whether all members are sent to servers only, so that every rule still applies to clients.
    #[must_use]
    pub fn spare_clients(self) -> bool {
        self.iter().all(Lie::is_by_rogue_client)
    }
}

impl Lie {
    /// Whether the lie is sent to a server, by a rogue client that is not one of the world's
    /// clients.
    #[must_use]
    pub const fn is_by_rogue_client(self) -> bool {
        matches!(
            self,
            Self::HostileClient
                | Self::Rejecter
                | Self::Churner
                | Self::FutureAck
                | Self::Impostor
                | Self::ExcessiveNames
                | Self::Bilingual
                | Self::UnknownTypes
                | Self::WrongType
        )
    }
}
