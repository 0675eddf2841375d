//! Table of the messages and fields of the v3 API that contain references.
//!
//! To follow another extension, add its message here, and to [`KNOWN`] if it occurs in an `Any`. A
//! test compares every field with the API's descriptors (`tests/references/` of the workspace).

use super::{
    sources,
    walk::{
        FieldContent::{Any, Name, Nested},
        Message,
    },
};
use crate::types;

/// Messages that may be a resource or the content of an `Any`.
pub(super) static KNOWN: [&Message; 34] = [
    // Resources.
    &CLUSTER,
    &LISTENER,
    &ROUTE_CONFIGURATION,
    &SCOPED_ROUTE_CONFIGURATION,
    &VIRTUAL_HOST,
    &EXTENSION_CONFIG,
    // Network and UDP filters.
    &HTTP_CONNECTION_MANAGER,
    &ENVOY_MOBILE_HTTP_CONNECTION_MANAGER,
    &DRAIN_AWARE_HTTP_CONNECTION_MANAGER,
    &TCP_PROXY,
    &UDP_PROXY,
    // Actions of matchers.
    &ROUTE,
    &ROUTE_LIST,
    &UDP_ROUTE,
    &CLUSTER_ACTION,
    &MATCHER_CLUSTER_SPECIFIER,
    // Parts of clusters.
    &AGGREGATE_CLUSTER,
    &HTTP_PROTOCOL_OPTIONS,
    // Transport sockets.
    &DOWNSTREAM_TLS,
    &UPSTREAM_TLS,
    &DOWNSTREAM_QUIC,
    &UPSTREAM_QUIC,
    &DOWNSTREAM_START_TLS,
    &UPSTREAM_START_TLS,
    &HTTP_11_PROXY,
    &INTERNAL_UPSTREAM,
    &PROXY_PROTOCOL,
    &TAP,
    &TCP_STATS,
    // HTTP filters.
    &ROUTER,
    &OAUTH2,
    &CREDENTIAL_INJECTOR,
    &GENERIC_CREDENTIAL,
    &OAUTH2_CREDENTIAL,
];

// --- listeners ---------------------------------------------------------------------------------

static LISTENER: Message = Message::new(
    "envoy.config.listener.v3.Listener",
    &[
        (3, Nested(&FILTER_CHAIN)),
        (9, Nested(&LISTENER_FILTER)),
        (19, Nested(&API_LISTENER)),
        (25, Nested(&FILTER_CHAIN)),
    ],
);
static API_LISTENER: Message = Message::new("envoy.config.listener.v3.ApiListener", &[(1, Any)]);
static FILTER_CHAIN: Message = Message::new(
    "envoy.config.listener.v3.FilterChain",
    &[(3, Nested(&NETWORK_FILTER)), (6, Nested(&TRANSPORT_SOCKET))],
);
static NETWORK_FILTER: Message =
    Message::new("envoy.config.listener.v3.Filter", &[(4, Any)]).with_rule(sources::filter::<5>);
static LISTENER_FILTER: Message =
    Message::new("envoy.config.listener.v3.ListenerFilter", &[(3, Any)])
        .with_rule(sources::filter::<5>);
static EXTENSION_CONFIG: Message =
    Message::new("envoy.config.core.v3.TypedExtensionConfig", &[(2, Any)]);

static HTTP_CONNECTION_MANAGER: Message = Message::new(
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    &[
        (3, Nested(&RDS)),
        (4, Nested(&ROUTE_CONFIGURATION)),
        (5, Nested(&HTTP_FILTER)),
        (23, Nested(&HTTP_UPGRADE)),
        (31, Nested(&SCOPED_ROUTES)),
    ],
);
static ENVOY_MOBILE_HTTP_CONNECTION_MANAGER: Message = Message::new(
    "envoy.extensions.filters.network.http_connection_manager.v3.EnvoyMobileHttpConnectionManager",
    &[(1, Nested(&HTTP_CONNECTION_MANAGER))],
);
static DRAIN_AWARE_HTTP_CONNECTION_MANAGER: Message = Message::new(
    "envoy.extensions.filters.network.reverse_tunnel.v3.DrainAwareHttpConnectionManager",
    &[(1, Nested(&HTTP_CONNECTION_MANAGER))],
);
static RDS: Message =
    Message::new("envoy.extensions.filters.network.http_connection_manager.v3.Rds", &[])
        .with_rule(sources::rds);
