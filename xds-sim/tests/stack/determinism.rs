//! Equal seeds give equal events in every process.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use tokio::{sync::watch, time::sleep};
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

/// A `watch` of tokio wakes its receivers in an order that no seed determines.
#[test]
fn tasks_that_are_woken_together_run_in_the_same_order_in_every_run() {
    let order = || {
        let ran = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&ran);
        Stage::run(1, async move |stage| {
            let host = stage.host("host");
            let (sender, receiver) = watch::channel(0);
            for task in 0..20 {
                let (mut receiver, ran) = (receiver.clone(), Arc::clone(&own));
                host.start(async move {
                    receiver.changed().await.expect("the sender exists");
                    ran.lock().unwrap().push(task);
                });
            }
            stage.settle().await;
            sender.send_replace(1);
            stage.settle().await;
        });
        Arc::into_inner(ran).expect("the run has ended").into_inner().unwrap()
    };
    let first = order();
    assert_eq!(first.len(), 20);
    for _ in 0..20 {
        assert_eq!(order(), first);
    }
}
