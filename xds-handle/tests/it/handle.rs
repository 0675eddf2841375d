//! Application's side and driver's side of a client, with a core between them and without a
//! runtime. Tests poll and drive by hand.

use core::task::Poll;
use std::thread;

use crate::rig::{self, Bell, CLUSTER, ENDPOINTS, Rig, poll_once};
use prost::{Message as _, bytes::Bytes};
use xds_core::{
    client::{Change, FlowControl, InvalidWatch, Node, Notice, WatchErrorKind},
    proto,
};
use xds_handle::{AddStaticResourceError, ApplyOutcome, ClientEnded};

#[test]
fn watch_receives_the_value_and_then_ambient_errors() {
    let mut rig = Rig::opened();
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    let bell = Bell::default();
    assert!(bell.poll(&mut watch).is_pending());
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    assert_eq!(bell.rings(), 1, "the notice wakes the watcher once");
    let Poll::Ready(Some(Ok(Notice::Changed(Ok(resource))))) = bell.poll(&mut watch) else {
        panic!("no value");
    };
    assert_eq!((resource.name.as_str(), resource.version.as_str()), ("a", "1"));
    assert!(bell.poll(&mut watch).is_pending());

    // The next response deletes the resource. gRPC's profile keeps it and reports an ambient error.
    rig.drive();
    rig.respond(CLUSTER, "2", &[]);
    let Poll::Ready(Some(Ok(Notice::Ambient(Some(error))))) = bell.poll(&mut watch) else {
        panic!("no ambient error");
    };
    assert_eq!(error.kind(), &WatchErrorKind::Deleted);
}

#[test]
fn only_the_newest_value_is_queued_and_replaces_ambient_errors() {
    let mut rig = Rig::opened_with(FlowControl::Off);
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    rig.respond(CLUSTER, "2", &[]);
    rig.respond(CLUSTER, "3", &[("a", "three")]);
    let bell = Bell::default();
    let Poll::Ready(Some(Ok(Notice::Changed(Ok(resource))))) = bell.poll(&mut watch) else {
        panic!("no value");
    };
    assert_eq!(resource.version.as_str(), "3");
    assert!(bell.poll(&mut watch).is_pending(), "the deletion in between is history");

    rig.respond(CLUSTER, "4", &[("a", "four")]);
    rig.respond(CLUSTER, "5", &[]);
    assert!(matches!(bell.poll(&mut watch), Poll::Ready(Some(Ok(Notice::Changed(Ok(_)))))));
    assert!(matches!(bell.poll(&mut watch), Poll::Ready(Some(Ok(Notice::Ambient(Some(_)))))));
    assert!(bell.poll(&mut watch).is_pending());
}

#[test]
fn invalid_watch_yields_one_error_and_ends() {
    let mut rig = Rig::opened();
    let mut unknown = rig.handle.watch_untyped("t/unknown", "a");
    let mut unnamed = rig.handle.watch_untyped(CLUSTER, "");
    let mut all = rig.handle.watch_all_untyped("t/unknown");
    rig.drive();
    let bell = Bell::default();
    let Poll::Ready(Some(Err(InvalidWatch::UnknownType(type_url)))) = bell.poll(&mut unknown)
    else {
        panic!("not refused");
    };
    assert_eq!(type_url.as_str(), "t/unknown");
    assert_eq!(bell.poll(&mut unknown), Poll::Ready(None));
    assert!(matches!(
        bell.poll(&mut unnamed),
        Poll::Ready(Some(Err(InvalidWatch::InvalidName(_))))
    ));
    assert!(matches!(bell.poll(&mut all), Poll::Ready(Some(Err(InvalidWatch::UnknownType(_))))));
    assert_eq!(bell.poll(&mut all), Poll::Ready(None));
}

#[test]
fn reading_waits_until_the_next_item_is_polled() {
    let mut rig = Rig::opened();
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    assert!(!rig.wants_read(), "not taken yet");
    let bell = Bell::default();
    assert!(bell.poll(&mut watch).is_ready());
    rig.drive();
    assert!(!rig.wants_read(), "still in hand");
    assert!(bell.poll(&mut watch).is_pending());
    rig.drive();
    assert!(rig.wants_read());
}

#[test]
fn watch_can_be_polled_on_any_thread() {
    let mut rig = Rig::opened();
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let elsewhere = thread::spawn(move || {
        assert!(Bell::default().poll(&mut watch).is_ready());
        watch
    });
    let mut watch = elsewhere.join().expect("there is a value");
    rig.drive();
    assert!(!rig.wants_read(), "still in hand");
    let elsewhere = thread::spawn(move || {
        assert!(Bell::default().poll(&mut watch).is_pending());
        watch
    });
    let _watch = elsewhere.join().expect("there is nothing more");
    rig.drive();
    assert!(rig.wants_read());
    println!("covers: MW-08");
}

