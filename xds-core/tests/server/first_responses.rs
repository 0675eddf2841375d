//! Waiting time of first responses that have become empty.
// M39 M76

use crate::support::{run_all, run_all_with};
use core::time::Duration;
use xds_core::server::{MakeBeforeBreakPolicy, Missing, OrderingPolicy, ServerConfig};

/// A reconnecting client may still use what was deleted before it could be sent again.
#[test]
fn empty_first_response_is_sent_after_wait() {
    run_all(&[
        (
            "M39 M76",
            "
            set cds x=1
            > cds x
            set cds -x               # not taken by the transport yet
            wait 3s
            <
            wait 1s
            < cds first
            > cds x
            wait 60s
            <
            ",
        ),
        (
            "M39 M76",
            "
            set cds x=1
            > cds x
            set cds -x
            wait 3s
            set cds x=2              # restored in time
            < cds first x=2
            > cds x
            wait 60s
            <
            ",
        ),
        (
            "M39 M76 M176",
            "
            set cds !x=14
            > cds x
            set cds -x               # also after an error
            wait 4s
            < cds first
            ",
        ),
        (
            "M39 M75",
            "
            set eds x=1
            > eds x
            set eds -x               # absence means nothing for this type
            wait 60s
            <
            ",
        ),
    ]);
    let config = ServerConfig::default().with_every_type(|it| it.missing = Missing::Hold);
    run_all_with(&config, &[("M39", "set cds x=1\n> cds x\nset cds -x\nwait 60s\n<")]);
    let config = ServerConfig::default()
        .with_every_type(|it| it.missing = Missing::HoldFor(Duration::from_secs(1)));
    run_all_with(&config, &[("M39", "set cds x=1\n> cds x\nset cds -x\nwait 1s\n< cds first")]);
}

/// With make before break, a resource may be deleted before the first response is sent.
#[test]
fn empty_first_response_is_sent_after_make_before_break_wait() {
    let mut policy = MakeBeforeBreakPolicy::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(policy);
    run_all_with(
        &config,
        &[(
            "M39 M76 M146",
            "
            set cds a=1; lds l=1 m=1
            > cds
            < cds first a=1
            > lds l m                # waits for the CDS ACK
            <
            set lds -l
            wait 2s
            <
            set lds -m
            wait 3s
            <
            wait 1s
            < lds first
            > lds l m
            > cds
            wait 60s
            <
            ",
        )],
    );
}

/// A change of the view may leave an empty first response.
#[test]
fn empty_first_response_is_sent_after_view_change() {
    run_all(&[(
        "M39 M223",
        "
        set cds x=1
        set @v cds y=1
        > cds x
        assign 1 v
        <
        wait 4s
        < cds first
        > cds x
        <
        ",
    )]);
}
