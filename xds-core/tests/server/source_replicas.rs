//! Servers that follow one source: requests wait until the server has caught up.

use core::time::Duration;

use xds_core::{
    Timer,
    server::{
        CloseReason, Confirmation, Observation, Refusal, SourcePolicy, StatusCode, StreamKind,
        Variant, VersionMode,
    },
};

use crate::support::{Rig, every_type};

fn replica(policy: SourcePolicy) -> Rig {
    Rig::new(every_type(|it| it.versions = VersionMode::Content).with_source(policy))
}

fn stating() -> Rig {
    replica(SourcePolicy::default())
}

fn confirming() -> Rig {
    replica(SourcePolicy::default().with_confirmation(Confirmation::EachStream))
}

// M257
#[test]
fn request_that_states_a_greater_revision_waits_until_it_is_reached() {
    let mut rig = stating();
    rig.run(
        "
        at 5
        set cds a=1; eds x=1
        reached 5
        > cds version:7-00
        <
        2> cds version:5-00          # not greater
        2< cds first a=1
        2> cds
        3d> eds +x has:x@6-00
        3d<
        reached 6
        <
        3d< eds first x=1
        at 7
        set cds a=2
        <                            # not before the server has all of it
        reached 7
        < cds first a=2
        > cds
        2< cds changed a=2
        wait 60s
        open",
    );
    assert_eq!((rig.server.stats().source_waits, rig.server.stats().waiting_for_source), (2, 0));
    assert_eq!(rig.server.poll_timeout(), None);
    println!("covers: M257");
}

#[test]
fn request_is_closed_with_both_revisions_after_the_timeout() {
    let mut rig = stating();
    rig.run("at 5\nset cds a=1\nreached 5\n> cds version:7-00");
    let next = rig.server.poll_timeout().expect("a deadline");
    assert_eq!(next.why, Timer::SourceWait);
    assert_eq!(next.at, rig.now.after(Duration::from_secs(4)));
    rig.run("wait 3s\nreached 6\nopen\nwait 1s");
    let reason = rig.take_close(1).expect("closed");
    assert_eq!(reason, CloseReason::BehindSource { required: 7, reached: 6 });
    assert_eq!(reason.code(), StatusCode::Unavailable);
    let text = "this server is at revision 6 of its source and has not reached 7";
    assert_eq!(reason.to_string(), text);
    let stats = rig.server.stats();
    assert_eq!((stats.closed.behind_source, stats.waiting_for_source), (1, 0));
    println!("covers: M257");
}

/// A stream that ends while it waits leaves nothing behind.
#[test]
fn closed_stream_leaves_no_wait() {
    let mut rig = stating();
    rig.run("reached 5\n> cds version:7-00\nclose");
    assert_eq!((rig.server.stats().waiting_for_source, rig.server.poll_timeout()), (0, None));
}

#[test]
fn requests_of_a_waiting_stream_are_handled_in_order() {
    let mut rig = stating();
    rig.run("at 5\nset cds a=1; eds x=1 y=1\nreached 5\n> cds version:7-00");
    let stream = rig.stream(1);
    assert!(!rig.server.wants_read(stream));
    rig.run("> eds x\n> eds x y\n<\nreached 7\n< cds first a=1\n< eds first x=1 y=1");
    assert!(rig.server.wants_read(stream));
}

/// A later type of a stream may state a greater revision.
#[test]
fn each_type_waits_for_its_own_revision() {
    let mut rig = stating();
    rig.run(
        "at 5\nset cds a=1; eds x=1\nreached 5\n> cds\n< cds first a=1\n> cds\n> eds version:6-00 x\n<\n\
         set cds a=2\n< cds changed a=2\nreached 6\n< eds first x=1",
    );
}

#[test]
fn server_without_a_source_ignores_revisions() {
    let mut rig = stating();
    rig.run("set cds a=1\n> cds version:7-00\n< cds first a=1");
}

