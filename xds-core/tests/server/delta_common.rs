//! Rules of both variants that other tests cover for state of the world, here in the incremental
//! variant.

use crate::support::{Rig, run_all, url};
use prost::Message as _;
use xds_core::{
    StreamId,
    proto::{DeltaDiscoveryRequest, Node},
    server::{
        CloseReason, Observation, ServerOutput, StatusCode, StreamEvent, StreamKind, Variant,
    },
};

const VIA: StreamKind = StreamKind::Aggregated(Variant::Incremental);

fn request(ty: &str, node: Option<&str>) -> DeltaDiscoveryRequest {
    let node = node.map(|id| Node { id: id.into(), ..Node::default() });
    let type_url = if ty.is_empty() { String::new() } else { url(ty) };
    DeltaDiscoveryRequest { node, type_url, ..Default::default() }
}

fn send(rig: &mut Rig, stream: StreamId, request: &DeltaDiscoveryRequest) {
    rig.event(StreamEvent::Message(stream, request.encode_to_vec().into()));
}

/// The reason why the server closed a stream after these requests.
fn closed_by(via: StreamKind, requests: &[DeltaDiscoveryRequest]) -> Option<CloseReason> {
    let mut rig = Rig::default();
    let stream = rig.server.accept(via, rig.now).expect("a stream");
    for request in requests {
        send(&mut rig, stream, request);
    }
    rig.effects().into_iter().find_map(|output| match output {
        ServerOutput::Close(closed, reason) if closed == stream => Some(reason),
        _ => None,
    })
}

// M1-M7: nodes and type URLs.
#[test]
fn first_request_needs_node_and_type_url() {
    let node = Some("one");
    assert_eq!(closed_by(VIA, &[request("cds", node), request("eds", None)]), None);
    assert_eq!(closed_by(VIA, &[request("cds", node), request("eds", node)]), None);
    let another = [request("cds", node), request("eds", Some("another"))];
    assert_eq!(closed_by(VIA, &another), None);
    for nobody in [None, Some("")] {
        let reason = closed_by(VIA, &[request("cds", nobody)]).expect("an end");
        assert_eq!(
            (&reason, reason.code()),
            (&CloseReason::MissingNode, StatusCode::InvalidArgument)
        );
    }
    let untyped = closed_by(VIA, &[request("", node)]).expect("an end");
    assert_eq!(untyped, CloseReason::MissingTypeUrl);

    let single = || StreamKind::Single {
        type_url: url("eds").as_str().into(),
        variant: Variant::Incremental,
    };
    assert_eq!(closed_by(single(), &[request("", node), request("eds", None)]), None);
    let foreign = closed_by(single(), &[request("cds", node)]).expect("an end");
    assert!(matches!(foreign, CloseReason::WrongTypeUrl { .. }));

    let mut rig = Rig::default();
    let stream = rig.server.accept(VIA, rig.now).expect("a stream");
    for message in &another {
        send(&mut rig, stream, message);
    }
    let changed =
        |it: &Observation| matches!(it, Observation::NodeChanged { stream: on } if *on == stream);
    assert_eq!(rig.observations().iter().filter(|it| changed(it)).count(), 1);
    assert!(rig.server.status().all(|status| status.node_id == "one"), "the first one stays");
    println!("covers: M1 M2 M3 M4 M5 M6 M7 IS19 IS22");
}

// M13, M15, M18-M20: streams and types are independent of each other.
#[test]
fn streams_and_types_are_independent() {
    run_all(&[
        (
            "M18",
            "
            set eds x=1
            d> eds +x                    # the same client on two streams
            d< eds first x=1
            2d> eds +x
            2d< eds first x=1
            close
            set eds x=2
            2d<
            2d> eds ack
            2d< eds changed x=2",
        ),
        (
            "M19 S0.142",
            "
            set cds a=1; eds x=1
            d> cds +*
            d> eds +x
            d< cds first a=1
            d< eds first x=1
            d> eds nack                  # types are independent
            set cds a=2; eds x=2
            d< eds changed x=2
            d> cds ack
            d< cds changed a=2",
        ),
        (
            "M20",
            "
            set eds x=1
            d> eds +x
            2d> eds +x
            d< eds first x=1
            2d< eds first x=1",
        ),
    ]);
    let mut rig = Rig::script("set eds x=1\nd> eds +x +y +z\nd< eds first x=1 -y -z\nclose");
    assert_eq!(rig.server.stats().subscriptions, 0);
    assert_eq!((rig.server.stats().streams, rig.server.stats().names), (0, 1));
    rig.effects();
    rig.run("set eds x=2 y=1");
    assert_eq!(rig.effects(), []);
    println!("covers: M13 M15 IS23");
}

