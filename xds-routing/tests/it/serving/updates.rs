//! Changes of a server's resources, on a client core that is connected to a server core.

use core::time::Duration;
use std::sync::Arc;

use prost::Message;
use xds_core::{
    Client, Time, WatchId,
    client::{Notice, Profile, ServerAddress, ServerFeature, ServerFeatures},
    server::{AbsenceDelay, ServerConfig, Transaction, Variant},
    types,
};
use xds_routing::{
    listener::FilterChain,
    proto::envoy::config::listener::v3::{FilterChainMatch, Listener},
    serving::{ClientServing, ServerConfiguration, ServingError, ServingManager},
};

use super::named_chain;
use crate::{
    dependencies::rig::{VARIANTS, client_of},
    network::{Follower, Network, shorten_watched},
    support::*,
    validation::servers::{chain, server},
};

type Outcome = Result<ServerConfiguration, ServingError>;

pub(super) type Rig = Network<ClientServing>;

impl Follower for ClientServing {
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

/// Returns a server that listens on 0.0.0.0:443, and whose listener is named `s`.
pub(super) fn serving(variant: Variant, profile: Profile, mut config: ServerConfig) -> Rig {
    config.type_defaults.full_state.absence_delay = AbsenceDelay::Never;
    config.type_defaults.others.absence_delay = AbsenceDelay::Never;
    let features = ServerFeatures::NONE.with(ServerFeature::FailOnDataErrors);
    let address = ServerAddress::new("server").with_variant(variant).with_features(features);
    Rig::connect(variant, client_of(address, profile), config, |client, now| {
        let manager = ServingManager::new("s", "0.0.0.0:443".parse().unwrap());
        ClientServing::new(manager, client, now)
    })
}

impl Rig {
    pub(super) fn set(&mut self, type_url: &str, name: &str, resource: &impl Message) {
        let mut change = Transaction::new();
        change.set(type_url, name, resource.encode_to_vec());
        self.apply(change);
    }

    fn set_routes(&mut self, name: &str, domain: &str) {
        let table = routes(name, vec![host(&[domain], vec![route(prefix(""), cluster("c"))])]);
        self.set(types::ROUTE_CONFIGURATION, name, &table);
    }

    fn set_listener(&mut self, listener: &Listener) {
        self.set(types::LISTENER, "s", listener);
    }

    fn remove(&mut self, type_url: &str, name: &str) {
        let mut change = Transaction::new();
        change.remove(type_url, name);
        self.apply(change);
    }

    fn last(&mut self) -> Outcome {
        let last = self.said.pop_back().expect("a configuration");
        self.said.clear();
        last
    }

