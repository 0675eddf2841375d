//! Clients that half-close their stream and wait for the answer.
// M13

use crate::support::{Rig, url};
use xds_core::{
    ViewName,
    server::{Admission, CloseReason, ServerConfig, ServerOutput, StatusCode, StreamEvent},
};

fn half_close(rig: &mut Rig, stream: u32) {
    let id = rig.stream(stream);
    rig.event(StreamEvent::HalfClosed(id));
}

/// Number of streams that finished normally.
fn finished(rig: &mut Rig) -> usize {
    rig.drain();
    let is_end = |output: &ServerOutput| matches!(output, ServerOutput::Finished(_));
    rig.effects().iter().filter(|output| is_end(output)).count()
}

/// A half-closed client gets what is due; its ACK is not waited for.
#[test]
fn half_closed_client_gets_due_responses() {
    let mut rig = Rig::script("set cds a=1; eds a=1\n> cds");
    half_close(&mut rig, 1);
    assert_eq!(finished(&mut rig), 0, "its answer is due");
    rig.run("< cds first a=1");
    assert_eq!(finished(&mut rig), 1);

    // The client is up to date, or has sent no request.
    rig.run("2> cds\n2< cds first a=1\n2> cds\n3d> eds +b\n3d< eds first -b\n3d> eds ack");
    for stream in [2, 3, 4] {
        half_close(&mut rig, stream);
        assert_eq!(finished(&mut rig), 1, "{stream}");
    }
    // Later changes are not sent.
    rig.run("5> cds\n5< cds first a=1\nset cds a=2\n");
    half_close(&mut rig, 5);
    assert_eq!(finished(&mut rig), 1, "it has not answered, and never will");
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions, stats.closed.by_clients), (0, 0, 5), "IS23");
    println!("covers: M13 IS23");
}

/// A half-closed client without a view is answered once it is assigned; one without a request is
/// not waited for.
#[test]
fn half_closed_client_is_answered_after_admission() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
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
    // The client is refused.
    let refused = rig.stream(2);
    rig.server.refuse(refused, StatusCode::PermissionDenied, "no", rig.now);
    rig.drain();
    let why = CloseReason::Refused { code: StatusCode::PermissionDenied, message: "no".into() };
    assert_eq!(rig.take_close(2), Some(why));
    // The stream ends while it waits.
    let gone = rig.stream(4);
    rig.event(StreamEvent::Closed(gone));
    assert_eq!(finished(&mut rig), 0);
    assert_eq!(rig.server.stats().streams, 0);
    assert!(rig.server.resource_in(&ViewName::from("v"), &url("cds"), "a").is_some());
    println!("covers: M9 M13 IS23");
}
