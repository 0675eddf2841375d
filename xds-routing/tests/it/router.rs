//! Per-call routing: the cluster, the timeout, faults, and the references to clusters.

use std::{sync::Arc, time::Duration};

use crate::support::*;
use xds_core::{
    ResourceName, StatusCode,
    proto::{Any, Duration as DurationSchema},
};
use xds_routing::{
    Call, Random, Rules,
    filters::{ActiveFaults, Fault, FilterConfig},
    listener::{HttpConnections, Listener},
    proto::envoy::{
        config::{
            core::v3::HttpProtocolOptions,
            route::v3::{
                Route, RouteAction,
                route_action::{ClusterSpecifier, MaxStreamDuration},
            },
        },
        extensions::filters::{
            common::fault::v3::{FaultDelay, fault_delay::FaultDelaySecifier},
            http::fault::v3::{FaultAbort, HttpFault, fault_abort::ErrorType},
            network::http_connection_manager::v3::{HttpFilter, http_filter::ConfigType},
        },
        r#type::v3::FractionalPercent,
    },
    route::RouteConfiguration,
    router::{CallTarget, ClusterChange, ClusterReferences, Failure, Router},
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
fn router_selects_the_virtual_host_by_name_and_a_route_per_call() {
    let config = Arc::new(
        validated(&routes(
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
            CallTarget::Cluster { name, .. } => Ok::<_, Failure>(name.to_string()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(decide(&shop, "/s/m"), Ok("a".into()));
    let none = decide(&shop, "/s/n").unwrap_err();
    assert!(
        matches!(none, Failure::NoRoute(_)) && none.code() == StatusCode::Unavailable,
        "{none}"
    );
    let unsupported = decide(&shop, "/s/x").unwrap_err();
    assert_eq!(
        (unsupported.to_string().as_str(), unsupported.code()),
        ("the matching route `r` does not forward to a cluster", StatusCode::Unavailable)
    );
    let unnamed = Failure::UnsupportedAction(String::new()).to_string();
    assert_eq!(unnamed, "the matching route does not forward to a cluster");
    let other = Router::new(Arc::clone(&config), "other.example", &listener).unwrap();
    assert_eq!(other.clusters(), names(&["b", "c"]));
    let chosen: std::collections::BTreeSet<_> =
        (0..100).map(|_| decide(&other, "/s/m").unwrap()).collect();
    assert_eq!(chosen.len(), 2);

    let nobody = Router::new(config, "example.org", &listener).unwrap_err();
    assert_eq!(
        nobody.to_string(),
        "no virtual host of route configuration `routes` matches `example.org`"
    );
    assert_eq!(nobody.code(), StatusCode::Unavailable);
    println!("covers: S2.057 S2.068 S2.070");
}

/// Timeouts of gRFC A31: of the application, the route's header limit, its stream limit, and the
/// listener.
#[test]
fn call_timeout_combines_all_configured_limits() {
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
fn cluster_is_removed_when_neither_routes_nor_calls_reference_it() {
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

    // A cluster that routes name again is still there.
    references.start_call(&new).unwrap();
    assert_eq!(references.set_routed(&names(&[])), []);
    assert_eq!(references.set_routed(&names(&["new"])), []);
    assert_eq!(references.end_call(&new), None);
    assert_eq!(references.set_routed(&names(&[])), [removed("new")]);

    let unknown = references.start_call(&old).unwrap_err();
    assert_eq!(
        (unknown.to_string().as_str(), unknown.code()),
        ("unknown cluster `old`", StatusCode::Internal)
    );
    let gone = Failure::NoCluster {
        cluster: old,
        why: "does not exist".into(),
        note: "xDS node ID: n".into(),
    };
    assert_eq!(gone.code(), StatusCode::Unavailable);
    let text = "cluster `old` cannot be used: does not exist (resolution note: xDS node ID: n)";
    assert_eq!(gone.to_string(), text);
    println!("covers: B26 S3.096 S3.098");
}

/// The override nearest to the call is used, and overrides are not merged (gRFC A39).
#[test]
fn filter_override_closest_to_the_call_is_used() {
    let config = |place: usize| {
        let most = number(u32::try_from(place).expect("few"));
        packed(&HttpFault { max_active_faults: most, ..HttpFault::default() })
    };
    // Filter `0` is set at all levels, `1` from the route up, and so on.
    let settings = |place: usize| -> std::collections::BTreeMap<String, Any> {
        (0..=place).map(|filter| (filter.to_string(), config(place))).collect()
    };
    let ClusterSpecifier::WeightedClusters(mut weights) = weighted(&[("c", 1)]) else { panic!() };
    weights.clusters[0].typed_per_filter_config.extend(settings(0));
    let mut table = table(vec![route(prefix(""), ClusterSpecifier::WeightedClusters(weights))]);
    table.typed_per_filter_config.extend(settings(3));
    table.virtual_hosts[0].typed_per_filter_config.extend(settings(2));
    table.virtual_hosts[0].routes[0].typed_per_filter_config.extend(settings(1));
    let router = router(validated(&table).unwrap(), None);
    let mut random = Random::new(1);
    let decision = router.decide(&Call::new("/s/m", &[]), None, &mut random).unwrap();
    // Weighted cluster, route, virtual host, route configuration.
    for place in 0..4 {
        let found = decision.filter_override(&place.to_string()).expect("one");
        let FilterConfig::Faults(faults) = found else { panic!("{found:?}") };
        assert_eq!(faults.max_active_faults, number(place).map(|it| it.value));
    }
    assert_eq!(decision.filter_override("4"), None);
    println!("covers: B28");
}

fn percent(numerator: u32) -> Option<FractionalPercent> {
    Some(FractionalPercent { numerator, denominator: 0 })
}

fn delayed(length: FaultDelaySecifier, share: u32) -> HttpFault {
    let delay = FaultDelay { fault_delay_secifier: Some(length), percentage: percent(share) };
    HttpFault { delay: Some(delay), ..HttpFault::default() }
}

fn failing(error: ErrorType, share: u32) -> HttpFault {
    let abort = FaultAbort { error_type: Some(error), percentage: percent(share) };
    HttpFault { abort: Some(abort), ..HttpFault::default() }
}

/// Creates a router for a listener with these filters. The route overrides the first one.
fn faulty(filters: &[HttpFault], of_route: Option<&HttpFault>) -> Router {
    let mut manager = manager(rds("routes"));
    for (index, fault) in filters.iter().enumerate() {
        let config = ConfigType::TypedConfig(packed(fault));
        let filter = HttpFilter {
            name: format!("fault {index}"),
            config_type: Some(config),
            ..HttpFilter::default()
        };
        manager.http_filters.insert(index, filter);
    }
    let listener = Listener::from_schema(&api_listener("l", &manager), &Rules::default()).unwrap();
    let mut route = route(prefix(""), cluster("c"));
    route.typed_per_filter_config.extend(of_route.map(|it| ("fault 0".into(), packed(it))));
    Router::new(Arc::new(valid(vec![route])), "name", listener.api().unwrap()).unwrap()
}

fn fault_of(router: &Router, headers: &[(&str, &str)], random: &mut Random) -> Fault {
    router.decide(&Call::new("/s/m", headers), None, random).unwrap().fault
}

/// Faults are injected as configured in the listener or overridden in the route (gRFC A33).
#[test]
fn faults_are_injected_as_configured() {
    let fixed = |seconds_| FaultDelaySecifier::FixedDelay(seconds(seconds_));
    let mut random = Random::new(5);
    let mut one = |filters: &[HttpFault], of_route: Option<&HttpFault>| {
        let fault = fault_of(&faulty(filters, of_route), &[], &mut random);
        (fault.delay, fault.abort)
    };
    let second = Some(Duration::from_secs(1));
    assert_eq!(one(&[], None), (None, None));
    assert_eq!(one(&[delayed(fixed(1), 100)], None), (second, None));
    assert_eq!(one(&[delayed(fixed(0), 100)], None), (None, None));
    assert_eq!(one(&[delayed(fixed(1), 0)], None), (None, None));
    let both =
        HttpFault { delay: delayed(fixed(1), 100).delay, ..failing(ErrorType::GrpcStatus(8), 100) };
    assert_eq!(one(&[both], None), (second, Some(8)));
    // The override replaces the whole configuration.
    assert_eq!(one(&[both], Some(&failing(ErrorType::HttpStatus(503), 200))), (None, Some(14)));
    assert_eq!(one(&[both], Some(&HttpFault::default())), (None, None));
    // As for a response with HTTP status 200 and no gRPC status.
    assert_eq!(one(&[failing(ErrorType::HttpStatus(200), 100)], None), (None, Some(2)));
    // Faults are combined in order, until the call is aborted.
    let longer = delayed(fixed(2), 100);
    assert_eq!(one(&[longer, both, longer], None), (Some(Duration::from_secs(3)), Some(8)));

    // The fraction decides at random.
    let router = faulty(&[failing(ErrorType::GrpcStatus(8), 30)], None);
    let failed =
        (0..10_000).filter(|_| fault_of(&router, &[], &mut random).abort.is_some()).count();
    assert!((2_800..3_200).contains(&failed), "{failed}");
    println!("covers: B28");
}

/// If the headers of calls control faults, they can reduce the fraction but not increase it (gRFC
/// A33).
#[test]
fn fault_headers_may_only_reduce_the_fraction() {
    let mut random = Random::new(5);
    let by_headers = HttpFault {
        delay: delayed(FaultDelaySecifier::HeaderDelay(Default::default()), 100).delay,
        ..failing(ErrorType::HeaderAbort(Default::default()), 100)
    };
    let router = faulty(&[by_headers], None);
    let mut asked = |headers: &[(&str, &str)]| {
        let fault = fault_of(&router, headers, &mut random);
        (fault.delay, fault.abort)
    };
    let (delay, abort) = ("x-envoy-fault-delay-request", "x-envoy-fault-abort-grpc-request");
    assert_eq!(asked(&[]), (None, None));
    let half = Some(Duration::from_millis(500));
    assert_eq!(asked(&[(delay, "500"), (abort, "9")]), (half, Some(9)));
    assert_eq!(asked(&[(delay, "soon"), (abort, "0")]), (None, None));
    // An invalid status counts as UNKNOWN.
    assert_eq!(asked(&[(abort, "99")]), (None, Some(2)));
    assert_eq!(asked(&[(abort, "so")]), (None, Some(2)));
    // An HTTP status precedes, and an invalid one is ignored.
    let http = "x-envoy-fault-abort-request";
    assert_eq!(asked(&[(http, "404")]), (None, Some(12)));
    assert_eq!(asked(&[(abort, "9"), (http, "503")]), (None, Some(14)));
    assert_eq!(asked(&[(abort, "9"), (http, "so")]), (None, Some(9)));
    assert_eq!(asked(&[(http, "so")]), (None, None));
    let core_share = "x-envoy-fault-abort-percentage";
    assert_eq!(asked(&[(abort, "9"), (core_share, "0")]), (None, None));
    let shares =
        ("x-envoy-fault-delay-request-percentage", "x-envoy-fault-abort-request-percentage");
    let none = [(delay, "500"), (shares.0, "0"), (abort, "9"), (shares.1, "0")];
    assert_eq!(asked(&none), (None, None));
    let more = [(delay, "500"), (shares.0, "900"), (abort, "9"), (shares.1, "x")];
    assert_eq!(asked(&more), (half, Some(9)));

    let never = HttpFault {
        delay: delayed(FaultDelaySecifier::HeaderDelay(Default::default()), 0).delay,
        ..failing(ErrorType::HeaderAbort(Default::default()), 0)
    };
    assert!(fault_of(&faulty(&[never], None), &more, &mut random).is_none());
    // Headers have no effect on a fixed fault.
    let fixed = faulty(&[failing(ErrorType::GrpcStatus(8), 100)], None);
    assert_eq!(fault_of(&fixed, &none, &mut random).abort, Some(8));
}

#[test]
fn active_faults_are_limited() {
    let limited =
        HttpFault { max_active_faults: number(2), ..failing(ErrorType::GrpcStatus(8), 100) };
    let fault = fault_of(&faulty(&[limited], None), &[], &mut Random::new(1));
    let active = ActiveFaults::default();
    let first = active.begin(&fault).expect("room for two");
    let _second = active.begin(&fault).expect("room for two");
    assert!(active.begin(&fault).is_none());
    drop(first);
    assert!(active.begin(&fault).is_some());
    let free = fault_of(
        &faulty(&[failing(ErrorType::GrpcStatus(8), 100)], None),
        &[],
        &mut Random::new(1),
    );
    assert!(active.begin(&free).is_some());
}
