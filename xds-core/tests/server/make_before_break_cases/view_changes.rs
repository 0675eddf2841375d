//! View changes while updates wait, or afterwards.
// M223 M147 IS18

use xds_core::server::OnDemand;

use super::*;

// M223, M148: a timeout of one step does not apply to the next one, such as a view change.
#[test]
fn view_change_after_timeout_waits_again() {
    let config = gated(|policy| policy.on_stage_timeout = StageTimeoutAction::Continue);
    let steps = |d: &str, (acks, again): (&str, &str), (kept, both, lost): (&str, &str, &str)| {
        format!(
            "
            set cds b=2; rds r=2 | {d}< cds changed {kept}b=2
            wait 5s              | {d}< rds changed r=2  # unanswered
            {d}> rds {again}
            {d}> cds {acks}
            # the route may reference the new cluster
            assign 1 v           | {d}< cds changed {both}c=9 | {d}<
            # clusters are removed after the routes to them
            {d}> cds {acks}      | {d}< rds changed r=9 | {d}<
            {d}> rds {again}     | {d}< cds changed {lost}
            {d}> cds {acks}      | {d}<
            "
        )
    };
    let other_view = "set @v cds c=9; eds a=1; lds l=1; rds r=9\n";
    let full = steps("", ("", "r"), ("a=1 ", "a=1 b=2 ", "c=9"));
    let changes = steps("d", ("ack", "ack"), ("", "", "-a -b"));
    let cases =
        [format!("{other_view}{SETTLED}{full}"), format!("{other_view}{SETTLED_DELTA}{changes}")];
    for script in &cases {
        run_all_with(&config, &[("M148 M223 M147", script)]);
    }
}

// The client has not waited longer in the new view than since the change.
#[test]
fn view_change_restarts_stage_timeout() {
    let config = gated(|policy| policy.on_stage_timeout = StageTimeoutAction::Continue);
    let script = format!(
        "set @v cds c=9; eds a=1; lds l=1; rds r=9
        {SETTLED_DELTA}
        set cds b=2; rds r=2 | d< cds changed b=2
        wait 4s
        assign 1 v
        d> cds ack           | d< cds changed c=9
        wait 4s              | d<
        wait 1s              | d< rds changed r=9
        "
    );
    run_all_with(&config, &[("M148 M223", &script)]);
}

