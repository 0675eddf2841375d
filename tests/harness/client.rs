//! Client of the suite, which answers every response and records it.

use std::collections::BTreeMap;

use prost::Message as _;
use xds_core::{
    Frame, StreamId, Time, TypeUrl,
    proto::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Node,
    },
    server::{Server, ServerEvent, ServerOutput, StreamEvent, StreamKind, Transaction},
    service::Variant,
    types,
};

use crate::adapter::name_of;

pub(crate) const NODE: &str = "test-id";
const NOW: Time = Time::ZERO;

/// Server with the suite's client, which has one stream or one per type.
pub(crate) struct Client {
    server: Server,
    variant: Variant,
    streams: Streams,
    open: BTreeMap<&'static str, StreamId>,
    /// Resources by type and name, without removed ones.
    pub(crate) resources: BTreeMap<(String, String), Received>,
    /// Removed resources, as type and name.
    pub(crate) removed: Vec<(String, String)>,
    requests: usize,
    responses: usize,
    /// Type and names that every ACK repeats, whatever its type.
    asked: Option<(&'static str, Vec<String>)>,
    last_nonce: String,
}

/// Streams of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    Aggregated,
    PerType,
}

/// Resource as received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) body: Vec<u8>,
    /// Version of the response.
    pub(crate) version: String,
    /// Version of the resource, which only incremental responses contain.
    pub(crate) own_version: Option<String>,
    pub(crate) nonce: String,
}

impl Client {
    pub(crate) fn new(server: Server, variant: Variant, streams: Streams) -> Self {
        Self {
            server,
            variant,
            streams,
            open: BTreeMap::new(),
            resources: BTreeMap::new(),
            removed: Vec::new(),
            requests: 0,
            responses: 0,
            asked: None,
            last_nonce: String::new(),
        }
    }

    /// Subscribes to these names, or to everything if there are none.
    ///
    /// Only the first request of a stream contains the node, but an incremental
    /// subscription always does.
    pub(crate) fn subscribe(&mut self, type_url: &'static str, names: &[&str]) {
        let is_new = !self.open.contains_key(self.key(type_url));
        let node = Some(Node { id: NODE.into(), ..Node::default() });
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        if self.asked.is_none() {
            self.asked = Some((type_url, names.clone()));
        }
        let request = match self.variant {
            Variant::StateOfTheWorld => DiscoveryRequest {
                node: node.filter(|_| is_new),
                type_url: type_url.into(),
                resource_names: names,
                ..DiscoveryRequest::default()
            }
            .encode_to_vec(),
            Variant::Incremental => DeltaDiscoveryRequest {
                node,
                type_url: type_url.into(),
                resource_names_subscribe: names,
                ..DeltaDiscoveryRequest::default()
            }
            .encode_to_vec(),
        };
        self.send(type_url, request);
    }

    /// Replaces the subscription to a type by this one name, and forgets all other resources.
    pub(crate) fn narrow(&mut self, type_url: &'static str, name: &str) {
        let key = (type_url.to_owned(), name.to_owned());
        let kept = self.resources[&key].clone();
        let request = DiscoveryRequest {
            version_info: kept.version.clone(),
            type_url: type_url.into(),
            resource_names: vec![name.into()],
            response_nonce: kept.nonce.clone(),
            ..DiscoveryRequest::default()
        };
        self.asked = Some((type_url, vec![name.into()]));
        self.resources.clear();
        self.resources.insert(key, kept);
        self.send(type_url, request.encode_to_vec());
    }

    /// Subscribes to an empty name, as the suite does to unsubscribe from everything.
    pub(crate) fn unsubscribe_from_all(&mut self, type_url: &'static str) {
        let request = DiscoveryRequest {
            type_url: type_url.into(),
            resource_names: vec![String::new()],
            response_nonce: self.last_nonce.clone(),
            ..DiscoveryRequest::default()
        };
        self.asked = Some((type_url, vec![String::new()]));
        self.resources.clear();
        self.send(type_url, request.encode_to_vec());
    }

