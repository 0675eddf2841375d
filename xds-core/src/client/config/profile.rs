//! Behaviour on which xDS implementations differ, as plain data.
// D1-D30

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use super::{ServerAddress, backoff::BackoffPolicy, server_features::ServerFeature};
use crate::status_code::StatusCode;

/// Client feature: accepts `Resource` wrappers in state-of-the-world responses.
// B08
const RESOURCE_IN_SOTW: &str = "xds.config.resource-in-sotw";
/// Client feature: supports TTLs and heartbeats.
// B09
const RESOURCE_TTL: &str = "xds.config.supports-resource-ttl";

/// Effect on a cached resource when the server deletes it or sends an invalid version, see
/// [gRFC A88](https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md).
// X11
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataErrorPolicy {
    /// Keeps the resource; watchers get an ambient error. Default of gRPC.
    KeepCached,
    /// Drops a resource that the server deletes or reports as not found; watchers must stop using
    /// it. Keeps the last valid version while the newest one is invalid. Behaviour of Envoy.
    // S0.018, S0.120
    DropDeleted,
    /// Drops the resource in all cases: `fail_on_data_errors` of gRPC.
    DropCached,
}

/// Form of a wildcard subscription to a full-state type in state-of-the-world requests.
// X02
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WildcardForm {
    /// Empty list of names in the type's first request, understood by all servers.
    LegacyEmpty,
    /// The name `*`, which types other than listeners and clusters always use.
    Explicit,
}

/// Whether notices that the application has not handled yet hold back reading, as in [gRFC A88].
///
/// [gRFC A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md
// B52, IC34
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowControl {
    /// Decided by the driver; the default. [`On`](Self::On) for a
    /// [`Client`](crate::client::Client) that is driven directly, [`Off`](Self::Off) behind the
    /// handle of `xds-handle`, whose watches keep only the newest notice.
    Unset,
    /// The next response is read once every notice of the last one was
    /// [handled](crate::client::Client::handled).
    On,
    /// Responses are read as they arrive; watchers see the newest state.
    Off,
}

/// Behaviour on which xDS implementations differ, as plain data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Effect of data errors on cached resources, unless the server's settings override it.
    // X11
    pub data_errors: DataErrorPolicy,
    /// Form of a wildcard subscription in requests.
    // X02
    pub wildcard: WildcardForm,
    /// gRPC status code in the `error_detail` of a NACK: 3 (INVALID_ARGUMENT) in gRPC, 13
    /// (INTERNAL) in Envoy.
    // D3
    pub nack_code: StatusCode,
    /// Time after which a subscribed resource that was not received is reported as nonexistent,
    /// counted from [`timer_start`](Self::timer_start); 15 s by default. `None` disables the
    /// timeout. An [`AuthorityConfig`](crate::client::AuthorityConfig) overrides the type, and the
    /// type overrides the profile. Can be set per type in
    /// [`ClientConfig::with_does_not_exist_timeout`](crate::client::ClientConfig::with_does_not_exist_timeout).
    // S1.025
    pub does_not_exist_timeout: Option<Duration>,
    /// Replaces `does_not_exist_timeout` for servers with
    /// [`ServerFeature::ResourceTimerIsTransientError`], where a resource that was not received is
    /// reported as a transient error; 30 s by default.
    // S3.042
    pub transient_error_timeout: Option<Duration>,
    /// Time after which a channel without subscriptions is closed; 30 s in gRPC. `None`, as in
    /// Envoy, keeps it open.
    // D6
    pub idle_timeout: Option<Duration>,
    /// Backoff between connection attempts.
    // S1.011, X23
    pub backoff: BackoffPolicy,
    /// Whether watchers are notified of connection failures.
    // D17
    pub connectivity_errors: ConnectivityErrors,
    /// Whether unhandled notices hold back reading.
    pub flow_control: FlowControl,
    /// Client features in the node.
    // SB-03
    pub client_features: Vec<String>,
    /// Whether `xdstp://` names have an authority.
    pub federation: Federation,
    /// Whether fallback servers are used.
    pub fallback: Fallback,
    /// Time at which a response is ACKed or NACKed.
    // D12
    pub ack_timing: AckTiming,
    /// Whether one invalid resource rejects the whole response.
    // D2
    pub rejection_unit: RejectionUnit,
    /// Start of the does-not-exist timer of a resource.
    // D10
    pub timer_start: TimerStart,
    /// Whether errors that a server reports for single resources are used.
    pub reported_errors: ReportedErrors,
    /// Version in the NACK of a partially accepted response.
    // D1, X09
    pub nack_version: NackVersion,
    /// Handling of names that occur more than once in a response.
    // D14, X10, IC17
    pub duplicates: Duplicates,
}