static SCOPED_ROUTES: Message = Message::new(
    "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes",
    &[(5, Nested(&SCOPED_RDS))],
)
.with_rule(sources::scoped_routes);
static SCOPED_RDS: Message =
    Message::new("envoy.extensions.filters.network.http_connection_manager.v3.ScopedRds", &[])
        .with_rule(sources::scoped_rds);
static HTTP_UPGRADE: Message = Message::new(
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.UpgradeConfig",
    &[(2, Nested(&HTTP_FILTER))],
);
static HTTP_FILTER: Message = Message::new(
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
    &[(4, Any)],
)
.with_rule(sources::filter::<5>);

static TCP_PROXY: Message = Message::new(
    "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    &[(2, Name(types::CLUSTER)), (10, Nested(&TCP_WEIGHTED))],
);
static TCP_WEIGHTED: Message = Message::new(
    "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster",
    &[(1, Nested(&TCP_WEIGHT))],
);
static TCP_WEIGHT: Message = Message::new(
    "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight",
    &[(1, Name(types::CLUSTER))],
);

static UDP_PROXY: Message = Message::new(
    "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
    &[(2, Name(types::CLUSTER)), (9, Nested(&MATCHER)), (11, Nested(&UDP_SESSION_FILTER))],
);
static UDP_SESSION_FILTER: Message = Message::new(
    "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.SessionFilter",
    &[(2, Any)],
)
.with_rule(sources::filter::<3>);
static UDP_ROUTE: Message =
    Message::new("envoy.extensions.filters.udp.udp_proxy.v3.Route", &[(1, Name(types::CLUSTER))]);

static ROUTER: Message =
    Message::new("envoy.extensions.filters.http.router.v3.Router", &[(8, Nested(&HTTP_FILTER))]);
static OAUTH2: Message =
    Message::new("envoy.extensions.filters.http.oauth2.v3.OAuth2", &[(1, Nested(&OAUTH2_CONFIG))]);
static OAUTH2_CONFIG: Message = Message::new(
    "envoy.extensions.filters.http.oauth2.v3.OAuth2Config",
    &[(3, Nested(&OAUTH2_CREDENTIALS))],
);
static OAUTH2_CREDENTIALS: Message = Message::new(
    "envoy.extensions.filters.http.oauth2.v3.OAuth2Credentials",
    &[(2, Nested(&SECRET_CONFIG)), (3, Nested(&SECRET_CONFIG))],
);
static CREDENTIAL_INJECTOR: Message = Message::new(
    "envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
    &[(3, Nested(&EXTENSION_CONFIG))],
);
static GENERIC_CREDENTIAL: Message = Message::new(
    "envoy.extensions.http.injected_credentials.generic.v3.Generic",
    &[(1, Nested(&SECRET_CONFIG))],
);
static OAUTH2_CREDENTIAL: Message = Message::new(
    "envoy.extensions.http.injected_credentials.oauth2.v3.OAuth2",
    &[(3, Nested(&CLIENT_CREDENTIALS))],
);
static CLIENT_CREDENTIALS: Message = Message::new(
    "envoy.extensions.http.injected_credentials.oauth2.v3.OAuth2.ClientCredentials",
    &[(2, Nested(&SECRET_CONFIG))],
);

// --- routes ------------------------------------------------------------------------------------

static SCOPED_ROUTE_CONFIGURATION: Message = Message::new(
    "envoy.config.route.v3.ScopedRouteConfiguration",
    &[(2, Name(types::ROUTE_CONFIGURATION)), (5, Nested(&ROUTE_CONFIGURATION))],
);
static ROUTE_CONFIGURATION: Message = Message::new(
    "envoy.config.route.v3.RouteConfiguration",
    &[
        (2, Nested(&VIRTUAL_HOST)),
        (12, Nested(&CLUSTER_SPECIFIER_PLUGIN)),
        (13, Nested(&REQUEST_MIRROR)),
    ],
)
.with_rule(sources::route_configuration);
static CLUSTER_SPECIFIER_PLUGIN: Message =
    Message::new("envoy.config.route.v3.ClusterSpecifierPlugin", &[(1, Nested(&EXTENSION_CONFIG))]);
