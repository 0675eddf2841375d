//! Policy trees, created from generated service configs.
#![allow(deprecated, reason = "servers still send what is")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::support::*;
use proptest::prelude::*;
use xds_core::Time;
use xds_routing::{
    Call, Random, Rules,
    lb::{
        ConnectivityState::{self, *},
        LeafChange, LeafId, LeafPolicyConfig, PolicyConfig, PolicyRegistry, PolicyTree, TreePick,
    },
    listener::{HttpConnections, Listener},
    proto::envoy::{
        config::route::v3::{Route, header_matcher::HeaderMatchSpecifier as Header},
        r#type::v3::fractional_percent::DenominatorType,
    },
    route::RouteConfiguration,
    router::{CallTarget, Router},
    service_config::ServiceConfigs,
};

/// Policy tree whose leaves are clusters, with a log of its instructions.
#[derive(Default)]
struct Clusters {
    tree: PolicyTree<String>,
    configs: ServiceConfigs,
    leaves: BTreeMap<LeafId, String>,
    log: Vec<String>,
}

impl Clusters {
    /// Generates the service config of the next version and parses it.
    fn config(&mut self, routes: &RouteConfiguration) -> PolicyConfig {
        let config = self.configs.next(&routes.virtual_hosts()[0]).expect("a config").to_json();
        PolicyRegistry::default().service_config(&config).expect("its own config")
    }

    fn update(&mut self, routes: Vec<Route>, now: Time) {
        let config = self.config(&valid(routes));
        self.tree.update(config, now);
        self.follow();
    }

