//! Sources in resources for the resources that they refer to.

use std::time::Duration;

use serde_json::{Value, json};
use xds_bootstrap::{
    BootstrapError,
    envoy::{ApiVersion, ConfigSource, EnvoyBootstrap, NestedSource, ResourceSelection, Specifier},
};
use xds_core::{client::Interest, types};

/// Returns a bootstrap with listeners over REST, clusters from a file, and resources with an
/// authority over the aggregated stream.
fn bootstrap() -> EnvoyBootstrap {
    let grpc = json!({ "envoy_grpc": { "cluster_name": "streamed" } });
    let text = json!({
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": {
            "lds_config": { "api_config_source": {
                "api_type": "REST", "cluster_names": ["lds"], "refresh_delay": "1s",
                "transport_api_version": "V3",
            } },
            "cds_config": { "path_config_source": { "path": "/cds.yaml" } },
            "ads_config": { "api_type": "GRPC", "grpc_services": [grpc] },
        },
        "default_config_source": { "ads": {} },
    });
    EnvoyBootstrap::from_json(&text.to_string()).expect("it is right")
}

fn references(type_url: &str, resource: &Value) -> Result<Vec<NestedSource>, BootstrapError> {
    bootstrap().references(None, type_url, "it", resource)
}

/// Returns the type and name of each reference.
fn read(type_url: &str, resource: &Value) -> Vec<(String, String)> {
    let read = references(type_url, resource).expect("it is right");
    let named = |it: NestedSource| match it.selection {
        ResourceSelection::Named(name) => (it.type_url.as_str().to_owned(), name),
        other => panic!("{other:?} is no name"),
    };
    read.into_iter().map(named).collect()
}

fn file(path: &str) -> Value {
    json!({ "path_config_source": { "path": path } })
}

/// Returns the file of a source, or its first target.
fn place(source: &ConfigSource) -> String {
    match &source.specifier {
        Specifier::Path(file) => file.path.display().to_string(),
        Specifier::Api(api) => api.target(0).expect("it has one").name().to_owned(),
        Specifier::Ads => "ads".to_owned(),
        other => format!("{other:?}"),
    }
}

fn manager(route: &str) -> Value {
    json!({ "rds": { "routeConfigName": route, "configSource": { "ads": {} } } })
}

#[test]
fn listener_references_to_routes_and_secrets_are_found_at_any_depth() {
    let context = json!({ "common_tls_context": {
        "tls_certificate_sds_secret_configs": [
            { "name": "key", "sds_config": { "ads": {} } },
            // A static secret.
            { "name": "own" },
        ],
        "combined_validation_context": {
            "validation_context_sds_secret_config": { "name": "roots", "sds_config": { "ads": {} } },
        },
    } });
    let listener = json!({
        "filter_chains": [
            { "filters": [
                { "name": "tcp", "typed_config": { "cluster": "c" } },
                { "name": "bare" },
                { "name": "found", "config_discovery": { "config_source": { "ads": {} } } },
            ] },
            { "filters": [{ "typed_config": manager("a") }],
              "transport_socket": { "name": "tls", "typed_config": context } },
        ],
        "defaultFilterChain": { "filters": [{ "typed_config": manager("b") }] },
        "api_listener": { "api_listener": manager("c") },
    });
    let routes = |name: &str| (types::ROUTE_CONFIGURATION.to_owned(), name.to_owned());
    let extension = (types::EXTENSION_CONFIG.to_owned(), "found".to_owned());
    let secret = |name: &str| (types::SECRET.to_owned(), name.to_owned());
    assert_eq!(
        read(types::LISTENER, &listener),
        [extension, routes("a"), secret("key"), secret("roots"), routes("b"), routes("c")]
    );
    assert_eq!(read(types::CLUSTER, &json!({ "name": "c" })), []);
    assert_eq!(read(types::ROUTE_CONFIGURATION, &listener), [], "it is no listener");
    println!("covers: S0.052");
}

