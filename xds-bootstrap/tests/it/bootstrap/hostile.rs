//! No input causes a panic, and no secret is printed.

use proptest::prelude::*;
use serde_json::{Value, json};
use xds_bootstrap::{
    Bootstrap, BootstrapSource, FeatureSwitches,
    envoy::{ApiConfigSource, ConfigSource, EnvoyBootstrap},
};

use crate::bootstrap::first_server;

const SECRET: &str = "hunter2";

/// Returns a bootstrap that uses every field.
fn grpc() -> Value {
    let server = json!({
        "server_uri": "a",
        "channel_creds": [
            { "type": "new", "config": { "token": SECRET } },
            { "type": "tls", "config": {
                "ca_certificate_file": "/ca", "certificate_file": "/c", "private_key_file": "/k",
                "refresh_interval": "10.5s" } },
        ],
        "call_creds": [{ "type": "jwt_token_file", "config": { "jwt_token_file": "/t" } },
                       { "type": "new", "config": { "token": SECRET } }],
        "server_features": ["fail_on_data_errors", "trusted_xds_server", "xds_v3", 5,
                            "resource_timer_is_transient_failure", { "token": SECRET }],
    });
    json!({
        "xds_servers": [server, { "server_uri": "b", "channel_creds": [{ "type": "insecure" }] }],
        "node": { "id": "n", "cluster": "c", "locality": { "region": "r", "sub_zone": "s" },
                  "metadata": { "token": SECRET, "n": 1.5, "l": [null, true, { "x": SECRET }] } },
        "authorities": { "a.b": { "xds_servers": [server],
            "client_listener_resource_name_template": "xdstp://a.b/t/%s" }, "": {} },
        "client_default_listener_resource_name_template": "xdstp://a.b/t/%s",
        "server_listener_resource_name_template": "server/%s",
        "certificate_providers": { "p": { "plugin_name": "x", "config": { "key": SECRET } } },
        "allowed_grpc_services": { "dns:///x": { "channel_creds": [{ "type": "insecure" }] } },
        "unknown": SECRET,
    })
}

fn envoy() -> Value {
    let service = json!({
        "google_grpc": { "target_uri": "x", "stat_prefix": "y",
            "call_credentials": [{ "access_token": SECRET }],
            "channel_credentials": { "ssl_credentials": { "private_key": {
                "inline_string": SECRET } } } },
        "timeout": "1s", "initial_metadata": [{ "key": "authorization", "value": SECRET }],
    });
    json!({
        "node": { "id": "n", "cluster": "c", "metadata": { "token": SECRET } },
        "dynamic_resources": {
            "lds_config": { "api_config_source": {
                "apiType": "AGGREGATED_GRPC", "transport_api_version": "V3",
                "grpc_services": [service, { "envoy_grpc": { "cluster_name": "xds" } }],
                "rate_limit_settings": { "max_tokens": 5, "fill_rate": 2.5 },
                "set_node_on_first_message_only": true,
                "config_validators": [{ "name": "x", "typed_config": { "x": SECRET } }] } },
            "cds_config": { "path_config_source": { "path": "/x",
                "watchedDirectory": { "path": "/" } }, "initial_fetch_timeout": "0s" },
            "ads_config": { "api_type": 6, "grpc_services": [service] },
        },
        "config_sources": [{ "api_config_source": { "api_type": "REST", "cluster_names": ["r"],
            "refresh_delay": "1s", "request_timeout": "2s" }, "authorities": [{ "name": "a" }] }],
        "default_config_source": { "self": { "transport_api_version": "V2" } },
    })
}

