//! How a client behaves where implementations differ (D1-D30): decisions as plain data.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use super::{ManagementServer, backoff::BackoffPolicy, server_features::ServerFeature};

/// The client feature of taking resources out of wrappers in SotW (B08).
const RESOURCE_IN_SOTW: &str = "xds.config.resource-in-sotw";
/// The client feature of TTLs and heartbeats (B09).
const RESOURCE_TTL: &str = "xds.config.supports-resource-ttl";

/// What becomes of a cached resource when the server deletes it or sends an invalid one (X11, A88).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataErrorPolicy {
    /// It stays in use; watchers get an ambient error (gRPC's default).
    KeepCached,
    /// A deleted one is dropped, and watchers are told to stop using it, and so is one that the server
    /// reports as not found; while the newest version is invalid, the last valid one stays (a proxy's
    /// way, S0.018, S0.120).
    DropDeleted,
    /// It is dropped in either case (gRPC's `fail_on_data_errors`).
    DropCached,
}

/// How a subscription to everything of a full-state type is put on the wire (X02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WildcardForm {
    /// An empty list in the type's first request: understood by servers old and new.
    LegacyEmpty,
    /// The name `*`, as types other than listeners and clusters always need.
    Explicit,
}

/// Whether notices that the application has not handled yet hold back reading, as in [gRFC A88].
///
/// [gRFC A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md
// B52, IC34
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadGate {
    /// Whatever suits the driver: [`Notices`](Self::Notices) for a [`Client`](crate::client::Client) that is driven
    /// directly, [`Off`](Self::Off) behind the handle of `xds-handle`, whose watches keep the newest notice
    /// only. The default.
    Unset,
    /// The next response waits until every notice of the last one was
    /// [handled](crate::client::Client::handled).
    Notices,
    /// Responses are read as they come; watchers see the newest state.
    Off,
}

/// The decisions on which implementations differ, as plain data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// What data errors do to cached resources, unless the server's entry says otherwise (X11).
    pub data_errors: DataErrorPolicy,
    /// How a wildcard goes on the wire (X02).
    pub wildcard: WildcardForm,
    /// The code in `error_detail` of a NACK (D3).
    pub nack_code: i32,
    /// How long a subscribed resource may be missing before it is taken not to exist, counted from
    /// [`timer_start`](Self::timer_start) on (S1.025). `None` waits for ever. A type may have a time of its
    /// own ([`ClientConfig::does_not_exist_after`](crate::client::ClientConfig::does_not_exist_after)).
    pub does_not_exist_after: Option<Duration>,
    /// The same where the server has [`ServerFeature::ResourceTimerIsTransientError`], and the
    /// conclusion is that something is wrong with the server (S3.042).
    pub timeout_after: Option<Duration>,
    /// How long a channel without subscriptions stays open (D6). `None` keeps it open.
    pub idle_close: Option<Duration>,
    /// The delays between attempts to reach the server (S1.011, X23).
    pub backoff: BackoffPolicy,
    /// Whether connection trouble is told to watchers (D17).
    pub connectivity_errors: ConnectivityErrors,
    /// Whether unhandled notices hold back reading.
    pub read_gate: ReadGate,
    /// The client features stated in the node (SB-03).
    pub client_features: Vec<String>,
    /// Whether names of the form `xdstp://...` state an authority.
    pub federation: Federation,
    /// Whether servers behind the first one are used.
    pub fallback: Fallback,
    /// When a response is answered (D12).
    pub answers: AnswerTiming,
    /// What a bad resource makes of the good ones beside it (D2).
    pub rejection_unit: RejectionUnit,
    /// When the wait for a resource begins (D10).
    pub timer_start: TimerStart,
    /// Whether errors that a server reports for single resources count.
    pub reported_errors: ReportedErrors,
    /// The version in a NACK of a response some of which is used (D1, X09).
    pub nack_version: NackVersion,
    /// What a name stands for that comes more than once in a response (D14, X10, IC17).
    pub duplicates: Duplicates,
}

/// What becomes of a name that comes more than once in one response, among its resources or, in the
/// incremental variant, among what was removed (D14, X10, IC17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duplicates {
    /// All copies are bad: none is used, and the response is answered with a NACK that names each.
    Reject,
    /// The last copy counts, and those before it are not looked at, as in most implementations. What
    /// was removed comes after the resources. It takes a second pass over each response.
    LastWins,
}

/// Which version a client states from the moment that it has rejected a response but uses some of its
/// resources: in the NACK, in later requests of the type, and on the next stream (D1, X09, B04). Only
/// the variant of the whole state has such a version.
///
/// That of a response of which nothing is used is never stated, and neither is one that is refused whole
/// ([`RejectionUnit::Response`]). Servers must not look at it to tell a NACK from an ACK: what does is
/// `error_detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NackVersion {
    /// The last one that was accepted whole (S0.088), or the empty one. A server that is told so on the
    /// next stream sends again what was rejected. A stream that begins with a wildcard states none, unless a
    /// response was accepted since: what is held is not what the accepted version stands for.
    LastAccepted,
    /// The newest one of which something is in use: that of the rejected response if a resource that is
    /// wanted was valid in it, as gRPC's C core has it. A server that trusts it on the next stream may
    /// not send again what was rejected.
    Newest,
}

