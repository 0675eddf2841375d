//! Custom messages on the server's streams, and the order in which streams are served.

use crate::support::{Rig, request_of, run_all, transaction_in, url};
use xds_core::{
    Frame, ViewName,
    proto::DiscoveryRequest,
    server::{
        Admission, CloseReason, CustomMessageError, ResponseCause, ServerConfig, ServerEvent,
        ServerLimits, ServerOutput, StatusCode, StreamEvent, StreamKind, Variant,
    },
};

fn config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.custom_message_types.insert(url("health").into());
    config
}

fn custom_messages(rig: &mut Rig) -> Vec<(xds_core::StreamId, String, usize)> {
    rig.effects()
        .into_iter()
        .filter_map(|effect| match effect {
            ServerOutput::Event(ServerEvent::CustomMessage { stream, type_url, message }) => {
                Some((stream, type_url.to_string(), message.len()))
            }
            _ => None,
        })
        .collect()
}

// M21: custom messages are passed to the application, which may send some as well.
#[test]
fn custom_messages_reach_application_and_client() {
    let mut config = config();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    let stream = rig.stream(1);
    // Before the first xDS request, and without a node.
    let report = DiscoveryRequest { type_url: url("health"), ..DiscoveryRequest::default() };
    let len = prost::Message::encode_to_vec(&report).len();
    rig.message(stream, &report);
    assert_eq!(custom_messages(&mut rig), [(stream, url("health"), len)]);
    assert_eq!(rig.server.stats().streams, 1, "no node is needed for that");

    rig.server.send_custom_message(stream, url("health"), "thanks", rig.now).expect("room");
    rig.drain();
    assert!(rig.effects().contains(&ServerOutput::Writable(stream)));
    let mut frame = Frame::default();
    let sent = rig.server.poll_transmit(stream, rig.now, &mut frame).expect("a message");
    assert_eq!(
        (sent.cause, sent.nonce.as_str(), sent.type_url.as_str()),
        (ResponseCause::CustomMessage, "", &*url("health"))
    );
    assert_eq!(&frame.to_bytes()[..], b"thanks");
    rig.run("<");

    // The next xDS request counts as the first one and gets the first nonce.
    rig.run("> cds");
    let asked = rig.effects();
    assert!(
        matches!(&asked[..], [ServerOutput::Event(ServerEvent::Authorize { .. })]),
        "{asked:?}"
    );
    rig.message(stream, &report);
    assert_eq!(custom_messages(&mut rig).len(), 1, "it does not wait for a view");
    rig.server.apply(transaction_in("one", "cds a=1"), rig.now).expect("a good transaction");
    rig.server.assign(stream, &ViewName::from("one"), rig.now);
    rig.run("< cds first a=1");
    assert_eq!(rig.nonce(1, "cds"), "1");
    rig.message(stream, &report);
    rig.run("> cds\nlag cds 1");
    assert_eq!(rig.server.status().count(), 1, "nothing is subscribed to");
    println!("covers: M21");
}

// M21: other types are unaffected, and a node in a custom message is used.
#[test]
fn only_registered_types_are_custom_messages() {
    let mut rig = Rig::new(config());
    let stream = rig.stream(1);
    rig.message(stream, &request_of("node-1", "health"));
    assert_eq!(custom_messages(&mut rig).len(), 1);
    let plain = DiscoveryRequest { type_url: url("cds"), ..DiscoveryRequest::default() };
    rig.message(stream, &plain);
    let status: Vec<_> = rig.server.status().map(|status| status.node_id.to_owned()).collect();
    assert_eq!(status, ["node-1"]);

    let other = rig.stream(2);
    rig.message(other, &DiscoveryRequest { type_url: url("odd"), ..DiscoveryRequest::default() });
    assert_eq!(rig.take_close(2), Some(CloseReason::MissingNode));
    // A single-type stream of another type does not carry custom messages.
    let type_url = url("eds").into();
    let variant = Variant::StateOfTheWorld;
    let single =
        rig.server.accept(StreamKind::Single { type_url, variant }, rig.now).expect("a stream");
    rig.message(single, &request_of("node-3", "health"));
    let foreign = |output: &ServerOutput| {
        matches!(output, ServerOutput::Close(_, CloseReason::WrongTypeUrl { .. }))
    };
    assert!(rig.effects().iter().any(foreign), "M7");
    println!("covers: M21 M7");
}