#[test]
fn cluster_refers_to_eds_by_service_name_or_its_own_name() {
    let cluster = |eds: Value| json!({ "name": "c", "eds_cluster_config": eds });
    let of = |eds| read(types::CLUSTER, &cluster(eds)).pop().map(|(_, name)| name);
    assert_eq!(of(json!({ "eds_config": { "ads": {} } })).as_deref(), Some("c"));
    let named = json!({ "eds_config": { "self": {} }, "service_name": "s" });
    assert_eq!(of(named).as_deref(), Some("s"));
    assert_eq!(of(json!({})), None);

    let bad = cluster(json!({ "eds_config": { "path_config_source": {} } }));
    let why = references(types::CLUSTER, &bad).expect_err("no path").to_string();
    assert!(why.contains("eds_cluster_config.eds_config.path_config_source.path"), "{why}");
}

/// Tests both inline scopes and scopes from a source. The listener determines the source of their
/// routes.
#[test]
fn routes_of_scopes_come_from_the_source_set_by_the_listener() {
    let scoped = |specifier: Value| {
        let mut scoped = json!({ "name": "s", "rds_config_source": file("/routes.yaml") });
        scoped.as_object_mut().unwrap().extend(specifier.as_object().unwrap().clone());
        let manager = json!({ "scoped_routes": scoped, "http_filters": [
            { "name": "f", "config_discovery": { "config_source": file("/filters.yaml") } },
        ] });
        json!({ "filter_chains": [{ "filters": [{ "typed_config": manager }] }] })
    };
    let scope = json!({ "name": "one", "routeConfigurationName": "r" });
    let asked = json!({ "scoped_rds": { "scoped_rds_config_source": { "ads": {} } } });
    let found = references(types::LISTENER, &scoped(asked)).expect("it is right");
    let [scopes, filter] = &*found else { panic!("{found:?}") };
    assert_eq!(filter.type_url.as_str(), types::EXTENSION_CONFIG);
    assert_eq!(scopes.type_url.as_str(), types::SCOPED_ROUTE_CONFIGURATION);
    assert_eq!(scopes.selection.interest(), Interest::Wildcard);
    assert_eq!(place(&scopes.source), "ads");
    let of_scope = |via, scope: &Value| {
        let type_url = types::SCOPED_ROUTE_CONFIGURATION;
        bootstrap().references(via, type_url, "one", scope).expect("it is right")
    };
    let routes = of_scope(Some(scopes), &scope);
    assert_eq!(routes[0].type_url.as_str(), types::ROUTE_CONFIGURATION);
    assert_eq!(routes[0].selection, ResourceSelection::Named("r".to_owned()));
    assert_eq!(place(&routes[0].source), "/routes.yaml");
    assert_eq!(of_scope(None, &scope), [], "without a listener nobody knows where from");
    for none in [
        json!({ "name": "one", "route_configuration_name": "r", "on_demand": true }),
        json!({ "name": "one", "route_configuration": { "name": "in it" } }),
    ] {
        assert_eq!(of_scope(Some(scopes), &none), []);
    }

    let collection = "xdstp://a/envoy.config.route.v3.ScopedRouteConfiguration/*";
    let named = json!({ "scoped_rds": {
        "scoped_rds_config_source": { "ads": {} }, "srds_resources_locator": collection,
    } });
    let found = references(types::LISTENER, &scoped(named)).expect("it is right");
    assert_eq!(found[0].selection.interest(), Interest::Glob(collection));

    let inline = json!({ "scoped_route_configurations_list": {
        "scoped_route_configurations": [scope],
    } });
    let found = references(types::LISTENER, &scoped(inline)).expect("it is right");
    assert_eq!(found[0], routes[0]);
    println!("covers: S0.052 S0.056");
}

