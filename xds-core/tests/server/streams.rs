//! Streams: nodes, type URLs, limits, invalid messages, and the end.

use crate::support::{Rig, transaction, url};
use prost::Message as _;
use xds_core::{
    Frame, StreamId, Time,
    proto::{DiscoveryRequest, Node},
    server::{
        CloseReason, Observation, Refusal, RequireNode, Server, ServerConfig, ServerLimits,
        ServerOutput, StatusCode, StreamEvent, StreamKind, SubscribedNames, SyncState, Variant,
    },
};

const VIA: StreamKind = StreamKind::Aggregated(Variant::StateOfTheWorld);

fn node(id: &str) -> Option<Node> {
    Some(Node { id: id.into(), cluster: String::from("c"), ..Node::default() })
}

fn request(ty: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: if ty.is_empty() { String::new() } else { url(ty) },
        resource_names: names.iter().map(|&name| name.into()).collect(),
        ..DiscoveryRequest::default()
    }
}

fn first(ty: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest { node: node("me"), ..request(ty, names) }
}

/// Sends `message` on a new stream. Returns the reason if the server closed it.
fn closed_by(rig: &mut Rig, message: &DiscoveryRequest) -> Option<CloseReason> {
    let stream = rig.server.accept(VIA, rig.now).expect("a stream");
    rig.effects();
    rig.message(stream, message);
    close_of(rig, stream)
}

fn close_of(rig: &mut Rig, stream: StreamId) -> Option<CloseReason> {
    rig.effects().into_iter().find_map(|output| match output {
        ServerOutput::Close(id, reason) if id == stream => Some(reason),
        _ => None,
    })
}

// M1, M2, M3, IS19: the first node counts for all types.
#[test]
fn first_node_counts_for_all_types() {
    let mut rig = Rig::default();
    let id = rig.stream(1);
    rig.message(id, &first("cds", &[]));
    let encoded = node("me").unwrap_or_default().encode_to_vec();
    let observations = rig.observations();
    assert!(observations.contains(&Observation::Identified {
        stream: id,
        node_id: "me".into(),
        node: encoded.into(),
    }));
    assert_eq!(observations.first(), Some(&Observation::Connected { stream: id }));

    rig.message(id, &request("eds", &["x"]));
    rig.message(id, &first("lds", &[]));
    let changed = Observation::NodeChanged { stream: id };
    assert!(!rig.observations().contains(&changed), "none, and the same again (M1, M2)");

    // Nodes are compared by bytes: another field order is another node (M2).
    let id_last = [&[0x12, 1, b'c', 0x0a, 2][..], b"me"].concat();
    let id_first = [&[0x0a, 2][..], b"me", &[0x12, 1, b'c']].concat();
    assert_eq!(Node::decode(&*id_last), Node::decode(&*id_first));
    for (stream, again, is_another) in [(2, &id_first, false), (3, &id_last, true)] {
        let id = rig.stream(stream);
        rig.message(id, &first("cds", &[]));
        rig.observations();
        let rest = DiscoveryRequest { node: None, ..request("cds", &[]) }.encode_to_vec();
        for _ in 0..3 {
            let request = [&[0x12, again.len() as u8], &again[..], &rest].concat();
            rig.event(StreamEvent::Message(id, request.into()));
            let changed = Observation::NodeChanged { stream: id };
            let told = rig
                .observations()
                .into_iter()
                .filter(|it| *it == changed || matches!(it, Observation::Identified { .. }));
            assert_eq!(told.collect::<Vec<_>>(), [changed.clone()][..usize::from(is_another)]);
        }
        rig.event(StreamEvent::Closed(id));
        rig.observations();
    }

    rig.message(id, &DiscoveryRequest { node: node("you"), ..request("rds", &["r"]) });
    assert!(rig.observations().contains(&changed));
    assert!(rig.server.status().all(|status| status.node_id == "me"));
    assert_eq!(rig.server.status().count(), 4);
    println!("covers: M1 M2 M3 IS19 S0.070 S0.073");
}

