//! Calls one by one: which cluster, how long, and which clusters are needed.

mod support;

use std::{sync::Arc, time::Duration};

use support::*;
use xds_core::{
    ResourceName,
    proto::{Any, Duration as DurationSchema},
};
use xds_routing::{
    Call, Random, Rules,
    listener::{HttpConnections, Listener},
    proto::envoy::config::{
        core::v3::HttpProtocolOptions,
        route::v3::{
            Route, RouteAction,
            route_action::{ClusterSpecifier, MaxStreamDuration},
        },
    },
    route::RouteConfiguration,
    router::{ClusterChange, ClusterReferences, Failure, Router, Target},
    rules::ROUTER,
};

fn seconds(seconds: i64) -> DurationSchema {
    DurationSchema { seconds, nanos: 0 }
}

fn connections(limit: Option<i64>) -> HttpConnections {
    let mut manager = manager(rds("routes"));
    manager.common_http_protocol_options = limit.map(|limit| HttpProtocolOptions {
        max_stream_duration: Some(seconds(limit)),
        ..HttpProtocolOptions::default()
    });
    let listener = Listener::from_schema(&api_listener("l", &manager), &Rules::default());
    listener.expect("a valid listener").api().expect("of a client").clone()
}

fn router(routes: RouteConfiguration, limit: Option<i64>) -> Router {
    Router::new(Arc::new(routes), "name", &connections(limit)).expect("a virtual host")
}

fn names(list: &[&str]) -> std::collections::BTreeSet<ResourceName> {
    list.iter().map(|&name| ResourceName::from(name)).collect()
}

