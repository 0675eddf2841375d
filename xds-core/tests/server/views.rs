//! Views: assignment by the application, view changes, and dropped views.

use crate::support::{Rig, every_type, payload, request_of, transaction_in, url};
use bytes::Bytes;
use xds_core::{
    ViewName,
    server::{
        Admission, CloseReason, DropView, ServerConfig, ServerEvent, ServerLimits, ServerOutput,
        StatusCode, Transaction, TransactionError, VersionMode,
    },
};

fn asked() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    config
}

fn view(name: &str) -> ViewName {
    ViewName::from(name)
}

impl Rig {
    fn set_in(&mut self, name: &str, changes: &str) {
        let transaction = transaction_in(name, changes);
        self.server.apply(transaction, self.now).expect("a good transaction");
        self.drain();
    }

    fn assign(&mut self, stream: u32, name: &str) {
        let id = self.stream(stream);
        self.server.assign(id, &view(name), self.now);
        self.drain();
    }

    fn asks(&mut self) -> Vec<String> {
        let outputs = self.effects().into_iter();
        let asks = outputs.filter_map(|output| match output {
            ServerOutput::Event(ServerEvent::Authorize { node_id, .. }) => {
                Some(node_id.to_string())
            }
            _ => None,
        });
        asks.collect()
    }
}

// M9, S0.105: requests wait in order until the view is assigned.
#[test]
fn requests_wait_for_view_assignment() {
    let mut rig = Rig::new(asked());
    rig.set_in("one", "cds a=1; eds x=1");
    rig.set_in("two", "cds a=2");
    rig.run("> cds\n> eds x\n<");
    assert_eq!(rig.asks(), ["node-1"], "asked once, when the client has said who it is");
    let id = rig.stream(1);
    assert!(!rig.server.wants_read(id), "nothing more is read meanwhile");
    rig.assign(1, "one");
    assert!(rig.server.wants_read(id));
    rig.run("< cds first a=1\n< eds first x=1");
    rig.run("2d> cds");
    rig.assign(2, "two");
    rig.run("2d< cds first a=2\n> cds\n2d> cds ack");
    rig.set_in("one", "cds a=3");
    rig.run("< cds changed a=3\n2d<");
    let views: Vec<_> = rig.server.status().map(|it| it.view.to_string()).collect();
    assert_eq!(views, ["one", "one", "two"]);
    println!("covers: M9 M214 IS20 S0.105");
}

// M10, M11, M12, M236: the application's status reaches the client, and all state is freed.
#[test]
fn refused_client_gets_application_status() {
    is_told_why("> cds");
    is_told_why("d> cds +*");
    println!("covers: M10 M11 M12 M236 M237");
}

fn is_told_why(asks: &str) {
    let mut rig = Rig::new(asked());
    rig.run(&format!("{asks}\n2{asks}"));
    let (id, other) = (rig.stream(1), rig.stream(2));
    rig.assign(2, "v");
    rig.effects();
    assert!(rig.server.refuse(id, StatusCode::PermissionDenied, "not your cluster", rig.now));
    rig.drain();
    let reason = CloseReason::Refused {
        code: StatusCode::PermissionDenied,
        message: "not your cluster".into(),
    };
    assert_eq!((reason.code().as_i32(), &*reason.to_string()), (7, "not your cluster"));
    assert_eq!(rig.effects(), [ServerOutput::Close(id, reason)]);
    rig.set_in("v", "cds a=1");
    rig.run("2< cds first a=1");
    // Permission is withdrawn later.
    rig.server.refuse(other, StatusCode::Unauthenticated, "expired", rig.now);
    rig.drain();
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions), (0, 0));
    // Late answers are ignored, and the application learns it.
    assert!(!rig.server.assign(id, &view("v"), rig.now));
    assert!(!rig.server.refuse(id, StatusCode::Internal, "", rig.now));
    assert_eq!(rig.server.stats().ignored_events, 2);
}

// M237: a refused stream ends with an error, even if the application states none.
#[test]
fn refusal_with_status_ok_is_sent_as_unknown() {
    let mut rig = Rig::new(asked());
    rig.run("> cds");
    let id = rig.stream(1);
    assert!(rig.server.refuse(id, StatusCode::Ok, "", rig.now));
    rig.drain();
    assert_eq!(rig.take_close(1).map(|reason| reason.code()), Some(StatusCode::Unknown));
    println!("covers: M237");
}

