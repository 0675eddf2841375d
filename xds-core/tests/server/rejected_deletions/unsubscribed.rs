//! NACKed resources that are unsubscribed, or removed without a report.

use super::{gated, run};
use crate::support::Rig;
use xds_core::server::NackRecovery;

#[test]
fn nacked_resource_blocks_nothing_once_unsubscribed_or_gone() {
    run("
        == name unsubscribed after its NACK [M148]
        set lds l=1; cds b=bad
        > lds l     | < lds first l=1
        > lds l
        > cds a b   | < cds first b=bad
        > cds nack a b
        set lds l=2 | <
        > cds a     | < lds changed l=2
        > lds l
        set cds b=2  # unsubscribed
        set lds l=3 | < lds changed l=3
        == name unsubscribed by the NACK [M148]
        set lds l=1; cds b=bad
        > lds l     | < lds first l=1
        > lds l
        > cds a b   | < cds first b=bad
        > cds nack a
        set lds l=2 | < lds changed l=2
        == all names unsubscribed [M148]
        set lds l=1; eds e=bad
        > lds l     | < lds first l=1
        > lds l
        > eds e     | < eds first e=bad
        > eds nack e
        set lds l=2 | <
        > eds       | < lds changed l=2
        == incremental unsubscription of name and wildcard [M148]
        set lds l=1; cds a=1 b=bad
        d> lds +l   | d< lds first l=1
        d> lds ack
        d> cds +b   | d< cds first b=bad
        d> cds nack
        set lds l=2 | d<
        d> cds -b   | d< lds changed l=2
        d> lds ack
        d> cds +*   | d< cds resubscribed a=1 b=bad
        d> cds nack
        set lds l=3 | d<
        d> cds -*   | d< cds resubscribed -a -b
        d> cds ack  | d< lds changed l=3
        == other resources of the NACKed response still block [M148]
        set lds l=1; eds a=1 b=bad
        > lds l     | < lds first l=1
        > lds l
        > eds a b c | < eds first a=1 b=bad
        > eds nack a b c
        set lds l=2
        > eds a b   | <
        == resource removed without a report [M148 M77]
        set lds l=1; eds e=bad f=1
        > lds l     | < lds first l=1
        > lds l
        > eds e     | < eds first e=bad
        > eds nack e
        set lds l=2 | <
        set eds -f  | <
        set eds -e  | < lds changed l=2
        == resource missing after a view change [M148 M223]
        set lds l=1; cds b=bad
        set @v lds l=2
        > lds l     | < lds first l=1
        > lds l
        > cds b     | < cds first b=bad
        > cds nack b
        set lds l=3 | <
        assign 1 v  | < cds changed | <
        > cds b     | < lds changed l=2
        == resource removed while a heartbeat is in flight [M148 M77]
        set lds l=1; eds e~10s=1
        t> lds l      | t< lds first l=1
        t> lds l
        t> eds e f    | t< eds first e~10s=1
        t> eds e f
        set eds f=bad | t< eds changed f=bad
        t> eds nack e f
        set lds l=2
        wait 5s       | t< eds heartbeat e~10s
        set eds -e -f | t<
        t> eds e f    | t< lds changed l=2
        == resource removed while another response is in flight [M148]
        set lds l=1; eds b=1 e=1
        d> lds +l        | d< lds first l=1
        d> lds ack
        d> eds +*        | d< eds first b=1 e=1
        d> eds ack
        set eds b=bad -e | d< eds changed b=bad -e
        d> eds nack
        set eds -b       | d< eds changed -b -e
        set lds l=2      | d<
        d> eds ack       | d< lds changed l=2
        ");
}

// An isolated resource blocks nothing once it is unsubscribed.
#[test]
fn unsubscribed_isolated_resource_blocks_nothing() {
    let config = gated().with_every_type(|it| it.nack_recovery = NackRecovery::Isolate);
    let mut rig = Rig::new(config);
    rig.run(
        "
        set lds l=1; eds a=1 b=bad
        d> lds +l    | d< lds first l=1
        d> lds ack
        d> eds +a +b | d< eds first a=1 b=bad
        d> eds nack  | d< eds recovery a=1
        d> eds ack   | d< eds recovery b=bad
        d> eds nack
        set lds l=2  | d<
        d> eds -b    | d< lds changed l=2
        ",
    );
    println!("covers: M148 M108");
}
