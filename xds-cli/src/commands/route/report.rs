//! Explanation of a request, as `-o json` prints it.

use std::collections::BTreeMap;

use serde::Serialize;

/// Explanation of the route of a request.
#[derive(Debug, Default, Serialize)]
pub(super) struct Explanation {
    pub(super) request: RequestReport,
    /// `envoy` or `grpc`.
    pub(super) rules: &'static str,
    pub(super) listener: Option<ListenerReport>,
    pub(super) route_config: Option<String>,
    pub(super) virtual_host: Option<HostReport>,
    /// Routes of the virtual host, in order.
    pub(super) routes: Vec<RouteReport>,
    /// Outcomes of the request. If there are several, each has a share below 1.
    pub(super) outcomes: Vec<RouteOutcome>,
    /// Facts that the explanation does not take into account.
    pub(super) notes: Vec<String>,
    /// Reasons why the request, or a part of such requests, fails.
    pub(super) problems: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct RequestReport {
    pub(super) scheme: &'static str,
    pub(super) host: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
pub(super) struct ListenerReport {
    pub(super) name: String,
    pub(super) address: Option<String>,
    /// Name of the filter chain, if it has one.
    pub(super) filter_chain: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct HostReport {
    pub(super) name: String,
    /// Index in the route configuration.
    pub(super) index: usize,
    /// Domain that matched.
    pub(super) domain: String,
}

#[derive(Debug, Serialize)]
pub(super) struct RouteReport {
    pub(super) index: usize,
    pub(super) name: Option<String>,
    #[serde(rename = "match")]
    pub(super) matches: String,
    /// `used`, `no_match`, `skipped` or `not_reached`.
    pub(super) state: RouteState,
    /// Share of such requests that use the route, from 0 to 1.
    pub(super) share: f64,
    /// First criterion that the request does not meet, or another reason.
    pub(super) reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RouteState {
    Used,
    NoMatch,
    Skipped,
    NotReached,
}

/// Outcome of a share of the requests.
#[derive(Debug, Serialize)]
pub(super) struct RouteOutcome {
    pub(super) share: f64,
    /// Index of the route.
    pub(super) route: Option<usize>,
    #[serde(flatten)]
    pub(super) action: Action,
    /// Timeouts, retries and rewrites, as text.
    pub(super) settings: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub(super) enum Action {
    Forward {
        clusters: Vec<ClusterShare>,
        /// Path and host that the cluster sees.
        path: String,
        host: String,
    },
    Redirect {
        status: u64,
        location: String,
    },
    DirectResponse {
        status: u64,
    },
    Fail {
        reason: String,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct ClusterShare {
    pub(super) name: String,
    /// Share of the requests of the route, from 0 to 1.
    pub(super) share: f64,
    /// Weight, if the route has several clusters.
    pub(super) weight: Option<u64>,
    /// `None` if the cluster does not exist.
    pub(super) cluster: Option<ClusterReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct ClusterReport {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) lb_policy: String,
    /// Name of the resource with the endpoints, if it is a separate one.
    pub(super) endpoints_name: Option<String>,
    /// Endpoints by priority and locality.
    pub(super) localities: Vec<LocalityReport>,
    /// Clusters of an aggregate cluster.
    pub(super) aggregates: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct LocalityReport {
    /// Region, zone and sub-zone, joined by slashes.
    pub(super) locality: String,
    pub(super) priority: u64,
    pub(super) weight: Option<u64>,
    pub(super) endpoints: Vec<EndpointReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct EndpointReport {
    pub(super) address: String,
    pub(super) health: String,
    pub(super) weight: Option<u64>,
}