#[test]
fn a_channel_asks_for_a_name_and_a_call_for_a_route() {
    let config = Arc::new(
        judged(&routes(
            "routes",
            vec![
                host(
                    &["shop.example"],
                    vec![
                        route(path("/s/m"), cluster("a")),
                        Route { name: "r".into(), r#match: Some(path("/s/x")), ..Route::default() },
                    ],
                ),
                host(&["*.example"], vec![route(prefix(""), weighted(&[("b", 1), ("c", 1)]))]),
            ],
        ))
        .unwrap(),
    );
    let listener = connections(None);
    let shop = Router::new(Arc::clone(&config), "shop.example", &listener).unwrap();
    let mut random = Random::new(3);
    let mut decide = |router: &Router, path: &str| {
        let decision = router.decide(&Call::new(path, &[]), None, &mut random)?;
        match decision.target {
            Target::Cluster { name, .. } => Ok::<_, Failure>(name.to_string()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(decide(&shop, "/s/m"), Ok("a".into()));
    let none = decide(&shop, "/s/n").unwrap_err();
    assert!(matches!(none, Failure::NoRoute(_)) && none.code() == 14, "{none}");
    let unsupported = decide(&shop, "/s/x").unwrap_err();
    assert_eq!(
        (unsupported.to_string().as_str(), unsupported.code()),
        ("route `r` does not lead to a cluster", 14)
    );
    let other = Router::new(Arc::clone(&config), "other.example", &listener).unwrap();
    assert_eq!(other.clusters(), names(&["b", "c"]));
    let chosen: std::collections::BTreeSet<_> =
        (0..100).map(|_| decide(&other, "/s/m").unwrap()).collect();
    assert_eq!(chosen.len(), 2);

    let nobody = Router::new(config, "example.org", &listener).unwrap_err();
    assert_eq!(
        nobody.to_string(),
        "no virtual host of route configuration `routes` is for `example.org`"
    );
    assert_eq!(nobody.code(), 14);
    println!("covers: S2.057 S2.068 S2.070");
}

/// A31's table: of the application, the route's header limit, its limit of streams, and the listener's.
#[test]
fn how_long_a_call_may_take() {
    let timeout =
        |app: Option<u64>, header: Option<i64>, stream: Option<i64>, listener: Option<i64>| {
            let limits = MaxStreamDuration {
                max_stream_duration: stream.map(seconds),
                grpc_timeout_header_max: header.map(seconds),
            };
            let action = RouteAction { max_stream_duration: Some(limits), ..action(cluster("c")) };
            let router = router(valid(vec![route_to(prefix(""), action)]), listener);
            let app = app.map(Duration::from_secs);
            let decision =
                router.decide(&Call::new("/s/m", &[]), app, &mut Random::new(0)).unwrap();
            decision.timeout.map(|it| it.as_secs())
        };
    assert_eq!(timeout(None, None, None, None), None);
    assert_eq!(timeout(Some(9), None, None, None), Some(9));
    assert_eq!(timeout(None, None, None, Some(5)), Some(5));
    assert_eq!(timeout(Some(9), None, None, Some(5)), Some(5));
    assert_eq!(timeout(Some(3), None, None, Some(5)), Some(3));
    assert_eq!(timeout(Some(9), None, Some(4), Some(5)), Some(4));
    assert_eq!(timeout(Some(9), None, Some(7), Some(5)), Some(7));
    assert_eq!(timeout(Some(9), Some(2), Some(7), Some(5)), Some(2));
    assert_eq!(timeout(Some(9), Some(0), Some(7), Some(5)), Some(9));
    assert_eq!(timeout(None, Some(0), Some(7), Some(5)), None);
    assert_eq!(timeout(None, None, Some(0), Some(5)), None);
    assert_eq!(timeout(None, None, None, Some(0)), None);
}

#[test]
fn a_cluster_goes_when_neither_routes_nor_calls_refer_to_it() {
    let added = |name: &str| ClusterChange::Added(name.into());
    let removed = |name: &str| ClusterChange::Removed(name.into());
    let (old, new) = (ResourceName::from("old"), ResourceName::from("new"));
    let mut references = ClusterReferences::new();
    assert_eq!(references.set_routed(&names(&["old"])), [added("old")]);
    references.start_call(&old).unwrap();
    references.start_call(&old).unwrap();
    assert_eq!(references.set_routed(&names(&["new"])), [added("new")]);
    assert_eq!(references.needed().collect::<Vec<_>>(), [&new, &old]);
    assert_eq!(references.end_call(&old), None);
    assert_eq!(references.end_call(&old), Some(removed("old")));
    assert_eq!(references.end_call(&old), None);
    assert_eq!(references.end_call(&new), None);

    // Routes that come back find it as it was.
    references.start_call(&new).unwrap();
    assert_eq!(references.set_routed(&names(&[])), []);
    assert_eq!(references.set_routed(&names(&["new"])), []);
    assert_eq!(references.end_call(&new), None);
    assert_eq!(references.set_routed(&names(&[])), [removed("new")]);

    let unknown = references.start_call(&old).unwrap_err();
    assert_eq!((unknown.to_string().as_str(), unknown.code()), ("cluster `old` is not known", 13));
    let gone = Failure::NoCluster {
        cluster: old,
        why: "does not exist".into(),
        note: "xDS node ID: n".into(),
    };
    assert_eq!(gone.code(), 14);
    let text = "cluster `old` cannot be used: does not exist (resolution note: xDS node ID: n)";
    assert_eq!(gone.to_string(), text);
    println!("covers: B26 S3.096 S3.098");
}

/// What is set for a filter nearest to the call counts, whole (A39).
#[test]
fn settings_of_filters_come_from_the_nearest_place() {
    let places = ["choice", "route", "host", "all"];
    let config = |place: usize| Any {
        type_url: ROUTER.into(),
        value: places[place].as_bytes().to_vec().into(),
    };
    // Filter `0` is set everywhere, `1` from the route on, and so on.
    let settings = |place: usize| -> std::collections::BTreeMap<String, Any> {
        (0..=place).map(|filter| (filter.to_string(), config(place))).collect()
    };
    let ClusterSpecifier::WeightedClusters(mut weights) = weighted(&[("c", 1)]) else { panic!() };
    weights.clusters[0].typed_per_filter_config.extend(settings(0));
    let mut table = table(vec![route(prefix(""), ClusterSpecifier::WeightedClusters(weights))]);
    table.typed_per_filter_config.extend(settings(3));
    table.virtual_hosts[0].typed_per_filter_config.extend(settings(2));
    table.virtual_hosts[0].routes[0].typed_per_filter_config.extend(settings(1));
    let router = router(judged(&table).unwrap(), None);
    let mut random = Random::new(1);
    let decision = router.decide(&Call::new("/s/m", &[]), None, &mut random).unwrap();
    for (filter, place) in places.into_iter().enumerate() {
        let found = decision.filter_override(&filter.to_string()).expect("one");
        assert_eq!(found.value, place.as_bytes());
    }
    assert_eq!(decision.filter_override("4"), None);
    println!("covers: B28");
}
