//! One client, one server and one link, in virtual time.
//!
//! The pair processes everything that is due at one instant, then jumps to the earliest deadline or
//! delivery. A core that requests its timeout too late, or not at all, is detected, because no
//! periodic tick calls it.
//!
//! ```
//! use std::time::Duration;
//!
//! use xds_core::{Client, Time, TypeUrl, client::*, server, types};
//! use xds_sim::{Toy, ToyType, script::pair::{Pair, Peer}};
//!
//! let node = Node::new("simulated");
//! let config = ClientConfig::new(node, ServerAddress::new("sim"))
//!     .with_type(ToyType::new(types::CLUSTER));
//! let server = server::Server::new(server::ServerConfig::default(), 1, Time::ZERO);
//! let mut pair = Pair::new(Client::new(config, 1, Time::ZERO), Peer::Core(Box::new(server)));
//!
//! // Watched before it exists, created a minute later: it arrives all the same.
//! let clusters = TypeUrl::from(types::CLUSTER);
//! let watch = pair.client.watch(&clusters, Interest::Name("a"), Time::ZERO).unwrap();
//! pair.attach(watch, "w");
//! pair.advance(Duration::from_secs(60));
//! let mut change = server::Transaction::new();
//! change.set(types::CLUSTER, "a", Toy::bytes("a", "hello"));
//! if let Peer::Core(server) = &mut pair.peer {
//!     server.apply(change, Time::from_nanos(60_000_000_000)).unwrap();
//! }
//! pair.settle();
//! let log: Vec<String> = pair.take_log().into_iter().map(|event| event.text).collect();
//! assert!(log.iter().any(|line| line.starts_with("w: a=hello")), "{log:#?}");
//! ```

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time, UpdateId, WatchId,
    client::{Call, ChannelError, ChannelEvent, Output, TransportKind},
    server::{Server, ServerOutput, StreamEvent, StreamKind},
    service::Variant,
};

use super::{
    in_flight::{Connection, Delivery, Payload},
    watchers::Watcher,
};
use crate::wire_text;

/// Event in the log of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Virtual time.
    pub at: Time,
    /// Description in one line.
    pub text: String,
}

/// Server side of the link.
#[derive(Debug)]
pub enum Peer {
    /// No server: the script supplies the responses.
    Scripted,
    /// This project's management server.
    Core(Box<Server>),
}

/// Behaviour of the network for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The connection is accepted.
    Up,
    /// The connection is refused.
    Down,
    /// The connection attempt hangs, as behind a firewall.
    Silent,
}

/// Whether the client's transport accepts messages, and which channels wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Room {
    Free,
    Full { waiting: BTreeSet<ChannelId> },
}

/// Maximum number of rounds at one instant; more are a busy loop.
const ENDLESS: usize = 100_000;

/// Client, server and link in virtual time, which jumps to the next event.
#[derive(Debug)]
pub struct Pair {
    /// Client.
    pub client: Client,
    /// Server.
    pub peer: Peer,
    /// Behaviour for new connections to servers that `link_states` does not list.
    pub link_state: LinkState,
    /// Behaviour for new connections by server.
    pub link_states: BTreeMap<String, LinkState>,
    /// Latency of each message.
    pub latency: Duration,
    /// Whether the client's transport accepts messages.
    room: Room,
    pub(crate) now: Time,
    order: u64,
    deliveries: BinaryHeap<Reverse<Delivery>>,
    channels: BTreeMap<ChannelId, Connection>,
    /// Channel that ended last.
    pub(crate) last_ended: Option<ChannelId>,
    pub(crate) watchers: BTreeMap<WatchId, Watcher>,
    /// Updates that await a verdict, in order.
    pub(crate) updates: Vec<UpdateId>,
    log: Vec<LogEntry>,
}

