//! Sources in an Envoy bootstrap, and the client configuration made from them.

use std::time::Duration;

use serde_json::{Value, json};
use xds_bootstrap::{
    BootstrapError, ErrorKind, UnsupportedConfig,
    envoy::{EnvoyBootstrap, Specifier, Target},
};
use xds_core::{
    Client, Time, TypeUrl,
    client::{
        ClientConfig, DoesNotExistTimeout, FilePolicy, Interest, OpaqueType, PollPolicy, Streams,
        TransportKind,
    },
    service::Variant,
    types::{CLUSTER, LISTENER, ROUTE_CONFIGURATION as ROUTE},
};

use crate::bootstrap::{
    envoy::{grpc, refusal, rest, services, source},
    first_server,
};

/// Returns an Envoy bootstrap with the aggregated stream for all types.
fn proxy() -> Value {
    json!({
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": {
            "lds_config": { "ads": {} },
            "cds_config": { "ads": {}, "initial_fetch_timeout": "20s" },
            "ads_config": grpc("GRPC"),
        },
        "static_resources": { "clusters": [{ "name": "xds" }] },
        "admin": {},
    })
}

fn envoy(value: &Value) -> Result<EnvoyBootstrap, BootstrapError> {
    EnvoyBootstrap::from_json(&value.to_string())
}

#[test]
fn envoy_bootstrap_sets_the_sources_of_listeners_and_clusters() {
    println!("covers: B18 S0.058 S0.059");
    let bootstrap = envoy(&proxy()).expect("it is right");
    let config = bootstrap.client_config().expect("the core can do that");
    assert_eq!((config.node.id(), &*first_server(&config).uri), ("n", "xds"));
    let waits = |config: &ClientConfig, url: &str| {
        config.does_not_exist_timeout.get(&TypeUrl::from(url)).copied()
    };
    let seconds = |seconds| Some(Some(Duration::from_secs(seconds)));
    let stated = (waits(&config, CLUSTER), waits(&config, LISTENER), waits(&config, ROUTE));
    assert_eq!(stated, (seconds(20), seconds(15), None), "each source has its own (B18)");
    assert_eq!(config.profile.does_not_exist_timeout, Some(Duration::from_secs(15)));

    // The form in Envoy's documentation: converted from YAML, and without versions.
    let old = json!({
        "node": { "id": "n" },
        "dynamic_resources": {
            "cds_config": { "ads": {} }, "lds_config": { "ads": {} },
            "ads_config": { "api_type": "GRPC",
                "grpc_services": { "envoy_grpc": { "cluster_name": "ads_cluster" } } },
        },
    });
    let old = envoy(&old).expect("it is right");
    assert_eq!(old.ads.map(|ads| ads.grpc_services.len()), Some(1));

    let mut forever = proxy();
    forever["dynamic_resources"]["cds_config"]["initial_fetch_timeout"] = "0s".into();
    let config = envoy(&forever).expect("it is right").client_config().expect("it can");
    assert_eq!((waits(&config, CLUSTER), waits(&config, LISTENER)), (Some(None), seconds(15)));
}

#[test]
fn invalid_envoy_bootstrap_is_rejected_with_its_path() {
    println!("covers: BS-15 S0.059 S0.204");
    let dynamic = |key: &str, value: Value| {
        let mut proxy = proxy();
        proxy["dynamic_resources"][key] = value;
        proxy
    };
    for (value, why) in [
        (
            dynamic("ads_config", json!(null)),
            "dynamic_resources.ads_config: missing, but used by `dynamic_resources.lds_config`",
        ),
        (
            dynamic("ads_config", rest()),
            "dynamic_resources.ads_config.api_type: REST does not support aggregated streams",
        ),
        (
            dynamic("lds_config", json!({ "path": "" })),
            "dynamic_resources.lds_config.path: must not be empty",
        ),
        (dynamic("eds_config", json!({})), "dynamic_resources.eds_config: unknown field"),
    ] {
        assert_eq!(refusal(envoy(&value)), why);
    }
    let mut value = proxy();
    value["config_sources"] = json!([{ "path": "/x" }, { "ads": {} }]);
    value["dynamic_resources"] = json!({});
    assert_eq!(
        refusal(envoy(&value)),
        "dynamic_resources.ads_config: missing, but used by `config_sources[1]`"
    );
    for key in ["id", "cluster"] {
        let mut value = proxy();
        value["node"][key] = "".into();
        let bootstrap = envoy(&value).expect("the command line may say it");
        assert_eq!(
            bootstrap.client_config().err(),
            Some(UnsupportedConfig::Node(if key == "id" { "node.id" } else { "node.cluster" }))
        );
    }
}