#[test]
fn queued_custom_messages_are_limited() {
    let mut limits = ServerLimits::default();
    limits.custom_messages_per_stream = 2;
    let mut rig = Rig::new(config().with_limits(limits));
    rig.run("set cds a=1\n> cds");
    let stream = rig.stream(1);
    let mut send =
        |text: &'static str| rig.server.send_custom_message(stream, url("health"), text, rig.now);
    assert_eq!((send("one"), send("two")), (Ok(()), Ok(())));
    assert_eq!(send("three"), Err(CustomMessageError::TooMany { limit: 2 }));
    let mut frame = Frame::default();
    for text in ["one", "two"] {
        let sent = rig.server.poll_transmit(stream, rig.now, &mut frame).expect("a message");
        assert_eq!(
            (sent.cause, &frame.to_bytes()[..]),
            (ResponseCause::CustomMessage, text.as_bytes())
        );
    }
    rig.run("< cds first a=1\n<");
    let stats = rig.server.stats();
    assert_eq!((stats.responses, stats.causes.custom_messages, stats.causes.first), (1, 2, 1));
    rig.event(StreamEvent::Closed(stream));
    let late = rig.server.send_custom_message(stream, url("health"), "late", rig.now);
    assert_eq!(late, Err(CustomMessageError::NoStream));
    println!("covers: M21 M242");
}

/// Streams announced as writable, in order.
fn writable(rig: &mut Rig) -> Vec<xds_core::StreamId> {
    rig.effects()
        .into_iter()
        .filter_map(|effect| match effect {
            ServerOutput::Writable(stream) => Some(stream),
            _ => None,
        })
        .collect()
}

// M226, M227, M228: a stream is announced once until it is served, in the order of becoming due.
#[test]
fn writable_streams_are_announced_once_in_order() {
    served_in_turn("", "cds", "eds x y", ["cds", "eds x y"]);
    served_in_turn("d", "cds +*", "eds +x +y", ["cds ack", "eds ack"]);
    println!("covers: M226 M227 M228");
}

fn served_in_turn(d: &str, everything: &str, names: &str, [cds, eds]: [&str; 2]) {
    let mut rig = Rig::default();
    rig.run("set cds a=1; eds x=1 y=1");
    for n in [1, 2, 3] {
        rig.run(&format!("{n}{d}> {everything}\n{n}{d}< cds first a=1\n{n}{d}> {cds}"));
        rig.run(&format!("{n}{d}> {names}\n{n}{d}< eds first x=1 y=1\n{n}{d}> {eds}"));
    }
    let ids = [1, 2, 3].map(|stream| rig.stream(stream));
    writable(&mut rig);
    rig.run("set cds a=2\nset cds a=3\nset eds x=2");
    assert_eq!(writable(&mut rig), ids, "once each, in order (M226)");
    // One response per turn: each stream gets its clusters before any gets endpoints (M228).
    rig.run("< cds changed a=3\n2< cds changed a=3\n3< cds changed a=3");
    // A stream that becomes due again while it is served is not announced again.
    rig.run("set eds y=2");
    assert_eq!(writable(&mut rig), [], "it is being served");
    rig.run("< eds changed x=2 y=2\n<\n2< eds changed x=2 y=2\n2<");
    for n in [1, 2] {
        rig.run(&format!("{n}> {eds}\n{n}> {cds}\n{n}<"));
    }
    writable(&mut rig);
    // A stream that becomes due after it was served is announced again, once (M227).
    rig.run("set eds y=3\nset eds x=3");
    assert_eq!(writable(&mut rig), ids[..2]);
    rig.run("3< eds changed x=3 y=3");
}

#[test]
fn slow_reader_does_not_delay_others_or_use_memory() {
    run_all(&[
        // M229: requests are processed at once, and updates are still sent.
        (
            "M229",
            "
            set eds a=1 b=1
            > eds a
            < eds first a=1
            set eds a=2
            > eds a
            > eds a b
            > eds a
            > eds a b
            < eds changed a=2 b=1
            > eds a b
            set eds a=3
            > eds a b
            < eds changed a=3
        ",
        ),
        (
            "M229",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            set eds a=2
            d> eds ack
            d> eds +b
            d> eds -b
            d> eds +b
            d< eds changed a=2 b=1
            d> eds ack
            set eds a=3
            d> eds -c
            d< eds changed a=3
        ",
        ),
        (
            "M230 IS25",
            "
            set eds a=1 b=1
            d> eds +a +b
            2d> eds +a +b
            set eds a=2
            2d< eds first a=2 b=1
            2d> eds ack
            set eds a=3
            2d< eds changed a=3
            2d> eds ack
            set eds a=4 -b
            2d< eds changed a=4 -b
            2d> eds ack
            d< eds first a=4 -b
            d<
        ",
        ),
        // M230, IS25: a client that does not read gets the newest state once; other clients do not
        // wait.
        (
            "M230 IS25",
            "
            set eds a=1 b=1
            > eds a b
            2> eds a b
            set eds a=2
            2< eds first a=2 b=1
            2> eds a b
            set eds a=3
            2< eds changed a=3
            2> eds a b
            set eds a=4 b=2
            2< eds changed a=4 b=2
            2> eds a b
            < eds first a=4 b=2
            <
        ",
        ),
        // M232: the stream of one client ends during an update. The other clients get theirs, and
        // the client gets everything when it reconnects.
        (
            "M232 M15",
            "
            set cds a=1
            d> cds +*
            2d> cds +*
            3d> cds +*
            d< cds first a=1
            2d< cds first a=1
            3d< cds first a=1
            d> cds ack
            2d> cds ack
            3d> cds ack
            set cds a=2
            d< cds changed a=2
            2d< cds changed a=2
            2close
            3d< cds changed a=2
            d> cds ack
            3d> cds ack
            lag cds 2
            set cds a=3
            d< cds changed a=3
            2d> cds +* has:a=1
            2d< cds first a=3
            3d< cds changed a=3
        ",
        ),
        (
            "M232 M15",
            "
            set cds a=1; eds a=1
            > cds
            > eds a
            2> cds
            2> eds a
            3> cds
            3> eds a
            < cds first a=1
            2< cds first a=1
            2close                       # with pending updates
            3< cds first a=1
            3< eds first a=1
            < eds first a=1
            2> cds
            2> eds a
            2< cds first a=1
            2< eds first a=1
        ",
        ),
        // M232: a client that is lost during an update does not affect others.
        (
            "M232 M15",
            "
            set cds a=1
            > cds
            2> cds
            3> cds
            < cds first a=1
            2close
            3< cds first a=1
            3> cds
            > cds
            set cds a=2
            < cds changed a=2
            3< cds changed a=2
        ",
        ),
    ]);
    // M230: a client that does not read costs no memory for pending updates.
    for subscribe in ["> eds *", "d> eds +*", "d> eds +a"] {
        costs_no_memory(subscribe);
    }
    println!("covers: M230");
}