// M4: the first request must have a node.
#[test]
fn first_request_without_node_closes_stream() {
    let mut rig = Rig::default();
    assert_eq!(closed_by(&mut rig, &request("cds", &[])), Some(CloseReason::MissingNode));
    let nameless = DiscoveryRequest { node: node(""), ..request("cds", &[]) };
    let reason = closed_by(&mut rig, &nameless).expect("a reason");
    assert_eq!((&reason, reason.code().as_i32()), (&CloseReason::MissingNode, 3));

    let mut config = ServerConfig::default();
    config.require_node = RequireNode::Optional;
    let mut rig = Rig::new(config);
    let id = rig.stream(1);
    rig.message(id, &request("cds", &[]));
    assert_eq!(rig.server.status().next().map(|status| status.node_id), Some(""));
    rig.message(id, &first("eds", &["x"]));
    assert!(rig.server.status().all(|status| status.node_id == "me"));
    assert_eq!(close_of(&mut rig, id), None);
    println!("covers: M4");
}

// M5: each request on an aggregated stream must have a type URL.
#[test]
fn request_without_type_url_closes_stream() {
    let mut rig = Rig::default();
    let reason = closed_by(&mut rig, &first("", &["x"])).expect("a reason");
    assert_eq!(reason, CloseReason::MissingTypeUrl);
    assert_eq!(reason.code(), StatusCode::InvalidArgument);
    println!("covers: M5 IS22");
}

// M196: a fetch gets one response, whether the request or the resource comes first.
#[test]
fn fetch_finishes_after_one_response() {
    let mut rig = Rig::script("");
    let via = StreamKind::Fetch { type_url: url("eds").into() };
    let id = rig.server.accept(via, rig.now).expect("a stream");
    rig.message(id, &first("", &["x"]));
    let mut frame = Frame::default();
    assert!(rig.server.poll_transmit(id, rig.now, &mut frame).is_none(), "it waits");
    rig.drain();
    assert!(!rig.effects().contains(&ServerOutput::Finished(id)));
    rig.run("set eds x=1");
    assert!(rig.server.poll_transmit(id, rig.now, &mut frame).is_some());
    assert!(rig.server.poll_transmit(id, rig.now, &mut frame).is_none(), "no more than one");
    rig.drain();
    assert!(rig.effects().contains(&ServerOutput::Finished(id)));
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions, stats.names), (0, 0, 1));
    println!("covers: M196 IS23");
}

// M6, M7: a single-type stream implies its type and refuses others.
#[test]
fn single_type_stream_implies_its_type() {
    let mut rig = Rig::script("set eds x=1");
    let via = StreamKind::Single { type_url: url("eds").into(), variant: Variant::StateOfTheWorld };
    let id = rig.server.accept(via, rig.now).expect("a stream");
    rig.message(id, &first("", &["x"]));
    assert_eq!(
        rig.server.status().next().map(|status| status.type_url.clone()),
        Some(url("eds").into())
    );
    assert!(rig.server.poll_transmit(id, rig.now, &mut Frame::default()).is_some());
    rig.message(id, &request("eds", &["x", "y"]));
    assert_eq!(close_of(&mut rig, id), None, "saying the type again does no harm");
    rig.message(id, &request("cds", &["x"]));
    let reason = close_of(&mut rig, id).expect("a reason");
    assert_eq!(
        (&*reason.to_string(), reason.code()),
        (
            &*format!("request for {} on a stream of {}", url("cds"), url("eds")),
            StatusCode::InvalidArgument,
        )
    );
    println!("covers: M6 M7 IS22");
}

// M8, IS21: an unknown type is held, observed once, and does not affect others.
#[test]
fn unknown_type_is_held_and_observed_once() {
    let mut rig = Rig::script("set cds a=1\n> odd x\n> cds\n< cds first a=1\n<");
    let unknown = |rig: &mut Rig| {
        let observations = rig.observations();
        observations.iter().filter(|o| matches!(o, Observation::UnknownType { .. })).count()
    };
    assert_eq!(unknown(&mut rig), 1);
    rig.run("> odd x y");
    assert_eq!(unknown(&mut rig), 0, "said once");
    rig.run("set odd x=1\n< odd first x=1");
    rig.run("2> odd y\n2> rds never");
    assert_eq!(unknown(&mut rig), 0, "it has resources now; routes are known without any");
    println!("covers: M8 IS21");
}

