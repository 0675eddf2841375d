//! Validation rules that differ between implementations, profiles and versions of the API.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::pattern::ExpressionLimits;

/// Rules by which resources are validated.
///
/// [`Rules::default`] follows current gRPC: [gRFC A28] as amended by later proposals, with gRPC's
/// HTTP filters: the router, for clients [fault injection](crate::filters::FaultInjection) and
/// [session affinity](crate::filters::StatefulSession), and for servers
/// [RBAC](crate::filters::Rbac). [`Rules::initial_a28`] follows the first version of A28, for
/// comparisons.
///
/// [gRFC A28]:
///     https://github.com/grpc/proposal/blob/master/A28-xds-traffic-splitting-and-routing.md
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rules {
    /// Routes of a virtual host that are used. Default: all.
    pub routing: Routing,
    /// Treatment of `case_sensitive: false`. Default: paths match case-insensitively.
    // X30
    pub case_insensitive: CaseInsensitive,
    /// Treatment of routes whose action does not forward to a cluster. Default: their calls fail.
    // S2.095
    pub other_actions: OtherActions,
    /// Treatment of routes without a cluster specifier or with an unknown one. Default: such a
    /// route is skipped.
    // X31
    pub unknown_clusters: UnknownClusters,
    /// Value of an absent `total_weight`. Default: the sum of the weights.
    // X29
    pub total_weight: TotalWeight,
    /// Limits on regular expressions.
    pub expressions: ExpressionLimits,
    /// HTTP filters that the data plane supports, by the type URL of their configuration
    /// ([gRFC A39]). A resource with an unsupported filter that is not optional is rejected,
    /// because ignoring the filter would change the behavior that the server configured.
    ///
    /// [gRFC A39]: https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md
    pub http_filters: BTreeMap<String, HttpFilterKind>,
    /// Supported cluster specifier plugins, by the type URL of their configuration. Default: none.
    pub cluster_specifiers: Vec<String>,
    /// LB policies that the data plane supports in addition to gRPC's, by the type URL of their
    /// configuration ([gRFC A52]). Default: none.
    ///
    /// [gRFC A52]: https://github.com/grpc/proposal/blob/master/A52-xds-custom-lb-policies.md
    pub lb_policies: Vec<String>,
    /// Names of the certificate providers in the bootstrap ([gRFC A29]). A resource that names any
    /// other provider is rejected. `None`, the default, disables the check.
    ///
    /// [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
    pub certificate_providers: Option<Vec<String>>,
}

/// Routes of a virtual host that are used.
///
/// The caller sets this from gRPC's environment variable `GRPC_XDS_EXPERIMENTAL_ROUTING`.
// S2.065
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Routing {
    /// All routes, as in gRFC A28 and its amendments.
    Full,
    /// Only the last route, as in gRFC A27, which had no routing. The route must match every call
    /// and name one cluster. Earlier routes are not even validated.
    LastRoute,
}

/// Treatment of `case_sensitive: false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseInsensitive {
    /// Paths and prefixes match case-insensitively.
    Accepted,
    /// The resource is rejected, as in the first version of A28.
    // S2.094
    Rejected,
}

/// Treatment of routes with an action that a client does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtherActions {
    /// Matching calls fail with UNAVAILABLE (gRFC A36).
    FailCalls,
    /// The resource is rejected, as in the first version of A28.
    Rejected,
}

/// Treatment of routes without a cluster specifier or with an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownClusters {
    /// The route is skipped (gRFC A28 as amended).
    Skipped,
    /// The resource is rejected, as in the first version of A28. A route with `cluster_header` is
    /// skipped nevertheless.
    Rejected,
}

/// Value of an absent `total_weight`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TotalWeight {
    /// The sum of the weights.
    Sum,
    /// 100, as in version 2 of the API.
    Hundred,
}

