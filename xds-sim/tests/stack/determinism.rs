//! Equal seeds give equal events in every process.

use core::time::Duration;
use tokio::time::sleep;
use xds_core::{service::Variant, types::CLUSTER};
use xds_sim::stack::{Conditions, Stage};

use crate::{
    pair::{Served, client, value},
    two_processes,
};

/// Returns the hashes of several runs.
fn hashes() -> Vec<u64> {
    let run = |seed| {
        let report = Stage::run(seed, async |stage| {
            let served = Served::start(stage, "server");
            let near = stage.host("client");
            let mut conditions = Conditions::default();
            conditions.latency = Duration::from_millis(u64::from(stage.below("latency", 50)));
            conditions.chunk = 1 + stage.below("chunk", 100) as usize;
            stage.set_conditions(&near, &served.host, conditions);
            stage.set_conditions(&served.host, &near, conditions);
            let clients = [Variant::StateOfTheWorld, Variant::Incremental]
                .map(|variant| client(&near, &["server"], variant));
            let mut watches = clients.map(|client| client.watch_untyped(CLUSTER, "web"));
            for number in 0..5 {
                sleep(Duration::from_secs(40)).await;
                served.set("web", &format!("v{number}")).await;
                stage.reset(&near, &served.host);
            }
            for watch in &mut watches {
                value(watch, "web", "v4").await;
            }
        });
        assert_eq!(report.trace.violation, None);
        report.trace.header.hash
    };
    (0..8).map(run).collect()
}

#[test]
fn runs_of_a_seed_are_equal_in_two_processes() {
    two_processes("determinism::runs_of_a_seed_are_equal_in_two_processes", hashes);
}
