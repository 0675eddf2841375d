//! What a client rejected and has accepted since, or what is as it was before.

use super::gated;
use crate::support::run_all_with;

/// What was rejected is sent again when clusters are warmed, and may be accepted then.
#[test]
fn a_rejected_resource_that_is_accepted_for_another_reason_holds_up_nothing() {
    run_all_with(
        &gated(),
        &[
            (
                "M148 M151",
                "
                set lds l=1; cds c=1
                > lds l
                < lds first l=1
                > lds l
                > eds *
                set eds e=bad
                < eds first e=bad
                > eds nack *
                > cds c
                < cds first c=1
                > cds c
                set eds e=3
                < eds changed e=3
                > eds *
                set lds l=2
                < lds changed l=2
                ",
            ),
            (
                "M148 M151",
                "
                set lds l=1; cds c=1
                > lds l
                < lds first l=1
                > lds l
                > eds e f
                set eds e=1 f=1
                < eds first e=1 f=1
                > eds nack e f           # it has no room for these now
                > cds c
                < cds first c=1
                > cds c
                set lds l=2
                <
                > eds e f
                < eds warming e=1 f=1
                > eds e f
                < lds changed l=2
                > lds l
                set eds e=2
                < eds changed e=2
                ",
            ),
        ],
    );
}

/// Who takes a change back takes back what waits for it, too.
#[test]
fn a_rejected_change_that_is_taken_back_holds_up_nothing() {
    run_all_with(
        &gated(),
        &[
            (
                "M147 M148",
                "
                set cds a=1; rds r=1
                > cds
                < cds first a=1
                > cds
                > rds r
                < rds first r=1
                > rds r
                set cds b=bad; rds r=2
                < cds changed a=1 b=bad
                > cds nack
                <
                set cds -b; rds r=3
                < cds changed a=1
                > cds
                < rds changed r=3
                ",
            ),
            (
                "M147 M148",
                "
                set cds a=1; rds r=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> rds +r
                d< rds first r=1
                d> rds ack
                set cds b=bad; rds r=2
                d< cds changed b=bad
                d> cds nack
                d<
                set cds -b; rds r=3
                d< cds changed -b
                d> cds ack
                d< rds changed r=3
                ",
            ),
            // While it was on its way.
            (
                "M147 M148",
                "
                set cds a=1; lds l=1
                > cds a
                < cds first a=1
                > lds l
                set cds -a
                > cds nack a
                < cds changed
                > cds a
                < lds first l=1
                ",
            ),
            (
                "M147 M148",
                "
                set cds a=1; lds l=1
                > cds
                < cds first a=1
                > lds l
                set cds -a
                > cds nack
                < cds changed
                > cds
                < lds first l=1
                ",
            ),
        ],
    );
}
