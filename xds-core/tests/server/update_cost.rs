//! Cost of a change with make before break and many named resources. See `benches/gated.rs` for
//! ratios.

use crate::support::Rig;
use xds_core::server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig};

fn gated() -> Rig {
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
    Rig::new(config)
}

/// Changes `names` subscribed resources and a cluster that must be accepted first. Returns the
/// number of responses.
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

// M214: quadratic work would be about 10^10 steps, and the test would not finish.
#[test]
fn large_gated_change_costs_linear_time() {
    for variant in ["", "d"] {
        for short in ["eds", "rds"] {
            // A long response may be split.
            let responses = change(variant, short, 50_000);
            assert!((1..=2).contains(&responses), "{variant} {short}: {responses}");
        }
    }
    println!("covers: M214 M146");
}