// M242: waiting requests are limited.
#[test]
fn waiting_requests_are_limited() {
    let mut limits = ServerLimits::default();
    limits.held_requests = 2;
    let mut rig = Rig::new(asked().with_limits(limits));
    rig.run("> cds\n> eds x");
    rig.effects();
    rig.run("> rds y");
    let id = rig.stream(1);
    let close = ServerOutput::Close(id, CloseReason::TooManyHeldRequests { limit: 2 });
    assert_eq!(rig.effects(), [close]);
    println!("covers: M242 IS24");
}

// M211, M212, M216, M219, M68: an unchanged snapshot wakes no client.
#[test]
fn snapshot_replaces_view_contents() {
    let mut rig = Rig::default();
    let snapshot = |resources: &[(&str, &str, &str)]| {
        let mut snapshot = Transaction::snapshot("");
        for (ty, name, content) in resources {
            snapshot.set(url(ty), *name, payload(name, content));
        }
        snapshot
    };
    let set = |rig: &mut Rig, resources: &[(&str, &str, &str)]| {
        let applied = rig.server.apply(snapshot(resources), rig.now);
        rig.drain();
        applied
    };
    let applied = set(&mut rig, &[("cds", "a", "1"), ("cds", "b", "1"), ("eds", "x", "1")]);
    assert_eq!(applied.map(|it| (it.changed, it.removed)), Ok((3, 0)));
    rig.run("> cds\n< cds first a=1 b=1\n2d> cds\n2d< cds first a=1 b=1\n2d> cds ack\n> cds");
    rig.effects();
    let applied = set(&mut rig, &[("cds", "b", "1"), ("cds", "a", "1"), ("eds", "x", "1")]);
    assert_eq!(applied.map(|it| (it.sequence, it.changed, it.removed)), Ok((1, 0, 0)));
    assert_eq!(rig.effects(), [], "the same again (M68)");
    let applied = set(&mut rig, &[("cds", "a", "2")]);
    assert_eq!(applied.map(|it| (it.sequence, it.changed, it.removed)), Ok((2, 1, 2)));
    rig.run("< cds changed a=2\n2d< cds changed a=2 -b");
    let twice = snapshot(&[("cds", "a", "3"), ("cds", "a", "4")]);
    let error = rig.server.apply(twice, rig.now).expect_err("a name twice");
    assert!(matches!(&error, TransactionError::DuplicateName { name, .. } if *name == *"a"));
    assert_eq!(rig.server.resource(&url("cds"), "a"), Some(&payload("a", "2")), "nothing applied");
    println!("covers: M68 M211 M216 M219");
}

// M222, M243: equal resources of views are stored once, and freed with the last view.
#[test]
fn equal_resources_of_views_are_stored_once() {
    let mut rig = Rig::default();
    for name in ["one", "two", "three"] {
        rig.set_in(name, "cds a=1 b=1");
    }
    rig.set_in("three", "cds b=2");
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.resources, stats.payloads), (4, 6, 3));
    let bytes = |rig: &Rig, name: &str| -> *const u8 {
        let bytes: Option<&Bytes> = rig.server.resource_in(&view(name), &url("cds"), "a");
        bytes.expect("a resource").as_ptr()
    };
    assert_eq!(bytes(&rig, "one"), bytes(&rig, "two"));
    assert_eq!(
        rig.server.version_in(&view("one"), &url("cds")),
        rig.server.version_in(&view("two"), &url("cds"))
    );
    for name in ["one", "two", "three"] {
        rig.server.drop_view(&view(name), DropView::Freeze, rig.now);
    }
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.resources, stats.payloads, stats.types), (1, 0, 0, 0));
    println!("covers: M222 M243");
}

