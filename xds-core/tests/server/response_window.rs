//! The window of responses in flight, and answers to one of several.

use core::time::Duration;

use crate::support::{Rig, run_all, run_all_with};
use xds_core::server::{AnswerOverdue, NackRecovery, Observation, ServerConfig, SyncState, Window};

fn window(responses: u16) -> ServerConfig {
    ServerConfig::default().with_every_type(|it| it.window = Window::new(responses))
}

// M64, M113, IS16: the default window is one response.
#[test]
fn default_window_is_one_response() {
    assert_eq!((Window::default().get(), Window::new(0).get()), (1, 1));
    run_all(&[
        (
            "M64 M113 IS16",
            "
            set eds x=1
            > eds x
            < eds first x=1
            set eds x=2
            <
            set eds x=3
            <
            > eds x
            < eds changed x=3",
        ),
        (
            "M105 M113 M114 IS16",
            "
            set eds x=1
            d> eds +x
            d< eds first x=1
            set eds x=2
            d<
            set eds x=3
            d> eds ack
            d< eds changed x=3",
        ),
    ]);
}

// M113: as many responses as the window allows, each with its own record.
#[test]
fn window_allows_several_responses() {
    run_all_with(
        &window(3),
        &[
            (
                "M113 IS16",
                "
                set eds x=1
                > eds x
                < eds first x=1          # nonce 1
                set eds x=2
                < eds changed x=2        # 2
                set eds x=3
                < eds changed x=3        # 3
                set eds x=4
                <                        # the window is full
                set eds x=5
                <
                > eds nonce:1 x
                < eds changed x=5        # 4
                <
                > eds nonce:2 x
                > eds nonce:3 x
                > eds nonce:4 x
                <",
            ),
            (
                "M113 IS16",
                "
                set eds x=1
                d> eds +x
                d< eds first x=1         # 1
                set eds x=2
                d< eds changed x=2       # 2
                set eds x=3
                d< eds changed x=3       # 3
                set eds x=4
                d<
                d> eds nonce:1
                d< eds changed x=4       # 4
                d> eds nonce:4           # settles earlier responses
                set eds x=5
                d< eds changed x=5
                set eds x=6
                d< eds changed x=6
                set eds x=7
                d< eds changed x=7
                set eds x=8
                d<",
            ),
            (
                "M113",
                "
                set cds a=1 b=1          # full state
                > cds
                < cds first a=1 b=1
                set cds a=2
                < cds changed a=2 b=1
                set cds -b
                < cds changed a=2
                set cds c=1
                <
                > cds nonce:2
                < cds changed a=2 c=1",
            ),
            (
                "M51 M113",
                "
                set eds x=1 y=1 z=1      # names of every answer count
                > eds x
                < eds first x=1          # 1
                set eds x=2
                < eds changed x=2        # 2
                > eds nonce:1 x y
                < eds resubscribed y=1   # 3
                > eds nonce:2 x y z
                < eds resubscribed z=1   # 4
                > eds nonce:3 x y z
                > eds nonce:4 x y z
                <",
            ),
            (
                "M53 M113",
                "
                set eds x=1 y=1
                > eds x y
                < eds first x=1 y=1      # 1
                set eds x=bad
                < eds changed x=bad      # 2
                set eds y=2
                < eds changed y=2        # 3
                > eds nonce:1 x y
                > eds nack nonce:2 x y   # 3 is not part of the NACKed response
                <
                > eds nonce:3 x y
                <
                set eds y=3
                < eds changed x=bad y=3
                > eds x y
                set eds y=4
                < eds changed y=4",
            ),
        ],
    );
}

// M58, M111: a nonce older than all pending ones is stale; a pending nonce is an answer.
#[test]
fn nonce_older_than_window_is_stale() {
    let mut rig = Rig::new(window(2));
    rig.run(
        "
        set eds x=1 y=1
        > eds x
        < eds first x=1          # 1
        set eds x=2
        < eds changed x=2        # 2
        > eds nonce:1 x
        set eds x=3
        < eds changed x=3        # 3
        ",
    );
    rig.observations();
    rig.run("> eds nonce:1 x y\n<");
    assert!(matches!(rig.observations()[..], [Observation::StaleNonce { .. }]));
    rig.run("> eds nonce:3 x");
    let [Observation::Acked { nonce, .. }] = &rig.observations()[..] else { panic!("an ACK") };
    assert_eq!(nonce.as_str(), "3");
    // An answer to the third response settles the second one.
    rig.run("> eds nonce:2 x y\n<");
    assert!(matches!(rig.observations()[..], [Observation::StaleNonce { .. }]));
    let status = rig.server.status().next().expect("a subscription");
    assert_eq!((status.state, status.acks), (SyncState::Acked, 2));
    println!("covers: M58 M111 M113 IS2");
}

