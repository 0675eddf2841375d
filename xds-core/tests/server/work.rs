//! How much work a change is: for a client of named resources whose types wait for each other, as much as
//! changed, however much that is. `benches/gated.rs` has the ratios.

use crate::support::Rig;
use xds_core::server::{AckGated, OrderingPolicy, ServerConfig};

fn gated() -> Rig {
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(AckGated::default());
    Rig::new(config)
}

/// Changes so many names that a client subscribes to, beside a cluster that it has to accept first, and has it take
/// all of that. Returns how many responses it took.
fn change(variant: &str, short: &str, names: usize) -> usize {
    let mut rig = gated();
    let list = |suffix: &str| (0..names).map(|n| format!(" n{n}{suffix}")).collect::<String>();
    rig.run(&format!("set cds c=1; {short}{}", list("=1")));
    let (cds, subscribe) = match variant {
        "d" => ("d> cds +*".to_owned(), (0..names).map(|n| format!(" +n{n}")).collect::<String>()),
        _ => ("> cds".to_owned(), list("")),
    };
    let ack = |ty: &str| match variant {
        "d" => format!("d> {ty} ack"),
        _ if ty == "cds" => "> cds".to_owned(),
        _ => format!("> {ty}{subscribe}"),
    };
    rig.run(&cds);
    rig.receive(1).expect("clusters");
    rig.run(&ack("cds"));
    rig.run(&format!("{variant}> {short}{subscribe}"));
    while rig.receive(1).is_some() {
        rig.run(&ack(short));
    }
    rig.run(&format!("set cds c=2; {short}{}", list("=2")));
    rig.receive(1).expect("clusters");
    rig.run(&ack("cds"));
    let mut responses = 0;
    while rig.receive(1).is_some() {
        responses += 1;
        rig.run(&ack(short));
    }
    responses
}

/// M214: were each of the names looked at for each, these would be some 10^10 looks, and nobody would wait for the
/// end.
#[test]
fn a_change_of_many_names_behind_a_cluster_costs_what_changed() {
    for variant in ["", "d"] {
        for short in ["eds", "rds"] {
            // A long one may come in parts.
            let responses = change(variant, short, 50_000);
            assert!((1..=2).contains(&responses), "{variant} {short}: {responses}");
        }
    }
    println!("covers: M214 M146");
}