// M213: a view is dropped while clients see it.
#[test]
fn view_is_dropped_by_policy() {
    let start = || {
        let mut rig = Rig::new(asked());
        rig.set_in("v", "cds a=1");
        rig.run("d> cds");
        rig.assign(1, "v");
        rig.run("d< cds first a=1\nd> cds ack");
        rig.effects();
        rig
    };
    let mut rig = start();
    rig.server.drop_view(&view("v"), DropView::Freeze, rig.now);
    rig.drain();
    rig.run("d<");
    assert_eq!(rig.server.stats().resources, 1, "frozen");
    rig.run("1close");
    assert_eq!((rig.server.stats().views, rig.server.stats().resources), (1, 0));

    let mut rig = start();
    rig.server.drop_view(&view("v"), DropView::Freeze, rig.now);
    rig.set_in("v", "cds b=1");
    rig.run("d< cds changed b=1\nd> cds ack\n1close");
    assert_eq!(rig.server.stats().resources, 2, "a change revives it");

    let mut rig = start();
    rig.server.drop_view(&view("v"), DropView::RemoveAll, rig.now);
    rig.drain();
    rig.run("d< cds changed -a\nd> cds ack");
    rig.set_in("v", "cds a=2");
    rig.run("d< cds changed a=2");

    let mut rig = start();
    rig.server.drop_view(&view("v"), DropView::CloseStreams, rig.now);
    rig.drain();
    let id = rig.stream(1);
    assert_eq!(rig.effects(), [ServerOutput::Close(id, CloseReason::ViewDropped)]);
    assert_eq!(CloseReason::ViewDropped.code(), StatusCode::Unavailable);
    println!("covers: M213");
}

// M223: a view change is sent as a difference on the same stream.
#[test]
fn view_change_sends_difference() {
    let mut rig = Rig::new(asked());
    rig.set_in("old", "cds same=1 other=1 gone=1; eds same=1 other=1 gone=1 none=1");
    rig.set_in("new", "cds same=1 other=2 more=1; eds same=1 other=2 late=1");
    // Wildcard, incremental.
    rig.run("d> cds +*");
    rig.assign(1, "old");
    rig.run("d< cds first gone=1 other=1 same=1\nd> cds ack");
    rig.assign(1, "new");
    rig.run("d< cds changed more=1 other=2 -gone\nd> cds ack\nd<");
    rig.set_in("old", "cds other=9");
    rig.run("d<");
    rig.set_in("new", "cds other=3");
    rig.run("d< cds changed other=3\nd> cds ack");
    // Names, incremental; a known missing name is not reported again.
    rig.run("2d> eds +same +other +gone +late +never");
    rig.assign(2, "old");
    rig.run("2d< eds first same=1 other=1 gone=1 -late -never\n2d> eds ack");
    rig.assign(2, "new");
    rig.run("2d< eds changed other=2 late=1 -gone\n2d> eds ack\n2d<");
    // State of the world.
    rig.run("3> cds\n3> eds same other gone late");
    rig.assign(3, "old");
    rig.run("3< cds first gone=1 other=9 same=1\n3> cds");
    rig.run("3< eds first same=1 other=1 gone=1\n3> eds same other gone late\n3<");
    rig.assign(3, "new");
    rig.run("3< cds changed gone=1 more=1 other=3 same=1\n3> cds");
    rig.run("3< eds changed late=1 other=2 same=1");
    rig.run("3< cds changed more=1 other=3 same=1\n3> cds\n3<");
    // An equal view changes nothing.
    rig.set_in("copy", "cds same=1 other=3 more=1");
    rig.assign(1, "copy");
    rig.run("d<");
    println!("covers: M223");
}

// M223: while a response is in flight, and before the first response.
#[test]
fn view_change_during_response_loses_no_update() {
    let mut rig = Rig::new(asked());
    rig.set_in("old", "cds a=1 gone=1");
    rig.set_in("new", "cds a=2");
    rig.run("d> cds\n2d> cds");
    rig.assign(1, "old");
    rig.assign(2, "old");
    rig.assign(2, "new");
    rig.run("2d< cds first a=2\nd< cds first a=1 gone=1");
    rig.assign(1, "new");
    rig.run("d<\nd> cds ack\nd< cds changed a=2 -gone\nd> cds nack\nd<");
    rig.assign(1, "old");
    rig.run("d< cds changed a=1 gone=1");
    println!("covers: M223 IS16");
}

