//! A management server and its clients, driven by hand: no runtime, no clock, no network.
//!
//! The clients know nothing but the protocol's manners: what they are sent they answer.

use std::{hint::black_box, mem, ops::AddAssign, time::Duration};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame, Nonce, StreamId, Time, TypeUrl,
    proto::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status},
    server::{
        OrderingPolicy, Server, ServerConfig, ServerLimits, ServerOutput, ServerTransmit,
        StreamEvent, Transaction, Via,
    },
    service::Variant,
};

use crate::stopwatch::Stopwatch;

/// A server, and what its clients still have to answer.
#[derive(Debug)]
pub struct Served {
    server: Server,
    type_url: &'static str,
    variant: Variant,
    frame: Frame,
    now: Time,
    connected: usize,
    unanswered: Vec<Unanswered>,
}

/// A response that a client has been sent.
#[derive(Debug)]
struct Unanswered {
    stream: StreamId,
    type_url: TypeUrl,
    version: String,
    nonce: Nonce,
}

/// What a client says to what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// That it has accepted it.
    Ack,
    /// That it has rejected it, in some two hundred bytes.
    Nack,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanOut {
    /// Responses.
    pub responses: usize,
    /// Resources in them.
    pub resources: usize,
    /// Names in them of what is gone.
    pub removed: usize,
    /// Their bytes, shared ones counted for each client.
    pub bytes: usize,
}

impl AddAssign for FanOut {
    fn add_assign(&mut self, more: Self) {
        self.responses += more.responses;
        self.resources += more.resources;
        self.removed += more.removed;
        self.bytes += more.bytes;
    }
}

/// As many inputs does an adapter take before it looks at what there is to do.
const INPUTS_PER_TURN: usize = 1_000;

impl Served {
    /// A server of one type with these resources.
    #[must_use]
    pub fn new(
        variant: Variant,
        type_url: &'static str,
        resources: impl Iterator<Item = (String, Bytes)>,
    ) -> Self {
        Self::ordered(OrderingPolicy::default(), variant, type_url, resources)
    }

    /// The same where types go in this order.
    #[must_use]
    pub fn ordered(
        ordering: OrderingPolicy,
        variant: Variant,
        type_url: &'static str,
        resources: impl Iterator<Item = (String, Bytes)>,
    ) -> Self {
        // Those who come back share one request, and so the id of their node.
        let mut limits = ServerLimits::default();
        limits.streams_per_node = limits.streams;
        let mut config = ServerConfig::default().with_limits(limits);
        config.ordering = ordering;
        let mut served = Self {
            server: Server::new(config, 1, Time::ZERO),
            type_url,
            variant,
            frame: Frame::default(),
            now: Time::ZERO,
            connected: 0,
            unanswered: Vec::new(),
        };
        served.change(resources);
        served
    }

    /// Takes a client that subscribes to `names`; it is not answered yet.
    pub fn connect(&mut self, names: &[String]) -> StreamId {
        let request = self.first_request(names, []);
        self.connect_with(request)
    }

    /// Takes a client whose first request this is.
    pub fn connect_with(&mut self, request: Bytes) -> StreamId {
        self.connected += 1;
        let via = Via::Aggregated(self.variant);
        let stream = self.server.accept(via, self.now).expect("room for a stream");
        self.server.handle_event(StreamEvent::Message(stream, request), self.now);
        stream
    }

    /// The first request of a client that has these resources, name and version, from before.
    pub fn first_request(
        &self,
        names: &[String],
        held: impl IntoIterator<Item = (String, String)>,
    ) -> Bytes {
        let node = Some(Node { id: format!("bench-{}", self.connected), ..Node::default() });
        let (type_url, names) = (self.type_url.to_owned(), names.to_vec());
        let encoded = match self.variant {
            Variant::Incremental => DeltaDiscoveryRequest {
                node,
                type_url,
                resource_names_subscribe: names,
                initial_resource_versions: held.into_iter().collect(),
                ..DeltaDiscoveryRequest::default()
            }
            .encode_to_vec(),
            Variant::StateOfTheWorld => DiscoveryRequest {
                node,
                type_url,
                resource_names: names,
                ..DiscoveryRequest::default()
            }
            .encode_to_vec(),
        };
        encoded.into()
    }

    /// Ends a client's stream.
    pub fn disconnect(&mut self, stream: StreamId) {
        self.server.handle_event(StreamEvent::Closed(stream), self.now);
        self.unanswered.retain(|response| response.stream != stream);
    }

    /// Sets resources, all in one transaction.
    pub fn change(&mut self, resources: impl Iterator<Item = (String, Bytes)>) {
        self.apply(self.transaction(resources));
    }

    /// A change of these resources, for [`apply`](Self::apply).
    pub fn transaction(&self, resources: impl Iterator<Item = (String, Bytes)>) -> Transaction {
        let mut transaction = Transaction::new();
        for (name, bytes) in resources {
            transaction.set(self.type_url, name, bytes);
        }
        transaction
    }