    pub(crate) fn unsubscribe(&mut self, type_url: &'static str, name: &str) {
        let request = DeltaDiscoveryRequest {
            type_url: type_url.into(),
            resource_names_unsubscribe: vec![name.into()],
            ..DeltaDiscoveryRequest::default()
        };
        self.send(type_url, request.encode_to_vec());
    }

    /// Changes the server's resources.
    pub(crate) fn change(&mut self, change: Transaction) {
        self.server.apply(change, NOW).expect("a sound transaction");
        self.settle();
    }

    /// Whether each response contains all subscribed resources of the type.
    pub(crate) fn is_sent_full_state(&self, type_url: &str) -> bool {
        self.variant == Variant::StateOfTheWorld && types::is_full_state_in_sotw(type_url)
    }

    /// Whether every response has been answered and no other response was sent.
    pub(crate) fn answered_last(&self) -> bool {
        self.requests > self.responses
    }

    /// Receives and answers all responses of the server.
    fn settle(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServerOutput::Event(ServerEvent::Authorize { stream, node_id }) => {
                    self.server.assign(stream, &(*node_id).into(), NOW);
                }
                ServerOutput::Writable(stream) => self.receive(stream),
                ServerOutput::Close(_, reason) => panic!("the server ends the stream: {reason}"),
                _ => {}
            }
        }
    }

    fn key(&self, type_url: &'static str) -> &'static str {
        match self.streams {
            Streams::Aggregated => "",
            Streams::PerType => type_url,
        }
    }

    fn send(&mut self, type_url: &'static str, request: Vec<u8>) {
        let key = self.key(type_url);
        let stream = *self.open.entry(key).or_insert_with(|| {
            let via = match self.streams {
                Streams::Aggregated => StreamKind::Aggregated(self.variant),
                Streams::PerType => {
                    StreamKind::Single { type_url: TypeUrl::from(type_url), variant: self.variant }
                }
            };
            self.server.accept(via, NOW).expect("a stream")
        });
        self.answer(stream, request);
        self.settle();
    }

    fn answer(&mut self, stream: StreamId, request: Vec<u8>) {
        self.requests += 1;
        self.server.handle_event(StreamEvent::Message(stream, request.into()), NOW);
    }

    fn receive(&mut self, stream: StreamId) {
        let mut frame = Frame::default();
        while self.server.poll_transmit(stream, NOW, &mut frame).is_some() {
            self.responses += 1;
            let answer = match self.variant {
                Variant::StateOfTheWorld => self.take_state(&frame),
                Variant::Incremental => self.take_changes(&frame),
            };
            self.answer(stream, answer);
        }
    }

    fn take_state(&mut self, frame: &Frame) -> Vec<u8> {
        let response = DiscoveryResponse::decode(frame.to_bytes()).expect("a response");
        for any in response.resources {
            let name = name_of(&any.value).expect("a resource with a name");
            let received = Received {
                body: any.value.to_vec(),
                version: response.version_info.clone(),
                own_version: None,
                nonce: response.nonce.clone(),
            };
            self.resources.insert((response.type_url.clone(), name), received);
        }
        self.last_nonce.clone_from(&response.nonce);
        let (type_url, resource_names) = self.asked.clone().expect("it was asked for");
        DiscoveryRequest {
            version_info: response.version_info,
            resource_names,
            type_url: type_url.into(),
            response_nonce: response.nonce,
            ..DiscoveryRequest::default()
        }
        .encode_to_vec()
    }

    fn take_changes(&mut self, frame: &Frame) -> Vec<u8> {
        let response = DeltaDiscoveryResponse::decode(frame.to_bytes()).expect("a response");
        for resource in response.resources {
            let received = Received {
                body: resource.resource.map(|any| any.value.to_vec()).unwrap_or_default(),
                version: response.system_version_info.clone(),
                own_version: Some(resource.version),
                nonce: response.nonce.clone(),
            };
            self.resources.insert((response.type_url.clone(), resource.name), received);
        }
        for name in response.removed_resources {
            let key = (response.type_url.clone(), name);
            self.resources.remove(&key);
            self.removed.push(key);
        }
        DeltaDiscoveryRequest {
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        }
        .encode_to_vec()
    }
}
