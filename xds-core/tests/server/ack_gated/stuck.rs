//! Clients that reject, do not answer, or do not ask for what they are expected to (M148, IS17).

use super::*;

#[test]
fn a_step_that_is_rejected_or_not_answered_is_reported_and_held() {
    let (changes, deletions) = (HeldBack::Changes, HeldBack::Deletions);
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&settled("set cds b=1; rds r=2\n< cds changed a=1 b=1\nwait 4s"));
    assert_eq!(held(&mut rig), []);
    rig.run("wait 1s\n<");
    let unanswered = ("rds".into(), changes, "cds".into(), HeldBy::Unanswered);
    assert_eq!(held(&mut rig), [unanswered]);
    rig.run("wait 60s\n<");
    assert_eq!(held(&mut rig), [], "said once");
    rig.run(
        "
        > cds nack
        <
        set rds r=3
        wait 60s
        <
        set cds b=2
        < cds changed a=1 b=2
        > cds
        < rds changed r=3
        ",
    );
    assert_eq!(held(&mut rig), []);
    rig.run("> rds r\nset cds b=3; lds l=2\n< cds changed a=1 b=3\n> cds nack\nwait 5s\n<");
    assert_eq!(held(&mut rig), [("lds".into(), changes, "cds".into(), HeldBy::Rejected)]);

    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&settled("set cds -a; rds r=2\n< rds changed r=2\n> rds nack r\nwait 5s\n<"));
    assert_eq!(held(&mut rig), [("cds".into(), deletions, "rds".into(), HeldBy::Rejected)]);
    rig.run("set rds r=3\n< rds changed r=3\n> rds r\n< cds changed");
    println!("covers: M148");
}

/// What was rejected as it was at last, and is deleted, is served as the client has it until that may be told: repeated,
/// it would be rejected for ever with everything beside it.
#[test]
fn what_was_rejected_and_is_deleted_holds_up_nothing() {
    run(&[
        (
            "M147 M148",
            settled(
                "
                set cds b=1
                < cds changed a=1 b=1
                > cds
                set cds b=bad
                < cds changed a=1 b=bad
                > cds nack
                set cds -b a=2; rds r=2
                < cds changed a=2 b=1
                > cds
                < rds changed r=2
                > rds r
                < cds changed a=2
                > cds
                <
                ",
            ),
        ),
        // Also if it is deleted before the answer comes.
        (
            "M147 M148",
            settled(
                "
                set cds b=1
                < cds changed a=1 b=1
                > cds
                set cds b=bad
                < cds changed a=1 b=bad
                set cds -b a=2; rds r=2
                <
                > cds nack
                < cds changed a=2 b=1
                > cds
                < rds changed r=2
                > rds r
                < cds changed a=2
                > cds
                <
                ",
            ),
        ),
        (
            "M147 M148",
            String::from(
                "
                set cds a=1 b=1; rds r=1
                > cds a b
                < cds first a=1 b=1
                > cds a b
                > rds r
                < rds first r=1
                > rds r
                set cds b=bad
                < cds changed a=1 b=bad
                set cds -b a=2; rds r=2
                <
                > cds nack a b
                < cds changed a=2 b=1
                > cds a b
                < rds changed r=2
                > rds r
                < cds changed a=2
                > cds a b
                <
                ",
            ),
        ),
    ]);
}

#[test]
fn or_it_goes_on() {
    let mut rig = Rig::new(gated(|policy| policy.on_stuck = OnStuck::Continue));
    rig.run(&settled(
        "
        set cds -a b=1; rds r=2
        < cds changed a=1 b=1
        > cds nack
        <
        wait 5s
        < rds changed r=2
        < cds changed b=1            # nor does it stay any longer
        > rds r
        > cds
        set cds c=1; rds r=3
        < cds changed b=1 c=1
        wait 4s
        <                            # the next change waits again
        wait 1s
        < rds changed r=3
        ",
    ));
    let held = held(&mut rig);
    assert_eq!(held.len(), 2, "{held:?}");
    println!("covers: M148");
}