/// Handling of a name that occurs more than once in a response, among its resources or, in the
/// incremental variant, its removed resources.
// D14, X10, IC17
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duplicates {
    /// Rejects all copies, with a NACK that names each of them.
    Reject,
    /// Uses the last copy and ignores the others, like most implementations. Removals count as
    /// coming after the resources. Needs a second pass over each response.
    LastWins,
}

/// Version that the client sends after a partially accepted response: in the NACK, in later
/// requests for the type, and on the next stream. Applies to the state-of-the-world variant, the
/// only one with such a version.
///
/// The version of a response of which nothing is used is never sent, as with
/// [`RejectionUnit::Response`]. Servers must use `error_detail`, not the version, to tell a NACK
/// from an ACK.
// D1, X09, B04
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NackVersion {
    /// The last version that was accepted completely, or the empty one. A server that receives it
    /// on the next stream sends the rejected resources again. A stream that begins with a wildcard
    /// sends no version unless a response has been accepted since the NACK, because the cache no
    /// longer matches the accepted version.
    // S0.088
    LastAccepted,
    /// The newest version of which a resource is in use, as in gRPC's C core: that of the rejected
    /// response, if it contained a subscribed valid resource. A server that trusts this version on
    /// the next stream may not send the rejected resources again.
    Newest,
}

/// Time at which a response is ACKed or NACKed.
// D12
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckTiming {
    /// Immediately after validation of the response.
    AfterValidation,
    /// After every notice of the response was [handled](crate::client::Client::handled). Until then
    /// no request is sent on the channel, as by a proxy that is applying the configuration. Has no
    /// effect with [`FlowControl::Off`].
    AfterNotices,
}

/// Unit of a response that one invalid resource rejects.
// D2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionUnit {
    /// Only the invalid resource; the others are used, see [gRFC
    /// A46](https://github.com/grpc/proposal/blob/master/A46-xds-nack-semantics-improvement.md).
    Resource,
    /// The whole response. Nothing of it is used, watchers of resources that it would have changed
    /// get an error, and the response is NACKed.
    // PN-03
    Response,
}

/// Start of the timer after which a resource that was not received is reported as nonexistent.
// D10
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerStart {
    /// Starts when the subscription is sent on an open stream. The timer is paused while responses
    /// cannot be read, and restarts on the next stream.
    // S1.025, IC24
    RequestSent,
    /// Starts when the resource is first subscribed, even without an open stream. The timer
    /// continues through failures and reconnects, and fires once: Envoy's `initial_fetch_timeout`.
    // DT-19
    Subscription,
}

/// Whether the `resource_errors` of responses are used, see
/// [xRFC TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md).
// DE-16, S3.100
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportedErrors {
    /// The errors are used.
    Used,
    /// The field is ignored like an unknown one.
    Ignored,
}

/// Whether `xdstp://` names are parsed, see
/// [gRFC A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md).
// FE-14
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Federation {
    /// The names have an authority, which must be configured.
    On,
    /// The names are opaque like any other name.
    Off,
}

