//! Policies for protocol questions on which implementations differ, other than those of one type.

use core::time::Duration;

/// Policy for streams whose first request has no node, or one with an empty id.
// M4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequireNode {
    /// The stream is closed with `INVALID_ARGUMENT`.
    #[default]
    Required,
    /// The stream is served. The first node that a later request states is used.
    Optional,
}

/// Policy for streams on which a later request has a different node than the first.
// M3
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeChanged {
    /// The first node stays, and [`Observation::NodeChanged`](crate::server::Observation) is
    /// reported.
    #[default]
    Ignore,
    /// The stream is closed with `INVALID_ARGUMENT`.
    Close,
}

/// Policy for requests of an unknown type: one that this crate does not know, that is not
/// configured, and that has no resources. [`Observation::UnknownType`](crate::server::Observation)
/// is reported in each case.
// M8
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownType {
    /// The request is held, and answered once there are resources of the type.
    #[default]
    Hold,
    /// A state-of-the-world client receives the error `NOT_FOUND` for every name; an incremental
    /// client receives the names as removed, as for any type.
    // TP3
    NotFound,
    /// The stream is closed with `INVALID_ARGUMENT`, which also ends its other subscriptions.
    Close,
}

/// Whether the application decides which clients are served, and with which view.
// S0.105, M9
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Every client is served with the default view.
    #[default]
    All,
    /// The application decides after the client has sent its node
    /// ([`ServerEvent::Authorize`](crate::server::ServerEvent::Authorize)). Requests are held
    /// until it [assigns](crate::server::Server::assign) a view.
    ByApplication,
}

/// Whether endpoints are sent again after clusters.
///
/// Envoy warms a changed cluster and waits for its endpoints, even if it already has them.
// M151-M153, S0.157, IS18
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warming {
    /// Endpoints are never sent again for this reason.
    Off,
    /// Endpoints are sent again after clusters were sent. The next request for endpoints on a
    /// state-of-the-world stream is answered even if it looks like an ACK. An incremental client,
    /// which would not ask, is sent the endpoints of the clusters; those with names other than the
    /// clusters' only under [`MakeBeforeBreakPolicy::references`](super::MakeBeforeBreakPolicy::references), which finds
    /// them. A client that returns with `initial_resource_versions` is sent the endpoints of those
    /// clusters that it is sent, not of the ones that it has.
    #[default]
    AfterClusters,
    /// Endpoints are sent again, without a request, after clusters were ACKed. Endpoints are not sent
    /// for rejected clusters. For accepted clusters they arrive one round trip later.
    AfterAcceptedClusters,
}

/// Types that are sent again under [`Warming`].
// M155
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarmedTypes {
    /// Endpoints, after clusters.
    #[default]
    Endpoints,
    /// Endpoints after clusters, and all secrets that the stream subscribes to by name after
    /// clusters or listeners, because the server does not know which secrets these refer to.
    EndpointsAndSecrets,
}

/// Whether the application is notified of requested resources that do not exist.
// M254-M256
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDemand {
    /// No notification. Incremental clients receive a missing name in `removed_resources` at once,
    /// unless [`AbsenceDelay`](super::AbsenceDelay) delays it.
    #[default]
    Off,
    /// [`ServerEvent::Wanted`](crate::server::ServerEvent::Wanted) is sent when a missing
    /// resource is first requested, and
    /// [`ServerEvent::Unwanted`](crate::server::ServerEvent::Unwanted) when no client requests it
    /// any more. The application answers by setting the resource or marking it as missing
    /// ([`Transaction::mark_missing`](crate::server::Transaction::mark_missing)); until then
    /// clients wait. It should do so within the [does-not-exist timer](super::DOES_NOT_EXIST_TIMER)
    /// of 15 seconds.
    Notify,
}

/// Part of its TTL after which a resource is renewed by a heartbeat; default 50 per cent.
///
/// It is counted from the last change or heartbeat. The rest of the TTL allows for transmission and
/// late answers.
// M161
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatFraction(u8);

impl HeartbeatFraction {
    /// Creates a fraction in per cent of the TTL, clamped to 1..=99.
    #[must_use]
    pub const fn percent(percent: u8) -> Self {
        match percent {
            0 => Self(1),
            1..=99 => Self(percent),
            100.. => Self(99),
        }
    }

    /// Returns the time from its last change or heartbeat after which a resource with this TTL is
    /// renewed.
    #[must_use]
    pub fn of(self, ttl: Duration) -> Duration {
        ttl / 100 * u32::from(self.0)
    }
}

impl Default for HeartbeatFraction {
    /// 50 per cent.
    fn default() -> Self {
        Self(50)
    }
}

/// Whether responses are reported as observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObserveResponses {
    /// Responses are not reported, which saves their cost.
    #[default]
    Off,
    /// Every response is reported, for example for an audit log.
    On,
}
