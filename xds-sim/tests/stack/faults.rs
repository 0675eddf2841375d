//! Faults of the network, at the level of bytes.

use core::time::Duration;

use tokio::time::{Instant, sleep};
use xds_core::{service::Variant, types::CLUSTER};
use xds_sim::stack::{Conditions, DialOutcome, Stage};

use crate::{
    pair::{Served, client, value},
    raw::PORT,
};

const VARIANTS: [Variant; 2] = [Variant::StateOfTheWorld, Variant::Incremental];

/// Connections that end or break in every way are replaced, and the watcher gets the next change.
#[test]
fn client_recovers_from_every_way_to_lose_a_connection() {
    type Fault = fn(&Stage, &xds_sim::stack::Host, &xds_sim::stack::Host);
    let faults: [(&str, Fault); 6] = [
        ("reset", |stage, near, far| stage.reset(near, far)),
        ("lost without a sign", |stage, near, far| stage.lose_connections(near, far)),
        ("requests closed", |stage, near, far| stage.close_direction(near, far)),
        ("responses closed", |stage, near, far| stage.close_direction(far, near)),
        ("goaway", |stage, near, far| stage.go_away(far, near)),
        ("partition", |stage, near, far| stage.partition(near, far)),
    ];
    for variant in VARIANTS {
        for (name, fault) in faults {
            let report = Stage::run(3, async |stage| {
                let served = Served::start(stage, "server");
                let near = stage.host("client");
                let client = client(&near, &["server"], variant);
                let mut watch = client.watch_untyped(CLUSTER, "web");
                served.set("web", "before").await;
                value(&mut watch, "web", "before").await;
                fault(stage, &near, &served.host);
                served.set("web", "after").await;
                if name == "partition" {
                    sleep(Duration::from_secs(100)).await;
                    stage.heal(&near, &served.host);
                }
                let began = Instant::now();
                value(&mut watch, "web", "after").await;
                // TCP keepalive takes 60 s; then comes a backoff.
                assert!(began.elapsed() < Duration::from_secs(70), "{name}: {:?}", began.elapsed());
                sleep(Duration::from_secs(90)).await;
                assert!(!stage.kick().await, "{name}");
                assert_eq!(stage.connections(), 1, "{name}");
            });
            assert_eq!(report.trace.violation, None, "{name}");
        }
    }
}

/// A server that accepts connections and stays silent is left for the next address.
#[test]
fn silent_address_is_left_for_the_next_one() {
    for reach in [DialOutcome::Silent, DialOutcome::Dropped, DialOutcome::Refused] {
        let report = Stage::run(5, async |stage| {
            let (first, second) = (Served::start(stage, "first"), Served::start(stage, "second"));
            let addresses = vec![first.host.address(), second.host.address()];
            stage.set_name("server", Ok(addresses), Duration::from_millis(3));
            stage.set_reach((first.host.address(), PORT).into(), reach);
            second.set("web", "v").await;
            let client = client(&stage.host("client"), &["server"], Variant::Incremental);
            let mut watch = client.watch_untyped(CLUSTER, "web");
            let began = Instant::now();
            value(&mut watch, "web", "v").await;
            assert!(began.elapsed() < Duration::from_secs(1), "{reach:?}: {:?}", began.elapsed());
        });
        assert_eq!(report.trace.violation, None);
    }
}

/// Every chunk size, down to a window of one byte, only costs time.
#[test]
fn narrow_windows_and_short_reads_only_cost_time() {
    for (window, chunk) in [(1, 1), (1, 100), (7, 3), (1 << 16, 1)] {
        let report = Stage::run(9, async |stage| {
            let served = Served::start(stage, "server");
            let near = stage.host("client");
            let mut conditions = Conditions::default();
            (conditions.window, conditions.chunk) = (window, chunk);
            conditions.first_byte_delay = Duration::from_secs(2);
            stage.set_conditions(&near, &served.host, conditions);
            stage.set_conditions(&served.host, &near, conditions);
            let client = client(&near, &["server"], Variant::StateOfTheWorld);
            let mut watch = client.watch_untyped(CLUSTER, "web");
            served.set("web", "v").await;
            let soon = tokio::time::timeout(Duration::from_secs(60), value(&mut watch, "web", "v"));
            if soon.await.is_err() {
                stage.violate("liveness", "The watcher gets the value.", "no value in 60 s");
            }
        });
        assert!(report.trace.violation.is_none(), "{}", report.trace.to_text(60));
    }
}
