//! Counters and gauges.
// M240

use crate::support::{Rig, url};
use xds_core::{
    StreamId,
    server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig, StreamEvent, StreamKind},
    types,
};

/// Requests, responses and answers, in total and by type. Unknown types share their counters.
#[test]
fn requests_and_responses_are_counted_by_type() {
    let mut rig = Rig::script(
        "
        set cds a=1; eds e=1
        > cds
        < cds first a=1
        > cds nack
        set cds a=2
        < cds changed a=2
        > cds
        2d> eds +e
        2d< eds first e=1
        2d> eds ack
        ",
    );
    let (cds, eds) = (rig.server.stats_of(types::CLUSTER), rig.server.stats_of(&url("eds")));
    assert_eq!((cds.requests, cds.responses, cds.acks, cds.nacks), (3, 2, 1, 1));
    assert_eq!((eds.requests, eds.responses, eds.acks, eds.nacks), (2, 1, 1, 0));
    assert_eq!(rig.server.stats_of("made/up"), rig.server.stats_of("too"));
    let stats = rig.server.stats();
    assert_eq!((stats.requests, stats.responses), (5, 3));
    assert_eq!(stats.response_bytes, cds.response_bytes + eds.response_bytes);
    assert!(cds.response_bytes > 2 * types::CLUSTER.len() as u64);

    let one = crate::support::request_of("node-3", "cds");
    let id = rig.stream(3);
    rig.message(id, &one);
    let bytes = prost::Message::encoded_len(&one) as u64;
    assert_eq!(rig.server.stats().request_bytes, stats.request_bytes + bytes);
    println!("covers: M240");
}

// M111, IS4: repeated requests are counted and not answered; stale requests are counted separately.
#[test]
fn repeated_and_stale_requests_are_counted() {
    let mut rig = Rig::script("set eds a=1\n> eds a\n< eds first a=1\n> eds a\n<");
    assert_eq!(rig.server.stats().repeated_requests, 0, "an ACK");
    rig.run("> eds a\n<\n> eds a\n<");
    assert_eq!(rig.server.stats().repeated_requests, 2);
    rig.run("set eds a=2\n< eds changed a=2\n> eds nonce:1 a\n<\n> eds nack a\n<\n> eds nack a\n<");
    let stats = rig.server.stats();
    assert_eq!((stats.stale_requests, stats.nacks, stats.repeated_requests), (1, 1, 3));
    assert_eq!(rig.server.stats_of(types::CLUSTER_LOAD_ASSIGNMENT).stale_requests, 1);
    rig.run("2d> eds +a\n2d< eds first a=2\n2d> eds ack\n2d> eds ack\n2d<");
    assert_eq!(rig.server.stats().repeated_requests, 4);
    println!("covers: M111 M240 IS4");
}

#[test]
fn streams_are_counted_by_kind() {
    let mut rig = Rig::script("set eds a=1\n> eds a\n2d> eds +a");
    let fetch = StreamKind::Fetch { type_url: url("eds").into() };
    let fetch: StreamId = rig.server.accept(fetch, rig.now).expect("room");
    let kinds = |rig: &Rig| {
        let stats = rig.server.stats();
        (stats.streams, stats.incremental_streams, stats.fetches)
    };
    assert_eq!(kinds(&rig), (3, 1, 1));
    rig.server.handle_event(StreamEvent::Closed(fetch), rig.now);
    rig.run("2close");
    assert_eq!(kinds(&rig), (1, 0, 0));
    rig.run("close");
    assert_eq!(kinds(&rig), (0, 0, 0));
    println!("covers: M240");
}

// M146, M148: updates held back, in total and for too long.
#[test]
fn make_before_break_holds_are_counted() {
    let mut policy = MakeBeforeBreakPolicy::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(policy);
    let mut rig = Rig::new(config);
    let holds = |rig: &Rig| {
        let stats = rig.server.stats();
        (stats.blocked_streams, stats.blocked_changes, stats.stage_timeouts)
    };
    rig.run("set cds a=1; lds l=1\n> cds\n< cds first a=1\n> lds l\n<");
    assert_eq!(holds(&rig), (1, 1, 0));
    rig.run("> cds\n< lds first l=1\n> lds l");
    assert_eq!(holds(&rig), (0, 1, 0));
    rig.run("set cds a=2; lds l=2\n< cds changed a=2\n<\nwait 5s");
    assert_eq!(holds(&rig), (1, 2, 1));
    rig.run("close");
    assert_eq!(holds(&rig), (0, 2, 1));
    println!("covers: M146 M148 M240");
}

// IS29: pending convergence events.
#[test]
fn convergence_waits_are_counted() {
    let mut rig = Rig::script("set eds a=1\n> eds a\n< eds first a=1");
    let ask = |rig: &mut Rig| {
        let eds = types::CLUSTER_LOAD_ASSIGNMENT;
        rig.server.notify_when_converged(&"".into(), eds, 1, rig.now).expect("room")
    };
    ask(&mut rig);
    assert_eq!(rig.server.stats().convergence_waits, 1);
    rig.run("> eds a");
    assert_eq!(rig.server.stats().convergence_waits, 0);
    ask(&mut rig);
    assert_eq!(rig.server.stats().convergence_waits, 0, "told at once");
    println!("covers: M240 IS29");
}
