//! What is deleted stays for a client as long as it has something that may refer to it (M147).

use super::*;

#[test]
fn what_is_deleted_stays_until_nothing_refers_to_it() {
    run(&[
        (
            "M147 S0.160 S0.166",
            settled(
                "
            set cds -a b=1; eds -a b=1; rds r=2
            < cds changed a=1 b=1    # old and new
            > cds
            > eds a b
            < eds resubscribed b=1
            > eds a b
            < rds changed r=2
            <
            > rds r
            < cds changed b=1
            > cds
            > eds b
            < eds warming b=1
            > eds b
            <
        ",
            ),
        ),
        (
            "M147 S0.160 S0.166",
            settled_incrementally(
                "
            set cds -a b=1; eds -a b=1; rds r=2
            d< cds changed b=1
            d> cds ack
            d> eds +b
            d< eds resubscribed b=1
            d> eds ack
            d< rds changed r=2
            d<
            d> rds ack
            d< cds changed -a
            d<                       # the endpoints go when the cluster has gone
            d> cds ack
            d< eds changed -a
            d> eds ack
            d<
        ",
            ),
        ),
        // All types at once: clusters, endpoints, listeners and routes, each behind the one before; and what is gone the
        // other way round.
        (
            "B55 M144 M146 M147",
            settled_incrementally(
                "
            set cds -a b=eds; eds -a b=1; lds -l m=1; rds -r s=1
            d< cds changed b=eds
            d<
            d> cds ack
            d<
            d> eds +b
            d< eds resubscribed b=1
            d<
            d> eds ack
            d< lds changed m=1 -l
            d<
            d> rds +s
            d<
            d> lds ack
            d< rds changed s=1 -r
            d<
            d> rds ack
            d< cds changed -a
            d<
            d> cds ack
            d< eds changed -a
            d> eds ack
            d<
        ",
            ),
        ),
        (
            "M147 S0.166",
            settled_incrementally(
                "
            set lds -l m=1; rds -r s=1
            d< lds changed m=1 -l
            d> rds +s
            d<
            d> lds ack
            d< rds changed s=1 -r    # routes that no listener has are as good as gone
            d> rds ack
            d<
        ",
            ),
        ),
        // Only what is deleted after the last response is new to who lingers.
        (
            "M147 M81",
            settled(
                "
            set cds -a; rds r=2
            < rds changed r=2
            <
            set cds b=1
            < cds changed a=1 b=1
            set cds b=2 c=1
            > cds
            < cds changed a=1 b=2 c=1
            set cds -c
            > cds
            <
            > rds r
            < cds changed b=2
            > cds
            <
        ",
            ),
        ),
        (
            "M147",
            settled(
                "
            set cds x=1              # gone before anybody heard of it
            set cds -x
            <
            set cds y=1; rds r=2
            < cds changed a=1 y=1
            > cds
            < rds changed r=2
            > rds r
            <
        ",
            ),
        ),
        (
            "M147 M115",
            String::from(
                "
            set cds a=1 b=1; rds r=1
            d> cds +a +b
            d< cds first a=1 b=1
            d> cds ack
            d> rds +r
            d< rds first r=1
            d> rds ack
            set cds -a b=2; rds r=2
            d< cds changed b=2
            d> cds ack
            d< rds changed r=2
            d<
            d> rds ack
            d< cds changed -a
            d> cds ack
            d<
        ",
            ),
        ),
    ]);
}

/// A client that comes back says what it has, and keeps what is gone until its routes are new.
#[test]
fn a_client_that_comes_back_keeps_what_it_routes_to() {
    run(&[(
        "M147 M117",
        settled_incrementally(
            "
        close
        set cds -a b=1; rds r=2
        2d> cds +* has:a=1
        2d> rds +r has:r=1
        2d< cds first b=1
        2d> cds ack
        2d< rds first r=2
        2d<
        2d> rds ack
        2d< cds changed -a
        2d> cds ack
        2d<
    ",
        ),
    )]);
}