    fn follow(&mut self) {
        let name = |config: LeafPolicyConfig| match config {
            LeafPolicyConfig::Cluster(name) => name.to_string(),
            other => panic!("{other:?}"),
        };
        while let Some(change) = self.tree.poll_change() {
            match change {
                LeafChange::Create(leaf, config) => {
                    self.log.push(format!("+{}", name(config.clone())));
                    assert!(self.leaves.insert(leaf, name(config)).is_none());
                }
                LeafChange::Update(leaf, config) => {
                    self.log.push(format!("={}", name(config.clone())));
                    assert!(self.leaves.insert(leaf, name(config)).is_some());
                }
                LeafChange::Close(leaf) => {
                    let name = self.leaves.remove(&leaf).expect("one that was made");
                    self.log.push(format!("-{name}"));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn set_all_leaves(&mut self, state: ConnectivityState) {
        for (&leaf, name) in &self.leaves {
            self.tree.leaf_changed(leaf, state, name.clone());
        }
    }

    fn pick(&self, call: &Call<'_, [(&str, &str)]>, random: &mut Random) -> Result<String, String> {
        match self.tree.pick(call, random) {
            TreePick::Leaf(name) => Ok(name.clone()),
            TreePick::Queue => Err("queue".into()),
            TreePick::NoRoute(why) => Err(why.to_string()),
            other => Err(format!("{other:?}")),
        }
    }

    fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

#[test]
fn changed_weights_keep_all_leaves() {
    let mut clusters = Clusters::default();
    let split = |new: u32| {
        vec![
            route(prefix("/s"), weighted(&[("old", 100 - new), ("new", new)])),
            route(path("/t"), cluster("old")),
            route(prefix("/u"), cluster("old")),
        ]
    };
    clusters.update(split(1), Time::ZERO);
    // One leaf for each cluster of each action: `old`, and the two of the split.
    assert_eq!(clusters.log(), ["+old", "+new", "+old"]);
    assert_eq!(clusters.tree.state(), Connecting);
    let call = Call::new("/s/m", [].as_slice());
    assert_eq!(clusters.pick(&call, &mut Random::new(0)), Err("queue".into()));
    clusters.set_all_leaves(Ready);
    assert_eq!(clusters.tree.state(), Ready);
    let mut random = Random::new(1);
    for new in [1, 25, 99] {
        let before = clusters.tree.generation();
        clusters.update(split(new), Time::ZERO);
        assert!(clusters.log().iter().all(|it| it.starts_with('=')));
        assert_ne!(clusters.tree.generation(), before);
        let share = (0..10_000).filter(|_| clusters.pick(&call, &mut random) == Ok("new".into()));
        let (share, mean) = (share.count() as f64, f64::from(new) * 100.0);
        assert!((share - mean).abs() < 4.0 * (mean * (1.0 - mean / 10_000.0)).sqrt(), "{share}");
    }
    println!("covers: S2.015 S2.114 S2.116 S2.138 S2.139");
}

#[test]
fn removed_children_are_reused_if_they_return_in_time() {
    let at = |minutes: u64| Time::ZERO.after(Duration::from_secs(60 * minutes));
    let mut clusters = Clusters::default();
    let both = || vec![route(prefix("/a"), cluster("a")), route(prefix("/b"), cluster("b"))];
    clusters.update(both(), at(0));
    clusters.set_all_leaves(Ready);
    clusters.log();
    let only = || vec![route(prefix("/a"), cluster("a")), route(prefix("/x"), cluster("a"))];
    clusters.update(only(), at(1));
    assert_eq!((clusters.log(), clusters.tree.poll_timeout()), (vec!["=a".into()], Some(at(16))));
    clusters.update(both(), at(2));
    assert_eq!(clusters.log(), ["=a", "=b"]);
    let call = Call::new("/b", [].as_slice());
    assert_eq!(clusters.pick(&call, &mut Random::new(0)), Ok("b".into()), "as it was");
    clusters.update(only(), at(3));
    clusters.log();
    clusters.tree.handle_timeout(at(17));
    clusters.follow();
    assert!(clusters.log().is_empty());
    clusters.tree.handle_timeout(at(18));
    clusters.follow();
    assert_eq!((clusters.log(), clusters.tree.poll_timeout()), (vec!["-b".into()], None));

    // A catch-all route needs no routing policy, so the root is replaced by one of another kind.
    clusters.update(vec![route(prefix(""), cluster("a"))], at(20));
    assert_eq!(clusters.log(), ["-a", "+a"]);
}

#[test]
fn policy_without_configuration_queues_and_without_targets_fails() {
    let mut tree = PolicyTree::<&str>::default();
    let call = Call::new("/s/m", &[]);
    let mut random = Random::new(0);
    assert_eq!(tree.pick(&call, &mut random), TreePick::Queue, "no configuration yet");
    let empty = r#"[{"weighted_target_experimental":{}}]"#;
    tree.update(PolicyRegistry::default().policies(empty).unwrap(), Time::ZERO);
    assert_eq!(tree.pick(&call, &mut random), TreePick::NoChildren);
    assert_eq!(tree.state(), TransientFailure);
}

/// Creates a split between the leaf `a` with this policy and the leaf `b` with `round_robin`.
fn split(policy: &str) -> PolicyConfig {
    let json = format!(
        r#"[{{"weighted_target_experimental":{{"targets":{{
            "a":{{"weight":1,"childPolicy":[{{"{policy}":{{}}}}]}},
            "b":{{"weight":1,"childPolicy":[{{"round_robin":{{}}}}]}}}}}}}}]"#
    );
    PolicyRegistry::default().policies(&json).expect("a configuration")
}

fn changes<P>(tree: &mut PolicyTree<P>) -> Vec<LeafChange> {
    std::iter::from_fn(|| tree.poll_change()).collect()
}

fn created<P>(tree: &mut PolicyTree<P>) -> Vec<LeafId> {
    let ids = changes(tree).into_iter().filter_map(|change| match change {
        LeafChange::Create(id, _) => Some(id),
        _ => None,
    });
    ids.collect()
}