// M37-M73, except the rules about lists.
#[test]
fn subscriptions_acks_and_changes_follow_protocol() {
    run_all(&[
        ("M37", "set eds x=1\nd> eds +x\nd< eds first x=1"),
        (
            "M38 M71",
            "
            d> cds +l
            d< cds first -l
            d> cds ack
            set cds l=1
            d< cds changed l=1",
        ),
        (
            "M43",
            "
            set eds x=1
            d> eds nonce:1 +x            # nonce of another stream
            d< eds first x=1
            d> eds ack
            d<",
        ),
        (
            "M44 M45 S0.094",
            "
            set eds x=1
            d> eds +x
            d< eds first x=1
            d> eds ack
            d<
            d> eds ack
            d<",
        ),
        (
            "M46 M47",
            "
            set eds x=1 y=1
            d> eds +x
            d< eds first x=1
            d> eds ack +y +z
            d< eds resubscribed y=1 -z
            d> eds ack
            set eds z=1
            d< eds changed z=1",
        ),
        (
            "M49 M50 M51",
            "
            set eds x=1 y=1
            d> eds +x
            d< eds first x=1
            d> eds ack -x +y
            d< eds resubscribed y=1
            d> eds ack -y +x
            d< eds resubscribed x=1",
        ),
        (
            "M52 M53 M56",
            "
            set eds x=bad
            d> eds +x
            d< eds first x=bad
            d> eds nack
            d<
            d> eds nack
            d<
            set eds x=2
            d< eds changed x=2
            d> eds ack
            d<",
        ),
        (
            "M55 M109",
            "
            set eds x=bad y=1
            d> eds +x
            d< eds first x=bad
            d> eds nack +y
            d< eds resubscribed y=1",
        ),
        (
            "M60",
            "
            set eds x=1 y=1
            d> eds +x
            d< eds first x=1
            d> eds nonce: +y             # subscribes without answering
            d<
            d> eds ack
            d< eds resubscribed y=1",
        ),
        (
            "M64 M114",
            "
            set eds x=1 y=1
            d> eds +x +y
            d< eds first x=1 y=1
            set eds x=2
            set eds x=3 y=2
            d<
            d> eds ack
            d< eds changed x=3 y=2",
        ),
        (
            "M67",
            "
            set eds x=1
            d> eds +x
            d< eds first x=1
            d> eds ack
            set eds x=2
            d> eds -x
            d<",
        ),
        (
            "M66",
            "
            set eds x=1 y=1 z=1
            d> eds +x
            d> eds +y
            d> eds -x +z
            d< eds first y=1 z=1",
        ),
        (
            "M68 M70 M104",
            "
            set eds x=1; cds a=1
            d> eds +x
            d> cds +*
            d< cds first a=1
            d< eds first x=1
            d> eds ack
            d> cds ack
            set eds x=1
            d<
            set eds x=2
            d< eds changed x=2",
        ),
    ]);
}

// M61, M62, M112: nonces.
#[test]
fn nonces_are_counted_and_checked() {
    let mut rig = Rig::script("set cds a=1; eds x=1\nd> cds +*\nd> eds +x");
    let nonces: Vec<_> = core::iter::from_fn(|| rig.receive(1))
        .map(|received| received.transmit.nonce.to_string())
        .collect();
    assert_eq!(nonces, ["1", "2"]);
    rig.observations();
    rig.run("d> eds nonce:77\nd> eds nonce:x");
    let bogus = |it: &Observation| matches!(it, Observation::BogusNonce { .. });
    assert_eq!(rig.observations().iter().filter(|it| bogus(it)).count(), 2);
    rig.run("d> eds nonce:1");
    let stale = |it: &Observation| matches!(it, Observation::StaleNonce { .. });
    assert!(rig.observations().iter().any(stale), "that of another type");
    rig.run("set eds x=2\nd<\nd> eds ack\nd< eds changed x=2");
    println!("covers: M61 M62 M112 IS1");
}

// M73: a response that the transport did not take was not sent.
#[test]
fn untaken_response_counts_as_not_sent() {
    let mut rig = Rig::script("set eds x=1\nd> eds +x");
    assert_eq!(rig.server.status().next().map(|status| status.responses), Some(0));
    rig.run("set eds x=2\nd< eds first x=2");
    assert_eq!(rig.server.status().next().map(|status| status.responses), Some(1));
    println!("covers: M73");
}
