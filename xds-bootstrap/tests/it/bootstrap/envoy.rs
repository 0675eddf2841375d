//! Config sources of the Envoy API: every transport, the defaults, and rejected input.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use xds_bootstrap::{
    BootstrapError,
    envoy::{
        ApiConfigSource, ApiType, ApiVersion, ConfigSource, GrpcTarget, ProxyHeaders, SendNode,
        Specifier, Target,
    },
};
use xds_core::types;

pub(crate) fn source(value: Value) -> Result<ConfigSource, BootstrapError> {
    ConfigSource::from_json(&value.to_string())
}

fn api(value: Value) -> Result<ApiConfigSource, BootstrapError> {
    ApiConfigSource::from_json(&value.to_string())
}

pub(crate) fn refusal<T: std::fmt::Debug>(read: Result<T, BootstrapError>) -> String {
    read.expect_err("it must not load").to_string()
}

pub(crate) fn services(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "envoy_grpc": { "cluster_name": name } })).collect()
}

pub(crate) fn grpc(api_type: &str) -> Value {
    json!({ "api_type": api_type, "grpc_services": services(&["xds"]) })
}

pub(crate) fn rest() -> Value {
    json!({ "api_type": "REST", "cluster_names": ["one", "two"], "refresh_delay": "5s" })
}

#[test]
fn api_type_is_parsed_by_name_and_by_number() {
    println!("covers: B18");
    for (name, number, expected) in [
        ("GRPC", 2, ApiType::Grpc),
        ("DELTA_GRPC", 3, ApiType::DeltaGrpc),
        ("AGGREGATED_GRPC", 5, ApiType::AggregatedGrpc),
        ("AGGREGATED_DELTA_GRPC", 6, ApiType::AggregatedDeltaGrpc),
    ] {
        let mut value = grpc(name);
        assert_eq!(api(value.clone()).expect(name).api_type, expected);
        value["api_type"] = number.into();
        assert_eq!(api(value).expect(name).api_type, expected);
        assert_eq!(expected.name(), name);
        assert_eq!(expected.is_incremental(), name.contains("DELTA"));
        assert_eq!(expected.is_aggregated(), name.contains("AGGREGATED"));
    }
    assert_eq!(api(rest()).expect("REST").api_type, ApiType::Rest);
}

#[test]
fn deprecated_and_unknown_api_types_are_rejected() {
    println!("covers: B18");
    for deprecated in [json!("DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE"), json!(0)] {
        let mut value = grpc("GRPC");
        value["api_type"] = deprecated;
        assert_eq!(
            refusal(source(json!({ "api_config_source": value }))),
            "api_config_source.api_type: this API type is deprecated and not supported"
        );
    }
    let known = "unknown value, expected one of REST, GRPC, DELTA_GRPC, AGGREGATED_GRPC and \
                 AGGREGATED_DELTA_GRPC";
    for unknown in [json!("GRPC2"), json!(4), json!(-1), json!(1.5)] {
        let mut value = grpc("GRPC");
        value["api_type"] = unknown;
        assert_eq!(refusal(api(value)), format!("api_type: {known}"));
    }
    // Envoy reads names of enum values in any case.
    let mut value = grpc("GRPC");
    value["api_type"] = json!("grpc");
    assert_eq!(api(value).unwrap(), api(grpc("GRPC")).unwrap());
    assert_eq!(
        refusal(api(json!({ "grpc_services": services(&["xds"]) }))),
        "api_type: required, but missing"
    );
    assert_eq!(
        refusal(api(json!({ "api_type": [] }))),
        "api_type: expected the name or number of an enum value, found a list"
    );
}

