//! Requests that are NACKs, and the remembered rejection.

use crate::support::{Rig, url};
use xds_core::{
    Nonce, Version,
    server::{Observation, SyncState},
};

// M56: a request with `error_detail` is a NACK, whatever its version.
#[test]
fn error_detail_makes_a_nack() {
    let mut rig = Rig::script("set eds x=1\n> eds x");
    let sent = rig.receive(1).expect("a response").full().clone();
    rig.observations();
    rig.run(&format!("> eds nack version:{} x", sent.version_info));
    assert_eq!(
        rig.observations(),
        [Observation::Nacked {
            stream: rig.stream(1),
            type_url: url("eds").as_str().into(),
            version: Version::from(sent.version_info.as_str()),
            nonce: Nonce::from("1"),
            code: 3,
            message: "bad".into(),
        }]
        .map(|wanted| wanted)
    );
    println!("covers: M56 B04");
}

// M53, M233: status of a subscription, with the remembered NACK.
#[test]
fn nack_is_remembered_until_next_ack() {
    let mut rig = Rig::script("set eds x=1\n> eds x\n< eds first x=1\n> eds x\nset eds x=bad");
    let good = rig.server.status().next().and_then(|status| status.acked_version);
    rig.run("< eds changed x=bad\n> eds nack x");
    {
        let status = rig.server.status().next().expect("a subscription");
        assert_eq!(status.state, SyncState::Nacked);
        assert_eq!(status.acked_version, good);
        assert_ne!(status.sent_version, good);
        assert_eq!(status.last_error.map(|error| &**error), Some("bad"));
        assert_eq!((status.responses, status.acks, status.nacks), (2, 1, 1));
        assert_eq!(status.node_id, "node-1");
    }
    rig.run("set eds x=3\n< eds changed x=3\n> eds x");
    let status = rig.server.status().next().expect("a subscription");
    assert_eq!((status.state, status.last_error), (SyncState::Acked, None));
    assert_eq!(status.acked_version, status.sent_version);
    println!("covers: M53 M233");
}

/// A NACK counts even after an ACK of the same response.
#[test]
fn nack_after_ack_of_same_response_counts() {
    let mut rig = Rig::script("set eds x=1\n> eds x\n< eds first x=1\n> eds x\n> eds nack x\n<");
    assert_eq!(rig.server.status().next().map(|status| status.state), Some(SyncState::Nacked));
    rig.run("> eds x\n<");
    let state = rig.server.status().next().map(|status| status.state);
    assert_eq!(
        state,
        Some(SyncState::Nacked),
        "a request that only lists names takes nothing back"
    );
}
