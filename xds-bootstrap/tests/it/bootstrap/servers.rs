//! Entries of `xds_servers`: credentials, features, switches, equality.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use xds_bootstrap::{
    Bootstrap, CallCredentials, ChannelCredentials, ErrorKind, FeatureSwitch, FeatureSwitches,
    XdsServer,
};
use xds_core::client::{DataErrorPolicy, Fallback, Federation, ReportedErrors, ServerFeature};

use crate::bootstrap::{first_server, load, refusal, server, warnings, with};

#[test]
fn at_least_one_server_with_a_uri_is_required() {
    println!("covers: BS-04 BS-05");
    assert_eq!(refusal(&json!({})), "xds_servers: required, but missing");
    assert_eq!(refusal(&json!({ "xds_servers": [] })), "xds_servers: must not be empty");
    assert_eq!(
        refusal(&json!({ "xds_servers": {} })),
        "xds_servers: expected a list, found an object"
    );
    let mut entry = server("");
    assert_eq!(
        refusal(&json!({ "xds_servers": [server("a"), entry] })),
        "xds_servers[1].server_uri: must not be empty"
    );
    entry.as_object_mut().expect("an object").remove("server_uri");
    assert_eq!(
        refusal(&json!({ "xds_servers": [entry] })),
        "xds_servers[0].server_uri: required, but missing"
    );
    assert_eq!(
        refusal(&json!({ "xds_servers": ["a"] })),
        "xds_servers[0]: expected an object, found a string"
    );
}

#[test]
fn supported_channel_credentials_are_required() {
    println!("covers: BS-06 BS-07");
    assert_eq!(
        refusal(&json!({ "xds_servers": [{ "server_uri": "a" }] })),
        "xds_servers[0].channel_creds: required, but missing"
    );
    for (credentials, why) in [
        (json!([]), ": no supported type: found none"),
        (json!([{ "type": "x" }]), ": no supported type: found x"),
        (
            json!([{ "type": "google_default" }, { "type": "x" }]),
            ": no supported type: found google_default, x",
        ),
        (json!([{}]), "[0].type: required, but missing"),
        (json!([{ "type": 5 }]), "[0].type: expected a string, found a number"),
        (json!({ "type": "insecure" }), ": expected a list, found an object"),
    ] {
        assert_eq!(
            refusal(&with(json!({ "channel_creds": credentials }))),
            format!("xds_servers[0].channel_creds{why}")
        );
    }
}

#[test]
fn first_supported_channel_credentials_are_used() {
    println!("covers: BS-08 B42");
    let list = json!([{ "type": "x", "config": 5 }, { "type": "insecure" }, { "type": "tls" }]);
    let bootstrap = load(&with(json!({ "channel_creds": list })));
    assert_eq!(bootstrap.servers[0].channel_credentials, ChannelCredentials::Insecure);

    let list = json!([{ "type": "google_default" }, { "type": "tls" }]);
    let bootstrap = load(&with(json!({ "channel_creds": list })));
    let ChannelCredentials::Tls(files) = &bootstrap.servers[0].channel_credentials else {
        panic!("TLS is the first supported one");
    };
    assert_eq!((&files.ca_certificate, &files.identity), (&None, &None));
    assert_eq!(files.refresh_interval, Duration::from_secs(600));
    assert_eq!(
        warnings(&bootstrap),
        ["xds_servers[0].channel_creds[0].type: credentials of type `google_default` are not \
         supported"]
    );
}

#[test]
fn tls_credentials_have_files_and_a_refresh_interval() {
    println!("covers: B42");
    let config = json!({
        "ca_certificate_file": "/ca", "certificate_file": "/cert", "private_key_file": "/key",
        "refresh_interval": "1.5s", "unknown": [],
    });
    let list = json!([{ "type": "tls", "config": config }]);
    let bootstrap = load(&with(json!({ "channel_creds": list })));
    let ChannelCredentials::Tls(files) = &bootstrap.servers[0].channel_credentials else {
        panic!("it says TLS");
    };
    assert_eq!(files.ca_certificate.as_deref(), Some("/ca".as_ref()));
    let identity = files.identity.as_ref().expect("both files are given");
    assert_eq!(identity.certificate, std::path::Path::new("/cert"));
    assert_eq!(identity.private_key, std::path::Path::new("/key"));
    assert_eq!(files.refresh_interval, Duration::from_millis(1500));
}

#[test]
fn invalid_config_of_supported_credentials_is_an_error() {
    println!("covers: BS-09");
    for (config, why) in [
        (json!(5), ": expected an object, found a number"),
        (
            json!({ "certificate_file": "/cert" }),
            ".certificate_file: must be given together with `private_key_file`",
        ),
        (
            json!({ "private_key_file": "/key" }),
            ".private_key_file: must be given together with `certificate_file`",
        ),
        (json!({ "ca_certificate_file": "" }), ".ca_certificate_file: must not be empty"),
        (json!({ "refresh_interval": "0s" }), ".refresh_interval: must be more than 0s"),
        (
            json!({ "refresh_interval": 600 }),
            ".refresh_interval: expected a duration, as in \"1.5s\", found a number",
        ),
        (
            json!({ "refresh_interval": "-1s" }),
            ".refresh_interval: must be a non-negative duration, as in \"1.5s\"",
        ),
    ] {
        let list = json!([{ "type": "tls", "config": config }, { "type": "insecure" }]);
        assert_eq!(
            refusal(&with(json!({ "channel_creds": list }))),
            format!("xds_servers[0].channel_creds[0].config{why}")
        );
    }
}