/// IS17: a client is not waited for for ever that does not ask for what the server would expect, even
/// where what is rejected holds.
#[test]
fn a_client_that_does_not_ask_is_waited_for_once() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set cds a=eds; eds a=1 z=1; rds r=1
        > cds
        < cds first a=eds
        > cds
        > eds z                      # it asks for endpoints, but not for these
        < eds first z=1
        > eds z
        > rds r
        <
        wait 5s
        < rds first r=1
        > rds r
        ",
    );
    let not_asked = |name: &str| {
        (String::from("rds"), HeldBack::Changes, String::from("eds"), HeldBy::NotAsked(name.into()))
    };
    assert_eq!(held(&mut rig), [not_asked("a")]);
    rig.run(
        "
        set cds c=eds; eds c=1; rds r=2
        < cds changed a=eds c=eds
        > cds
        > eds z
        < eds warming z=1
        > eds z
        <                            # it may ask for what is new
        wait 5s
        < rds changed r=2
        > rds r
        <
        ",
    );
    assert_eq!(held(&mut rig), [not_asked("c")]);
    println!("covers: IS17 M150 M148");
}

/// The time may run out while something else is waited for than in the end.
#[test]
fn a_client_that_answers_too_late_is_still_waited_for_once_to_ask() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set cds a=eds; eds a=1 z=1; lds l=1
        > lds l
        < lds first l=1
        > lds l
        > eds z
        < eds first z=1
        > eds z
        > cds a
        < cds first a=eds
        > cds a
        set lds l=2
        <
        wait 4s
        set cds a=eds:a
        < cds changed a=eds:a
        set lds l=3
        wait 1s                      # now it is the answer that is waited for
        > cds a
        <
        wait 5s
        < lds changed l=3
        > lds l
        ",
    );
    println!("covers: IS17 M150");
}

#[test]
fn heartbeats_do_not_begin_the_wait_anew() {
    let mut rig = Rig::new(patient());
    rig.run(
        "
        set lds k~10s=1
        td> lds +k +l
        td< lds first k~10s=1 -l
        td> lds ack
        set cds a=eds; eds a=1 z=1
        td> eds +z
        td< eds first z=1
        td> eds ack
        td> cds +a
        td< cds first a=eds
        td> cds ack
        wait 1s
        set lds l=1
        td<
        wait 4s
        td< lds heartbeat k~10s
        td> lds ack
        wait 5s
        td< lds heartbeat k~10s
        td> lds ack
        wait 5s
        td< lds heartbeat k~10s
        td> lds ack
        wait 1s
        td< lds changed l=1
        td> lds ack
        ",
    );
    println!("covers: IS17 M148 M150");
}

/// Who asks for everything again while that has to wait is told of what it has.
#[test]
fn what_is_to_come_again_is_renewed_meanwhile() {
    let mut rig = Rig::new(patient());
    rig.run(
        "
        set cds c=1; lds l~10s=1
        td> cds +*
        td< cds first c=1
        td> cds ack
        td> lds +*
        td< lds first l~10s=1
        td> lds ack
        set cds c=2; lds m=1
        td< cds changed c=2
        td> lds +*
        td<
        wait 5s
        td< lds heartbeat l~10s
        td> lds ack
        td<
        td> cds ack
        td< lds changed l~10s=1 m=1
        td> lds ack
        td<
        ",
    );
    println!("covers: IS27 M161 M163");
}

/// But not of what it has rejected, and so does not have.
#[test]
fn what_was_rejected_is_not_renewed_before_it_comes_again() {
    let mut rig = Rig::new(patient());
    rig.run(
        "
        set cds c=1; lds l~10s=1
        td> cds +*
        td< cds first c=1
        td> cds ack
        td> lds +*
        td< lds first l~10s=1
        set cds c=2; lds m=1
        td< cds changed c=2
        td> lds +*
        td> lds nack
        wait 5s
        td<
        ",
    );
    println!("covers: IS27 M167");
}

/// What is renewed is not new: who has not asked for its endpoints is not waited for anew.
#[test]
fn nor_do_they_where_it_is_asking_that_is_waited_for() {
    let renewed = "
        t< cds heartbeat a~20s=eds b=eds
        t> cds a b
    ";
    let script = format!(
        "
        set cds a~20s=eds b=eds; eds b=1; lds l=1
        t> lds l
        t< lds first l=1
        t> lds l
        t> cds
        t< cds first a~20s=eds b=eds
        t> cds a b
        t< cds resubscribed a~20s=eds b=eds
        t> cds a b
        t> eds a
        set lds l=2
        t<
        wait 10s
        {renewed}
        wait 5s
        t<                           # now it may have to ask again for what it has
        wait 5s
        {renewed}
        wait 9s
        t<
        wait 1s
        t< lds changed l=2
        {renewed}
        "
    );
    run_all_with(&patient(), &[("IS17 M148 M150", &script)]);
}

