//! Recorders of calls.

use std::sync::{Arc, Weak, atomic::Ordering::Relaxed};

use xds_core::{load_reports::LoadMetric, proto::Locality};

use super::{
    counters::{ClusterCounters, LocalityCounters},
    server::ServerReports,
};

/// Recorder of the calls of a cluster. Its load is reported until the last recorder of the cluster
/// and its last call have ended. If reports are being sent then, the final counts are part of the next
/// one.
#[derive(Clone, Debug)]
pub struct ClusterRecorder(ClusterUse);

impl ClusterRecorder {
    pub(super) fn new(counters: &Arc<ClusterCounters>, server: &Arc<ServerReports>) -> Self {
        let (counters, end) = (Arc::clone(counters), EndNotice(Arc::downgrade(server)));
        Self(ClusterUse { counters, _end: end })
    }

    /// Returns the recorder of a locality.
    #[must_use]
    pub fn locality(&self, locality: &Locality) -> LocalityRecorder {
        let counters = self.0.counters.locality(locality);
        LocalityRecorder(Arc::new(LocalityUse { counters, _cluster: self.0.clone() }))
    }

    /// Counts a call that was dropped instead of sent: by the drop category with this name, or, with
    /// `None`, by the circuit breaker.
    pub fn count_dropped(&self, category: Option<&str>) {
        self.0.counters.count_dropped(category);
    }
}

/// Recorder of the calls to a locality of a cluster. Clones are cheap.
#[derive(Clone, Debug)]
pub struct LocalityRecorder(Arc<LocalityUse>);

#[derive(Debug)]
struct LocalityUse {
    counters: Arc<LocalityCounters>,
    _cluster: ClusterUse,
}

impl LocalityRecorder {
    /// Counts a call that is sent. The call is in progress until the record is dropped.
    #[must_use = "the call is in progress until the record is dropped"]
    pub fn start(&self) -> CallRecord {
        self.0.counters.issued.fetch_add(1, Relaxed);
        self.0.counters.in_progress.fetch_add(1, Relaxed);
        CallRecord { locality: Arc::clone(&self.0), outcome: Outcome::Failure }
    }
}

/// Record of a call in progress. When it is dropped, the call counts as failed, unless it has
/// [succeeded](Self::succeed) or was [not sent](Self::discard).
#[derive(Debug)]
pub struct CallRecord {
    locality: Arc<LocalityUse>,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Success,
    Failure,
    NotSent,
}

impl CallRecord {
    /// Notes that the call has succeeded.
    pub const fn succeed(&mut self) {
        self.outcome = Outcome::Success;
    }

    /// Notes that the call was not sent after all, and does not count.
    pub const fn discard(&mut self) {
        self.outcome = Outcome::NotSent;
    }

    /// Adds a metric that the endpoint has reported with the response of this call.
    pub fn add_metric(&self, metric: LoadMetric<'_>, value: f64) {
        self.locality.counters.add_metric(metric, value);
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        let counters = &self.locality.counters;
        match self.outcome {
            Outcome::Success => drop(counters.succeeded.fetch_add(1, Relaxed)),
            Outcome::Failure => drop(counters.failed.fetch_add(1, Relaxed)),
            // A report may have contained the call as one in progress.
            Outcome::NotSent => {
                let less = |issued: u64| Some(issued.saturating_sub(1));
                let _ = counters.issued.fetch_update(Relaxed, Relaxed, less);
            }
        }
        counters.in_progress.fetch_sub(1, Relaxed);
    }
}

/// Reference to the counters of a cluster.
#[derive(Clone, Debug)]
struct ClusterUse {
    counters: Arc<ClusterCounters>,
    /// Dropped after the counters, so that the server finds them without this reference.
    _end: EndNotice,
}

/// Informs the streams to a server when it is dropped: a cluster may have no recorder any more.
#[derive(Clone, Debug)]
struct EndNotice(Weak<ServerReports>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        if let Some(server) = self.0.upgrade() {
            server.changed.notify_one();
        }
    }
}