// The answer in the new view tells whether the client still has the resource.
#[test]
fn unanswered_removal_is_followed_into_another_view() {
    run("
        == the client accepts it [M147 M223 IS11]
        set cds a=1 b=1
        set @v cds b=1
        d> cds +*  | d< cds first a=1 b=1
        d> cds ack
        set cds -a | d< cds changed -a
        assign 1 v | d<
        d> cds ack | d<
        == the client names the resource and accepts its removal [M147 M223 IS11]
        set cds a=1 b=1
        set @v cds b=1
        d> cds +a +b | d< cds first a=1 b=1
        d> cds ack
        set cds -a   | d< cds changed -a
        assign 1 v   | d<
        d> cds ack   | d<
        set @v cds a=2 | d< cds changed a=2
        == the client rejects it [M107 M147 M223]
        set cds a=1 b=1
        set @v cds b=1
        d> cds +*      | d< cds first a=1 b=1
        d> cds ack
        set cds -a     | d< cds changed -a
        assign 1 v     | d<
        d> cds nack    | d<
        set @v cds b=2 | d< cds changed b=2 -a
        d> cds ack     | d<
        == the resource comes back before the answer [M147 M223]
        set cds a=1 b=1
        set @v cds b=1
        d> cds +*      | d< cds first a=1 b=1
        d> cds ack
        set cds -a     | d< cds changed -a
        assign 1 v     | d<
        set @v cds a=3
        d> cds ack     | d< cds changed a=3
        d> cds ack     | d<
        ");
}

#[test]
fn unanswered_removal_is_followed_while_a_source_is_asked_for_the_name() {
    let mut config = gated(|_| {});
    config.on_demand = OnDemand::Notify;
    let script = "
        set cds a=1 b=1
        set @v cds b=1
        d> cds +a +b   | d< cds first a=1 b=1
        d> cds ack
        set cds -a     | d< cds changed -a
        assign 1 v     | d<
        wanted cds a
        d> cds nack    | d<
        set @v cds b=2 | d< cds changed b=2 -a
        d> cds ack     | d<
        ";
    run_all_with(&config, &[("M107 M147 M223", script)]);
}

#[test]
fn view_change_defers_removals_and_awaits_eds() {
    run("
        == missing cluster stays until routes are ACKed [M147 M223]
        set @v cds c=9; lds l=1; rds r=9
        settled
        assign 1 v | < cds changed a=1 c=9 | <
        > cds      | < rds changed r=9 | <
        > rds r    | < cds changed c=9
        > cds      | <
        == deferred clusters with changes of the new view [M147 M149 M223]
        set @v cds c=9; lds l=1; rds r=9
        settled
        assign 1 v          | < cds changed a=1 c=9
        > cds               | < rds changed r=9
        set @v cds c=10 d=1 | < cds changed a=1 c=10 d=1
        > cds               | <
        set @v cds a=5      | < cds changed a=5 c=10 d=1  # a new version
        > rds r
        > cds               | <
        set @v cds -a       | < cds changed c=10 d=1
        == nothing earlier to send [M147 M223]
        settled
        set cds a2=1 | < cds changed a=1 a2=1
        > cds
        set @v cds a2=1; lds l=1; rds r=9
        assign 1 v   | < rds changed r=9 | <
        > rds r      | < cds changed a2=1
        > cds        | <
        == named cluster stays until routes are ACKed [M147 M223]
        set cds a=1; rds r=1
        set @v cds c=9; rds r=9
        > cds a c  | < cds first a=1
        > cds a c
        > rds r    | < rds first r=1
        > rds r
        assign 1 v | < cds changed a=1 c=9
        > cds a c  | < rds changed r=9 | <
        > rds r    | < cds changed c=9
        > cds a c  | <
        == second view change before any response [M147 M223]
        set @v cds a=1 c=9; eds a=1; lds l=1; rds r=9
        set @w cds d=1; eds a=1; lds l=1; rds r=7
        settled
        assign 1 v
        assign 1 w | < cds changed a=1 d=1
        > cds      | < rds changed r=7
        > rds r    | < cds changed d=1
        == second view change after a response of the first [M147 M223]
        set @v cds a=1 c=9; eds a=1; lds l=1; rds r=9
        set @w cds d=1; eds a=1; lds l=1; rds r=7
        settled
        set cds -a b=1; rds r=2 | < cds changed a=1 b=1
        > cds                   | < rds changed r=2
        assign 1 v
        > rds r                 | < cds changed a=1 b=1 c=9
        assign 1 w
        > cds                   | < cds changed a=1 b=1 c=9 d=1
        > cds                   | < rds changed r=7
        > rds r                 | < cds changed d=1
        > cds                   | <
        == resource deleted in the view between [M147 M223]
        set @v cds a=1 c=9; eds a=1; lds l=1; rds r=9
        set @w cds d=1; eds a=1; lds l=1; rds r=7
        settled
        assign 1 v
        set @v cds -a
        assign 1 w | < cds changed a=1 d=1
        > cds      | < rds changed r=7
        > rds r    | < cds changed d=1
        == views between do not matter [M147 M223]
        set @v cds a=1 c=9; eds a=1; lds l=1; rds r=9
        set @w cds d=1; eds a=1; lds l=1; rds r=7
        settled
        set @alike cds a=1; eds a=1; lds l=1; rds r=1
        set @w rds r=1
        assign 1 w
        assign 1 alike | <
        == EDS request for clusters of the previous view is awaited [M146 M151 M223 IS17]
        set cds a=eds; eds a=1 x=1; lds l=1
        set @v cds a=eds; eds a=1 x=1; lds l=2
        > eds x        | < eds first x=1
        > eds x
        > cds
        > lds          | < cds first a=eds
        assign 1 v
        > cds
        set @v cds b=1 | < cds changed a=eds b=1
        > cds          | <
        > eds a x      | < eds resubscribed a=1 x=1 | <
        > eds a x      | < lds first l=2
        > lds          | <
        == unchanged clusters need no EDS request [M146 M151 M223]
        set cds a=eds; eds a=1; lds l=1
        set @v cds a=eds b=1; eds a=1; lds l=2
        > cds      | < cds first a=eds
        > cds
        > eds a    | < eds first a=1
        > eds a
        > lds      | < lds first l=1
        > lds
        assign 1 v | < cds changed a=eds b=1
        > cds      | < lds changed l=2
        > lds      | <
        ");
}

// IS7: a subscription to a resource with a deferred removal is answered right after the view
// change.
#[test]
fn subscription_to_deferred_removal_is_answered_after_view_change() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set eds r=1
        9d> eds +*        | 9d< eds first r=1
        set cds c=1; eds -r
        set @v cds c=2
        d> cds +c
        d> eds +* has:r=1 | d< cds first c=1 | d< eds first
        d> eds +r
        assign 1 v
        d> eds ack        | d<
        d> cds ack        | d< cds changed c=2 | d<
        d> cds ack        | d< eds changed -r
        d> eds ack        | d<",
    );
    println!("covers: M223 M148 IS7");
}
