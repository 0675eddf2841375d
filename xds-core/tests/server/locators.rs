//! Resource locators with or without dynamic parameters, each treated as its name.
// TP2

use crate::support::{Response, Rig};
use xds_core::server::Observation;

/// Streams and types whose dynamic parameters were observed as ignored.
fn ignored(rig: &mut Rig) -> Vec<String> {
    let of = |observation: Observation| match observation {
        Observation::ParametersIgnored { stream, type_url } => {
            Some(format!("{stream} {}", type_url.as_str().rsplit('.').next().unwrap_or_default()))
        }
        _ => None,
    };
    rig.observations().into_iter().filter_map(of).collect()
}

// M36: names and locators form one list; parameters are ignored.
#[test]
fn locators_and_names_form_one_list() {
    let mut rig = Rig::default();
    rig.run(
        "
        set eds a=1 b=1 c=1; rds r=1
        > eds a loc:b
        < eds first a=1 b=1
        ",
    );
    assert_eq!(ignored(&mut rig), [""; 0], "they have no parameters");
    assert_eq!(rig.server.stats().ignored_parameters, 0);
    rig.run(
        "
        > eds a loc:b;env=test loc:c;env=test;zone=1
        < eds resubscribed c=1
        > eds a loc:c;env=prod loc:c
        <                           # other parameters, same name
        set eds a=2 b=2 c=2
        < eds changed a=2 c=2
        ",
    );
    assert_eq!(ignored(&mut rig), ["s0 ClusterLoadAssignment"], "said once");
    rig.run("> rds loc:r;env=test\n< rds first r=1\n2> eds loc:a;env=test\n2< eds first a=2");
    assert_eq!(ignored(&mut rig), ["s0 RouteConfiguration", "s1 ClusterLoadAssignment"]);
    assert_eq!(rig.server.stats().ignored_parameters, 4, "requests");
    println!("covers: M36");
}

// M36, M142: locators subscribe and unsubscribe, and removals use the form of the subscription.
#[test]
fn locators_subscribe_and_unsubscribe_names() {
    let mut rig = Rig::default();
    rig.run(
        "
        set eds a=1 b=1
        d> eds loc:a;env=test +b
        d< eds first a=1 b=1
        d> eds ack -loc:b;env=prod
        d<
        set eds a=2 b=2
        d< eds changed a=2
        d> eds ack -loc:a
        set eds a=3
        d<
        d> eds +a loc:none;env=test
        ",
    );
    let received = rig.receive(1).expect("a response");
    let Response::Incremental(response) = &received.response else { panic!("{received:?}") };
    let gone: Vec<_> = response.removed_resource_names.iter().map(|it| &*it.name).collect();
    assert_eq!((&gone[..], &response.removed_resources[..]), (&["none"][..], &[][..]));
    assert_eq!(ignored(&mut rig), ["s0 ClusterLoadAssignment"]);
    assert_eq!(rig.server.stats().ignored_parameters, 3);

    // Unsubscriptions are observed, too. Unsubscribing by locator ends a subscription by name.
    rig.run("2d> eds +a\n2d< eds first a=3\n2d> eds ack -loc:a;env=test\nset eds a=4\n2d<");
    assert_eq!(ignored(&mut rig), ["s1 ClusterLoadAssignment"]);
    println!("covers: M36 M142");
}