#[test]
fn lds_and_cds_may_come_from_files() {
    println!("covers: S0.010 B18");
    let files = json!({ "dynamic_resources": {
        "lds_config": { "path": "/lds.json" },
        "cds_config": { "path_config_source": {
            "path": "/etc/xds/cds.yaml", "watched_directory": { "path": "/etc/xds" } } },
    } });
    let config = envoy(&files).expect("it is right").client_config().expect("files need no node");
    let [listeners] = &config.servers[..] else { panic!("{:?}", config.servers) };
    assert_eq!(&*listeners.uri, "/lds.json");
    assert_eq!(listeners.transport_kind, TransportKind::File(FilePolicy::default()));
    let [clusters] = &config.sources[CLUSTER][..] else { panic!("{:?}", config.sources) };
    assert_eq!(&*clusters.uri, "/etc/xds/cds.yaml");
    let watched = FilePolicy::default().with_watched_directory("/etc/xds");
    assert_eq!(clusters.transport_kind, TransportKind::File(watched));
    // The node is required if there is a server in addition to the file.
    let mut beside = proxy();
    beside["node"]["id"] = "".into();
    beside["dynamic_resources"]["lds_config"] = json!({ "path": "/lds.json" });
    let beside = envoy(&beside).expect("the command line may say it");
    assert_eq!(beside.client_config().err(), Some(UnsupportedConfig::Node("node.id")));
}

#[test]
fn authorities_have_their_own_sources() {
    println!("covers: B20");
    let mut value = proxy();
    let own = json!({ "api_config_source": grpc("AGGREGATED_DELTA_GRPC"),
                      "authorities": [{ "name": "a" }], "initial_fetch_timeout": "3s" });
    value["config_sources"] = json!([own]);
    let bootstrap = envoy(&value).expect("it is right");
    assert!(bootstrap.source_of("a").is_some());
    assert!(bootstrap.source_of("b").is_none());
    let authorities = bootstrap.client_config().expect("it can").authorities;
    assert_eq!((authorities.len(), &*authorities[0].name), (1, "a"));
    assert_eq!(authorities[0].servers[0].variant, Variant::Incremental);
    assert_eq!(
        authorities[0].does_not_exist_timeout,
        DoesNotExistTimeout::After(Duration::from_secs(3))
    );
    value["default_config_source"] = json!({ "ads": {} });
    let bootstrap = envoy(&value).expect("it is right");
    assert_eq!(bootstrap.source_of("b").map(|source| &source.specifier), Some(&Specifier::Ads));
}

#[test]
fn unlisted_authorities_use_the_default_source() {
    println!("covers: B18 B20");
    let mut value = proxy();
    let mut api = grpc("AGGREGATED_DELTA_GRPC");
    api["grpc_services"] = services(&["own"]);
    let own = json!({ "api_config_source": api, "authorities": [{ "name": "a" }] });
    value["config_sources"] = json!([own]);
    let watches = |value: &Value| {
        let bootstrap = envoy(value).expect("it is right");
        let config = bootstrap.client_config().expect("it can");
        let others = config.other_authorities.clone();
        let config = config.with_type(OpaqueType::new(CLUSTER));
        let mut client = Client::new(config, 1, Time::ZERO);
        let mut watch = |authority: &str| {
            let name = format!("xdstp://{authority}/envoy.config.cluster.v3.Cluster/web");
            client.watch(&TypeUrl::from(CLUSTER), Interest::Name(&name), Time::ZERO).is_ok()
        };
        ((watch("a"), watch("b")), others)
    };
    assert_eq!(watches(&value), ((true, false), Vec::new()), "nobody is asked for others");

    let mut other = grpc("AGGREGATED_GRPC");
    other["grpc_services"] = services(&["default"]);
    value["default_config_source"] = json!({ "api_config_source": other });
    let (are_watched, others) = watches(&value);
    assert_eq!((are_watched, &*others[0].uri), ((true, true), "default"));
    let bootstrap = envoy(&value).expect("it is right");
    let config = bootstrap.client_config().expect("it can");
    assert_eq!(
        config.other_authorities_timeout,
        DoesNotExistTimeout::After(Duration::from_secs(15))
    );
    let is_known = bootstrap.transports().any(|(transport, _)| transport == others[0].transport);
    assert!(is_known, "an adapter is told how to reach it");

    value["default_config_source"] = json!({ "api_config_source": rest() });
    let (_, others) = watches(&value);
    assert!(matches!(others[0].transport_kind, TransportKind::Polling(_)));
}

