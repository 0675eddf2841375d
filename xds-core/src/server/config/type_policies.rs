//! Policies of one type for protocol questions on which implementations differ.

use core::{num::NonZeroU16, time::Duration};

/// Content of a state-of-the-world response of a type.
///
/// See "Deleting Resources" in the [xDS protocol][spec].
///
/// [spec]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SotwResponse {
    /// All subscribed resources that exist; an absent resource is deleted.
    // S0.112, M74, M76
    FullState,
    /// All subscribed resources that exist; absence has no meaning and deletions are not sent.
    // M75, M77
    AlwaysFull,
    /// The resources that are new to the client or changed; deletions are not sent.
    // S0.111, M75, M77
    #[default]
    Changes,
}

/// Meaning of an empty list of names before a request of the type on the stream has named any.
///
/// See "How the client specifies what resources to return" in the [xDS protocol][spec].
///
/// [spec]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyWildcard {
    /// A wildcard subscription.
    // M22
    Honored,
    /// A subscription to nothing. The name `*` still is the wildcard.
    // M32
    #[default]
    Ignored,
}

/// Policy for a client that ends its wildcard subscription, by a list without `*` or by
/// unsubscribing from `*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WildcardExit {
    /// The wildcard ends, and an incremental client is sent the names that it no longer subscribes
    /// to as removed.
    // M93
    #[default]
    SendRemovals,
    /// The wildcard ends, and nothing is sent.
    Silent,
    /// The wildcard does not end, and names in later requests are ignored, as in the first edition
    /// of the protocol. Some very old clients depend on it.
    // S0.106, S0.139, X01
    Never,
}

/// Policy for requested names that do not exist, in the state-of-the-world variant.
/// [`AbsenceDelay`] is the policy for the incremental variant.
///
/// An application that creates resources on demand keeps the default and answers with a
/// transaction.
// M39
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The request is held, and the resource is sent when it is created.
    // S0.133
    Hold,
    /// Like [`Hold`](Self::Hold), except that where absence means deletion
    /// ([`SotwResponse::FullState`]) a first request is answered after this time even if no
    /// resource exists.
    ///
    /// A client that used a part of a response that it rejected states no version after a
    /// reconnect, so the server cannot distinguish it from a new client. Without the empty response
    /// it would keep using resources that were deleted meanwhile.
    ///
    /// Together with the other delays of an answer the time should stay below the [does-not-exist
    /// timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds, after which a client concludes that the
    /// resource does not exist.
    HoldFor(Duration),
    /// A first request is answered, with an empty response if no resource exists. It still waits
    /// until the client has been [assigned](crate::server::Server::assign) a view.
    // M38
    EmptyResponse,
    /// Every missing name is reported with the resource error `NOT_FOUND` ([gRFC A88][A88]), and so
    /// are later deletions.
    ///
    /// [A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md
    // TP3, M173
    NotFound,
}

impl Default for Missing {
    /// [`HoldFor`](Self::HoldFor) 4 seconds.
    fn default() -> Self {
        Self::HoldFor(Duration::from_secs(4))
    }
}

/// Delay before an incremental response reports that a requested name does not exist.
// M127
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbsenceDelay {
    /// At once.
    #[default]
    Immediate,
    /// After this time, if the resource still does not exist: for resources that are created a
    /// little later than those that refer to them. Deletions are sent at once. When the client is
    /// moved to another view, the time starts again.
    ///
    /// It should stay below the [does-not-exist timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds,
    /// or below half of it if clients are moved between views.
    After(Duration),
    /// Never, unless the resource existed and was deleted: for clients of servers that do not
    /// report missing names.
    Never,
}

/// Whether deletions are sent to incremental clients.
// M129, M133
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removals {
    /// Deletions are sent as removed names.
    #[default]
    Send,
    /// Deletions are not sent and the client keeps the resource, for types whose removal is harmful
    /// while another resource refers to them. Newly requested names that do not exist are still
    /// reported.
    Suppress,
}