#[test]
fn known_server_features_are_parsed_and_others_ignored() {
    println!("covers: BS-11 BS-12 B25 D30 X14 S3.041");
    let list = json!([
        5, null, { "a": 1 }, ["trusted_xds_server"], "new", "fail_on_data_errors",
        "trusted_xds_server", "resource_timer_is_transient_failure", "ignore_resource_deletion",
        "xds_v3", "fail_on_data_errors",
    ]);
    let bootstrap = load(&with(json!({ "server_features": list })));
    for feature in [
        ServerFeature::FailOnDataErrors,
        ServerFeature::TrustedXdsServer,
        ServerFeature::ResourceTimerIsTransientError,
        ServerFeature::IgnoreResourceDeletion,
    ] {
        assert!(bootstrap.servers[0].has(feature), "{}", feature.as_str());
    }
    assert_eq!(
        warnings(&bootstrap),
        [
            "xds_servers[0].server_features[7]: server feature \
             resource_timer_is_transient_failure is misspelled: use \
             resource_timer_is_transient_error",
            "xds_servers[0].server_features[8]: server feature ignore_resource_deletion is \
             deprecated: it applies only if data error handling (gRFC A88) is disabled",
        ]
    );
    assert_eq!(
        refusal(&with(json!({ "server_features": "xds_v3" }))),
        "xds_servers[0].server_features: expected a list, found a string"
    );
}

#[test]
fn disabled_switches_disable_their_features() {
    // The configuration part of DL-15 and FE-14.
    println!("covers: BS-12 BS-14 BS-23 BS-24 S2.064 S2.065 S3.024 S3.099 S3.100");
    let mut value = with(json!({
        "server_features": ["fail_on_data_errors", "resource_timer_is_transient_error",
                            "trusted_xds_server", "ignore_resource_deletion"],
        "call_creds": [{ "type": "jwt_token_file", "config": { "jwt_token_file": "/token" } }],
    }));
    value["xds_servers"].as_array_mut().expect("a list").push(server("b"));
    value["authorities"] = json!({ "eu": { "xds_servers": [server("c"), server("d")] } });
    value["client_default_listener_resource_name_template"] = "xdstp://eu/t/%s".into();
    value["allowed_grpc_services"] = json!({ "x": { "channel_creds": [{ "type": "insecure" }] } });

    let on = load(&value);
    assert_eq!(on.feature_switches, FeatureSwitches::default());
    assert_eq!((on.servers.len(), on.servers[0].features.len()), (2, 4));
    assert_eq!(on.servers[0].call_credentials.len(), 1);
    assert_eq!(on.authorities["eu"].servers.len(), 2);
    assert_eq!(on.allowed_grpc_services.len(), 1);
    let config = on.client_config();
    let features = first_server(&config).features;
    assert!(features.contains(ServerFeature::FailOnDataErrors));
    assert_eq!(first_server(&config).data_errors, None);
    assert_eq!((config.servers.len(), config.authorities.len()), (2, 1));

    let mut off = FeatureSwitches::from_variables(|_| Some("False".into()));
    off.allowed_grpc_services = FeatureSwitch::Off;
    let disabled = Bootstrap::from_json_with(&value.to_string(), off).expect("it loads");
    assert_eq!(disabled.servers.len(), 1);
    assert_eq!(
        disabled.servers[0].features,
        BTreeSet::from([ServerFeature::IgnoreResourceDeletion])
    );
    assert!(disabled.servers[0].call_credentials.is_empty());
    assert!(disabled.authorities.is_empty() && disabled.allowed_grpc_services.is_empty());
    assert_eq!(disabled.client_listener_name(None, "x").expect("no authority"), "x");
    assert_eq!(
        first_server(&disabled.client_config()).data_errors,
        Some(DataErrorPolicy::KeepCached)
    );
    assert_eq!(
        warnings(&disabled)[..3],
        [
            "xds_servers[0].call_creds: ignored because GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS is disabled",
            "xds_servers[0].server_features[0]: ignored because \
             GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING is disabled",
            "xds_servers[0].server_features[1]: ignored because \
             GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING is disabled",
        ]
    );
    let profile = disabled.client_config().profile;
    assert_eq!((profile.federation, profile.fallback), (Federation::Off, Fallback::Off));
    // resource-errors.txt tests the effect on a response.
    assert_eq!(profile.reported_errors, ReportedErrors::Ignored);
    assert_eq!(config.profile.reported_errors, ReportedErrors::Used);
    // With the switch of data errors off, deleted resources are dropped.
    let plain = json!({ "xds_servers": [server("a")] }).to_string();
    let plain = Bootstrap::from_json_with(&plain, off).expect("it loads");
    assert_eq!(
        first_server(&plain.client_config()).data_errors,
        Some(DataErrorPolicy::DropDeleted)
    );
}

