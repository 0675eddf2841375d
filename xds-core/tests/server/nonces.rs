//! Answers to responses: ACKs, stale and invalid nonces, and the window.

use crate::support::{Rig, run_all, url};
use prost::Message as _;
use xds_core::{
    proto::{DiscoveryRequest, Node, Status},
    server::{Observation, StreamEvent, SyncState},
};

#[test]
fn ack_opens_window_for_next_response() {
    run_all(&[
        (
            "M44 M45 IS5 S0.094 S0.149 S0.151",
            "
            set eds x=1
            > eds x
            < eds first x=1
            > eds x
            <
            > eds x
            <
        ",
        ),
        (
            "M64 M114 IS16 S0.095",
            "
            set eds x=1 y=1
            > eds x y
            < eds first x=1 y=1
            set eds x=2
            set eds x=3 y=3
            set eds x=4
            <                        # one response in flight
            > eds x y
            < eds changed x=4 y=3
            set eds x=5
            > eds nack x y
            < eds changed x=5 y=3    # y is re-sent with it
        ",
        ),
        (
            "M64",
            "
            set cds a=1
            > cds
            < cds first a=1
            set cds b=1
            set cds -b
            > cds
            <                        # unchanged
        ",
        ),
        (
            "M66 S0.096",
            "
            > eds x
            > eds y
            > eds z
            set eds x=1 y=1 z=1
            < eds first z=1
        ",
        ),
        (
            "M51 M46",
            "
            set eds x=1 y=1
            > eds x
            < eds first x=1
            set eds x=2
            > eds x y
            < eds changed x=2 y=1
        ",
        ),
        (
            "M60",
            "
            set eds x=1 y=1
            > eds x
            < eds first x=1
            > eds nonce: x y         # held until the first is answered
            <
            > eds x y                # the ACK
            < eds resubscribed y=1
        ",
        ),
        (
            "M60",
            "
            set eds x=1
            > eds missing
            <
            > eds nonce: x           # replaces the held request
            < eds first x=1
        ",
        ),
        (
            "M68 M104",
            "
            set eds x=1; cds a=1
            > eds x
            < eds first x=1
            > eds x
            set eds x=1
            <
            > cds
            < cds first a=1
            > cds
            set cds a=1
            <
        ",
        ),
        (
            "M70",
            "
            set cds a=1; eds x=1
            > cds
            > eds x
            < cds first a=1
            < eds first x=1
            > cds
            > eds x
            <
            set cds a=2
            < cds changed a=2
            <
        ",
        ),
        (
            "M71 IS8",
            "
            set eds x=1 y=1
            > eds x y
            < eds first x=1 y=1
            > eds x y
            set eds -x
            set eds y=2
            < eds changed y=2
            > eds x y
            set eds x=2
            < eds changed x=2
        ",
        ),
    ]);
}

#[test]
fn stale_and_unknown_nonces_are_ignored() {
    run_all(&[
        (
            "M58 S0.147 S0.150 IS2",
            "
            set eds x=1 y=1
            > eds x
            < eds first x=1
            > eds x
            set eds x=2
            < eds changed x=2
            > eds nonce:1 x y        # the whole request is dropped
            <
            set eds x=3
            <                        # it was no ACK
            > eds x y
            < eds changed x=3 y=1
        ",
        ),
        (
            "M59 S0.146",
            "
            set eds x=1 y=1
            > eds x
            < eds first x=1
            > eds x
            set eds x=2
            < eds changed x=2
            > eds nonce:1 nack x y   # crosses the push; not a NACK of it
            <
            > eds x y
            < eds resubscribed y=1
        ",
        ),
        (
            "M61",
            "
            set eds x=1 y=1
            > eds x
            < eds first x=1
            > eds nonce:17 x y
            > eds nonce:01 x y
            > eds nonce:+1 x y
            <
            set eds x=2
            <
            > eds x
            < eds changed x=2
            > eds x
            > eds nonce:zzz x y
            <
        ",
        ),
        (
            "M43 M58",
            "
            > eds nonce:1 x          # nothing was sent, so there is nothing to ACK
            > eds nonce:2 y
            set eds x=1 y=1
            < eds first y=1
        ",
        ),
        (
            "M19",
            "
            set cds a=1; eds x=1
            > cds
            > eds x
            < cds first a=1
            < eds first x=1
            > eds nonce:1 x missing  # the nonce of another type
            set eds x=2
            <
            > eds x
            < eds changed x=2
        ",
        ),
    ]);
}

