//! Service config of gRFC A28.
#![allow(deprecated, reason = "servers still send what is")]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use xds_routing::{
    proto::envoy::{
        config::route::v3::{
            QueryParameterMatcher, Route, header_matcher::HeaderMatchSpecifier as Header,
        },
        r#type::v3::{Int64Range, fractional_percent::DenominatorType},
    },
    service_config::ServiceConfigs,
};

fn next(configs: &mut ServiceConfigs, routes: Vec<Route>) -> Value {
    let config = valid(routes);
    let config = configs.next(&config.virtual_hosts()[0]).expect("a config");
    serde_json::from_str(&config.to_json()).expect("JSON")
}

fn routing(routes: Vec<Route>) -> Value {
    next(&mut ServiceConfigs::new(), routes)["loadBalancingConfig"][0]["xds_routing_experimental"]
        .clone()
}

/// Returns the names of the actions, sorted.
fn names(config: &Value) -> Vec<String> {
    let config = &config["loadBalancingConfig"][0]["xds_routing_experimental"];
    config["action"].as_object().expect("actions").keys().cloned().collect()
}

/// Creates an additional route, so that routing is needed.
fn other() -> Route {
    route(path("/other"), cluster("other"))
}

#[test]
fn corrected_example_of_grfc_a28_is_generated() {
    let split = [("cluster_1", 75), ("cluster_2", 25)];
    let config = next(
        &mut ServiceConfigs::new(),
        vec![
            route(path("/service_1/method_1"), cluster("cluster_1")),
            route(path("/service_1/method_2"), cluster("cluster_1")),
            route(prefix("/service_2/method_2"), weighted(&split)),
            route(prefix("/service_2"), weighted(&split)),
            route(
                safe_regex("^/service_2/method_3$"),
                weighted(&[("cluster_1", 99), ("cluster_3", 1)]),
            ),
        ],
    );
    let cds = |name: &str| json!([{"cds_experimental": {"cluster": name}}]);
    let target = |name: &str, weight: u32| json!({"weight": weight, "childPolicy": cds(name)});
    let expected = json!({
        "loadBalancingConfig": [{
            "xds_routing_experimental": {
                "action": {
                    "cds:cluster_1": {"childPolicy": cds("cluster_1")},
                    "weighted:cluster_1_cluster_2_1": {"childPolicy": [{
                        "weighted_target_experimental": {"targets": {
                            "cluster_1": target("cluster_1", 75),
                            "cluster_2": target("cluster_2", 25),
                        }}
                    }]},
                    "weighted:cluster_1_cluster_3_1": {"childPolicy": [{
                        "weighted_target_experimental": {"targets": {
                            "cluster_1": target("cluster_1", 99),
                            "cluster_3": target("cluster_3", 1),
                        }}
                    }]},
                },
                "route": [
                    {"path": "/service_1/method_1", "action": "cds:cluster_1"},
                    {"path": "/service_1/method_2", "action": "cds:cluster_1"},
                    {"prefix": "/service_2/method_2", "action": "weighted:cluster_1_cluster_2_1"},
                    {"prefix": "/service_2", "action": "weighted:cluster_1_cluster_2_1"},
                    {"regex": "^/service_2/method_3$", "action": "weighted:cluster_1_cluster_3_1"},
                ],
            }
        }]
    });
    assert_eq!(config, expected);
    println!(
        "covers: S2.004 S2.013 S2.020 S2.021 S2.023 S2.024 S2.025 S2.033 S2.034 S2.103 S2.105 S2.106 S2.107 S2.108 S2.109 S2.112 S2.113 S2.120 S2.123 S2.124"
    );
    println!("covers: S2.140 S2.141 S2.142 S2.143 S2.144 S2.145 S2.146 S2.147 X25 X26");
}

