//! Warming on a client core, which talks to a server core by function calls, in virtual time.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, Frame, StreamId, Time,
    client::{
        ChannelError, ChannelEvent, ClientConfig, ManagementServer, Node, OpaqueType, Output,
        Profile,
    },
    server::{
        AbsenceGrace, Server, ServerConfig, ServerOutput, StreamEvent, Transaction, Variant, Via,
    },
    types,
};
use xds_routing::{
    dependencies::{Dependency, DependencyKind},
    warming::ClientWarming,
};

pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) warming: ClientWarming,
    pub(crate) now: Time,
    variant: Variant,
    connection: Option<Connection>,
    is_down: bool,
}

struct Connection {
    channel: ChannelId,
    stream: StreamId,
    /// On its way to the client.
    responses: VecDeque<Bytes>,
}

impl Rig {
    pub(crate) fn new(variant: Variant) -> Self {
        let now = Time::ZERO;
        let server = ManagementServer::new("server").with_variant(variant);
        let mut profile = Profile::envoy();
        // It is the proxy's timer that is looked at.
        profile.does_not_exist_after = None;
        let client = ClientConfig::new(Node::new("proxy"), server)
            .with_profile(profile)
            .with_type(OpaqueType::new(types::LISTENER))
            .with_type(OpaqueType::new(types::ROUTE_CONFIGURATION))
            .with_type(OpaqueType::new(types::CLUSTER))
            .with_type(OpaqueType::new(types::CLUSTER_LOAD_ASSIGNMENT));
        let mut client = Client::new(client, 1, now);
        let warming = ClientWarming::new(&mut client, now).expect("the types are known");
        let mut config = ServerConfig::default();
        config.type_defaults.others.absence_grace = AbsenceGrace::Never;
        let server = Server::new(config, 1, now);
        Self { client, server, warming, now, variant, connection: None, is_down: false }
    }

    /// Changes what the server has, all at once, and lets everybody hear of it.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Transaction)) {
        let mut transaction = Transaction::new();
        change(&mut transaction);
        self.server.apply(transaction, self.now).expect("a sound change");
        self.settle();
    }

    /// What is used in another way since the last look, with what it names.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some((root, warmed)) = self.warming.poll_change() {
            let kind = types::short_name(root.kind.type_url()).expect("a known type");
            let mut text = format!("{kind}:{}", root.name);
            match warmed {
                None => text.push_str(" gone"),
                Some(warmed) => {
                    for need in warmed.needs {
                        let without = if need.resource.is_some() { " " } else { " without " };
                        text.push_str(without);
                        text.push_str(need.name.as_str());
                    }
                }
            }
            told.push(text);
        }
        told
    }

    pub(crate) fn watched(&self) -> String {
        let short = |it: &Dependency| {
            let kind = types::short_name(it.kind.type_url()).expect("a known type");
            format!("{kind}:{}", it.name)
        };
        self.warming.watched().map(short).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn is_warming(&self, type_url: &str, name: &str) -> bool {
        let kind = match type_url {
            types::CLUSTER => DependencyKind::Cluster,
            _ => DependencyKind::Listener,
        };
        self.warming.warming().is_warming(&Dependency::new(kind, name.into()))
    }

    pub(crate) fn set_network(&mut self, is_up: bool) {
        self.is_down = !is_up;
        if self.is_down
            && let Some(Connection { channel, stream, .. }) = self.connection.take()
        {
            self.server.handle_event(StreamEvent::Closed(stream), self.now);
            let why = ChannelError::Status { code: 14, message: "cut".into() };
            self.client.handle_event(ChannelEvent::Closed(channel, why), self.now);
        }
        self.settle();
    }

    /// Moves on until nothing moves any more, at this moment.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        loop {
            self.settle();
            let deadlines = [self.client.poll_timeout(), self.server.poll_timeout()];
            let deadlines = deadlines.into_iter().flatten().map(|it| it.at);
            let next = deadlines.chain(self.warming.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.warming.handle_timeout(&mut self.client, self.now);
        }
        self.now = end;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.warming.handle_timeout(&mut self.client, self.now);
        self.settle();
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
        moved
    }

    fn obey_client(&mut self, output: Output) {
        let now = self.now;
        match output {
            Output::Open(channel, _) if self.is_down => {
                let why = ChannelError::Unreachable("down".into());
                self.client.handle_event(ChannelEvent::Closed(channel, why), now);
            }
            Output::Open(channel, _) => {
                let stream = self.server.accept(Via::Aggregated(self.variant), now).expect("room");
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
                let foreign = self.warming.handle_notice(watch, notice, &mut self.client, now);
                assert_eq!(foreign, None, "nobody else watches");
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
