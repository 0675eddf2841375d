//! What a server does where implementations part ways, for all types alike.

use core::time::Duration;

/// What becomes of a stream whose first request names no node, or one with an empty id (M4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequireNode {
    /// It is closed with `INVALID_ARGUMENT`.
    #[default]
    Required,
    /// It is served; a node in a later request is taken as the first one.
    Optional,
}

/// Who decides whether a client is served, and what it sees (S0.105, M9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Nobody: every client is served the default view.
    #[default]
    Everybody,
    /// The application, which is asked when a client has said who it is
    /// ([`ServerOutput::Authorize`](super::super::ServerOutput::Authorize)). Requests wait until it has
    /// [assigned](super::super::Server::assign) a view.
    Asked,
}

/// Whether a client's word on what it holds is taken after a reconnect (M41, M42, X07, B06).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconnectTrust {
    /// Everything subscribed is sent on every new stream.
    Never,
    /// For a type in full state, a first request for the wildcard alone that states the version of
    /// all resources is not answered. Versions are derived from content, so the client was sent just
    /// these, by whichever replica; a client that has forgotten some of them since must not state
    /// it.
    #[default]
    WildcardOnly,
}

/// What happens to the unchanged resources of a rejected response (M54, M107, IS4).
///
/// Nothing is ever sent again until something changes. Types in full state repeat everything then
/// anyhow; this is about the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NackRecovery {
    /// Only what changed is sent.
    Minimal,
    /// The rest of the rejected response rides along once with the first change: a client that
    /// drops a whole response for one bad resource gets the good ones after all.
    #[default]
    ResendBatch,
}

/// Whether endpoints are sent again after clusters (M151-M153, S0.157, IS18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warming {
    /// Never only for that reason.
    Off,
    /// After a response with clusters, the stream's next request for endpoints is answered even if
    /// it looks like an ACK. A proxy that warms a changed cluster waits for its endpoints, also for
    /// those it has.
    #[default]
    AfterClusters,
}

/// What becomes of a client that does not answer a response (M65). It is sent nothing more of the type
/// until it does, and delays nobody else (IS25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerOverdue {
    /// It is waited for as long as it takes, and nothing is said.
    Wait,
    /// After this time it is observed ([`Observation::AnswerOverdue`](super::super::Observation)), once for
    /// each response, and waited for.
    Observe(Duration),
    /// After this time it is observed and the stream closed with `DEADLINE_EXCEEDED`.
    Close(Duration),
}

impl AnswerOverdue {
    /// How long an answer may take.
    #[must_use]
    pub const fn after(self) -> Option<Duration> {
        match self {
            Self::Wait => None,
            Self::Observe(after) | Self::Close(after) => Some(after),
        }
    }
}

impl Default for AnswerOverdue {
    /// 30 seconds, then it is observed.
    fn default() -> Self {
        Self::Observe(Duration::from_secs(30))
    }
}

/// Whether the application is told which resources are asked for that it has not set (M254-M256).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDemand {
    /// No. A name that there is no resource of does not exist, and incremental clients are told so at once.
    #[default]
    Off,
    /// With [`ServerOutput::Wanted`](super::super::ServerOutput::Wanted), once, and when nobody asks any
    /// more with [`ServerOutput::Unwanted`](super::super::ServerOutput::Unwanted). It answers by setting
    /// the resource or an error ([`Transaction::mark_missing`](super::super::Transaction::mark_missing));
    /// until then clients wait.
    Told,
}

/// After what part of its TTL a resource is renewed by a heartbeat (M161), counted from its last change or
/// heartbeat. What is left is for answers that come late and for the way to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatFraction(u8);

impl HeartbeatFraction {
    /// So many hundredths of the TTL; less than one or more than 99 count as these.
    #[must_use]
    pub const fn percent(percent: u8) -> Self {
        match percent {
            0 => Self(1),
            1..=99 => Self(percent),
            100.. => Self(99),
        }
    }

    /// How long after its last change or heartbeat a resource with this TTL is renewed.
    #[must_use]
    pub fn of(self, ttl: Duration) -> Duration {
        ttl / 100 * u32::from(self.0)
    }
}

impl Default for HeartbeatFraction {
    /// Half of it.
    fn default() -> Self {
        Self(50)
    }
}