    /// Changes resources.
    pub fn apply(&mut self, transaction: Transaction) {
        // A millisecond: time goes by between two changes.
        self.now = self.now.after(Duration::from_millis(1));
        self.server.apply(transaction, self.now).expect("a sound transaction");
    }

    /// Sends what is due to all clients but `slow`, whose transport has no room.
    pub fn fan_out(&mut self, slow: Option<StreamId>) -> FanOut {
        let mut sent = FanOut::default();
        while let Some(output) = self.server.poll_output() {
            let ServerOutput::Writable(stream) = output else { continue };
            if slow != Some(stream) {
                self.send(stream, &mut sent, |_| {});
            }
        }
        sent
    }

    /// Sends what is due to one client, and shows the frames.
    pub fn send(&mut self, stream: StreamId, sent: &mut FanOut, mut look: impl FnMut(&Frame)) {
        while let Some(transmit) = self.server.poll_transmit(stream, self.now, &mut self.frame) {
            look(black_box(&self.frame));
            let ServerTransmit { type_url, version, nonce, resources, removed, .. } = transmit;
            sent.responses += 1;
            sent.resources += resources;
            sent.removed += removed;
            sent.bytes += self.frame.len();
            let version = match self.variant {
                Variant::StateOfTheWorld => version.as_str().to_owned(),
                Variant::Incremental => String::new(),
            };
            self.unanswered.push(Unanswered { stream, type_url, version, nonce });
        }
    }

    /// The answers to all that was sent, encoded.
    pub fn answers(&mut self, answer: Answer) -> Vec<(StreamId, Bytes)> {
        let error_detail = (answer == Answer::Nack).then(|| Status {
            code: 3,
            message: "x".repeat(200),
            ..Status::default()
        });
        let variant = self.variant;
        let encode = |response: Unanswered| {
            let type_url = response.type_url.as_str().to_owned();
            let nonce = response.nonce.as_str().to_owned();
            let encoded = match variant {
                Variant::Incremental => DeltaDiscoveryRequest {
                    type_url,
                    response_nonce: nonce,
                    error_detail: error_detail.clone(),
                    ..DeltaDiscoveryRequest::default()
                }
                .encode_to_vec(),
                Variant::StateOfTheWorld => DiscoveryRequest {
                    type_url,
                    version_info: response.version,
                    response_nonce: nonce,
                    error_detail: error_detail.clone(),
                    ..DiscoveryRequest::default()
                }
                .encode_to_vec(),
            };
            (response.stream, Bytes::from(encoded))
        };
        self.unanswered.drain(..).map(encode).collect()
    }

    /// Takes requests, and sends what is due after each turn of them.
    pub fn take(&mut self, requests: Vec<(StreamId, Bytes)>, slow: Option<StreamId>) -> FanOut {
        let mut sent = FanOut::default();
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            for (stream, request) in requests.by_ref().take(INPUTS_PER_TURN) {
                self.server.handle_event(StreamEvent::Message(stream, request), self.now);
            }
            sent += self.fan_out(slow);
        }
        sent
    }

    /// Sends and takes ACKs until nothing is due.
    pub fn settle(&mut self, slow: Option<StreamId>) -> FanOut {
        let mut sent = self.fan_out(slow);
        loop {
            let answers = self.answers(Answer::Ack);
            if answers.is_empty() {
                return sent;
            }
            sent += self.take(answers, slow);
        }
    }

    /// Subscribes a client to everything of another type as well.
    pub fn subscribe(&mut self, stream: StreamId, type_url: &'static str) {
        let usual = mem::replace(&mut self.type_url, type_url);
        let request = self.first_request(&["*".into()], []);
        self.type_url = usual;
        self.server.handle_event(StreamEvent::Message(stream, request), self.now);
    }

    /// One round, in its parts: a change, what it sends to everybody, and everybody's ACKs.
    pub fn round(
        &mut self,
        change: Transaction,
        slow: Option<StreamId>,
    ) -> ([Duration; 3], FanOut) {
        self.round_with(change, Answer::Ack, slow)
    }

    /// One round in which everybody answers in this way.
    pub fn round_with(
        &mut self,
        change: Transaction,
        answer: Answer,
        slow: Option<StreamId>,
    ) -> ([Duration; 3], FanOut) {
        let started = Stopwatch::start();
        self.apply(change);
        let applied = started.elapsed();
        let sent = self.fan_out(slow);
        let fanned_out = started.elapsed();

        let answers = self.answers(answer);
        let answering = Stopwatch::start();
        let more = self.take(answers, slow);
        let answered = answering.elapsed();
        assert_eq!(more, FanOut::default(), "one response each");
        ([applied, fanned_out - applied, answered], sent)
    }
}