// M258
#[test]
fn first_request_waits_for_a_confirmation_that_began_after_it() {
    let mut rig = confirming();
    rig.run(
        "
        at 5
        set cds a=1
        reached 5
        > cds
        <
        confirm
        2> cds                       # while the confirmation is in progress
        unasked
        confirmed 5
        < cds first a=1
        2<
        confirm
        3> cds
        confirmed 6
        2<                           # not reached
        3<
        confirm
        at 6
        set cds a=2
        reached 6
        2< cds first a=2
        3<
        confirmed 6
        3< cds first a=2
        unasked
        > cds
        < cds changed a=2
        > eds x                      # a later type needs no other confirmation
        unasked
        set eds x=1
        < eds first x=1",
    );
    assert_eq!(rig.server.source_status().revision, Some(6));
    println!("covers: M258");
}

#[test]
fn unanswered_confirmation_is_listed() {
    let mut rig = confirming();
    rig.run("reached 5\n> cds");
    assert_eq!(rig.server.unanswered_events().count(), 1);
    rig.run("confirmed 5");
    assert_eq!(rig.server.unanswered_events().count(), 0);
}

#[test]
fn confirmed_revision_that_is_not_reached_closes_the_stream() {
    let mut rig = confirming();
    rig.run("at 5\nset cds a=1\nreached 5\n> cds\nconfirm\nconfirmed 9\nwait 4s");
    let reason = CloseReason::BehindSource { required: 9, reached: 5 };
    assert_eq!(rig.take_close(1), Some(reason));
}

/// After a source was restored from a backup, clients state revisions of its earlier history.
#[test]
fn confirmed_revision_replaces_a_greater_stated_one() {
    let mut rig = confirming();
    rig.run("at 5\nset cds a=1\nreached 5\n> cds version:900-00\n<\nconfirmed 5\n< cds first a=1");
}

#[test]
fn unreachable_source_serves_the_last_state_except_to_clients_that_have_more() {
    let mut rig = confirming();
    rig.run(
        "
        at 5
        set cds a=1
        reached 5
        > cds version:5-00
        2> cds version:6-00
        unconfirmed
        wait 3s
        <
        wait 1s
        < cds first a=1
        open
        ",
    );
    assert_eq!(rig.take_close(2), Some(CloseReason::BehindSource { required: 6, reached: 5 }));
    let stream = rig.stream(1);
    let served = Observation::ServedUnconfirmed { stream, revision: 5 };
    assert!(rig.observations().contains(&served));
    assert_eq!(rig.server.stats().unconfirmed_streams, 1);
    // The source is known to be unreachable for so long that nobody waits.
    rig.run("3> cds\n3< cds first a=1\n4> cds version:6-00\n4<\nreached 6\n4<\nconfirmed 6\n4<\nconfirmed 6\n4< cds first a=1");
    assert_eq!(rig.server.source_status().unreachable_since, None);
    println!("covers: M259");
}

#[test]
fn maximum_staleness_refuses_new_streams_and_keeps_open_ones() {
    let policy = SourcePolicy::default()
        .with_confirmation(Confirmation::EachStream)
        .with_max_staleness(Duration::from_secs(10));
    let mut rig = replica(policy);
    rig.run(
        "at 5\nset cds a=1\nreached 5\n> cds\nconfirmed 5\n< cds first a=1\n> cds\nunreachable\nunconfirmed\n\
         wait 5s\n2> cds\n2< cds first a=1\nwait 4s\n3> cds\n3< cds first a=1\nwait 1s",
    );
    assert!(rig.server.is_stale(rig.now));
    let kind = StreamKind::Aggregated(Variant::StateOfTheWorld);
    let refusal = rig.server.accept(kind.clone(), rig.now).expect_err("a refusal");
    assert_eq!(refusal, Refusal::Stale { unreachable_for: Duration::from_secs(10) });
    assert_eq!(refusal.code(), StatusCode::Unavailable);
    // Nothing is removed, and the source may return.
    rig.run("<\nopen\nreached 6\nconfirmed 6\n<");
    assert!(rig.server.accept(kind, rig.now).is_ok());
    assert_eq!(rig.server.stats().refused.stale, 1);
    println!("covers: M259");
}

/// Kubernetes has no read that confirms the newest revision of several kinds of objects.
#[test]
fn confirmation_without_a_revision_does_not_make_a_source_reachable() {
    let mut rig = confirming();
    rig.run(
        "at 5\nset cds a=1\nreached 5\nunreachable\n> cds\nconfirm\nconfirmed unknown\n< cds first a=1",
    );
    assert!(rig.server.source_status().unreachable_since.is_some());
    rig.run("reached 5");
    assert_eq!(rig.server.source_status().unreachable_since, None);
    println!("covers: M259");
}

