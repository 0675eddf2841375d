//! Random changes in random order: a version stays in use until a better one is ready, and the
//! final state equals that of a new proxy.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::{collection::vec, prelude::*};
use xds_core::{server::Variant, types};
use xds_routing::dependencies::{Dependency, DependencyKind};

use crate::{
    dependencies::resources,
    warming::{VARIANTS, rig::Rig},
};

const ROOTS: [&str; 3] = ["a", "b", "c"];
const NEEDS: [&str; 4] = ["w", "x", "y", "z"];

/// Change of the server's resources, or time.
#[derive(Clone, Debug)]
enum Step {
    Cluster(&'static str, &'static str),
    /// A cluster without dependencies.
    Dns(&'static str),
    Listener(&'static str, &'static str),
    Endpoints(&'static str, u32),
    Routes(&'static str, &'static str),
    RemoveCluster(&'static str),
    RemoveListener(&'static str),
    Wait(u64),
}

fn any_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    (0..names.len()).prop_map(move |index| names[index])
}

fn any_step() -> impl Strategy<Value = Step> {
    let (root, reference) = (|| any_of(&ROOTS), || any_of(&NEEDS));
    prop_oneof![
        4 => (root(), reference()).prop_map(|(name, to)| Step::Cluster(name, to)),
        1 => root().prop_map(Step::Dns),
        4 => (root(), reference()).prop_map(|(name, to)| Step::Listener(name, to)),
        4 => (reference(), 1..9_u32).prop_map(|(name, port)| Step::Endpoints(name, port)),
        4 => (reference(), root()).prop_map(|(name, to)| Step::Routes(name, to)),
        1 => root().prop_map(Step::RemoveCluster),
        1 => root().prop_map(Step::RemoveListener),
        2 => (1..20_u64).prop_map(Step::Wait),
    ]
}

/// Type and name.
type Key = (&'static str, &'static str);

/// Resources of the server; `None` for removed ones.
type Store = BTreeMap<Key, Option<Vec<u8>>>;

fn change(step: &Step) -> Option<(Key, Option<Vec<u8>>)> {
    Some(match step {
        Step::Cluster(name, to) => ((types::CLUSTER, *name), Some(resources::eds(name, to))),
        Step::Dns(name) => ((types::CLUSTER, *name), Some(resources::dns(name, "host"))),
        Step::Listener(name, to) => ((types::LISTENER, *name), Some(resources::listener(name, to))),
        Step::Endpoints(name, port) => {
            let endpoints = resources::endpoints(name, &[*port]);
            ((types::CLUSTER_LOAD_ASSIGNMENT, *name), Some(endpoints))
        }
        Step::Routes(name, to) => {
            ((types::ROUTE_CONFIGURATION, *name), Some(resources::route_table(name, &[*to])))
        }
        Step::RemoveCluster(name) => ((types::CLUSTER, *name), None),
        Step::RemoveListener(name) => ((types::LISTENER, *name), None),
        Step::Wait(_) => return None,
    })
}

fn roots() -> impl Iterator<Item = Dependency> {
    let kinds = [DependencyKind::Listener, DependencyKind::Cluster];
    kinds.into_iter().flat_map(|kind| ROOTS.map(|name| Dependency::new(kind, name.into())))
}

/// Returns all versions in use with their dependencies, byte by byte.
fn used(rig: &Rig) -> Vec<String> {
    let warmed = roots().filter_map(|root| rig.follower.warming().warmed(&root));
    let short = warmed.map(|it| {
        let references = it
            .references
            .iter()
            .map(|reference| (&reference.name, reference.resource.as_ref().map(|it| &it.bytes)));
        format!("{:?} {:?} {:?}", it.root, it.resource.bytes, references.collect::<Vec<_>>())
    });
    short.collect()
}

fn run(variant: Variant, steps: &[Step]) {
    let mut rig = Rig::new(variant);
    rig.settle();
    let mut store = Store::new();
    let mut in_use: BTreeSet<Dependency> = BTreeSet::new();
    for step in steps {
        match (step, change(step)) {
            (Step::Wait(seconds), _) => rig.advance(Duration::from_secs(*seconds)),
            (_, Some((key, bytes))) => {
                rig.set(|it| {
                    match bytes.clone() {
                        Some(bytes) => it.set(key.0, key.1, bytes),
                        None => it.remove(key.0, key.1),
                    };
                });
                store.insert(key, bytes);
            }
            _ => {}
        }
        let exists = |root: &Dependency| {
            let key = (root.kind.type_url(), root.name.as_str());
            store.iter().any(|(known, bytes)| *known == key && bytes.is_some())
        };
        let now: BTreeSet<Dependency> =
            roots().filter(|root| rig.follower.warming().warmed(root).is_some()).collect();
        for root in &in_use {
            assert!(now.contains(root) || !exists(root), "{root:?} was in use, and is no longer");
        }
        for root in &now {
            assert!(exists(root), "{root:?} is in use, and does not exist");
        }
        in_use = now;
    }
    rig.advance(Duration::from_secs(60));
    let mut fresh = Rig::new(variant);
    fresh.set(|it| {
        for ((type_url, name), bytes) in &store {
            if let Some(bytes) = bytes {
                it.set(*type_url, *name, bytes.clone());
            }
        }
    });
    fresh.advance(Duration::from_secs(60));
    assert_eq!(used(&rig), used(&fresh), "{variant:?}");
    assert_eq!(rig.watched(), fresh.watched(), "{variant:?}");
    assert!(rig.follower.warming().is_initialized(), "nothing waits for ever");
    assert_eq!(rig.follower.poll_timeout(), None);
    let Rig { follower, mut client, now, .. } = rig;
    follower.shut_down(&mut client, now);
    assert_eq!(client.watch_count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn final_state_is_independent_of_the_changes_before(steps in vec(any_step(), 1..40)) {
        for variant in VARIANTS {
            run(variant, &steps);
        }
        println!("covers: S0.123 S0.153 S0.154 S0.158");
    }
}
