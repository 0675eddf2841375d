//! View changes of clients with NACKs before or afterwards.
// M223 M107

use super::*;

#[test]
fn nacked_resources_are_not_kept_after_view_change() {
    run("
        == NACKed cluster is not deferred [M147 M148 M223]
        settled
        set @v cds c=9; lds l=1; rds r=9
        set cds bad=1 | < cds changed a=1 bad=1
        > cds nack
        assign 1 v    | < cds changed a=1 c=9
        > cds         | < rds changed r=9
        > rds r       | < cds changed c=9
        > cds         | <
        == cluster NACKed after the view change is not deferred [M147 M148 M223]
        settled
        set @v cds c=9; lds l=1; rds r=9
        set cds bad=1 | < cds changed a=1 bad=1
        assign 1 v    | <
        > cds nack    | < cds changed a=1 c=9
        > cds         | < rds changed r=9
        > rds r       | < cds changed c=9
        > cds         | <
        == earlier ACKed version of a NACKed cluster is kept [M147 M148 M223]
        settled
        set @v cds c=9; lds l=1; rds r=9
        set cds b=1   | < cds changed a=1 b=1
        > cds
        set cds b=bad | < cds changed a=1 b=bad
        assign 1 v    | <
        > cds nack    | < cds changed a=1 b=1 c=9
        > cds         | < rds changed r=9
        > rds r       | < cds changed c=9
        > cds         | <
        == named cluster NACKed after the view change is not deferred [M147 M148 M223]
        set cds a=1; rds r=1
        set @v cds c=9; rds r=9
        > cds a bad c      | < cds first a=1
        > cds a bad c
        > rds r            | < rds first r=1
        > rds r
        set cds bad=1      | < cds changed a=1 bad=1
        assign 1 v         | <
        > cds nack a bad c | < cds changed a=1 c=9
        > cds a bad c      | < rds changed r=9
        > rds r            | < cds changed c=9
        > cds a bad c      | <
        == first response NACKed after a second view change [M147 M148 M223]
        set @v cds bad=1; lds l=1
        set @w cds c=9; lds l=9
        > lds l
        > cds bad c
        assign 1 v       | < cds first bad=1
        assign 1 w
        > cds nack bad c | < cds changed c=9
        > cds bad c      | < lds first l=9
        == responses of the view between NACKed [M147 M148 M223]
        settled
        set @v cds a=bad bad=1; lds l=1; rds r=1
        set @w cds c=9; lds l=1; rds r=9
        assign 1 v | < cds changed a=bad bad=1
        > cds nack
        assign 1 w | < cds changed a=1 c=9
        > cds      | < rds changed r=9
        > rds r    | < cds changed c=9
        > cds      | <
        == response in flight NACKed after several view changes [M147 M148 M223]
        settled
        set @v cds a=bad bad=1; lds l=1; rds r=1
        set @w cds c=9; lds l=1; rds r=9
        assign 1 v | < cds changed a=bad bad=1
        assign 1 w
        assign 1 v
        assign 1 w
        > cds nack | < cds changed a=1 c=9
        > cds      | < rds changed r=9
        > rds r    | < cds changed c=9
        > cds      | <
        == late ACK keeps its resources [M147 M148 M223]
        settled
        set cds b=1 | < cds changed a=1 b=1
        set @v cds b=1 c=9; lds l=1; rds r=5
        set @w cds d=1; lds l=1; rds r=9
        assign 1 v
        > cds       | < cds changed a=1 b=1 c=9
        > cds nack
        assign 1 w  | < cds changed a=1 b=1 d=1
        > cds       | < rds changed r=9
        > rds r     | < cds changed d=1
        > cds       | <
        == resources requested later and NACKed twice [M147 M148 M223]
        set cds a=1 bad=1; lds l=1
        set @v cds c=9; lds l=9
        > cds a            | < cds first a=1
        > cds a
        > cds a bad        | < cds resubscribed a=1 bad=1
        > cds nack * a bad | < cds resubscribed a=1 bad=1
        > cds nack * a bad
        > lds l
        assign 1 v         | < cds changed a=1 c=9
        > cds * a bad      | < lds first l=9
        == resources set and deleted in the new view [M147 M148 M223]
        settled
        set @v cds a=bad b=1 bad=1; lds l=1; rds r=9
        assign 1 v         | < cds changed a=bad b=1 bad=1
        > cds nack
        set @v cds -a -bad | < cds changed a=1 b=1
        > cds              | < rds changed r=9
        > rds r            | < cds changed b=1
        > cds              | <
        == NACK after a stated version [M147 M148 M223]
        set cds a=1 bad=1; lds l=1
        set @v cds a=9; lds l=9
        > cds version:old a bad      | < cds first a=1 bad=1
        > lds
        > cds nack version:old a bad | <
        assign 1 v                   | < cds changed a=9
        > cds a bad                  | < lds first l=9
        == removed resources after a stated version [M147 M148 M223]
        set cds a=1 bad=1; lds l=1
        set @v cds c=9; lds l=9
        > cds version:old      | < cds first a=1 bad=1
        > lds l
        > cds nack version:old | <
        set cds -a -bad        | < lds first l=1
        assign 1 v             | < cds changed c=9
        > lds l
        > cds                  | < lds changed l=9
        ");
}

// IL1: a NACKed wildcard resource that is missing in the new view delays nothing there.
#[test]
fn nacked_resource_missing_in_new_view_blocks_nothing() {
    let mut rig = Rig::new(gated(|it| it.on_stage_timeout = StageTimeoutAction::Hold));
    rig.run(
        "
        set cds c=1; eds r=bad
        set @v cds c=2
        d> cds +c      | d< cds first c=1
        d> cds ack
        d> lds +l      | d< lds first -l
        d> lds ack
        d> eds +*      | d< eds first r=bad
        d> eds nack
        assign 1 v     | d< cds changed c=2
        d> cds ack     | d< eds changed -r
        d> eds ack
        set @v lds l=1 | d< lds changed l=1",
    );
    println!("covers: M223 M148 IL1");
}
