//! Aggregate and logical DNS clusters.

use std::time::Duration;

use xds_core::types;
use xds_routing::dependencies::MAX_AGGREGATE_DEPTH;

use crate::{
    dependencies::rig::{Rig, VARIANTS},
    network::Asks,
};

#[test]
fn aggregate_cluster_is_resolved_to_its_leaves() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["top"]).aggregate("top", &["x", "inner", "y"]);
            it.aggregate("inner", &["y", "z"]).whole("x", &[1]).whole("y", &[2]);
        });
        assert!(rig.told().is_empty(), "z is not there");
        rig.set(|it| {
            it.dns("z", "z.example.com");
        });
        // Each leaf counts once, at its first position. A logical DNS cluster watches no endpoints.
        let all = "[top] inner=<y z.example.com> top=<x y z>".replace("z.example.com", "z");
        assert_eq!(rig.told(), [format!("{all} x=1 y=2 z=z.example.com:443")]);
        assert_eq!(rig.watched(), "lds:l cds:inner cds:top cds:x cds:y cds:z eds:x eds:y");
        // A new member is used once it is known.
        rig.set(|it| {
            it.aggregate("inner", &["w"]);
        });
        assert!(rig.told().is_empty());
        rig.set(|it| {
            it.whole("w", &[3]);
        });
        assert_eq!(rig.last(), "[top] inner=<w> top=<x w y> w=3 x=1 y=2");
        assert_eq!(rig.watched(), "lds:l cds:inner cds:top cds:w cds:x cds:y eds:w eds:x eds:y");
        // The cluster is no aggregate any more.
        rig.set(|it| {
            it.eds("top", "x");
        });
        assert_eq!(rig.last(), "[top] top=1");
        assert_eq!(rig.watched(), "lds:l cds:top eds:x");
    }
    println!("covers: B30a B30b B44");
}

#[test]
fn aggregate_loop_ends_at_the_repeated_cluster() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["a", "b", "self"]).aggregate("a", &["b", "x"]).aggregate("b", &["y", "a"]);
            it.aggregate("self", &["self"]).whole("x", &[1]).whole("y", &[2]);
        });
        let none = "(no leaf cluster of the aggregate is available)";
        assert_eq!(rig.last(), format!("[a b self] a=<y x> b=<y x> self={none} x=1 y=2"));
        // A cluster that only refers to itself is released.
        rig.set(|it| {
            it.inline(&["x"]);
        });
        assert_eq!(rig.watched(), "lds:l cds:x eds:x");
        assert_eq!(rig.last(), "[x] x=1");
    }
    println!("covers: B30a");
}

#[test]
fn aggregate_depth_is_limited() {
    let name = |depth: usize| format!("c{depth:02}");
    for extra in [0, 1] {
        let mut rig = Rig::new(VARIANTS[0]);
        let last = MAX_AGGREGATE_DEPTH - 1 + extra;
        rig.set(|it| {
            it.inline(&["c00"]).whole(&name(last), &[1]);
            for depth in 0..last {
                it.aggregate(&name(depth), &[&name(depth + 1)]);
            }
        });
        let told = rig.last();
        match extra {
            0 => assert!(told.contains(&format!(" c00=<{}>", name(last))), "{told}"),
            _ => {
                assert!(
                    told.contains(" c00=(aggregate clusters are nested more than 16 levels deep)"),
                    "{told}"
                );
                assert!(!rig.watched().contains(&name(last)), "{}", rig.watched());
                // From a route to a deeper cluster, it is within the maximum depth.
                rig.set(|it| {
                    it.inline(&["c00", "c05"]);
                });
                let told = rig.last();
                assert!(told.contains(&format!(" c05=<{}>", name(last))), "{told}");
                rig.set(|it| {
                    it.inline(&["c00"]);
                });
                assert!(!rig.watched().contains(&name(last)), "{}", rig.watched());
            }
        }
    }
    println!("covers: B30a");
}

#[test]
fn missing_aggregate_members_are_omitted() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["top"]).aggregate("top", &["a", "b"]).whole("a", &[1]).whole("b", &[2]);
        });
        assert_eq!(rig.last(), "[top] a=1 b=2 top=<a b>");
        rig.set(|it| {
            it.aggregate("top", &["a", "gone"]);
        });
        assert!(rig.told().is_empty(), "it may come");
        rig.advance(Duration::from_secs(15));
        let gone =
            "(cds gone: does not exist: not received within 15 s (node node-1, server server))";
        assert_eq!(rig.last(), format!("[top] a=1 gone={gone} top=<a>"));
        rig.set(|it| {
            it.whole("gone", &[3]);
        });
        assert_eq!(rig.last(), "[top] a=1 gone=3 top=<a gone>");
        rig.set(|it| {
            it.remove(types::CLUSTER, "b").aggregate("top", &["gone", "a"]);
        });
        assert_eq!(rig.last(), "[top] a=1 gone=3 top=<gone a>");
    }
    println!("covers: B30b");
}