/// A source that cannot tell its revision does not make a replica newer than it is.
#[test]
fn stated_revision_is_awaited_although_the_source_cannot_tell_its_own() {
    let mut rig = confirming();
    rig.run(
        "at 5\nset cds a=1\nreached 5\n> cds version:7-00\nconfirm\nconfirmed unknown\n<\nat 7\nset cds a=2\n\
         reached 7\n< cds first a=2",
    );
    // The revision may be of another history, so the wait ends.
    let mut rig = confirming();
    rig.run("at 5\nset cds a=1\nreached 5\n> cds version:7-00\nconfirm\nconfirmed unknown\n<");
    rig.run("wait 4s\n< cds first a=1");
    let mut rig = confirming();
    rig.run(
        "at 5\nset cds a=1\nreached 5\nunreachable\n> cds version:7-00\nconfirm\nconfirmed unknown\n<",
    );
    rig.run("wait 4s");
    let reason = rig.take_close(1).expect("closed");
    assert_eq!(reason, CloseReason::BehindSource { required: 7, reached: 5 });
    println!("covers: M257 M258");
}

#[test]
fn timer_is_due_when_the_state_becomes_too_old() {
    let policy = SourcePolicy::default().with_max_staleness(Duration::from_secs(10));
    let mut rig = replica(policy);
    rig.run("reached 5\nwait 1s\nunreachable");
    let next = rig.server.poll_timeout().expect("a timer");
    let expected = (Timer::SourceStale, rig.now.after(Duration::from_secs(10)));
    assert_eq!((next.why, next.at), expected);
    // A later failure does not prolong it.
    rig.run("wait 4s\nunreachable");
    assert_eq!(rig.server.poll_timeout().map(|it| it.at), Some(expected.1));
    assert_eq!(rig.server.source_unreachable_for(rig.now), Some(Duration::from_secs(4)));
    rig.run("reached 6");
    assert_eq!(rig.server.poll_timeout(), None);
    assert_eq!(rig.server.source_unreachable_for(rig.now), None);
    println!("covers: M259");
}

/// A stream that began to wait before the limit is not served after it.
#[test]
fn maximum_staleness_closes_waiting_streams() {
    let policy = SourcePolicy::default()
        .with_confirmation(Confirmation::EachStream)
        .with_max_staleness(Duration::ZERO);
    let mut rig = replica(policy);
    rig.run("at 5\nset cds a=1\nreached 5\n> cds\nunconfirmed\nwait 4s");
    let after = Duration::from_secs(4);
    let reason = CloseReason::SourceUnreachable { unreachable_for: after };
    assert_eq!(rig.take_close(1), Some(reason));
}

#[test]
fn view_is_assigned_before_the_source_is_confirmed() {
    let mut config = every_type(|it| it.versions = VersionMode::Content)
        .with_source(SourcePolicy::default().with_confirmation(Confirmation::EachStream));
    config.admission = xds_core::server::Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run(
        "at 5\nset @v cds a=1\nset @w cds a=2\nreached 5\n> cds\nunasked\nassign 1 v\n<\nconfirm\n\
         assign 1 w\n<\nconfirmed 5\n< cds first a=2",
    );
}

#[test]
fn half_closed_stream_waits_too() {
    let mut rig = confirming();
    rig.run("at 5\nset cds a=1\nreached 5\n> cds");
    let stream = rig.stream(1);
    rig.event(xds_core::server::StreamEvent::HalfClosed(stream));
    rig.run("open\nconfirmed 5\n< cds first a=1");
}

/// A watch that has failed says nothing about a confirmation that was not tried.
#[test]
fn stream_waits_for_a_confirmation_although_the_watch_has_failed() {
    let mut rig = confirming();
    rig.run(
        "at 5\nset cds a=1\nreached 5\nunreachable\nwait 60s\n> cds\n<\nconfirm\nconfirmed 6\n<",
    );
    assert!(rig.server.source_status().unreachable_since.is_some(), "6 is not reached");
    rig.run("at 6\nset cds a=2\nreached 6\n< cds first a=2");
    assert_eq!(rig.server.source_status().unreachable_since, None);
}
