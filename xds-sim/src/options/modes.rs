//! Options that select one of a few modes.

use std::time::Duration;

/// Order of events that are due at the same instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// Deliveries before timers.
    #[default]
    DeliveriesFirst,
    /// Timers before deliveries.
    TimersFirst,
}

/// Participants that use the other protocol variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mixture {
    /// None: all use the same variant.
    #[default]
    Alike,
    /// Every second client uses the other variant.
    ByClient,
    /// Every second server uses the other variant, so a client may change the variant on fallback.
    ByServer,
}

/// Order in which servers send the types of an aggregated stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Referenced types before the types that refer to them.
    #[default]
    ByRank,
    /// In the order in which they become due.
    AsDue,
    /// A resource is sent only after the client has accepted the resources it refers to, or after a
    /// timeout. Clusters refer to the endpoints of the same name.
    AfterAcks,
    /// A resource is sent only after the client has accepted the resources it refers to, without a
    /// timeout. A rejected resource blocks the rest until it changes or is deleted.
    OnlyAfterAcks,
}

/// Transport between clients and servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// gRPC streams.
    #[default]
    Streams,
    /// Polling: clients request each type repeatedly, as over REST.
    Polls,
    /// Files, one for each type, which contain the server's resources.
    Files,
}

/// Method by which servers make versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// Derived from the content: the same on every server.
    #[default]
    Content,
    /// A counter of changes with a prefix that differs between servers and between restarts.
    Counted,
    /// A counter of changes that starts again with the server, so that one version may stand for
    /// several states.
    CountedAnew,
}

/// Size limit of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Responses {
    /// No limit that any response reaches.
    #[default]
    Long,
    /// A limit at which responses are split, and which some resources exceed.
    Short,
}

impl Responses {
    /// Maximum size of a response in bytes, if there is one.
    #[must_use]
    pub const fn limit(self) -> Option<usize> {
        match self {
            Self::Long => None,
            Self::Short => Some(400),
        }
    }
}

/// Acceptance of resources after validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdicts {
    /// Validation decides at once.
    #[default]
    AtOnce,
    /// An external verdict arrives after a short time (300 ms).
    Soon,
    /// An external verdict arrives after the does-not-exist timeout (16 s).
    Late,
}

impl Verdicts {
    /// Delay of an external verdict on the new contents of a response, if verdicts are external.
    #[must_use]
    pub const fn delay(self) -> Option<Duration> {
        match self {
            Self::AtOnce => None,
            Self::Soon => Some(Duration::from_millis(300)),
            Self::Late => Some(Duration::from_secs(16)),
        }
    }
}

/// Behaviour profile of a client, where gRPC and Envoy differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileName {
    /// The behaviour of gRPC.
    #[default]
    Grpc,
    /// The behaviour of Envoy.
    Envoy,
}