#[test]
fn a_stuck_client_delays_only_itself() {
    let script = format!(
        "{SETTLED}
        2> cds
        2< cds first a=1
        2> cds
        2> rds r
        2< rds first r=1
        2> rds r
        set cds -a b=1; rds r=2
        < cds changed a=1 b=1
        2< cds changed a=1 b=1
        2> cds
        2< rds changed r=2
        2> rds r
        2< cds changed b=1
        2> cds
        <                        # the first has not answered yet
        set rds r=3
        2< rds changed r=3
        > cds
        < rds changed r=3        # the newest, once
        > rds r
        < cds changed b=1
        "
    );
    run_all_with(&gated(|_| ()), &[("IS25 M147", &script)]);
}

#[test]
fn rejected_resources_hold_what_depends_on_them_until_they_are_accepted() {
    let script = settled_incrementally(
        "
        set cds b=bad; rds r=2
        d< cds changed b=bad
        d> cds nack
        d<
        d> cds +a                # an answer to something else does not make up for it
        d< cds resubscribed a=1
        d> cds ack
        d<
        set cds b=2
        d< cds changed b=2
        d> cds ack
        d< rds changed r=2
        ",
    );
    let mut config = gated(|_| ());
    config.type_defaults.full_state.nack_recovery = NackRecovery::ResendBatch;
    config.type_defaults.others.nack_recovery = NackRecovery::ResendBatch;
    run_all_with(&config, &[("M148", &script)]);
}

/// What the client is known to reject holds what depends on it, however well the rest went.
#[test]
fn a_culprit_holds_what_depends_on_it_until_its_successor_is_accepted() {
    let script = settled_incrementally(
        "
        set cds b=1 c=bad; rds r=2
        d< cds changed b=1 c=bad
        d> cds nack
        d< cds recovery b=1
        d> cds ack
        d< cds recovery c=bad
        d> cds nack
        d<
        set cds c=2
        d< cds changed c=2
        d> cds ack
        d< rds changed r=2
        ",
    );
    let config = gated(|_| ()).with_every_type(|it| it.nack_recovery = NackRecovery::Isolate);
    run_all_with(&config, &[("M148 M108", &script)]);
}

/// What was rejected for good and has changed since the client lacks until it has accepted that.
#[test]
fn what_was_rejected_twice_holds_what_depends_on_it_until_its_successor_is_accepted() {
    let script = settled_incrementally(
        "
        set cds b=bad; rds r=2
        d< cds changed b=bad
        d> cds nack
        set cds c=1
        d< cds changed b=bad c=1
        d> cds nack
        set cds e=1
        d< cds changed c=1 e=1
        d> cds ack
        d<
        set cds b=2
        d< cds changed b=2
        d<
        d> cds ack
        d< rds changed r=2
        ",
    );
    run_all_with(&gated(|_| ()), &[("M148 M107", &script)]);
}

/// Who was never sent a cluster in any form lacks it for all that has led to it since there is one, also if what it
/// rejected is younger than that.
#[test]
fn what_was_rejected_holds_what_depends_on_what_was_there_before_and_never_sent() {
    let script = settled_incrementally(
        "
        set cds x=1
        d< cds changed x=1
        set cds b=1; rds r=2         # while that is on its way
        set cds b=bad
        d> cds ack
        d< cds changed b=bad
        d> cds nack
        set cds c=1
        d< cds changed b=bad c=1
        d> cds nack
        set cds e=1
        d< cds changed c=1 e=1
        d> cds ack
        d<
        set cds b=2
        d< cds changed b=2
        d> cds ack
        d< rds changed r=2
        ",
    );
    run_all_with(&gated(|_| ()), &[("M146 M148", &script)]);
}

/// What is forgiven as soon as it is rejected, since it has gone, was not accepted all the same.
#[test]
fn who_rejects_endpoints_that_have_gone_waits_for_those_that_come_after_them() {
    let mut rig = Rig::new(gated(|policy| policy.references = None));
    rig.run(
        "
        set cds a=1; eds a=1; rds r=1
        > cds
        < cds first a=1
        > cds
        > eds a
        > rds r
        < eds first a=1
        set eds -a
        > eds nack a
        set eds a=2
        < eds changed a=2
        <
        > eds a
        < rds first r=1
        ",
    );
    println!("covers: M146 M148");
}
