//! Random clients and transactions against a minimal model.
//!
//! The model consists of the existing resources and each client's subscriptions and resources. At
//! the end each accepting client holds the existing resources of its subscriptions, the server is
//! silent, and every response had a reason.

use crate::support::model::{
    Drains, World,
    ops::{Habit, NAMES, Op, Split, TYPES, config, op},
};
use crate::support::url;
use bytes::Bytes;
use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use xds_core::{
    Time,
    proto::DiscoveryResponse,
    server::{ServerConfig, StreamEvent, VersionMode},
};

/// Runs the steps and checks the final state.
fn converge(ops: &[Op], config: (ServerConfig, Split)) {
    let mut world = World::with(config, 1, Drains::Always);
    world.run(ops);
    world.check_views();
    let frames = world.frames.len();
    // Repeated requests change nothing.
    for client in 0..world.clients.len() {
        for ty in 0..TYPES.len() {
            let subscription = world.clients[client].subscriptions[ty].clone();
            if !subscription.nonce.is_empty() {
                let (nonce, version) = (subscription.nonce, subscription.accepted);
                world.send(client, ty, nonce, version, subscription.seen.error, true);
            }
        }
    }
    let settled = world.frames.len();
    world.settle();
    let endpoints = url("eds");
    for frame in &world.frames[settled..] {
        let response = DiscoveryResponse::decode(frame.clone()).unwrap();
        assert_eq!(response.type_url, &*endpoints, "only endpoints may still be warming");
    }
    assert_eq!(settled, frames);
    assert!(frames <= 6 * (world.requests + world.clients.len() * ops.len()));

    // The state of closed clients is freed.
    for client in &world.clients {
        world.server.handle_event(StreamEvent::Closed(client.stream), Time::ZERO);
    }
    let stats = world.server.stats();
    assert_eq!((stats.streams, stats.subscriptions), (0, 0));
    assert_eq!((stats.resources, stats.names), (world.store.len(), world.store.len()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // IS5, IS6, IS8, IS9, IS16, IS4, M64, M81, IL1, IL2.
    #[test]
    fn sotw_clients_converge_to_existing_resources(
        ops in vec(op(0..3, 0..TYPES.len()), 1..60),
        config in config(),
    ) {
        converge(&ops, config);
    }

    /// Convergence of one client with a type of complete responses.
    #[test]
    fn complete_type_converges(ops in vec(op(0..1, 2..3), 1..40), config in config()) {
        converge(&ops, config);
    }

    /// Convergence of one client with clusters and endpoints.
    #[test]
    fn clusters_and_endpoints_converge(
        ops in vec(op(0..1, 0..2), 1..40),
        config in config(),
    ) {
        converge(&ops, config);
    }

    // IS34, rules 2 and 3: the bytes do not depend on the process, the seed, or the time of
    // polling.
    #[test]
    fn equal_calls_produce_equal_bytes(ops in vec(op(0..3, 0..TYPES.len()), 1..40)) {
        let mut one = World::new(1, Drains::Always);
        let mut same = World::new(1, Drains::Always);
        let mut other_seed = World::new(2, Drains::Always);
        let mut undrained = World::new(1, Drains::Never);
        for world in [&mut one, &mut same, &mut other_seed, &mut undrained] {
            world.run(&ops);
        }
        prop_assert_eq!(&one.transcript, &same.transcript);
        prop_assert_eq!(&one.frames, &same.frames);
        prop_assert_eq!(&one.transcript, &other_seed.transcript);
        prop_assert_eq!(&one.frames, &other_seed.frames);
        prop_assert_eq!(&one.frames, &undrained.frames);
    }

    // M72: one label for all changes gives the same responses as content versions, except for
    // reconnecting clients, whose label is not trusted.
    #[test]
    fn label_versions_send_same_resources_as_content_versions(
        ops in vec(op(0..3, 0..TYPES.len()), 1..60),
        config in config(),
        rejects in any::<bool>(),
    ) {
        let sent = |versions| {
            let (config, split) = config.clone();
            let config = config.with_every_type(|it| it.versions = versions);
            let mut world = World::with((config, split), 1, Drains::Always);
            world.changes_of_a_label = u64::MAX;
            if rejects {
                world.clients.iter_mut().for_each(|it| it.habit = Habit::Wavers);
            }
            let is_return = |op: &&Op| matches!(op, Op::Reconnect { .. });
            let ops: Vec<_> = ops.iter().filter(|op| !is_return(op)).cloned().collect();
            world.run(&ops);
            let resources = |frame: &Bytes| {
                let response = DiscoveryResponse::decode(frame.clone()).unwrap();
                (response.type_url, response.resources)
            };
            world.frames.iter().map(resources).collect::<Vec<_>>()
        };
        prop_assert_eq!(sent(VersionMode::Content), sent(VersionMode::Label));
    }

    /// Two servers with the same resources have the same versions.
    // M72, 5.7h
    #[test]
    fn replicas_agree_on_versions(ops in vec(op(0..3, 0..TYPES.len()), 1..30), noise in vec(op(0..3, 0..TYPES.len()), 1..30)) {
        let mut one = World::new(1, Drains::Always);
        one.run(&ops);
        let mut two = World::new(2, Drains::Always);
        two.run(&noise);
        let wanted: Vec<_> = (0..TYPES.len())
            .flat_map(|ty| (0..NAMES.len()).map(move |name| (ty, name)))
            .map(|(ty, name)| (ty, name, one.store.get(&(ty, name)).copied()))
            .collect();
        two.apply(&wanted);
        for ty in TYPES {
            prop_assert_eq!(one.server.version(&url(ty)), two.server.version(&url(ty)));
        }
    }
}