#[test]
fn switch_variables_are_disabled_by_false_0_and_no() {
    println!("covers: S2.064 S2.066 S3.099");
    let of = |value: &str| FeatureSwitches::from_variables(|_| Some(value.into()));
    for value in ["true", "TRUE", "1", "", "maybe"] {
        assert_eq!(of(value), FeatureSwitches::default(), "{value:?}");
    }
    for value in ["false", "False", "0", "no"] {
        assert_eq!(of(value).routing, FeatureSwitch::Off, "{value:?}");
    }
    let only = |name: &str| (name == FeatureSwitches::DATA_ERRORS).then(|| "false".into());
    let switches = FeatureSwitches::from_variables(only);
    assert_eq!((switches.data_errors, switches.routing), (FeatureSwitch::Off, FeatureSwitch::On));
}

#[test]
fn servers_keep_their_order() {
    println!("covers: BS-14");
    let bootstrap = load(&json!({ "xds_servers": [server("b"), server("a"), server("c")] }));
    let config = bootstrap.client_config();
    let uris: Vec<_> = config.servers.iter().map(|server| &*server.uri).collect();
    assert_eq!(uris, ["b", "a", "c"]);
    let found = config.servers.iter().map(|server| bootstrap.entry_of(server));
    assert!(found.eq(bootstrap.servers.iter().map(Some)));
}

#[test]
fn all_supported_call_credentials_are_kept() {
    println!("covers: BS-23 B42");
    let jwt =
        |file: &str| json!({ "type": "jwt_token_file", "config": { "jwt_token_file": file } });
    let list = json!([jwt("/one"), { "type": "new", "config": 1 }, jwt("/two")]);
    let bootstrap = load(&with(json!({ "call_creds": list })));
    assert_eq!(
        *bootstrap.servers[0].call_credentials,
        [
            CallCredentials::JwtTokenFile("/one".into()),
            CallCredentials::JwtTokenFile("/two".into())
        ]
    );
    let [warning] = &bootstrap.warnings[..] else { panic!("{:?}", bootstrap.warnings) };
    assert_eq!(
        warning.to_string(),
        "xds_servers[0].call_creds[1].type: call credentials of type \"new\" are not supported: \
         calls are made without them"
    );
    for (entry, why) in [
        (json!({ "config": {} }), ".type: required, but missing"),
        (json!({ "type": "jwt_token_file" }), ".config: required, but missing"),
        (
            json!({ "type": "jwt_token_file", "config": {} }),
            ".config.jwt_token_file: required, but missing",
        ),
        (jwt(""), ".config.jwt_token_file: must not be empty"),
        (json!("jwt_token_file"), ": expected an object, found a string"),
    ] {
        assert_eq!(
            refusal(&with(json!({ "call_creds": [entry] }))),
            format!("xds_servers[0].call_creds[0]{why}")
        );
    }
}

#[test]
fn servers_are_equal_if_their_known_fields_are() {
    println!("covers: BS-25");
    let switches = FeatureSwitches::default();
    let read = |entry: Value| XdsServer::from_value(&entry, &switches).expect("it is a server");
    let plain = read(server("a"));
    let mut entry = server("a");
    entry["unknown"] = 1.into();
    entry["channel_creds"] = json!([{ "type": "new" }, { "type": "insecure", "config": {} },
                                    { "type": "tls" }]);
    entry["server_features"] = json!(["new", 5]);
    assert_eq!(read(entry.clone()), plain);
    entry["server_features"] = json!(["fail_on_data_errors", "trusted_xds_server"]);
    assert_ne!(read(entry.clone()), plain);
    let mut turned = entry.clone();
    turned["server_features"] =
        json!(["trusted_xds_server", "fail_on_data_errors", "trusted_xds_server", "xds_v3"]);
    assert_eq!(read(entry.clone()), read(turned));
    entry["call_creds"] =
        json!([{ "type": "jwt_token_file", "config": { "jwt_token_file": "/t" } }]);
    assert_ne!(read(entry), plain);
    assert_ne!(read(server("b")), plain);
}

#[test]
fn serialized_server_parses_to_an_equal_server() {
    println!("covers: BS-26");
    let switches = FeatureSwitches::default();
    let tls = json!({ "ca_certificate_file": "/ca", "certificate_file": "/cert",
                      "private_key_file": "/key", "refresh_interval": "0.000000001s" });
    let bootstrap = load(&with(json!({
        "channel_creds": [{ "type": "new" }, { "type": "tls", "config": tls }],
        "call_creds": [{ "type": "jwt_token_file", "config": { "jwt_token_file": "/t" } }],
        "server_features": ["resource_timer_is_transient_failure", "fail_on_data_errors"],
    })));
    let server = &bootstrap.servers[0];
    assert_eq!(XdsServer::from_value(&server.to_json(), &switches).as_ref(), Ok(server));

    let why = XdsServer::from_value(&json!({}), &switches).expect_err("nothing is there");
    assert_eq!((why.path(), why.kind()), ("server_uri", &ErrorKind::Missing));
}
