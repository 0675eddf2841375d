//! Clients that see another view while something waits, or after it did (M223).

use super::*;

/// M223, M148: that one step took too long says nothing of the next one, which a move to another view is, however
/// long what is there has been there.
#[test]
fn who_is_moved_after_a_step_that_took_too_long_is_waited_for_again() {
    let config = gated(|policy| policy.on_stuck = OnStuck::Continue);
    let steps = |d: &str, (acks, again): (&str, &str), (cds, rds): (&str, &str)| {
        format!(
            "
            set cds b=2; rds r=2
            {d}< cds changed {cds}b=2
            wait 15s
            {d}< rds changed r=2         # it has not answered
            {d}> rds {again}
            {d}> cds {acks}
            assign 1 v
            {d}< cds changed {rds}
            {d}<                         # the route may lead to what it has just been sent
            {d}> cds {acks}
            {d}< rds changed r=9
            {d}<                         # nor is a cluster gone before the route that led there
            {d}> rds {again}
            "
        )
    };
    let elsewhere = "set @v cds c=9; eds a=1; lds l=1; rds r=9\n";
    let full = steps("", ("", "r"), ("a=1 ", "c=9"));
    let changes = steps("d", ("ack", "ack"), ("", "c=9"));
    let cases = [
        format!("{elsewhere}{SETTLED}{full}<"),
        format!("{elsewhere}{SETTLED_INCREMENTALLY}{changes}d< cds changed -a -b"),
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
        wait 10s
        assign 1 v
        d> cds ack
        d< cds changed c=9
        wait 14s
        d<
        wait 1s
        d< rds changed r=9
        "
    );
    run_all_with(&config, &[("M148 M223", &script)]);
}
