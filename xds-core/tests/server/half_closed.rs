//! Clients that say no more and wait for their answer (M13).

use crate::support::{Rig, url};
use xds_core::{
    ViewName,
    server::{Admission, CloseReason, ServerConfig, ServerOutput, StatusCode, StreamEvent},
};

fn half_close(rig: &mut Rig, stream: u32) {
    let id = rig.stream(stream);
    rig.event(StreamEvent::HalfClosed(id));
}

/// How many streams were ended well.
fn finished(rig: &mut Rig) -> usize {
    rig.drain();
    let is_end = |output: &ServerOutput| matches!(output, ServerOutput::Finished(_));
    rig.effects().iter().filter(|output| is_end(output)).count()
}

/// It is sent what is due, and not waited for after that: it cannot answer.
#[test]
fn who_says_no_more_is_sent_what_is_due() {
    let mut rig = Rig::script("set cds a=1; eds a=1\n> cds");
    half_close(&mut rig, 1);
    assert_eq!(finished(&mut rig), 0, "its answer is due");
    rig.run("< cds first a=1");
    assert_eq!(finished(&mut rig), 1);

    // It has all there is, or has asked for nothing.
    rig.run("2> cds\n2< cds first a=1\n2> cds\n3d> eds +b\n3d< eds first -b\n3d> eds ack");
    for stream in [2, 3, 4] {
        half_close(&mut rig, stream);
        assert_eq!(finished(&mut rig), 1, "{stream}");
    }
    // Nor does what it is sent later.
    rig.run("5> cds\n5< cds first a=1\nset cds a=2\n");
    half_close(&mut rig, 5);
    assert_eq!(finished(&mut rig), 1, "it has not answered, and never will");
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions, stats.closed.by_clients), (0, 0, 5), "IS23");
    println!("covers: M13 IS23");
}

/// Who has asked before it is known what it may see is answered when that is decided; who has not asked is not
/// waited for.
#[test]
fn who_waits_to_be_let_in_is_answered_first() {
    let mut config = ServerConfig::default();
    config.admission = Admission::Asked;
    let mut rig = Rig::new(config);
    rig.run("set @v cds a=1\n> cds\n2> cds\n3> eds b\n4> cds");
    for stream in [1, 2, 3, 4, 5] {
        half_close(&mut rig, stream);
    }
    assert_eq!(finished(&mut rig), 1, "the one that has asked for nothing");
    assert_eq!(rig.server.stats().streams, 4);

    rig.run("assign 1 v");
    assert_eq!(finished(&mut rig), 0);
    rig.run("< cds first a=1");
    assert_eq!(finished(&mut rig), 1);
    // There is nothing to send.
    rig.run("assign 3 v");
    assert_eq!(finished(&mut rig), 1);
    // It hears that it is not.
    let refused = rig.stream(2);
    rig.server.refuse(refused, StatusCode::PermissionDenied, "no", rig.now);
    rig.drain();
    let why = CloseReason::Refused { code: StatusCode::PermissionDenied, message: "no".into() };
    assert_eq!(rig.take_close(2), Some(why));
    // It may go while it waits.
    let gone = rig.stream(4);
    rig.event(StreamEvent::Closed(gone));
    assert_eq!(finished(&mut rig), 0);
    assert_eq!(rig.server.stats().streams, 0);
    assert!(rig.server.resource_in(&ViewName::from("v"), &url("cds"), "a").is_some());
    println!("covers: M9 M13 IS23");
}