/// Use of further servers while the first one fails.
// D18, FB-20
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fallback {
    /// Uses the next server as soon as one fails and a watched resource is not cached. The
    /// preferred servers are retried meanwhile, and the first response from one of them switches
    /// back to it, see
    /// [gRFC A71](https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md).
    On,
    /// Failover as in Envoy. Alternates between the servers, one connection at a time, after the
    /// first one has failed twice without ever having responded. Once the first one has responded,
    /// the others are no longer used.
    // FB-22 to FB-24
    Failover,
    /// Uses only the first server of each list.
    Off,
}

/// Whether watchers are notified when the management server cannot be reached.
// D17
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectivityErrors {
    /// Watchers are notified once per failure, see [gRFC
    /// A57](https://github.com/grpc/proposal/blob/master/A57-xds-client-failure-mode-behavior.md).
    Reported,
    /// Watchers are not notified and keep the last configuration. Failures appear in logs only. They
    /// include failed polls, such as those with an HTTP error status.
    Hidden,
}

impl Profile {
    /// Returns the behaviour of gRPC clients, which is the default: a deleted resource stays in use
    /// and is reported as an error once, only the invalid resources of a response are rejected, and
    /// watchers get connection errors.
    #[must_use]
    pub fn grpc() -> Self {
        Self {
            data_errors: DataErrorPolicy::KeepCached,
            wildcard: WildcardForm::LegacyEmpty,
            nack_code: StatusCode::InvalidArgument,
            does_not_exist_timeout: Some(Duration::from_secs(15)),
            transient_error_timeout: Some(Duration::from_secs(30)),
            idle_timeout: Some(Duration::from_secs(30)),
            backoff: BackoffPolicy::grpc(),
            connectivity_errors: ConnectivityErrors::Reported,
            flow_control: FlowControl::Unset,
            client_features: Vec::from([
                "envoy.lb.does_not_support_overprovisioning".into(),
                RESOURCE_IN_SOTW.into(),
                RESOURCE_TTL.into(),
            ]),
            federation: Federation::On,
            fallback: Fallback::On,
            ack_timing: AckTiming::AfterValidation,
            rejection_unit: RejectionUnit::Resource,
            timer_start: TimerStart::RequestSent,
            reported_errors: ReportedErrors::Used,
            nack_version: NackVersion::LastAccepted,
            duplicates: Duplicates::Reject,
        }
    }

    /// Returns the behaviour of Envoy:
    ///
    /// - A deleted resource is dropped: one that is missing from a full-state response, or that an
    ///   incremental response removes.
    /// - A response is accepted or rejected as a whole.
    /// - Watchers get no connection errors.
    /// - The does-not-exist timer of a resource starts with its subscription
    ///   ([`TimerStart::Subscription`]).
    /// - Fallback servers are used as in Envoy's failover ([`Fallback::Failover`]).
    /// - ACKs wait for the application ([`AckTiming::AfterNotices`]), unless flow control is
    ///   [off](FlowControl::Off). It is off for a client that is used through `xds-handle`, unless
    ///   [`flow_control`](Self::flow_control) is set.
    #[must_use]
    pub fn envoy() -> Self {
        Self {
            data_errors: DataErrorPolicy::DropDeleted,
            nack_code: StatusCode::Internal,
            idle_timeout: None,
            backoff: BackoffPolicy::envoy(),
            connectivity_errors: ConnectivityErrors::Hidden,
            ack_timing: AckTiming::AfterNotices,
            rejection_unit: RejectionUnit::Response,
            timer_start: TimerStart::Subscription,
            fallback: Fallback::Failover,
            client_features: Vec::from([RESOURCE_IN_SOTW.into(), RESOURCE_TTL.into()]),
            ..Self::grpc()
        }
    }
}

impl Profile {
    /// Returns the does-not-exist timeout at a server, for types without a timeout of their own.
    pub(crate) fn does_not_exist_timeout(&self, server: &ServerAddress) -> Option<Duration> {
        match server.features.contains(ServerFeature::ResourceTimerIsTransientError) {
            true => self.transient_error_timeout,
            false => self.does_not_exist_timeout,
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::grpc()
    }
}
