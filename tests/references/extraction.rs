//! References of each kind of resource.

use xds_core::references::{ConfigSource, references};

use super::resources;

/// Returns the references of a resource, such as `eds backend`, followed by the source unless it is
/// `ads` or none.
fn found(yaml: &str) -> Vec<String> {
    let resources = resources(yaml);
    let [resource] = &resources[..] else { panic!("one resource: {yaml}") };
    let found = references(&resource.type_url, &resource.bytes).unwrap();
    let mut found: Vec<_> = found
        .iter()
        .map(|it| match it.source {
            ConfigSource::SameServer => format!("{it} (self)"),
            ConfigSource::Api => format!("{it} (api)"),
            _ => it.to_string(),
        })
        .collect();
    found.sort();
    found
}

/// Checks the references of resources.
#[track_caller]
fn expect(cases: &[(&str, &[&str])]) {
    for (yaml, expected) in cases {
        assert_eq!(found(yaml), *expected, "{yaml}");
    }
}

#[test]
fn cluster_refers_to_its_endpoints() {
    expect(&[
        ("{ $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $ADS } }", &["eds c"]),
        (
            "{ $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $ADS, service_name: s } }",
            &["eds s"],
        ),
        ("{ $CLUSTER, name: c, type: EDS }", &["eds c"]),
        (
            "{ $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $SELF } }",
            &["eds c (self)"],
        ),
        (
            "{ $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $API } }",
            &["eds c (api)"],
        ),
        // No management server is needed.
        ("{ $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $FILE } }", &[]),
        ("{ $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $OLDFILE } }", &[]),
        // An unused field of another cluster type.
        ("{ $CLUSTER, name: c, type: STRICT_DNS, eds_cluster_config: { eds_config: $ADS } }", &[]),
        ("{ $CLUSTER, name: c }", &[]),
        // A collection of endpoints by its locator.
        (
            "{ $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $ADS, service_name: 'xdstp://a/t/foo' } }",
            &["eds xdstp://a/t/foo"],
        ),
    ]);
    println!("covers: S0.057");
}

#[test]
fn cluster_refers_to_clusters() {
    expect(&[
        (
            "{ $CLUSTER, name: c, cluster_type: { name: a, typed_config: { '@type': $T/clusters.aggregate.v3.ClusterConfig, clusters: [d, e, d] } } }",
            &["cds d", "cds e"],
        ),
        (
            "{ $CLUSTER, name: c, typed_extension_protocol_options: { envoy.extensions.upstreams.http.v3.HttpProtocolOptions: { '@type': $T/upstreams.http.v3.HttpProtocolOptions, explicit_http_config: { http_protocol_options: {} }, request_mirror_policies: [{ cluster: m }], http_filters: [{ name: f, config_discovery: { config_source: $ADS, type_urls: [t/a.B] } }] } } }",
            &["cds m", "ecds f"],
        ),
        (
            "{ $CLUSTER, name: c, filters: [{ name: f, config_discovery: { config_source: $ADS, type_urls: [t/a.B] } }] }",
            &["ecds f"],
        ),
    ]);
}

