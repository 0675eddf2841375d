//! Isolation of the rejected resource: the resources of a rejected response are re-sent one by one.

use crate::support::{Rig, run_all_with};
use xds_core::server::{
    NackRecovery, Observation, ServerConfig, SotwResponse, VersionMode, Window,
};

pub(crate) fn isolating() -> ServerConfig {
    ServerConfig::default().with_every_type(|it| it.nack_recovery = NackRecovery::Isolate)
}

/// Names observed as rejected.
pub(crate) fn culprits(rig: &mut Rig) -> Vec<String> {
    let found = rig.observations().into_iter().filter_map(|observation| match observation {
        Observation::Isolated { name, .. } => Some(name.to_string()),
        _ => None,
    });
    found.collect()
}

// M108: types with partial responses.
#[test]
fn rejected_response_is_resent_one_resource_at_a_time() {
    run_all_with(
        &isolating(),
        &[
            (
                "M108 IS4",
                "
                set eds a=1 b=bad c=1
                d> eds +a +b +c
                d< eds first a=1 b=bad c=1
                d> eds nack
                d< eds recovery a=1
                d> eds ack
                d< eds recovery b=bad
                d> eds nack
                d< eds recovery c=1
                d> eds ack
                d<                       # each once
                set eds c=2
                d< eds changed c=2       # nothing is re-sent along
                d> eds ack
                d<
                set eds b=good
                d< eds changed b=good",
            ),
            (
                "M108 IS4",
                "
                set eds a=1 b=bad
                > eds a b
                < eds first a=1 b=bad
                > eds nack a b
                < eds recovery a=1
                > eds a b
                < eds recovery b=bad
                > eds nack a b
                <
                > eds a b
                <",
            ),
            (
                "M108",
                "
                set cds a=1 b=bad
                d> cds +*
                d< cds first a=1 b=bad
                d> cds nack
                d< cds recovery a=1
                d> cds ack
                d< cds recovery b=bad
                d> cds nack
                d<
                set cds c=1
                d< cds changed c=1
                d> cds ack
                d<",
            ),
            (
                "M108",
                "
                set eds a=1 b=bad
                > eds *
                < eds first a=1 b=bad
                > eds nack *
                < eds recovery a=1
                > eds *
                < eds recovery b=bad
                > eds nack *
                <",
            ),
            (
                "M108 IS4",
                "
                set eds a=bad            # a single resource needs no isolation
                d> eds +a
                d< eds first a=bad
                d> eds nack
                d<",
            ),
            (
                "M108 IS4",
                "
                set eds a=bad b=bad      # everything is NACKed
                d> eds +a +b
                d< eds first a=bad b=bad
                d> eds nack
                d< eds recovery a=bad
                d> eds nack
                d< eds recovery b=bad
                d> eds nack
                d<
                d> eds +a                # resubscription is answered
                d< eds resubscribed a=bad
                d> eds nack
                d<
                d> eds +a +b
                d< eds resubscribed a=bad b=bad
                d> eds nack              # no retry of known ones
                d<",
            ),
        ],
    );
}

// M108: changes are sent first, and changed resources are not retried.
#[test]
fn change_is_sent_before_isolated_retries() {
    run_all_with(
        &isolating(),
        &[
            (
                "M108",
                "
                set eds a=1 b=bad c=1
                d> eds +a +b +c
                d< eds first a=1 b=bad c=1
                d> eds nack
                d< eds recovery a=1
                set eds b=good
                d> eds ack
                d< eds changed b=good
                d> eds ack
                d< eds recovery c=1
                d> eds ack
                d<",
            ),
            (
                "M108",
                "
                set eds a=1 b=bad c=1
                d> eds +a +b +c
                d< eds first a=1 b=bad c=1
                d> eds nack -b -a        # unsubscribed
                d< eds recovery c=1
                d> eds ack
                d<
                set eds -c
                d< eds changed -c",
            ),
            (
                "M108",
                "
                set cds a=1 b=1
                > cds
                < cds first a=1 b=1
                > cds
                set cds a=2 b=bad
                < cds changed a=2 b=bad
                > cds nack
                < cds recovery a=2 b=1
                set cds b=good           # no longer rejected: isolation ends
                > cds
                < cds changed a=2 b=good
                > cds
                <",
            ),
        ],
    );
}