/// Properties of a supported HTTP filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpFilterKind {
    /// Position within the filter chain.
    pub place: FilterPlace,
    /// Sides that support the filter.
    pub sides: FilterSides,
    /// Places where this type of configuration may appear.
    pub role: FilterRole,
}

impl HttpFilterKind {
    /// Creates a filter kind whose configuration is valid in listeners and in route overrides.
    #[must_use]
    pub const fn new(place: FilterPlace, sides: FilterSides) -> Self {
        Self { place, sides, role: FilterRole::Both }
    }

    /// Restricts the places where this type of configuration may appear.
    #[must_use]
    pub const fn with_role(self, role: FilterRole) -> Self {
        Self { role, ..self }
    }
}

/// Places where a type of filter configuration may appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRole {
    /// The filter chain of a listener.
    Listener,
    /// Overrides in virtual hosts, routes and weighted clusters.
    Override,
    /// Listeners and overrides.
    Both,
}

impl FilterRole {
    pub(crate) const fn is_for_listeners(self) -> bool {
        matches!(self, Self::Listener | Self::Both)
    }

    pub(crate) const fn is_for_routes(self) -> bool {
        matches!(self, Self::Override | Self::Both)
    }
}

/// Position of a filter within the filter chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPlace {
    /// Before the terminal filter.
    Before,
    /// Terminal filter: the last one, which forwards requests.
    Last,
}

/// Sides of a call that support a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterSides {
    /// Clients only.
    Client,
    /// Servers only.
    Server,
    /// Clients and servers.
    Both,
}

impl FilterSides {
    pub(crate) const fn include(self, side: Side) -> bool {
        match self {
            Self::Client => matches!(side, Side::Client),
            Self::Server => matches!(side, Side::Server),
            Self::Both => true,
        }
    }
}

/// Side of a call that a listener configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Type URL of the router filter, which forwards requests.
pub const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
pub(crate) const FAULT: &str =
    "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
pub(crate) const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
pub(crate) const RBAC_OVERRIDE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute";
pub(crate) const STATEFUL_SESSION: &str =
    "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession";
pub(crate) const STATEFUL_SESSION_OVERRIDE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";

impl Default for Rules {
    fn default() -> Self {
        use FilterPlace::{Before, Last};
        use FilterRole::{Listener, Override};
        let client = HttpFilterKind::new(Before, FilterSides::Client);
        let filters = [
            (ROUTER, HttpFilterKind::new(Last, FilterSides::Both).with_role(Listener)),
            (FAULT, client),
            (STATEFUL_SESSION, client.with_role(Listener)),
            (STATEFUL_SESSION_OVERRIDE, client.with_role(Override)),
            (RBAC, HttpFilterKind::new(Before, FilterSides::Server).with_role(Listener)),
            (RBAC_OVERRIDE, HttpFilterKind::new(Before, FilterSides::Server).with_role(Override)),
        ];
        let filters = filters.map(|(url, kind)| (String::from(url), kind));
        Self {
            routing: Routing::Full,
            case_insensitive: CaseInsensitive::Accepted,
            other_actions: OtherActions::FailCalls,
            unknown_clusters: UnknownClusters::Skipped,
            total_weight: TotalWeight::Sum,
            expressions: ExpressionLimits::default(),
            http_filters: filters.into(),
            cluster_specifiers: Vec::new(),
            lb_policies: Vec::new(),
            certificate_providers: None,
        }
    }
}

impl Rules {
    /// Sets which routes of a virtual host are used.
    #[must_use]
    pub fn with_routing(self, routing: Routing) -> Self {
        Self { routing, ..self }
    }

    /// Creates the rules of the first version of A28.
    #[must_use]
    pub fn initial_a28() -> Self {
        Self {
            case_insensitive: CaseInsensitive::Rejected,
            other_actions: OtherActions::Rejected,
            unknown_clusters: UnknownClusters::Rejected,
            total_weight: TotalWeight::Hundred,
            ..Self::default()
        }
    }
}