/// Unknown types and names leave no state.
// M243 IS23
#[test]
fn unknown_types_and_names_leave_no_state() {
    let mut rig = Rig::script("set cds a=1");
    for stream in 1..50 {
        rig.run(&format!("{stream}> odd{stream} x y\n{stream}> cds * b{stream}\n{stream}close"));
    }
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions), (0, 0));
    assert_eq!((stats.resources, stats.names, stats.types), (1, 1, 1));
    assert_eq!(rig.server.version(&url("odd1")), None);
    println!("covers: M13 M243 IS23");
}

// M13, M15: the end of a stream ends its subscriptions and pending responses, and nothing else.
#[test]
fn closed_stream_leaves_no_subscription() {
    let mut rig = Rig::script("set cds a=1\n> cds\n2> cds\n< cds first a=1\n2< cds first a=1");
    let (gone, other) = (rig.stream(1), rig.stream(2));
    rig.run("2> cds\n> cds\nset cds a=2");
    rig.effects();
    rig.event(StreamEvent::Closed(gone));
    assert_eq!(rig.effects(), []);
    assert_eq!(rig.server.poll_transmit(gone, rig.now, &mut Frame::default()), None);
    assert!(!rig.server.wants_read(gone) && rig.server.wants_read(other));
    rig.run("2< cds changed a=2\n2> cds\nset cds a=3");
    assert_eq!(rig.effects(), [ServerOutput::Writable(other)]);

    rig.event(StreamEvent::Closed(gone));
    rig.message(gone, &first("cds", &[]));
    rig.event(StreamEvent::Undeliverable(gone, "late".into()));
    assert_eq!(rig.server.stats().ignored_events, 3, "rule 7");
    assert_eq!(rig.effects(), []);
    let reopened = rig.server.accept(VIA, rig.now).expect("a stream");
    assert_ne!(reopened, gone, "ids are never reused");
    println!("covers: M13 M15");
}

// M14, IS33: a shutdown closes all streams and refuses new ones.
#[test]
fn shutdown_closes_every_stream() {
    let mut rig = Rig::script("set cds a=1\n> cds\n2> cds");
    let streams = [rig.stream(1), rig.stream(2)];
    rig.effects();
    rig.run("shutdown");
    let closes = streams.map(|id| ServerOutput::Close(id, CloseReason::ShuttingDown));
    assert_eq!(rig.effects(), [&closes[..], &[ServerOutput::Drained]].concat());
    assert_eq!(CloseReason::ShuttingDown.code().as_i32(), 14);
    let refusal = rig.server.accept(VIA, rig.now).expect_err("a refusal");
    assert_eq!((refusal, refusal.code()), (Refusal::ShuttingDown, StatusCode::Unavailable));
    assert_eq!(rig.server.stats().streams, 0);
    rig.run("set cds a=2\nshutdown");
    assert_eq!(rig.effects(), []);
    println!("covers: M14");
}

