//! Counters of calls: active calls of clusters, for limits that several balancers share, and of
//! endpoints; and results of calls to endpoints, for outlier detection.

use alloc::sync::Arc;
use core::{
    fmt,
    sync::atomic::{AtomicU32, Ordering},
};

use xds_core::{ResourceName, Time};

use super::load::{EndpointLoad, LoadReport};

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

/// Active calls and load of an endpoint.
#[derive(Debug, Default)]
pub(super) struct EndpointCounters {
    /// Number of active calls.
    pub(super) active: AtomicU32,
    /// Newest load that the endpoint reported.
    pub(super) load: EndpointLoad,
}

/// Numbers of calls of a priority to an endpoint that ended in the current interval of outlier
/// detection.
#[derive(Debug, Default)]
pub(super) struct CallResults {
    succeeded: AtomicU32,
    failed: AtomicU32,
}

impl CallResults {
    /// Counts a call that ended.
    pub(super) fn count(&self, is_success: bool) {
        let counter = if is_success { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of successful and failed calls since the last call of this method.
    pub(super) fn take(&self) -> (u32, u32) {
        let take = |counter: &AtomicU32| counter.swap(0, Ordering::Relaxed);
        (take(&self.succeeded), take(&self.failed))
    }
}

/// Recorder of the load of an endpoint, which may be used from any thread.
#[derive(Clone, Debug)]
pub struct LoadRecorder(pub(super) Arc<EndpointCounters>);

impl LoadRecorder {
    /// Stores a load report. The weights follow when the balancer renews them. `now` is a time of the
    /// balancer's clock.
    pub fn record(&self, load: &LoadReport, now: Time) {
        self.0.load.report(load, now);
    }
}
