//! What a server is told at construction: policies where the field disagrees, and limits.
//!
//! Everything here is plain data. A default is the decided answer to a disagreement; the ids name
//! the scenarios in which implementations part ways.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::{text::TypeUrl, types};

/// Everything a [`Server`](super::Server) needs to know.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// What becomes of a stream whose first request names no node.
    pub require_node: RequireNode,
    /// Who decides what a client sees.
    pub admission: Admission,
    /// Whether a client's word on what it holds is taken after a reconnect.
    pub reconnect_trust: ReconnectTrust,
    /// What happens to the unchanged resources of a rejected response.
    pub nack_recovery: NackRecovery,
    /// Whether endpoints are sent again after clusters.
    pub warming: Warming,
    /// What becomes of a client that does not answer a response.
    pub answer_overdue: AnswerOverdue,
    /// Types that differ from [`TypeConfig::of`]. A type listed here is known to the server even
    /// while it has no resources.
    pub types: BTreeMap<TypeUrl, TypeConfig>,
    /// What a single client, or the application, can make the server hold.
    pub limits: ServerLimits,
}

impl ServerConfig {
    /// Sets how one type is served.
    #[must_use]
    pub fn with_type(mut self, type_url: impl Into<TypeUrl>, config: TypeConfig) -> Self {
        self.types.insert(type_url.into(), config);
        self
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn type_config(&self, type_url: &str) -> TypeConfig {
        self.types.get(type_url).copied().unwrap_or_else(|| TypeConfig::of(type_url))
    }

    /// Whether the type is one the server was told of or ships with.
    pub(crate) fn names_type(&self, type_url: &str) -> bool {
        self.types.contains_key(type_url) || types::short_name(type_url).is_some()
    }
}

/// How the resources of one type are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeConfig {
    /// What a state-of-the-world response of the type stands for.
    pub sotw_response: SotwResponse,
    /// What an empty list of names means before the first name.
    pub legacy_wildcard: LegacyWildcard,
}

impl TypeConfig {
    /// The rules of the v3 API: listeners and clusters are full state (S0.112) and know the legacy
    /// wildcard (S0.104); all other types do not, since proxies send an empty first list of routes
    /// or endpoints that means "none" (M32).
    #[must_use]
    pub fn of(type_url: &str) -> Self {
        if types::is_full_state_in_sotw(type_url) {
            Self {
                sotw_response: SotwResponse::FullState,
                legacy_wildcard: LegacyWildcard::Honored,
            }
        } else {
            Self { sotw_response: SotwResponse::Changes, legacy_wildcard: LegacyWildcard::Ignored }
        }
    }
}

/// What a state-of-the-world response of a type stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SotwResponse {
    /// Every subscribed resource that exists; absence is deletion (S0.112, M74, M76).
    FullState,
    /// The resources that are new to the client or changed; deletion is silent (S0.111, M75, M77).
    Changes,
}

/// What an empty list of names means while no request of the type on the stream has named any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LegacyWildcard {
    /// A subscription to everything (M22).
    Honored,
    /// A subscription to nothing (M32); the name `*` still subscribes to everything.
    Ignored,
}

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
    /// ([`ServerOutput::Authorize`](super::ServerOutput::Authorize)). Requests wait until it has
    /// [assigned](super::Server::assign) a view.
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
    /// After this time it is observed ([`Observation::AnswerOverdue`](super::Observation)), once for
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

/// What a single client, or the application, can make the server hold (M242, IS24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Streams open at a time; default 100,000.
    pub streams: usize,
    /// Resource types subscribed on one stream; default 64.
    pub types_per_stream: usize,
    /// Names subscribed on one stream, over all types; default 1,000,000. Names repeated within a
    /// request count. As many again may be remembered for clients that go over to the wildcard.
    pub names_per_stream: usize,
    /// Bytes of a resource name, type URL or node id; default 2,048.
    pub name_bytes: usize,
    /// Bytes of an encoded node; default 1 MiB. Envoy's, with all its extensions, has some 80 KiB.
    pub node_bytes: usize,
    /// Views; default 100,000.
    pub views: usize,
    /// Requests held back on a stream until a view is assigned to it; default 64.
    pub latched_requests: usize,
    /// Resources in the store, over all types and views; default 10,000,000.
    pub resources: usize,
    /// Deletions remembered per type for incremental clients that have not been told of them; default
    /// 10,000. A client that is further behind is closed, and comes back to say what it has (M231).
    pub deletions_per_type: usize,
    /// Bytes of one resource; default 64 MiB.
    pub resource_bytes: usize,
    /// Bytes of resources in one response; default 4 MiB less 16 KiB, which fits gRPC's default for
    /// what a client takes. What exceeds it is sent in several responses, one behind the other's
    /// ACK, except in full state, which cannot be split and is reported instead (M83).
    pub response_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            streams: 100_000,
            types_per_stream: 64,
            names_per_stream: 1_000_000,
            name_bytes: 2_048,
            node_bytes: 1 << 20,
            views: 100_000,
            latched_requests: 64,
            resources: 10_000_000,
            deletions_per_type: 10_000,
            resource_bytes: 64 << 20,
            response_bytes: (4 << 20) - (16 << 10),
        }
    }
}