// M107, M113: the resources of all rejected responses are re-sent once.
#[test]
fn several_responses_can_be_nacked() {
    let config = window(2);
    run_all_with(
        &config,
        &[
            (
                "M107 M113",
                "
                set eds a=1 b=1 c=1
                d> eds +a +b
                d< eds first a=1 b=1     # 1
                d> eds +c
                d< eds resubscribed c=1  # 2
                d> eds nack nonce:1
                d> eds nack nonce:2
                d<
                set eds c=2
                d< eds changed a=1 b=1 c=2
                d> eds ack
                d<
                set eds c=3
                d< eds changed c=3",
            ),
            (
                "M107 M113",
                "
                set eds a=1 b=1
                > eds *
                < eds first a=1 b=1      # 1
                set eds c=1
                < eds changed c=1        # 2
                > eds nack nonce:1 *
                > eds nonce:2 *
                <
                set eds d=1
                < eds changed a=1 b=1 c=1 d=1
                > eds *
                set eds d=2
                < eds changed d=2",
            ),
        ],
    );
    let config = config.with_every_type(|it| it.nack_recovery = NackRecovery::Minimal);
    run_all_with(
        &config,
        &[(
            "M54 M113",
            "
            set eds a=1 b=1
            > eds a b
            < eds first a=1 b=1
            set eds a=2
            < eds changed a=2
            > eds nack nonce:1 a b
            > eds nack nonce:2 a b
            <
            set eds b=2
            < eds changed b=2",
        )],
    );
}

// M65: every overdue response is observed once.
#[test]
fn each_overdue_response_is_observed() {
    let config = window(2)
        .with_every_type(|it| it.answer_overdue = AnswerOverdue::Observe(Duration::from_secs(10)));
    let mut rig = Rig::new(config);
    rig.run("set eds x=1\n> eds x\n< eds first x=1\nwait 4s\nset eds x=2\n< eds changed x=2");
    let late = |rig: &mut Rig, after: &str| {
        rig.observations();
        rig.run(after);
        let nonces = rig.observations().into_iter().filter_map(|observation| match observation {
            Observation::AnswerOverdue { nonce, .. } => Some(nonce.to_string()),
            _ => None,
        });
        nonces.collect::<Vec<_>>()
    };
    assert_eq!(late(&mut rig, "wait 6s"), ["1"]);
    assert_eq!(late(&mut rig, "set eds x=3\n<\nwait 3s"), [""; 0], "the window stays closed");
    assert_eq!(late(&mut rig, "wait 1s"), ["2"]);
    assert_eq!(late(&mut rig, "> eds nonce:1 x\n< eds changed x=3\nwait 10s"), ["3"]);
    rig.run("> eds nonce:3 x\nwait 60s\n<");
    assert_eq!(rig.server.poll_timeout(), None);
    println!("covers: M65 M113");
}

// M65: an overdue response opens the window.
#[test]
fn overdue_response_opens_window_by_policy() {
    let config = ServerConfig::default().with_every_type(|it| {
        it.answer_overdue = AnswerOverdue::OpenWindow(Duration::from_secs(10));
    });
    run_all_with(
        &config,
        &[
            (
                "M65",
                "
                set eds x=1
                > eds x
                < eds first x=1          # 1
                set eds x=2
                <
                wait 9s
                <
                wait 1s
                < eds changed x=2        # 2
                set eds x=3
                <
                wait 10s
                < eds changed x=3        # 3
                > eds nonce:2 x          # late, but valid
                <
                set eds x=4
                <
                > eds nonce:3 x
                < eds changed x=4
                > eds x
                wait 60s
                <",
            ),
            (
                "M65",
                "
                set cds a=1
                d> cds +*
                d< cds first a=1         # 1
                wait 10s                 # there is nothing to send
                d<
                set cds a=2
                d< cds changed a=2       # 2
                set cds a=3
                d<
                d> cds nack nonce:1
                d<
                d> cds nonce:2
                d< cds changed a=3",
            ),
        ],
    );
    // The record of unanswered responses stays limited.
    let mut rig = Rig::new(config);
    rig.run("set eds x=0\n> eds x\n< eds first x=0");
    for round in 1..50 {
        rig.run(&format!("set eds x={round}\n<\nwait 10s\n< eds changed x={round}"));
    }
    rig.observations();
    rig.run("> eds nonce:48 x\n> eds nonce:49 x\n> eds nonce:50 x");
    let seen = rig.observations();
    let answers = seen.iter().filter(|it| matches!(it, Observation::Acked { .. })).count();
    let late = seen.iter().filter(|it| matches!(it, Observation::StaleNonce { .. })).count();
    assert_eq!((late, answers), (1, 2), "{seen:?}");
    println!("covers: M65 IS16");
}

// A response in flight may repeat a removed resource, which the client has if it lists the name again.
#[test]
fn resource_repeated_in_flight_is_removed_if_its_name_is_listed_again() {
    run_all_with(
        &window(2),
        &[(
            "M64 M113",
            "
            set cds a=1 b=1
            > cds a b
            < cds first a=1 b=1      # 1
            > cds a b
            > eds x
            set cds a=2
            < cds changed a=2 b=1    # 2
            set cds -b a=3; eds x=1
            < cds changed a=3 b=1    # 3, because additions of other types come before removals
            > cds nonce:2 a
            > cds nonce:3 b
            < cds resubscribed       # 4
            < eds first x=1
            > cds nonce:4 b
            <",
        )],
    );
}
