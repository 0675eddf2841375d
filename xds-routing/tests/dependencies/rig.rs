//! A dependency manager on a client core, which talks to a server core by function calls, in virtual time.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt::Write as _,
    time::Duration,
};

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, Frame, ResourceName, StreamId, Time,
    client::{ChannelError, ChannelEvent, ClientConfig, ManagementServer, Node, Output, Profile},
    server::{
        AbsenceGrace, Server, ServerConfig, ServerOutput, StatusCode, StreamEvent, Transaction,
        Variant, Via,
    },
    types,
};
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations,
    dependencies::{
        Children, ClientDependencies, ClusterConfiguration, Configuration, ConfigurationError,
        DependencyManager, Endpoints,
    },
};

use crate::resources;

pub(crate) const VARIANTS: [Variant; 2] = [Variant::StateOfTheWorld, Variant::Incremental];

pub(crate) type Outcome = Result<Configuration, ConfigurationError>;

pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) dependencies: ClientDependencies,
    /// What was told to be used, one after the other.
    pub(crate) outcomes: VecDeque<Outcome>,
    pub(crate) now: Time,
    /// A client's variant.
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

/// A client that has the four types.
pub(crate) fn client_config(variant: Variant, profile: Profile) -> ClientConfig {
    let server = ManagementServer::new("server").with_variant(variant);
    ClientConfig::new(Node::new("node-1"), server)
        .with_profile(profile)
        .with_type(Listeners::default())
        .with_type(RouteConfigurations::default())
        .with_type(Clusters::default())
        .with_type(ClusterLoadAssignments::default())
}

impl Rig {
    pub(crate) fn new(variant: Variant) -> Self {
        Self::with_profile(variant, Profile::grpc())
    }

    pub(crate) fn with_profile(variant: Variant, profile: Profile) -> Self {
        // A client is to wait for what comes a little later, in either variant.
        let mut config = ServerConfig::default();
        config.type_defaults.full_state.absence_grace = AbsenceGrace::Never;
        config.type_defaults.others.absence_grace = AbsenceGrace::Never;
        Self::with_server(variant, profile, config)
    }

    pub(crate) fn with_server(variant: Variant, profile: Profile, config: ServerConfig) -> Self {
        let now = Time::ZERO;
        let mut client = Client::new(client_config(variant, profile), 1, now);
        let manager = DependencyManager::new("l", "shop.example.com", "node-1");
        let dependencies = ClientDependencies::new(manager, &mut client, now);
        Self {
            client,
            server: Server::new(config, 1, now),
            dependencies,
            outcomes: VecDeque::new(),
            now,
            variant,
            connection: None,
            is_down: false,
        }
    }

    /// Changes what the server has, all at once, and lets everybody hear of it.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Store)) {
        let mut store = Store(Transaction::new());
        change(&mut store);
        self.server.apply(store.0, self.now).expect("a sound change");
        self.settle();
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
            let next = deadlines.into_iter().flatten().map(|it| it.at).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
        }
        self.now = end;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
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
        if let Some(outcome) = self.dependencies.poll_configuration() {
            self.outcomes.push_back(outcome);
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
                let foreign = self.dependencies.handle_notice(watch, notice, &mut self.client, now);
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

    pub(crate) fn subscribe(&mut self, cluster: &str) {
        self.dependencies.subscribe(&cluster.into(), &mut self.client, self.now);
        self.settle();
    }

    pub(crate) fn unsubscribe(&mut self, cluster: &str) {
        self.dependencies.unsubscribe(&cluster.into(), &mut self.client, self.now);
        self.settle();
    }

    /// The configurations that were told since the last look, in short.
    pub(crate) fn told(&mut self) -> Vec<String> {
        self.outcomes.drain(..).map(|outcome| shorten(&outcome)).collect()
    }

    /// The last of them.
    pub(crate) fn last(&mut self) -> String {
        self.told().pop().expect("a configuration")
    }

    /// What is watched, in short.
    pub(crate) fn watched(&self) -> String {
        let short = |it: &xds_routing::dependencies::Dependency| {
            let kind = types::short_name(it.kind.type_url()).expect("a known type");
            format!("{kind}:{}", it.name)
        };
        self.dependencies.watched().map(short).collect::<Vec<_>>().join(" ")
    }

    /// What is in use of a cluster.
    pub(crate) fn cluster(&self, name: &str) -> std::sync::Arc<ClusterConfiguration> {
        let in_use = self.dependencies.manager().configuration().expect("one").expect("sound");
        in_use.cluster(&name.into()).expect("a cluster that can be used").clone()
    }

    pub(crate) fn note(&self, name: &str) -> String {
        self.cluster(name).note().expect("a leaf").to_string()
    }
}

