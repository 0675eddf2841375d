//! Random incremental clients and transactions against a minimal model.
//!
//! The model consists of the existing resources and, per client and type, its subscriptions and
//! resources. At the end each accepting client holds the existing resources of its subscriptions
//! and knows the missing ones; every subscription was answered; the server is then silent; and it
//! never sent anything without a subscription.

mod ops;
mod world;

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use xds_core::server::StreamEvent;

use self::{
    ops::{HABITS, TYPES, config, op},
    world::World,
};

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // IS3, IS4, IS5, IS7, IS8, IS11-IS14, IS16, IS23, M64, M131, M135.
    #[test]
    fn incremental_clients_converge_to_existing_resources(ops in vec(op(), 1..60), config in config()) {
        let mut world = World::new(config);
        for op in &ops {
            world.step(op);
        }
        world.settle();
        world.check_views();
        let bound = 8 * (world.requests + HABITS.len() * TYPES.len() * (world.changes + 1));
        prop_assert!(world.responses <= bound);
        for client in &world.clients {
            world.server.handle_event(StreamEvent::Closed(client.stream), world.now);
        }
        let stats = world.server.stats();
        prop_assert_eq!((stats.streams, stats.subscriptions), (0, 0));
        let existing: usize = world.stores.iter().map(BTreeMap::len).sum();
        prop_assert_eq!(stats.resources, existing);
        let views = world.stores.iter().filter(|store| !store.is_empty()).count();
        prop_assert_eq!(stats.views, views + 1);
    }
}