/// Who is moved to a view that has just the clusters it was sent is not sent them again, but has them there.
#[test]
fn a_moved_client_keeps_what_both_views_had() {
    run(&[(
        "M147 M223",
        settled(
            "
        set @v cds a=1; lds l=2
        assign 1 v
        < lds changed l=2
        > lds
        <
        set @v cds -a b=1; lds l=3
        < cds changed a=1 b=1
        > cds
        < lds changed l=3
        <
        > lds
        < cds changed b=1
        > cds
        <
    ",
        ),
    )]);
}

/// M83, M231: whatever lingers is bounded like other deletions.
#[test]
fn no_more_lingers_than_is_remembered() {
    let mut config = gated(|_| ());
    config.limits.deletions_per_type = 2;
    run_all_with(
        &config,
        &[(
            "M147 M231",
            "
            set cds a=1 b=1 c=1 d=1; rds r=1
            > cds
            < cds first a=1 b=1 c=1 d=1
            > cds
            > rds r
            < rds first r=1
            > rds r
            set rds r=2
            < rds changed r=2
            set cds -a
            set cds -b
            set cds -c
            set cds e=1
            < cds changed c=1 d=1 e=1
            > cds
            > rds r
            < cds changed d=1 e=1
            > cds
            <
            ",
        )],
    );
}

/// M147, M231: what the server holds back from a client is not the client's being slow, however long it takes.
#[test]
fn what_lingers_lingers_for_as_long_as_it_takes() {
    let forever = "wait 7200s";
    run(&[
        (
            "M147 M231",
            settled_incrementally(&format!(
                "
                set cds -a b=1; rds r=2
                d< cds changed b=1
                d> cds ack
                d< rds changed r=2
                set cds -b
                {forever}
                d<
                d> rds ack
                d< cds changed -a -b
                d> cds ack
                d<
                "
            )),
        ),
        (
            "M147 M231",
            settled(&format!(
                "
                set rds r=2
                < rds changed r=2
                set cds -a
                {forever}
                set cds b=1
                < cds changed a=1 b=1
                > cds
                > rds r
                < cds changed b=1
                "
            )),
        ),
        (
            "M147 M231",
            settled_incrementally(&format!(
                "
                set rds r=2
                d< rds changed r=2
                set cds -a
                {forever}
                set cds b=1
                d< cds changed b=1
                d> cds ack
                d> rds ack
                d< cds changed -a
                "
            )),
        ),
    ]);
}

/// What a client has from another view it may route to, whatever has come and gone in this one since.
#[test]
fn a_moved_client_keeps_what_it_routes_to_when_it_rejects_what_is_from_before() {
    run(&[(
        "M147 M223",
        String::from(
            "
            set @v cds a=1 c=3; lds l=1
            set cds a=1 c=1; lds l=1
            d> cds +*
            d< cds first a=1 c=1
            d> cds ack
            d> lds +*
            d< lds first l=1
            d> lds ack
            set cds c=2
            d< cds changed c=2
            assign 1 v
            set @v cds b=1 -c; lds l=2
            d> cds nack
            d< cds changed b=1
            d> cds ack
            d< lds changed l=2
            d<                       # it has c as it was at first
            d> lds ack
            d< cds changed -c
            d> cds ack
            d<
        ",
        ),
    )]);
}

/// IS4, IS5, M167: while a deletion waits, a full state is renewed for who has what expires, and accepted it.
#[test]
fn what_waits_to_be_told_is_no_reason_to_renew() {
    let settled = "
        set cds a=1 b~10s=1; lds l=1
        t> cds a b
        t< cds first a=1 b~10s=1
        t> cds a b
        t> lds
        t< lds first l=1
        t> lds
    ";
    let dropped = format!(
        "{settled}
        set cds -a; lds l=2
        t< lds changed l=2           # the cluster stays until this is accepted
        wait 5s
        t< cds heartbeat a=1 b~10s=1
        wait 5s                      # another one is due
        t> cds a
        t<
        t> lds
        t< cds changed
        t> cds a
        t<"
    );
    let rejected = format!(
        "{settled}
        set cds b~10s=2
        t< cds changed a=1 b~10s=2
        t> cds nack a b
        set cds -a; lds l=2
        t<
        wait 5s
        t<"
    );
    let cases = [("IS5 IS27 M48 M147", dropped), ("IS4 IS27 M147 M167", rejected)];
    run(&cases);
}
