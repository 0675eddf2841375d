//! Checks that no field of the API that contains references is overlooked.
//!
//! Every field that holds a reference, or a message that leads to one, is listed here. A new
//! field in a later version of the descriptors fails the test until it is followed, or skipped
//! for a reason.

use std::collections::BTreeSet;

use xds_format::{Schema, prost_reflect::Kind};

/// Messages that are references or contain them.
const LEADING: &[&str] = &[
    "envoy.config.core.v3.ExtensionConfigSource",
    "envoy.config.core.v3.TransportSocket",
    "envoy.config.route.v3.RouteAction.RequestMirrorPolicy",
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.config.route.v3.WeightedCluster",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter",
    "envoy.extensions.filters.network.http_connection_manager.v3.Rds",
    "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRds",
    "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig",
    "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
];

const FOLLOWED: &[&str] = &[
    "envoy.config.cluster.v3.Cluster.TransportSocketMatch.transport_socket",
    "envoy.config.cluster.v3.Cluster.transport_socket",
    "envoy.config.cluster.v3.Filter.config_discovery",
    "envoy.config.listener.v3.Filter.config_discovery",
    "envoy.config.listener.v3.FilterChain.transport_socket",
    "envoy.config.listener.v3.ListenerFilter.config_discovery",
    "envoy.config.route.v3.RouteAction.request_mirror_policies",
    "envoy.config.route.v3.RouteAction.weighted_clusters",
    "envoy.config.route.v3.RouteConfiguration.request_mirror_policies",
    "envoy.config.route.v3.ScopedRouteConfiguration.route_configuration",
    "envoy.config.route.v3.VirtualHost.request_mirror_policies",
    "envoy.extensions.filters.http.oauth2.v3.OAuth2Credentials.hmac_secret",
    "envoy.extensions.filters.http.oauth2.v3.OAuth2Credentials.token_secret",
    "envoy.extensions.filters.http.router.v3.Router.upstream_http_filters",
    "envoy.extensions.filters.network.http_connection_manager.v3.EnvoyMobileHttpConnectionManager.config",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.UpgradeConfig.filters",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.http_filters",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.rds",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager.route_config",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter.config_discovery",
    "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes.scoped_rds",
    "envoy.extensions.filters.network.reverse_tunnel.v3.DrainAwareHttpConnectionManager.hcm_config",
    "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig.SessionFilter.config_discovery",
    "envoy.extensions.http.injected_credentials.generic.v3.Generic.credential",
    "envoy.extensions.http.injected_credentials.oauth2.v3.OAuth2.ClientCredentials.client_secret",
    "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport.transport_socket",
    "envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport.transport_socket",
    "envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport.transport_socket",
    "envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport.downstream_tls_context",
    "envoy.extensions.transport_sockets.quic.v3.QuicUpstreamTransport.upstream_tls_context",
    "envoy.extensions.transport_sockets.starttls.v3.StartTlsConfig.tls_socket_config",
    "envoy.extensions.transport_sockets.starttls.v3.UpstreamStartTlsConfig.tls_socket_config",
    "envoy.extensions.transport_sockets.tap.v3.Tap.transport_socket",
    "envoy.extensions.transport_sockets.tcp_stats.v3.Config.transport_socket",
    "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext.validation_context_sds_secret_config",
    "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.tls_certificate_sds_secret_configs",
    "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.validation_context_sds_secret_config",
    "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext.session_ticket_keys_sds_secret_config",
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions.http_filters",
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions.request_mirror_policies",
];

/// Fields that are skipped, and their contents.
const PASSED_OVER: &[(&str, &str)] = &[
    (
        "envoy.extensions.filters.http.composite.v3.DynamicConfig.config_discovery",
        "the filter that a matcher chooses for one request",
    ),
    (
        "envoy.extensions.filters.network.dubbo_proxy.v3.RouteAction.weighted_clusters",
        "a protocol with routes of its own",
    ),
    (
        "envoy.extensions.filters.network.generic_proxy.action.v3.RouteAction.weighted_clusters",
        "a protocol with routes of its own",
    ),
    (
        "envoy.extensions.formatter.generic_secret.v3.GenericSecret.SecretConfigsEntry.value",
        "a secret in lines of logs",
    ),
    (
        "envoy.extensions.quic.connection_id_generator.quic_lb.v3.Config.encryption_parameters",
        "a secret of the transport's own, no part of a TLS context",
    ),
    (
        "envoy.extensions.router.cluster_specifiers.dynamic_modules.v3.RouteActionOverride.request_mirror_policies",
        "what a loaded module decides",
    ),
];

#[test]
fn every_reference_field_of_the_api_is_followed_or_listed_as_ignored() {
    let mut places = BTreeSet::new();
    for message in Schema::envoy().pool().all_messages() {
        for field in message.fields() {
            if let Kind::Message(kind) = field.kind()
                && LEADING.contains(&kind.full_name())
            {
                places.insert(field.full_name().to_owned());
            }
        }
    }
    let known = FOLLOWED.iter().chain(PASSED_OVER.iter().map(|(place, _)| place));
    let known: BTreeSet<_> = known.map(|&place| place.to_owned()).collect();
    assert_eq!(places.difference(&known).collect::<Vec<_>>(), [""; 0], "not looked at");
    assert_eq!(known.difference(&places).collect::<Vec<_>>(), [""; 0], "not in the API");
}
