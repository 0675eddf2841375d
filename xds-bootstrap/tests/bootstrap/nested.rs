//! Sources that resources name for what they refer to.

use std::time::Duration;

use serde_json::{Value, json};
use xds_bootstrap::envoy::{EnvoyBootstrap, NestedSource, Specifier};
use xds_core::types;

/// Type and name of each reference.
fn read(type_url: &str, resource: &Value) -> Vec<(String, String)> {
    let read = NestedSource::in_resource(type_url, resource).expect("it is right");
    read.into_iter().map(|it| (it.type_url.as_str().to_owned(), it.name)).collect()
}

fn manager(route: &str) -> Value {
    json!({ "rds": { "routeConfigName": route, "configSource": { "ads": {} } } })
}

#[test]
fn listeners_refer_to_routes_and_secrets_wherever_they_stand() {
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
            { "filters": [{ "name": "tcp", "typed_config": { "cluster": "c" } }, { "name": "bare" }] },
            { "filters": [{ "typed_config": manager("a") }],
              "transport_socket": { "name": "tls", "typed_config": context } },
        ],
        "defaultFilterChain": { "filters": [{ "typed_config": manager("b") }] },
        "api_listener": { "api_listener": manager("c") },
    });
    let routes = |name: &str| (types::ROUTE_CONFIGURATION.to_owned(), name.to_owned());
    let secret = |name: &str| (types::SECRET.to_owned(), name.to_owned());
    assert_eq!(
        read(types::LISTENER, &listener),
        [routes("a"), secret("key"), secret("roots"), routes("b"), routes("c")]
    );
    assert_eq!(read(types::CLUSTER, &json!({ "name": "c" })), []);
    assert_eq!(read(types::ROUTE_CONFIGURATION, &listener), [], "it is no listener");
    println!("covers: S0.052");
}

#[test]
fn clusters_refer_to_endpoints_by_their_own_name_or_another() {
    let cluster = |eds: Value| json!({ "name": "c", "eds_cluster_config": eds });
    let of = |eds| read(types::CLUSTER, &cluster(eds)).pop().map(|(_, name)| name);
    assert_eq!(of(json!({ "eds_config": { "ads": {} } })).as_deref(), Some("c"));
    let named = json!({ "eds_config": { "self": {} }, "service_name": "s" });
    assert_eq!(of(named).as_deref(), Some("s"));
    assert_eq!(of(json!({})), None);

    let bad = cluster(json!({ "eds_config": { "path_config_source": {} } }));
    let why = NestedSource::in_resource(types::CLUSTER, &bad).expect_err("no path").to_string();
    assert!(why.contains("eds_cluster_config.eds_config.path_config_source.path"), "{why}");
}

#[test]
fn a_nested_source_is_a_client_of_its_own_unless_it_is_the_stream_that_is_there() {
    println!("covers: S0.053 S0.054");
    let bootstrap = json!({
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": { "cds_config": { "path_config_source": { "path": "/cds.yaml" } } },
    });
    let bootstrap = EnvoyBootstrap::from_json(&bootstrap.to_string()).expect("it is right");
    let config = |source: Value| {
        let cluster = json!({ "name": "c", "eds_cluster_config": { "eds_config": source } });
        let mut read = NestedSource::in_resource(types::CLUSTER, &cluster).expect("it is right");
        let nested = read.remove(0);
        let made = bootstrap.nested_client_config(&nested.type_url, &nested.source);
        (nested.source.specifier, made.expect("it can"))
    };
    assert!(config(json!({ "ads": {} })).1.is_none());
    assert!(config(json!({ "self": {} })).1.is_none());
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
    let after = made.does_not_exist_after.values().copied().collect::<Vec<_>>();
    assert_eq!(after, [Some(Duration::from_secs(3))]);
    assert_eq!(made.node.id(), "n");
}