// M62, M63, IS1: nonces count from 1 over all types of a stream and are never reused.
#[test]
fn nonces_are_unique_per_stream() {
    let mut rig = Rig::script("set cds a=1; eds x=1; lds l=1");
    rig.run("> cds\n> eds x\n> lds");
    let mut nonces = Vec::new();
    while let Some(received) = rig.receive(1) {
        nonces.push(received.full().nonce.clone());
    }
    rig.run("> cds\nset cds -a");
    nonces.extend(rig.receive(1).map(|received| received.full().nonce.clone()));
    assert_eq!(nonces, ["1", "2", "3", "4"]);
    rig.run("2> cds");
    assert_eq!(rig.receive(2).map(|received| received.full().nonce.clone()), Some("1".into()));
    println!("covers: M62 M63 IS1");
}

// M57, M58, M61, M241: observations of answers.
#[test]
fn acks_nacks_and_invalid_nonces_are_observed() {
    let mut rig = Rig::script("set eds x=1\n> eds x\n< eds first x=1");
    let (stream, type_url) = (rig.stream(1), xds_core::TypeUrl::from(&*url("eds")));
    let version = rig.server.version(&url("eds")).expect("a version");
    rig.observations();

    rig.run("> eds version:older x");
    let mismatch = Observation::VersionMismatch {
        stream,
        type_url: type_url.clone(),
        version: version.clone(),
    };
    let acked =
        Observation::Acked { stream, type_url: type_url.clone(), version, nonce: "1".into() };
    assert_eq!(rig.observations(), [acked, mismatch]);

    rig.run("set eds x=2\n< eds changed x=2\n> eds nonce:1 x y\n> eds nonce:3 x y");
    assert_eq!(
        rig.observations(),
        [
            Observation::StaleNonce { stream, type_url: type_url.clone() },
            Observation::BogusNonce { stream, type_url },
        ]
    );
    assert_eq!((rig.server.stats().stale_requests, rig.server.stats().bogus_requests), (1, 1));

    let long = "ä".repeat(5_000);
    rig.message(
        stream,
        &DiscoveryRequest {
            type_url: url("eds"),
            resource_names: vec![String::from("x")],
            response_nonce: String::from("2"),
            error_detail: Some(Status { code: 13, message: long, ..Status::default() }),
            ..DiscoveryRequest::default()
        },
    );
    let observations = rig.observations();
    let [Observation::Nacked { code: 13, message, .. }] = &*observations else {
        panic!("{observations:?}");
    };
    assert_eq!(message.len(), 4_096);
    println!("covers: M57 M58 M61 M241");
}

// M73: a response that was not rendered was not sent, and another type's ACK is not delayed (M19).
#[test]
fn response_counts_as_sent_when_rendered() {
    let mut rig = Rig::script("set cds a=1; eds x=1\n> cds\n> eds x");
    let state = |rig: &Rig| -> Vec<_> { rig.server.status().map(|s| s.state).collect() };
    assert_eq!(state(&rig), [SyncState::Waiting, SyncState::Waiting]);
    rig.run("set cds a=2\nset eds x=2\n< cds first a=2");
    assert_eq!(state(&rig), [SyncState::Sent, SyncState::Waiting]);
    rig.run("> cds\n< eds first x=2");
    assert_eq!(state(&rig), [SyncState::Acked, SyncState::Sent]);
    println!("covers: M73 M19");
}

// M43: a nonce of an old stream is no ACK even if the new stream has used the same number.
#[test]
fn nonce_of_old_stream_is_no_ack() {
    let mut rig = Rig::script("set eds x=1");
    rig.run("> eds nonce:1 x");
    assert!(rig.server.status().all(|status| status.state == SyncState::Waiting));
    let request = DiscoveryRequest {
        node: Some(Node { id: String::from("n"), ..Node::default() }),
        type_url: url("eds"),
        response_nonce: String::from("1"),
        error_detail: Some(Status::default()),
        resource_names: vec![String::from("x")],
        ..DiscoveryRequest::default()
    };
    let id = rig.stream(2);
    rig.event(StreamEvent::Message(id, request.encode_to_vec().into()));
    assert_eq!(rig.server.stats().nacks, 0);
    rig.run("2< eds first x=1");
    println!("covers: M43");
}
