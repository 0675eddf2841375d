//! Configuration of a server: protocol policies, limits and presets.
//!
//! All types are plain data. Settings of streams, or of several types together, are in
//! [`ServerConfig`]; settings of a subscription are in [`TypeConfig`] and can differ by type.

mod lifecycle;
mod limits;
mod ordering;
mod policies;
mod presets;
mod source;
mod type_config;
mod type_policies;
mod waits;

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

pub use self::{
    lifecycle::{DrainPlan, Rate, Readiness, StreamAge},
    limits::{PerClientLimits, ServerLimits},
    ordering::{MakeBeforeBreakPolicy, OrderingPolicy, StageTimeoutAction},
    policies::{
        Admission, HeartbeatFraction, NodeChanged, ObserveResponses, OnDemand, RequireNode,
        UnknownType, WarmedTypes, Warming,
    },
    source::{Confirmation, SourcePolicy},
    type_config::{Absence, Globs, TypeConfig, TypeDefaults},
    type_policies::{
        AbsenceDelay, AnswerOverdue, LegacyWildcard, Missing, NackDetection, NackRecovery,
        ReconnectTrust, Removals, SotwResponse, VersionMode, WildcardExit, Window,
    },
    waits::DOES_NOT_EXIST_TIMER,
};
use crate::{
    debounce::Debounce,
    text::{TypeUrl, VersionPrefix},
    types,
};

/// Configuration of a [`Server`](super::Server).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Policy for streams whose first request has no node id.
    pub require_node: RequireNode,
    /// Policy for streams on which a later request has a different node.
    pub node_changed: NodeChanged,
    /// Whether the application decides which clients are served, and with which view.
    pub admission: Admission,
    /// Policy for requests of a type that the server does not know.
    pub unknown_type: UnknownType,
    /// Whether endpoints are sent again after clusters.
    pub warming: Warming,
    /// Order in which the types of one stream are sent.
    pub ordering: OrderingPolicy,
    /// Types that are sent again under `warming`.
    pub warmed_types: WarmedTypes,
    /// Whether the application is notified of requested resources that do not exist.
    pub on_demand: OnDemand,
    /// Types whose messages the application handles itself. Each request of such a type is passed
    /// on as [`ServerEvent::CustomMessage`](super::ServerEvent::CustomMessage), even before the client has sent
    /// its node, and subscribes to nothing. Answer with
    /// [`Server::send_custom_message`](super::Server::send_custom_message).
    // M21
    pub custom_message_types: BTreeSet<TypeUrl>,
    /// Coalescing of changes; `None`, the default, sends each change at once.
    ///
    /// Only the sending of changes is delayed. A transaction takes effect at once: a client that
    /// sends a request meanwhile is answered with the current state, and delayed clients receive
    /// the newest state.
    ///
    /// A requested name that is created is delayed like any other change. Keep the maximum delay
    /// below the [does-not-exist timer](super::DOES_NOT_EXIST_TIMER) of 15 seconds, after which
    /// clients conclude that the resource does not exist.
    pub debounce: Option<Debounce>,
    /// Time that a view without clients is kept; `None`, the default, keeps it forever. The time
    /// starts when the view is created and whenever its last client leaves, and the removal is
    /// [reported](super::ServerEvent::ViewDropped). Layers of a kept view are kept too.
    // M221
    pub idle_view_timeout: Option<Duration>,
    /// Whether the server answers requests from the start.
    pub readiness: Readiness,
    /// Whether every response is reported ([`Observation::Sent`](super::Observation::Sent)).
    pub observe_responses: ObserveResponses,
    /// Maximum age of a stream; no limit by default.
    pub max_stream_age: Option<StreamAge>,
    /// Part of its TTL after which a resource is renewed by a heartbeat.
    pub heartbeat_fraction: HeartbeatFraction,
    /// Prefix of counted versions ([`VersionMode::Counter`]). Use a different prefix for each run
    /// of the server, such as its start time, because counting restarts.
    pub version_prefix: VersionPrefix,
    /// Policy of a server that follows a source together with other servers.
    pub source: SourcePolicy,
    /// Settings of the types that are not in `types`.
    pub type_defaults: TypeDefaults,
    /// Settings by type. A type listed here is known to the server even if it has no resources.
    pub types: BTreeMap<TypeUrl, TypeConfig>,
    /// Limits on what the server holds.
    pub limits: ServerLimits,
}

impl ServerConfig {
    /// Sets the policy for streams whose first request has no node id.
    #[must_use]
    pub fn with_require_node(mut self, require_node: RequireNode) -> Self {
        self.require_node = require_node;
        self
    }