// M242, IS24: a client's state is limited, and the close reason names the limit.
#[test]
fn exceeded_stream_limit_closes_stream() {
    let mut limits = ServerLimits::default();
    limits.streams = 3;
    limits.types_per_stream = 2;
    limits.names_per_stream = 4;
    limits.name_bytes = 80;
    let long = "n".repeat(81);

    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    let cases: [(&[DiscoveryRequest], CloseReason, &str); 5] = [
        (
            &[first("cds", &[]), request("lds", &[]), request("odd", &["x"])],
            CloseReason::TooManyTypes { limit: 2 },
            "more than 2 resource types on one stream",
        ),
        (
            &[first("eds", &["a", "b", "c"]), request("rds", &["d", "e"])],
            CloseReason::TooManyNames { limit: 4 },
            "more than 4 resource names on one stream",
        ),
        (
            &[first("odd", &["a"; 5])],
            CloseReason::TooManyNames { limit: 4 },
            "more than 4 resource names on one stream",
        ),
        (
            &[first("odd", &[&long])],
            CloseReason::NameTooLong { bytes: 81, limit: 80 },
            "name of 81 bytes exceeds the limit of 80",
        ),
        (
            &[DiscoveryRequest { node: node(&long), ..request("odd", &[]) }],
            CloseReason::NameTooLong { bytes: 81, limit: 80 },
            "name of 81 bytes exceeds the limit of 80",
        ),
    ];
    for (messages, wanted, text) in cases {
        let id = rig.server.accept(VIA, rig.now).expect("a stream");
        for message in messages {
            rig.message(id, message);
        }
        let reason = close_of(&mut rig, id).expect("closed");
        assert_eq!(reason, wanted);
        assert_eq!(reason.code(), StatusCode::ResourceExhausted);
        assert_eq!(reason.to_string(), text);
        assert_eq!(rig.server.stats().subscriptions, 0, "all was freed");
    }
    for _ in 0..3 {
        rig.server.accept(VIA, rig.now).expect("a stream");
    }
    let refusal = rig.server.accept(VIA, rig.now).expect_err("a refusal");
    assert_eq!(refusal, Refusal::TooManyStreams { limit: 3 });
    assert_eq!(refusal.code(), StatusCode::ResourceExhausted);
    println!("covers: M242 IS24");
}

/// A list within the limit may replace another one.
#[test]
fn name_limit_counts_current_names() {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = 3;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run(
        "set eds d=1\n> eds a b c\n> eds d e f\n< eds first d=1\n> eds d e f\n> eds a\n> rds x y",
    );
    assert_eq!(rig.server.stats().streams, 1);
    rig.run("> lds z");
    assert_eq!(rig.server.stats().streams, 0);

    // Changing to the wildcard and back does not accumulate names.
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set eds a=1 b=1 c=1 d=1\n> eds a b c\n< eds first a=1 b=1 c=1");
    for _ in 0..5 {
        rig.run("> eds *\n< eds resubscribed d=1\n> eds a b c\n< eds resubscribed a=1 b=1 c=1");
    }
    rig.run("> eds *\n> rds x y z");
    assert_eq!(rig.server.stats().streams, 1);

    // Previously named resources are remembered until the wildcard response, and count toward the
    // limit.
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    for short in ["rds", "eds"] {
        rig.run(&format!("set {short} a=1 b=1 c=1 d=1\n> {short} a b c"));
        rig.run(&format!("< {short} first a=1 b=1 c=1\n> {short} *"));
    }
    rig.run("> odd a b c");
    assert_eq!(rig.server.stats().streams, 1);
    rig.run("> odd x y z");
    assert_eq!(rig.server.stats().streams, 0);
}

/// Drivers may use a server from any thread and share it behind a lock.
#[test]
fn server_is_send_sync_and_unwind_safe() {
    fn assert_shareable<T: Send + Sync + core::panic::UnwindSafe>(_: &T) {}
    assert_shareable(&Server::new(ServerConfig::default(), 1, Time::ZERO));
}

// IS34, rule 6: invalid messages close only their own stream.
#[test]
fn invalid_message_closes_its_stream() {
    let good = first("cds", &["a", "b"]).encode_to_vec();
    let mut broken = vec![vec![0xff; 40], vec![0x0a, 5], vec![0x22, 1, 0xff], vec![0x00]];
    broken.extend((1..good.len()).map(|cut| good.get(..cut).unwrap_or_default().to_vec()));
    let mut with_error = first("cds", &[]).encode_to_vec();
    with_error.extend([0x32, 2, 0x12, 9]); // An error detail that ends within its message.
    broken.push(with_error);

    let mut rig = Rig::script("2> cds");
    let other = rig.stream(2);
    for message in broken {
        let id = rig.server.accept(VIA, rig.now).expect("a stream");
        rig.effects();
        rig.event(StreamEvent::Message(id, message.into()));
        if let Some(reason) = close_of(&mut rig, id) {
            assert_eq!(reason.code(), StatusCode::InvalidArgument);
            assert!(!reason.to_string().is_empty());
        } else {
            // Cut between two fields, the message is a valid shorter request.
            rig.event(StreamEvent::Closed(id));
        }
        assert!(rig.server.wants_read(other));
    }
    assert!(rig.server.stats().malformed_requests > 10);

    let id = rig.server.accept(VIA, rig.now).expect("a stream");
    rig.event(StreamEvent::Undeliverable(id, "message of 5 MiB".into()));
    let reason = close_of(&mut rig, id).expect("closed");
    assert_eq!(reason.to_string(), "undeliverable request: message of 5 MiB");
    println!("covers: IS34");
}

