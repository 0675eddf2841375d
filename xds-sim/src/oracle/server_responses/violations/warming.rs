//! Tests with servers that do not send endpoints again to a client that warms a cluster.

use super::*;

/// Sends a changed cluster to a client that has its endpoints.
fn is_sent_a_changed_cluster(scene: &mut Scene<'_>) {
    for kind in [0, 1] {
        scene.world.set(kind, "r0", "good");
        scene.asks(kind, &["r0"]);
        scene.says(response(kind, &GOOD));
        scene.answers(kind, &["r0"], None);
    }
    scene.world.set(0, "r0", "better");
    scene.says(Response { version: "w".into(), ..response(0, &[("r0", "better")]) });
    scene.is_well();
}

/// Kind of the client's next request for endpoints.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    Never,
    Again,
    WithError,
}

#[test]
fn who_does_not_send_endpoints_again_is_found_out() {
    let drained = |asks: Asks, is_sent: bool| {
        broken(Options::default(), move |scene| {
            is_sent_a_changed_cluster(scene);
            let names = Names::Whole(vec!["r0".into()]);
            match asks {
                Asks::Never => {}
                // Its last ACK was for the endpoints.
                Asks::Again => scene.hears(1, "2", None, names),
                Asks::WithError => scene.hears(1, "2", Some(3), names),
            }
            if is_sent {
                scene.says(response(1, &GOOD));
                scene.answers(1, &["r0"], None);
            }
            // The real server has not seen these messages, so it is not queried about acceptance.
            scene.oracle.drained(0, scene.world, scene.report);
        })
    };
    assert_eq!(drained(Asks::Again, false), Some(WARM));
    assert_eq!(drained(Asks::Again, true), None);
    assert_eq!(drained(Asks::Never, false), None);
    assert_eq!(drained(Asks::WithError, false), None);
    println!("covers: IS18");
}

#[test]
fn endpoints_that_are_left_out_or_come_twice_for_a_changed_cluster_are_found_out() {
    let says = |items: &'static [&'static [(&str, &str)]]| {
        broken(Options::default(), move |scene| {
            scene.world.set(1, "r1", "good");
            is_sent_a_changed_cluster(scene);
            scene.hears(1, "2", None, Names::Whole(vec!["r0".into(), "r1".into()]));
            for items in items {
                scene.says(response(1, items));
                scene.answers(1, &["r0", "r1"], None);
            }
        })
    };
    const BOTH: &[(&str, &str)] = &[("r0", "good"), ("r1", "good")];
    const OTHER: &[(&str, &str)] = &[("r1", "good")];
    assert_eq!(says(&[BOTH]), None);
    assert_eq!(says(&[OTHER]), Some(WARM), "it has the other one");
    assert_eq!(says(&[BOTH, BOTH]), Some(NEWS), "it is answered once");
    println!("covers: IS18 IS5");
}

/// Renewed endpoints before the request count as a response to it only if all of them are renewed.
#[test]
fn endpoints_that_are_left_out_of_what_is_renewed_are_found_out() {
    let drained = |names: &'static [&'static str]| {
        broken(Options::default(), move |scene| {
            scene.world.set(0, "r0", "good");
            scene.asks(0, &["r0"]);
            scene.says(response(0, &GOOD));
            scene.answers(0, &["r0"], None);
            scene.world.set_for(1, "r0", "good", Duration::from_secs(60));
            scene.world.set(1, "r1", "good");
            scene.asks(1, names);
            scene.says(response(1, &[("r0", "good 1"), ("r1", "good")][..names.len()]));
            scene.answers(1, names, None);
            scene.world.set(0, "r0", "better");
            scene.says(Response { version: "w".into(), ..response(0, &[("r0", "better")]) });
            scene.says(response(1, &[("r0", "good 1")]));
            scene.answers(1, names, None);
            scene.is_well();
            scene.oracle.drained(0, scene.world, scene.report);
        })
    };
    assert_eq!(drained(&["r0"]), None);
    assert_eq!(drained(&["r0", "r1"]), Some(WARM));
    println!("covers: IS18");
}
