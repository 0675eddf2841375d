//! gRPC's bootstrap: nodes, authorities, templates, certificate providers.

use serde_json::json;
use xds_bootstrap::{Bootstrap, ChannelCredentials, TlsFiles, UnknownAuthority};
use xds_core::proto::{NullValue, value::Kind};

use crate::bootstrap::{load, refusal, server, with_top};

#[test]
fn invalid_json_or_non_object_error_states_the_position() {
    println!("covers: BS-02 BS-03");
    let refusal = |text| Bootstrap::from_json(text).map_err(|why| why.to_string()).err();
    assert_eq!(
        refusal("{\n  \"xds_servers\": [}").as_deref(),
        Some("line 2, column 19: invalid JSON: expected value")
    );
    assert_eq!(refusal("").as_deref(), Some("line 1, column 1: invalid JSON: there is no text"));
    assert!(refusal("[\"test\": 123]").is_some_and(|why| why.starts_with("line 1, column 8: ")));
    for (text, reason) in [
        ("{\n", "line 2, column 1: invalid JSON: the text ends inside an object"),
        ("{\"node\":", "line 1, column 8: invalid JSON: the text ends where a value is expected"),
    ] {
        assert_eq!(refusal(text).as_deref(), Some(reason), "{text}");
    }
    assert_eq!(refusal("[]").as_deref(), Some("expected an object, found a list"));
}

#[test]
fn unknown_fields_are_ignored_at_every_level() {
    println!("covers: BS-10 BS-13");
    let bootstrap = load(&json!({
        "xds_servers": [{
            "server_uri": "a", "unknown": 1,
            "channel_creds": [{ "type": "insecure", "unknown": 1, "config": { "unknown": 1 } }],
        }],
        "node": { "id": "n", "unknown": 1, "locality": { "zone": "z", "unknown": 1 } },
        "server_features": ["fail_on_data_errors"],
        "unknown": { "unknown": [] },
    }));
    assert!(bootstrap.servers[0].features.is_empty());
    assert_eq!(bootstrap.node.locality.map(|locality| locality.zone).as_deref(), Some("z"));
    assert_eq!(bootstrap.warnings, []);
}

#[test]
fn node_may_be_absent_or_empty() {
    println!("covers: BS-15");
    for value in [
        json!({ "xds_servers": [server("a")] }),
        with_top("node", json!({})),
        with_top("node", json!({ "id": null })),
    ] {
        let bootstrap = load(&value);
        assert_eq!(bootstrap.client_config().node.id(), "");
        let why = bootstrap.node.check_for_envoy().expect_err("a proxy needs a name");
        assert_eq!(why.to_string(), "node.id: must not be empty");
    }
}

#[test]
fn node_metadata_may_be_any_json() {
    println!("covers: BS-16");
    let bootstrap = load(&with_top(
        "node",
        json!({
            "id": "n", "cluster": "c", "locality": { "region": "r", "zone": "z", "subZone": "s" },
            "metadata": { "n": 1.5, "z": null, "b": true, "l": [1, "x", []], "o": { "k": {} } },
        }),
    ));
    let locality = bootstrap.node.locality.as_ref().expect("it is given");
    assert_eq!(
        [&locality.region, &locality.zone, &locality.sub_zone].map(String::as_str),
        ["r", "z", "s"]
    );
    let metadata = &bootstrap.node.metadata.as_ref().expect("it is given").fields;
    let kind = |key: &str| metadata[key].kind.clone().expect("every value is of a kind");
    assert_eq!(kind("n"), Kind::NumberValue(1.5));
    assert_eq!(kind("z"), Kind::NullValue(NullValue::NullValue.into()));
    assert_eq!(kind("b"), Kind::BoolValue(true));
    assert!(matches!(kind("l"), Kind::ListValue(list) if list.values.len() == 3));
    assert!(matches!(kind("o"), Kind::StructValue(object) if object.fields.contains_key("k")));
    assert_eq!(bootstrap.node.check_for_envoy(), Ok(()));
    assert_eq!(bootstrap.client_config().node.id(), "n");
}

