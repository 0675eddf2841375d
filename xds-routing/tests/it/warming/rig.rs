//! Warming on a client core, connected to a server core by function calls in virtual time.

use core::convert::Infallible;

use xds_core::{
    Client, Time, WatchId,
    client::{ClientConfig, Node, Notice, OpaqueType, Profile, ServerAddress},
    server::{AbsenceDelay, ServerConfig, Transaction, Variant},
    types,
};
use xds_routing::{
    dependencies::{Dependency, DependencyKind},
    warming::{ClientWarming, Warmed},
};

use crate::network::{Follower, Network, shorten_watched};

pub(crate) type Rig = Network<ClientWarming>;

impl Follower for ClientWarming {
    /// Unused: tests poll for changes at the end, and get only the newest of each resource.
    type Said = Infallible;

    fn handle_notice(
        &mut self,
        watch: WatchId,
        notice: Notice,
        client: &mut Client,
        now: Time,
    ) -> Option<Notice> {
        Self::handle_notice(self, watch, notice, client, now)
    }

    fn poll_said(&mut self) -> Option<Infallible> {
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        Self::poll_timeout(self)
    }

    fn handle_timeout(&mut self, client: &mut Client, now: Time) {
        Self::handle_timeout(self, client, now);
    }
}

/// Configuration of a proxy's client.
pub(crate) fn client_config(variant: Variant) -> ClientConfig {
    let server = ServerAddress::new("server").with_variant(variant);
    let mut profile = Profile::envoy();
    // This timer is disabled in order to test that of warming.
    profile.does_not_exist_timeout = None;
    ClientConfig::new(Node::new("proxy"), server)
        .with_profile(profile)
        .with_type(OpaqueType::new(types::LISTENER))
        .with_type(OpaqueType::new(types::ROUTE_CONFIGURATION))
        .with_type(OpaqueType::new(types::CLUSTER))
        .with_type(OpaqueType::new(types::CLUSTER_LOAD_ASSIGNMENT))
}

/// Configuration of a server that does not report missing resources.
pub(crate) fn server_config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.type_defaults.others.absence_delay = AbsenceDelay::Never;
    config
}

/// Formats a listener or cluster with its dependencies in short form.
pub(crate) fn shorten(root: &Dependency, warmed: Option<Warmed>) -> String {
    let kind = types::short_name(root.kind.type_url()).expect("a known type");
    let mut text = format!("{kind}:{}", root.name);
    let Some(warmed) = warmed else { return text + " gone" };
    for reference in warmed.references {
        text.push_str(if reference.resource.is_some() { " " } else { " without " });
        text.push_str(reference.name.as_str());
    }
    text
}

impl Rig {
    pub(crate) fn new(variant: Variant) -> Self {
        Self::connect(variant, client_config(variant), server_config(), |client, now| {
            ClientWarming::new(client, now).expect("the types are known")
        })
    }

    /// Changes the server's resources in one transaction and runs the network until idle.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Transaction)) {
        let mut transaction = Transaction::new();
        change(&mut transaction);
        self.apply(transaction);
    }

    /// Returns the changes since the last call, in short form.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let changes = core::iter::from_fn(|| self.follower.poll_change());
        changes.map(|(root, warmed)| shorten(&root, warmed)).collect()
    }

    pub(crate) fn watched(&self) -> String {
        shorten_watched(self.follower.watched())
    }

    pub(crate) fn is_warming(&self, type_url: &str, name: &str) -> bool {
        let kind = match type_url {
            types::CLUSTER => DependencyKind::Cluster,
            _ => DependencyKind::Listener,
        };
        self.follower.warming().is_warming(&Dependency::new(kind, name.into()))
    }
}
