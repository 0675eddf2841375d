//! The incremental variant: what is subscribed, what is answered, and what a nonce means.

use crate::support::{Rig, run_all, run_all_with, url};
use xds_core::server::{
    Absence, CloseReason, Interest, Observation, ServerConfig, ServerLimits, ServerOutput,
    StatusCode, TypeConfig,
};

/// M86-M104: what a client subscribes to, and that every addition is answered.
#[test]
fn subscriptions_follow_what_is_added_and_dropped() {
    run_all(&[
        (
            "M86 M87 M88 IS14",
            "
            set cds a=1 b=1
            d> cds
            d< cds first a=1 b=1
            d> cds ack +a
            d< cds resubscribed a=1
            d> cds ack -*
            d< cds resubscribed -b
            d> cds ack
            set cds a=2 b=2
            d< cds changed a=2
            d> cds ack
            d<",
        ),
        (
            "M89 M90",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds ack +*
            d< eds resubscribed b=1
            2d> eds +*
            2d< eds first a=1 b=1",
        ),
        (
            "M91 M92 IS14",
            "
            set cds a=1
            d> cds +* +a +b
            d< cds first a=1 -b
            d> cds ack -a
            d< cds resubscribed a=1
            d> cds ack -b
            d< cds resubscribed -b
            d> cds ack
            set cds a=2 b=1
            d< cds changed a=2 b=1",
        ),
        (
            "M93",
            "
            set cds a=1 b=1 c=1
            d> cds +* +a
            d< cds first a=1 b=1 c=1
            d> cds ack -*
            d< cds resubscribed -b -c
            d> cds ack
            set cds b=2
            d<",
        ),
        (
            "M94 M102",
            "
            set eds a=1 b=1
            d> eds +a +b
            d< eds first a=1 b=1
            d> eds ack -a
            d<
            set eds a=2
            d<
            set eds b=2
            d< eds changed b=2",
        ),
        (
            "M95 S0.195",
            "
            set cds a=1
            d> cds +*
            d< cds first a=1
            d> cds ack -never
            d<
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M96 IS7 S0.192 S0.193",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            d> eds +a
            d< eds resubscribed a=1
            d> eds ack
            d> eds -a
            d> eds +a
            d< eds resubscribed a=1",
        ),
        (
            "M97 IS7",
            "
            set cds a=1 b=1
            d> cds +*
            d< cds first a=1 b=1
            d> cds ack +a
            d< cds resubscribed a=1",
        ),
        (
            "M98",
            "
            set eds a=1
            d> eds +a -a
            d<
            set eds a=2
            d<
            2d> cds +* -*
            2d<
            set cds a=1
            2d<
            2d> cds +a
            2d< cds first a=1",
        ),
        (
            "M99",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds ack +b
            d< eds resubscribed b=1",
        ),
        (
            "M100",
            "
            d> cds +*
            d< cds first
            d> cds ack
            d<
            2d> cds
            2d< cds first
            2d> cds ack
            2d<",
        ),
        (
            "M101",
            "
            set cds a=1
            d> cds +a
            d< cds first a=1
            d> cds ack -a
            d<
            d> cds
            d<
            set cds b=1
            d<",
        ),
        (
            "M103 M134",
            "
            set cds a=1 b=1
            d> cds
            d< cds first a=1 b=1
            d> cds ack
            set cds a=2 -b c=1
            d< cds changed a=2 c=1 -b
            d> cds ack
            set cds -c
            d< cds changed -c",
        ),
        (
            "M104",
            "
            set cds a=1
            d> cds
            d< cds first a=1
            d> cds ack
            set cds a=1
            d<",
        ),
    ]);
}

