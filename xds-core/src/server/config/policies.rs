//! What a server does where implementations part ways and several types are concerned, or none.

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

/// What becomes of a stream on which a later request has another node than the first (M3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeChanged {
    /// It is observed ([`Observation::NodeChanged`](crate::server::Observation)); the first node
    /// stays.
    #[default]
    Ignored,
    /// The stream is closed with `INVALID_ARGUMENT`: a client is to say the same every time.
    Closed,
}

/// What becomes of a request for a type that the server neither ships with, nor is told of in its
/// configuration, nor has resources of (M8). It is observed in any case
/// ([`Observation::UnknownType`](crate::server::Observation)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownType {
    /// It is held, and answered once there are resources.
    #[default]
    Held,
    /// A state-of-the-world client is told `NOT_FOUND` for every name (TP3); an incremental one is
    /// told that they do not exist, as of any type.
    NotFound,
    /// The stream is closed with `INVALID_ARGUMENT`, all its other types with it.
    Closed,
}

/// Who decides whether a client is served, and what it sees (S0.105, M9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Nobody: every client is served the default view.
    #[default]
    Everybody,
    /// The application, which is asked when a client has said who it is
    /// ([`ServerOutput::Authorize`](crate::server::ServerOutput::Authorize)). Requests wait until it has
    /// [assigned](crate::server::Server::assign) a view.
    Asked,
}

/// Whether endpoints are sent again after clusters (M151-M153, S0.157, IS18). A proxy that warms a
/// changed cluster waits for its endpoints, also for those it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warming {
    /// Never only for that reason.
    Off,
    /// When clusters were sent: the stream's next request for endpoints is answered even if it
    /// looks like an ACK. An incremental client, which would not ask, is sent those of the clusters: of
    /// other names than the clusters' own only under
    /// [`AckGated::references`](super::AckGated::references), which finds them.
    #[default]
    AfterClusters,
    /// When clusters were accepted, and then unasked: a client that rejects clusters does not pay for
    /// their endpoints. It waits for them a round trip longer.
    AfterAcceptedClusters,
}

/// What [`Warming`] is about (M155).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warmed {
    /// Endpoints, after clusters.
    #[default]
    Endpoints,
    /// Also all secrets that the stream subscribes to by name, after clusters or listeners: which ones
    /// these refer to, the server does not know.
    EndpointsAndSecrets,
}

/// Whether the application is told which resources are asked for that it has not set (M254-M256).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDemand {
    /// No. A name that there is no resource of does not exist, and incremental clients are told so at once.
    #[default]
    Off,
    /// With [`ServerOutput::Wanted`](crate::server::ServerOutput::Wanted), once, and when nobody asks any
    /// more with [`ServerOutput::Unwanted`](crate::server::ServerOutput::Unwanted). It answers by setting
    /// the resource or an error ([`Transaction::mark_missing`](crate::server::Transaction::mark_missing));
    /// until then clients wait. It should do so within [15 s](super::DOES_NOT_EXIST_TIMER), after which clients take the
    /// resource not to exist.
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

/// Whether what is sent is observed, as what clients say is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObserveResponses {
    /// No: a response costs nothing beside itself.
    #[default]
    Off,
    /// Each response, for whoever keeps a record of what clients were sent.
    On,
}