    /// Sets the policy for streams on which a later request has a different node.
    #[must_use]
    pub fn with_node_changed(mut self, node_changed: NodeChanged) -> Self {
        self.node_changed = node_changed;
        self
    }

    /// Sets whether the application decides which clients are served, and with which view.
    #[must_use]
    pub fn with_admission(mut self, admission: Admission) -> Self {
        self.admission = admission;
        self
    }

    /// Sets the policy for requests of a type that the server does not know.
    #[must_use]
    pub fn with_unknown_type(mut self, unknown_type: UnknownType) -> Self {
        self.unknown_type = unknown_type;
        self
    }

    /// Sets whether endpoints are sent again after clusters.
    #[must_use]
    pub fn with_warming(mut self, warming: Warming) -> Self {
        self.warming = warming;
        self
    }

    /// Sets the order in which the types of one stream are sent.
    #[must_use]
    pub fn with_ordering(mut self, ordering: OrderingPolicy) -> Self {
        self.ordering = ordering;
        self
    }

    /// Sets the types that are sent again under [`warming`](Self::warming).
    #[must_use]
    pub fn with_warmed_types(mut self, warmed_types: WarmedTypes) -> Self {
        self.warmed_types = warmed_types;
        self
    }

    /// Sets whether the application is notified of requested resources that do not exist.
    #[must_use]
    pub fn with_on_demand(mut self, on_demand: OnDemand) -> Self {
        self.on_demand = on_demand;
        self
    }

    /// Adds a type whose messages the application handles itself.
    #[must_use]
    pub fn with_custom_message_type(mut self, type_url: impl Into<TypeUrl>) -> Self {
        self.custom_message_types.insert(type_url.into());
        self
    }

    /// Sets the coalescing of changes.
    #[must_use]
    pub fn with_debounce(mut self, debounce: Debounce) -> Self {
        self.debounce = Some(debounce);
        self
    }

    /// Sets the time that a view without clients is kept.
    #[must_use]
    pub fn with_idle_view_timeout(mut self, timeout: Duration) -> Self {
        self.idle_view_timeout = Some(timeout);
        self
    }

    /// Sets whether the server answers requests from the start.
    #[must_use]
    pub fn with_readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }

    /// Sets whether every response is reported.
    #[must_use]
    pub fn with_observe_responses(mut self, observe_responses: ObserveResponses) -> Self {
        self.observe_responses = observe_responses;
        self
    }

    /// Sets the maximum age of a stream.
    #[must_use]
    pub fn with_max_stream_age(mut self, max_stream_age: StreamAge) -> Self {
        self.max_stream_age = Some(max_stream_age);
        self
    }

    /// Sets the part of its TTL after which a resource is renewed by a heartbeat.
    #[must_use]
    pub fn with_heartbeat_fraction(mut self, heartbeat_fraction: HeartbeatFraction) -> Self {
        self.heartbeat_fraction = heartbeat_fraction;
        self
    }

    /// Sets the prefix of counted versions.
    #[must_use]
    pub fn with_version_prefix(mut self, version_prefix: impl Into<VersionPrefix>) -> Self {
        self.version_prefix = version_prefix.into();
        self
    }

    /// Sets the policy of a server that follows a source together with other servers.
    #[must_use]
    pub fn with_source(mut self, source: SourcePolicy) -> Self {
        self.source = source;
        self
    }

    /// Sets the settings of the types that have none of their own.
    #[must_use]
    pub fn with_type_defaults(mut self, type_defaults: TypeDefaults) -> Self {
        self.type_defaults = type_defaults;
        self
    }

    /// Sets how one type is served.
    #[must_use]
    pub fn with_type(mut self, type_url: impl Into<TypeUrl>, config: TypeConfig) -> Self {
        self.types.insert(type_url.into(), config);
        self
    }

    /// Applies a change to the settings of all types, including those in `types`.
    #[must_use]
    pub fn with_every_type(mut self, mut change: impl FnMut(&mut TypeConfig)) -> Self {
        change(&mut self.type_defaults.full_state);
        change(&mut self.type_defaults.others);
        self.types.values_mut().for_each(change);
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn type_config(&self, type_url: &str) -> TypeConfig {
        self.types.get(type_url).copied().unwrap_or_else(|| self.type_defaults.of(type_url))
    }

    /// Whether the type is configured, or one that this crate knows.
    pub(crate) fn knows_type(&self, type_url: &str) -> bool {
        self.types.contains_key(type_url) || types::short_name(type_url).is_some()
    }
}
