//! Resources of a management server.
#![allow(dead_code, reason = "each test program uses some of it")]

use prost::{Message, Name};
use xds_core::proto::{Any, BoolValue, UInt32Value, envoy::r#type::matcher::v3::RegexMatcher};
use xds_routing::{
    InvalidResource, Rules,
    proto::envoy::{
        config::{
            cluster::v3::{LoadBalancingPolicy, load_balancing_policy::Policy},
            core::v3::{
                Address, AggregatedConfigSource, ConfigSource, SocketAddress, TypedExtensionConfig,
                address, config_source::ConfigSourceSpecifier, socket_address::PortSpecifier,
            },
            listener::v3::{ApiListener, Listener},
            route::v3::{
                self as schema, HeaderMatcher, Route, RouteAction, RouteMatch, VirtualHost,
                header_matcher::HeaderMatchSpecifier, route_action::ClusterSpecifier,
                route_match::PathSpecifier, weighted_cluster::ClusterWeight,
            },
        },
        extensions::{
            filters::network::http_connection_manager::v3::{
                HttpConnectionManager, HttpFilter, Rds, http_connection_manager::RouteSpecifier,
                http_filter::ConfigType,
            },
            load_balancing_policies::{round_robin::v3::RoundRobin, wrr_locality::v3::WrrLocality},
        },
        r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
    route::RouteConfiguration,
    rules::ROUTER,
};

pub(crate) fn packed<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec().into() }
}

