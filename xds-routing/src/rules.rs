//! What is decided differently by implementations, profiles and generations of the API: plain data.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::pattern::ExpressionLimits;

/// By which rules resources are judged.
///
/// [`Rules::default`] is what gRPC does today: gRFC A28 as amended by those that came after it, with the HTTP filters
/// that are carried out here: sending on, and [faults](crate::filters::FaultInjection).
/// [`Rules::of_the_draft`] is A28 as it was first written down, for comparisons.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rules {
    /// What is looked at of the routes of a virtual host.
    pub routing: Routing,
    /// What `case_sensitive: false` means (X30).
    pub case_insensitive: CaseInsensitive,
    /// What becomes of routes whose action is not to route to a cluster (S2.095).
    pub other_actions: OtherActions,
    /// What becomes of routes without a cluster, or with one that is named in a way nobody knows (X31).
    pub unknown_clusters: UnknownClusters,
    /// What an absent `total_weight` means (X29).
    pub total_weight: TotalWeight,
    /// How much regular expressions may ask for.
    pub expressions: ExpressionLimits,
    /// HTTP filters that the data plane has, by the type URL of their configuration (A39). Where a resource asks for
    /// another one that is not optional, it is rejected: a client that passed over what it cannot do would do
    /// something else than it is told.
    pub http_filters: BTreeMap<String, HttpFilterKind>,
    /// Extensions that choose clusters, by the type URL of their configuration.
    pub cluster_specifiers: Vec<String>,
    /// LB policies that the data plane has of its own, by the type URL of their configuration (A52).
    /// Those of gRPC are known without.
    pub lb_policies: Vec<String>,
    /// The names of certificate providers in the bootstrap; `None` if whoever uses the values will see
    /// (A29).
    pub certificate_providers: Option<Vec<String>>,
}

/// What is looked at of the routes of a virtual host. This is where gRPC's guard
/// `GRPC_XDS_EXPERIMENTAL_ROUTING` has its effect (S2.065): whoever reads the environment sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Everything that A28 and what amends it says.
    Full,
    /// As A27 had it before there was routing: the last route, which is for all calls and leads to one cluster.
    /// What stands before it is not even read.
    LastRoute,
}

/// What `case_sensitive: false` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseInsensitive {
    /// Upper and lower case are the same in paths and prefixes.
    Honoured,
    /// The resource is rejected, as in A28's draft (S2.094).
    Rejected,
}

/// What becomes of routes with an action that a client has no use for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherActions {
    /// Calls that match them fail with UNAVAILABLE (A36).
    FailCalls,
    /// The resource is rejected, as in A28's draft.
    Rejected,
}

/// What becomes of routes whose cluster is named in no known way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownClusters {
    /// The route is passed over (A28 as amended).
    PassedOver,
    /// The resource is rejected, as in A28's draft; `cluster_header` is passed over all the same.
    Rejected,
}

/// What an absent `total_weight` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalWeight {
    /// The sum of the weights, whatever it is.
    Sum,
    /// 100, as in version 2 of the API.
    Hundred,
}

/// What is known of a kind of HTTP filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpFilterKind {
    /// Where it stands among the filters.
    pub place: FilterPlace,
    /// Whether clients, servers or both have it.
    pub sides: FilterSides,
    /// What a configuration of this type is for.
    pub role: FilterRole,
}

impl HttpFilterKind {
    /// A filter that stands there, at these sides. The same type is for listeners and for routes.
    #[must_use]
    pub const fn new(place: FilterPlace, sides: FilterSides) -> Self {
        Self { place, sides, role: FilterRole::Both }
    }

    /// With a type that is only for one of the two.
    #[must_use]
    pub const fn with_role(self, role: FilterRole) -> Self {
        Self { role, ..self }
    }
}

/// What configurations of a type are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRole {
    /// The filter itself, in a listener.
    Listener,
    /// What routes set for it.
    Override,
    /// Either.
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

/// Where a filter stands among the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPlace {
    /// Anywhere but at the end.
    Before,
    /// At the end, where requests are sent on.
    Last,
}

/// Which side has a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterSides {
    /// Clients only.
    Client,
    /// Servers only.
    Server,
    /// Either.
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

/// On which side of calls a listener stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// The type URL of the filter that sends requests on.
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
        let filters = [
            (ROUTER, HttpFilterKind::new(Last, FilterSides::Both).with_role(Listener)),
            (FAULT, HttpFilterKind::new(Before, FilterSides::Client)),
            (RBAC, HttpFilterKind::new(Before, FilterSides::Server).with_role(Listener)),
            (RBAC_OVERRIDE, HttpFilterKind::new(Before, FilterSides::Server).with_role(Override)),
        ];
        let filters = filters.map(|(url, kind)| (String::from(url), kind));
        Self {
            routing: Routing::Full,
            case_insensitive: CaseInsensitive::Honoured,
            other_actions: OtherActions::FailCalls,
            unknown_clusters: UnknownClusters::PassedOver,
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
    /// For a data plane that keeps the calls of a session with one endpoint (A55). That is not done here, so that the
    /// filter is not known otherwise.
    #[must_use]
    pub fn with_stateful_sessions(mut self) -> Self {
        for (url, role) in [
            (STATEFUL_SESSION, FilterRole::Listener),
            (STATEFUL_SESSION_OVERRIDE, FilterRole::Override),
        ] {
            let kind = HttpFilterKind::new(FilterPlace::Before, FilterSides::Client);
            self.http_filters.insert(url.into(), kind.with_role(role));
        }
        self
    }

    /// With another say on routes.
    #[must_use]
    pub fn with_routing(self, routing: Routing) -> Self {
        Self { routing, ..self }
    }

    /// A28 as it was first written down.
    #[must_use]
    pub fn of_the_draft() -> Self {
        Self {
            case_insensitive: CaseInsensitive::Rejected,
            other_actions: OtherActions::Rejected,
            unknown_clusters: UnknownClusters::Rejected,
            total_weight: TotalWeight::Hundred,
            ..Self::default()
        }
    }
}
