//! A management server and its clients, connected by function calls.

use std::collections::VecDeque;

use xds_core::{
    ChannelId, Client, Frame, StatusCode, StreamId, Time, TypeUrl, WatchId,
    client::{ChannelError, ChannelEvent, Interest, Notice, Output},
    server::{
        CloseReason, Observation, Server, ServerOutput, ServerTransmit, StreamEvent, StreamKind,
        Variant,
    },
};

/// Index of a client in its segment.
pub(crate) type Member = usize;

/// Server and its clients.
pub(crate) struct Segment {
    pub(crate) server: Server,
    clients: Vec<Client>,
    connections: Vec<Connection>,
    network: Network,
    /// Notices of watchers, with the client and the watch.
    pub(crate) notices: VecDeque<(Member, WatchId, Notice)>,
    /// Outputs of the server for its application.
    pub(crate) wishes: VecDeque<ServerOutput>,
    pub(crate) observations: Vec<Observation>,
    /// All responses that were sent.
    pub(crate) responses: Vec<(Member, ServerTransmit)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Up,
    Down,
}

struct Connection {
    member: Member,
    channel: ChannelId,
    stream: StreamId,
}

impl Segment {
    pub(crate) fn new(server: Server) -> Self {
        Self {
            server,
            clients: Vec::new(),
            connections: Vec::new(),
            network: Network::Up,
            notices: VecDeque::new(),
            wishes: VecDeque::new(),
            observations: Vec::new(),
            responses: Vec::new(),
        }
    }

    pub(crate) fn join(&mut self, client: Client) -> Member {
        self.clients.push(client);
        self.clients.len() - 1
    }

    pub(crate) fn client(&mut self, member: Member) -> &mut Client {
        &mut self.clients[member]
    }

    pub(crate) fn watch(
        &mut self,
        member: Member,
        type_url: &str,
        interest: Interest<'_>,
        now: Time,
    ) -> WatchId {
        let watch = self.clients[member].watch(&TypeUrl::from(type_url), interest, now);
        watch.expect("the type is registered")
    }

    /// Cuts all connections and refuses new ones, or allows connections again.
    pub(crate) fn set_network(&mut self, network: Network, now: Time) {
        self.network = network;
        if network == Network::Down {
            for Connection { member, channel, stream } in std::mem::take(&mut self.connections) {
                self.server.handle_event(StreamEvent::Closed(stream), now);
                let why =
                    ChannelError::Status { code: StatusCode::Unavailable, message: "cut".into() };
                self.clients[member].handle_event(ChannelEvent::Closed(channel, why), now);
            }
        }
    }

    /// Returns the streams of a client.
    pub(crate) fn streams_of(&self, member: Member) -> Vec<StreamId> {
        let own = self.connections.iter().filter(|it| it.member == member);
        own.map(|it| it.stream).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let clients = self.clients.iter().filter_map(Client::poll_timeout);
        clients.chain(self.server.poll_timeout()).map(|deadline| deadline.at).min()
    }

    /// Handles expired timers of server and clients.
    pub(crate) fn wake(&mut self, now: Time) {
        self.server.handle_timeout(now);
        self.clients.iter_mut().for_each(|client| client.handle_timeout(now));
    }

    /// Delivers all outputs. Returns whether there were any.
    pub(crate) fn pump(&mut self, now: Time) -> bool {
        let mut moved = false;
        for member in 0..self.clients.len() {
            while let Some(output) = self.clients[member].poll_output() {
                self.obey_client(member, output, now);
                moved = true;
            }
        }
        while let Some(output) = self.server.poll_output() {
            self.obey_server(output, now);
            moved = true;
        }
        moved
    }

    fn obey_client(&mut self, member: Member, output: Output, now: Time) {
        match output {
            Output::Open(channel, call) => {
                let news = match self.network {
                    Network::Up => {
                        let via = StreamKind::Aggregated(call.server.variant);
                        let stream = self.server.accept(via, now).expect("room for a stream");
                        self.connections.push(Connection { member, channel, stream });
                        ChannelEvent::Opened(channel)
                    }
                    Network::Down => {
                        ChannelEvent::Closed(channel, ChannelError::Unreachable("down".into()))
                    }
                };
                self.clients[member].handle_event(news, now);
            }
            Output::Close(channel, _) => {
                if let Some(stream) =
                    self.hang_up(|it| (it.member, it.channel) == (member, channel))
                {
                    self.server.handle_event(StreamEvent::Closed(stream.stream), now);
                }
            }
            Output::Writable(channel) => {
                let of = |it: &&Connection| (it.member, it.channel) == (member, channel);
                let Some(stream) = self.connections.iter().find(of).map(|it| it.stream) else {
                    return;
                };
                let mut frame = Frame::default();
                while self.clients[member].poll_transmit(channel, now, &mut frame).is_some() {
                    self.server.handle_event(StreamEvent::Message(stream, frame.to_bytes()), now);
                }
            }
            Output::Notify(watch, notice) => {
                self.clients[member].handled(watch, now);
                self.notices.push_back((member, watch, notice));
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn obey_server(&mut self, output: ServerOutput, now: Time) {
        match output {
            ServerOutput::Writable(stream) => {
                let Some(connection) = self.connections.iter().find(|it| it.stream == stream)
                else {
                    return;
                };
                let (member, channel) = (connection.member, connection.channel);
                let mut frame = Frame::default();
                while let Some(sent) = self.server.poll_transmit(stream, now, &mut frame) {
                    self.responses.push((member, sent));
                    let message = ChannelEvent::Message(channel, frame.to_bytes());
                    self.clients[member].handle_event(message, now);
                }
            }
            ServerOutput::Close(stream, reason) => self.end(stream, &reason, now),
            ServerOutput::Observed(observation) => self.observations.push(observation),
            wish => self.wishes.push_back(wish),
        }
    }

    fn end(&mut self, stream: StreamId, reason: &CloseReason, now: Time) {
        let Some(gone) = self.hang_up(|it| it.stream == stream) else { return };
        let why = ChannelError::Status { code: reason.code(), message: reason.to_string().into() };
        self.clients[gone.member].handle_event(ChannelEvent::Closed(gone.channel, why), now);
    }

    fn hang_up(&mut self, is_meant: impl Fn(&Connection) -> bool) -> Option<Connection> {
        let position = self.connections.iter().position(is_meant)?;
        Some(self.connections.remove(position))
    }
}

/// The two variants, for tests that apply to either.
pub(crate) const VARIANTS: [Variant; 2] = [Variant::StateOfTheWorld, Variant::Incremental];
