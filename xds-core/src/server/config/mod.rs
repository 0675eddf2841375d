//! Configuration of a server: protocol policies, limits and presets.
//!
//! All types are plain data. Settings of streams, or of several types together, are in
//! [`ServerConfig`]; settings of a subscription are in [`TypeConfig`] and can differ by type.

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
    limits::{PerClientLimits, ServerLimits},
    ordering::{MakeBeforeBreakPolicy, OrderingPolicy, StageTimeoutAction},
    policies::{
        Admission, HeartbeatFraction, NodeChanged, ObserveResponses, OnDemand, RequireNode,
        UnknownType, WarmedTypes, Warming,
    },
    type_config::{Absence, Globs, TypeConfig, TypeDefaults},
    type_policies::{
        AbsenceDelay, AnswerOverdue, LegacyWildcard, Missing, NackDetection, NackRecovery,
        ReconnectTrust, Removals, SotwResponse, VersionMode, WildcardExit, Window,
    },
    waits::DOES_NOT_EXIST_TIMER,
};
use crate::{
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
    /// Settings of the types that are not in `types`.
    pub type_defaults: TypeDefaults,
    /// Settings by type. A type listed here is known to the server even if it has no resources.
    pub types: BTreeMap<TypeUrl, TypeConfig>,
    /// Limits on what the server holds.
    pub limits: ServerLimits,
}

impl ServerConfig {
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

    /// Whether the type is configured, or one that this crate knows.
    pub(crate) fn knows_type(&self, type_url: &str) -> bool {
        self.types.contains_key(type_url) || types::short_name(type_url).is_some()
    }
}
