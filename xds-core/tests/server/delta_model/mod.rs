//! Random incremental clients and transactions against the simplest possible idea of what must come out.
//!
//! The model is a map of what exists and, per client and type, what it asked for and holds. The server is
//! right if, once everybody is done, each accepting client holds what exists of what it asked for and
//! knows of what does not; if every name it added was answered; if it then is silent; and if it never
//! said anything that nobody asked about.

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

    /// IS3, IS4, IS5, IS7, IS8, IS11-IS14, IS16, IS23, M64, M131, M135.
    #[test]
    fn everybody_ends_up_with_what_exists(ops in vec(op(), 1..60), config in config()) {
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
