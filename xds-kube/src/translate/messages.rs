//! Messages of the [Envoy API](https://www.envoyproxy.io/docs/envoy/latest/api-v3/api), with the
//! fields that are set here.

use prost::Message;

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

impl Any {
    pub(super) fn of(message_type: &str, message: &impl Message) -> Self {
        let type_url = format!("type.googleapis.com/{message_type}");
        Self { type_url, value: message.encode_to_vec() }
    }
}

/// `envoy.config.listener.v3.Listener`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Listener {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "19")]
    pub(super) api_listener: Option<ApiListener>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ApiListener {
    #[prost(message, optional, tag = "1")]
    pub(super) api_listener: Option<Any>,
}

/// `envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpConnectionManager {
    #[prost(string, tag = "2")]
    pub(super) stat_prefix: String,
    #[prost(message, optional, tag = "3")]
    pub(super) rds: Option<Rds>,
    #[prost(message, repeated, tag = "5")]
    pub(super) http_filters: Vec<HttpFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Rds {
    #[prost(message, optional, tag = "1")]
    pub(super) config_source: Option<ConfigSource>,
    #[prost(string, tag = "2")]
    pub(super) route_config_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConfigSource {
    /// `AggregatedConfigSource`, which is empty.
    #[prost(message, optional, tag = "3")]
    pub(super) ads: Option<Empty>,
    #[prost(int32, tag = "6")]
    pub(super) resource_api_version: i32,
}

impl ConfigSource {
    /// Value `V3` of `ApiVersion`.
    const V3: i32 = 2;

    /// The stream that the resource itself comes from.
    pub(super) const fn aggregated() -> Self {
        Self { ads: Some(Empty {}), resource_api_version: Self::V3 }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpFilter {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "4")]
    pub(super) typed_config: Option<Any>,
}

/// `envoy.config.route.v3.RouteConfiguration`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RouteConfiguration {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) virtual_hosts: Vec<VirtualHost>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VirtualHost {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) domains: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub(super) routes: Vec<Route>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Route {
    #[prost(message, optional, tag = "1")]
    pub(super) r#match: Option<RouteMatch>,
    #[prost(message, optional, tag = "2")]
    pub(super) route: Option<RouteAction>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RouteMatch {
    /// Always written: it is the alternative of a oneof.
    #[prost(string, optional, tag = "1")]
    pub(super) prefix: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RouteAction {
    #[prost(string, optional, tag = "1")]
    pub(super) cluster: Option<String>,
}

/// `envoy.config.cluster.v3.Cluster`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Cluster {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, optional, tag = "2")]
    pub(super) discovery_type: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub(super) eds_cluster_config: Option<EdsClusterConfig>,
}

impl Cluster {
    /// Value `EDS` of `DiscoveryType`.
    pub(super) const EDS: i32 = 3;
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EdsClusterConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) eds_config: Option<ConfigSource>,
}

/// `envoy.config.endpoint.v3.ClusterLoadAssignment`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ClusterLoadAssignment {
    #[prost(string, tag = "1")]
    pub(super) cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) endpoints: Vec<LocalityLbEndpoints>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LocalityLbEndpoints {
    #[prost(message, optional, tag = "1")]
    pub(super) locality: Option<Locality>,
    #[prost(message, repeated, tag = "2")]
    pub(super) lb_endpoints: Vec<LbEndpoint>,
    #[prost(message, optional, tag = "3")]
    pub(super) load_balancing_weight: Option<UInt32Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UInt32Value {
    #[prost(uint32, tag = "1")]
    pub(super) value: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Locality {
    #[prost(string, tag = "2")]
    pub(super) zone: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LbEndpoint {
    #[prost(message, optional, tag = "1")]
    pub(super) endpoint: Option<Endpoint>,
    #[prost(int32, tag = "2")]
    pub(super) health_status: i32,
}

impl LbEndpoint {
    /// Value `HEALTHY` of `HealthStatus`.
    pub(super) const HEALTHY: i32 = 1;
    /// Value `DRAINING` of `HealthStatus`.
    pub(super) const DRAINING: i32 = 3;
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Endpoint {
    #[prost(message, optional, tag = "1")]
    pub(super) address: Option<Address>,
    #[prost(message, repeated, tag = "4")]
    pub(super) additional_addresses: Vec<AdditionalAddress>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AdditionalAddress {
    #[prost(message, optional, tag = "1")]
    pub(super) address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Address {
    #[prost(message, optional, tag = "1")]
    pub(super) socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SocketAddress {
    #[prost(string, tag = "2")]
    pub(super) address: String,
    /// Always written: it is the alternative of a oneof.
    #[prost(uint32, optional, tag = "3")]
    pub(super) port_value: Option<u32>,
}
