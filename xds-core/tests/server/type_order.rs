//! Order of types on one stream.

use crate::support::{Rig, run_all};

#[test]
fn sotw_types_are_sent_in_make_before_break_order() {
    run_all(&[
        ("M144 S0.171 S0.161 S0.162 S0.163 S0.164 S0.165", "
            set lds l=1; rds r=1; cds c=1; eds e=1; sds s=1; vhds v=1; srds q=1; rtds t=1; ecds f=1; own o=1
            > own o
            > rtds t
            > ecds f
            > sds s
            > vhds v
            > srds q
            > rds r
            > lds l
            > eds e
            > cds c
            < cds first c=1
            < eds first e=1
            < lds first l=1
            < rds first r=1
            < srds first q=1
            < vhds first v=1
            < sds first s=1
            < ecds first f=1
            < rtds first t=1
            < own first o=1
            <
        "),
        ("M144", "
            set lds l=1; cds c=1; rds r=1
            > lds
            > cds
            > rds r
            < cds first c=1
            < lds first l=1
            < rds first r=1
            > rds r
            > lds
            > cds
            set rds r=2; lds l=2; cds c=2
            < cds changed c=2
            < lds changed l=2
            < rds changed r=2
        "),
        ("M145", "
            > rds r
            > lds
            set rds r=1
            > cds
            set cds c=1
            < cds first c=1
            < lds first
            < rds first r=1
        "),
        ("M150 M158 IS17", "
            set lds l=1; rds r=1; cds c=1; eds e=1
            > lds l                  # without a CDS subscription
            < lds first l=1
            > rds r
            < rds first r=1
            > lds l
            > rds r
            set rds r=2; cds c=2; eds e=2
            < rds changed r=2
            <
        "),
        ("M156", "
            set eds a=1 b=1
            > eds a
            < eds first a=1
            > eds a
            <
            set eds b=2
            <
        "),
        ("M157", "
            set eds orphan=1
            > eds orphan
            < eds first orphan=1
        "),
    ]);
}

/// The order of types in the incremental variant.
#[test]
fn incremental_types_are_sent_in_make_before_break_order() {
    run_all(&[
        ("M144 S0.171 S0.161 S0.162 S0.163 S0.164 S0.165", "
            set lds l=1; rds r=1; cds c=1; eds e=1; sds s=1; vhds v=1; srds q=1; rtds t=1; ecds f=1; own o=1
            d> own +o
            d> rtds +t
            d> ecds +f
            d> sds +s
            d> vhds +v
            d> srds +q
            d> rds +r
            d> lds +l
            d> eds +e
            d> cds +c
            d< cds first c=1
            d< eds first e=1
            d< lds first l=1
            d< rds first r=1
            d< srds first q=1
            d< vhds first v=1
            d< sds first s=1
            d< ecds first f=1
            d< rtds first t=1
            d< own first o=1
            d<
        "),
        ("M144", "
            set lds l=1; cds c=1; rds r=1
            d> lds +*
            d> cds +*
            d> rds +r
            d< cds first c=1
            d< lds first l=1
            d< rds first r=1
            d> rds ack
            d> lds ack
            d> cds ack
            set rds r=2; lds l=2; cds c=2
            d< cds changed c=2
            d< lds changed l=2
            d< rds changed r=2
        "),
        ("M145", "
            d> rds +r
            d> lds +*
            set rds r=1
            d> cds +*
            set cds c=1
            d< cds first c=1
            d< lds first
            d< rds first r=1
        "),
        ("M150 M158 IS17", "
            set lds l=1; rds r=1; cds c=1; eds e=1
            d> lds +l                # without a CDS subscription
            d< lds first l=1
            d> rds +r
            d< rds first r=1
            d> lds ack
            d> rds ack
            set rds r=2; cds c=2; eds e=2
            d< rds changed r=2
            d<
        "),
        ("M156", "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            d<
            set eds b=2
            d<
        "),
        ("M157", "
            set eds orphan=1
            d> eds +orphan
            d< eds first orphan=1
            d> cds +*                # not affected by other clusters
            set cds c=1
            d< cds first c=1
            set eds orphan=2
            d> eds ack
            d< eds changed orphan=2
        "),
    ]);
}

// M13, M18, M19: streams are independent.
#[test]
fn streams_are_independent() {
    run_all(&[(
        "M18 M19 IS25",
        "
        set cds a=1
        > cds
        2> cds
        < cds first a=1
        2< cds first a=1
        2> cds
        set cds a=2
        <                            # the first never ACKs
        2< cds changed a=2
        close
        2> cds
        set cds a=3
        2< cds changed a=3
    ",
    )]);
    let rig = Rig::script("> cds\n> eds x\nclose");
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions), (0, 0));
}

#[test]
fn removals_are_sent_last() {
    run_all(&[
        (
            "IS17 S0.166 S0.160",
            "
            set lds l=1; rds r=1; cds old=1
            > cds
            > lds
            > rds r
            < cds first old=1
            < lds first l=1
            < rds first r=1
            > cds
            > lds
            > rds r
            set rds r=2; cds -old        # no longer referenced
            < rds changed r=2
            < cds changed
        ",
        ),
        (
            "IS17 S0.166 S0.160 M134",
            "
            set lds l=1; rds r=1; cds old=1; eds old=1
            d> cds
            d> lds
            d> eds +old
            d> rds +r
            d< cds first old=1
            d< eds first old=1
            d< lds first l=1
            d< rds first r=1
            d> cds ack
            d> lds ack
            d> eds ack
            d> rds ack
            set cds new=1 -old; eds new=1 -old; rds r=2
            d< cds changed new=1
            d< rds changed r=2
            d> rds ack
            d< eds changed -old
            d> cds ack
            d< cds changed -old
        ",
        ),
    ]);
}

/// Removals of resources that the client stated or that are removed before its answer.
#[test]
fn removal_is_sent_after_prior_updates() {
    run_all(&[(
        "IS17 M118 M149",
        "
            set cds a=1 c=1; eds e=1
            9d> cds
            9d< cds first a=1 c=1
            d> cds +* has:c=1
            d> eds +e
            set cds -c
            d< cds first a=1
            d< eds first e=1
            d> cds ack
            d< cds changed -c
        ",
    )]);
}

#[test]
fn removal_does_not_wait_for_ack() {
    run_all(&[
        (
            "IS17",
            "
            set lds l=1; rds r=1; cds c=1
            > cds
            > lds
            > rds r
            < cds first c=1
            < lds first l=1
            < rds first r=1
            > cds
            > lds
            set rds r=2; cds -c          # routes are in flight
            < cds changed
            > rds r
            < rds changed r=2
        ",
        ),
        (
            "IS17",
            "
            set cds c=1
            > cds
            < cds first c=1
            > cds
            set cds -c                   # not referenced
            < cds changed
        ",
        ),
    ]);
}
