//! Warming on a client handle.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use xds_core::{
    Time,
    client::{ClientConfig, InvalidWatch, Node, OpaqueType, ServerAddress},
    server::{Transaction, Variant},
    types,
};
use xds_routing::{
    dependencies::Dependency,
    warming::{HandleWarming, Warmed},
};

use crate::{
    behind_handle::{HandleNetwork, Polled},
    dependencies::resources,
    network::shorten_watched,
    warming::{
        VARIANTS,
        rig::{client_config, server_config, shorten},
    },
};

type Said = Result<(Dependency, Option<Warmed>), InvalidWatch>;
type Rig = HandleNetwork<HandleWarming>;

impl Polled for HandleWarming {
    type Said = Said;

    fn poll(&mut self, now: Time, cx: &mut Context<'_>) -> Poll<Option<Said>> {
        self.poll_next(now, cx)
    }

    fn poll_timeout(&self) -> Option<Time> {
        Self::poll_timeout(self)
    }
}

fn short(said: Vec<Said>) -> Vec<String> {
    let mut short = Vec::new();
    for it in said {
        let (root, warmed) = it.expect("the types are known");
        short.push(shorten(&root, warmed));
    }
    short
}

impl Rig {
    fn new(variant: Variant) -> Self {
        Self::connect(variant, client_config(variant), server_config(), HandleWarming::new)
    }

    fn set(&mut self, change: impl FnOnce(&mut Transaction)) -> Vec<String> {
        let mut transaction = Transaction::new();
        change(&mut transaction);
        short(self.apply(transaction))
    }

    fn watched(&self) -> String {
        shorten_watched(self.follower.watched())
    }
}

#[test]
fn handle_warms_resources_like_the_client() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        assert!(rig.settle().is_empty());
        assert!(rig.follower.warming().is_initialized(), "there is nothing, and that is known");
        let told = rig.set(|it| {
            it.set(types::CLUSTER, "a", resources::eds("a", "one"));
            it.set(types::CLUSTER, "d", resources::dns("d", "d.example.com"));
            it.set(types::LISTENER, "l", resources::listener("l", "r"));
        });
        assert_eq!(told, ["cds:d"], "the others have to warm");
        assert_eq!(rig.watched(), "rds:r eds:one");
        let told = rig.set(|it| {
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "one", resources::endpoints("one", &[1]));
            it.set(types::ROUTE_CONFIGURATION, "r", resources::route_table("r", &["a"]));
        });
        let told = told.into_iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(told, ["cds:a one".to_owned(), "lds:l r".to_owned()].into());
        // The old version stays in use until the new one is warm or its time is over.
        let told = rig.set(|it| {
            it.set(types::CLUSTER, "a", resources::eds("a", "two"));
        });
        assert!(told.is_empty());
        assert_eq!(rig.watched(), "rds:r eds:one eds:two");
        assert!(short(rig.advance(Duration::from_millis(14_999))).is_empty());
        assert_eq!(short(rig.advance(Duration::from_millis(1))), ["cds:a without two"]);
        assert_eq!(rig.watched(), "rds:r eds:two");
        let told = rig.set(|it| {
            it.remove(types::CLUSTER, "a");
            it.remove(types::LISTENER, "l");
        });
        let told = told.into_iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(told, ["cds:a gone".to_owned(), "lds:l gone".to_owned()].into());
        assert_eq!((rig.watched().as_str(), rig.client.watch_count()), ("", 2));
        assert_eq!(rig.end(), Poll::Ready(None));
    }
    println!("covers: S0.023 S0.024 S0.025 S0.153 S0.154 S0.158");
}

/// More changes than a handle takes from the client at once.
#[test]
fn more_changes_than_one_batch_are_all_delivered() {
    let mut rig = Rig::new(VARIANTS[1]);
    let name = |index: usize| format!("cluster-{index}");
    let told = rig.set(|it| {
        for index in 0..1_000 {
            it.set(types::CLUSTER, name(index), resources::dns(&name(index), "host"));
        }
    });
    assert_eq!(told.len(), 1_000);
    let told = rig.set(|it| {
        it.remove(types::CLUSTER, name(7));
    });
    assert_eq!(told, ["cds:cluster-7 gone"]);
    assert!(rig.follower.warming().is_initialized());
}

#[test]
fn handle_without_one_root_type_reports_an_error() {
    let config = ClientConfig::new(Node::new("proxy"), ServerAddress::new("server"))
        .with_type(OpaqueType::new(types::CLUSTER));
    let mut rig = Rig::connect(VARIANTS[0], config, server_config(), HandleWarming::new);
    let said = rig.settle();
    assert!(matches!(&said[..], [Err(InvalidWatch::UnknownType(_))]), "{said:?}");
    assert_eq!(rig.end(), Poll::Ready(None));
}