/// `self` is the origin of the resource. Listeners and clusters have different origins, references
/// of a scope have the origin of the listener, and names with an authority have that of the
/// authority.
#[test]
fn self_source_is_the_source_of_the_referring_resource() {
    let bootstrap = bootstrap();
    let own = json!({ "self": {}, "initial_fetch_timeout": "7s" });
    let cluster = json!({ "name": "c", "eds_cluster_config": { "eds_config": own } });
    let listener = json!({ "filter_chains": [{ "filters": [{ "typed_config": {
        "rds": { "route_config_name": "r", "config_source": { "self": { "transport_api_version": "V2" } } },
        "scoped_routes": {
            "rds_config_source": { "self": {} },
            "scoped_rds": { "scoped_rds_config_source": file("/scopes.yaml") },
        },
    } }] }] });
    let read = |via, type_url, name, resource: &Value| {
        bootstrap.references(via, type_url, name, resource).expect("it is right")
    };
    let endpoints = &read(None, types::CLUSTER, "c", &cluster)[0].source;
    assert_eq!(place(endpoints), "/cds.yaml");
    assert_eq!(endpoints.initial_fetch_timeout, Some(Duration::from_secs(7)), "it is its own");
    let of_authority = "xdstp://a/envoy.config.cluster.v3.Cluster/c";
    assert_eq!(place(&read(None, types::CLUSTER, of_authority, &cluster)[0].source), "ads");

    let found = read(None, types::LISTENER, "l", &listener);
    assert_eq!(place(&found[0].source), "lds");
    let Specifier::Api(api) = &found[0].source.specifier else { panic!("{found:?}") };
    assert_eq!(api.transport_api_version, ApiVersion::V2, "the referrer may speak another one");
    let scope = json!({ "name": "one", "route_configuration_name": "r" });
    let routes = read(Some(&found[1]), types::SCOPED_ROUTE_CONFIGURATION, "one", &scope);
    assert_eq!(place(&routes[0].source), "lds", "the listener says it, not the scope");
    // The origin of a static resource is unknown.
    let none = EnvoyBootstrap::from_json("{}").expect("it is right");
    let found = none.references(None, types::CLUSTER, "c", &cluster).expect("it is right");
    assert!(matches!(found[0].source.specifier, Specifier::SelfServer { .. }));
    println!("covers: S0.052 B20");
}

#[test]
fn nested_source_needs_its_own_client_unless_it_is_ads_or_self() {
    println!("covers: S0.053 S0.054");
    let bootstrap = json!({
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": { "cds_config": { "path_config_source": { "path": "/cds.yaml" } } },
    });
    let bootstrap = EnvoyBootstrap::from_json(&bootstrap.to_string()).expect("it is right");
    let config = |source: Value| {
        let cluster = json!({ "name": "c", "eds_cluster_config": { "eds_config": source } });
        let mut read =
            bootstrap.references(None, types::CLUSTER, "c", &cluster).expect("it is right");
        let nested = read.remove(0);
        let made = bootstrap.nested_client_config(&nested.type_url, &nested.source);
        (nested.source.specifier, made.expect("it can"))
    };
    assert!(config(json!({ "ads": {} })).1.is_none());
    let (_, made) = config(json!({ "self": {} }));
    assert_eq!(&*made.expect("clusters are in a file").servers[0].uri, "/cds.yaml");
    let (specifier, made) = config(json!({
        "api_config_source": {
            "api_type": "REST", "cluster_names": ["polled"], "refresh_delay": "1s",
            "transport_api_version": "V3",
        },
        "initial_fetch_timeout": "3s",
    }));
    assert!(matches!(specifier, Specifier::Api(_)));
    let made = made.expect("it is another");
    assert_eq!(&*made.servers[0].uri, "polled");
    let after = made.does_not_exist_timeout.values().copied().collect::<Vec<_>>();
    assert_eq!(after, [Some(Duration::from_secs(3))]);
    assert_eq!(made.node.id(), "n");
}
