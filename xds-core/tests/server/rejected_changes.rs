//! What becomes of a rejected response of a type that is sent as changes: its good resources, its deletions, and
//! heartbeats meanwhile. Full state is in `nacks.rs`.

use crate::support::{run_all, run_all_with};
use xds_core::server::{AckGated, OrderingPolicy, ServerConfig, SotwResponse};

/// M107: the good ones ride along with the first change that is sent, whatever it is; that the bad one is dropped,
/// or goes without a word, is none (IS4).
#[test]
fn good_resources_come_with_the_first_change_and_not_before() {
    run_all(&[
        (
            "M107 IS4 M48",
            "
            set eds x=1 y=bad z=1
            > eds x y z
            < eds first x=1 y=bad z=1
            > eds nack x y z
            > eds x z
            <
            set eds z=2
            < eds changed x=1 z=2
            > eds x z
            set eds z=3
            < eds changed z=3
            ",
        ),
        (
            "M107 M77",
            "
            set eds x=1 y=bad
            > eds *
            < eds first x=1 y=bad
            > eds nack *
            set eds -y
            <
            set eds z=1
            < eds changed x=1 z=1
            > eds *
            set eds z=2
            < eds changed z=2
            ",
        ),
        (
            "M107 IS4",
            "
            set eds x=1 y=bad z=1
            d> eds +x +y +z
            d< eds first x=1 y=bad z=1
            d> eds nack
            d> eds -y
            d<
            set eds z=2
            d< eds changed x=1 z=2
            d> eds ack
            d<
            ",
        ),
        // What came and went before anybody was told of it is none.
        (
            "M107 IS4",
            "
            set cds y=bad
            d> cds +*
            d< cds first y=bad
            d> cds nack
            set cds x=1
            set cds -x
            d<
            set cds z=1
            d< cds changed y=bad z=1
            d> cds ack
            d<
            ",
        ),
        (
            "M107 IS4",
            "
            set eds y=bad
            > eds y x
            < eds first y=bad
            > eds nack y x
            set eds x=1
            set eds -x
            <
            set eds x=2
            < eds changed x=2 y=bad
            ",
        ),
        // Where it is told, that the bad one is gone is a change.
        (
            "M107",
            "
            set eds x=1 y=bad
            d> eds +x +y
            d< eds first x=1 y=bad
            d> eds nack
            set eds -y
            d< eds changed x=1 -y
            d> eds ack
            d<
            ",
        ),
        // Asking again is a way to have a good one at once.
        (
            "M107 M50",
            "
            set eds x=1 y=bad
            > eds x y
            < eds first x=1 y=bad
            > eds nack x y
            > eds
            <
            > eds x
            < eds resubscribed x=1
            > eds x
            <
            ",
        ),
    ]);
}

/// M107, IS11: a deletion in a rejected response is told again to an incremental client of everything, and to one
/// of names it is not: it has been told, and nothing of it could be rejected.
#[test]
fn rejected_deletions_are_told_again_to_clients_of_everything() {
    run_all(&[
        (
            "M107 IS11",
            "
            set eds x=1 y=1
            d> eds +*
            d< eds first x=1 y=1
            d> eds ack
            set eds -x y=bad
            d< eds changed y=bad -x
            d> eds nack
            d<
            set eds y=2
            d< eds changed y=2 -x
            ",
        ),
        (
            "M107 IS11",
            "
            set eds x=1 y=1
            d> eds +x +y
            d< eds first x=1 y=1
            d> eds ack
            set eds -x y=bad
            d< eds changed y=bad -x
            d> eds nack
            set eds y=2
            d< eds changed y=2
            d> eds ack
            set eds x=2
            d< eds changed x=2
            ",
        ),
    ]);
}

/// IS11, IS7: who gave everything up, and asks for it again and for a name that is gone by then, is told of that name in
/// the answer. It was never sent that by name, so that the news is not told again for what was rejected before.
#[test]
fn a_name_that_was_gone_when_it_was_asked_for_is_told_once() {
    run_all(&[(
        "IS11 IS7 M107",
        "
        set cds a=1
        2d> cds +*               # who may yet have to be told of what goes
        d> cds +*
        d< cds first a=1
        d> cds ack
        set cds c=bad
        d< cds changed c=bad
        d> cds nack
        set cds -a
        d< cds changed c=bad -a
        set cds -c
        d> cds nack -*
        d< cds resubscribed -c
        d> cds +*
        d> cds +c
        d> cds ack
        d< cds resubscribed -c
        d> cds ack
        d<
        set cds a=2
        d< cds changed a=2
        d> cds ack
        d<
        ",
    )]);
}

