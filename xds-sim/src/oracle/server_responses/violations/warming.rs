//! Tests with servers that do not send endpoints again to a client that warms a cluster.

use super::*;

/// Sends a changed cluster to a client that has its endpoints.
fn is_sent_a_changed_cluster(case: &mut StreamCase<'_>) {
    for kind in [0, 1] {
        case.world.set(kind, "r0", "good");
        case.asks(kind, &["r0"]);
        case.says(response(kind, &GOOD));
        case.answers(kind, &["r0"], None);
    }
    case.world.set(0, "r0", "better");
    case.says(Response { version: "w".into(), ..response(0, &[("r0", "better")]) });
    case.is_well();
}

/// Kind of the client's next request for endpoints.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    Never,
    Again,
    WithError,
}

#[test]
fn missing_resend_of_endpoints_after_a_cluster_change_is_detected() {
    let drained = |asks: Asks, is_sent: bool| {
        broken(Options::default(), move |case| {
            is_sent_a_changed_cluster(case);
            let names = Names::Whole(vec!["r0".into()]);
            match asks {
                Asks::Never => {}
                // Its last ACK was for the endpoints.
                Asks::Again => case.hears(1, "2", None, names),
                Asks::WithError => case.hears(1, "2", Some(3), names),
            }
            if is_sent {
                case.says(response(1, &GOOD));
                case.answers(1, &["r0"], None);
            }
            // The real server has not seen these messages, so it is not queried about acceptance.
            case.oracle.drained(0, case.world, case.report);
        })
    };
    assert_eq!(drained(Asks::Again, false), Some(WARM));
    assert_eq!(drained(Asks::Again, true), None);
    assert_eq!(drained(Asks::Never, false), None);
    assert_eq!(drained(Asks::WithError, false), None);
    println!("covers: IS18");
}

#[test]
fn missing_or_repeated_endpoints_after_a_cluster_change_are_detected() {
    let says = |items: &'static [&'static [(&str, &str)]]| {
        broken(Options::default(), move |case| {
            case.world.set(1, "r1", "good");
            is_sent_a_changed_cluster(case);
            case.hears(1, "2", None, Names::Whole(vec!["r0".into(), "r1".into()]));
            for items in items {
                case.says(response(1, items));
                case.answers(1, &["r0", "r1"], None);
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

#[test]
fn endpoints_without_their_cluster_are_detected_in_the_incremental_variant() {
    let says = |clusters: &'static [(&str, &str)]| {
        broken(incremental(), move |case| {
            for kind in [0, 1] {
                case.world.set(kind, "r0", "good");
                case.world.set(kind, "r1", "good");
                case.asks(kind, &["r0", "r1"]);
                case.says(response(kind, &[("r0", "good"), ("r1", "good")]));
                case.answers(kind, &[], None);
            }
            case.world.set(0, clusters[0].0, clusters[0].1);
            let mut changed = response(0, clusters);
            changed.resources[0].version = "w".into();
            case.says(changed);
            case.answers(0, &[], None);
            case.says(response(1, &GOOD));
        })
    };
    assert_eq!(says(&[("r0", "better")]), None);
    assert_eq!(says(&[("r1", "better")]), Some(NEWS), "its endpoints have another name");
    println!("covers: IS18 IS5");
}

/// Renewed endpoints before the request count as a response to it only if all of them are renewed.
#[test]
fn partial_renewal_does_not_answer_an_endpoint_request() {
    let drained = |names: &'static [&'static str]| {
        broken(Options::default(), move |case| {
            case.world.set(0, "r0", "good");
            case.asks(0, &["r0"]);
            case.says(response(0, &GOOD));
            case.answers(0, &["r0"], None);
            case.world.set_for(1, "r0", "good", Duration::from_secs(60));
            case.world.set(1, "r1", "good");
            case.asks(1, names);
            case.says(response(1, &[("r0", "good 1"), ("r1", "good")][..names.len()]));
            case.answers(1, names, None);
            case.world.set(0, "r0", "better");
            case.says(Response { version: "w".into(), ..response(0, &[("r0", "better")]) });
            case.says(response(1, &[("r0", "good 1")]));
            case.answers(1, names, None);
            case.is_well();
            case.oracle.drained(0, case.world, case.report);
        })
    };
    assert_eq!(drained(&["r0"]), None);
    assert_eq!(drained(&["r0", "r1"]), Some(WARM));
    println!("covers: IS18");
}