pub(crate) fn number(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

pub(crate) fn boolean(value: bool) -> Option<BoolValue> {
    Some(BoolValue { value })
}

pub(crate) fn regex(regex: &str) -> RegexMatcher {
    RegexMatcher { regex: regex.into(), ..RegexMatcher::default() }
}

pub(crate) fn prefix(prefix: &str) -> RouteMatch {
    on(PathSpecifier::Prefix(prefix.into()))
}

pub(crate) fn path(path: &str) -> RouteMatch {
    on(PathSpecifier::Path(path.into()))
}

pub(crate) fn safe_regex(pattern: &str) -> RouteMatch {
    on(PathSpecifier::SafeRegex(regex(pattern)))
}

pub(crate) fn on(path: PathSpecifier) -> RouteMatch {
    RouteMatch { path_specifier: Some(path), ..RouteMatch::default() }
}

pub(crate) fn with_header(
    mut matches: RouteMatch,
    name: &str,
    how: HeaderMatchSpecifier,
) -> RouteMatch {
    matches.headers.push(header(name, Some(how)));
    matches
}

pub(crate) fn header(name: &str, how: Option<HeaderMatchSpecifier>) -> HeaderMatcher {
    HeaderMatcher { name: name.into(), header_match_specifier: how, ..HeaderMatcher::default() }
}

pub(crate) fn with_fraction(
    mut matches: RouteMatch,
    numerator: u32,
    of: DenominatorType,
) -> RouteMatch {
    let percent = FractionalPercent { numerator, denominator: of as i32 };
    matches.runtime_fraction =
        Some(xds_routing::proto::envoy::config::core::v3::RuntimeFractionalPercent {
            default_value: Some(percent),
            runtime_key: "ignored".into(),
        });
    matches
}

pub(crate) fn cluster(name: &str) -> ClusterSpecifier {
    ClusterSpecifier::Cluster(name.into())
}

pub(crate) fn weighted(clusters: &[(&str, u32)]) -> ClusterSpecifier {
    let clusters = clusters.iter().map(|&(name, weight)| ClusterWeight {
        name: name.into(),
        weight: number(weight),
        ..ClusterWeight::default()
    });
    ClusterSpecifier::WeightedClusters(schema::WeightedCluster {
        clusters: clusters.collect(),
        ..schema::WeightedCluster::default()
    })
}

pub(crate) fn action(clusters: ClusterSpecifier) -> RouteAction {
    RouteAction { cluster_specifier: Some(clusters), ..RouteAction::default() }
}

pub(crate) fn route(matches: RouteMatch, clusters: ClusterSpecifier) -> Route {
    route_to(matches, action(clusters))
}

pub(crate) fn route_to(matches: RouteMatch, action: RouteAction) -> Route {
    Route {
        r#match: Some(matches),
        action: Some(schema::route::Action::Route(action)),
        ..Route::default()
    }
}

pub(crate) fn host(domains: &[&str], routes: Vec<Route>) -> VirtualHost {
    VirtualHost {
        name: domains.join(","),
        domains: domains.iter().map(ToString::to_string).collect(),
        routes,
        ..VirtualHost::default()
    }
}

pub(crate) fn routes(name: &str, virtual_hosts: Vec<VirtualHost>) -> schema::RouteConfiguration {
    schema::RouteConfiguration {
        name: name.into(),
        virtual_hosts,
        ..schema::RouteConfiguration::default()
    }
}

/// Creates a route configuration with one virtual host for every name.
pub(crate) fn table(list: Vec<Route>) -> schema::RouteConfiguration {
    routes("routes", vec![host(&["*"], list)])
}

pub(crate) fn validated(
    schema: &schema::RouteConfiguration,
) -> Result<RouteConfiguration, InvalidResource> {
    RouteConfiguration::from_schema(schema, &Rules::default())
}

pub(crate) fn valid(list: Vec<Route>) -> RouteConfiguration {
    validated(&table(list)).expect("a valid table")
}

/// Returns the errors of a table with this route, or an empty text if it is valid.
pub(crate) fn fault(route: Route) -> String {
    validated(&table(vec![route])).err().map(|invalid| invalid.to_string()).unwrap_or_default()
}

/// Returns the list of one LB policy.
pub(crate) fn policies<M: Message + Name>(config: &M) -> Option<LoadBalancingPolicy> {
    let typed_config = Some(packed(config));
    let config = TypedExtensionConfig { name: M::NAME.into(), typed_config };
    let policy = Policy { typed_extension_config: Some(config) };
    Some(LoadBalancingPolicy { policies: vec![policy] })
}

/// Returns an LB policy that the balancer does not implement: localities within localities.
pub(crate) fn unsupported_policy() -> Option<LoadBalancingPolicy> {
    let within = |endpoint_picking_policy| policies(&WrrLocality { endpoint_picking_policy });
    within(within(policies(&RoundRobin::default())))
}

pub(crate) fn ads() -> Option<ConfigSource> {
    let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource {});
    Some(ConfigSource { config_source_specifier: Some(ads), ..ConfigSource::default() })
}

pub(crate) fn address(ip: &str, port: u32) -> Address {
    Address {
        address: Some(address::Address::SocketAddress(SocketAddress {
            address: ip.into(),
            port_specifier: Some(PortSpecifier::PortValue(port)),
            ..SocketAddress::default()
        })),
    }
}

pub(crate) fn filter(name: &str, type_url: &str) -> HttpFilter {
    HttpFilter {
        name: name.into(),
        config_type: Some(ConfigType::TypedConfig(Any {
            type_url: type_url.into(),
            value: bytes::Bytes::new(),
        })),
        ..HttpFilter::default()
    }
}

pub(crate) fn manager(routes: RouteSpecifier) -> HttpConnectionManager {
    HttpConnectionManager {
        route_specifier: Some(routes),
        http_filters: vec![filter("router", ROUTER)],
        ..HttpConnectionManager::default()
    }
}

pub(crate) fn rds(name: &str) -> RouteSpecifier {
    RouteSpecifier::Rds(Rds { config_source: ads(), route_config_name: name.into() })
}

pub(crate) fn api_listener(name: &str, manager: &HttpConnectionManager) -> Listener {
    Listener {
        name: name.into(),
        api_listener: Some(ApiListener { api_listener: Some(packed(manager)) }),
        ..Listener::default()
    }
}
