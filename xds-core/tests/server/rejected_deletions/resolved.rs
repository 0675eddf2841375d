//! NACKed resources that are ACKed later, or whose change is undone.

use super::run;

#[test]
fn nacked_resource_blocks_nothing_once_acked_or_undone() {
    run("
        == resource ACKed after a change [M148 M151]
        set lds l=1; cds c=1
        > lds l       | < lds first l=1
        > lds l
        > eds *
        set eds e=bad | < eds first e=bad
        > eds nack *
        > cds c       | < cds first c=1
        > cds c
        set eds e=3   | < eds changed e=3
        > eds *
        set lds l=2   | < lds changed l=2
        == resource ACKed after warming [M148 M151]
        set lds l=1; cds c=1
        > lds l         | < lds first l=1
        > lds l
        > eds e f
        set eds e=1 f=1 | < eds first e=1 f=1
        > eds nack e f  # for a temporary reason
        > cds c         | < cds first c=1
        > cds c
        set lds l=2     | <
        > eds e f       | < eds warming e=1 f=1
        > eds e f       | < lds changed l=2
        > lds l
        set eds e=2     | < eds changed e=2
        == SotW addition undone [M147 M148]
        set cds a=1; rds r=1
        > cds                  | < cds first a=1
        > cds
        > rds r                | < rds first r=1
        > rds r
        set cds b=bad; rds r=2 | < cds changed a=1 b=bad
        > cds nack             | <
        set cds -b; rds r=3    | < cds changed a=1
        > cds                  | < rds changed r=3
        == incremental addition undone [M147 M148]
        set cds a=1; rds r=1
        d> cds +*              | d< cds first a=1
        d> cds ack
        d> rds +r              | d< rds first r=1
        d> rds ack
        set cds b=bad; rds r=2 | d< cds changed b=bad
        d> cds nack            | d<
        set cds -b; rds r=3    | d< cds changed -b
        d> cds ack             | d< rds changed r=3
        == named resource removed before its NACK [M147 M148]
        set cds a=1; lds l=1
        > cds a      | < cds first a=1
        > lds l
        set cds -a
        > cds nack a | < cds changed
        > cds a      | < lds first l=1
        == wildcard resource removed before its NACK [M147 M148]
        set cds a=1; lds l=1
        > cds      | < cds first a=1
        > lds l
        set cds -a
        > cds nack | < cds changed
        > cds      | < lds first l=1
        ");
}