/// When a response is answered (D12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerTiming {
    /// As soon as it has been judged, whatever watchers do with it.
    OnJudgement,
    /// When every notice of it was [handled](crate::client::Client::handled); until then nothing else is said
    /// either, as by a proxy that is busy applying it. With [`ReadGate::Off`] there is nothing to wait
    /// for.
    AfterNotices,
}

/// How much of a response is refused when something in it is bad (D2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionUnit {
    /// The bad resources alone: the good ones are used (A46).
    Resource,
    /// All of it: nothing of the response is used, whoever watches a resource that it would have
    /// changed is told so, and the response is answered with a NACK (PN-03).
    Response,
}

/// When the time begins after which a resource that has not come is taken not to exist (D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimerStart {
    /// When the subscription is handed to an open stream. The time stands still while responses
    /// cannot be read, and starts over on the next stream (S1.025, IC24).
    Handover,
    /// When the resource is first wanted, whether or not there is a stream. The time goes on through
    /// failures and reconnects, and runs out once (DT-19): Envoy's `initial_fetch_timeout`.
    Subscription,
}

/// Whether `resource_errors` of responses are read (TP3, DE-16, S3.100).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportedErrors {
    /// They are.
    Used,
    /// They are not: the field is one like any other that is not known.
    Ignored,
}

/// Whether `xdstp://` names are read as such (A47, FE-14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Federation {
    /// They state an authority, which must be configured.
    On,
    /// They are names like any other.
    Off,
}

/// Whether a client turns to further servers while the first one fails (D18, FB-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fallback {
    /// It does as soon as one fails and something is wanted of which nothing is known. Those before it
    /// are tried all the while, and the first response of one of them turns back to it (A71).
    On,
    /// It does once the first one has failed twice and has never answered; then they take turns, one
    /// connection at a time. Once the first one has answered there is no other (FB-22 to FB-24):
    /// Envoy's failover.
    Failover,
    /// Only the first server of each list is ever used.
    Off,
}

/// Whether watchers learn that the management server cannot be reached (D17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectivityErrors {
    /// They do, once per failure (A57).
    Reported,
    /// They do not: the last configuration stays and only logs tell.
    Hidden,
}

impl Profile {
    /// The behaviour of gRPC clients: the default.
    #[must_use]
    pub fn grpc() -> Self {
        Self {
            data_errors: DataErrorPolicy::KeepCached,
            wildcard: WildcardForm::LegacyEmpty,
            nack_code: 3,
            does_not_exist_after: Some(Duration::from_secs(15)),
            timeout_after: Some(Duration::from_secs(30)),
            idle_close: Some(Duration::from_secs(30)),
            backoff: BackoffPolicy::grpc(),
            connectivity_errors: ConnectivityErrors::Reported,
            read_gate: ReadGate::Unset,
            client_features: Vec::from([
                "envoy.lb.does_not_support_overprovisioning".into(),
                RESOURCE_IN_SOTW.into(),
                RESOURCE_TTL.into(),
            ]),
            federation: Federation::On,
            fallback: Fallback::On,
            answers: AnswerTiming::OnJudgement,
            rejection_unit: RejectionUnit::Resource,
            timer_start: TimerStart::Handover,
            reported_errors: ReportedErrors::Used,
            nack_version: NackVersion::LastAccepted,
            duplicates: Duplicates::Reject,
        }
    }

    /// The behaviour of a proxy: absence deletes, a response is used whole or not at all, connection
    /// trouble stays out of sight.
    ///
    /// ACKs wait for the application ([`AnswerTiming::AfterNotices`]), if the read gate is on. Behind a handle it is off
    /// unless [`read_gate`](Self::read_gate) is set to [`ReadGate::Notices`].
    #[must_use]
    pub fn envoy() -> Self {
        Self {
            data_errors: DataErrorPolicy::DropDeleted,
            nack_code: 13,
            idle_close: None,
            backoff: BackoffPolicy::envoy(),
            connectivity_errors: ConnectivityErrors::Hidden,
            answers: AnswerTiming::AfterNotices,
            rejection_unit: RejectionUnit::Response,
            timer_start: TimerStart::Subscription,
            fallback: Fallback::Failover,
            client_features: Vec::from([RESOURCE_IN_SOTW.into(), RESOURCE_TTL.into()]),
            ..Self::grpc()
        }
    }
}

impl Profile {
    /// How long a subscribed resource of the server may be missing, of a type without a time of its own.
    pub(crate) fn missing_after(&self, server: &ManagementServer) -> Option<Duration> {
        match server.features.contains(ServerFeature::ResourceTimerIsTransientError) {
            true => self.timeout_after,
            false => self.does_not_exist_after,
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::grpc()
    }
}