#[test]
fn listeners_and_clusters_use_their_own_source() {
    println!("covers: B18 S0.052 S0.053");
    let config = |lds: Value, cds: Value| {
        let mut proxy = proxy();
        proxy["dynamic_resources"]["lds_config"] = lds;
        proxy["dynamic_resources"]["cds_config"] = cds;
        envoy(&proxy).expect("it is right").client_config().expect("it can")
    };
    let ads = || json!({ "ads": {} });
    let same = config(ads(), ads());
    assert!(same.sources.is_empty(), "one server for all");

    // Over REST, with the delay and timeout of the source.
    let rested = config(json!({ "api_config_source": rest() }), ads());
    assert_eq!(rested.servers, same.servers, "for all other types it is the aggregated stream");
    let listeners = &rested.sources[&TypeUrl::from(LISTENER)][0];
    assert_eq!((rested.sources.len(), &*listeners.uri), (1, "one"));
    let expected = PollPolicy::envoy(Duration::from_secs(5));
    assert_eq!(listeners.transport_kind, TransportKind::Polling(expected));
    assert_eq!(listeners.streams, Streams::PerType);

    // The same server with one stream per type.
    let apart = config(ads(), json!({ "api_config_source": grpc("GRPC") }));
    let clusters = &apart.sources[&TypeUrl::from(CLUSTER)][0];
    assert_eq!((apart.sources.len(), clusters.streams), (1, Streams::PerType));
    assert_eq!(clusters.transport, apart.servers[0].transport, "it is reached in the same way");

    // Without an aggregated stream, other types come from the source of listeners.
    let mut value = proxy();
    value["dynamic_resources"] = json!({ "lds_config": { "api_config_source": rest() } });
    let listeners_only = envoy(&value).expect("it is right").client_config().expect("it can");
    assert_eq!(&*listeners_only.servers[0].uri, "one");
    assert!(listeners_only.sources.is_empty());
}

#[test]
fn api_type_sets_variant_and_stream_sharing() {
    let protocol_version = |value: Value, ads: &str| {
        let mut proxy = proxy();
        proxy["dynamic_resources"] = json!({ "lds_config": value, "ads_config": grpc(ads) });
        let config = envoy(&proxy).expect("it is right").client_config().expect("it can");
        let own = config.sources.get(&TypeUrl::from(LISTENER));
        let server = own.map_or_else(|| first_server(&config), |own| &own[0]);
        (server.variant, server.streams)
    };
    let api = |api_type| json!({ "api_config_source": grpc(api_type) });
    let (full, changes) = (Variant::StateOfTheWorld, Variant::Incremental);
    for (value, ads, expected) in [
        (json!({ "ads": {} }), "GRPC", (full, Streams::Aggregated)),
        (json!({ "self": {} }), "DELTA_GRPC", (changes, Streams::Aggregated)),
        (api("GRPC"), "GRPC", (full, Streams::PerType)),
        (api("DELTA_GRPC"), "GRPC", (changes, Streams::PerType)),
        (api("AGGREGATED_GRPC"), "GRPC", (full, Streams::Aggregated)),
        (api("AGGREGATED_DELTA_GRPC"), "GRPC", (changes, Streams::Aggregated)),
    ] {
        assert_eq!(protocol_version(value.clone(), ads), expected, "{value}");
    }
}