#[test]
fn camel_case_and_snake_case_are_accepted_and_null_means_unset() {
    println!("covers: B18");
    let one = source(json!({
        "api_config_source": {
            "api_type": "GRPC", "transport_api_version": "V3",
            "grpc_services": [{ "envoy_grpc": { "cluster_name": "xds" }, "timeout": "2s" }],
            "set_node_on_first_message_only": true,
            "rate_limit_settings": { "max_tokens": 5, "fill_rate": 0.5 },
        },
        "initial_fetch_timeout": "1s", "resource_api_version": "V3",
    }));
    let other = source(json!({
        "apiConfigSource": {
            "apiType": "GRPC", "transportApiVersion": 2,
            "grpcServices": [{ "envoyGrpc": { "clusterName": "xds" }, "timeout": "2.000s" }],
            "setNodeOnFirstMessageOnly": true,
            "rateLimitSettings": { "maxTokens": "5", "fillRate": "0.5" },
            "clusterNames": null, "refreshDelay": null,
        },
        "initialFetchTimeout": "1s", "resourceApiVersion": 2, "ads": null, "path": null,
    }));
    assert_eq!(one, other);
    let Ok(ConfigSource { specifier: Specifier::Api(api), .. }) = one else { panic!("{one:?}") };
    assert_eq!(api.node, SendNode::FirstRequest);
    assert_eq!(api.transport_api_version, ApiVersion::V3);
    let limit = api.rate_limit.expect("it is given");
    assert_eq!((limit.max_tokens, limit.fill_rate), (5, 0.5));
    assert_eq!(api.grpc_services[0].timeout, Some(Duration::from_secs(2)));

    assert_eq!(
        refusal(source(json!({ "ads": {}, "initial_fetch_timeout": "1s",
                               "initialFetchTimeout": "1s" }))),
        "initialFetchTimeout: already set as `initial_fetch_timeout`"
    );
}

#[test]
fn unset_fields_have_the_defaults_of_the_schema() {
    println!("covers: B18");
    let aggregated = source(json!({ "ads": {} })).expect("the smallest source");
    assert_eq!(aggregated.specifier, Specifier::Ads);
    assert_eq!(aggregated.initial_fetch_timeout, Some(Duration::from_secs(15)));
    assert_eq!(aggregated.resource_api_version, ApiVersion::Auto);
    let forever = source(json!({ "ads": {}, "initial_fetch_timeout": "0s" })).expect("no timeout");
    assert_eq!(forever.initial_fetch_timeout, None);

    let grpc = api(grpc("GRPC")).expect("the smallest gRPC API");
    assert_eq!((grpc.rate_limit, grpc.node), (None, SendNode::EveryRequest));
    let mut limited = self::grpc("GRPC");
    limited["rate_limit_settings"] = json!({});
    let limit = api(limited).expect("a limit").rate_limit.expect("it is given");
    assert_eq!((limit.max_tokens, limit.fill_rate), (100, 10.0));

    let rest = api(rest()).expect("REST").rest.expect("it is REST");
    assert_eq!(rest.request_timeout, Duration::from_secs(1));
    assert_eq!(rest.refresh_delay, Duration::from_secs(5));
}

#[test]
fn mixed_rest_and_grpc_settings_are_rejected() {
    println!("covers: B18 S0.180 RJ-13");
    let cases = [
        ("refresh_delay", json!(null), "refresh_delay: required, but missing"),
        ("refresh_delay", json!("0s"), "refresh_delay: must be more than 0s"),
        ("request_timeout", json!("0s"), "request_timeout: must be more than 0s"),
        ("cluster_names", json!(null), "cluster_names: required, but missing"),
        ("cluster_names", json!([]), "cluster_names: required, but missing"),
        ("cluster_names", json!(["a", ""]), "cluster_names[1]: must not be empty"),
        (
            "grpc_services",
            services(&["xds"]),
            "grpc_services: REST uses `cluster_names`, not `grpc_services`",
        ),
    ];
    for (key, wrong, why) in cases {
        let mut value = rest();
        value[key] = wrong;
        assert_eq!(refusal(api(value)), why);
    }
    let mut value = grpc("DELTA_GRPC");
    value["cluster_names"] = json!(["xds"]);
    assert_eq!(
        refusal(api(value.clone())),
        "cluster_names: gRPC uses `grpc_services`, not `cluster_names`"
    );
    value["cluster_names"] = json!([]);
    value["grpc_services"] = json!([]);
    assert_eq!(refusal(api(value)), "grpc_services: required, but missing");
}

