//! How much work a change is: for a client of named resources whose types wait for each other, as much as
//! changed, however much that is.

use std::time::{Duration, Instant};

use crate::support::Rig;
use xds_core::server::{AckGated, OrderingPolicy, ServerConfig};

fn gated() -> Rig {
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(AckGated::default());
    Rig::new(config)
}

/// How long it takes to apply changes of so many names that a client subscribes to, beside a cluster that it
/// has to accept first, and to take that.
fn time(variant: &str, short: &str, names: usize) -> Duration {
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
    let mut fastest = Duration::MAX;
    for round in 2..6 {
        let change = format!("set cds c={round}; {short}{}", list(&format!("={round}")));
        let started = Instant::now();
        rig.run(&change);
        let mut taken = started.elapsed();
        rig.receive(1).expect("clusters");
        let started = Instant::now();
        rig.run(&ack("cds"));
        taken += started.elapsed();
        fastest = fastest.min(taken);
        while rig.receive(1).is_some() {
            rig.run(&ack(short));
        }
    }
    fastest
}

/// M214: sixteen times as many changes are some sixteen times as much work; were each looked at for each, it
/// would be 256 times.
#[test]
fn a_change_of_many_names_behind_a_cluster_costs_what_changed() {
    for variant in ["", "d"] {
        for short in ["eds", "rds"] {
            let [few, many] = [500, 8_000].map(|names| time(variant, short, names));
            let ratio = many.as_secs_f64() / few.as_secs_f64();
            assert!(ratio < 100.0, "{variant} {short}: {few:?}, {many:?}");
        }
    }
    println!("covers: M214 M146");
}
