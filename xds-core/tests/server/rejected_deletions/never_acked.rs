//! Resources of which the client never ACKed any version: their removal waits for nothing.

use super::run;

#[test]
fn removal_of_never_acked_resource_is_not_deferred() {
    run("
        == SotW resource removed after its NACK [M147 M148]
        set cds a=1; lds l=1
        > cds                      | < cds first a=1
        > cds
        > lds l                    | < lds first l=1
        > lds l
        set cds b=1 c=bad; lds l=2 | < cds changed a=1 b=1 c=bad
        > cds nack                 | <
        set cds -c                 | < cds changed a=1 b=1
        > cds                      | < lds changed l=2
        == named resource removed before its NACK [M147 M148]
        set cds b=1 c=bad; lds l=1
        > cds b c      | < cds first b=1 c=bad
        > lds l
        set cds -c
        > cds nack b c | < cds changed b=1
        > cds b c      | < lds first l=1
        == removed resource is not re-sent for a new name [M147 M148]
        set cds b=bad; lds l=1
        > cds * b        | < cds first b=bad
        > lds l
        set cds -b
        > cds nack * b d | < cds changed
        > cds * b d      | < lds first l=1
        == incremental resource removed after its NACK [M107 M147 M148]
        set cds a=1; lds l=1
        d> cds +*                  | d< cds first a=1
        d> cds ack
        d> lds +l                  | d< lds first l=1
        d> lds ack
        set cds b=1 c=bad; lds l=2 | d< cds changed b=1 c=bad
        d> cds nack                | d<
        set cds -c                 | d< cds changed b=1 -c
        d> cds ack                 | d< lds changed l=2
        == reported missing name is no removal [M147 M148]
        set cds a=1 b=bad; lds l=1
        2d> cds +a              | 2d< cds first a=1
        2d> cds ack
        2close
        d> cds +a +b +c has:a=1 | d< cds first b=bad -c
        d> lds +l
        d> cds nack
        set cds -b -a           | d< lds first l=1
        d> lds ack              | d< cds changed -a -b
        d> cds ack
        == resource of a stated version may be in use [M147 M148]
        set cds b=1 c=bad; lds l=1
        > cds version:old b c      | < cds first b=1 c=bad
        > lds l
        set cds -c
        > cds nack version:old b c | <
        == existing resource subscribed to and NACKed [M147 M148]
        set cds a=1 b=bad; lds l=1
        > cds a                 | < cds first a=1
        > cds a
        > lds l                 | < lds first l=1
        > lds l
        > cds a b c             | < cds resubscribed a=1 b=bad
        > cds nack a b c
        set cds -b c=1; lds l=2 | < cds changed a=1 c=1
        > cds a b c             | < lds changed l=2
        == incremental existing resource subscribed to and NACKed [M147 M148]
        set cds a=1 b=bad; lds l=1
        d> cds +a           | d< cds first a=1
        d> cds ack
        d> lds +l           | d< lds first l=1
        d> lds ack
        d> cds +b           | d< cds resubscribed b=bad
        d> cds nack
        set cds -b; lds l=2 | d< cds changed -b
        d> cds ack          | d< lds changed l=2
        == resource whose earlier removal was ACKed [M147 M148]
        set cds a=1 b=1; lds l=1
        > cds a b c             | < cds first a=1 b=1
        > cds a b c
        > lds l                 | < lds first l=1
        > lds l
        set cds -b              | < cds changed a=1
        > cds a b c
        set cds b=bad           | < cds changed a=1 b=bad
        > cds nack a b c
        set cds -b c=1; lds l=2 | < cds changed a=1 c=1
        > cds a b c             | < lds changed l=2
        == wildcard resource from before the subscription [M147 M148]
        set cds a=1 b=bad; lds l=1
        > cds a                 | < cds first a=1
        > cds a
        > lds l                 | < lds first l=1
        > lds l
        > cds *                 | < cds resubscribed a=1 b=bad
        > cds nack *
        set cds -b c=1; lds l=2 | < cds changed a=1 c=1
        > cds *                 | < lds changed l=2
        == resource ACKed by name before the wildcard may be in use [M147 M148]
        set cds a=1 b=1; lds l=1
        > cds b                 | < cds first b=1
        > cds b
        > lds l                 | < lds first l=1
        > lds l
        set cds b=bad
        > cds *                 | < cds resubscribed a=1 b=bad
        > cds nack *
        set cds -b c=1; lds l=2 | < cds changed a=1 b=1 c=1
        == resource with a NACKed removal may be in use [M147 M148]
        set cds a=1 b=1; lds l=1
        > cds a b           | < cds first a=1 b=1
        > cds a b
        > lds l             | < lds first l=1
        > lds l
        set cds -b          | < cds changed a=1
        > cds nack a b
        set cds b=2         | < cds changed a=1 b=2
        > cds nack a b
        set cds -b; lds l=2 | < lds changed l=2 | <
        > lds l             | < cds changed a=1
        == resource NACKed by name and ACKed by wildcard may be in use [M147 M148]
        set cds a=1; lds l=1
        d> cds +*           | d< cds first a=1
        d> cds ack
        d> lds +l           | d< lds first l=1
        d> lds ack
        d> cds +a           | d< cds resubscribed a=1
        d> cds nack
        set cds -a; lds l=2 | d< lds changed l=2 | d<
        d> lds ack          | d< cds changed -a
        ");
}
