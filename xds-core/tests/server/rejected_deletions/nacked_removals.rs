//! NACKed removals: the client may still use the resource.

use super::{gated, run};
use crate::support::Rig;

#[test]
fn nacked_removal_blocks_only_what_depends_on_it() {
    run("
        == incremental NACKed removal defers other removals [M147 M148]
        set cds a=1 b=1; lds l=1 m=1
        d> cds +*          | d< cds first a=1 b=1
        d> cds ack
        d> lds +*          | d< lds first l=1 m=1
        d> lds ack
        set lds -l; cds -a | d< lds changed -l
        d> lds nack        | d<
        d> lds +x -x       | d< lds resubscribed -x
        d> lds ack         | d<
        set lds n=1        | d< lds changed n=1 -l
        d> lds ack         | d< cds changed -a
        == SotW NACKed removal defers other removals [M147 M148]
        set cds a=1; lds l=1 m=bad
        > cds          | < cds first a=1
        > cds
        > lds l        | < lds first l=1
        > lds l
        set lds -l; cds -a
        > lds l m      | < lds changed m=bad
        > lds nack l m | <
        > lds l        | < lds recovery | <  # without the invalid resource
        > lds l        | < cds changed
        == update that waits for existing resources continues [M146 M148]
        set cds a=1 c=1; lds l=1
        d> cds +a +b +c  | d< cds first a=1 c=1 -b
        d> cds ack
        d> lds +l        | d< lds first l=1
        d> lds ack
        set cds b=bad -c | d< cds changed b=bad -c
        d> cds nack
        set lds l=2      | d<
        d> cds -b        | d< lds changed l=2
        == removal that may be referenced stays deferred [M147 M148]
        set cds a=1 c=1; lds l=1; eds e=1
        d> cds +a +b +c     | d< cds first a=1 c=1 -b
        d> cds ack
        d> eds +e           | d< eds first e=1
        d> eds ack
        d> lds +l           | d< lds first l=1
        d> lds ack
        set cds b=bad -c    | d< cds changed b=bad -c
        d> cds nack
        set lds l=2; eds -e | d<
        d> cds -b           | d< lds changed l=2
        d> lds ack          | d<
        == wildcard subscribed to after the ACK is incomplete [M146 M148]
        set cds a=1 b=bad; lds l=1
        > cds a     | < cds first a=1
        > cds a
        > lds l     | < lds first l=1
        > lds l
        > cds *     | < cds resubscribed a=1 b=bad
        > cds nack *
        set lds l=2 | <
        == wildcard partial response subscribed to after the ACK [M146 M148]
        set eds a=1 b=bad; lds l=1
        > eds a     | < eds first a=1
        > eds a
        > lds l     | < lds first l=1
        > lds l
        > eds *     | < eds resubscribed b=bad
        > eds nack *
        set lds l=2 | <
        set eds -b  | < lds changed l=2
        == missing resource still blocks [M146 M148]
        set cds a=1 c=1; lds l=1
        d> cds +a +b +c      | d< cds first a=1 c=1 -b
        d> cds ack
        d> lds +l            | d< lds first l=1
        d> lds ack
        set cds a=2 b=bad -c | d< cds changed a=2 b=bad -c
        d> cds nack
        set lds l=2
        d> cds -b            | d<
        ");
}

// M147, IL1: a stated resource that never existed is removed once the clusters that say so are
// ACKed, or others after a NACK of those.
#[test]
fn stated_missing_resource_is_removed_after_later_cds_ack() {
    for then in ["d> cds +b\nset cds b=2", "set cds b=2\nd> cds +b"] {
        let mut rig = Rig::new(gated());
        rig.run(
            "
            set @other cds a=1; eds a=1
            set cds b=bad
            9d> cds +a
            9d> eds +a
            assign 9 other       | 9d< cds first a=1
            9d> cds ack          | 9d< eds first a=1
            d> cds +a +b has:a=1
            d> eds +a +x has:a=1 | d< cds first b=bad | d< eds first -x
            d> eds ack
            d> cds nack          | d< cds changed -a
            d> cds nack -b       | d<",
        );
        rig.run(then);
        let received = rig.receive(1).expect("a response");
        assert_eq!(received.resources(), ["b=2", "-a"]);
        rig.run("d> cds ack\nd< eds changed -a\nd> eds ack\nd<");
    }
    println!("covers: M147 M148 IL1");
}

// IS28: a stated resource that is gone has an error, which is sent at once.
#[test]
fn error_of_stated_removed_resource_is_sent_at_once() {
    let mut rig = Rig::new(gated());
    rig.run(
        "
        set @other eds a=1
        set cds b=1
        set eds !a=7
        9d> eds +a
        assign 9 other    | 9d< eds first a=1
        d> cds +b
        d> eds +a has:a=1 | d< cds first b=1 | d< eds first !a=7
        d> eds ack        | d<",
    );
    println!("covers: M171 IS28 M147");
}