/// Parses a text as every kind of configuration, and returns everything that can be printed of it.
fn print(text: &str) -> Vec<String> {
    let off = FeatureSwitches::from_variables(|_| Some("false".into()));
    let mut printed = Vec::new();
    for switches in [FeatureSwitches::default(), off] {
        match Bootstrap::from_json_with(text, switches) {
            Ok(bootstrap) => {
                // The results contain the target, so they are not included.
                let _ = bootstrap.client_listener_name(Some("a.b"), text);
                let _ = bootstrap.server_listener_name(text);
                let servers = bootstrap.servers_of("a.b");
                printed.push(format!("{bootstrap:?} {servers:?}"));
                printed.push(format!("{:?}", first_server(&bootstrap.client_config())));
                printed.extend(bootstrap.warnings.iter().map(ToString::to_string));
            }
            Err(why) => printed.extend([format!("{why:?}"), why.to_string()]),
        }
    }
    match EnvoyBootstrap::from_json(text) {
        Ok(bootstrap) => {
            printed.push(format!("{bootstrap:?} {:?}", bootstrap.client_config().map(|_| ())));
        }
        Err(why) => printed.extend([format!("{why:?}"), why.to_string()]),
    }
    let source = ConfigSource::from_json(text).map(|source| format!("{source:?}"));
    let api =
        ApiConfigSource::from_json(text).map(|api| format!("{:?} {api:?}", api.target(usize::MAX)));
    printed.extend([source, api].map(|read| read.unwrap_or_else(|why| format!("{why} {why:?}"))));
    printed
}

fn shows_no_secret(printed: &[String]) -> bool {
    !printed.iter().any(|line| line.contains(SECRET))
}

#[test]
fn complete_bootstraps_load_and_their_debug_output_has_no_secret() {
    let grpc = grpc().to_string();
    assert!(Bootstrap::from_json(&grpc).is_ok(), "{:?}", Bootstrap::from_json(&grpc).err());
    let proxy = envoy().to_string();
    assert!(EnvoyBootstrap::from_json(&proxy).is_ok(), "{:?}", EnvoyBootstrap::from_json(&proxy));
    for text in [&grpc, &proxy] {
        assert!(shows_no_secret(&print(text)), "{:?}", print(text));
    }
    let source = BootstrapSource::Inline(grpc.as_str().into());
    assert!(shows_no_secret(&[format!("{source:?}")]));
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(Bootstrap::from_json(&text).is_err());
    }
}

/// Replaces the `steps`-th value at or below `value`, in the order of the text.
fn replace(value: &mut Value, steps: &mut usize, new: &Value) {
    if *steps == 0 {
        *value = new.clone();
    }
    // After zero it wraps, so it does not reach zero again.
    *steps = steps.wrapping_sub(1);
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, steps, new)),
        Value::Object(object) => object.values_mut().for_each(|value| replace(value, steps, new)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!([])),
        Just(json!({})),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9%#/:.é-]{0,8}".prop_map(Value::from),
        "-?[0-9]{0,20}(\\.[0-9]{0,12})?s?".prop_map(Value::from),
        Just(json!([{ "type": "tls", "config": { "refresh_interval": "1e9s" } }])),
        Just(json!([[{ "x": [] }], "x", 5])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn wrong_values_do_not_panic_or_show_a_secret(
        is_proxy in any::<bool>(), edits in prop::collection::vec((0usize..140, replacement()), 1..3),
    ) {
        let mut value = if is_proxy { envoy() } else { grpc() };
        for (mut steps, replacement) in edits {
            replace(&mut value, &mut steps, &replacement);
        }
        let printed = print(&value.to_string());
        prop_assert!(shows_no_secret(&printed), "{:?}", printed);
    }

    #[test]
    fn truncated_or_garbled_bootstrap_does_not_panic_or_show_a_secret(
        is_proxy in any::<bool>(), cut in 0usize..4000, byte in any::<u8>(), garbles in any::<bool>(),
    ) {
        let mut bytes = if is_proxy { envoy() } else { grpc() }.to_string().into_bytes();
        let cut = cut % bytes.len();
        if garbles { bytes[cut] = byte } else { bytes.truncate(cut) }
        let text = String::from_utf8_lossy(&bytes);
        if text.contains(SECRET) || !garbles {
            let printed = print(&text);
            prop_assert!(shows_no_secret(&printed), "{:?}", printed);
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,64}") {
        print(&text);
    }
}
