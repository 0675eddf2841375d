//! Clients that violate the protocol: the server keeps running, and other clients are served.

use std::collections::BTreeSet;

use crate::support::url;
use proptest::{collection::vec, option, prelude::*};
use prost::Message as _;
use xds_core::{
    Frame, Time,
    proto::{DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse, Node, Status},
    server::{
        Server, ServerConfig, ServerOutput, StreamEvent, StreamKind, SyncState, Transaction,
        Variant,
    },
};

const TYPES: [&str; 4] = ["cds", "eds", "lds", "own"];
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Requests of a client that violates the protocol.
fn hostile() -> impl Strategy<Value = DiscoveryRequest> {
    let word = prop_oneof![
        4 => "[a-e*]", 1 => Just(String::new()), 1 => Just("n".repeat(3_000)), 1 => any::<String>()
    ];
    let nonce = prop_oneof![
        2 => Just(String::new()), 6 => (0..12u64).prop_map(|n| n.to_string()), 1 => any::<String>()
    ];
    let ty = prop_oneof![8 => (0..TYPES.len()).prop_map(|ty| url(TYPES[ty])), 1 => any::<String>()];
    let node = option::weighted(0.8, 0..2u8);
    let error = option::weighted(0.2, (any::<i32>(), any::<String>()));
    (any::<String>(), node, vec(word, 0..6), ty, nonce, error).prop_map(
        |(version_info, node, resource_names, type_url, response_nonce, error)| DiscoveryRequest {
            version_info,
            node: node.map(|n| Node { id: format!("n{n}"), ..Node::default() }),
            resource_names,
            type_url,
            response_nonce,
            error_detail: error.map(|(code, message)| Status {
                code,
                message,
                ..Status::default()
            }),
            ..DiscoveryRequest::default()
        },
    )
}

#[derive(Clone, Debug)]
enum Attack {
    Request(usize, Box<DiscoveryRequest>),
    Bytes(usize, Vec<u8>),
    Take(usize),
    Close(usize),
    Apply(Vec<(usize, usize, Option<u8>)>),
}

fn attack() -> impl Strategy<Value = Attack> {
    let change = (0..TYPES.len(), 0..NAMES.len(), option::weighted(0.6, 0..3u8));
    prop_oneof![
        12 => (0..3usize, hostile()).prop_map(|(client, request)| Attack::Request(client, Box::new(request))),
        1 => (0..3usize, vec(any::<u8>(), 0..40)).prop_map(|(c, bytes)| Attack::Bytes(c, bytes)),
        6 => (0..3usize).prop_map(Attack::Take),
        1 => (0..3usize).prop_map(Attack::Close),
        4 => vec(change, 1..4).prop_map(Attack::Apply),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // Rule 6, IS34, IS23: no input panics, no second response is sent before the first one is
    // answered, and closed clients leave no state.
    #[test]
    fn hostile_requests_neither_panic_nor_leak(attacks in vec(attack(), 1..80)) {
        let (via, now) = (StreamKind::Aggregated(Variant::StateOfTheWorld), Time::ZERO);
        let mut server = Server::new(ServerConfig::default(), 1, now);
        let mut streams = [(); 3].map(|()| server.accept(via.clone(), now).unwrap());
        let mut exists = BTreeSet::new();
        for attack in attacks {
            match attack {
                Attack::Request(client, request) => {
                    let bytes = request.encode_to_vec().into();
                    server.handle_event(StreamEvent::Message(streams[client], bytes), now);
                }
                Attack::Bytes(client, bytes) => {
                    server.handle_event(StreamEvent::Message(streams[client], bytes.into()), now);
                }
                Attack::Take(client) => {
                    let mut frame = Frame::default();
                    if let Some(sent) = server.poll_transmit(streams[client], now, &mut frame) {
                        let response = DiscoveryResponse::decode(frame.to_bytes()).unwrap();
                        prop_assert_eq!(response.resources.len(), sent.resources);
                        let again = server.status().find(|status| {
                            status.stream == streams[client] && *status.type_url == sent.type_url
                        });
                        prop_assert_eq!(again.unwrap().state, SyncState::Sent);
                    }
                }
                Attack::Close(client) => {
                    server.handle_event(StreamEvent::Closed(streams[client]), now);
                }
                Attack::Apply(changes) => {
                    let mut transaction = Transaction::new();
                    for (ty, name, content) in changes {
                        let (type_url, name) = (url(TYPES[ty]), NAMES[name]);
                        if let Some(content) = content {
                            transaction.set(&*type_url, name, vec![content]);
                            exists.insert((ty, name));
                        } else {
                            transaction.remove(&*type_url, name);
                            exists.remove(&(ty, name));
                        }
                    }
                    server.apply(transaction, now).unwrap();
                }
            }
            while let Some(output) = server.poll_output() {
                if let ServerOutput::Close(stream, reason) = output {
                    prop_assert!(!reason.to_string().is_empty());
                    prop_assert!(streams.contains(&stream));
                }
            }
            for stream in &mut streams {
                if !server.wants_read(*stream) {
                    *stream = server.accept(via.clone(), now).unwrap();
                }
            }
        }
        for stream in streams {
            server.handle_event(StreamEvent::Closed(stream), now);
        }
        let stats = server.stats();
        prop_assert_eq!((stats.streams, stats.subscriptions), (0, 0));
        let held: BTreeSet<_> = exists.iter().map(|(ty, _)| ty).collect();
        prop_assert_eq!(stats.types, held.len());
        prop_assert_eq!((stats.resources, stats.names), (exists.len(), exists.len()));
    }
}

// The cost of a message depends on its length, not on subscriptions or stored resources (IS25). If
// the server went through everything once per mention, each of these would take minutes.
#[test]
fn message_cost_is_bounded_by_its_length() {
    const MANY: usize = 100_000;
    let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
    let names = (0..MANY).map(|n| format!("n{n}"));
    let mut transaction = Transaction::in_view("");
    for name in names.clone() {
        transaction.set(&*url("cds"), &*name, vec![1]);
    }
    server.apply(transaction, Time::ZERO).unwrap();
    let stream = server.accept(StreamKind::Aggregated(Variant::Incremental), Time::ZERO).unwrap();
    let mut say = |ty: &str, subscribe: Vec<String>, unsubscribe: Vec<String>| {
        let request = DeltaDiscoveryRequest {
            node: Some(Node { id: String::from("n"), ..Node::default() }),
            type_url: url(ty),
            resource_names_subscribe: subscribe,
            resource_names_unsubscribe: unsubscribe,
            ..DeltaDiscoveryRequest::default()
        };
        let event = StreamEvent::Message(stream, request.encode_to_vec().into());
        server.handle_event(event, Time::ZERO);
    };
    let all = || vec![String::from("*")];
    // Many wildcards from a client with many names.
    say("eds", names.collect(), Vec::new());
    say("eds", vec![String::from("*"); MANY], Vec::new());
    // Many globs over the client's own names.
    let below = |name: &dyn core::fmt::Display| format!("xdstp://a/{}/{name}", &url("lds")[20..]);
    say("lds", (0..MANY).map(|n| below(&n)).collect(), Vec::new());
    say("lds", vec![below(&'*'); MANY], Vec::new());
    // The wildcard of a large store, repeatedly.
    for _ in 0..2_000 {
        say("cds", all(), all());
    }
    println!("covers: IS25 M242");
}
