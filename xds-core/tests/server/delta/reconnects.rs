//! Clients that reconnect with versions, and clients that fall behind the retained deletions.

use crate::support::{Rig, run_all};
use core::time::Duration;
use xds_core::server::{CloseReason, ServerConfig, ServerLimits, ServerOutput, StatusCode};

// M116-M126: stated versions are not sent again, and removals are reported.
#[test]
fn reconnecting_client_gets_difference() {
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
        // A stated version does not hide a later error.
        (
            "M116 M171 IS28",
            "
            set eds a=1 b=1
            9d> eds +a +b
            9d< eds first a=1 b=1
            set eds !a=7
            d> eds +a +b has:a=1 has:b=1
            d< eds first !a=7
            d> eds ack
            set eds a=1
            d< eds changed a=1",
        ),
        // Stated resources may also be named, before or after the wildcard.
        (
            "M116 M118 IS13",
            "
            set cds a=1 b=1 c=1 d=1
            9d> cds
            9d< cds first a=1 b=1 c=1 d=1
            d> cds +* +a +b has:a=1 has:b@old has:c=1
            d< cds first b=1 d=1
            2d> cds +a +b +* has:a=1 has:b@old has:c=1
            2d< cds first b=1 d=1
            3d> cds +* +a has:a=1
            3d< cds first b=1 c=1 d=1
            3d> cds ack
            set cds a=2
            3d< cds changed a=2",
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

// IC8: a reconnecting client states subscriptions and their versions, which together are no more
// names than before.
#[test]
fn reconnect_with_versions_of_all_names_stays_within_limit() {
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

// M231: deletions are retained for slow clients up to a limit; a client beyond it is closed and
// gets the difference when it reconnects.
#[test]
fn client_behind_retained_deletions_is_closed() {
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

// M231: deletions are also retained for a limited time only.
#[test]
fn client_behind_retention_time_is_closed() {
    let mut limits = ServerLimits::default();
    limits.deletion_retention = Some(Duration::from_secs(80));
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run(
        "
        set cds a=1 b=1 c=1
        d> cds
        d< cds first a=1 b=1 c=1
        2d> cds
        2d< cds first a=1 b=1 c=1
        2d> cds ack
        set cds -a
        2d< cds changed -a
        2d> cds ack
        wait 50s
        set cds -b
        2d< cds changed -b
        2d> cds ack
        wait 39s
        open",
    );
    rig.run("wait 1s");
    let (behind, up_to_date) = (rig.stream(1), rig.stream(2));
    let effects = rig.effects();
    assert!(effects.contains(&ServerOutput::Close(behind, CloseReason::Behind)));
    assert!(!effects.contains(&ServerOutput::Close(up_to_date, CloseReason::Behind)));
    // One of the two deletions had not been sent to it.
    assert_eq!(rig.server.stats().discarded_deletions, 1);
    rig.run(
        "
        3d> cds has:a=1 has:b=1 has:c=1
        3d< cds first -a -b
        3d> cds ack
        wait 50s",
    );
    assert_eq!(rig.server.stats().names, 1, "what everybody was told is forgotten as well");
    assert_eq!(rig.server.poll_timeout(), None, "there is nothing to wait for any more");
    println!("covers: M231 M243");
}

// M231: a client that keeps up is not behind when many resources are deleted at once.
#[test]
fn bulk_deletion_closes_only_clients_already_behind() {
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
