//! What is made of a rejected response: what is sent again, when, and what is remembered of it.

use crate::support::{Rig, run_all, run_all_with, url};
use xds_core::{
    Nonce, Version,
    server::{NackRecovery, Observation, ServerConfig, SyncState},
};

#[test]
fn nacks() {
    run_all(&[
        (
            "M52 IS4 S0.094",
            "
            set cds a=bad
            > cds
            < cds first a=bad
            > cds nack
            <
            > cds nack
            <
            > cds
            <
        ",
        ),
        (
            "M53",
            "
            set cds a=bad b=1
            > cds
            < cds first a=bad b=1
            > cds nack
            <
            set cds a=good
            < cds changed a=good b=1
            > cds
            <
        ",
        ),
        // That something else was told to be gone in the same response changes nothing.
        (
            "M107",
            "
            set eds b=bad
            d> eds +a +b +c
            d< eds first b=bad -a -c
            d> eds nack
            set eds a=1
            d< eds changed a=1 b=bad
            d> eds ack
            <
        ",
        ),
        // Under a wildcard, what went is told again: a client that refuses responses whole has it yet.
        // What was gone before a client asked for everything it never had from there.
        (
            "M107 IS11",
            "
            set cds a=1 b=1 c=1
            2d> cds +*
            2d< cds first a=1 b=1 c=1
            d> cds +a
            d< cds first a=1
            set cds -a -b -c
            set cds c=bad
            d> cds +*
            d> cds ack
            d< cds changed -a c=bad
            d> cds nack
            set cds c=2
            d< cds changed -a c=2",
        ),
        // Nor if it accepts something since that does not take along what was rejected.
        (
            "M107 IS11",
            "
            set cds b=1 c=1
            2d> cds +*
            2d< cds first b=1 c=1
            d> cds +a +b
            d< cds first b=1 -a
            d> cds ack
            set cds a=bad -b -c
            d< cds changed a=bad -b
            d> cds +*
            d> cds nack
            d< cds resubscribed a=bad
            d> cds ack
            set cds d=1
            d< cds changed a=bad d=1 -b",
        ),
        (
            "M107 IS11 M173",
            "
            set cds b=1 c=1
            2d> cds +*
            2d< cds first b=1 c=1
            d> cds +a +b
            d< cds first b=1 -a
            d> cds ack
            set cds a=bad -b -c
            d< cds changed a=bad -b
            d> cds +*
            d> cds nack
            d< cds resubscribed a=bad
            d> cds nack
            set cds !b=7
            d< cds changed !b=7
            d> cds ack
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M107 IS11",
            "
            set cds x=1 y=1
            d> cds +*
            d< cds first x=1 y=1
            d> cds ack
            set cds y=bad -x
            d< cds changed y=bad -x
            d> cds nack
            <
            set cds y=good
            d< cds changed y=good -x
            d> cds ack
            <
            set cds z=1
            d< cds changed z=1
        ",
        ),
        // Also if it was gone before, and the client has heard of that.
        (
            "M107 IS11",
            "
            set cds w=1 x=1 y=1
            d> cds +*
            d< cds first w=1 x=1 y=1
            d> cds ack
            set cds -x
            d< cds changed -x
            d> cds ack
            set cds x=bad
            d< cds changed x=bad
            d> cds nack
            set cds -w
            d< cds changed x=bad -w
            set cds -x -y
            d> cds nack
            d< cds changed -w -x -y
            d> cds ack
            d<
        ",
        ),
        // Unless that has come back; and as often as it is rejected.
        (
            "M107 IS11",
            "
            set cds w=1 x=1 y=1
            d> cds +*
            d< cds first w=1 x=1 y=1
            d> cds ack
            set cds y=bad -x -w
            d< cds changed y=bad -w -x
            d> cds nack
            set cds x=2 -y
            d< cds changed x=2 -w -y
            d> cds nack
            set cds x=3
            d< cds changed x=3 -w -y
            d> cds ack
            <
        ",
        ),
        // Or the client has been told an error since, in its place.
        (
            "M107 IS11 IS28",
            "
            set cds a=1 c=1
            d> cds +* +a
            d< cds first a=1 c=1
            d> cds ack
            set cds -a b=bad
            d< cds changed b=bad -a
            d> cds nack
            set cds !a=7
            d< cds changed !a=7
            d> cds ack
            set cds b=2
            d< cds changed b=2
            d> cds ack
            d<
        ",
        ),
        // What was bad may be the one that goes.
        (
            "M107",
            "
            set cds x=1 y=bad
            d> cds +*
            d< cds first x=1 y=bad
            d> cds nack
            <
            set cds -y
            d< cds changed x=1 -y
            d> cds ack
            <
        ",
        ),
        (
            "M52 M54 M107",
            "
            set eds x=1 y=bad z=1
            > eds x y
            < eds first x=1 y=bad
            > eds nack x y
            <
            > eds x y z              # subscribes to something else: only that
            < eds resubscribed z=1
            > eds x y z
            set eds z=2              # the first change takes the rejected ones along, once
            < eds changed x=1 y=bad z=2
            > eds nack x y z
            set eds z=3
            < eds changed z=3
        ",
        ),
        (
            "M107",
            "
            set eds x=1 y=bad z=1
            > eds *
            < eds first x=1 y=bad z=1
            > eds nack *
            <
            set eds y=good
            < eds changed x=1 y=good z=1
            > eds nack *
            set eds z=2
            < eds changed y=good z=2
            > eds nack *
            <
        ",
        ),
        (
            "M55",
            "
            set eds x=bad y=1
            > eds x
            < eds first x=bad
            > eds nack x y
            < eds resubscribed y=1
            > eds x y
            <
        ",
        ),
        (
            "M55",
            "
            set lds x=bad y=1
            > lds x
            < lds first x=bad
            > lds nack x y
            < lds resubscribed x=bad y=1
            > lds nack x y
            <
        ",
        ),
        (
            "M57",
            "
            set eds x=1
            > eds x
            < eds first x=1
            > eds version:older x
            <
            set eds x=2
            < eds changed x=2
        ",
        ),
        (
            "M31 M52",
            "
            set eds x=bad y=1
            > eds x
            < eds first x=bad
            > eds nack x
            > eds *                  # what was rejected, the client does not have
            < eds resubscribed x=bad y=1
            > eds nack *
            <
        ",
        ),
    ]);
}

