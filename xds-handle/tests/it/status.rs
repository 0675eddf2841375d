//! Status of a client, as seen through its handle.

use core::task::Poll;
use std::time::{Duration, SystemTime};

use crate::rig::{CLUSTER, ENDPOINTS, Rig, poll_once};
use xds_core::client::{Contents, Instrument, MetricsExporter, ResourceState};
use xds_handle::{ApplyOutcome, ClientEnded};

/// Drives the client until a pending call returns, and returns the result.
fn ask<T>(rig: &mut Rig, question: impl Future<Output = T>) -> T {
    let mut question = Box::pin(question);
    assert!(poll_once(&mut question).is_pending());
    rig.drive();
    let Poll::Ready(answer) = poll_once(&mut question) else { panic!("no answer") };
    answer
}

fn is_recent(time: SystemTime) -> bool {
    time.elapsed().is_ok_and(|elapsed| elapsed < Duration::from_secs(60))
}

#[test]
fn status_has_the_current_resource_and_the_failed_update() {
    println!("covers: S3.058 IC32");
    let mut rig = Rig::opened();
    let _watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    rig.respond(CLUSTER, "2", &[]);

    let handle = rig.handle.clone();
    let rows = ask(&mut rig, handle.status()).expect("the client runs");
    let [row] = &rows[..] else { panic!("one is watched") };
    assert_eq!((row.name.as_str(), row.version.as_str()), ("a", "1"));
    assert_eq!(row.state, ResourceState::DoesNotExist);
    assert!(row.updated.is_some_and(is_recent), "{row:?}");
    let failed = row.failed.as_ref().expect("the server deleted it");
    assert_eq!((failed.version.as_str(), &failed.bytes), ("2", &None));
    assert!(is_recent(failed.received), "{failed:?}");
}

#[test]
fn csds_timestamps_are_wall_clock_times() {
    println!("covers: CM-01 B31");
    let mut rig = Rig::opened();
    let _watches =
        (rig.handle.watch_untyped(CLUSTER, "a"), rig.handle.watch_untyped(ENDPOINTS, "e"));
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);

    let handle = rig.handle.clone();
    let told = ask(&mut rig, handle.csds("xds:///a", Contents::All)).expect("the client runs");
    assert_eq!(told.client_scope, "xds:///a");
    assert_eq!(told.node.map(|node| node.id).as_deref(), Some("n"));
    let [cluster, endpoints] = &told.generic_xds_configs[..] else { panic!("two are watched") };
    let updated = cluster.last_updated.expect("it was received");
    let since_1970 = Duration::from_secs(updated.seconds.unsigned_abs());
    assert!(is_recent(SystemTime::UNIX_EPOCH + since_1970), "{updated:?}");
    assert_eq!((endpoints.name.as_str(), endpoints.last_updated), ("e", None));
}

#[test]
fn metrics_are_exported_with_their_instrument_names() {
    println!("covers: B45");
    struct Names(Vec<&'static str>);
    impl MetricsExporter for Names {
        fn counter(&mut self, instrument: Instrument, _: &[(&'static str, &str)], _: u64) {
            self.0.push(instrument.name());
        }
        fn gauge(&mut self, instrument: Instrument, _: &[(&'static str, &str)], _: u64) {
            self.0.push(instrument.name());
        }
    }

    let mut rig = Rig::opened();
    let _watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let handle = rig.handle.clone();
    let metrics = ask(&mut rig, handle.metrics()).expect("the client runs");
    let mut names = Names(Vec::new());
    metrics.export("xds:///a", &mut names);
    assert_eq!(names.0, Instrument::ALL.map(Instrument::name));
}

#[test]
fn weak_handle_does_not_keep_the_client_alive() {
    let mut rig = Rig::opened();
    let weak = rig.handle.downgrade();
    let watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drop_handle();
    rig.drive();
    assert!(weak.upgrade().is_some(), "a watch keeps the client alive");

    drop(watch);
    assert!(weak.upgrade().is_none());
    assert_eq!(rig.turn(), ApplyOutcome::Ended);
}

#[test]
fn ended_client_fails_csds_and_metrics_calls() {
    let rig = Rig::opened();
    let handle = rig.handle.clone();
    drop(rig);
    let mut question = Box::pin(handle.csds("xds:///a", Contents::All));
    assert_eq!(poll_once(&mut question), Poll::Ready(Err(ClientEnded)));
    let mut question = Box::pin(handle.metrics());
    assert!(matches!(poll_once(&mut question), Poll::Ready(Err(ClientEnded))));
}
