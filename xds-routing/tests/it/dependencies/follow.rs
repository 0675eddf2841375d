//! Resolution from a listener to endpoints.

use std::time::Duration;

use xds_core::types;

use crate::dependencies::rig::{Rig, VARIANTS};

#[test]
fn listener_is_resolved_down_to_endpoints() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.settle();
        assert_eq!(rig.watched(), "lds:l", "{variant:?}: the listener is the only root");
        rig.set(|it| {
            it.listener("r");
        });
        assert_eq!(rig.watched(), "lds:l rds:r");
        rig.set(|it| {
            it.routes("r", &["a", "b"]);
        });
        assert_eq!(rig.watched(), "lds:l rds:r cds:a cds:b");
        rig.set(|it| {
            it.eds("a", "of-a").cluster("b").cluster("unrelated");
        });
        assert_eq!(rig.watched(), "lds:l rds:r cds:a cds:b eds:b eds:of-a");
        rig.set(|it| {
            it.endpoints("of-a", &[1, 2]);
        });
        assert_eq!(rig.told(), Vec::<String>::new(), "not before everything is there");
        rig.set(|it| {
            it.endpoints("b", &[3]);
        });
        assert_eq!(rig.told(), ["[a b] a=1,2 b=3"]);
        rig.set(|it| {
            it.endpoints("b", &[4]);
        });
        assert_eq!(rig.told(), ["[a b] a=1,2 b=4"]);
    }
    println!("covers: S0.019 S0.020 S0.021 S0.022 S0.026 S0.027 B44");
}

#[test]
fn inline_routes_are_resolved() {
    let mut rig = Rig::new(VARIANTS[0]);
    rig.set(|it| {
        it.inline(&["a"]).whole("a", &[1]);
    });
    assert_eq!(rig.told(), ["[a] a=1"]);
    assert_eq!(rig.watched(), "lds:l cds:a eds:a");
    rig.set(|it| {
        it.listener("r").routes("r", &["a"]);
    });
    assert_eq!(rig.told(), ["[a] a=1"]);
    assert_eq!(rig.watched(), "lds:l rds:r cds:a eds:a");
    rig.set(|it| {
        it.inline(&["a"]);
    });
    assert_eq!(rig.watched(), "lds:l cds:a eds:a");
}

#[test]
fn unreferenced_resources_are_unsubscribed() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.listener("r").routes("r", &["a", "b"]).whole("a", &[1]).whole("b", &[2]);
        });
        assert_eq!(rig.last(), "[a b] a=1 b=2");
        rig.set(|it| {
            it.routes("r", &["b"]);
        });
        assert_eq!(rig.told(), ["[b] b=2"]);
        assert_eq!(rig.watched(), "lds:l rds:r cds:b eds:b");
        // The listener names another route configuration.
        rig.set(|it| {
            it.listener("s").routes("s", &["b"]);
        });
        assert_eq!(rig.watched(), "lds:l rds:s cds:b eds:b");
        // The cluster names another EDS resource.
        rig.set(|it| {
            it.eds("b", "of-b").endpoints("of-b", &[3]);
        });
        assert_eq!(rig.last(), "[b] b=3");
        assert_eq!(rig.watched(), "lds:l rds:s cds:b eds:of-b");
        rig.follower.shut_down(&mut rig.client, rig.now);
        rig.settle();
        assert_eq!((rig.watched(), rig.client.watch_count()), (String::new(), 0));
        rig.advance(Duration::from_secs(60));
        assert!(rig.told().is_empty());
        let subscribed = rig.server.status().map(|it| format!("{:?}", it.subscribed));
        assert!(
            subscribed.collect::<Vec<_>>().iter().all(|it| it == "Nothing" || it == "Names(0)")
        );
    }
    println!("covers: S0.028 S0.123 B44");
}

#[test]
fn old_configuration_serves_until_the_new_one_is_complete() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.listener("r").routes("r", &["a"]).whole("a", &[1]);
        });
        assert_eq!(rig.last(), "[a] a=1");
        rig.set(|it| {
            it.routes("r", &["b"]).cluster("b");
        });
        assert_eq!(rig.told(), Vec::<String>::new(), "no endpoints of b yet");
        assert!(rig.follower.manager().is_waiting());
        // The version in use is still updated.
        rig.set(|it| {
            it.endpoints("a", &[5]);
        });
        assert_eq!(rig.told(), ["[a] a=5"]);
        rig.set(|it| {
            it.endpoints("b", &[2]);
        });
        assert_eq!(rig.told(), ["[b] b=2"]);
        assert_eq!(rig.watched(), "lds:l rds:r cds:b eds:b");
        // A cluster with a new EDS resource keeps the old endpoints until then. Other updates
        // continue.
        rig.set(|it| {
            it.eds("b", "elsewhere");
        });
        assert!(rig.told().is_empty());
        rig.set(|it| {
            it.endpoints("b", &[3]);
        });
        assert_eq!(rig.told(), ["[b] b=3"]);
        rig.set(|it| {
            it.endpoints("elsewhere", &[4]);
        });
        assert_eq!(rig.told(), ["[b] b=4"]);
        assert_eq!(rig.watched(), "lds:l rds:r cds:b eds:elsewhere");
    }
    println!("covers: B44");
}

#[test]
fn reverted_change_leaves_no_subscription() {
    let mut rig = Rig::new(VARIANTS[1]);
    rig.set(|it| {
        it.listener("r").routes("r", &["a"]).whole("a", &[1]);
    });
    rig.told();
    rig.set(|it| {
        it.routes("r", &["b", "c"]).cluster("b");
    });
    assert_eq!(rig.watched(), "lds:l rds:r cds:a cds:b cds:c eds:a eds:b");
    rig.set(|it| {
        it.routes("r", &["a"]);
    });
    assert_eq!(rig.watched(), "lds:l rds:r cds:a eds:a");
    assert_eq!(rig.last(), "[a] a=1");
    rig.set(|it| {
        it.eds("a", "x");
    });
    assert_eq!(rig.watched(), "lds:l rds:r cds:a eds:a eds:x");
    rig.set(|it| {
        it.eds("a", "y").remove(types::CLUSTER, "b");
    });
    assert_eq!(rig.watched(), "lds:l rds:r cds:a eds:a eds:y");
}