/// A configuration as `[what routes lead to] cluster=...`.
pub(crate) fn shorten(outcome: &Outcome) -> String {
    let configuration = match outcome {
        Ok(configuration) => configuration,
        Err(error) => return format!("error: {error}"),
    };
    let routed: BTreeSet<ResourceName> = configuration.virtual_host().clusters();
    let routed: Vec<&str> = routed.iter().map(ResourceName::as_str).collect();
    let mut text = format!("[{}]", routed.join(" "));
    for (name, entry) in configuration.clusters() {
        write!(text, " {name}=").unwrap();
        match entry {
            Err(error) => write!(text, "({error})"),
            Ok(it) => match &it.children {
                Children::Aggregate(leaves) => {
                    let leaves: Vec<&str> = leaves.iter().map(ResourceName::as_str).collect();
                    write!(text, "<{}>", leaves.join(" "))
                }
                Children::Leaf(leaf) => match &leaf.endpoints {
                    Endpoints::Known(known) => {
                        let ports = known.endpoints().map(|it| it.addresses[0].port.to_string());
                        write!(text, "{}", ports.collect::<Vec<_>>().join(","))
                    }
                    Endpoints::Missing => write!(text, "none"),
                    Endpoints::Dns(address) => write!(text, "{address}"),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            },
        }
        .unwrap();
    }
    text
}

/// A change of what the server has.
pub(crate) struct Store(pub(crate) Transaction);

impl Store {
    pub(crate) fn listener(&mut self, routes: &str) -> &mut Self {
        self.raw(types::LISTENER, "l", resources::listener("l", routes))
    }

    pub(crate) fn inline(&mut self, clusters: &[&str]) -> &mut Self {
        self.raw(types::LISTENER, "l", resources::listener_with("l", clusters))
    }

    pub(crate) fn routes(&mut self, name: &str, clusters: &[&str]) -> &mut Self {
        self.raw(types::ROUTE_CONFIGURATION, name, resources::route_table(name, clusters))
    }

    pub(crate) fn cluster(&mut self, name: &str) -> &mut Self {
        self.eds(name, "")
    }

    pub(crate) fn eds(&mut self, name: &str, service: &str) -> &mut Self {
        self.raw(types::CLUSTER, name, resources::eds(name, service))
    }

    pub(crate) fn aggregate(&mut self, name: &str, members: &[&str]) -> &mut Self {
        self.raw(types::CLUSTER, name, resources::aggregate(name, members))
    }

    pub(crate) fn dns(&mut self, name: &str, host: &str) -> &mut Self {
        self.raw(types::CLUSTER, name, resources::dns(name, host))
    }

    pub(crate) fn endpoints(&mut self, name: &str, ports: &[u32]) -> &mut Self {
        let type_url = types::CLUSTER_LOAD_ASSIGNMENT;
        self.raw(type_url, name, resources::endpoints(name, ports))
    }

    /// A cluster with its endpoints.
    pub(crate) fn whole(&mut self, name: &str, ports: &[u32]) -> &mut Self {
        self.cluster(name).endpoints(name, ports)
    }

    pub(crate) fn raw(&mut self, type_url: &str, name: &str, bytes: Vec<u8>) -> &mut Self {
        self.0.set(type_url, name, bytes);
        self
    }

    pub(crate) fn remove(&mut self, type_url: &str, name: &str) -> &mut Self {
        self.0.remove(type_url, name);
        self
    }

    pub(crate) fn error(&mut self, type_url: &str, name: &str, code: StatusCode) -> &mut Self {
        self.0.set_error(type_url, name, code, "said so");
        self
    }
}