#[test]
fn matchers_are_printed_as_proto_json() {
    let mut matches = with_fraction(prefix("/s"), 25, DenominatorType::Hundred);
    for how in [
        Header::ExactMatch("v".into()),
        Header::SafeRegexMatch(regex("v+")),
        Header::RangeMatch(Int64Range { start: -1, end: 2 }),
        Header::PresentMatch(true),
        Header::PrefixMatch("v".into()),
        Header::SuffixMatch("v".into()),
        Header::ContainsMatch("v.".into()),
    ] {
        matches = with_header(matches, "h", how);
    }
    matches.headers[0].invert_match = true;
    let config = routing(vec![route(matches, cluster("c")), other()]);
    let expected = json!({
        "prefix": "/s",
        "matchFraction": 250_000,
        "action": "cds:c",
        "headers": [
            {"name": "h", "exactMatch": "v", "invertMatch": true},
            {"name": "h", "regexMatch": "v+"},
            {"name": "h", "rangeMatch": {"start": "-1", "end": "2"}},
            {"name": "h", "presentMatch": true},
            {"name": "h", "prefixMatch": "v"},
            {"name": "h", "suffixMatch": "v"},
            {"name": "h", "regexMatch": "(?s).*v\\..*"},
        ],
    });
    assert_eq!(config["route"][0], expected);
    let fraction = |numerator, of| {
        let matches = with_fraction(prefix("/s"), numerator, of);
        routing(vec![route(matches, cluster("c")), other()])["route"][0]["matchFraction"].clone()
    };
    assert_eq!(fraction(1, DenominatorType::TenThousand), 100);
    assert_eq!(fraction(1, DenominatorType::Million), 1);
    assert_eq!(fraction(200, DenominatorType::Hundred), 1_000_000);
    let unset = routing(vec![route(prefix("/s"), cluster("c")), other()]);
    assert_eq!(unset["route"][0].get("matchFraction"), None);

    let mut any_case = prefix("/S.");
    any_case.case_sensitive = boolean(false);
    let config = routing(vec![route(any_case, cluster("c")), other()]);
    assert_eq!(config["route"][0]["regex"], "(?is)/S\\..*");
    println!("covers: S2.026 S2.121 S2.122");
}

#[test]
fn single_catch_all_route_needs_no_routing_policy() {
    let policy =
        |route| next(&mut ServiceConfigs::new(), vec![route])["loadBalancingConfig"][0].clone();
    let cds = json!({"cds_experimental": {"cluster": "c"}});
    assert_eq!(policy(route(prefix(""), cluster("c"))), cds);
    assert_eq!(policy(route(prefix("/"), cluster("c"))), cds);
    let split = policy(route(prefix(""), weighted(&[("a", 1), ("b", 2)])));
    assert_eq!(split["weighted_target_experimental"]["targets"]["b"]["weight"], 2);
    for matches in [
        prefix("/s"),
        path(""),
        with_header(prefix(""), "h", Header::PresentMatch(true)),
        with_fraction(prefix(""), 50, DenominatorType::Hundred),
    ] {
        let policy = policy(route(matches, cluster("c")));
        assert!(policy.get("xds_routing_experimental").is_some(), "{policy}");
    }
    println!("covers: S2.104 X28");
}

/// A change of only the weights keeps the name of the action. Other clusters are another action.
#[test]
fn changed_weights_keep_the_action_name() {
    let mut configs = ServiceConfigs::new();
    let mut step = |new: u32| {
        let split = weighted(&[("old", 100 - new), ("new", new)]);
        names(&next(&mut configs, vec![route(prefix("/s"), split), other()]))
    };
    let first = step(1);
    assert_eq!(first, ["cds:other", "weighted:new_old_1"]);
    for share in [5, 25, 50, 99] {
        assert_eq!(step(share), first);
    }
    let split = |weight| weighted(&[("old", weight), ("new", 1)]);
    let two =
        next(&mut configs, vec![route(prefix("/s"), split(7)), route(prefix("/t"), split(8))]);
    assert_eq!(names(&two), ["weighted:new_old_1", "weighted:new_old_2"]);
    // The unchanged split keeps its name. The new one inherits that of the removed one.
    let name = |config: &Value, index: usize| {
        config["loadBalancingConfig"][0]["xds_routing_experimental"]["route"][index]["action"]
            .clone()
    };
    let three =
        next(&mut configs, vec![route(prefix("/s"), split(7)), route(prefix("/t"), split(9))]);
    assert_eq!(name(&three, 0), name(&two, 0));
    assert_eq!(name(&three, 1), name(&two, 1));
    let clusters = next(
        &mut configs,
        vec![route(prefix("/s"), weighted(&[("old", 1), ("newer", 1)])), other()],
    );
    assert_eq!(names(&clusters), ["cds:other", "weighted:newer_old_1"]);
    println!("covers: S2.110 S2.111 S2.114 S2.115 S2.116 S2.117 S2.119");
}

/// The config contains the validated routes in order, each with its matchers and the name of its
/// action, and the map of actions, each once.
#[test]
fn service_config_has_routes_in_order_and_each_action_once() {
    let mut skipped_routes = route(prefix("/q"), cluster("never"));
    let parameter = QueryParameterMatcher { name: "q".into(), ..Default::default() };
    skipped_routes.r#match.as_mut().unwrap().query_parameters = vec![parameter];
    let exact = with_header(path("/s/m"), "h", Header::ExactMatch("v".into()));
    let config = routing(vec![
        route(exact, cluster("a")),
        skipped_routes,
        route(prefix("/s"), weighted(&[("a", 1), ("b", 2)])),
        route(prefix(""), cluster("a")),
    ]);
    let routes = json!([
        {"path": "/s/m", "headers": [{"name": "h", "exactMatch": "v"}], "action": "cds:a"},
        {"prefix": "/s", "action": "weighted:a_b_1"},
        {"prefix": "", "action": "cds:a"},
    ]);
    assert_eq!(config["route"], routes);
    let actions: Vec<&String> = config["action"].as_object().expect("actions").keys().collect();
    assert_eq!(actions, ["cds:a", "weighted:a_b_1"]);
    assert_eq!(config.as_object().expect("a config").len(), 2);
    println!("covers: S2.006 S2.105 S2.106");
}