/// M105-M115: what a nonce means, and what a rejection does.
#[test]
fn answers_open_the_window_and_nothing_else() {
    run_all(&[
        (
            "M105 M114 IS16",
            "
            set cds a=1
            d> cds
            d< cds first a=1
            set cds a=2
            set cds a=3 b=1
            d<
            d> cds ack
            d< cds changed a=3 b=1
            d> cds ack
            d<",
        ),
        (
            "M106 M53",
            "
            set cds a=1
            d> cds
            d< cds first a=1
            d> cds nack
            d<
            d> cds nack
            d<
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M107 IS4",
            "
            set eds good=1 bad=1
            d> eds +good +bad
            d< eds first good=1 bad=1
            d> eds nack
            d<
            set eds bad=2
            d< eds changed good=1 bad=2
            d> eds nack
            d<
            set eds bad=3
            d< eds changed bad=3    # the good one rode along once
            d> eds ack",
        ),
        (
            "M107",
            "
            set cds good=1 bad=1
            d> cds
            d< cds first good=1 bad=1
            d> cds nack
            d<
            set cds bad=2
            d< cds changed good=1 bad=2
            d> cds ack
            set cds bad=3
            d< cds changed bad=3",
        ),
        (
            "M109",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds nack +b
            d< eds resubscribed b=1",
        ),
        (
            "M110 IS3",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            set eds a=2
            d< eds changed a=2
            d> eds nonce:1 +b      # answers the first response, long replaced
            d<
            d> eds ack
            d< eds resubscribed b=1",
        ),
        (
            "M111",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            set eds a=2
            d< eds changed a=2
            d> eds nonce:1
            d<
            d> eds ack
            d<",
        ),
        (
            "M112",
            "
            set eds a=1
            d> eds nonce:77 +a
            d< eds first a=1
            d> eds nonce:78
            d> eds nonce:x
            d<",
        ),
        (
            "M115 M131",
            "
            d> eds +a
            d< eds first -a
            set eds a=1
            set eds -a
            d> eds ack
            d< eds changed -a
            d> eds ack
            2d> cds
            2d< cds first
            set cds x=1
            set cds -x
            2d> cds ack
            2d<",
        ),
    ]);
    let mut rig = Rig::script(
        "
        set eds a=1
        d> eds +a
        d< eds first a=1
        d> eds ack
        set eds a=2
        d< eds changed a=2
        d> eds nonce:1
        d> eds nonce:9
        d> eds nack",
    );
    let seen = rig.observations();
    let count = |wanted: fn(&Observation) -> bool| seen.iter().filter(|o| wanted(o)).count();
    assert_eq!(count(|o| matches!(o, Observation::StaleNonce { .. })), 1);
    assert_eq!(count(|o| matches!(o, Observation::BogusNonce { .. })), 1);
    assert_eq!(count(|o| matches!(o, Observation::Acked { .. })), 1);
    assert_eq!(count(|o| matches!(o, Observation::Nacked { .. })), 1);
    println!("covers: M106 M111 M112");
}

/// M116-M126: what a client says it has it is not sent again, and what is gone it is told.
#[test]
fn a_returning_client_is_sent_the_difference() {
    run_all(&[
        (
            "M116 M118 IS13",
            "
            set cds a=1 b=1
            9d> cds
            9d< cds first a=1 b=1
            set cds b=2 c=1
            d> cds has:a=1 has:b=1 has:gone@7
            d< cds first b=2 c=1 -gone
            d> cds ack
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M116 M117",
            "
            set cds a=1 b=1
            9d> cds
            9d< cds first a=1 b=1
            d> cds +* has:a=1 has:b@
            d< cds first b=1
            d> cds ack
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M119 M120",
            "
            set eds a=1
            9d> eds +a
            9d< eds first a=1
            d> eds +a +gone has:a=1 has:gone@x
            d< eds first -gone
            d> eds ack
            set eds a=2 gone=1
            d< eds changed a=2 gone=1",
        ),
        (
            "M121",
            "
            set eds a=1 b=1
            9d> eds +a +b
            9d< eds first a=1 b=1
            d> eds +a has:a=1 has:b@old has:c@old
            d<
            set eds b=2
            d<",
        ),
        (
            "M122",
            "
            set eds a=1 b=1
            9d> eds +b
            9d< eds first b=1
            d> eds +a
            d< eds first a=1
            d> eds ack +b has:b=1
            d< eds resubscribed b=1",
        ),
        (
            "M123",
            "
            set cds a=1; eds a=1
            9d> eds +a
            9d< eds first a=1
            9d> cds
            9d< cds first a=1
            d> cds has:a=1
            d< cds first
            d> eds +a has:a=1
            d<",
        ),
        (
            "M125 M126",
            "
            set cds a=1
            9d> cds
            9d< cds first a=1
            d> cds has:a=1
            d< cds first
            d> cds ack
            d<
            set cds -a
            d< cds changed -a",
        ),
        (
            "M116",
            "
            set cds a=1 b=1
            9d> cds
            9d< cds first a=1 b=1
            d> cds has:a=1 has:b=1
            set cds a=2 -b      # before the first response
            d< cds first a=2 -b",
        ),
    ]);
}