// M108: a complete response has the accepted state and one more resource.
#[test]
fn isolation_keeps_accepted_resources_in_complete_responses() {
    run_all_with(
        &isolating(),
        &[
            (
                "M108 IS4 IS9",
                "
                set cds a=1 b=1
                > cds
                < cds first a=1 b=1
                > cds
                set cds a=2 b=bad c=1
                < cds changed a=2 b=bad c=1
                > cds nack
                < cds recovery a=2 b=1
                > cds
                < cds recovery a=2 b=bad
                > cds nack
                < cds recovery a=2 b=1 c=1
                > cds
                <
                set cds d=1              # b is known as rejected
                < cds changed a=2 b=bad c=1 d=1
                > cds nack
                < cds recovery a=2 b=1 c=1 d=1
                > cds
                <
                set cds b=good
                < cds changed a=2 b=good c=1 d=1
                > cds
                <",
            ),
            (
                "M108",
                "
                set lds a=1 b=bad c=1
                > lds a b c              # by name, nothing ACKed yet
                < lds first a=1 b=bad c=1
                > lds nack a b c
                < lds recovery a=1
                > lds a b c
                < lds recovery a=1 b=bad
                > lds nack a b c
                < lds recovery a=1 c=1
                > lds a b c
                <",
            ),
            (
                "M108 IS4",
                "
                set cds a=1 b=1
                > cds version:before     # unknown earlier state
                < cds first a=1 b=1
                > cds nack
                <
                set cds a=2 b=2
                < cds changed a=2 b=2
                > cds
                set cds a=bad b=3
                < cds changed a=bad b=3
                > cds nack               # the ACKed state is known now
                < cds recovery a=bad b=2
                > cds nack
                < cds recovery a=2 b=3
                > cds
                <",
            ),
            (
                "M108 IS4",
                "
                set cds a=1 b=1
                > cds
                < cds first a=1 b=1
                > cds
                set cds -a               # nothing is new
                < cds changed b=1
                > cds nack
                <",
            ),
        ],
    );
    let mut config = isolating();
    config.type_defaults.others.sotw_response = SotwResponse::AlwaysFull;
    run_all_with(
        &config,
        &[(
            "M108 M75",
            "
            set eds a=1 b=1
            > eds *
            < eds first a=1 b=1
            > eds *
            set eds a=2 b=bad
            < eds changed a=2 b=bad
            > eds nack *
            < eds recovery a=2 b=1
            > eds *
            <",
        )],
    );
}

// M108, IS4: the last remaining resource is found by elimination, without repeating the state.
#[test]
fn last_untried_resource_is_found_by_elimination() {
    let mut rig = Rig::new(isolating());
    rig.run("set cds a=1 b=bad\n> cds\n< cds first a=1 b=bad\n> cds nack\n< cds recovery a=1");
    assert_eq!(culprits(&mut rig), [""; 0]);
    rig.run("> cds\n<");
    assert_eq!(culprits(&mut rig), ["b"]);
    rig.run("set cds c=1\n< cds changed a=1 b=bad c=1\n> cds nack\n< cds recovery a=1 c=1");
    rig.run("> cds\n<\nset cds b=good\n< cds changed a=1 b=good c=1\n> cds\n<");
    assert_eq!(culprits(&mut rig), [""; 0], "known already");
    assert!(rig.server.status().all(|status| status.rejected_resources.is_empty()));
    println!("covers: M108 IS4");
}

// M42, M108: a trusted version on reconnect counts as accepted.
#[test]
fn trusted_version_counts_as_accepted_for_isolation() {
    let mut rig = Rig::new(isolating());
    rig.run("set cds a=1 b=1");
    let version = rig.server.version(&crate::support::url("cds")).expect("clusters");
    rig.run(&format!(
        "
        > cds version:{version}
        <
        set cds a=2 b=bad
        < cds changed a=2 b=bad
        > cds nack
        < cds recovery a=2 b=1
        > cds
        <"
    ));
    assert_eq!(culprits(&mut rig), ["b"]);
    println!("covers: M108");
}

// M108: retries are limited in number, and wait for responses in flight.
#[test]
fn isolated_retries_are_limited() {
    let mut config = isolating();
    config.limits.isolated_resources = 2;
    run_all_with(
        &config,
        &[(
            "M108",
            "
            set eds a=1 b=1 c=1
            d> eds +a +b +c
            d< eds first a=1 b=1 c=1
            d> eds nack
            d< eds recovery a=1
            d> eds nack
            d< eds recovery b=1
            d> eds nack
            d<",
        )],
    );
    let wide = isolating().with_every_type(|it| it.window = Window::new(2));
    run_all_with(
        &wide,
        &[(
            "M108 M113",
            "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1      # 1
            > cds
            set cds a=2 b=bad
            < cds changed a=2 b=bad  # 2
            set cds c=1
            < cds changed a=2 b=bad c=1
            > cds nack nonce:2
            <                        # another response is in flight
            > cds nack nonce:3
            < cds recovery a=2 b=1
            > cds                    # with b=bad it would be the NACKed state
            < cds recovery a=2 b=1 c=1
            > cds
            <",
        )],
    );
}