impl Pair {
    /// Creates a pair at time zero.
    #[must_use]
    pub fn new(client: Client, peer: Peer) -> Self {
        Self {
            client,
            peer,
            link_state: LinkState::Up,
            link_states: BTreeMap::new(),
            latency: Duration::ZERO,
            room: Room::Free,
            now: Time::ZERO,
            order: 0,
            deliveries: BinaryHeap::new(),
            channels: BTreeMap::new(),
            last_ended: None,
            watchers: BTreeMap::new(),
            updates: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Current virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Removes and returns the log.
    pub fn take_log(&mut self) -> Vec<LogEntry> {
        std::mem::take(&mut self.log)
    }

    /// Appends a line to the log.
    pub fn note(&mut self, text: impl Into<String>) {
        self.log.push(LogEntry { at: self.now, text: text.into() });
    }

    /// Newest channel of the client, if there is one.
    #[must_use]
    pub fn channel(&self) -> Option<ChannelId> {
        self.channels.keys().next_back().copied()
    }

    /// Newest channel of the client whose call satisfies `is_meant`.
    #[must_use]
    pub fn channel_of(&self, is_meant: impl Fn(&Call) -> bool) -> Option<ChannelId> {
        let mut newest_first = self.channels.iter().rev();
        newest_first.find(|(_, connection)| is_meant(&connection.call)).map(|(id, _)| *id)
    }

    /// Sends a response on a channel, as a scripted server.
    pub fn respond(&mut self, channel: ChannelId, frame: Bytes) {
        self.deliver_later(channel, Payload::Response(frame));
    }

    /// Ends a stream of the client from the server side.
    pub fn end_stream(&mut self, channel: ChannelId, code: i32, message: &str) {
        self.deliver_later(channel, Payload::EndAtClient(code, message.into()));
        self.deliver_later(channel, Payload::EndAtServer);
    }

    /// Blocks the client's transport: no requests are rendered.
    pub fn block_transport(&mut self) {
        if self.room == Room::Free {
            self.room = Room::Full { waiting: BTreeSet::new() };
        }
    }

    /// Unblocks the client's transport and sends waiting requests.
    pub fn free_transport(&mut self) {
        if let Room::Full { waiting } = std::mem::replace(&mut self.room, Room::Free) {
            for channel in waiting {
                self.transmit_from_client(channel);
            }
        }
    }

    /// Passes an event to the client that no network would produce.
    pub fn inject(&mut self, event: ChannelEvent) {
        self.client.handle_event(event, self.now);
    }

    /// Processes everything that is due, without advancing time.
    ///
    /// # Panics
    ///
    /// Panics if the client and the server keep each other busy without end.
    pub fn settle(&mut self) {
        for _ in 0..ENDLESS {
            if !self.work() {
                return;
            }
        }
        panic!("no end of work at {}", self.now);
    }

    /// Advances virtual time, jumping from event to event.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        self.settle();
        while let Some(next) = self.next_event().filter(|&at| at <= end) {
            self.now = self.now.max(next);
            self.settle();
        }
        self.now = end;
    }

    fn next_event(&self) -> Option<Time> {
        let delivery = self.deliveries.peek().map(|Reverse(delivery)| delivery.at);
        let client = self.client.poll_timeout().map(|deadline| deadline.at);
        let server = match &self.peer {
            Peer::Core(server) => server.poll_timeout().map(|deadline| deadline.at),
            Peer::Scripted => None,
        };
        [delivery, client, server].into_iter().flatten().min()
    }

    /// Processes one round of everything that is due. Returns false if there was nothing.
    fn work(&mut self) -> bool {
        let mut has_worked = false;
        // Outputs are drained before the timeout handler runs. Otherwise the handler could queue an
        // output that another input forgot to queue.
        has_worked |= self.drain_client();
        if self.client.poll_timeout().is_some_and(|deadline| deadline.at <= self.now) {
            self.client.handle_timeout(self.now);
            self.drain_client();
            has_worked = true;
        }
        has_worked |= self.drain_server();
        has_worked |= self.read_inboxes();
        while let Some(Reverse(next)) = self.deliveries.peek() {
            if next.at > self.now {
                break;
            }
            let Some(Reverse(delivery)) = self.deliveries.pop() else { break };
            self.deliver(delivery);
            self.drain_client();
            self.drain_server();
            has_worked = true;
        }
        has_worked
    }

    fn drain_client(&mut self) -> bool {
        let mut has_worked = false;
        while let Some(output) = self.client.poll_output() {
            has_worked = true;
            match output {
                Output::Open(channel, call) => self.open(channel, call),
                Output::Close(channel, fault) => {
                    let why = fault.map_or_else(String::new, |fault| format!(": {fault}"));
                    self.note(format!("client closes {channel}{why}"));
                    self.last_ended = Some(channel);
                    self.deliver_later(channel, Payload::EndAtServer);
                }
                Output::Writable(channel) => self.transmit_from_client(channel),
                Output::Notify(watch, notice) => self.notify(watch, &notice),
                Output::Update(id, update) => {
                    self.updates.push(id);
                    self.note(format!("{id}: decide on {}", wire_text::update(&update)));
                }
                other => self.note(format!("{other:?}")),
            }
        }
        has_worked
    }

    fn open(&mut self, channel: ChannelId, call: Call) {
        let of_type = call
            .type_url
            .as_ref()
            .map(|url| format!(" for {}", wire_text::type_name(url.as_str())));
        let server = &call.server.uri;
        let link_state = self.link_states.get(&**server).copied().unwrap_or(self.link_state);
        self.note(format!("client opens {channel} to {server}{}", of_type.unwrap_or_default()));
        let connection = Connection { call, stream: None, inbox: VecDeque::new() };
        self.channels.insert(channel, connection);
        match link_state {
            LinkState::Up => self.deliver_later(channel, Payload::Connect),
            LinkState::Down => self.deliver_later(channel, Payload::Refuse),
            LinkState::Silent => {}
        }
    }

    fn transmit_from_client(&mut self, channel: ChannelId) {
        if let Room::Full { waiting } = &mut self.room {
            waiting.insert(channel);
            return;
        }
        let mut frame = Frame::default();
        while let Some(transmit) = self.client.poll_transmit(channel, self.now, &mut frame) {
            if self.is_of_a_file(channel) {
                self.note(format!("{channel} {}", wire_text::about_a_file(&transmit)));
                continue;
            }
            let message = frame.to_bytes();
            let text = match self.variant_on(channel) {
                Variant::StateOfTheWorld => wire_text::request(&message),
                Variant::Incremental => wire_text::delta_request(&message),
            };
            self.note(format!("{channel} -> {text}"));
            self.deliver_later(channel, Payload::Request(message));
        }
    }

    fn is_of_a_file(&self, channel: ChannelId) -> bool {
        let transport_kind = self.channels.get(&channel).map(|it| &it.call.server.transport_kind);
        matches!(transport_kind, Some(TransportKind::File(_)))
    }

    fn variant_on(&self, channel: ChannelId) -> Variant {
        self.channels.get(&channel).map_or_else(Variant::default, |it| it.call.server.variant)
    }

    fn drain_server(&mut self) -> bool {
        let Peer::Core(server) = &mut self.peer else { return false };
        let mut has_worked = false;
        if server.poll_timeout().is_some_and(|deadline| deadline.at <= self.now) {
            server.handle_timeout(self.now);
        }
        let mut lines = Vec::new();
        let mut sent = Vec::new();
        while let Some(output) = server.poll_output() {
            has_worked = true;
            match output {
                ServerOutput::Writable(stream) => {
                    let mut frame = Frame::default();
                    while let Some(transmit) = server.poll_transmit(stream, self.now, &mut frame) {
                        lines.push(format!("server answers {stream}: {}", transmit.cause));
                        sent.push((stream, Payload::Response(frame.to_bytes())));
                    }
                }
                ServerOutput::Close(stream, why) => {
                    let code = why.code().as_i32();
                    sent.push((stream, Payload::EndAtClient(code, why.to_string().into())));
                }
                ServerOutput::Observed(observation) => {
                    lines.extend(wire_text::observation(&observation));
                }
                _ => {}
            }
        }
        for line in lines {
            self.note(line);
        }
        for (stream, payload) in sent {
            let at = self.channels.iter_mut().find(|(_, c)| c.stream == Some(stream));
            let Some((&channel, connection)) = at else { continue };
            if matches!(payload, Payload::EndAtClient(..)) {
                connection.stream = None;
            }
            self.deliver_later(channel, payload);
        }
        has_worked
    }

    fn deliver_later(&mut self, channel: ChannelId, what: Payload) {
        self.order += 1;
        let at = self.now.after(self.latency);
        self.deliveries.push(Reverse(Delivery { at, order: self.order, channel, what }));
    }

    fn deliver(&mut self, Delivery { channel, what, .. }: Delivery) {
        match what {
            Payload::Connect => self.connect(channel),
            Payload::Refuse => {
                self.channels.remove(&channel);
                let error = ChannelError::Unreachable("connection refused".into());
                self.end_at_client(channel, error);
            }
            Payload::Request(message) => {
                if let Some(stream) = self.channels.get(&channel).and_then(|c| c.stream)
                    && let Peer::Core(server) = &mut self.peer
                {
                    server.handle_event(StreamEvent::Message(stream, message), self.now);
                }
            }
            Payload::Response(frame) => {
                if let Some(connection) = self.channels.get_mut(&channel) {
                    connection.inbox.push_back(frame);
                }
                self.read_inboxes();
            }
            Payload::EndAtClient(code, message) => {
                // Unread messages in the inbox are lost with the stream.
                if self.channels.contains_key(&channel) {
                    let code = StatusCode::from_i32(code);
                    self.end_at_client(channel, ChannelError::Status { code, message });
                }
                self.forget_if_ended(channel);
            }
            Payload::EndAtServer => {
                if let Some(stream) = self.channels.get_mut(&channel).and_then(|c| c.stream.take())
                    && let Peer::Core(server) = &mut self.peer
                {
                    server.handle_event(StreamEvent::Closed(stream), self.now);
                }
                self.channels.remove(&channel);
            }
        }
    }

    fn connect(&mut self, channel: ChannelId) {
        let variant = self.variant_on(channel);
        let type_url = self.channels.get(&channel).and_then(|it| it.call.type_url.clone());
        if let Peer::Core(server) = &mut self.peer {
            let via = match type_url {
                None => StreamKind::Aggregated(variant),
                Some(type_url) => StreamKind::Single { type_url, variant },
            };
            match server.accept(via, self.now) {
                Ok(stream) => {
                    if let Some(connection) = self.channels.get_mut(&channel) {
                        connection.stream = Some(stream);
                    }
                }
                Err(refusal) => {
                    let message = refusal.to_string().into();
                    let code = refusal.code();
                    let error = ChannelError::Status { code, message };
                    self.channels.remove(&channel);
                    return self.end_at_client(channel, error);
                }
            }
        }
        self.client.handle_event(ChannelEvent::Opened(channel), self.now);
    }

    fn end_at_client(&mut self, channel: ChannelId, error: ChannelError) {
        self.note(format!("{channel} ends: {error}"));
        self.last_ended = Some(channel);
        self.client.handle_event(ChannelEvent::Closed(channel, error), self.now);
    }

    fn forget_if_ended(&mut self, channel: ChannelId) {
        if self.channels.get(&channel).is_some_and(|connection| connection.stream.is_none()) {
            self.channels.remove(&channel);
        }
    }

    /// Lets the client read as much as it wants.
    fn read_inboxes(&mut self) -> bool {
        let mut has_read = false;
        let channels: Vec<ChannelId> = self.channels.keys().copied().collect();
        for channel in channels {
            while self.client.wants_read(channel)
                && let Some(frame) =
                    self.channels.get_mut(&channel).and_then(|c| c.inbox.pop_front())
            {
                has_read = true;
                let text = match self.variant_on(channel) {
                    Variant::StateOfTheWorld => wire_text::response(&frame),
                    Variant::Incremental => wire_text::delta_response(&frame),
                };
                self.note(format!("{channel} <- {text}"));
                self.client.handle_event(ChannelEvent::Message(channel, frame), self.now);
                self.drain_client();
            }
        }
        has_read
    }
}