#[test]
fn node_fields_of_a_wrong_type_are_rejected() {
    println!("covers: BS-17");
    for (node, why) in [
        (json!({ "id": 5 }), "node.id: expected a string, found a number"),
        (json!({ "cluster": [] }), "node.cluster: expected a string, found a list"),
        (json!({ "locality": "x" }), "node.locality: expected an object, found a string"),
        (
            json!({ "locality": { "zone": true } }),
            "node.locality.zone: expected a string, found a boolean",
        ),
        (json!({ "metadata": [] }), "node.metadata: expected an object, found a list"),
        (json!(5), "node: expected an object, found a number"),
    ] {
        assert_eq!(refusal(&with_top("node", node)), why);
    }
}

#[test]
fn authority_template_must_start_with_its_authority() {
    println!("covers: BS-18 BS-19");
    let authority = |name: &str, template: &str| {
        let entry = json!({ "client_listener_resource_name_template": template });
        with_top("authorities", json!({ name: entry }))
    };
    for (name, template) in [("a.b", "xdstp://a.bc/t/%s"), ("a.b", "%s"), ("a.b", "xdstp://a.b")] {
        assert_eq!(
            refusal(&authority(name, template)),
            "authorities[\"a.b\"].client_listener_resource_name_template: must start with \
             \"xdstp://a.b/\""
        );
    }
    assert_eq!(
        refusal(&authority("#.com", "xdstp://#.com/t/%s")),
        "authorities[\"#.com\"].client_listener_resource_name_template: must start with \
         \"xdstp://%23.com/\""
    );
    let bootstrap = load(&authority("#.com", "xdstp://%23.com/t/x/%s"));
    assert_eq!(
        bootstrap.client_listener_name(Some("#.com"), "y").expect("it is known"),
        "xdstp://%23.com/t/x/y"
    );
}

#[test]
fn name_templates_have_defaults() {
    println!("covers: BS-19 FE-20");
    let bootstrap = load(&with_top("authorities", json!({ "#.com": {}, "": {} })));
    let name = |authority, target: &str| bootstrap.client_listener_name(authority, target);
    assert_eq!(name(None, "server:80").expect("no authority"), "server:80");
    assert_eq!(
        name(Some("#.com"), "server:80").expect("it is known"),
        "xdstp://%23.com/envoy.config.listener.v3.Listener/server:80"
    );
    assert_eq!(
        name(Some(""), "[::1]").expect("it is known"),
        "xdstp:///envoy.config.listener.v3.Listener/%5B::1%5D"
    );
    assert_eq!(name(Some("eu"), "x"), Err(UnknownAuthority("eu".into())));
    assert_eq!(bootstrap.server_listener_name("0.0.0.0:80"), None);

    let template = json!("grpc/server?address=%s");
    let bootstrap = load(&with_top("server_listener_resource_name_template", template));
    assert_eq!(
        bootstrap.server_listener_name("[::]:80").expect("it is given"),
        "grpc/server?address=[::]:80"
    );
}

#[test]
fn name_templates_of_a_wrong_type_are_rejected() {
    println!("covers: BS-20");
    for key in
        ["client_default_listener_resource_name_template", "server_listener_resource_name_template"]
    {
        assert_eq!(
            refusal(&with_top(key, json!(1))),
            format!("{key}: expected a string, found a number")
        );
    }
    let entry = json!({ "client_listener_resource_name_template": 1 });
    assert_eq!(
        refusal(&with_top("authorities", json!({ "a": entry }))),
        "authorities.a.client_listener_resource_name_template: expected a string, found a number"
    );
}