/// M127-M135, M142: absence is told, once, and does not unsubscribe.
#[test]
fn absence_is_told() {
    run_all(&[
        (
            "M127 M128 IS12 IS8",
            "
            set eds a=1
            d> eds +a +missing
            d< eds first a=1 -missing
            d> eds ack
            d<
            set eds missing=1
            d< eds changed missing=1",
        ),
        (
            "M129 M130 IS11",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            set eds -a
            d< eds changed -a
            d> eds ack
            d<
            set eds a=2
            d< eds changed a=2",
        ),
        (
            "M132",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            set eds -a
            set eds a=1
            d> eds ack
            d< eds changed a=1
            d> eds ack
            d<",
        ),
        (
            "M135 S0.116",
            "
            set cds a=1
            d> cds +* +a
            d< cds first a=1
            d> cds ack
            set cds -a
            d< cds changed -a
            d> cds ack
            d<
            set cds a=3
            d< cds changed a=3",
        ),
        (
            "M142 M36",
            "
            set eds a=1
            d> eds loc:a loc:b
            d< eds first a=1 -b",
        ),
        (
            "M151",
            "
            set cds c=1 d=1; eds c=1 d=1
            d> cds
            d< cds first c=1 d=1
            d> cds ack
            d> eds +c +d
            d< eds first c=1 d=1
            d> eds ack
            set cds c=2
            d< cds changed c=2
            d< eds warming c=1
            d> cds ack
            d> eds ack
            d<",
        ),
        (
            "M153",
            "
            set cds c=1; eds c=1
            d> eds +c
            d< eds first c=1
            d> eds ack
            d> cds
            d< cds first c=1
            d< eds warming c=1
            d> eds ack
            d<",
        ),
    ]);
}

/// The interest that the status states follows additions and removals.
#[test]
fn the_status_tells_the_interest() {
    let mut rig = Rig::script("d> cds +* +a +b");
    let interest = |rig: &Rig| rig.server.status().next().map(|status| status.interest);
    assert_eq!(interest(&rig), Some(Interest::WildcardAndNames(2)));
    rig.run("d< cds first -a -b\nd> cds ack -a");
    assert_eq!(interest(&rig), Some(Interest::WildcardAndNames(1)));
    rig.run("d< cds resubscribed -a\nd> cds ack -* -b");
    assert_eq!(interest(&rig), Some(Interest::Nothing));
    rig.run("1close");
    assert_eq!(rig.server.stats().names, 0, "IS23");
    println!("covers: M13 IS23");
}

