//! First answers that would have nothing to say any more: how long they are held (M39, M76).

use crate::support::{run_all, run_all_with};
use core::time::Duration;
use xds_core::server::{AckGated, Missing, OrderingPolicy, ServerConfig};

/// Who comes back may have used what was deleted before it could be sent again, and is told.
#[test]
fn what_was_deleted_before_it_was_sent_is_told() {
    run_all(&[
        (
            "M39 M76",
            "
            set cds x=1
            > cds x
            set cds -x               # the transport had no room in between
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
            set cds x=2              # it comes back in time
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
            set cds -x               # so was an error
            wait 4s
            < cds first
            ",
        ),
        (
            "M39 M75",
            "
            set eds x=1
            > eds x
            set eds -x               # absence would say nothing
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

/// Where types wait for each other's ACKs, a deletion may well be quicker than the first answer.
#[test]
fn what_was_deleted_while_it_was_held_back_is_told() {
    let mut policy = AckGated::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(policy);
    run_all_with(
        &config,
        &[(
            "M39 M76 M146",
            "
            set cds a=1; lds l=1 m=1
            > cds
            < cds first a=1
            > lds l m                # waits for the clusters
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

/// Another view may have nothing of what the client was about to be sent.
#[test]
fn what_another_view_does_not_have_is_told() {
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