#[test]
fn action_names_are_unique_even_if_joined_names_collide() {
    let config = next(
        &mut ServiceConfigs::new(),
        vec![
            route(prefix("/1"), weighted(&[("a_b", 1), ("c", 1)])),
            route(prefix("/2"), weighted(&[("a", 1), ("b_c", 1)])),
            // The order of the clusters does not matter.
            route(prefix("/3"), weighted(&[("c", 1), ("a_b", 1)])),
        ],
    );
    assert_eq!(names(&config), ["weighted:a_b_c_1", "weighted:a_b_c_2"]);
    println!("covers: S2.118 X27");
}

#[test]
fn route_that_a_service_config_cannot_express_is_an_error() {
    let mut matches = with_header(prefix(""), "x-user", Header::ExactMatch("".into()));
    matches.headers[0].treat_missing_header_as_empty = true;
    let config = valid(vec![route(matches, cluster("a"))]);
    let error = ServiceConfigs::new().next(&config.virtual_hosts()[0]).unwrap_err();
    assert_eq!(error.to_string(), "route 0 treats a missing header as empty");
}

/// A route whose action is not for clients fails its calls only (gRFC A36).
#[test]
fn route_without_a_cluster_has_an_action_that_fails_calls() {
    let redirect = Route { r#match: Some(prefix("/gone/")), ..Route::default() };
    let config = routing(vec![redirect, route(prefix(""), cluster("a"))]);
    let names: Vec<_> = config["action"].as_object().expect("actions").keys().collect();
    assert_eq!(names, ["cds:a", "fail"]);
    let policy = json!({ "weighted_target_experimental": { "targets": {} } });
    assert_eq!(config["action"]["fail"], json!({ "childPolicy": [policy] }));
    assert_eq!(config["route"][0], json!({ "prefix": "/gone/", "action": "fail" }));
}

fn splits() -> impl Strategy<Value = Vec<Vec<(String, u32)>>> {
    let split = prop::collection::vec(("[ab](_[ab])?", 1_u32..4), 1..4);
    prop::collection::vec(split, 2..12)
}

fn of(splits: &[Vec<(String, u32)>]) -> Vec<Route> {
    let to = splits.iter().enumerate().map(|(index, split)| {
        let split: Vec<_> = split.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
        route(path(&index.to_string()), weighted(&split))
    });
    to.collect()
}

/// Action of a route: one cluster, or weights by cluster.
// S2.107, S2.118
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    One(String),
    Split(BTreeMap<String, u32>),
}

impl Does {
    fn clusters(&self) -> Option<BTreeSet<&String>> {
        match self {
            Self::One(_) => None,
            Self::Split(weights) => Some(weights.keys().collect()),
        }
    }

    fn route(&self, index: usize) -> Route {
        let to = match self {
            Self::One(name) => cluster(name),
            Self::Split(weights) => {
                let list: Vec<_> =
                    weights.iter().map(|(name, &weight)| (name.as_str(), weight)).collect();
                weighted(&list)
            }
        };
        route(path(&format!("/{index}")), to)
    }
}

fn does() -> impl Strategy<Value = Does> {
    let split = prop::collection::btree_map("[ab](_[ab])?", 1_u32..4, 1..4);
    prop_oneof!["[abc]".prop_map(Does::One), split.prop_map(Does::Split)]
}

/// Change of a list of routes.
#[derive(Clone, Debug)]
enum Edit {
    Put(prop::sample::Index, Does),
    Add(Does),
    Remove(prop::sample::Index),
    Reweigh(prop::sample::Index, u32),
    Reverse,
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<prop::sample::Index>;
    prop_oneof![
        (place(), does()).prop_map(|(index, does)| Edit::Put(index, does)),
        does().prop_map(Edit::Add),
        place().prop_map(Edit::Remove),
        (place(), 1..4_u32).prop_map(|(index, more)| Edit::Reweigh(index, more)),
        Just(Edit::Reverse),
    ]
}