/// IL1, IS11: what went while a response was on its way that is then rejected is told, also to a client that has
/// accepted nothing since there was anything.
#[test]
fn what_went_before_the_first_resource_is_accepted_is_told() {
    run_all(&[(
        "IL1 IS11 M107",
        "
        d> cds +a
        d< cds first -a
        d> cds ack
        set cds b=bad c=1 d=1
        d> cds +*
        d< cds resubscribed b=bad c=1 d=1
        d> cds nack
        set cds -d
        d< cds changed b=bad c=1 -d
        set cds -b -c
        d> cds nack
        d< cds changed -b -c -d
        d> cds ack
        d<
        ",
    )]);
}

/// M107, M147: a type that lingers has its own order of deletions. One that was rejected is not repeated, and what
/// waits for it waits until the client accepts something of the type.
#[test]
fn a_rejected_deletion_of_a_type_that_lingers_is_not_repeated() {
    let mut policy = AckGated::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(policy);
    run_all_with(
        &config,
        &[(
            "M107 M147",
            "
            set cds a=1 b=1; lds l=1
            d> cds +*
            d< cds first a=1 b=1
            d> cds ack
            d> lds +*
            d< lds first l=1
            d> lds ack
            set cds -a
            d< cds changed -a
            d> cds nack
            d<
            set cds b=2
            d< cds changed b=2
            d> cds ack
            d<
            ",
        )],
    );
}

/// M167: no heartbeat for what the client rejected, and none in its place; what it has is renewed.
#[test]
fn what_was_rejected_of_a_type_of_changes_is_not_renewed() {
    run_all(&[
        (
            "M167 M170",
            "
            set eds a~10s=1 b~10s=1
            td> eds +a +b
            td< eds first a~10s=1 b~10s=1
            td> eds ack
            set eds a~10s=bad
            td< eds changed a~10s=bad
            td> eds nack
            wait 5s
            td< eds heartbeat b~10s
            td> eds ack
            ",
        ),
        (
            "M167",
            "
            set eds a~10s=1 b~10s=1
            t> eds *
            t< eds first a~10s=1 b~10s=1
            t> eds *
            set eds a~10s=bad
            t< eds changed a~10s=bad
            t> eds nack *
            wait 5s
            t< eds heartbeat b~10s
            t> eds *
            ",
        ),
        // Nothing at all was ever accepted.
        (
            "M167 IS4",
            "
            set eds a~10s=bad b~10s=1
            td> eds +*
            td< eds first a~10s=bad b~10s=1
            td> eds nack
            wait 60s
            td<
            set eds a~10s=2
            td< eds changed a~10s=2 b~10s=1
            td> eds ack
            wait 5s
            td< eds heartbeat a~10s b~10s
            ",
        ),
    ]);
}

/// Of a type whose responses always have everything, nobody is told what is gone. But without it, what is left of a
/// rejected state is another one.
#[test]
fn what_is_left_of_a_rejected_state_is_sent_when_something_goes_without_a_word() {
    let mut config = ServerConfig::default();
    config.type_defaults.others.sotw_response = SotwResponse::AlwaysFull;
    run_all_with(
        &config,
        &[
            (
                "M77 M107 IS4",
                "
                set own a=1 b=1 c=1
                > own a b c d
                < own first a=1 b=1 c=1
                > own nack a b c d
                <
                set own -a
                < own recovery b=1 c=1
                > own nack a b c d
                > own nack a b c d
                <
                set own -b -c            # nothing is left
                <
                ",
            ),
            // What was accepted is left alone.
            (
                "M77 IS5",
                "
                set own a=1 b=1
                > own a b
                < own first a=1 b=1
                > own a b
                set own -a
                <
                ",
            ),
        ],
    );
}