/// M231: deletions are remembered for who reads late, up to a limit; beyond it he comes back and is sent
/// the difference.
#[test]
fn who_is_too_far_behind_is_sent_away() {
    let mut limits = ServerLimits::default();
    limits.deletions_per_type = 2;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run(
        "
        set cds a=1 b=1 c=1 d=1
        d> cds
        d< cds first a=1 b=1 c=1 d=1
        2d> cds
        2d< cds first a=1 b=1 c=1 d=1
        2d> cds ack
        set cds -a
        2d< cds changed -a
        2d> cds ack
        set cds -b
        2d< cds changed -b
        2d> cds ack",
    );
    rig.effects();
    rig.run("set cds -c");
    let behind = rig.stream(1);
    let close = ServerOutput::Close(behind, CloseReason::Behind);
    assert!(rig.effects().contains(&close), "it has not read for three deletions");
    assert_eq!(CloseReason::Behind.code(), StatusCode::Unavailable);
    rig.run(
        "
        2d< cds changed -c
        3d> cds has:a=1 has:b=1 has:c=1 has:d=1
        3d< cds first -a -b -c
        2close
        3close",
    );
    assert_eq!(rig.server.stats().names, 1, "what nobody has to be told is forgotten (M243)");
    println!("covers: M231 M243");
}

/// M231: who keeps up is not behind for what nobody could have told him yet.
#[test]
fn many_deletions_at_once_send_nobody_away_who_keeps_up() {
    let mut limits = ServerLimits::default();
    limits.deletions_per_type = 2;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run(
        "
        set cds a=1 b=1 c=1 d=1 e=1
        d> cds
        d< cds first a=1 b=1 c=1 d=1 e=1
        2d> cds
        2d< cds first a=1 b=1 c=1 d=1 e=1
        2d> cds ack
        set cds -a
        2d< cds changed -a
        2d> cds ack",
    );
    rig.effects();
    rig.run("set cds -b -c -d");
    let (behind, up_to_date) = (rig.stream(1), rig.stream(2));
    let effects = rig.effects();
    assert!(effects.contains(&ServerOutput::Close(behind, CloseReason::Behind)));
    assert!(!effects.contains(&ServerOutput::Close(up_to_date, CloseReason::Behind)));
    rig.run("2d< cds changed -b -c -d");
    println!("covers: M231");
}

/// IC8: a client that comes back says what it wants and which versions it has of that. These are no more names
/// than it had before.
#[test]
fn who_has_as_many_names_as_may_be_can_come_back() {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = 3;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run(
        "
        set eds a=1 b=1 c=1
        d> eds +a +b +c
        d< eds first a=1 b=1 c=1
        d> eds ack
        1close
        2d> eds +a +b +c has:a=1 has:b=1 has:c=1
        2d<
        set eds a=2
        2d< eds first a=2
        3d> eds +* has:a=2 has:b=1 has:c=1
        3d< eds first
        3d> eds ack
        set eds d=1
        3d< eds changed d=1
        4d> eds +* has:a=2 has:b=1 has:c=1 has:d=1",
    );
    let fourth = rig.stream(4);
    let close = ServerOutput::Close(fourth, CloseReason::TooManyNames { limit: 3 });
    assert!(rig.effects().contains(&close), "more versions than names may be held");
    println!("covers: M116 M242");
}

/// Clients that know only an early edition of the protocol are told by a resource with nothing in it that
/// there is none. A deletion is one to them, too.
#[test]
fn absence_can_be_told_by_an_empty_resource() {
    let mut of_endpoints = TypeConfig::of(&url("eds"));
    of_endpoints.absence = Absence::EmptyResource;
    let config = ServerConfig::default().with_type(url("eds"), of_endpoints);
    run_all_with(
        &config,
        &[(
            "S0.196 S0.197",
            "
            set eds a=1
            d> eds +a +b
            d< eds first a=1 ?b
            d> eds ack
            set eds b=1
            d< eds changed b=1
            d> eds ack
            set eds -b
            d< eds changed -b
            d> eds ack
            d> eds +b
            d< eds resubscribed ?b
            d> eds ack +*
            d< eds resubscribed
            d> eds ack -b
            d< eds resubscribed ?b
            d> eds ack
            d> cds +x
            d< cds first -x",
        )],
    );
}
