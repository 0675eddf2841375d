//! Dependency manager on a client core, connected to a server core by function calls in virtual
//! time.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use xds_core::{
    Client, ResourceName, Time, WatchId,
    client::{ClientConfig, Node, Notice, Profile, ServerAddress},
    server::{AbsenceDelay, ServerConfig, StatusCode, Transaction, Variant},
    types,
};
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations,
    dependencies::{
        Children, ClientDependencies, ClusterConfiguration, Configuration, ConfigurationError,
        DependencyManager, Endpoints, ResolvedClusters,
    },
};

use crate::{
    dependencies::resources,
    network::{Follower, Network, shorten_watched},
};

pub(crate) const VARIANTS: [Variant; 2] = [Variant::StateOfTheWorld, Variant::Incremental];

pub(crate) type Outcome = Result<Configuration, ConfigurationError>;

pub(crate) type Rig = Network<ClientDependencies>;

impl Follower for ClientDependencies {
    type Said = Outcome;

    fn handle_notice(
        &mut self,
        watch: WatchId,
        notice: Notice,
        client: &mut Client,
        now: Time,
    ) -> Option<Notice> {
        Self::handle_notice(self, watch, notice, client, now)
    }

    fn poll_said(&mut self) -> Option<Outcome> {
        self.poll_configuration()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _: &mut Client, _: Time) {}
}

/// Configuration of a client with the four resource types.
pub(crate) fn client_config(variant: Variant, profile: Profile) -> ClientConfig {
    client_of(ServerAddress::new("server").with_variant(variant), profile)
}

/// Configuration of a client with this server and the four resource types.
pub(crate) fn client_of(server: ServerAddress, profile: Profile) -> ClientConfig {
    // NACKs are sent without delay.
    ClientConfig::new(Node::new("node-1"), server)
        .with_nack_interval(Duration::ZERO)
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
        // In both variants, the client waits for resources that arrive later.
        let mut config = ServerConfig::default();
        config.type_defaults.full_state.absence_delay = AbsenceDelay::Never;
        config.type_defaults.others.absence_delay = AbsenceDelay::Never;
        Self::with_server(variant, profile, config)
    }

    pub(crate) fn with_server(variant: Variant, profile: Profile, config: ServerConfig) -> Self {
        Self::with_client(variant, client_config(variant, profile), config)
    }

    pub(crate) fn with_client(
        variant: Variant,
        client: ClientConfig,
        config: ServerConfig,
    ) -> Self {
        let manager = DependencyManager::new("l", "shop.example.com", "node-1");
        Self::connect(variant, client, config, |client, now| {
            ClientDependencies::new(manager, client, now)
        })
    }

    /// Returns the clusters in use, even without a configuration.
    pub(crate) fn resolved_clusters(&self) -> String {
        let mut text = String::new();
        write_clusters(&mut text, &self.follower.manager().clusters());
        text
    }

    /// Changes the server's resources in one transaction and runs the network until idle.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Store)) {
        let mut store = Store(Transaction::new());
        change(&mut store);
        self.apply(store.0);
    }

    pub(crate) fn subscribe(&mut self, cluster: &str) {
        self.follower.subscribe(&cluster.into(), &mut self.client, self.now);
        self.settle();
    }

    pub(crate) fn unsubscribe(&mut self, cluster: &str) {
        self.follower.unsubscribe(&cluster.into(), &mut self.client, self.now);
        self.settle();
    }

    /// Returns the configurations since the last call, in short form.
    pub(crate) fn told(&mut self) -> Vec<String> {
        self.said.drain(..).map(|outcome| shorten(&outcome)).collect()
    }

    /// Returns the newest of the configurations since the last call.
    pub(crate) fn last(&mut self) -> String {
        self.told().pop().expect("a configuration")
    }

    /// Returns the watched resources in short form.
    pub(crate) fn watched(&self) -> String {
        shorten_watched(self.follower.watched())
    }

    /// Returns the version of a cluster in use.
    pub(crate) fn cluster(&self, name: &str) -> std::sync::Arc<ClusterConfiguration> {
        let in_use = self.follower.manager().configuration().expect("one").expect("sound");
        in_use.cluster(&name.into()).expect("a cluster that can be used").clone()
    }

    pub(crate) fn note(&self, name: &str) -> String {
        self.cluster(name).note.to_string()
    }
}

/// Formats a configuration as `[clusters of the routes] cluster=...`.
pub(crate) fn shorten(outcome: &Outcome) -> String {
    let configuration = match outcome {
        Ok(configuration) => configuration,
        Err(error) => return format!("error: {error}"),
    };
    let routed: BTreeSet<ResourceName> = configuration.virtual_host().clusters();
    let routed: Vec<&str> = routed.iter().map(ResourceName::as_str).collect();
    let mut text = format!("[{}]", routed.join(" "));
    write_clusters(&mut text, configuration.resolved_clusters());
    text
}

fn write_clusters(text: &mut String, clusters: &ResolvedClusters) {
    for (name, entry) in clusters.by_name() {
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
}

/// Change of the server's resources.
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

    /// Sets an EDS cluster and its endpoints.
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
