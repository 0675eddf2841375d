//! Counters of the active calls in this process, for circuit breakers ([gRFC A32]).
//!
//! [gRFC A32]: https://github.com/grpc/proposal/blob/master/A32-xds-circuit-breaking.md

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak, atomic::AtomicU32},
};

use xds_core::ResourceName;
use xds_routing::balancer::CallCounters;

type CounterKey = (ResourceName, Option<ResourceName>);

static COUNTERS: Mutex<BTreeMap<CounterKey, Weak<AtomicU32>>> = Mutex::new(BTreeMap::new());

/// Counters shared by all channels of a process.
#[derive(Debug)]
pub(crate) struct ProcessCounters;

impl CallCounters for ProcessCounters {
    fn counter(&self, cluster: &ResourceName, endpoints: Option<&ResourceName>) -> Arc<AtomicU32> {
        let key = (cluster.clone(), endpoints.cloned());
        let mut counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get(&key).and_then(Weak::upgrade) {
            return counter;
        }
        // Removes counters that are no longer used.
        counters.retain(|_, counter| counter.strong_count() > 0);
        let counter = Arc::default();
        counters.insert(key, Arc::downgrade(&counter));
        counter
    }
}