#[test]
fn resources_locator_makes_the_watch_a_glob() {
    let mut value = proxy();
    let bootstrap = envoy(&value).expect("it is right");
    assert_eq!(bootstrap.listeners(), Interest::Wildcard);
    let own = "xdstp://a/envoy.config.cluster.v3.Cluster/own/*";
    value["dynamic_resources"]["cds_resources_locator"] = own.into();
    let bootstrap = envoy(&value).expect("it is right");
    assert_eq!(bootstrap.clusters(), Interest::Glob(own));
    assert_eq!(bootstrap.listeners(), Interest::Wildcard);
    println!("covers: B20");
}

#[test]
fn version_3_is_used_unless_version_2_is_configured() {
    let config = |resources: &str, transport: &str| {
        let mut api = grpc("GRPC");
        api["transport_api_version"] = transport.into();
        let mut proxy = proxy();
        let source = json!({ "api_config_source": api, "resource_api_version": resources });
        proxy["dynamic_resources"]["lds_config"] = source;
        let config = envoy(&proxy).expect("it is right").client_config().expect("a source");
        let server = &config.sources[LISTENER][0];
        (server.resource_api, server.transport_api)
    };
    use xds_core::service::ApiVersion::{V2, V3};
    assert_eq!(config("AUTO", "AUTO"), (V3, V3));
    assert_eq!(config("V3", "V3"), (V3, V3));
    assert_eq!(config("V2", "V3"), (V2, V3));
    assert_eq!(config("V3", "V2"), (V3, V2));

    // Both on one aggregated stream for all types.
    let mut older = proxy();
    for source in ["lds_config", "cds_config"] {
        let source = &mut older["dynamic_resources"][source];
        *source = json!({ "ads": {}, "resource_api_version": "V2" });
    }
    older["dynamic_resources"]["ads_config"]["transport_api_version"] = "V2".into();
    let config = envoy(&older).expect("it is right").client_config().expect("a source");
    assert_eq!((config.sources.len(), config.servers.len()), (0, 1));
    assert_eq!((config.servers[0].resource_api, config.servers[0].transport_api), (V2, V2));
    println!("covers: B14 X38 S0.005 S0.063");
}

#[test]
fn bootstrap_without_a_source_is_unsupported() {
    let none = envoy(&json!({})).expect("nothing is wrong with nothing");
    assert_eq!(none.client_config().err(), Some(UnsupportedConfig::NoSource));
    let kind = source(json!({})).expect_err("nothing is said");
    assert!(matches!(kind.kind(), ErrorKind::InvalidValue(_)));
}

#[test]
fn server_with_several_services_gets_one_transport_name() {
    println!("covers: B18");
    let mut value = proxy();
    value["dynamic_resources"]["ads_config"]["grpc_services"] = services(&["one", "two"]);
    let own = |names: &[&str], authority: &str| {
        let mut api = grpc("AGGREGATED_GRPC");
        api["grpc_services"] = services(names);
        json!({ "api_config_source": api, "authorities": [{ "name": authority }] })
    };
    value["config_sources"] = json!([own(&["one", "two"], "same"), own(&["one"], "other")]);
    let mut polled = rest();
    polled["cluster_names"] = json!(["one"]);
    let polled = json!({ "api_config_source": polled, "authorities": [{ "name": "polled" }] });
    value["config_sources"].as_array_mut().expect("a list").push(polled);
    let bootstrap = envoy(&value).expect("it is right");
    let transports: Vec<_> = bootstrap.transports().collect();
    let names = |targets: &[Target<'_>]| -> Vec<String> {
        targets.iter().map(|target| target.name().to_owned()).collect()
    };
    let listed: Vec<_> = transports.iter().map(|(id, list)| (id.as_str(), names(list))).collect();
    assert_eq!(
        listed,
        [
            ("dynamic_resources.ads_config", vec!["one".to_owned(), "two".to_owned()]),
            ("config_sources[1]", vec!["one".to_owned()]),
            ("config_sources[2]", vec!["one".to_owned()]),
        ],
        "a service and a cluster of the same name are reached in different ways"
    );
    let config = bootstrap.client_config().expect("it can");
    let server = first_server(&config);
    assert_eq!((&*server.uri, server.transport.as_str()), ("one", "dynamic_resources.ads_config"));
    let of = |authority: usize| &config.authorities[authority].servers[0];
    assert_eq!(of(0), server, "the same services are the same server");
    assert_eq!((&*of(1).uri, of(1).transport.as_str()), ("one", "config_sources[1]"));
}