#[test]
fn transport_sockets_refer_to_secrets() {
    let upstream = |name: &str| {
        format!(
            "{{ '@type': $SOCKET/tls.v3.UpstreamTlsContext, common_tls_context: {{ tls_certificate_sds_secret_configs: [{{ name: {name}, sds_config: $ADS }}] }} }}"
        )
    };
    let cluster = |socket: &str| {
        format!("{{ $CLUSTER, name: c, transport_socket: {{ name: s, typed_config: {socket} }} }}")
    };
    let common = "tls_certificate_sds_secret_configs: [{ name: one, sds_config: $ADS }, { name: two, sds_config: $API }, { name: static }, { name: file, sds_config: $FILE }]";
    assert_eq!(
        found(&cluster(&format!(
            "{{ '@type': $SOCKET/tls.v3.UpstreamTlsContext, common_tls_context: {{ {common}, validation_context_sds_secret_config: {{ name: ca, sds_config: $SELF }} }} }}"
        ))),
        ["sds ca (self)", "sds one", "sds two (api)"]
    );
    assert_eq!(
        found(&cluster(
            "{ '@type': $SOCKET/tls.v3.UpstreamTlsContext, common_tls_context: { combined_validation_context: { default_validation_context: {}, validation_context_sds_secret_config: { name: ca, sds_config: $ADS } } } }"
        )),
        ["sds ca"]
    );
    // Inside other transport sockets.
    for around in [
        "'@type': $SOCKET/tap.v3.Tap, transport_socket",
        "'@type': $SOCKET/http_11_proxy.v3.Http11ProxyUpstreamTransport, transport_socket",
        "'@type': $SOCKET/internal_upstream.v3.InternalUpstreamTransport, transport_socket",
        "'@type': $SOCKET/proxy_protocol.v3.ProxyProtocolUpstreamTransport, transport_socket",
        "'@type': $SOCKET/tcp_stats.v3.Config, transport_socket",
    ] {
        let inner = upstream("inner");
        let socket = format!("{{ {around}: {{ name: s, typed_config: {inner} }} }}");
        assert_eq!(found(&cluster(&socket)), ["sds inner"], "{around}");
    }
    let bare = "{ common_tls_context: { tls_certificate_sds_secret_configs: [{ name: own, sds_config: $ADS }] } }";
    for around in [
        "'@type': $SOCKET/quic.v3.QuicUpstreamTransport, upstream_tls_context",
        "'@type': $SOCKET/starttls.v3.UpstreamStartTlsConfig, tls_socket_config",
    ] {
        assert_eq!(found(&cluster(&format!("{{ {around}: {bare} }}"))), ["sds own"], "{around}");
    }
    let by_match = format!(
        "{{ $CLUSTER, name: c, transport_socket_matches: [{{ name: m, transport_socket: {{ name: s, typed_config: {} }} }}] }}",
        upstream("matched")
    );
    assert_eq!(found(&by_match), ["sds matched"]);

    let listener = |socket: &str| {
        format!(
            "{{ $LISTENER, name: l, default_filter_chain: {{ transport_socket: {{ name: s, typed_config: {socket} }} }} }}"
        )
    };
    for (socket, expected) in [
        (
            "{ '@type': $SOCKET/tls.v3.DownstreamTlsContext, session_ticket_keys_sds_secret_config: { name: tickets, sds_config: $ADS }, common_tls_context: { tls_certificate_sds_secret_configs: [{ name: own, sds_config: $ADS }] } }".to_owned(),
            &["sds own", "sds tickets"][..],
        ),
        (format!("{{ '@type': $SOCKET/quic.v3.QuicDownstreamTransport, downstream_tls_context: {bare} }}"), &["sds own"]),
        (format!("{{ '@type': $SOCKET/starttls.v3.StartTlsConfig, tls_socket_config: {bare} }}"), &["sds own"]),
    ] {
        assert_eq!(found(&listener(&socket)), expected, "{socket}");
    }
}

/// Returns listeners with this HTTP connection manager at each possible position.
fn listeners(manager: &str) -> [String; 5] {
    let filter = format!("{{ name: hcm, typed_config: {{ $HCM, {manager} }} }}");
    [
        format!(
            "{{ $LISTENER, name: l, filter_chains: [{{}}, {{ filters: [{{ name: other }}, {filter}] }}] }}"
        ),
        format!("{{ $LISTENER, name: l, default_filter_chain: {{ filters: [{filter}] }} }}"),
        format!(
            "{{ $LISTENER, name: l, api_listener: {{ api_listener: {{ $HCM, {manager} }} }} }}"
        ),
        format!(
            "{{ $LISTENER, name: l, api_listener: {{ api_listener: {{ '@type': $T/filters.network.http_connection_manager.v3.EnvoyMobileHttpConnectionManager, config: {{ stat_prefix: s, {manager} }} }} }} }}"
        ),
        format!("{{ $EXTENSION, name: e, typed_config: {{ $HCM, {manager} }} }}"),
    ]
}

