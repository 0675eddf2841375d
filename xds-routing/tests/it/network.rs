//! Client core connected to a server core by function calls, in virtual time. A follower receives
//! the client's notices.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, Frame, StatusCode, StreamId, Time, WatchId,
    client::{ChannelError, ChannelEvent, ClientConfig, Notice, Output},
    server::{Server, ServerConfig, ServerOutput, StreamEvent, StreamKind, Transaction, Variant},
    types,
};
use xds_routing::dependencies::Dependency;

/// User of the client's notices.
pub(crate) trait Follower {
    /// Result of the follower.
    type Said;

    fn handle_notice(
        &mut self,
        watch: WatchId,
        notice: Notice,
        client: &mut Client,
        now: Time,
    ) -> Option<Notice>;

    fn poll_said(&mut self) -> Option<Self::Said>;

    fn poll_timeout(&self) -> Option<Time>;

    fn handle_timeout(&mut self, client: &mut Client, now: Time);
}

pub(crate) struct Network<F: Follower> {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) follower: F,
    /// Results of the follower, in order.
    pub(crate) said: VecDeque<F::Said>,
    pub(crate) now: Time,
    /// Variant of the client's transport protocol.
    variant: Variant,
    connection: Option<Connection>,
    is_down: bool,
    pub(crate) asks: Asks,
}

/// Time at which the follower is polled for results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// After the client has run out of outputs.
    AtRest,
    /// After each notice too, even between two of the same response.
    AfterEveryNotice,
}

struct Connection {
    channel: ChannelId,
    stream: StreamId,
    /// Responses on their way to the client.
    responses: VecDeque<Bytes>,
}

impl<F: Follower> Network<F> {
    pub(crate) fn connect(
        variant: Variant,
        client: ClientConfig,
        server: ServerConfig,
        follow: impl FnOnce(&mut Client, Time) -> F,
    ) -> Self {
        let now = Time::ZERO;
        let mut client = Client::new(client, 1, now);
        let follower = follow(&mut client, now);
        Self {
            client,
            server: Server::new(server, 1, now),
            follower,
            said: VecDeque::new(),
            now,
            variant,
            connection: None,
            is_down: false,
            asks: Asks::AtRest,
        }
    }

    /// Changes the server's resources in one transaction and runs the network until idle.
    pub(crate) fn apply(&mut self, change: Transaction) {
        self.server.apply(change, self.now).expect("a sound change");
        self.settle();
    }

    pub(crate) fn set_network(&mut self, is_up: bool) {
        self.is_down = !is_up;
        if self.is_down
            && let Some(Connection { channel, stream, .. }) = self.connection.take()
        {
            self.server.handle_event(StreamEvent::Closed(stream), self.now);
            let why = ChannelError::Status { code: StatusCode::Unavailable, message: "cut".into() };
            self.client.handle_event(ChannelEvent::Closed(channel, why), self.now);
        }
        self.settle();
    }

    /// Runs the network until idle, without advancing the time.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Advances the time.
    pub(crate) fn advance(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        loop {
            self.settle();
            let deadlines = [self.client.poll_timeout(), self.server.poll_timeout()];
            let deadlines = deadlines.into_iter().flatten().map(|it| it.at);
            let next = deadlines.chain(self.follower.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.handle_timeouts();
        }
        self.now = end;
        self.handle_timeouts();
        self.settle();
    }

    fn handle_timeouts(&mut self) {
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.follower.handle_timeout(&mut self.client, self.now);
    }

    pub(crate) fn step(&mut self) -> bool {
        let mut moved = false;
        while let Some(output) = self.client.poll_output() {
            moved = true;
            self.obey_client(output);
        }
        while let Some(output) = self.server.poll_output() {
            moved = true;
            self.obey_server(output);
        }
        if let Some(connection) = &mut self.connection
            && self.client.wants_read(connection.channel)
            && let Some(response) = connection.responses.pop_front()
        {
            moved = true;
            let message = ChannelEvent::Message(connection.channel, response);
            self.client.handle_event(message, self.now);
        }
        self.said.extend(core::iter::from_fn(|| self.follower.poll_said()));
        moved
    }

    fn obey_client(&mut self, output: Output) {
        let now = self.now;
        match output {
            // The server with this name is never reachable.
            Output::Open(channel, call) if self.is_down || &*call.server.uri == "nobody" => {
                let why = ChannelError::Unreachable("down".into());
                self.client.handle_event(ChannelEvent::Closed(channel, why), now);
            }
            Output::Open(channel, _) => {
                let stream =
                    self.server.accept(StreamKind::Aggregated(self.variant), now).expect("room");
                self.connection = Some(Connection { channel, stream, responses: VecDeque::new() });
                self.client.handle_event(ChannelEvent::Opened(channel), now);
            }
            Output::Close(..) => {
                if let Some(connection) = self.connection.take() {
                    self.server.handle_event(StreamEvent::Closed(connection.stream), now);
                }
            }
            Output::Writable(channel) => {
                let Some(connection) = &self.connection else { return };
                let mut frame = Frame::default();
                while self.client.poll_transmit(channel, now, &mut frame).is_some() {
                    let message = StreamEvent::Message(connection.stream, frame.to_bytes());
                    self.server.handle_event(message, now);
                }
            }
            Output::Notify(watch, notice) => {
                let foreign = self.follower.handle_notice(watch, notice, &mut self.client, now);
                assert_eq!(foreign, None, "nobody else watches");
                if self.asks == Asks::AfterEveryNotice {
                    self.said.extend(self.follower.poll_said());
                }
            }
            other => panic!("nobody asked for {other:?}"),
        }
    }

    fn obey_server(&mut self, output: ServerOutput) {
        if let ServerOutput::Writable(stream) = output
            && let Some(connection) = &mut self.connection
        {
            let mut frame = Frame::default();
            while self.server.poll_transmit(stream, self.now, &mut frame).is_some() {
                connection.responses.push_back(frame.to_bytes());
            }
        }
    }
}

/// Formats watched resources in short form.
pub(crate) fn shorten_watched<'a>(watched: impl Iterator<Item = &'a Dependency>) -> String {
    let short = |it: &Dependency| {
        let kind = types::short_name(it.kind.type_url()).expect("a known type");
        format!("{kind}:{}", it.name)
    };
    watched.map(short).collect::<Vec<_>>().join(" ")
}