#[test]
fn reading_resumes_when_the_item_is_handled_or_the_watch_dropped() {
    let mut rig = Rig::opened();
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    let other = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let bell = Bell::default();
    assert!(bell.poll(&mut watch).is_ready());
    watch.handled();
    watch.handled();
    rig.drive();
    assert!(!rig.wants_read(), "the other watch has not even looked");
    drop(other);
    rig.drive();
    assert!(rig.wants_read());
}

#[test]
fn notice_that_crosses_a_handled_call_stays_unhandled() {
    let mut rig = Rig::opened();
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let bell = Bell::default();
    assert!(bell.poll(&mut watch).is_ready());
    assert!(bell.poll(&mut watch).is_pending());
    // The "handled" command is queued. Before the driver applies it, a second response arrives.
    rig.respond_unread(CLUSTER, "2", &[("a", "two")]);
    rig.drive();
    assert!(!rig.wants_read(), "the second notice has not been handled");
    assert!(bell.poll(&mut watch).is_ready());
    rig.drive();
    assert!(!rig.wants_read());
    assert!(bell.poll(&mut watch).is_pending());
    rig.drive();
    assert!(rig.wants_read());
}

#[test]
fn collection_is_delivered_in_batches_before_reading_resumes() {
    let mut rig = Rig::opened();
    let mut all = rig.handle.watch_all_untyped(CLUSTER);
    rig.drive();
    let names: Vec<String> = (0..1_000).map(|n| format!("c{n:04}")).collect();
    let resources: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    rig.respond(CLUSTER, "1", &resources);

    let bell = Bell::default();
    let (mut seen, mut largest_batch, mut batch) = (Vec::new(), 0, 0);
    loop {
        match bell.poll(&mut all) {
            Poll::Ready(Some(Ok(Change::Resource { name, result: Ok(_) }))) => {
                seen.push(name.as_str().to_owned());
                batch += 1;
            }
            Poll::Ready(Some(Ok(Change::Collection(Ok(()))))) => batch += 1,
            Poll::Ready(other) => panic!("unexpected {other:?}"),
            Poll::Pending if batch == 0 && seen.len() == 1_000 => break,
            Poll::Pending => {
                // Polling repeatedly queues only one `Pull` command.
                assert!(bell.poll(&mut all).is_pending());
                largest_batch = largest_batch.max(core::mem::take(&mut batch));
                assert!(!rig.wants_read());
                rig.drive();
            }
        }
    }
    assert_eq!(seen, names);
    assert!(largest_batch <= 256, "{largest_batch} changes at once");
    rig.drive();
    assert!(rig.wants_read());

    rig.respond(CLUSTER, "2", &[("c0001", "y")]);
    assert!(matches!(
        bell.poll(&mut all),
        Poll::Ready(Some(Ok(Change::Ambient { .. } | Change::Resource { .. })))
    ));
}

#[test]
fn watch_dropped_before_the_driver_ran_leaves_no_state() {
    let mut rig = Rig::opened();
    drop(rig.handle.watch_untyped(CLUSTER, "a"));
    rig.drive();
    assert_eq!(rig.requests.len(), 0);
    assert_eq!(rig.client.watch_count(), 0);
}

#[test]
fn hundred_thousand_watches_become_one_request() {
    let mut rig = Rig::opened();
    let watches: Vec<_> = (0..100_000)
        .map(|n| rig.handle.watch_untyped(ENDPOINTS, format!("e{n}").as_str()))
        .collect();
    let mut turns = 0;
    while rig.turn() == ApplyOutcome::More {
        turns += 1;
    }
    assert!(turns >= 100, "{turns} turns");
    rig.transmit();
    assert_eq!(rig.requests.len(), 1);
    assert_eq!(rig.requests[0].resource_names.len(), 100_000);
    assert_eq!(rig.client.watch_count(), 100_000);
    drop(watches);
}

#[test]
fn shutdown_ends_every_stream_and_pending_call() {
    let mut rig = Rig::opened();
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    let mut all = rig.handle.watch_all_untyped(ENDPOINTS);
    rig.drive();
    let handle = rig.handle.clone();
    let mut ended = Box::pin(handle.ended());
    let mut stats = Box::pin(handle.stats());
    assert!(poll_once(&mut ended).is_pending());
    handle.shut_down();
    let mut late = handle.watch_untyped(CLUSTER, "b");
    let mut status = Box::pin(handle.status());
    assert!(poll_once(&mut stats).is_pending());
    assert!(poll_once(&mut status).is_pending());

    assert_eq!(rig.turn(), ApplyOutcome::Ended);
    assert!(rig.closes_channel(), "the stream to the server is closed");
    drop(rig);
    let bell = Bell::default();
    assert_eq!(bell.poll(&mut watch), Poll::Ready(None));
    assert_eq!(bell.poll(&mut all), Poll::Ready(None));
    assert_eq!(bell.poll(&mut late), Poll::Ready(Some(Err(InvalidWatch::ShutDown))));
    assert_eq!(bell.poll(&mut late), Poll::Ready(None));
    assert!(poll_once(&mut ended).is_ready());
    assert_eq!(poll_once(&mut status), Poll::Ready(Err(ClientEnded)));
    let mut even_later = handle.watch_untyped(CLUSTER, "c");
    assert_eq!(bell.poll(&mut even_later), Poll::Ready(Some(Err(InvalidWatch::ShutDown))));
    assert_eq!(poll_once(&mut Box::pin(handle.stats())), Poll::Ready(Err(ClientEnded)));
}

