//! Rejected partial responses: retries of valid resources, removals, and heartbeats. Complete
//! responses are covered in `nacks.rs`.

use crate::support::{run_all, run_all_with};
use xds_core::server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig, SotwResponse};

// M107: valid resources are re-sent with the next change. Unsubscribing the invalid resource, or an
// unreported removal of it, is no change (IS4).
#[test]
fn valid_resources_are_resent_with_next_change() {
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
        // A change that was undone before it was sent is none.
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
        // A reported removal of the invalid resource is a change.
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
        // A new subscription brings a valid resource at once.
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

// M107, IS11: a rejected removal is sent again to wildcard subscriptions, not to subscriptions by
// name: there is nothing in it that could be rejected.
#[test]
fn rejected_removals_are_resent_to_wildcard_subscriptions() {
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

// IS11, IS7: a client leaves the wildcard, and subscribes again to it and to a removed name. The
// answer reports the removal, which is then not repeated for the earlier rejection.
#[test]
fn removal_of_missing_name_is_sent_once() {
    run_all(&[(
        "IS11 IS7 M107",
        "
        set cds a=1
        2d> cds +*               # keeps deletions retained
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

// IL1, IS11: resources removed while a rejected response was in flight are reported, even to a
// client that has accepted no resource yet.
#[test]
fn removal_before_first_accepted_resource_is_sent() {
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

// M107, M147: under make before break a rejected removal is sent again with each change until it is
// accepted.
#[test]
fn rejected_removal_is_sent_again_until_it_is_accepted() {
    let mut policy = MakeBeforeBreakPolicy::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(policy);
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
            d< cds changed -a b=2
            d> cds nack
            d<
            set cds c=3
            d< cds changed -a b=2 c=3
            d> cds ack
            d<
            set cds b=4
            d< cds changed b=4
            ",
        )],
    );
}

// M167: a rejected resource gets no heartbeat; accepted ones are renewed.
#[test]
fn rejected_resource_gets_no_heartbeat() {
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
        // No response was ever accepted.
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

/// Types with complete responses do not report removals. But a rejected state without the removed
/// resource is another state, and is sent.
#[test]
fn rejected_state_is_resent_after_unreported_removal() {
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
            // An accepted state is not sent again.
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