#[test]
fn listener_refers_to_its_routes() {
    for (manager, expected) in [
        ("rds: { route_config_name: r, config_source: $ADS }", &["rds r"][..]),
        ("rds: { route_config_name: r, config_source: $SELF }", &["rds r (self)"]),
        ("rds: { route_config_name: r, config_source: $API }", &["rds r (api)"]),
        ("rds: { route_config_name: r }", &["rds r"]),
        ("rds: { route_config_name: r, config_source: $FILE }", &[]),
        ("rds: { config_source: $ADS }", &[]),
        (
            "scoped_routes: { name: s, rds_config_source: $ADS, scoped_rds: { scoped_rds_config_source: $ADS } }",
            &["srds *"],
        ),
        (
            "scoped_routes: { name: s, scoped_rds: { scoped_rds_config_source: $API } }",
            &["srds * (api)"],
        ),
        ("scoped_routes: { name: s, scoped_rds: { scoped_rds_config_source: $FILE } }", &[]),
        (
            "scoped_routes: { name: s, scoped_rds: { scoped_rds_config_source: $ADS, srds_resources_locator: 'xdstp://a/t/scopes/*?b=c' } }",
            &["srds xdstp://a/t/scopes/*"],
        ),
        (
            "scoped_routes: { name: s, rds_config_source: $SELF, scoped_route_configurations_list: { scoped_route_configurations: [{ name: o, route_configuration_name: r }, { name: m, route_configuration: { name: i, virtual_hosts: [{ name: v, domains: [a], routes: [{ match: { prefix: / }, route: { cluster: c } }] }] } }] } }",
            &["cds c", "rds r (self)"],
        ),
        (
            "scoped_routes: { name: s, rds_config_source: $FILE, scoped_route_configurations_list: { scoped_route_configurations: [{ name: o, route_configuration_name: r }] } }",
            &[],
        ),
        (
            "route_config: { name: i, vhds: { config_source: $ADS }, virtual_hosts: [{ name: v, domains: [a], routes: [{ match: { prefix: / }, route: { cluster: c } }] }] }",
            &["cds c", "vhds i/*"],
        ),
        (
            "http_filters: [{ name: f, config_discovery: { config_source: $ADS, type_urls: [t/a.B] } }, { name: g, config_discovery: { config_source: $FILE, type_urls: [t/a.B] } }], upgrade_configs: [{ upgrade_type: websocket, filters: [{ name: h, config_discovery: { config_source: $API, type_urls: [t/a.B] } }] }]",
            &["ecds f", "ecds h (api)"],
        ),
    ] {
        for listener in listeners(manager) {
            assert_eq!(found(&listener), expected, "{listener}");
        }
    }
    println!("covers: S0.056");
}

