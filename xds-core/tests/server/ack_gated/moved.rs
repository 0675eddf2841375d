//! Clients that see another view while something waits, or after it did (M223).

use super::*;

/// M223, M148: that one step took too long says nothing of the next one, which a move to another view is, however
/// long what is there has been there.
#[test]
fn who_is_moved_after_a_step_that_took_too_long_is_waited_for_again() {
    let config = gated(|policy| policy.on_stuck = OnStuck::Continue);
    let steps = |d: &str, (acks, again): (&str, &str), (kept, both, lost): (&str, &str, &str)| {
        format!(
            "
            set cds b=2; rds r=2
            {d}< cds changed {kept}b=2
            wait 5s
            {d}< rds changed r=2         # it has not answered
            {d}> rds {again}
            {d}> cds {acks}
            assign 1 v
            {d}< cds changed {both}c=9
            {d}<                         # the route may lead to what it has just been sent
            {d}> cds {acks}
            {d}< rds changed r=9
            {d}<                         # nor is a cluster gone before the route that led there
            {d}> rds {again}
            {d}< cds changed {lost}
            {d}> cds {acks}
            {d}<
            "
        )
    };
    let elsewhere = "set @v cds c=9; eds a=1; lds l=1; rds r=9\n";
    let full = steps("", ("", "r"), ("a=1 ", "a=1 b=2 ", "c=9"));
    let changes = steps("d", ("ack", "ack"), ("", "", "-a -b"));
    let cases = [
        format!("{elsewhere}{SETTLED}{full}"),
        format!("{elsewhere}{SETTLED_INCREMENTALLY}{changes}"),
    ];
    for script in &cases {
        run_all_with(&config, &[("M148 M223 M147", script)]);
    }
}

/// Nor has the client waited any longer in the view that it is moved to.
#[test]
fn the_wait_for_a_step_begins_when_the_client_is_moved() {
    let config = gated(|policy| policy.on_stuck = OnStuck::Continue);
    let script = format!(
        "set @v cds c=9; eds a=1; lds l=1; rds r=9
        {SETTLED_INCREMENTALLY}
        set cds b=2; rds r=2
        d< cds changed b=2
        wait 4s
        assign 1 v
        d> cds ack
        d< cds changed c=9
        wait 4s
        d<
        wait 1s
        d< rds changed r=9
        "
    );
    run_all_with(&config, &[("M148 M223", &script)]);
}

/// M147, IS18: in full state, too, nothing lingers over a move less than over a deletion.
#[test]
fn what_the_other_view_does_not_have_stays_until_the_routes_are_new() {
    let elsewhere = "set @v cds c=9; lds l=1; rds r=9\n";
    let moved = "
        assign 1 v
        < cds changed a=1 c=9
        <
        > cds
        < rds changed r=9
        <
        > rds r
        < cds changed c=9
        > cds
        <
    ";
    let cases = [
        ("M147 M223", format!("{elsewhere}{SETTLED}{moved}")),
        // It may be sent changes of both meanwhile.
        (
            "M147 M149 M223",
            format!(
                "{elsewhere}{SETTLED}
                assign 1 v
                < cds changed a=1 c=9
                > cds
                < rds changed r=9
                set @v cds c=10 d=1
                < cds changed a=1 c=10 d=1
                > cds
                <
                set @v cds a=5           # and this is another one
                < cds changed a=5 c=10 d=1
                > rds r
                > cds
                <
                set @v cds -a
                < cds changed c=10 d=1
                "
            ),
        ),
        // There is nothing new of which it could be told sooner.
        (
            "M147 M223",
            format!(
                "{SETTLED}
                set cds a2=1
                < cds changed a=1 a2=1
                > cds
                set @v cds a2=1; lds l=1; rds r=9
                assign 1 v
                < rds changed r=9
                <
                > rds r
                < cds changed a2=1
                > cds
                <
                "
            ),
        ),
    ];
    for (covers, script) in &cases {
        run_all_with(&gated(|_| ()), &[(*covers, script)]);
    }
}