// M223, IS5, IS17: resources missing in the new view are removed once, after its resources are
// sent.
#[test]
fn complete_response_after_view_change_is_sent_once() {
    for names in ["a gone", ""] {
        let mut rig = Rig::new(asked());
        rig.set_in("old", "cds a=1 gone=1; eds a=1");
        rig.set_in("new", "cds a=2; eds a=2");
        rig.run(&format!("> cds {names}\n> eds a\n2> cds {names}"));
        rig.assign(1, "old");
        rig.assign(2, "old");
        rig.run("< cds first a=1 gone=1\n< eds first a=1\n2< cds first a=1 gone=1");
        rig.run(&format!("> cds {names}\n> eds a\n<\n2> cds {names}\n2<"));
        rig.assign(1, "new");
        rig.run("< cds changed a=2 gone=1\n< eds changed a=2");
        rig.run(&format!("> cds {names}\n> eds a\n< cds changed a=2\n> cds {names}\n<"));
        // Nothing else must be sent first.
        rig.assign(2, "new");
        rig.run(&format!("2< cds changed a=2\n2> cds {names}\n2<"));
    }
    println!("covers: M223 IS5 IS17");
}

// M223, IS5: a wildcard subscription gets no response for a resource that has only an error in the
// new view, where absence says nothing.
#[test]
fn view_change_sends_no_error_to_wildcard() {
    let mut rig = Rig::new(asked());
    rig.set_in("old", "rds a=1 b=1");
    rig.set_in("new", "rds a=1 !b=5");
    rig.run("> rds *");
    rig.assign(1, "old");
    rig.run("< rds first a=1 b=1\n> rds *\n<");
    rig.assign(1, "new");
    rig.run("<");
    rig.set_in("new", "rds b=2");
    rig.run("< rds changed b=2\n> rds *\n<");
    println!("covers: M223 IS5");
}

// IS24: a client that would exceed the number of views is closed.
#[test]
fn number_of_views_is_limited() {
    let mut config = asked();
    config.limits.views = 2;
    let mut rig = Rig::new(config);
    rig.run("> cds\n2> cds");
    let [first, second] = [1, 2].map(|stream| rig.stream(stream));
    assert!(rig.server.assign(first, &view("one"), rig.now));
    assert!(rig.server.assign(first, &view("one"), rig.now), "it has the view already");
    assert!(!rig.server.assign(second, &view("two"), rig.now), "this closes the stream");
    rig.drain();
    let closed = rig.effects().into_iter().find_map(|effect| match effect {
        ServerOutput::Close(stream, reason) => Some((stream, reason)),
        _ => None,
    });
    let reason = CloseReason::TooManyViews { limit: 2 };
    assert_eq!(reason.code(), StatusCode::ResourceExhausted);
    assert_eq!(closed, Some((second, reason)));
    assert_eq!((rig.server.stats().closed.limits, rig.server.stats().closed.views), (1, 1));
    rig.run("3> cds");
    rig.assign(3, "one");
    rig.run("close\n3close\n4> cds");
    rig.assign(4, "two");
    rig.set_in("two", "cds a=1");
    rig.run("4< cds first a=1");
    println!("covers: IS24");
}

// M223, M107: a rejected resource is sent after a view change, even if it is equal.
#[test]
fn view_change_resends_nacked_resource() {
    let mut rig = Rig::new(ServerConfig::default());
    rig.run(
        "
        set @v cds a=1 b=1
        set cds a=1
        d> cds +*
        d< cds first a=1
        d> cds ack
        set cds b=1
        d< cds changed b=1
        d> cds nack
        d<
        assign 1 v
        d< cds changed b=1
        d> cds ack
        d<",
    );
    println!("covers: M223 M107");
}