static VIRTUAL_HOST: Message = Message::new(
    "envoy.config.route.v3.VirtualHost",
    &[(3, Nested(&ROUTE)), (21, Nested(&MATCHER)), (22, Nested(&REQUEST_MIRROR))],
);
static ROUTE: Message = Message::new("envoy.config.route.v3.Route", &[(2, Nested(&ROUTE_ACTION))]);
static ROUTE_LIST: Message =
    Message::new("envoy.config.route.v3.RouteList", &[(1, Nested(&ROUTE))]);
static ROUTE_ACTION: Message = Message::new(
    "envoy.config.route.v3.RouteAction",
    &[
        (1, Name(types::CLUSTER)),
        (3, Nested(&WEIGHTED_CLUSTER)),
        (30, Nested(&REQUEST_MIRROR)),
        (39, Nested(&CLUSTER_SPECIFIER_PLUGIN)),
    ],
);
static REQUEST_MIRROR: Message = Message::new(
    "envoy.config.route.v3.RouteAction.RequestMirrorPolicy",
    &[(1, Name(types::CLUSTER))],
);
static WEIGHTED_CLUSTER: Message =
    Message::new("envoy.config.route.v3.WeightedCluster", &[(1, Nested(&CLUSTER_WEIGHT))]);
static CLUSTER_WEIGHT: Message = Message::new(
    "envoy.config.route.v3.WeightedCluster.ClusterWeight",
    &[(1, Name(types::CLUSTER))],
);
static MATCHER_CLUSTER_SPECIFIER: Message = Message::new(
    "envoy.extensions.router.cluster_specifiers.matcher.v3.MatcherClusterSpecifier",
    &[(1, Nested(&MATCHER))],
);
static CLUSTER_ACTION: Message = Message::new(
    "envoy.extensions.router.cluster_specifiers.matcher.v3.ClusterAction",
    &[(1, Name(types::CLUSTER))],
);

static MATCHER: Message = Message::new(
    "xds.type.matcher.v3.Matcher",
    &[(1, Nested(&MATCHER_LIST)), (2, Nested(&MATCHER_TREE)), (3, Nested(&ON_MATCH))],
);
static ON_MATCH: Message = Message::new(
    "xds.type.matcher.v3.Matcher.OnMatch",
    &[(1, Nested(&MATCHER)), (2, Nested(&MATCH_ACTION))],
);
static MATCH_ACTION: Message = Message::new("xds.core.v3.TypedExtensionConfig", &[(2, Any)]);
static MATCHER_LIST: Message =
    Message::new("xds.type.matcher.v3.Matcher.MatcherList", &[(1, Nested(&FIELD_MATCHER))]);
static FIELD_MATCHER: Message =
    Message::new("xds.type.matcher.v3.Matcher.MatcherList.FieldMatcher", &[(2, Nested(&ON_MATCH))]);
static MATCHER_TREE: Message = Message::new(
    "xds.type.matcher.v3.Matcher.MatcherTree",
    &[(2, Nested(&MATCH_MAP)), (3, Nested(&MATCH_MAP))],
);
static MATCH_MAP: Message =
    Message::new("xds.type.matcher.v3.Matcher.MatcherTree.MatchMap", &[(1, Nested(&MATCH_ENTRY))]);
static MATCH_ENTRY: Message = Message::new(
    "xds.type.matcher.v3.Matcher.MatcherTree.MatchMap.MapEntry",
    &[(2, Nested(&ON_MATCH))],
);

// --- clusters ----------------------------------------------------------------------------------