#[test]
fn authority_servers_are_validated_and_default_to_the_top_level() {
    println!("covers: BS-21");
    let entry = json!({ "xds_servers": [server("b"), { "server_uri": "c" }] });
    assert_eq!(
        refusal(&with_top("authorities", json!({ "a.b": entry }))),
        "authorities[\"a.b\"].xds_servers[1].channel_creds: required, but missing"
    );
    let entries = json!({ "one": { "xds_servers": [server("b")] }, "two": { "xds_servers": [] },
                          "": {} });
    let bootstrap = load(&with_top("authorities", entries));
    let uri = |authority| bootstrap.servers_of(authority).map(|servers| &*servers[0].uri);
    assert_eq!(uri("one"), Some("b"));
    assert_eq!(uri("two"), Some("a"));
    assert_eq!(uri(""), Some("a"));
    assert_eq!(uri("nope"), None);

    let config = bootstrap.client_config();
    let authorities: Vec<_> =
        config.authorities.iter().map(|entry| (&*entry.name, entry.servers.len())).collect();
    assert_eq!(authorities, [("", 0), ("one", 1), ("two", 0)]);
    let own = &config.authorities[1].servers[0];
    assert_eq!(bootstrap.entry_of(own).map(|entry| &*entry.uri), Some("b"));
}

#[test]
fn certificate_providers_are_kept_unparsed() {
    println!("covers: BS-22 B24");
    let providers = json!({ "default": { "plugin_name": "new", "config": { "a": [1] } } });
    let bootstrap = load(&with_top("certificate_providers", providers));
    let provider = &bootstrap.certificate_providers["default"];
    assert_eq!(provider.plugin_name, "new");
    assert_eq!(provider.config.value(), &json!({ "a": [1] }));

    for (entry, why) in [
        (json!(1), ": expected an object, found a number"),
        (json!({ "config": {} }), ".plugin_name: required, but missing"),
        (
            json!({ "plugin_name": 1, "config": {} }),
            ".plugin_name: expected a string, found a number",
        ),
        (json!({ "plugin_name": "x" }), ".config: required, but missing"),
        (json!({ "plugin_name": "x", "config": 1 }), ".config: expected an object, found a number"),
    ] {
        assert_eq!(
            refusal(&with_top("certificate_providers", json!({ "default": entry }))),
            format!("certificate_providers.default{why}")
        );
    }
}

#[test]
fn file_watcher_provider_is_read_as_tls_files() {
    let with = |plugin: &str, config: serde_json::Value| {
        let provider = json!({ "own": { "plugin_name": plugin, "config": config } });
        let bootstrap = load(&with_top("certificate_providers", provider));
        bootstrap.certificate_providers["own"].file_watcher().map_err(|why| why.to_string())
    };
    let files = TlsFiles::default()
        .with_ca_certificate("/ca")
        .with_identity("/c", "/k")
        .with_refresh_interval(std::time::Duration::from_secs(60));
    let config = json!({
        "ca_certificate_file": "/ca",
        "certificate_file": "/c",
        "private_key_file": "/k",
        "refresh_interval": "60s",
    });
    assert_eq!(with("file_watcher", config.clone()), Ok(Some(files)));
    assert_eq!(with("another", config), Ok(None));
    let half = with("file_watcher", json!({ "certificate_file": "/c" })).unwrap_err();
    assert!(half.contains("certificate_file") && half.contains("private_key_file"), "{half}");
    println!("covers: B24");
}

#[test]
fn allowed_grpc_services_require_channel_credentials() {
    println!("covers: BS-24");
    let services = json!({ "dns:///x": {
        "channel_creds": [{ "type": "insecure" }],
        "call_creds": [{ "type": "jwt_token_file", "config": { "jwt_token_file": "/t" } }],
    } });
    let bootstrap = load(&with_top("allowed_grpc_services", services));
    let service = &bootstrap.allowed_grpc_services["dns:///x"];
    assert_eq!(service.channel_credentials, ChannelCredentials::Insecure);
    assert_eq!(service.call_credentials.len(), 1);
    for (entry, why) in [
        (json!(null), ": expected an object, found null"),
        (json!({}), ".channel_creds: required, but missing"),
        (
            json!({ "channel_creds": [{ "type": "x" }] }),
            ".channel_creds: no supported type: found x",
        ),
    ] {
        assert_eq!(
            refusal(&with_top("allowed_grpc_services", json!({ "x": entry }))),
            format!("allowed_grpc_services.x{why}")
        );
    }
}