/// Observations of a whole stream in order.
#[test]
fn stream_lifecycle_is_observed() {
    let mut rig = Rig::script("> eds x x *\n> eds nonce: x *\n> eds nonce: y\n> eds nonce:\nclose");
    let stream = rig.outputs.iter().find_map(|output| match output {
        ServerOutput::Observed(Observation::Connected { stream }) => Some(*stream),
        _ => None,
    });
    let stream = stream.expect("a stream");
    let subscribed = |subscribed| Observation::Subscribed {
        stream,
        type_url: url("eds").as_str().into(),
        subscribed,
    };
    assert_eq!(
        rig.observations(),
        [
            Observation::Connected { stream },
            Observation::Identified {
                stream,
                node_id: "node-1".into(),
                node: Node { id: String::from("node-1"), ..Node::default() }.encode_to_vec().into(),
            },
            subscribed(SubscribedNames::WildcardAndNames(1)),
            subscribed(SubscribedNames::Names(1)),
            subscribed(SubscribedNames::Nothing),
            Observation::Disconnected { stream },
        ]
    );
}

/// Contract rules 1, 3 and 4.
#[test]
fn clock_polling_and_timer_contract_holds() {
    let at = Time::from_nanos;
    let mut server = Server::new(ServerConfig::default(), 1, at(10));
    assert_eq!(server.poll_timeout(), None);
    let stream = server.accept(VIA, at(20)).expect("a stream");
    server.handle_timeout(at(5));
    let due = server.poll_timeout().expect("outputs are queued");
    assert_eq!(due.at, at(20), "now never goes back");

    // Inputs follow each other without polling; one wake-up suffices.
    server.handle_event(
        StreamEvent::Message(stream, first("cds", &[]).encode_to_vec().into()),
        at(30),
    );
    server.apply(transaction("cds a=1"), at(31)).expect("applied");
    server.apply(transaction("cds a=2"), at(32)).expect("applied");
    let mut outputs = Vec::new();
    outputs.extend(core::iter::from_fn(|| server.poll_output()));
    let writable = outputs.iter().filter(|o| **o == ServerOutput::Writable(stream)).count();
    assert_eq!(writable, 1);
    assert_eq!(server.poll_timeout(), None, "a response waiting for room does not make it spin");

    let mut frame = Frame::default();
    assert!(server.poll_transmit(stream, at(33), &mut frame).is_some());
    let kept = frame.clone();
    for _ in 0..3 {
        assert_eq!(server.poll_transmit(stream, at(34), &mut frame), None, "rule 5");
        assert_eq!((frame == kept, server.poll_output()), (true, None));
    }
    assert_eq!(server.status().next().map(|status| status.state), Some(SyncState::Sent));
}

/// Reading from a stream stops while its observations are not polled.
#[test]
fn unpolled_observations_stop_reading() {
    let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
    let stream = server.accept(VIA, Time::ZERO).expect("a stream");
    let mut sent = 0;
    while server.wants_read(stream) {
        sent += 1;
        let message = first("eds", &[&format!("x{sent}")]).encode_to_vec();
        server.handle_event(StreamEvent::Message(stream, message.into()), Time::ZERO);
        assert!(sent < 10_000);
    }
    assert!(sent > 100);
    while server.poll_output().is_some() {}
    assert!(server.wants_read(stream));
}