/// A client that refuses responses whole lacks all of a full state in which one resource is bad. Once it drops
/// that one, the state is another one than it rejected (IS4), and is sent, since nothing else may ever be due.
#[test]
fn a_full_state_is_sent_again_without_what_was_dropped() {
    run_all(&[
        (
            "M107",
            "
            set cds x=1 y=bad
            > cds x y
            < cds first x=1 y=bad
            > cds nack x y
            <
            > cds x
            < cds recovery x=1
            > cds x
            <
            set cds x=2
            < cds changed x=2
        ",
        ),
        // The NACK itself may drop it.
        (
            "M107",
            "
            set lds x=1 y=bad
            > lds x y
            < lds first x=1 y=bad
            > lds nack x
            < lds recovery x=1
            > lds x
            <
        ",
        ),
        // It may not have been the bad one; but nothing is sent twice as it was.
        (
            "M107 IS4",
            "
            set cds x=bad y=1 z=1
            > cds x y z
            < cds first x=bad y=1 z=1
            > cds nack x y z
            > cds x y
            < cds recovery x=bad y=1
            > cds nack x y
            <
            > cds x
            < cds recovery x=bad
            > cds nack x
            <
            > cds
            <
        ",
        ),
        (
            "M107 IS4",
            "
            set cds x=bad
            > cds x nowhere
            < cds first x=bad
            > cds nack x nowhere
            > cds x
            <
        ",
        ),
        // Everything may come down to a name.
        (
            "M107 IS4",
            "
            set cds x=bad
            > cds * x
            < cds first x=bad
            > cds nack x
            <
        ",
        ),
        // What the client has it is not sent again (M48).
        (
            "M107 M48",
            "
            set cds x=1 y=bad
            > cds x
            < cds first x=1
            > cds x y
            < cds resubscribed x=1 y=bad
            > cds nack x y
            > cds x
            <
        ",
        ),
        // It is told what has gone.
        (
            "M107 M76",
            "
            set cds x=1 z=1
            > cds x z
            < cds first x=1 z=1
            > cds x z
            set cds -z y=bad
            < cds changed x=1
            > cds nack x y z
            < cds resubscribed x=1 y=bad
            > cds nack x y z
            > cds x z
            < cds recovery x=1
            > cds x z
            <
        ",
        ),
    ]);
    let minimal =
        ServerConfig::default().with_every_type(|it| it.nack_recovery = NackRecovery::Minimal);
    let script = "
        set cds x=1 y=bad
        > cds x y
        < cds first x=1 y=bad
        > cds nack x y
        > cds x
        <
    ";
    run_all_with(&minimal, &[("M54", script)]);
}

