//! Random changes in random order: every configuration is consistent, and the last one equals that
//! of a new client.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::{collection::vec, prelude::*, sample::subsequence};
use xds_core::{
    ResourceName,
    client::{DataErrorPolicy, Profile},
    server::{Transaction, Variant},
    types,
};
use xds_routing::dependencies::{
    Children, ClusterError, Configuration, ConfigurationError, Endpoints,
};

use crate::{
    dependencies::{
        resources,
        rig::{Outcome, Rig, Store, VARIANTS},
    },
    network::Asks,
};

const CLUSTERS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];
const SERVICES: [&str; 4] = ["s0", "s1", "s2", "s3"];
const TABLES: [&str; 3] = ["r0", "r1", "r2"];

/// Change of the server's resources or the subscriptions.
#[derive(Clone, Debug)]
enum Step {
    Listener(&'static str),
    Inline(Vec<&'static str>),
    Routes(&'static str, Vec<&'static str>),
    Eds(&'static str, &'static str),
    Aggregate(&'static str, Vec<&'static str>),
    Dns(&'static str),
    /// An invalid cluster.
    Bad(&'static str),
    Endpoints(&'static str, u32),
    RemoveListener,
    RemoveCluster(&'static str),
    Subscribe(&'static str),
    Unsubscribe(&'static str),
    Wait(u64),
}

fn any_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    (0..names.len()).prop_map(move |index| names[index])
}

fn some_clusters() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(CLUSTERS.to_vec(), 1..4).prop_shuffle()
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any_of(&TABLES).prop_map(Step::Listener),
        1 => some_clusters().prop_map(Step::Inline),
        4 => (any_of(&TABLES), some_clusters()).prop_map(|(name, to)| Step::Routes(name, to)),
        6 => (any_of(&CLUSTERS), any_of(&SERVICES)).prop_map(|(name, to)| Step::Eds(name, to)),
        4 => (any_of(&CLUSTERS), some_clusters()).prop_map(|(name, to)| Step::Aggregate(name, to)),
        1 => any_of(&CLUSTERS).prop_map(Step::Dns),
        1 => any_of(&CLUSTERS).prop_map(Step::Bad),
        6 => (any_of(&SERVICES), 1..9_u32).prop_map(|(name, port)| Step::Endpoints(name, port)),
        1 => Just(Step::RemoveListener),
        1 => any_of(&CLUSTERS).prop_map(Step::RemoveCluster),
        2 => any_of(&CLUSTERS).prop_map(Step::Subscribe),
        2 => any_of(&CLUSTERS).prop_map(Step::Unsubscribe),
        2 => (1..20_u64).prop_map(Step::Wait),
    ]
}

/// Resources of the server, and subscriptions.
#[derive(Default)]
struct Model {
    resources: BTreeMap<(&'static str, String), Vec<u8>>,
    subscriptions: BTreeMap<&'static str, usize>,
}

impl Model {
    fn set(&mut self, rig: &mut Rig, type_url: &'static str, name: &str, bytes: Vec<u8>) {
        self.resources.insert((type_url, name.into()), bytes.clone());
        rig.set(|it| {
            it.raw(type_url, name, bytes);
        });
    }

    fn remove(&mut self, rig: &mut Rig, type_url: &'static str, name: &str) {
        self.resources.remove(&(type_url, name.into()));
        rig.set(|it| {
            it.remove(type_url, name);
        });
    }

    fn apply(&mut self, rig: &mut Rig, step: &Step) {
        match step {
            Step::Listener(to) => self.set(rig, types::LISTENER, "l", resources::listener("l", to)),
            Step::Inline(to) => {
                self.set(rig, types::LISTENER, "l", resources::listener_with("l", to));
            }
            Step::Routes(name, to) => {
                let table = resources::route_table(name, to);
                self.set(rig, types::ROUTE_CONFIGURATION, name, table);
            }
            Step::Eds(name, to) => self.set(rig, types::CLUSTER, name, resources::eds(name, to)),
            Step::Aggregate(name, to) => {
                self.set(rig, types::CLUSTER, name, resources::aggregate(name, to));
            }
            Step::Dns(name) => self.set(rig, types::CLUSTER, name, resources::dns(name, "host")),
            Step::Bad(name) => {
                self.set(rig, types::CLUSTER, name, resources::aggregate(name, &[]));
            }
            Step::Endpoints(name, port) => {
                let endpoints = resources::endpoints(name, &[*port]);
                self.set(rig, types::CLUSTER_LOAD_ASSIGNMENT, name, endpoints);
            }
            Step::RemoveListener => self.remove(rig, types::LISTENER, "l"),
            Step::RemoveCluster(name) => self.remove(rig, types::CLUSTER, name),
            Step::Subscribe(name) => {
                *self.subscriptions.entry(name).or_default() += 1;
                rig.subscribe(name);
            }
            Step::Unsubscribe(name) => {
                if let Some(count) = self.subscriptions.get_mut(name) {
                    *count -= 1;
                    if *count == 0 {
                        self.subscriptions.remove(name);
                    }
                }
                rig.unsubscribe(name);
            }
            Step::Wait(seconds) => rig.advance(Duration::from_secs(*seconds)),
        }
    }

    /// Creates a client that starts after all changes.
    fn anew(&self, variant: Variant) -> Rig {
        let mut rig = Rig::with_profile(variant, strict());
        let mut all = Store(Transaction::new());
        for ((type_url, name), bytes) in &self.resources {
            all.raw(type_url, name, bytes.clone());
        }
        rig.server.apply(all.0, rig.now).unwrap();
        self.subscriptions.keys().for_each(|name| rig.subscribe(name));
        rig.advance(Duration::from_secs(60));
        rig
    }
}

/// Profile in which deleted or invalid resources are not kept, so the result does not depend on
/// history.
fn strict() -> Profile {
    let mut profile = Profile::grpc();
    profile.data_errors = DataErrorPolicy::DropCached;
    profile
}

/// Returns the outcome without error messages, which depend on history.
fn essence(outcome: &Outcome) -> String {
    match outcome {
        Err(ConfigurationError::Listener(_)) => "no listener".into(),
        Err(ConfigurationError::Routes(_)) => "no routes".into(),
        Err(other) => format!("{other}"),
        Ok(configuration) => {
            let clusters = configuration.clusters().iter().map(|(name, entry)| match entry {
                Err(_) => format!("{name}: none\n"),
                Ok(it) => match &it.children {
                    Children::Leaf(leaf) => format!("{name}: {:?}\n", leaf.endpoints),
                    other => format!("{name}: {other:?}\n"),
                },
            });
            let clusters: String = clusters.collect();
            format!("{:?}\n{:?}\n{clusters}", configuration.listener(), configuration.routes())
        }
    }
}

/// Checks that the configuration contains exactly the clusters that it refers to.
fn check_whole(configuration: &Configuration, subscribed: &BTreeSet<&str>) {
    let clusters = configuration.clusters();
    let routed = configuration.virtual_host().clusters();
    let mut named: BTreeSet<ResourceName> = BTreeSet::new();
    let mut waiting: Vec<ResourceName> = routed.iter().cloned().collect();
    for name in &routed {
        assert!(clusters.contains_key(name), "routes lead to {name}");
    }
    waiting.extend(subscribed.iter().map(|&name| ResourceName::from(name)));
    while let Some(name) = waiting.pop() {
        let Some(entry) = clusters.get(&name) else { continue };
        if !named.insert(name.clone()) {
            continue;
        }
        let Ok(entry) = entry else { continue };
        if let xds_routing::cluster::Discovery::Aggregate(members) = &entry.cluster.discovery {
            waiting.extend(members.iter().cloned());
        }
        if let Children::Aggregate(leaves) = &entry.children {
            for leaf in leaves {
                let entry = clusters.get(leaf).expect("a leaf").as_ref().expect("that is sound");
                assert!(matches!(entry.children, Children::Leaf(_)), "{leaf} of {name}");
            }
        }
    }
    // The members of an aggregate without leaves are not visible in its entry.
    let hides =
        |entry: &Result<_, ClusterError>| matches!(entry, Err(ClusterError::NoLeaves { .. }));
    if !clusters.values().any(hides) {
        let all: BTreeSet<ResourceName> = clusters.keys().cloned().collect();
        assert_eq!(all, named, "nobody needs the rest");
    }
}

fn run(variant: Variant, steps: &[Step]) {
    let mut rig = Rig::with_profile(variant, strict());
    let mut model = Model::default();
    for step in steps {
        model.apply(&mut rig, step);
        let subscribed: BTreeSet<&str> = model.subscriptions.keys().copied().collect();
        for outcome in rig.said.drain(..) {
            if let Ok(configuration) = &outcome {
                check_whole(configuration, &subscribed);
            }
        }
    }
    rig.advance(Duration::from_secs(60));
    let fresh = model.anew(variant);
    let [found, expected] = [&rig, &fresh].map(|rig| rig.follower.manager().configuration());
    assert_eq!(found.as_ref().map(essence), expected.as_ref().map(essence), "{variant:?}");
    assert_eq!(rig.watched(), fresh.watched(), "{variant:?}");
    assert_eq!(rig.follower.manager().is_waiting(), fresh.follower.manager().is_waiting());
    rig.follower.shut_down(&mut rig.client, rig.now);
    rig.settle();
    assert_eq!((rig.watched(), rig.client.watch_count()), (String::new(), 0));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(300),
        ..ProptestConfig::default()
    })]

    #[test]
    fn final_state_is_independent_of_the_changes_before(steps in vec(any_step(), 1..40)) {
        for variant in VARIANTS {
            run(variant, &steps);
        }
        println!("covers: B44 S0.028");
    }

    #[test]
    fn valid_rollouts_never_show_a_missing_resource(
        rollouts in vec((subsequence(CLUSTERS.to_vec(), 1..5).prop_shuffle(), 0..8_u32), 1..20),
    ) {
        let all_asks = [Asks::AtRest, Asks::AfterEveryNotice];
        for (variant, asks) in VARIANTS.into_iter().flat_map(|it| all_asks.map(|asks| (it, asks))) {
            let mut rig = Rig::new(variant);
            rig.asks = asks;
            let mut before: Vec<&str> = Vec::new();
            for (number, (clusters, kind)) in (1..).zip(&rollouts) {
                // Clusters that routes name exist. Others are removed.
                rig.set(|it| {
                    for name in before.iter().filter(|name| !clusters.contains(*name)) {
                        it.remove(types::CLUSTER, name);
                    }
                    let service = SERVICES[number as usize % SERVICES.len()];
                    it.endpoints(service, &[number]);
                    for name in clusters {
                        it.eds(name, service);
                    }
                    if let [aggregate, members @ ..] = &clusters[..]
                        && !members.is_empty()
                        && kind % 2 == 0
                    {
                        it.aggregate(aggregate, members);
                    }
                    match kind / 4 {
                        0 => it.inline(clusters),
                        _ => it.listener("r").routes("r", clusters),
                    };
                });
                before = clusters.clone();
                for outcome in rig.said.drain(..) {
                    let configuration = outcome.expect("a listener and routes");
                    check_whole(&configuration, &BTreeSet::new());
                    for (name, entry) in configuration.clusters() {
                        let entry = entry.as_ref().unwrap_or_else(|why| panic!("{name}: {why}"));
                        if let Children::Leaf(leaf) = &entry.children {
                            assert_ne!(leaf.endpoints, Endpoints::Missing, "{name}");
                        }
                    }
                }
            }
            let last = rig.follower.manager().configuration().unwrap().unwrap();
            let routed: Vec<ResourceName> = last.virtual_host().clusters().into_iter().collect();
            let mut expected = before.clone();
            expected.sort_unstable();
            prop_assert_eq!(routed, expected);
        }
        println!("covers: B44");
    }
}