#[test]
fn grpc_services_and_rest_clusters_rotate_per_attempt() {
    println!("covers: B18");
    let mut value = grpc("GRPC");
    value["grpc_services"] = services(&["one", "two", "three"]);
    let grpc = api(value).expect("it is right");
    let rest = api(rest()).expect("it is right");
    let name = |source: &ApiConfigSource, attempt| match source.target(attempt) {
        Some(Target::Service(service)) => match &service.target {
            GrpcTarget::Envoy { cluster_name, .. } => cluster_name.clone(),
            other => panic!("{other:?}"),
        },
        Some(Target::RestCluster(name)) => name.into(),
        other => panic!("{other:?}"),
    };
    let names = |source| (0..4).map(|attempt| name(source, attempt)).collect::<Vec<_>>();
    assert_eq!(names(&grpc), ["one", "two", "three", "one"]);
    assert_eq!(names(&rest), ["one", "two", "one", "two"]);
    assert_eq!(name(&grpc, usize::MAX), "one");
}

#[test]
fn grpc_service_has_exactly_one_target() {
    println!("covers: B18");
    let with = |service: Value| api(json!({ "api_type": "GRPC", "grpc_services": [service] }));
    let google = json!({ "google_grpc": { "target_uri": "dns:///x", "stat_prefix": "xds",
                                          "call_credentials": [{ "access_token": "t" }] },
                         "initial_metadata": [{ "key": "k", "value": "v" }] });
    let service = with(google).expect("it is right").grpc_services.remove(0);
    let GrpcTarget::Google { target_uri, stat_prefix, config } = service.target else {
        panic!("it has a client of its own");
    };
    assert_eq!((target_uri.as_str(), stat_prefix.as_str()), ("dns:///x", "xds"));
    assert_eq!(config.value()["call_credentials"][0]["access_token"], "t");
    assert_eq!(service.initial_metadata[0].value, "v");

    let envoy = |more: Value| {
        let mut envoy = json!({ "cluster_name": "x" });
        envoy.as_object_mut().expect("it is one").extend(more.as_object().expect("one").clone());
        let service = with(json!({ "envoy_grpc": envoy })).expect("it is right");
        match &service.grpc_services[0].target {
            GrpcTarget::Envoy { max_receive_message_length, proxy_headers, .. } => {
                (*max_receive_message_length, *proxy_headers)
            }
            other => panic!("unexpected {other:?}"),
        }
    };
    assert_eq!(envoy(json!({})), (None, ProxyHeaders::Sent));
    assert_eq!(envoy(json!({ "max_receive_message_length": 0 })), (None, ProxyHeaders::Sent));
    assert_eq!(
        envoy(json!({ "maxReceiveMessageLength": "4194304", "skip_envoy_headers": true })),
        (Some(4 << 20), ProxyHeaders::Skipped)
    );

    for (service, why) in [
        (json!({}), ".envoy_grpc: required, but missing"),
        (
            json!({ "envoy_grpc": { "cluster_name": "" } }),
            ".envoy_grpc.cluster_name: must not be empty",
        ),
        (
            json!({ "envoyGrpc": { "clusterName": "x" }, "googleGrpc": {} }),
            ".googleGrpc: must not be set together with `envoy_grpc`",
        ),
        (
            json!({ "envoy_grpc": { "cluster_name": "x", "max_receive_message_length": -1 } }),
            ".envoy_grpc.max_receive_message_length: must be a 32-bit unsigned integer",
        ),
        (json!({ "google_grpc": {} }), ".google_grpc.target_uri: required, but missing"),
        (
            json!({ "envoy_grpc": { "cluster_name": "x" }, "timeout": "1" }),
            ".timeout: must be a non-negative duration, as in \"1.5s\"",
        ),
        (json!({ "envoy_grpc": { "cluster": "x" } }), ".envoy_grpc.cluster: unknown field"),
    ] {
        assert_eq!(refusal(with(service)), format!("grpc_services[0]{why}"));
    }
}

