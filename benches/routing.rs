//! Routing: selecting the route of a call out of many, and changing one of many routes.

use std::{hint::black_box, time::Duration};

use bytes::Bytes;
use criterion::Criterion;
use prost::Message as _;
use xds_benches::ratio::{Ratios, is_test_run};
use xds_routing::{
    Call, Random, Rules,
    lb::{PolicyRegistry, PolicyTree},
    proto::envoy::config::route::v3::{
        self as schema, route_action::ClusterSpecifier, route_match::PathSpecifier,
    },
    route::{Route, RouteConfiguration, VirtualHost},
    service_config::ServiceConfigs,
};

const SIZES: [usize; 3] = [1, 100, 10_000];
/// Number of calls per round, spread over the table.
const CALLS: usize = 100;

/// Returns a route configuration. Half of the routes match a path and half a prefix; every tenth
/// matches a header.
fn table(routes: usize, changed: Option<usize>) -> Bytes {
    let route = |index: usize| {
        let path = match index % 2 {
            0 => PathSpecifier::Path(format!("/shop.v{index}.Cart/Add")),
            _ => PathSpecifier::Prefix(format!("/shop.v{index}.")),
        };
        let headers = match index % 10 {
            0 => vec![schema::HeaderMatcher {
                name: "user".into(),
                header_match_specifier: Some(
                    schema::header_matcher::HeaderMatchSpecifier::PresentMatch(true),
                ),
                ..Default::default()
            }],
            _ => vec![],
        };
        let version = if changed == Some(index) { "next" } else { "first" };
        let cluster = ClusterSpecifier::Cluster(format!("cluster-{}-{version}", index % 100));
        schema::Route {
            r#match: Some(schema::RouteMatch {
                path_specifier: Some(path),
                headers,
                ..Default::default()
            }),
            action: Some(schema::route::Action::Route(schema::RouteAction {
                cluster_specifier: Some(cluster),
                ..Default::default()
            })),
            ..Default::default()
        }
    };
    let host = schema::VirtualHost {
        name: "all".into(),
        domains: vec!["*".into()],
        routes: (0..routes).map(route).collect(),
        ..Default::default()
    };
    let table = schema::RouteConfiguration {
        name: "routes".into(),
        virtual_hosts: vec![host],
        ..Default::default()
    };
    table.encode_to_vec().into()
}

fn validated(bytes: &Bytes) -> RouteConfiguration {
    RouteConfiguration::from_bytes(bytes, &Rules::default()).expect("a valid table")
}

/// Returns the paths of calls that are spread over the table.
fn paths(routes: usize) -> Vec<String> {
    let step = (routes / CALLS).max(1) | 1;
    (0..CALLS).map(|call| format!("/shop.v{}.Cart/Add", call * step % routes)).collect()
}

fn by_index<'a>(host: &'a VirtualHost, path: &str, random: &mut Random) -> Option<&'a Route> {
    host.find(&Call::new(path, &[("user", "1")]), random).ok()
}

fn one_by_one<'a>(host: &'a VirtualHost, path: &str, random: &mut Random) -> Option<&'a Route> {
    let call = Call::new(path, &[("user", "1")]);
    host.routes().iter().find(|route| route.matches.matches(&call, random))
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(2))
        .without_plots()
        .configure_from_args();
    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("routing");

    let indexed = SIZES.map(|routes| format!("{CALLS} calls, {routes} routes by their index"));
    let scanned = SIZES.map(|routes| format!("{CALLS} calls, {routes} routes one by one"));
    for (place, routes) in SIZES.into_iter().enumerate() {
        let (config, paths) = (validated(&table(routes, None)), paths(routes));
        let host = config.virtual_hosts().first().expect("a host");
        let mut random = Random::new(1);
        for path in &paths {
            let found = by_index(host, path, &mut random).map(core::ptr::from_ref);
            assert!(found.is_some(), "{path}");
            assert_eq!(found, one_by_one(host, path, &mut random).map(core::ptr::from_ref));
        }
        let mut calls = |name: &str, find: fn(&'_ VirtualHost, &str, &mut Random) -> bool| {
            ratios.measure(
                &mut group,
                name,
                || Random::new(1),
                |mut random| paths.iter().filter(|path| find(host, path, &mut random)).count(),
            );
        };
        calls(&indexed[place], |host, path, random| by_index(host, path, random).is_some());
        calls(&scanned[place], |host, path, random| one_by_one(host, path, random).is_some());
    }

    let many = if is_test_run() { 100 } else { 10_000 };
    let [first, next] = [None, Some(many / 2)].map(|changed| table(many, changed));
    let (decoded, rebuilt) = ("prost decode of 10,000 routes", "10,000 routes judged and indexed");
    let (config_first, config_next) =
        ("service config of 10,000 routes", "service config with one of 10,000 changed");
    let (tree_first, tree_next) =
        ("policies of 10,000 routes, new", "policies with one of 10,000 changed");
    ratios.measure(
        &mut group,
        decoded,
        || next.clone(),
        |bytes| schema::RouteConfiguration::decode(bytes).expect("a table"),
    );
    ratios.measure(&mut group, rebuilt, || next.clone(), |bytes| validated(black_box(&bytes)));
    let (before, after) = (validated(&first), validated(&next));
    let renewed = "one of 10,000 routes judged, all indexed";
    let after_it = |bytes: &Bytes| {
        RouteConfiguration::from_bytes_after((&first, &before), bytes, &Rules::default())
    };
    assert_eq!(after_it(&next).expect("a valid table"), after);
    ratios.measure(&mut group, renewed, || next.clone(), |bytes| after_it(black_box(&bytes)));
    let hosts = [&before, &after].map(|config| &config.virtual_hosts()[0]);
    let mut known = ServiceConfigs::new();
    let json = known.next(hosts[0]).expect("a config").to_json();
    let json_after = known.clone().next(hosts[1]).expect("a config").to_json();
    ratios.measure(&mut group, config_first, ServiceConfigs::new, |mut configs| {
        configs.next(hosts[1]).expect("a config")
    });
    ratios.measure(
        &mut group,
        config_next,
        || known.clone(),
        |mut configs| configs.next(hosts[1]).expect("a config"),
    );
    let registry = PolicyRegistry::default();
    let [old, new] = [json, json_after].map(|json| registry.service_config(&json).expect("valid"));
    let mut tree = PolicyTree::<()>::default();
    tree.update(old, xds_core::Time::ZERO);
    ratios.measure(
        &mut group,
        tree_first,
        || new.clone(),
        |config| {
            let mut tree = PolicyTree::<()>::default();
            tree.update(config, xds_core::Time::ZERO);
            tree
        },
    );
    ratios.measure(
        &mut group,
        tree_next,
        || (tree.clone(), new.clone()),
        |(mut tree, config)| {
            tree.update(config, xds_core::Time::ZERO);
            tree
        },
    );
    group.finish();

    println!();
    // A single route is found at once either way. From a hundred routes on, the index
    // must be faster.
    let aims = [None, Some(1.0), Some(0.05)];
    for ((indexed, scanned), aim) in indexed.iter().zip(&scanned).zip(aims) {
        ratios.print(indexed, scanned, aim);
    }
    let [one, hundred, most] = &indexed;
    ratios.print(hundred, one, None);
    ratios.print(most, one, None);
    ratios.print(rebuilt, decoded, None);
    // The remaining cost is reading and indexing the whole table again.
    ratios.print(renewed, rebuilt, Some(0.3));
    ratios.print(renewed, decoded, None);
    ratios.print(config_next, config_first, None);
    ratios.print(tree_next, tree_first, None);
}
