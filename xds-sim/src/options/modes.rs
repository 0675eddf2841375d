//! Options that are one of a few.

use std::time::Duration;

/// In which order things happen that are due at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// What arrives comes first.
    #[default]
    DeliveriesFirst,
    /// Timers come first.
    TimersFirst,
}

/// Who speaks the other variant than most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mixture {
    /// Nobody.
    #[default]
    Alike,
    /// Every second client.
    ByClient,
    /// Everybody, with every second server: so does who turns to the next one.
    ByServer,
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

/// What servers make versions of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// What resources say: the same on every server.
    #[default]
    Content,
    /// A count of changes behind a prefix, which is another one for each server and each time it starts.
    Counted,
    /// A count of changes that begins anew with the server: the same number stands for another state.
    CountedAnew,
}

/// How long servers make responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Responses {
    /// Longer than there is anything to say.
    #[default]
    Long,
    /// So short that what can be split is, and that some resources are too long for any.
    Short,
}

impl Responses {
    /// How many bytes one may have, if there is anything longer.
    #[must_use]
    pub const fn limit(self) -> Option<usize> {
        match self {
            Self::Long => None,
            Self::Short => Some(400),
        }
    }
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