/// A leaf whose policy changes is replaced, and its state is unknown at first.
#[test]
fn leaf_whose_policy_changes_is_replaced() {
    let mut tree = PolicyTree::<&str>::default();
    let call = Call::new("/s/m", &[]);
    tree.update(split("round_robin"), Time::ZERO);
    let before = created(&mut tree);
    for &id in &before {
        tree.leaf_changed(id, Ready, "old");
    }
    tree.update(split("pick_first"), Time::ZERO);
    let now = changes(&mut tree);
    let [LeafChange::Close(gone), LeafChange::Create(new, config), LeafChange::Update(kept, _)] =
        now.as_slice()
    else {
        panic!("{now:?}")
    };
    assert_eq!((gone, kept, config.policy()), (&before[0], &before[1], "pick_first"));
    // It is not ready, so calls go to the other leaf.
    let mut random = Random::new(1);
    for _ in 0..20 {
        assert_eq!(tree.pick(&call, &mut random), TreePick::Leaf(&"old"));
    }
    tree.leaf_changed(*gone, Ready, "gone");
    tree.leaf_changed(*kept, TransientFailure, "fails");
    assert_eq!((tree.state(), tree.pick(&call, &mut random)), (Connecting, TreePick::Queue));
    tree.leaf_changed(*new, Ready, "new");
    assert_eq!(tree.pick(&call, &mut random), TreePick::Leaf(&"new"));
    // The root behaves in the same way.
    let alone = |policy: &str| {
        let json = format!(r#"[{{"{policy}":{{}}}}]"#);
        PolicyRegistry::default().policies(&json).expect("a configuration")
    };
    tree.update(alone("round_robin"), Time::ZERO);
    for (policy, count) in [("round_robin", 0), ("pick_first", 1), ("pick_first", 0)] {
        changes(&mut tree);
        tree.update(alone(policy), Time::ZERO);
        assert_eq!(created(&mut tree).len(), count, "{policy}");
    }
}

/// Reconnection does not delay calls: while all children have failed, the picker of the failure is
/// used, not the one of the reconnection.
#[test]
fn reconnecting_child_keeps_failing_calls() {
    let mut tree = PolicyTree::<&str>::default();
    let call = Call::new("/s/m", &[]);
    let mut random = Random::new(1);
    tree.update(split("pick_first"), Time::ZERO);
    let leaves = created(&mut tree);
    for &id in &leaves {
        tree.leaf_changed(id, TransientFailure, "fails");
    }
    for _ in 0..2 {
        for &id in &leaves {
            tree.leaf_changed(id, Connecting, "waits");
        }
        assert_eq!(tree.state(), TransientFailure);
        for _ in 0..20 {
            assert_eq!(tree.pick(&call, &mut random), TreePick::Leaf(&"fails"));
        }
    }
    tree.leaf_changed(leaves[0], Idle, "waits");
    let woken = TreePick::Wake(vec![leaves[0]]);
    assert_eq!((tree.state(), tree.pick(&call, &mut random)), (Idle, woken));
    tree.leaf_changed(leaves[0], Ready, "takes");
    assert_eq!(tree.pick(&call, &mut random), TreePick::Leaf(&"takes"));
    println!("covers: S2.011 S2.012 S2.016");
}

fn table() -> impl Strategy<Value = Vec<Route>> {
    let text = || "(/[/abAB]{0,4})?";
    let path = prop_oneof![
        text().prop_map(|text| path(&text)),
        text().prop_map(|text| prefix(&text)),
        "/[/abAB]{0,2}(\\.\\*|a\\+|\\[ab\\])?".prop_map(|text| safe_regex(&text)),
    ];
    let header = prop_oneof![
        2 => Just(None),
        1 => "[ab]".prop_map(|text| Some(Header::ExactMatch(text))),
        1 => "[ab]".prop_map(|text| Some(Header::ContainsMatch(text))),
        1 => any::<bool>().prop_map(|present| Some(Header::PresentMatch(present))),
    ];
    let fraction = prop_oneof![3 => Just(None), 1 => (0..100_u32).prop_map(Some)];
    // Sorted by name as in service configs, so that equal random numbers give equal choices.
    let split = prop::collection::btree_map("[abcd]", 1..50_u32, 1..4);
    let matches = (path, header, any::<bool>(), any::<bool>(), fraction);
    let one =
        (matches, split).prop_map(|((mut matches, header, invert, case, fraction), split)| {
            matches.case_sensitive = boolean(case);
            if let Some(how) = header {
                matches = with_header(matches, "h", how);
                matches.headers[0].invert_match = invert;
            }
            if let Some(percent) = fraction {
                matches = with_fraction(matches, percent, DenominatorType::Hundred);
            }
            let split: Vec<_> =
                split.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
            match split.as_slice() {
                [(name, _)] => route(matches, cluster(name)),
                split => route(matches, weighted(split)),
            }
        });
    prop::collection::vec(one, 1..10)
}

fn listener() -> HttpConnections {
    let listener = api_listener("l", &manager(rds("routes")));
    let listener = Listener::from_schema(&listener, &Rules::default()).expect("a listener");
    listener.api().expect("of a client").clone()
}

proptest! {
    /// A policy tree from the generated service config and the router choose the same cluster for
    /// each call, also after updates.
    #[test]
    fn policy_tree_and_router_choose_the_same_cluster(
        versions in prop::collection::vec(table(), 1..4),
        calls in prop::collection::vec(("/[/abAB]{0,4}", prop::option::of("[abc]{1,2}")), 1..20),
        seed: u64,
    ) {
        let mut clusters = Clusters::default();
        let listener = listener();
        for version in versions {
            let routes = Arc::new(valid(version.clone()));
            let router = Router::new(Arc::clone(&routes), "name", &listener).expect("a host");
            clusters.update(version, Time::ZERO);
            clusters.set_all_leaves(Ready);
            let named: BTreeSet<String> = router.clusters().iter().map(ToString::to_string).collect();
            let made: BTreeSet<String> = clusters.leaves.values().cloned().collect();
            prop_assert!(named.is_subset(&made));
            let (mut of_tree, mut of_router) = (Random::new(seed), Random::new(seed));
            for (path, value) in &calls {
                let headers: Vec<_> = value.iter().map(|value| ("h", value.as_str())).collect();
                let call = Call::new(path, headers.as_slice());
                let picked = clusters.pick(&call, &mut of_tree).ok();
                let decided = router.decide(&call, None, &mut of_router).ok();
                let decided = decided.map(|decision| match decision.target {
                    CallTarget::Cluster { name, .. } => name.to_string(),
                    other => panic!("{other:?}"),
                });
                prop_assert_eq!(picked, decided);
            }
            prop_assert_eq!(of_tree.next_u64(), of_router.next_u64());
        }
        println!("covers: S2.124 X46");
    }
}

/// A call wakes idle leaves (`ExitIdle` in gRPC).
#[test]
fn call_wakes_idle_leaves() {
    let mut clusters = Clusters::default();
    let idle = vec![
        route(prefix("/s"), weighted(&[("a", 1), ("b", 1)])),
        route(prefix("/t"), cluster("c")),
    ];
    clusters.update(idle, Time::ZERO);
    clusters.set_all_leaves(Idle);
    let call = Call::new("/s/m", [].as_slice());
    let mut random = Random::new(0);
    let TreePick::Wake(woken) = clusters.tree.pick(&call, &mut random) else {
        panic!("nobody is connecting")
    };
    let names: Vec<_> = woken.iter().map(|leaf| clusters.leaves[leaf].as_str()).collect();
    assert_eq!(names, ["a", "b"], "those of the split, and not the one beside it");
    // One connecting leaf is enough, as in gRPC.
    clusters.tree.leaf_changed(woken[0], Connecting, "a".into());
    assert_eq!(clusters.pick(&call, &mut random), Err("queue".into()));
    clusters.tree.leaf_changed(woken[0], Ready, "a".into());
    assert_eq!(clusters.pick(&call, &mut random), Ok("a".into()));
}

/// A route without a cluster fails its calls only.
#[test]
fn route_without_a_cluster_fails_only_its_calls() {
    let mut clusters = Clusters::default();
    let gone = Route { r#match: Some(prefix("/gone/")), ..Route::default() };
    clusters.update(vec![gone, route(prefix(""), cluster("a"))], Time::ZERO);
    clusters.set_all_leaves(Ready);
    let mut random = Random::new(0);
    let call = Call::new("/gone/m", [].as_slice());
    assert_eq!(clusters.pick(&call, &mut random), Err("NoChildren".into()));
    let call = Call::new("/there/m", [].as_slice());
    assert_eq!(clusters.pick(&call, &mut random), Ok("a".into()));
}