// M213: dropping a view needs no version in any version mode, and later resources have theirs.
#[test]
fn dropping_view_needs_no_version() {
    for (versions, first) in
        [(VersionMode::Caller, "v:1"), (VersionMode::Label, "v:1"), (VersionMode::Content, "")]
    {
        let mut config = every_type(|it| it.versions = versions);
        config.admission = Admission::ByApplication;
        let mut rig = Rig::new(config);
        rig.run(&format!(
            "
            set @v cds {first} a=1
            > cds
            2d> cds +a +b
            assign 1 v
            assign 2 v
            < cds first {first} a=1
            > cds
            2d< cds first {first} a=1 -b
            2d> cds ack"
        ));
        rig.server.drop_view(&view("v"), DropView::RemoveAll, rig.now);
        rig.drain();
        assert_eq!(rig.server.stats().resources, 0);
        rig.run(&format!(
            "
            < cds changed v:0000000000000000
            > cds
            2d< cds changed v:0000000000000000 -a
            2d> cds ack
            set @v cds {first} a=2
            < cds changed {first} a=2
            > cds
            2d< cds changed {first} a=2
            2d> cds ack
            <
            2d<"
        ));
    }
    println!("covers: M213 M72");
}

// IS24: bytes of waiting requests are limited per node, and freed by the decision or the stream's
// end.
#[test]
fn waiting_bytes_are_limited_per_node() {
    let mut config = asked();
    config.limits.held_bytes_per_node = 400;
    let mut rig = Rig::new(config);
    let ask = |rig: &mut Rig, stream: u32, node: &str| {
        let id = rig.stream(stream);
        let mut request = request_of(node, "eds");
        request.resource_names = vec!["n".repeat(100)];
        rig.message(id, &request);
    };
    ask(&mut rig, 1, "greedy");
    ask(&mut rig, 2, "greedy");
    ask(&mut rig, 3, "greedy");
    let reason = CloseReason::TooManyHeldBytes { limit: 400 };
    assert_eq!(rig.take_close(3), Some(reason.clone()));
    assert_eq!(reason.code(), StatusCode::ResourceExhausted);
    // Other nodes are not affected, and the node may wait again when there is room.
    ask(&mut rig, 4, "modest");
    rig.run("4open\n1close");
    ask(&mut rig, 5, "greedy");
    rig.run("5open");
    rig.assign(2, "v");
    ask(&mut rig, 6, "greedy");
    rig.run("6open");
    ask(&mut rig, 7, "greedy");
    assert_eq!(rig.take_close(7), Some(reason));
    println!("covers: IS24 M9");
}

// M216, M171, M218: what is not a resource in a snapshot counts as well.
#[test]
fn snapshot_may_contain_errors_and_names_its_invalid_change() {
    let mut rig = Rig::default();
    rig.run("set eds a=1 b=1 !c=5");
    let mut snapshot = Transaction::snapshot("");
    snapshot.set_error(url("eds"), "a", StatusCode::NotFound, "gone").remove(url("eds"), "b");
    let applied = rig.server.apply(snapshot.clone(), rig.now).expect("a good snapshot");
    assert_eq!((applied.changed, applied.removed), (1, 2), "a has an error, b and c nothing");
    let again = rig.server.apply(snapshot, rig.now).expect("a good snapshot");
    assert_eq!((again.changed, again.removed), (0, 0));
    let mut invalid = Transaction::snapshot("");
    invalid.set(url("eds"), "d", payload("d", "1")).set(url("eds"), "", payload("", "1"));
    let error = rig.server.apply(invalid, rig.now);
    assert_eq!(error, Err(TransactionError::EmptyName { change: 1 }), "a is removed before it");
    println!("covers: M216 M218");
}

// M219, M141: two spellings of a structured name are one name in snapshots and transactions.
#[test]
fn snapshot_names_are_compared_in_canonical_form() {
    let (one, other) = ("xdstp://a/t/x?b=1&a=2", "xdstp://a/t/x?a=2&b=1");
    let mut rig = Rig::default();
    let mut snapshot = Transaction::snapshot("");
    snapshot.set("t", one, payload("x", "1")).set("t", other, payload("x", "2"));
    let refused = rig.server.apply(snapshot, rig.now);
    let refused = refused.expect_err("twice");
    assert!(matches!(&refused, TransactionError::DuplicateName { .. }), "{refused}");
    for (name, changed) in [(one, 1), (other, 0)] {
        let mut snapshot = Transaction::snapshot("");
        snapshot.set("t", name, payload("x", "1"));
        let applied = rig.server.apply(snapshot, rig.now);
        let applied = applied.expect("a good snapshot");
        assert_eq!((applied.changed, applied.removed), (changed, 0), "M216");
    }
    println!("covers: M141 M216 M219");
}