/// While a member of the new routes' aggregate is transiently unavailable, the old routes stay in
/// use, at any depth and for either resource type.
#[test]
fn transient_error_of_a_new_member_keeps_the_old_routes() {
    for variant in VARIANTS {
        for (inner, has_cluster) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut rig = Rig::new(variant);
            rig.set(|it| {
                it.listener("r").routes("r", &["a"]).whole("a", &[1]);
            });
            assert_eq!(rig.last(), "[a] a=1");
            rig.set(|it| {
                it.routes("r", &["x"]);
                match inner {
                    true => it.aggregate("x", &["inner"]).aggregate("inner", &["b"]),
                    false => it.aggregate("x", &["b"]),
                };
                if has_cluster {
                    it.cluster("b");
                }
            });
            rig.set_network(false);
            rig.advance(Duration::from_secs(60));
            let told = rig.told().pop().unwrap_or_else(|| "[a] a=1".into());
            assert_eq!(told, "[a] a=1", "b is not known to be missing");
            rig.set(|it| {
                it.whole("b", &[2]);
            });
            rig.set_network(true);
            rig.advance(Duration::from_secs(200));
            let all = if inner { "b=2 inner=<b> x=<b>" } else { "b=2 x=<b>" };
            assert_eq!(rig.last(), format!("[x] {all}"));
        }
    }
    println!("covers: B44");
}

/// While a new member of an aggregate is transiently unavailable, the old members stay in use.
#[test]
fn transient_error_of_a_new_member_keeps_the_old_members() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["x"]).aggregate("x", &["a"]).whole("a", &[1]);
        });
        assert_eq!(rig.last(), "[x] a=1 x=<a>");
        rig.set(|it| {
            it.aggregate("x", &["b"]);
        });
        rig.set_network(false);
        rig.advance(Duration::from_secs(60));
        let told = rig.told().pop().unwrap_or_else(|| "[x] a=1 x=<a>".into());
        assert_eq!(told, "[x] a=1 x=<a>");
        rig.set(|it| {
            it.whole("b", &[2]);
        });
        rig.set_network(true);
        rig.advance(Duration::from_secs(200));
        assert_eq!(rig.last(), "[x] b=2 x=<b>");

        // Without a previous version, the error is reported.
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["x"]).aggregate("x", &["a"]);
        });
        rig.set_network(false);
        rig.advance(Duration::from_secs(60));
        let told = rig.last();
        assert!(told.contains(" x=(no leaf cluster of the aggregate is available)"), "{told}");
    }
    println!("covers: B44");
}

const NO_LEAVES: &str = "(no leaf cluster of the aggregate is available)";

/// One update reverses the membership of aggregates. Half of the update, because the rest is not
/// reported yet or waits for endpoints, looks like a loop.
#[test]
fn swapped_aggregates_are_not_seen_as_a_loop() {
    let names = [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]];
    for (variant, [x, y, z]) in VARIANTS.into_iter().flat_map(|it| names.map(|names| (it, names))) {
        for asks in [Asks::AtRest, Asks::AfterEveryNotice] {
            let mut rig = Rig::new(variant);
            rig.asks = asks;
            rig.set(|it| {
                it.inline(&["a", "b", "c"]).whole(x, &[1]).aggregate(y, &[x]).aggregate(z, &[y]);
            });
            assert!(rig.last().contains(&format!(" {z}=<{x}>")));
            rig.set(|it| {
                it.aggregate(x, &[y]).aggregate(y, &[z]).eds(z, "new");
            });
            let told = rig.told();
            assert!(told.iter().all(|it| !it.contains(NO_LEAVES)), "{told:?}");
            rig.set(|it| {
                it.endpoints("new", &[2]);
            });
            let told = rig.told();
            assert!(told.iter().all(|it| !it.contains(NO_LEAVES)), "{told:?}");
            let last = told.last().expect("a configuration");
            for expected in [format!(" {x}=<{z}>"), format!(" {y}=<{z}>"), format!(" {z}=2")] {
                assert!(last.contains(&expected), "{last}");
            }
            assert_eq!(rig.watched(), "lds:l cds:a cds:b cds:c eds:new");
        }
    }
    println!("covers: B30a B44");
}

/// A loop of aggregates without leaves is reported as soon as it is certain, whatever was in use
/// before.
#[test]
fn aggregate_loop_without_leaves_is_an_error() {
    for variant in VARIANTS {
        for (x, y) in [("a", "b"), ("b", "a")] {
            let mut rig = Rig::new(variant);
            rig.set(|it| {
                it.inline(&["a", "b"]).whole(x, &[1]).aggregate(y, &[x]);
            });
            assert!(rig.last().contains(&format!(" {y}=<{x}>")));
            // Only one of them changes, and the other is not sent again.
            rig.set(|it| {
                it.aggregate(x, &[y]);
            });
            assert_eq!(rig.last(), format!("[a b] a={NO_LEAVES} b={NO_LEAVES}"));
            assert_eq!(rig.watched(), "lds:l cds:a cds:b");
            rig.set(|it| {
                it.whole(y, &[3]);
            });
            assert!(rig.last().contains(&format!(" {x}=<{y}>")));
            // Both change in one update.
            rig.set(|it| {
                it.whole("c", &[4]).aggregate(x, &["c"]).aggregate(y, &["c"]);
            });
            assert_eq!(rig.last(), "[a b] a=<c> b=<c> c=4");
            rig.set(|it| {
                it.aggregate(x, &[y]).aggregate(y, &[x]);
            });
            assert_eq!(rig.last(), format!("[a b] a={NO_LEAVES} b={NO_LEAVES}"));
        }
    }
    println!("covers: B30a B44");
}