fn costs_no_memory(subscribe: &str) {
    let mut rig = Rig::default();
    rig.run("set eds a=1");
    rig.run(subscribe);
    let before = rig.server.stats();
    for content in 0..1_000 {
        rig.run(&format!("set eds a={content}x"));
    }
    let after = rig.server.stats();
    assert_eq!((before.payloads, before.names), (after.payloads, after.names));
    assert_eq!(writable(&mut rig).len(), 1, "announced once");
    rig.run("< eds first a=999x\n<");
}

// S3.003, B22: a client without permission for a resource has a view with an error in its place.
#[test]
fn forbidden_resource_is_reported_as_error() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    for (view, changes) in [("all", "sds a=1 key=1"), ("some", "sds a=1 !key=7")] {
        rig.server.apply(transaction_in(view, changes), rig.now).expect("a good transaction");
    }
    rig.run("> sds a key\n2> sds a key\n3d> sds +a +key\n4d> sds +*");
    for (stream, view) in [(1, "all"), (2, "some"), (3, "some"), (4, "some")] {
        let id = rig.stream(stream);
        rig.server.assign(id, &ViewName::from(view), rig.now);
    }
    rig.run(
        "
        < sds first a=1 key=1
        2< sds first a=1 !key=7
        3d< sds first a=1 !key=7
        4d< sds first a=1
        2> sds a key
        2<
        ",
    );
    assert_eq!(rig.server.stats().payloads, 2, "what both see is stored once");
    // Permission is granted without a new stream.
    let id = rig.stream(2);
    rig.server.assign(id, &ViewName::from("all"), rig.now);
    rig.run("2< sds changed key=1\n2> sds a key\n2<");
    assert_eq!(StatusCode::PermissionDenied.as_i32(), 7);
    println!("covers: S3.003 B22 M237");
}

/// Statistics count causes, reasons and closes, and have no per-node data.
// M240
#[test]
fn statistics_count_causes_and_close_reasons() {
    let mut limits = ServerLimits::default();
    limits.types_per_stream = 1;
    limits.deletions_per_type = 2;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set eds a=1 b=1 c=1 d=1 e=1\n> eds a\n< eds first a=1\n> eds a b");
    rig.run("< eds resubscribed b=1\n> eds nack a b\nset eds a=2\n< eds changed a=2 b=1");
    rig.run("> cds\nclosed 8\n2> eds a\n2close\n3d> eds +*");
    rig.run("3d< eds first a=2 b=1 c=1 d=1 e=1\nset eds -a\nset eds -b\nset eds -c\n3closed 14");
    let id = rig.stream(4);
    rig.event(StreamEvent::Undeliverable(id, "cut off".into()));
    rig.run("5> eds b\nshutdown");
    let stats = rig.server.stats();
    let causes = stats.causes;
    assert_eq!((causes.first, causes.resubscribed, causes.changed, causes.warming), (2, 1, 1, 0));
    assert_eq!((stats.responses, stats.acks, stats.nacks), (4, 1, 1));
    let closed = stats.closed;
    assert_eq!((closed.subscriptions, closed.limits, closed.by_clients), (1, 1, 1));
    assert_eq!((closed.behind, closed.invalid, closed.shutting_down), (1, 1, 1));
    assert_eq!(stats.discarded_deletions, 2);
    println!("covers: M240");
}