/// Source of the versions that responses of a type state.
///
/// Which resources a response contains is decided by content, never by versions. Each resource also
/// has a version for incremental clients, which in all modes is derived from its content unless the
/// application sets one ([`ResourceOptions::version`](crate::server::ResourceOptions::version)).
// M69, M72
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionMode {
    /// A digest of the resources: equal versions mean equal resources on any server at any time. A
    /// full-state response to a client that subscribes by name has the version of these resources
    /// only.
    // M124, B06
    #[default]
    Content,
    /// A number that increases with every change, after
    /// [`ServerConfig::version_prefix`](super::ServerConfig::version_prefix). Numbers are unique
    /// among the views of a server and may have gaps. A response that does not contain all
    /// resources of a full-state type has a `~` and a digest instead of a number. Without a prefix,
    /// a reconnecting client is sent everything, as if [`ReconnectTrust::WildcardOnly`] were
    /// [`ReconnectTrust::Never`].
    Counter,
    /// A version that the application sets
    /// ([`Transaction::set_version`](crate::server::Transaction::set_version)). It has to set a new
    /// one whenever it changes a resource. A new version of unchanged resources is sent to
    /// state-of-the-world clients, with everything they subscribe to; incremental clients receive
    /// versions of single resources, so nothing is sent to them.
    ///
    /// The version applies to all resources of the type and is stated to all clients, including
    /// those that subscribe by name. [`ReconnectTrust::WildcardOnly`] is therefore treated as
    /// [`ReconnectTrust::Never`]. With [`ReconnectTrust::SameNames`] the application must never use
    /// a version for two sets of resources, across all views and restarts. If a full-state response
    /// differs from the application's state, because a deletion is withheld or a rejected resource
    /// is being isolated, a `~` and a digest are appended to the version.
    ///
    /// Views made of layers have versions as in [`Content`](Self::Content). So does a type until
    /// the application sets a version, and again after a time in which the type had neither
    /// resources nor clients.
    // M69
    Caller,
    /// A label that the application sets, as with [`Caller`](Self::Caller), but which does not
    /// identify the content: several sets of resources may have the same label, and a change
    /// without a new label keeps the old one. A reconnecting client is always sent everything, as
    /// with [`ReconnectTrust::Never`], and nothing is ever appended to a label.
    ///
    /// Detect NACKs by `error_detail` only in this mode; see
    /// [`NackDetection::ErrorDetailOrVersion`] for the limits of the alternative.
    Label,
}

impl VersionMode {
    /// Whether the application can set the version.
    pub(crate) fn is_given(self) -> bool {
        matches!(self, Self::Caller | Self::Label)
    }
}

/// Criterion that distinguishes a NACK from an ACK; see the [xDS protocol][spec].
///
/// [spec]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#xds-ack-nack
// M56, M57
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NackDetection {
    /// The request has an `error_detail`.
    // B04
    #[default]
    ErrorDetail,
    /// The request has an `error_detail`, or states a version other than the response's: for
    /// state-of-the-world clients older than that field. Such a client cannot reject a response
    /// whose version is unchanged.
    ///
    /// With [`VersionMode::Content`] and [`VersionMode::Counter`] different content has different
    /// versions, and with [`VersionMode::Caller`] it has if the application complies with the
    /// rules. With [`VersionMode::Label`], two responses may have the same label. A client that
    /// rejects the second states the label of both, and counts as having accepted it: it is sent
    /// the second response's resources again only when they change, and make before break
    /// ([`MakeBeforeBreakPolicy`](crate::server::MakeBeforeBreakPolicy)) or a wait for convergence continue too early. A new
    /// label with each change avoids this.
    // S0.078
    ErrorDetailOrVersion,
}

/// Maximum number of responses of one type that may wait for a client's answer on a stream; default
/// 1.
///
/// With 1, changes made meanwhile are merged into the next response. A higher number hides the
/// round-trip time. With make before break
/// ([`OrderingPolicy::MakeBeforeBreak`](super::OrderingPolicy::MakeBeforeBreak)) it is always 1.
// M113, IS16, M64
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(NonZeroU16);

impl Window {
    /// Creates a window of this many responses; 0 counts as 1.
    #[must_use]
    pub const fn new(responses: u16) -> Self {
        match NonZeroU16::new(responses) {
            Some(responses) => Self(responses),
            None => Self(NonZeroU16::MIN),
        }
    }

