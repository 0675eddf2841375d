//! Counters of active calls, for limits that several balancers share.

use alloc::sync::Arc;
use core::{fmt, sync::atomic::AtomicU32};

use xds_core::ResourceName;

/// Source of the counters of active calls. A limit applies to a cluster and its EDS resource across
/// all channels of a process ([gRFC A32]).
///
/// [gRFC A32]: https://github.com/grpc/proposal/blob/master/A32-xds-circuit-breaking.md
pub trait CallCounters: fmt::Debug + Send + Sync {
    /// Returns the counter for a cluster and the name of its EDS resource, if it has one. While a
    /// counter is in use, equal arguments return the same one.
    fn counter(&self, cluster: &ResourceName, endpoints: Option<&ResourceName>) -> Arc<AtomicU32>;
}

/// Separate counters for each balancer.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsharedCounters;

impl CallCounters for UnsharedCounters {
    fn counter(&self, _: &ResourceName, _: Option<&ResourceName>) -> Arc<AtomicU32> {
        Arc::default()
    }
}