#[test]
fn filters_refer_to_secrets_and_clusters() {
    let secret = |name: &str| format!("{{ name: {name}, sds_config: $ADS }}");
    let http = |filter: &str| {
        format!(
            "{{ $EXTENSION, name: e, typed_config: {{ $HCM, http_filters: [{{ name: f, typed_config: {filter} }}] }} }}"
        )
    };
    let oauth2 = format!(
        "{{ '@type': $T/filters.http.oauth2.v3.OAuth2, config: {{ credentials: {{ client_id: i, token_secret: {}, hmac_secret: {} }} }} }}",
        secret("token"),
        secret("hmac")
    );
    assert_eq!(found(&http(&oauth2)), ["sds hmac", "sds token"]);
    for credential in [
        format!(
            "{{ '@type': $T/http.injected_credentials.generic.v3.Generic, credential: {} }}",
            secret("key")
        ),
        format!(
            "{{ '@type': $T/http.injected_credentials.oauth2.v3.OAuth2, client_credentials: {{ client_id: i, client_secret: {} }} }}",
            secret("key")
        ),
    ] {
        let injector = format!(
            "{{ '@type': $T/filters.http.credential_injector.v3.CredentialInjector, credential: {{ name: c, typed_config: {credential} }} }}"
        );
        assert_eq!(found(&http(&injector)), ["sds key"], "{credential}");
    }
    expect(&[
        (
            "{ $EXTENSION, name: e, typed_config: { '@type': $T/filters.http.router.v3.Router, upstream_http_filters: [{ name: u, config_discovery: { config_source: $ADS, type_urls: [t/a.B] } }] } }",
            &["ecds u"],
        ),
        (
            "{ $LISTENER, name: l, filter_chains: [{ filters: [{ name: t, typed_config: { $TCP, cluster: c } }] }] }",
            &["cds c"],
        ),
        (
            "{ $LISTENER, name: l, filter_chains: [{ filters: [{ name: t, typed_config: { $TCP, weighted_clusters: { clusters: [{ name: a, weight: 1 }, { name: b, weight: 1 }] } } }] }] }",
            &["cds a", "cds b"],
        ),
        (
            "{ $LISTENER, name: l, listener_filters: [{ name: u, typed_config: { '@type': $T/filters.udp.udp_proxy.v3.UdpProxyConfig, stat_prefix: s, cluster: c, session_filters: [{ name: f, config_discovery: { config_source: $ADS, type_urls: [t/a.B] } }] } }] }",
            &["cds c", "ecds f"],
        ),
        (
            "{ $LISTENER, name: l, listener_filters: [{ name: u, typed_config: { '@type': $T/filters.udp.udp_proxy.v3.UdpProxyConfig, stat_prefix: s, matcher: { on_no_match: { action: { name: a, typed_config: { '@type': $T/filters.udp.udp_proxy.v3.Route, cluster: c } } } } } }] }",
            &["cds c"],
        ),
        (
            "{ $LISTENER, name: l, listener_filters: [{ name: f, config_discovery: { config_source: $ADS, type_urls: [t/a.B] } }], filter_chains: [{ filters: [{ name: g, config_discovery: { config_source: $ADS, type_urls: [t/a.B], default_config: { $TCP, cluster: c } } }] }] }",
            &["cds c", "ecds f", "ecds g"],
        ),
        (
            "{ $LISTENER, name: l, filter_chains: [{ filters: [{ name: d, typed_config: { '@type': $T/filters.network.reverse_tunnel.v3.DrainAwareHttpConnectionManager, hcm_config: { stat_prefix: s, rds: { route_config_name: r, config_source: $ADS } } } }] }] }",
            &["rds r"],
        ),
    ]);
}

#[test]
fn any_of_a_known_type_is_followed_in_every_extension_field() {
    expect(&[
        (
            "{ $CLUSTER, name: c, filters: [{ name: f, typed_config: { $TCP, cluster: d } }] }",
            &["cds d"],
        ),
        (
            "{ $LISTENER, name: l, listener_filters: [{ name: u, typed_config: { '@type': $T/filters.udp.udp_proxy.v3.UdpProxyConfig, stat_prefix: s, session_filters: [{ name: f, typed_config: { $TCP, cluster: d } }] } }] }",
            &["cds d"],
        ),
    ]);
}

#[test]
fn routes_refer_to_clusters() {
    let routes = |action: &str| {
        let host = format!(
            "name: v, domains: [a], routes: [{{ match: {{ prefix: / }}, route: {{ {action} }} }}]"
        );
        [
            format!("{{ $ROUTES, name: r, virtual_hosts: [{{ {host} }}] }}"),
            format!("{{ $HOST, {host} }}"),
            format!(
                "{{ $SCOPE, name: s, route_configuration: {{ name: r, virtual_hosts: [{{ {host} }}] }} }}"
            ),
        ]
    };
    for (action, expected) in [
        ("cluster: c", &["cds c"][..]),
        (
            "weighted_clusters: { clusters: [{ name: a, weight: 1 }, { name: b, weight: 1 }] }",
            &["cds a", "cds b"],
        ),
        (
            "cluster: c, request_mirror_policies: [{ cluster: m }, { cluster_header: x-to }]",
            &["cds c", "cds m"],
        ),
        ("weighted_clusters: { clusters: [{ cluster_header: x-to, weight: 1 }] }", &[]),
        ("cluster_header: x-to", &[]),
        ("cluster_specifier_plugin: p", &[]),
        (
            "inline_cluster_specifier_plugin: { extension: { name: m, typed_config: { '@type': $T/router.cluster_specifiers.matcher.v3.MatcherClusterSpecifier, cluster_matcher: { on_no_match: { action: { name: a, typed_config: { '@type': $T/router.cluster_specifiers.matcher.v3.ClusterAction, cluster: c } } } } } } }",
            &["cds c"],
        ),
    ] {
        for resource in routes(action) {
            assert_eq!(found(&resource), expected, "{resource}");
        }
    }
    expect(&[
        (
            "{ $ROUTES, name: r, request_mirror_policies: [{ cluster: m }], virtual_hosts: [{ name: v, domains: [a], request_mirror_policies: [{ cluster: o }], routes: [{ match: { prefix: / }, redirect: {} }] }] }",
            &["cds m", "cds o"],
        ),
        (
            "{ $ROUTES, name: r, cluster_specifier_plugins: [{ extension: { name: m, typed_config: { '@type': $T/router.cluster_specifiers.matcher.v3.MatcherClusterSpecifier, cluster_matcher: { on_no_match: { action: { name: a, typed_config: { '@type': $T/router.cluster_specifiers.matcher.v3.ClusterAction, cluster: c } } } } } } }] }",
            &["cds c"],
        ),
        ("{ $ROUTES, name: r, vhds: { config_source: $ADS } }", &["vhds r/*"]),
        ("{ $ROUTES, name: r, vhds: { config_source: $API } }", &["vhds r/* (api)"]),
        ("{ $ROUTES, name: r, vhds: { config_source: $FILE } }", &[]),
        ("{ $SCOPE, name: s, route_configuration_name: r }", &["rds r"]),
    ]);
}