    /// Returns the number of responses.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl Default for Window {
    fn default() -> Self {
        Self(NonZeroU16::MIN)
    }
}

/// Whether the versions that a client states after a reconnect are trusted.
// M41, M42, X07, B06
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconnectTrust {
    /// Versions are not trusted: everything subscribed is sent on every new stream.
    Never,
    /// Trusted for wildcard subscriptions of full-state types: a first request for the wildcard
    /// alone that states the current version of all resources is not answered. If versions identify
    /// the content ([`VersionMode`]), the client was sent exactly these resources, by this or
    /// another replica. A client that has discarded some of them must not state the version.
    #[default]
    WildcardOnly,
    /// Trusted for names too: a first request that states the current version counts as coming from
    /// a client that subscribes to the same names as before and was sent all of them. For
    /// full-state types the version proves it. For other types it does not: a client that has since
    /// added a name, or has read only a part of a split response, is not sent what it lacks.
    // M42
    SameNames,
}

/// Policy for the unchanged resources of a rejected response.
///
/// With [`Minimal`](Self::Minimal) and [`ResendBatch`](Self::ResendBatch), a rejected response is
/// not repeated by itself. [`Isolate`](Self::Isolate) sends the suspected resources at once, one at a
/// time. Full-state responses repeat all resources with any change, under every policy.
// M54, M107, IS4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NackRecovery {
    /// Only changed resources are sent.
    Minimal,
    /// The unchanged resources of the rejected response are sent once more with the first change,
    /// because a client that discards a whole response for one invalid resource lacks the valid
    /// ones. A rejected full state is sent again when the client unsubscribes from a part of it,
    /// without that part.
    ///
    /// For other types, neither the client unsubscribing from the invalid resource, nor a deletion
    /// that is not sent to the client, is such a change: the valid resources are sent with the next
    /// change of any resource, or when the client requests them again. Resources that were sent
    /// again and rejected again are not sent until they change.
    ///
    /// Removed names of a rejected response are repeated with the next change only to incremental
    /// wildcard clients. They are not repeated to clients that subscribe by name, nor under [make
    /// before break](crate::server::OrderingPolicy::MakeBeforeBreak), where a removal is sent once, after
    /// the last reference to it is gone.
    // M77
    #[default]
    ResendBatch,
    /// The unchanged resources of the rejected response are sent one at a time, each once, to find
    /// those that the client rejects; afterwards it has all others. The rejected resource is
    /// reported ([`Observation::Isolated`](crate::server::Observation)).
    ///
    /// For full-state types each attempt contains the last ACKed state and one of the new
    /// resources, so the server keeps that state for each client that has rejected a later one. On a
    /// stream that begins with the statement of an older version, that state is unknown until the
    /// first ACK: the rejected resources are sent with the next change.
    ///
    /// An attempt contains nothing that the client was not sent before, so make before break does not
    /// hold it back.
    // M108
    Isolate,
}

/// Policy for a client that does not answer a response. Until it does, it is sent no more of the
/// type than the [`Window`] allows. Other clients are not delayed.
// M65, IS25
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerOverdue {
    /// Waits without limit and reports nothing.
    Wait,
    /// Reports [`Observation::AnswerOverdue`](crate::server::Observation) after this time, once per
    /// response, and continues to wait.
    Observe(Duration),
    /// Reports the response after this time and closes the stream with `DEADLINE_EXCEEDED`.
    Close(Duration),
    /// Reports the response after this time and stops waiting for it: another response may be sent.
    /// A client that never answers is sent at most one response in this time. A late answer counts
    /// while the response is one of the newest.
    OpenWindow(Duration),
}

impl AnswerOverdue {
    /// Returns the time after which an answer is overdue, if any.
    #[must_use]
    pub const fn after(self) -> Option<Duration> {
        match self {
            Self::Wait => None,
            Self::Observe(after) | Self::Close(after) | Self::OpenWindow(after) => Some(after),
        }
    }
}

impl Default for AnswerOverdue {
    /// [`Observe`](Self::Observe) after 30 seconds.
    fn default() -> Self {
        Self::Observe(Duration::from_secs(30))
    }
}
