//! Clients that see another view, and have rejected what they were sent, before or after (M223, M107).

use super::*;

/// What the client has rejected it does not have: to keep it would have everything rejected.
#[test]
fn what_a_moved_client_never_accepted_does_not_stay() {
    run(&[(
        "M147 M148 M223",
        settled(
            "
            set @v cds c=9; lds l=1; rds r=9
            set cds bad=1
            < cds changed a=1 bad=1
            > cds nack
            assign 1 v
            < cds changed a=1 c=9
            > cds
            < rds changed r=9
            > rds r
            < cds changed c=9
            > cds
            <
            ",
        ),
    )]);
}

/// The same if it rejects that after the move: until then it may have accepted it.
#[test]
fn what_a_moved_client_rejects_late_does_not_stay() {
    run(&[
        (
            "M147 M148 M223",
            settled(
                "
                set @v cds c=9; lds l=1; rds r=9
                set cds bad=1
                < cds changed a=1 bad=1
                assign 1 v
                <
                > cds nack
                < cds changed a=1 c=9
                > cds
                < rds changed r=9
                > rds r
                < cds changed c=9
                > cds
                <
                ",
            ),
        ),
        // What it has in an earlier form it goes on being served in that.
        (
            "M147 M148 M223",
            settled(
                "
                set @v cds c=9; lds l=1; rds r=9
                set cds b=1
                < cds changed a=1 b=1
                > cds
                set cds b=bad
                < cds changed a=1 b=bad
                assign 1 v
                <
                > cds nack
                < cds changed a=1 b=1 c=9
                > cds
                < rds changed r=9
                > rds r
                < cds changed c=9
                > cds
                <
                ",
            ),
        ),
        (
            "M147 M148 M223",
            String::from(
                "
                set cds a=1; rds r=1
                set @v cds c=9; rds r=9
                > cds a bad c
                < cds first a=1
                > cds a bad c
                > rds r
                < rds first r=1
                > rds r
                set cds bad=1
                < cds changed a=1 bad=1
                assign 1 v
                <
                > cds nack a bad c
                < cds changed a=1 c=9
                > cds a bad c
                < rds changed r=9
                > rds r
                < cds changed c=9
                > cds a bad c
                <
                ",
            ),
        ),
    ]);
}

/// The same of who has been moved before, and of who has come back with something of an earlier stream.
#[test]
fn what_a_client_never_accepted_in_any_view_does_not_stay() {
    run(&[
        // It has been sent nothing before it is moved for the first time.
        (
            "M147 M148 M223",
            String::from(
                "
                set @v cds bad=1; lds l=1
                set @w cds c=9; lds l=9
                > lds l
                > cds bad c
                assign 1 v
                < cds first bad=1
                assign 1 w
                > cds nack bad c
                < cds changed c=9
                > cds bad c
                < lds first l=9
                ",
            ),
        ),
        // Nor has it accepted anything of the view in between; what it had before it, it has in that form.
        (
            "M147 M148 M223",
            settled(
                "
                set @v cds a=bad bad=1; lds l=1; rds r=1
                set @w cds c=9; lds l=1; rds r=9
                assign 1 v
                < cds changed a=bad bad=1
                > cds nack
                assign 1 w
                < cds changed a=1 c=9
                > cds
                < rds changed r=9
                > rds r
                < cds changed c=9
                > cds
                <
                ",
            ),
        ),
        // The same if it is moved while that is on its way, and there and back.
        (
            "M147 M148 M223",
            settled(
                "
                set @v cds a=bad bad=1; lds l=1; rds r=1
                set @w cds c=9; lds l=1; rds r=9
                assign 1 v
                < cds changed a=bad bad=1
                assign 1 w
                assign 1 v
                assign 1 w
                > cds nack
                < cds changed a=1 c=9
                > cds
                < rds changed r=9
                > rds r
                < cds changed c=9
                > cds
                <
                ",
            ),
        ),
        // What it accepts late it has, and goes on being served.
        (
            "M147 M148 M223",
            settled(
                "
                set cds b=1
                < cds changed a=1 b=1
                set @v cds b=1 c=9; lds l=1; rds r=5
                set @w cds d=1; lds l=1; rds r=9
                assign 1 v
                > cds
                < cds changed a=1 b=1 c=9
                > cds nack
                assign 1 w
                < cds changed a=1 b=1 d=1
                > cds
                < rds changed r=9
                > rds r
                < cds changed d=1
                > cds
                <
                ",
            ),
        ),
        // It was there for long before the client asked for it, by its name and then with everything.
        (
            "M147 M148 M223",
            String::from(
                "
                set cds a=1 bad=1; lds l=1
                set @v cds c=9; lds l=9
                > cds a
                < cds first a=1
                > cds a
                > cds a bad
                < cds resubscribed a=1 bad=1
                > cds nack * a bad
                < cds resubscribed a=1 bad=1
                > cds nack * a bad
                > lds l
                assign 1 v
                < cds changed a=1 c=9
                > cds * a bad
                < lds first l=9
                ",
            ),
        ),
        // What the view that it sees sets, and deletes when it has rejected that, it has as it was before.
        (
            "M147 M148 M223",
            settled(
                "
                set @v cds a=bad b=1 bad=1; lds l=1; rds r=9
                assign 1 v
                < cds changed a=bad b=1 bad=1
                > cds nack
                set @v cds -a -bad
                < cds changed a=1 b=1
                > cds
                < rds changed r=9
                > rds r
                < cds changed b=1
                > cds
                <
                ",
            ),
        ),
        // What who came with something has accepted, is not known: what it rejects is not repeated.
        (
            "M147 M148 M223",
            String::from(
                "
                set cds a=1 bad=1; lds l=1
                set @v cds a=9; lds l=9
                > cds version:old a bad
                < cds first a=1 bad=1
                > lds
                > cds nack version:old a bad
                <
                assign 1 v
                < cds changed a=9
                > cds a bad
                < lds first l=9
                ",
            ),
        ),
        // Also if that is gone, so that nothing waits for it to be accepted.
        (
            "M147 M148 M223",
            String::from(
                "
                set cds a=1 bad=1; lds l=1
                set @v cds c=9; lds l=9
                > cds version:old
                < cds first a=1 bad=1
                > lds l
                > cds nack version:old
                <
                set cds -a -bad
                < lds first l=1
                assign 1 v
                < cds changed c=9
                > lds l
                > cds
                < lds changed l=9
                ",
            ),
        ),
    ]);
}

/// IL1: what a client of everything rejected, and is not there where it is moved to, holds up nothing there.
#[test]
fn what_was_rejected_before_a_move_and_is_not_there_holds_up_nothing() {
    let mut rig = Rig::new(gated(|it| it.on_stuck = OnStuck::Hold));
    rig.run(
        "
        set cds c=1; eds r=bad
        set @v cds c=2
        d> cds +c
        d< cds first c=1
        d> cds ack
        d> lds +l
        d< lds first -l
        d> lds ack
        d> eds +*
        d< eds first r=bad
        d> eds nack
        assign 1 v
        d< cds changed c=2
        d> cds ack
        d< eds changed -r
        d> eds ack
        set @v lds l=1
        d< lds changed l=1",
    );
    println!("covers: M223 M148 IL1");
}