/// What is subscribed by name stays as well.
#[test]
fn named_clusters_stay_until_the_routes_are_new() {
    run(&[(
        "M147 M223",
        String::from(
            "
            set cds a=1; rds r=1
            set @v cds c=9; rds r=9
            > cds a c
            < cds first a=1
            > cds a c
            > rds r
            < rds first r=1
            > rds r
            assign 1 v
            < cds changed a=1 c=9
            > cds a c
            < rds changed r=9
            <
            > rds r
            < cds changed c=9
            > cds a c
            <
            ",
        ),
    )]);
}

/// Who is moved on before it has been sent anything has what it had.
#[test]
fn what_stays_goes_along_from_view_to_view() {
    let elsewhere = "
        set @v cds a=1 c=9; eds a=1; lds l=1; rds r=9
        set @w cds d=1; eds a=1; lds l=1; rds r=7
    ";
    run(&[
        (
            "M147 M223",
            format!(
                "{elsewhere}{SETTLED}
                assign 1 v
                assign 1 w
                < cds changed a=1 d=1
                > cds
                < rds changed r=7
                > rds r
                < cds changed d=1
                "
            ),
        ),
        // It may be told of the view in between, and what lingered before lingers on.
        (
            "M147 M223",
            format!(
                "{elsewhere}{SETTLED}
                set cds -a b=1; rds r=2
                < cds changed a=1 b=1
                > cds
                < rds changed r=2
                assign 1 v
                > rds r
                < cds changed a=1 b=1 c=9
                assign 1 w
                > cds
                < cds changed a=1 b=1 c=9 d=1
                > cds
                < rds changed r=7
                > rds r
                < cds changed d=1
                > cds
                <
                "
            ),
        ),
        // In the view in between it was deleted.
        (
            "M147 M223",
            format!(
                "{elsewhere}{SETTLED}
                assign 1 v
                set @v cds -a
                assign 1 w
                < cds changed a=1 d=1
                > cds
                < rds changed r=7
                > rds r
                < cds changed d=1
                "
            ),
        ),
        // Whatever it was to see in between, it has just what is there.
        (
            "M147 M223",
            format!(
                "{elsewhere}{SETTLED}
                set @alike cds a=1; eds a=1; lds l=1; rds r=1
                set @w rds r=1
                assign 1 w
                assign 1 alike
                <
                "
            ),
        ),
    ]);
}

/// What it was sent in the other view it may have to ask for the endpoints of yet.
#[test]
fn a_moved_client_is_waited_for_with_what_it_was_sent_before() {
    run(&[(
        "M146 M151 M223 IS17",
        String::from(
            "
            set cds a=eds; eds a=1 x=1; lds l=1
            set @v cds a=eds; eds a=1 x=1; lds l=2
            > eds x
            < eds first x=1
            > eds x
            > cds
            > lds
            < cds first a=eds
            assign 1 v
            > cds
            set @v cds b=1
            < cds changed a=eds b=1
            > cds
            <
            > eds a x
            < eds resubscribed a=1 x=1
            <
            > eds a x
            < lds first l=2
            > lds
            <
            ",
        ),
    )]);
}

/// But not for what it does not take as new.
#[test]
fn a_moved_client_is_not_asked_about_what_it_has() {
    run(&[(
        "M146 M151 M223",
        String::from(
            "
            set cds a=eds; eds a=1; lds l=1
            set @v cds a=eds b=1; eds a=1; lds l=2
            > cds
            < cds first a=eds
            > cds
            > eds a
            < eds first a=1
            > eds a
            > lds
            < lds first l=1
            > lds
            assign 1 v
            < cds changed a=eds b=1
            > cds
            < lds changed l=2
            > lds
            <
            ",
        ),
    )]);
}

/// IS7: who has asked by name for what was to be told gone, and could not be yet, is told after the move, at once.
#[test]
fn a_question_about_what_lingers_is_answered_after_a_move() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set eds r=1
        9d> eds +*
        9d< eds first r=1
        set cds c=1; eds -r
        set @v cds c=2
        d> cds +c
        d> eds +* has:r=1
        d< cds first c=1
        d< eds first
        d> eds +r
        assign 1 v
        d> eds ack
        d< eds changed -r
        d> eds ack
        d> cds ack
        d< cds changed c=2",
    );
    println!("covers: M223 M148 IS7");
}
