//! Fuzz targets for requests to a management server.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame, Malformed, StreamId, Time,
    proto::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Node,
    },
    server::{
        CloseReason, Server, ServerConfig, ServerOutput, StreamEvent, StreamKind, Transaction,
    },
    service::Variant,
    types,
};
use xds_sim::Toy;

/// Fuzz target for a state-of-the-world request.
///
/// Bytes that a protobuf decoder accepts as a request must not end the stream as malformed. Every
/// response must decode.
pub fn discovery_request(bytes: &[u8]) {
    let fault = receive(Variant::StateOfTheWorld, bytes);
    if let Ok(request) = DiscoveryRequest::decode(bytes) {
        assert!(!is_malformed(&fault), "{request:?} is malformed: {fault:?}");
    }
}

/// Fuzz target for an incremental request, with the rules of [`discovery_request`].
pub fn delta_request(bytes: &[u8]) {
    let fault = receive(Variant::Incremental, bytes);
    if let Ok(request) = DeltaDiscoveryRequest::decode(bytes) {
        let is_map_at_fault =
            fault == Some(CloseReason::Malformed(Malformed::Encoding { field: VERSIONS }));
        let is_malformed = is_malformed(&fault) && !is_map_at_fault;
        assert!(!is_malformed, "{request:?} is malformed: {fault:?}");
    }
}

/// Field `initial_resource_versions`. A varint in its place is malformed, but prost does not check
/// the wire type of map fields and takes the number for the length of an entry.
const VERSIONS: u32 = 5;

/// Whether the server found the bytes malformed. Groups do not count: decoders skip them, but
/// proto3 has none.
fn is_malformed(fault: &Option<CloseReason>) -> bool {
    match fault {
        Some(CloseReason::Malformed(why)) => !matches!(why, Malformed::Tag { .. }),
        _ => false,
    }
}

/// Sends the bytes as the first request of a stream, and as a later one. Returns the reason if one
/// stream was ended.
fn receive(variant: Variant, bytes: &[u8]) -> Option<CloseReason> {
    let mut config = ServerConfig::default();
    config.limits.names_per_call = usize::MAX;
    let mut server = Server::new(config, 1, Time::ZERO);
    let mut change = Transaction::new();
    for (type_url, name) in [(types::CLUSTER, "a"), (types::CLUSTER, "b"), (types::LISTENER, "a")] {
        change.set(type_url, name, Toy::bytes(name, "content"));
    }
    server.apply(change, Time::ZERO).expect("a good change");

    let first = server.accept(StreamKind::Aggregated(variant), Time::ZERO).expect("there is room");
    let later = server.accept(StreamKind::Aggregated(variant), Time::ZERO).expect("there is room");
    server.handle_event(StreamEvent::Message(later, greeting(variant)), Time::ZERO);
    let mut fault = drain(&mut server, variant);
    for stream in [first, later] {
        let message = Bytes::copy_from_slice(bytes);
        server.handle_event(StreamEvent::Message(stream, message), Time::ZERO);
        let later_fault = drain(&mut server, variant);
        fault = fault.or(later_fault);
    }
    // Changes the resources that may be subscribed.
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "a", Toy::bytes("a", "changed")).remove(types::CLUSTER, "b");
    server.apply(change, Time::ZERO).expect("a good change");
    let later_fault = drain(&mut server, variant);
    fault = fault.or(later_fault);
    for stream in [first, later] {
        server.handle_event(StreamEvent::Closed(stream), Time::ZERO);
    }
    let _ = drain(&mut server, variant);
    assert_eq!(server.status().count(), 0, "a closed stream leaves nothing (IS23)");
    fault
}

/// Returns the first request of a client of clusters.
fn greeting(variant: Variant) -> Bytes {
    let node = Some(Node { id: "fuzz".into(), ..Node::default() });
    let type_url = String::from(types::CLUSTER);
    match variant {
        Variant::StateOfTheWorld => {
            DiscoveryRequest { node, type_url, ..DiscoveryRequest::default() }.encode_to_vec()
        }
        Variant::Incremental => {
            DeltaDiscoveryRequest { node, type_url, ..DeltaDiscoveryRequest::default() }
                .encode_to_vec()
        }
    }
    .into()
}

fn drain(server: &mut Server, variant: Variant) -> Option<CloseReason> {
    let mut fault = None;
    while let Some(output) = server.poll_output() {
        match output {
            ServerOutput::Close(_, reason) => fault = fault.or(Some(reason)),
            ServerOutput::Writable(stream) => write(server, variant, stream),
            _ => {}
        }
    }
    fault
}

fn write(server: &mut Server, variant: Variant, stream: StreamId) {
    let mut frame = Frame::default();
    while server.poll_transmit(stream, Time::ZERO, &mut frame).is_some() {
        let bytes = frame.to_bytes();
        let nonce = match variant {
            Variant::StateOfTheWorld => {
                DiscoveryResponse::decode(bytes).expect("we can write").nonce
            }
            Variant::Incremental => {
                DeltaDiscoveryResponse::decode(bytes).expect("we can write").nonce
            }
        };
        assert!(!nonce.is_empty(), "every response has a nonce (IS1)");
    }
}