#[test]
fn config_source_has_exactly_one_specifier() {
    println!("covers: S0.052 S0.054 B18");
    let path = source(json!({ "path_config_source": {
        "path": "/lds.json", "watched_directory": { "path": "/etc" } } }));
    let Ok(ConfigSource { specifier: Specifier::Path(file), .. }) = path else {
        panic!("{path:?}")
    };
    assert_eq!(file.path, Path::new("/lds.json"));
    assert_eq!(file.watched_directory.as_deref(), Some(Path::new("/etc")));
    let old = source(json!({ "path": "/lds.json" })).expect("the old form");
    assert!(matches!(old.specifier, Specifier::Path(file) if file.watched_directory.is_none()));
    let own = source(json!({ "self": { "transport_api_version": "V3" } })).expect("self");
    assert_eq!(own.specifier, Specifier::SelfServer { transport_api_version: ApiVersion::V3 });

    for (value, why) in [
        (json!({}), "must have one of `ads`, `api_config_source`, `path_config_source` and `self`"),
        (json!({ "ads": {}, "self": {} }), "self: must not be set together with `ads`"),
        (json!({ "ads": { "x": 1 } }), "ads.x: unknown field"),
        (json!({ "adss": {} }), "adss: unknown field"),
        (json!({ "path_config_source": {} }), "path_config_source.path: required, but missing"),
        (
            json!({ "path_config_source": { "path": "/x", "watched_directory": {} } }),
            "path_config_source.watched_directory.path: required, but missing",
        ),
        (
            json!({ "ads": {}, "initial_fetch_timeout": "-1s" }),
            "initial_fetch_timeout: must be a non-negative duration, as in \"1.5s\"",
        ),
        (json!({ "ads": {}, "authorities": [{}] }), "authorities[0].name: required, but missing"),
        (
            json!({ "ads": {}, "resource_api_version": "V4" }),
            "resource_api_version: unknown value, expected one of AUTO, V2 and V3",
        ),
    ] {
        assert_eq!(refusal(source(value)), why);
    }
}

#[test]
fn rate_limit_settings_must_be_positive() {
    println!("covers: B18");
    for (limits, why) in [
        (json!({ "fill_rate": 0 }), ".fill_rate: must be a number greater than 0"),
        (json!({ "fill_rate": "NaN" }), ".fill_rate: must be a number greater than 0"),
        (json!({ "max_tokens": -1 }), ".max_tokens: must be a 32-bit unsigned integer"),
        (json!({ "max_tokens": 4294967296u64 }), ".max_tokens: must be a 32-bit unsigned integer"),
        (json!({ "max_tokens": 1.5 }), ".max_tokens: must be a 32-bit unsigned integer"),
        (json!({ "max_tokens": [] }), ".max_tokens: expected a number, found a list"),
    ] {
        let mut value = grpc("GRPC");
        value["rate_limit_settings"] = limits;
        assert_eq!(refusal(api(value)), format!("rate_limit_settings{why}"));
    }
}

#[test]
fn vhds_requires_an_incremental_api_type() {
    println!("covers: S0.042 S0.180");
    let hosts = types::VIRTUAL_HOST.into();
    let check = |value: Value, ads: Option<&ApiConfigSource>| {
        source(value).expect("the source is right").check_type(&hosts, ads)
    };
    for (value, api_type) in
        [(grpc("GRPC"), "GRPC"), (grpc("AGGREGATED_GRPC"), "AGGREGATED_GRPC"), (rest(), "REST")]
    {
        assert_eq!(
            refusal(check(json!({ "api_config_source": value }), None)),
            format!(
                "api_config_source.api_type: VirtualHost is available only in the incremental \
                 variant, but api_type is {api_type}"
            )
        );
        let other = source(json!({ "api_config_source": value })).expect("it is right");
        assert_eq!(other.check_type(&types::CLUSTER.into(), None), Ok(()));
    }
    assert_eq!(check(json!({ "api_config_source": grpc("DELTA_GRPC") }), None), Ok(()));
    assert!(check(json!({ "path": "/x" }), None).is_err());
    let full = api(grpc("GRPC")).expect("it is right");
    let delta = api(grpc("DELTA_GRPC")).expect("it is right");
    assert!(refusal(check(json!({ "ads": {} }), Some(&full))).starts_with("ads_config.api_type: "));
    assert_eq!(check(json!({ "ads": {} }), Some(&delta)), Ok(()));
}

#[test]
fn grpc_client_accepts_only_ads_or_self_as_config_source() {
    // S0.060, S0.062, A47: for programs that validate a Listener or a Cluster.
    for (value, path) in [
        (json!({ "ads": {} }), None),
        (json!({ "self": {} }), None),
        (json!({ "api_config_source": grpc("AGGREGATED_GRPC") }), Some("api_config_source")),
        (json!({ "path": "/x" }), Some("path_config_source")),
    ] {
        let why = source(value).expect("the source is right").check_for_grpc().err();
        assert_eq!(why.as_ref().map(BootstrapError::path), path);
    }
}
