//! Clusters that are subscribed although no route names them.

use xds_core::{server::StatusCode, types};

use crate::dependencies::{
    rig::{Rig, VARIANTS},
    trouble::dropping,
};

#[test]
fn subscribed_cluster_is_kept_without_a_route() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["a"]).whole("a", &[1]).whole("b", &[2]);
        });
        assert_eq!(rig.last(), "[a] a=1");
        rig.subscribe("a");
        rig.subscribe("a");
        assert!(rig.told().is_empty(), "nothing is new");
        rig.set(|it| {
            it.inline(&["b"]);
        });
        assert_eq!(rig.last(), "[b] a=1 b=2");
        // It is kept up to date.
        rig.set(|it| {
            it.endpoints("a", &[7]);
        });
        assert_eq!(rig.told(), ["[b] a=7 b=2"]);
        rig.unsubscribe("a");
        assert!(rig.told().is_empty(), "it is still held once");
        rig.unsubscribe("a");
        assert_eq!(rig.told(), ["[b] b=2"]);
        assert_eq!(rig.watched(), "lds:l cds:b eds:b");
        rig.unsubscribe("a");
        rig.unsubscribe("never heard of");
        assert!(rig.told().is_empty());
    }
    println!("covers: B26 B44");
}

/// After the subscription ends, a cluster of the pending routes stays watched, and is reported with
/// them.
#[test]
fn cluster_of_pending_routes_stays_watched_after_unsubscribe() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["a"]).whole("a", &[1]).whole("b", &[2]);
        });
        rig.subscribe("b");
        assert_eq!(rig.last(), "[a] a=1 b=2");
        rig.set(|it| {
            it.inline(&["b", "c"]);
        });
        assert!(rig.told().is_empty(), "c is not there");
        rig.unsubscribe("b");
        assert_eq!(rig.told(), ["[a] a=1"]);
        rig.set(|it| {
            it.whole("c", &[3]);
        });
        assert_eq!(rig.told(), ["[b c] b=2 c=3"]);
    }
    println!("covers: B26 B44");
}

#[test]
fn subscription_may_name_any_cluster() {
    let mut rig = Rig::new(VARIANTS[1]);
    rig.set(|it| {
        it.inline(&["a"]).whole("a", &[1]).aggregate("agg", &["b"]);
    });
    rig.told();
    rig.subscribe("agg");
    assert!(rig.told().is_empty(), "its members are not there yet; calls to others do not wait");
    rig.set(|it| {
        it.endpoints("a", &[3]);
    });
    assert_eq!(rig.told(), ["[a] a=3"]);
    rig.set(|it| {
        it.whole("b", &[2]);
    });
    assert_eq!(rig.told(), ["[a] a=3 agg=<b> b=2"]);
    // Routes start and stop naming the cluster.
    rig.set(|it| {
        it.inline(&["a", "b"]);
    });
    assert_eq!(rig.last(), "[a b] a=3 agg=<b> b=2");
    rig.unsubscribe("agg");
    assert_eq!(rig.last(), "[a b] a=3 b=2");
    assert_eq!(rig.watched(), "lds:l cds:a cds:b eds:a eds:b");
}

#[test]
fn subscription_after_shutdown_watches_nothing() {
    let mut rig = Rig::new(VARIANTS[1]);
    rig.set(|it| {
        it.inline(&["a"]).whole("a", &[1]).whole("b", &[2]);
    });
    rig.subscribe("b");
    assert_eq!(rig.last(), "[a] a=1 b=2");
    rig.follower.shut_down(&mut rig.client, rig.now);
    assert_eq!(rig.client.watch_count(), 0);
    rig.subscribe("b");
    assert_eq!(rig.client.watch_count(), 0, "it is over");
}

/// The cluster of an active call stays up to date, even without a listener or routes.
#[test]
fn subscribed_cluster_is_updated_without_listener_or_routes() {
    for variant in VARIANTS {
        for gone in [types::LISTENER, types::ROUTE_CONFIGURATION] {
            let mut rig = Rig::with_profile(variant, dropping());
            rig.set(|it| {
                it.listener("r").routes("r", &["a", "b"]).whole("a", &[1]).whole("b", &[2]);
            });
            rig.subscribe("a");
            rig.told();
            rig.set(|it| {
                let name = if gone == types::LISTENER { "l" } else { "r" };
                it.remove(gone, name);
            });
            // The state-of-the-world variant cannot report the deletion of routes.
            if gone == types::ROUTE_CONFIGURATION {
                rig.set(|it| {
                    it.error(gone, "r", StatusCode::NotFound);
                });
            }
            assert!(rig.last().starts_with("error: "));
            assert_eq!(rig.resolved_clusters(), " a=1");
            rig.set(|it| {
                it.endpoints("a", &[7]);
            });
            assert!(rig.last().starts_with("error: "), "whoever uses the cluster is told");
            assert_eq!(rig.resolved_clusters(), " a=7");
            rig.set(|it| {
                it.listener("r").routes("r", &["a"]);
            });
            assert_eq!(rig.last(), "[a] a=7");
            rig.set(|it| {
                it.remove(types::LISTENER, "l");
            });
            rig.unsubscribe("a");
            assert_eq!(rig.resolved_clusters(), "");
            assert_eq!(rig.watched(), "lds:l");
        }
    }
    println!("covers: B26 B44");
}