// M108: isolation ends with the stream and with a view change.
#[test]
fn isolation_ends_with_subscription() {
    let mut rig = Rig::new(isolating());
    rig.run(
        "
        set eds a=1 b=1
        d> eds +a +b
        d< eds first a=1 b=1
        d> eds nack
        d< eds recovery a=1
        d> eds nack -a -b
        d<
        2d> eds +a +b
        2d< eds first a=1 b=1
        2d> eds nack
        2close",
    );
    let stream = rig.stream(1);
    rig.server.assign(stream, &"other".into(), rig.now);
    rig.run("d<");
    assert_eq!(rig.server.stats().streams, 1);
    println!("covers: M108 IS23");
}

// What a rejected full state removed stays removed while its resources are sent alone.
#[test]
fn removals_of_rejected_state_are_kept_while_its_resources_are_isolated() {
    run_all_with(
        &isolating(),
        &[(
            "M108 M64",
            "
            set cds a=1 c=1
            > cds
            < cds first a=1 c=1
            > cds
            set cds -c b=1 d=bad e=1
            < cds changed a=1 b=1 d=bad e=1
            > cds nack
            < cds recovery a=1 b=1
            > cds
            < cds recovery a=1 b=1 d=bad
            > cds nack
            < cds recovery a=1 b=1 e=1
            > cds
            <",
        )],
    );
}

// A client that is moved while its rejected resources are sent alone is sent the state of the new view, even
// if that is the rejected one.
#[test]
fn client_moved_during_isolation_is_sent_the_whole_state() {
    run_all_with(
        &isolating(),
        &[(
            "M108 IS13",
            "
            set @old cds a=1
            set @new cds a=1 b=1 c=1
            > cds
            assign 1 old
            < cds first a=1
            > cds
            set @old cds b=1 c=1
            < cds changed a=1 b=1 c=1
            > cds nack
            < cds recovery a=1 b=1
            > cds
            assign 1 new
            < cds changed a=1 b=1 c=1",
        )],
    );
}

// Heartbeats renew the accepted state while rejected resources are isolated, and afterwards.
#[test]
fn heartbeats_repeat_the_accepted_state_of_a_client_that_rejects() {
    run_all_with(
        &isolating(),
        &[
            (
                "M108 M163 M167",
                "
            set cds a~10s=1 b=1
            t> cds
            t< cds first a~10s=1 b=1
            t> cds
            set cds b=bad c=1
            t< cds changed a~10s=1 b=bad c=1
            t> cds nack
            t< cds recovery a~10s=1 b=bad
            t> cds nack
            t< cds recovery a~10s=1 b=1 c=1
            t> cds
            t<
            wait 8s
            t< cds heartbeat a~10s=1 b=1 c=1
            t> cds
            wait 8s
            t< cds heartbeat a~10s=1 b=1 c=1
            t> cds
            set cds -b
            t< cds changed a~10s=1 c=1
            t> cds
            wait 8s
            t< cds heartbeat a~10s=1 c=1",
            ),
            (
                "M108 M163 M167",
                "
            set cds a~10s=1 b=1
            t> cds
            t< cds first a~10s=1 b=1
            t> cds
            set cds b=bad
            t< cds changed a~10s=1 b=bad
            t> cds nack
            t<
            wait 8s
            t< cds heartbeat a~10s=1 b=1",
            ),
            (
                "M108 M163 M167",
                "
                set cds a~10s=bad
                t> cds
                t< cds first a~10s=bad
                t> cds nack
                t<
                wait 8s
                t<",
            ),
        ],
    );
    let versions = isolating().with_every_type(|it| it.versions = VersionMode::Caller);
    run_all_with(
        &versions,
        &[(
            "M108 M163 M69",
            "
                set lds v:5 a~10s=1 b=1 c=1
                t> lds a b c
                t< lds first v:5 a~10s=1 b=1 c=1
                t> lds a b c
                set lds v:6 b=bad
                t< lds changed v:6 a~10s=1 b=bad c=1
                t> lds nack a b
                wait 8s
                t< lds heartbeat a~10s=1 b=1",
        )],
    );
}

// A resource that the client dropped from its list and lists again is not taken for accepted.
#[test]
fn resource_listed_again_is_isolated_again() {
    run_all_with(
        &isolating(),
        &[(
            "M108",
            "
            set lds a=1 b=bad
            > lds a b
            < lds first a=1 b=bad
            > lds nack a b
            < lds recovery a=1
            > lds a b
            <
            > lds b
            <
            > lds a b
            < lds resubscribed a=1 b=bad
            > lds nack a b
            < lds recovery a=1",
        )],
    );
}