fn edited(mut list: Vec<Does>, edit: &Edit) -> Vec<Does> {
    match edit {
        Edit::Put(index, does) => {
            let index = index.index(list.len());
            list[index] = does.clone();
        }
        Edit::Add(does) => list.push(does.clone()),
        Edit::Remove(index) if list.len() > 2 => {
            list.remove(index.index(list.len()));
        }
        Edit::Remove(_) => {}
        Edit::Reweigh(index, more) => {
            let index = index.index(list.len());
            if let Does::Split(weights) = &mut list[index]
                && let Some(weight) = weights.values_mut().next()
            {
                *weight += more;
            }
        }
        Edit::Reverse => list.reverse(),
    }
    list
}

/// Generates a config and returns the name of each action.
fn named(configs: &mut ServiceConfigs, list: &[Does]) -> BTreeMap<Does, String> {
    let routes = list.iter().enumerate().map(|(index, does)| does.route(index)).collect();
    let config = next(configs, routes);
    let config = &config["loadBalancingConfig"][0]["xds_routing_experimental"];
    let mut names = BTreeMap::new();
    for (does, route) in list.iter().zip(config["route"].as_array().expect("routes")) {
        let name = route["action"].as_str().expect("a name").to_owned();
        let before = names.insert(does.clone(), name.clone());
        assert!(before.is_none_or(|before| before == name), "{does:?} has two names");
    }
    let distinct: BTreeSet<&String> = names.values().collect();
    assert_eq!(distinct.len(), names.len(), "a name of two actions: {names:?}");
    assert_eq!(config["action"].as_object().expect("actions").len(), names.len());
    names
}

proptest! {
    /// Across updates, an unchanged action keeps its name. A split with new weights inherits the
    /// name of a removed split of the same clusters, if there is one. The order of routes does not
    /// matter.
    #[test]
    fn action_names_are_stable_across_updates(
        begin in prop::collection::vec(does(), 2..8),
        edits in prop::collection::vec(prop::collection::vec(edit(), 1..4), 1..8),
        rotate in 0..8_usize,
    ) {
        let (mut configs, mut rotated) = (ServiceConfigs::new(), ServiceConfigs::new());
        let mut list = begin;
        let mut before = BTreeMap::new();
        for edits in std::iter::once(&Vec::new()).chain(&edits) {
            list = edits.iter().fold(list, edited);
            let names = named(&mut configs, &list);
            let mut turned = list.clone();
            turned.rotate_left(rotate % list.len());
            prop_assert_eq!(&named(&mut rotated, &turned), &names);
            for (does, name) in &names {
                if let Some(kept) = before.get(does) {
                    prop_assert_eq!(name, kept);
                }
                if let Does::One(cluster) = does {
                    prop_assert_eq!(name, &format!("cds:{cluster}"));
                }
            }
            let new = |clusters: &BTreeSet<&String>| -> Vec<&String> {
                let new = names.iter().filter(|(does, _)| !before.contains_key(*does));
                new.filter(|(does, _)| does.clusters().as_ref() == Some(clusters))
                    .map(|(_, name)| name)
                    .collect()
            };
            let gone = |clusters: &BTreeSet<&String>| -> Vec<&String> {
                let gone = before.iter().filter(|(does, _)| !names.contains_key(*does));
                gone.filter(|(does, _)| does.clusters().as_ref() == Some(clusters))
                    .map(|(_, name)| name)
                    .collect()
            };
            for clusters in names.keys().filter_map(Does::clusters) {
                let (new, gone) = (new(&clusters), gone(&clusters));
                let inherited = new.iter().filter(|name| gone.contains(*name)).count();
                prop_assert_eq!(inherited, new.len().min(gone.len()), "{:?}", clusters);
            }
            before = names;
        }
        println!("covers: S2.107 S2.110 S2.114 S2.115 S2.116 S2.117 S2.118 X27");
    }

    /// The order of routes does not affect actions and their names over any number of updates, and
    /// the action of every route exists.
    #[test]
    fn action_names_do_not_depend_on_the_route_order(versions in prop::collection::vec(splits(), 1..5)) {
        let (mut forwards, mut backwards) = (ServiceConfigs::new(), ServiceConfigs::new());
        for version in versions {
            let mut reversed = of(&version);
            reversed.reverse();
            let (one, two) = (next(&mut forwards, of(&version)), next(&mut backwards, reversed));
            let part = |config: &Value, key: &str| {
                config["loadBalancingConfig"][0]["xds_routing_experimental"][key].clone()
            };
            prop_assert_eq!(part(&one, "action"), part(&two, "action"));
            let used: BTreeSet<String> = part(&one, "route").as_array().expect("routes").iter()
                .map(|it| it["action"].as_str().expect("a name").to_owned())
                .collect();
            prop_assert_eq!(used.into_iter().collect::<Vec<_>>(), names(&one));
        }
    }
}