#[test]
fn routes_in_matchers_refer_to_clusters() {
    let route = |cluster: &str| {
        format!(
            "action: {{ name: r, typed_config: {{ '@type': type.googleapis.com/envoy.config.route.v3.Route, match: {{ prefix: / }}, route: {{ cluster: {cluster} }} }} }}"
        )
    };
    let input = "input: { name: i, typed_config: { '@type': type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: h } }";
    let predicate =
        format!("predicate: {{ single_predicate: {{ {input}, value_match: {{ exact: x }} }} }}");
    let list = "action: { name: r, typed_config: { '@type': type.googleapis.com/envoy.config.route.v3.RouteList, routes: [{ match: { prefix: / }, route: { cluster: of-list } }] } }";
    let matcher = format!(
        "{{ matcher_list: {{ matchers: [{{ {predicate}, on_match: {{ matcher: {{ matcher_tree: {{ {input}, exact_match_map: {{ map: {{ k: {{ {} }} }} }} }}, on_no_match: {{ {} }} }} }} }}] }}, on_no_match: {{ matcher: {{ matcher_tree: {{ {input}, prefix_match_map: {{ map: {{ k: {{ {} }}, l: {{ {list} }} }} }} }} }} }} }}",
        route("exact"),
        route("none"),
        route("prefix"),
    );
    let host = format!("{{ $HOST, name: v, domains: [a], matcher: {matcher} }}");
    assert_eq!(found(&host), ["cds exact", "cds none", "cds of-list", "cds prefix"]);
}

#[test]
fn unknown_types_and_extensions_have_no_references() {
    expect(&[
        ("{ $ENDPOINTS, cluster_name: c }", &[]),
        (
            "{ $LISTENER, name: l, filter_chains: [{ filters: [{ name: e, typed_config: { '@type': $T/filters.network.echo.v3.Echo } }] }] }",
            &[],
        ),
        // The cluster of a gRPC service that a filter calls.
        (
            "{ $EXTENSION, name: e, typed_config: { '@type': $T/filters.http.ext_authz.v3.ExtAuthz, grpc_service: { envoy_grpc: { cluster_name: authorities } } } }",
            &[],
        ),
    ]);
    assert_eq!(references("t/example.Custom", b"\xff\xff").unwrap(), []);
}

#[test]
fn repeated_references_are_reported_once_and_sorted() {
    let yaml = "{ $ROUTES, name: r, virtual_hosts: [{ name: v, domains: [a], routes: [{ match: { prefix: / }, route: { cluster: b } }, { match: { prefix: / }, route: { cluster: a } }, { match: { prefix: / }, route: { cluster: b } }] }] }";
    let resource = &resources(yaml)[0];
    let found = references(&resource.type_url, &resource.bytes).unwrap();
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["cds a", "cds b"]);
}