    fn watched(&self) -> String {
        shorten_watched(self.follower.watched())
    }
}

fn rig(variant: Variant) -> Rig {
    serving(variant, Profile::grpc(), ServerConfig::default())
}

/// Returns a listener whose chains have these routes, for sources of different types.
fn listener(names: &[&str]) -> Listener {
    let chains = names.iter().zip(1..).map(|(name, source_type)| {
        named_chain(name, FilterChainMatch { source_type, ..Default::default() })
    });
    server(chains.collect())
}

/// Returns the domains of the routes of each chain.
fn domains(configuration: &ServerConfiguration) -> Vec<String> {
    let chains = &configuration.socket().expect("a server listener").filter_chains;
    let domain = |chain: &Arc<FilterChain>| match configuration.routes().of(&chain.http) {
        Some(Ok(routes)) => routes.virtual_hosts()[0].domains()[0].to_string(),
        Some(Err(error)) => error.to_string(),
        None => "unknown".into(),
    };
    chains.iter().map(domain).collect()
}

#[test]
fn listener_is_used_when_its_routes_are_known() {
    for variant in VARIANTS {
        let mut rig = rig(variant);
        rig.set_listener(&listener(&["a", "b"]));
        rig.set_routes("a", "a.example");
        assert!(rig.said.is_empty(), "{variant:?}: b is missing");
        rig.set_routes("b", "b.example");
        let first = rig.last().expect("a configuration");
        assert_eq!(domains(&first), ["a.example", "b.example"]);

        // Routes change without the listener.
        rig.set_routes("b", "new.example");
        let second = rig.last().expect("a configuration");
        assert_eq!(domains(&second), ["a.example", "new.example"]);
        assert!(Arc::ptr_eq(first.listener(), second.listener()));

        // The old listener stays in use until the routes of the new one are known.
        rig.set_listener(&listener(&["b", "c"]));
        assert!(rig.said.is_empty());
        rig.set_routes("a", "still.example");
        assert_eq!(domains(&rig.last().unwrap()), ["still.example", "new.example"]);
        rig.set_routes("c", "c.example");
        let third = rig.last().expect("a configuration");
        assert_eq!(domains(&third), ["new.example", "c.example"]);
        assert!(!Arc::ptr_eq(second.listener(), third.listener()));
        assert_eq!(rig.watched(), "lds:s rds:b rds:c", "{variant:?}");
    }
}

#[test]
fn newer_listener_replaces_one_whose_routes_are_not_known() {
    for variant in VARIANTS {
        let mut rig = rig(variant);
        rig.set_listener(&listener(&["a", "a"]));
        rig.set_routes("a", "a.example");
        let first = rig.last().expect("a configuration");
        assert_eq!(domains(&first), ["a.example", "a.example"]);
        rig.set_listener(&listener(&["b"]));
        assert_eq!(rig.watched(), "lds:s rds:a rds:b");
        rig.set_listener(&listener(&["c"]));
        assert_eq!(rig.watched(), "lds:s rds:a rds:c");
        // The listener in use returns: nothing changes.
        rig.set_listener(&listener(&["a", "a"]));
        assert_eq!(rig.watched(), "lds:s rds:a");
        rig.set_routes("c", "c.example");
        assert!(rig.said.is_empty(), "{variant:?}");
        rig.set_routes("a", "new.example");
        let second = rig.last().expect("a configuration");
        assert!(Arc::ptr_eq(first.listener(), second.listener()));

        // The listener is lost while a newer one waits.
        rig.set_listener(&listener(&["b"]));
        rig.remove(types::LISTENER, "s");
        rig.last().expect_err("an error");
        assert_eq!(rig.watched(), "lds:s");
        rig.set_routes("b", "b.example");
        assert!(rig.said.is_empty(), "{variant:?}");
    }
}

#[test]
fn lost_routes_are_an_error_in_their_place() {
    for variant in VARIANTS {
        let mut rig = rig(variant);
        rig.set_listener(&listener(&["a", "absent"]));
        rig.set_routes("a", "a.example");
        assert!(rig.said.is_empty());
        rig.advance(Duration::from_secs(20));
        let known = rig.last().expect("a configuration");
        let [a, absent] = &*domains(&known) else { panic!("two chains") };
        assert_eq!(a, "a.example");
        assert!(absent.contains("absent") && absent.contains("does not exist"), "{absent}");
        rig.set_routes("absent", "here.example");
        assert_eq!(domains(&rig.last().unwrap()), ["a.example", "here.example"]);
    }
}

#[test]
fn lost_listener_ends_serving() {
    for variant in VARIANTS {
        let mut rig = rig(variant);
        rig.set_listener(&listener(&["a"]));
        rig.set_routes("a", "a.example");
        rig.last().expect("a configuration");
        rig.remove(types::LISTENER, "s");
        let error = rig.last().expect_err("an error");
        assert!(matches!(error, ServingError::Listener(_)), "{error}");
        assert_eq!(rig.watched(), "lds:s");
        rig.set_listener(&listener(&["a"]));
        rig.last().expect("a configuration");
        assert_eq!(rig.watched(), "lds:s rds:a");
    }
}

#[test]
fn unusable_listener_ends_serving() {
    let mut rig = rig(Variant::Incremental);
    let other = Listener { address: Some(address("127.0.0.1", 443)), ..server(vec![chain(None)]) };
    rig.set_listener(&other);
    assert_eq!(
        rig.last().unwrap_err().to_string(),
        "listener `s` is for the address 127.0.0.1:443, and the server listens on 0.0.0.0:443"
    );
    rig.set_listener(&api_listener("s", &manager(rds("r"))));
    assert_eq!(rig.last().unwrap_err(), ServingError::NotForServers("s".into()));
    assert_eq!(rig.watched(), "lds:s", "no routes are watched for it");
}

/// A listener that the server sends again, for example after it has restarted, drains no
/// connection.
#[test]
fn equal_listener_changes_nothing() {
    let mut rig = rig(Variant::StateOfTheWorld);
    rig.set_listener(&listener(&["a"]));
    rig.set_routes("a", "a.example");
    rig.last().expect("a configuration");
    rig.set_network(false);
    rig.advance(Duration::from_secs(60));
    rig.set_network(true);
    rig.advance(Duration::from_secs(60));
    assert!(rig.said.is_empty());
}

#[test]
fn server_without_a_connection_keeps_its_configuration() {
    let mut rig = rig(Variant::StateOfTheWorld);
    rig.set_listener(&listener(&["a"]));
    rig.set_routes("a", "a.example");
    rig.last().expect("a configuration");
    rig.set_network(false);
    rig.advance(Duration::from_secs(600));
    assert!(rig.said.is_empty());
    assert!(matches!(rig.follower.manager().configuration(), Some(Ok(_))));
}