/// M54 with the other policy.
#[test]
fn minimal_recovery_sends_only_what_changed() {
    let config =
        ServerConfig::default().with_every_type(|it| it.nack_recovery = NackRecovery::Minimal);
    run_all_with(
        &config,
        &[(
            "M54",
            "
        set eds x=1 y=bad
        > eds x y
        < eds first x=1 y=bad
        > eds nack x y
        <
        set eds y=good
        < eds changed y=good
    ",
        )],
    );
}

/// M56: a NACK is what has `error_detail`, whatever its version.
#[test]
fn only_error_detail_makes_a_nack() {
    let mut rig = Rig::script("set eds x=1\n> eds x");
    let sent = rig.receive(1).expect("a response").full().clone();
    rig.observations();
    rig.run(&format!("> eds nack version:{} x", sent.version_info));
    assert_eq!(
        rig.observations(),
        [Observation::Nacked {
            stream: rig.stream(1),
            type_url: url("eds").as_str().into(),
            version: Version::from(sent.version_info.as_str()),
            nonce: Nonce::from("1"),
            code: 3,
            message: "bad".into(),
        }]
        .map(|wanted| wanted)
    );
    println!("covers: M56 B04");
}

/// M53, M233: the state of a subscription, and what is remembered of a NACK.
#[test]
fn a_nack_is_remembered_until_the_next_ack() {
    let mut rig = Rig::script("set eds x=1\n> eds x\n< eds first x=1\n> eds x\nset eds x=bad");
    let good = rig.server.status().next().and_then(|status| status.acked_version);
    rig.run("< eds changed x=bad\n> eds nack x");
    {
        let status = rig.server.status().next().expect("a subscription");
        assert_eq!(status.state, SyncState::Nacked);
        assert_eq!(status.acked_version, good);
        assert_ne!(status.sent_version, good);
        assert_eq!(status.last_error.map(|error| &**error), Some("bad"));
        assert_eq!((status.responses, status.acks, status.nacks), (2, 1, 1));
        assert_eq!(status.node_id, "node-1");
    }
    rig.run("set eds x=3\n< eds changed x=3\n> eds x");
    let status = rig.server.status().next().expect("a subscription");
    assert_eq!((status.state, status.last_error), (SyncState::Acked, None));
    assert_eq!(status.acked_version, status.sent_version);
    println!("covers: M53 M233");
}

/// A NACK after the ACK of the same response counts: the client had second thoughts.
#[test]
fn an_accepted_response_can_still_be_rejected() {
    let mut rig = Rig::script("set eds x=1\n> eds x\n< eds first x=1\n> eds x\n> eds nack x\n<");
    assert_eq!(rig.server.status().next().map(|status| status.state), Some(SyncState::Nacked));
    rig.run("> eds x\n<");
    let state = rig.server.status().next().map(|status| status.state);
    assert_eq!(
        state,
        Some(SyncState::Nacked),
        "a request that only lists names takes nothing back"
    );
}

/// What changed while the rejected state was on its way, and is as before, makes no other state of it; nor does
/// who says again that it was rejected.
#[test]
fn a_change_that_was_undone_is_none() {
    run_all(&[(
        "IS4 M106 M107",
        "> cds c e
         set cds c=1
         < cds first c=1
         set cds e=1
         > cds nack c e
         set cds -e
         <
         > cds nack c e
         <
         > cds nack c
         <
         set cds c=2
         < cds changed c=2",
    )]);
}
