//! What may be done, what may go wrong, and what may be said that is not so.

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
            /// All of them, the tamest first.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// It in a word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }

            /// It in a sentence or two.
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
        /// An operator sets a resource that clients find invalid, or that is refused from outside where the last word is
        /// there.
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
        /// An operator lets a client see another view, in mid-stream.
        Move = "move",
        /// An application watches a glob.
        WatchGlob = "watch-glob",
        /// An application watches many names at once, most of which do not exist.
        WatchMany = "watch-many",
        /// An application watches a resource by another name. All resources have one.
        WatchAlias = "watch-alias",
        /// An operator sets a resource that clients accept from a trusted server only.
        SetPrivileged = "set-privileged",
    }
}

kinds! {
    /// What clients and servers are taken to be capable of, other than by default.
    Feature, Features,
    /// What they are in a run.
    {
        /// Clients are configured not to use any longer what their servers report to be bad or gone.
        FailOnDataErrors = "fail-on-data-errors",
        /// Clients are configured to take the silence of their servers for trouble on the side of these.
        TransientTimer = "transient-timer",
        /// Clients are configured to ignore deletions, which means nothing any more.
        IgnoreDeletion = "ignore-deletion",
        /// Clients do not say that they know of resources that last for a time only.
        WithoutTtl = "without-ttl",
        /// Clients of the state of the world do not say that they take resources out of wrappers.
        WithoutWrappers = "without-wrappers",
        /// Clients are configured to trust their servers with more than others.
        TrustedServer = "trusted-server",
        /// Servers end streams on which somebody becomes another node, or asks for a type that nobody knows.
        StrictServer = "strict-server",
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
        /// Timers come late for a while.
        LateTimers = "late-timers",
        /// The clock jumps forward, as when a machine has slept: all that was due meanwhile comes late.
        ClockJump = "clock-jump",
        /// The network takes so many bytes in a second for a while, and delivers what there is at once.
        Narrow = "narrow",
        /// Streams clog one after the other, and are free again in another order.
        Clog = "clog",
        /// A load balancer moves the clients of a server to another replica of it, which has an older or a newer
        /// state.
        OtherReplica = "other-replica",
        /// A client reaches none of its servers for a while: its streams go silent, and what it dials is refused or
        /// hangs.
        CutOff = "cut-off",
        /// A connection is reset: all streams of a client to a server end at the same instant, with the same status.
        ResetConnection = "reset-connection",
        /// A client does not reach one of its servers for a while, while others do, and it reaches its other servers.
        Partition = "partition",
        /// A stream becomes slow for a while, and others do not: what was sent on it is overtaken on these.
        SlowLink = "slow-link",
        /// The credentials of clients are valid for a server no longer, for a while: it ends its streams with
        /// `UNAUTHENTICATED`, and each new one as soon as it is open.
        Expire = "expire",
        /// The next change of a file is told twice.
        DoubleEvent = "double-event",
        /// A change of a file is told at once, and can be seen only after a while, as with files on another machine.
        StaleFile = "stale-file",
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
        /// A response has a resource, removes it, and reports an error of it.
        Contradict = "contradict",
        /// A response removes thousands of names.
        RemoveMany = "remove-many",
        /// A response has a name of a mebibyte, and none.
        LongName = "long-name",
        /// A response has names of an authority that are none.
        MalformedName = "malformed-name",
        /// A response is one of the other variant.
        OtherVariant = "other-variant",
        /// A resource in a response is of another type than the response.
        WrongAny = "wrong-any",
        /// A response in full state has nothing.
        Empty = "empty-response",
        /// Somebody rejects all that a server sends, at once, with an error of a mebibyte.
        Rejecter = "rejecter",
        /// Somebody subscribes and unsubscribes without end.
        Churner = "churner",
        /// Somebody answers to what was never sent.
        Prophet = "prophet",
        /// Somebody is another node with every request.
        Impostor = "impostor",
        /// Somebody asks for names that are none, too long, or empty, by the thousand.
        Babbler = "babbler",
        /// Somebody speaks both variants on one stream.
        Bilingual = "bilingual",
        /// A response is of another type that the client knows, and its resources are of the one that is meant.
        OtherEnvelope = "other-envelope",
        /// A resource in a response is of another type that the client knows.
        OtherAny = "other-any",
        /// Somebody asks for a type that nobody knows, or for none, beside one that is known.
        Foreigner = "foreigner",
        /// Somebody asks for another type on a stream that is for one.
        Stray = "stray",
    }
}

impl Lies {
    /// Whether none of them is told to a client: what strangers say to a server must not concern anybody else.
    #[must_use]
    pub fn spare_clients(self) -> bool {
        self.iter().all(Lie::is_of_a_stranger)
    }
}

impl Lie {
    /// Whether it is told to a server, by somebody who is none of the world's clients.
    #[must_use]
    pub const fn is_of_a_stranger(self) -> bool {
        matches!(
            self,
            Self::HostileClient
                | Self::Rejecter
                | Self::Churner
                | Self::Prophet
                | Self::Impostor
                | Self::Babbler
                | Self::Bilingual
                | Self::Foreigner
                | Self::Stray
        )
    }
}