static CLUSTER: Message = Message::new(
    "envoy.config.cluster.v3.Cluster",
    &[
        (24, Nested(&TRANSPORT_SOCKET)),
        (36, Nested(&PROTOCOL_OPTIONS_ENTRY)),
        (38, Nested(&CUSTOM_CLUSTER)),
        (40, Nested(&UPSTREAM_FILTER)),
        (43, Nested(&TRANSPORT_SOCKET_MATCH)),
    ],
)
.with_rule(sources::cluster);
static CUSTOM_CLUSTER: Message =
    Message::new("envoy.config.cluster.v3.Cluster.CustomClusterType", &[(2, Any)]);
static AGGREGATE_CLUSTER: Message = Message::new(
    "envoy.extensions.clusters.aggregate.v3.ClusterConfig",
    &[(1, Name(types::CLUSTER))],
);
static UPSTREAM_FILTER: Message =
    Message::new("envoy.config.cluster.v3.Filter", &[(2, Any)]).with_rule(sources::filter::<3>);
static PROTOCOL_OPTIONS_ENTRY: Message =
    Message::new("envoy.config.cluster.v3.Cluster.TypedExtensionProtocolOptionsEntry", &[(2, Any)]);
static HTTP_PROTOCOL_OPTIONS: Message = Message::new(
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    &[(6, Nested(&HTTP_FILTER)), (9, Nested(&REQUEST_MIRROR))],
);
static TRANSPORT_SOCKET_MATCH: Message = Message::new(
    "envoy.config.cluster.v3.Cluster.TransportSocketMatch",
    &[(3, Nested(&TRANSPORT_SOCKET))],
);

// --- transport sockets -------------------------------------------------------------------------

static TRANSPORT_SOCKET: Message =
    Message::new("envoy.config.core.v3.TransportSocket", &[(3, Any)]);
static DOWNSTREAM_TLS: Message = Message::new(
    "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    &[(1, Nested(&COMMON_TLS)), (5, Nested(&SECRET_CONFIG))],
);
static UPSTREAM_TLS: Message = Message::new(
    "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    &[(1, Nested(&COMMON_TLS))],
);
static COMMON_TLS: Message = Message::new(
    "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext",
    &[(6, Nested(&SECRET_CONFIG)), (7, Nested(&SECRET_CONFIG)), (8, Nested(&COMBINED_VALIDATION))],
);
static COMBINED_VALIDATION: Message = Message::new(
    "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext",
    &[(2, Nested(&SECRET_CONFIG))],
);
static SECRET_CONFIG: Message =
    Message::new("envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", &[])
        .with_rule(sources::secret);
static DOWNSTREAM_QUIC: Message = Message::new(
    "envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport",
    &[(1, Nested(&DOWNSTREAM_TLS))],
);
static UPSTREAM_QUIC: Message = Message::new(
    "envoy.extensions.transport_sockets.quic.v3.QuicUpstreamTransport",
    &[(1, Nested(&UPSTREAM_TLS))],
);
static DOWNSTREAM_START_TLS: Message = Message::new(
    "envoy.extensions.transport_sockets.starttls.v3.StartTlsConfig",
    &[(2, Nested(&DOWNSTREAM_TLS))],
);
static UPSTREAM_START_TLS: Message = Message::new(
    "envoy.extensions.transport_sockets.starttls.v3.UpstreamStartTlsConfig",
    &[(2, Nested(&UPSTREAM_TLS))],
);
static HTTP_11_PROXY: Message = Message::new(
    "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport",
    &[(1, Nested(&TRANSPORT_SOCKET))],
);
static INTERNAL_UPSTREAM: Message = Message::new(
    "envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
    &[(3, Nested(&TRANSPORT_SOCKET))],
);
static PROXY_PROTOCOL: Message = Message::new(
    "envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
    &[(2, Nested(&TRANSPORT_SOCKET))],
);
static TAP: Message = Message::new(
    "envoy.extensions.transport_sockets.tap.v3.Tap",
    &[(2, Nested(&TRANSPORT_SOCKET))],
);
static TCP_STATS: Message = Message::new(
    "envoy.extensions.transport_sockets.tcp_stats.v3.Config",
    &[(1, Nested(&TRANSPORT_SOCKET))],
);
