//! A management server and its clients, driven by hand: without runtime, clock or network.
//!
//! The clients have no protocol logic except that they answer every response.

use std::{hint::black_box, mem, ops::AddAssign, time::Duration};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    Frame, Nonce, StreamId, Time, TypeUrl,
    proto::{DeltaDiscoveryRequest, DiscoveryRequest, Node, Status},
    server::{
        OrderingPolicy, Server, ServerConfig, ServerLimits, ServerOutput, ServerTransmit,
        StreamEvent, StreamKind, Transaction,
    },
    service::Variant,
};

use crate::stopwatch::Stopwatch;

/// Server, and the responses that its clients have yet to answer.
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

/// Response that a client has been sent.
#[derive(Debug)]
struct Unanswered {
    stream: StreamId,
    type_url: TypeUrl,
    version: String,
    nonce: Nonce,
}

/// Answer of a client to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Accepts the response.
    Ack,
    /// Rejects the response, with a reason of about 200 bytes.
    Nack,
}

/// Counters of sent responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanOut {
    /// Number of responses.
    pub responses: usize,
    /// Number of resources in the responses.
    pub resources: usize,
    /// Number of removed names in the responses.
    pub removed: usize,
    /// Number of bytes. Shared bytes count for each client.
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

/// Number of inputs after which outputs are processed, as in an adapter.
const INPUTS_PER_TURN: usize = 1_000;

impl Served {
    /// Creates a server of one type with these resources.
    #[must_use]
    pub fn new(
        variant: Variant,
        type_url: &'static str,
        resources: impl Iterator<Item = (String, Bytes)>,
    ) -> Self {
        Self::ordered(OrderingPolicy::default(), variant, type_url, resources)
    }

    /// Creates a server of one type with these resources and this ordering of types.
    #[must_use]
    pub fn ordered(
        ordering: OrderingPolicy,
        variant: Variant,
        type_url: &'static str,
        resources: impl Iterator<Item = (String, Bytes)>,
    ) -> Self {
        // Reconnecting clients share one request, and so one node id.
        let mut limits = ServerLimits::default();
        limits.streams_per_node = limits.streams;
        limits.names_per_connection = limits.names_per_stream;
        // Whole requests are measured.
        limits.names_per_call = usize::MAX;
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

    /// Connects a client that subscribes to `names`. It is not sent a response yet.
    pub fn connect(&mut self, names: &[String]) -> StreamId {
        let request = self.first_request(names, []);
        self.connect_with(request)
    }

    /// Connects a client with this first request.
    pub fn connect_with(&mut self, request: Bytes) -> StreamId {
        self.connected += 1;
        let via = StreamKind::Aggregated(self.variant);
        let stream = self.server.accept(via, self.now).expect("room for a stream");
        self.server.handle_event(StreamEvent::Message(stream, request), self.now);
        stream
    }

    /// Returns the first request of a client that has these resources, as names and versions.
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

    /// Ends the stream of a client.
    pub fn disconnect(&mut self, stream: StreamId) {
        self.server.handle_event(StreamEvent::Closed(stream), self.now);
        self.unanswered.retain(|response| response.stream != stream);
    }

    /// Sets resources in one transaction.
    pub fn change(&mut self, resources: impl Iterator<Item = (String, Bytes)>) {
        self.apply(self.transaction(resources));
    }

    /// Returns a transaction with these resources, for [`apply`](Self::apply).
    pub fn transaction(&self, resources: impl Iterator<Item = (String, Bytes)>) -> Transaction {
        let mut transaction = Transaction::new();
        for (name, bytes) in resources {
            transaction.set(self.type_url, name, bytes);
        }
        transaction
    }

    /// Applies a transaction.
    pub fn apply(&mut self, transaction: Transaction) {
        // Time passes between two changes.
        self.now = self.now.after(Duration::from_millis(1));
        self.server.apply(transaction, self.now).expect("a sound transaction");
    }

    /// Sends all due responses, except to `slow`, whose transport accepts none.
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

    /// Sends all due responses to one client, and passes each frame to `look`.
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

    /// Returns the encoded answers to all sent responses.
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

    /// Processes requests in batches, and sends the due responses after each batch.
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

    /// Sends responses and processes ACKs until no response is due.
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

    /// Subscribes a client to everything of another type.
    pub fn subscribe(&mut self, stream: StreamId, type_url: &'static str) {
        let usual = mem::replace(&mut self.type_url, type_url);
        let request = self.first_request(&["*".into()], []);
        self.type_url = usual;
        self.server.handle_event(StreamEvent::Message(stream, request), self.now);
    }

    /// Makes a change, sends it to all clients and processes their ACKs. Returns the time
    /// of each part.
    pub fn round(
        &mut self,
        change: Transaction,
        slow: Option<StreamId>,
    ) -> ([Duration; 3], FanOut) {
        self.round_with(change, Answer::Ack, slow)
    }

    /// Makes a change that all clients answer with `answer`. Returns the time of each part.
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
