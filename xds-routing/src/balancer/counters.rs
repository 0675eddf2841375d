//! How many calls are under way, for limits that several balancers have in common.

use alloc::sync::Arc;
use core::{fmt, sync::atomic::AtomicU32};

use xds_core::ResourceName;

/// Where balancers find the numbers of calls under way. A limit is for a cluster and the resource of its endpoints,
/// whichever channels of a process call it (A32).
pub trait CallCounters: fmt::Debug + Send + Sync {
    /// The number for a cluster whose endpoints are the resource of this name, if they are one. It is the same
    /// as long as anybody has it.
    fn counter(&self, cluster: &ResourceName, endpoints: Option<&ResourceName>) -> Arc<AtomicU32>;
}

/// Numbers of a balancer's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own;

impl CallCounters for Own {
    fn counter(&self, _: &ResourceName, _: Option<&ResourceName>) -> Arc<AtomicU32> {
        Arc::default()
    }
}