#[test]
fn dropped_driver_wakes_and_ends_its_watches() {
    let mut rig = Rig::opened();
    let mut watch = rig.handle.watch_untyped(CLUSTER, "a");
    let mut unseen = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    let (bell, other) = (Bell::default(), Bell::default());
    assert!(bell.poll(&mut watch).is_pending());
    assert!(other.poll(&mut unseen).is_pending());
    drop(rig);
    assert_eq!((bell.rings(), other.rings()), (1, 1));
    assert_eq!(bell.poll(&mut watch), Poll::Ready(None));
}

#[test]
fn client_ends_with_its_last_handle_and_watch() {
    let mut rig = Rig::opened();
    let watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drop_handle();
    assert_eq!(rig.turn(), ApplyOutcome::Drained, "a watch is left");
    drop(watch);
    assert_eq!(rig.turn(), ApplyOutcome::Ended);
    assert_eq!(rig.turn(), ApplyOutcome::Ended);
}

#[test]
fn status_and_stats_report_what_watchers_hold() {
    let mut rig = Rig::opened();
    let _watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.respond(CLUSTER, "1", &[("a", "one")]);
    let handle = rig.handle.clone();
    let (mut status, mut stats) = (Box::pin(handle.status()), Box::pin(handle.stats()));
    assert!(poll_once(&mut status).is_pending());
    assert!(poll_once(&mut stats).is_pending());
    rig.drive();
    let Poll::Ready(Ok(rows)) = poll_once(&mut status) else { panic!("no status") };
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].name.as_str(), rows[0].version.as_str()), ("a", "1"));
    assert!(rows[0].bytes.is_some() && rows[0].error.is_none());
    let Poll::Ready(Ok(stats)) = poll_once(&mut stats) else { panic!("no stats") };
    assert_eq!((stats.responses, stats.acks), (1, 1));
}

#[test]
fn changed_node_is_sent_to_the_server() {
    let mut rig = Rig::opened();
    let _watch = rig.handle.watch_untyped(CLUSTER, "a");
    rig.drive();
    rig.requests.clear();
    rig.handle.set_node(Node::new("other"));
    rig.drive();
    let nodes: Vec<_> = rig.requests.iter().map(|it| it.node.as_ref().map(|it| &*it.id)).collect();
    assert_eq!(nodes, [Some("other")]);
    println!("covers: B12");
}

fn encoded(name: &str, content: &str) -> Bytes {
    let content = proto::Status { message: content.into(), ..Default::default() };
    [rig::name_field(name), content.encode_to_vec()].concat().into()
}

// S4.016, S4.018, S4.019: a later watch receives a static resource, and no request names it.
#[test]
fn static_resource_reaches_later_watchers() {
    println!("covers: S4.016 S4.018 S4.019");
    let mut rig = Rig::opened();
    // The caller does not wait for the first resource's name.
    drop(rig.handle.add_static_resource(CLUSTER, encoded("first", "own")));
    let mut second = Box::pin(rig.handle.add_static_resource(CLUSTER, encoded("second", "own")));
    let mut again = Box::pin(rig.handle.add_static_resource(CLUSTER, encoded("second", "other")));
    let mut watch = rig.handle.watch_untyped(CLUSTER, "second");
    rig.drive();
    let Poll::Ready(Ok(name)) = poll_once(&mut second) else { panic!("not added") };
    assert_eq!(name.as_str(), "second");
    let Poll::Ready(Err(AddStaticResourceError::Invalid(why))) = poll_once(&mut again) else {
        panic!("it was there")
    };
    assert_eq!(why.to_string(), "\"second\" is already defined or watched");
    let Poll::Ready(Some(Ok(Notice::Changed(Ok(resource))))) = Bell::default().poll(&mut watch)
    else {
        panic!("no value")
    };
    assert_eq!(resource.bytes, encoded("second", "own"));
    assert!(rig.requests.iter().all(|it| it.resource_names.is_empty()), "{:?}", rig.requests);

    rig.handle.shut_down();
    rig.drive();
    let mut late = Box::pin(rig.handle.add_static_resource(CLUSTER, encoded("late", "own")));
    rig.drive();
    assert!(matches!(poll_once(&mut late), Poll::Ready(Err(_))));
}
