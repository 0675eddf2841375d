//! What a server is told at construction: policies where the field disagrees, and limits.
//!
//! Everything here is plain data. A default is the decided answer to a disagreement; the ids name
//! the scenarios in which implementations part ways. What concerns a stream or several types at once
//! is in [`ServerConfig`], what concerns one subscription in [`TypeConfig`], which every type can have
//! of its own.

pub(crate) mod debounce;
mod lifecycle;
mod limits;
mod ordering;
mod policies;
mod presets;
mod type_config;
mod type_policies;
mod waits;

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

pub use self::{
    debounce::Debounce,
    lifecycle::{DrainPlan, Rate, Readiness, StreamAge},
    limits::{ClientLimits, ServerLimits},
    ordering::{AckGated, OnStuck, OrderingPolicy},
    policies::{
        Admission, HeartbeatFraction, NodeChanged, ObserveResponses, OnDemand, RequireNode,
        UnknownType, Warmed, Warming,
    },
    type_config::{Absence, Globs, TypeConfig, TypeDefaults},
    type_policies::{
        AbsenceGrace, AnswerOverdue, LegacyWildcard, Missing, NackDetection, NackRecovery,
        ReconnectTrust, Removals, SotwResponse, VersionMode, WildcardExit, Window,
    },
    waits::DOES_NOT_EXIST_TIMER,
};
use crate::{
    text::{TypeUrl, VersionPrefix},
    types,
};

/// Everything a [`Server`](super::Server) needs to know.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// What becomes of a stream whose first request names no node.
    pub require_node: RequireNode,
    /// What becomes of a stream on which a later request has another node.
    pub node_changed: NodeChanged,
    /// Who decides what a client sees.
    pub admission: Admission,
    /// What becomes of a request for a type that the server knows nothing of.
    pub unknown_type: UnknownType,
    /// Whether endpoints are sent again after clusters.
    pub warming: Warming,
    /// In what order the types of one stream are sent, and what waits for what.
    pub ordering: OrderingPolicy,
    /// What else is sent again then.
    pub warmed: Warmed,
    /// Whether the application is told what is asked for and missing.
    pub on_demand: OnDemand,
    /// Types of which the server knows nothing but that they are the application's (M21): whatever a client
    /// says of one is passed on with [`ServerOutput::Aside`](super::ServerOutput::Aside), also before it
    /// has said who it is, and subscribes to nothing.
    /// [`Server::send_aside`](super::Server::send_aside) answers.
    pub asides: BTreeSet<TypeUrl>,
    /// Whether changes that come one after the other are told together; by default each is told at once.
    pub debounce: Option<Debounce>,
    /// How long a view is kept that no client sees; for ever by default. The time starts when the view is
    /// made and whenever the last client has gone, and the view is
    /// [reported](super::ServerOutput::ViewDropped) to go (M221). Layers of a view that is kept are kept.
    pub idle_views: Option<Duration>,
    /// Whether the server takes streams from the start.
    pub readiness: Readiness,
    /// Whether each response is observed ([`Observation::Sent`](super::Observation::Sent)).
    pub observe_responses: ObserveResponses,
    /// How old a stream may become; no limit by default.
    pub max_stream_age: Option<StreamAge>,
    /// When a resource with a TTL is renewed.
    pub heartbeat_fraction: HeartbeatFraction,
    /// What counted versions begin with ([`VersionMode::Counter`]): for each run of the server another one,
    /// such as the time at which it started, since the count begins anew.
    pub version_prefix: VersionPrefix,
    /// How types are served that are not in `types`.
    pub type_defaults: TypeDefaults,
    /// How the types in it are served. A type listed here is known to the server even while it has
    /// no resources.
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

    /// Changes how all types are served, those in `types` included.
    #[must_use]
    pub fn with_every_type(mut self, mut change: impl FnMut(&mut TypeConfig)) -> Self {
        change(&mut self.type_defaults.full_state);
        change(&mut self.type_defaults.others);
        self.types.values_mut().for_each(change);
        self
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn type_config(&self, type_url: &str) -> TypeConfig {
        let unlisted = if types::is_full_state_in_sotw(type_url) {
            self.type_defaults.full_state
        } else {
            self.type_defaults.others
        };
        self.types.get(type_url).copied().unwrap_or(unlisted)
    }

    /// Whether the type is one the server was told of or ships with.
    pub(crate) fn names_type(&self, type_url: &str) -> bool {
        self.types.contains_key(type_url) || types::short_name(type_url).is_some()
    }
}
