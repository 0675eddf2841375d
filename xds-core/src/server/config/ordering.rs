//! Order in which the types of one stream are sent.

use alloc::sync::Arc;
use core::time::Duration;

use crate::references::{EnvoyReferences, ReferenceExtractor};

/// Order in which the types of one aggregated stream are sent.
///
/// See [Eventual consistency considerations][spec].
///
/// [spec]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
// M144-M158, IS17
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum OrderingPolicy {
    /// Types are sent as they become due.
    Off,
    /// Types that are due at the same time are sent in the order clusters, endpoints, listeners,
    /// routes, and so on; deletions are sent last, in reverse order. Nothing waits for an ACK.
    // IS17, S0.166
    #[default]
    OrderOnly,
    /// Make before break: resources that may refer to clusters are sent after the clusters are
    /// ACKed, and deletions after the client has ACKed the pending changes of the types that may
    /// refer to the deleted resource.
    MakeBeforeBreak(MakeBeforeBreakPolicy),
}

/// Make-before-break policy: sends a change in steps, each after the client has ACKed the one
/// before.
///
/// | type | sent after the ACK of | deletion sent after the ACK of |
/// |---|---|---|
/// | clusters | | listeners, routes, scoped routes, virtual hosts, extension configurations |
/// | endpoints | | clusters, and the endpoints that these name |
/// | secrets | | clusters, listeners, extension configurations |
/// | listeners | clusters, endpoints, secrets | |
/// | extension configurations | clusters, endpoints, secrets | listeners |
/// | routes | clusters, endpoints, secrets, listeners | listeners, scoped routes |
/// | scoped routes | clusters, endpoints, secrets, listeners, routes | listeners |
/// | virtual hosts | clusters, endpoints, secrets, listeners, routes, scoped routes | routes |
///
/// When a cluster changes to another endpoint resource, clients warm the new cluster while the old
/// one stays in use. The old endpoints are therefore deleted once the client has requested and
/// ACKed the new ones, or has not requested them within `stage_timeout`.
///
/// The table decides by type, not by reference: if a cluster is deleted and a route that refers to
/// it stays unchanged, nothing is pending, and the deletion is sent at once.
/// [`Consistency`](crate::references::Consistency) finds such a dangling reference before the
/// change is applied.
///
/// A type that the client does not subscribe to on the stream, or that has nothing to be sent,
/// delays nothing: a client that never requests endpoints receives its routes without them. A
/// change waits for the state of the other types at the time of the change, so continuously
/// changing endpoints do not block it. If a waiting change is replaced, the newest state is sent.
/// Streams do not wait for each other.
///
/// An incremental client that reconnects states its resources one type after the other. Deletions are
/// therefore left out of the first response to it, which is sent even if it is then empty, and follow
/// the table after the ACK of this response, when the client has subscribed to its other types.
///
/// The policy applies to aggregated streams only, because streams of single types are independent
/// of each other.
///
/// # Maximum delay of a requested resource
///
/// A client concludes that a resource does not exist if it does not arrive within [15
/// seconds](super::DOES_NOT_EXIST_TIMER) of the request. A resource that the client requests, for the first
/// time or again, is therefore held back for at most [`stage_timeout`](Self::stage_timeout) **in
/// total**, regardless of [`on_stage_timeout`](Self::on_stage_timeout). The time is measured per type from when its
/// request was first held back, and does not restart when the type begins to wait for another type.
/// After it the requested resources are sent without the other changes of their type, which
/// continue to wait, and
/// [`Observation::SentOutOfOrder`](crate::server::Observation::SentOutOfOrder) is reported. The same
/// holds for the deletion of a resource that an incremental client requests again. An
/// unanswered response of the same type still delays them ([`Window`](super::Window)).
///
/// # Costs
///
/// The cost is proportional to the change. When a client changes from names to the wildcard, the
/// names that it was sent are retained until it has ACKed the rest.
///
/// # Limits
///
/// The order is also kept for clients that reject responses or are moved to another view: a rejected
/// resource counts as unchanged or absent on the client, and a rejected deletion is sent again with each
/// change of the type until it is accepted. In the following cases, a client may nevertheless be sent a
/// resource that refers to one it lacks, or a deletion of a resource that it still refers to.
///
/// - A client that ACKs clusters before it first requests endpoints may receive routes to these clusters
///   before their endpoints, because the server cannot know whether it will ever request any. Envoy
///   requests them first.
/// - A requested resource is sent after `stage_timeout` whatever it refers to, because the client would
///   conclude that it does not exist. With full-state responses, and for a client of the wildcard, all
///   other changes of the type are then sent too.
/// - Deletions of endpoints, routes, and other types without full-state responses are not delayed for
///   state-of-the-world clients, because this variant has no message for them.
/// - What a state-of-the-world client has from an earlier stream is unknown until its first ACK, because
///   its requests state no names. If it rejects the last content of a resource whose deletion is withheld,
///   under [`StageTimeoutAction::Hold`] it rejects every response until the resource is set to acceptable
///   content or the stream ends.
/// - At most [`deletions_per_type`](super::ServerLimits::deletions_per_type) deletions of a type are held
///   back, and as many earlier contents of it are remembered, because memory is limited. Beyond that, the
///   oldest deletions are sent at once, and the server may wait for a request that does not come.
/// - A state-of-the-world client may use the valid clusters of a response that it rejects. The server
///   infers this from another request for endpoints, because a NACK does not state which resources are
///   in use.
// M77, M147, M149, IS25
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MakeBeforeBreakPolicy {
    /// Time that a change is held back before [`on_stage_timeout`](Self::on_stage_timeout) applies, and maximum
    /// total delay of a requested resource; default 5 seconds.
    ///
    /// Keep it well below the [does-not-exist timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds: it
    /// adds to [`decision`](super::ServerLimits::decision), and a client that waits longer
    /// concludes that existing resources do not exist.
    pub stage_timeout: Duration,
    /// Policy after `stage_timeout`.
    pub on_stage_timeout: StageTimeoutAction,
    /// Finds the references of clusters to endpoints; by default those of the v3 API. References of
    /// other types are not used: for them the table above decides by type. If the client
    /// subscribes to any endpoints on the stream, listeners and routes also wait until it has
    /// requested and ACKed the endpoints of new clusters. The wait for a missing request is limited
    /// by `stage_timeout`, regardless of [`on_stage_timeout`](Self::on_stage_timeout).
    ///
    /// With `None` the server does not know which endpoints belong to new clusters, and waits only
    /// for those that the client has already requested.
    pub references: Option<Arc<dyn ReferenceExtractor>>,
}

impl Default for MakeBeforeBreakPolicy {
    fn default() -> Self {
        Self {
            stage_timeout: Duration::from_secs(5),
            on_stage_timeout: StageTimeoutAction::default(),
            references: Some(Arc::new(EnvoyReferences)),
        }
    }
}

/// Policy for a change that waits for a client which rejects the previous step or does not answer
/// it. Both cases report [`Observation::Blocked`](crate::server::Observation::Blocked).
// M148
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StageTimeoutAction {
    /// The change continues to wait, and the client keeps its consistent state. Resources that it
    /// no longer requests, or that are deleted, delay nothing. Requested names that it never
    /// received are still answered after `stage_timeout`.
    #[default]
    Hold,
    /// The change is sent as if the client had ACKed the previous step.
    Continue,
}

impl OrderingPolicy {
    pub(crate) fn make_before_break(&self) -> Option<&MakeBeforeBreakPolicy> {
        match self {
            Self::MakeBeforeBreak(policy) => Some(policy),
            Self::Off | Self::OrderOnly => None,
        }
    }
}
