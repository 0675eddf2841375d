//! Load reports of the clients of a management server ([gRFC A27], [gRFC A64]).
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A64]: https://github.com/grpc/proposal/blob/master/A64-lrs-custom-metrics.md

use core::fmt;
use std::sync::{Arc, Mutex};

use xds_core::{
    load_reports::{LoadRequest, LoadTotals, ReportingClient},
    proto::ClusterStats,
};

use crate::guard::{caught, locked};

/// Collector of the load that the clients of a management server report.
///
/// With [`ServerOptions::with_load_reports`](super::ServerOptions::with_load_reports), the server asks
/// each client that opens a stream of load reports for the load of all its clusters, or of some. gRPC
/// clients open such a stream if a cluster has `lrs_server: { self: {} }`, Envoy if its bootstrap has a
/// `load_stats_config`.
///
/// The collector sums the reports of all clients up, and passes each one to an
/// [observer](Self::with_observer). Clones share the sums.
///
/// ```
/// use core::time::Duration;
/// use xds_core::load_reports::LoadRequest;
/// use xds_grpc::{ServerOptions, server::LoadCollector};
///
/// let loads = LoadCollector::new(LoadRequest::all(Duration::from_secs(10)));
/// let options = ServerOptions::default().with_load_reports(loads.clone());
/// // Start a server with these options. Later:
/// for (place, calls) in loads.totals().localities() {
///     println!("{} in {}: {} calls", place.cluster, place.zone, calls.issued);
/// }
/// # drop(options);
/// ```
#[derive(Clone)]
pub struct LoadCollector {
    pub(crate) request: LoadRequest,
    state: Arc<Mutex<CollectorState>>,
    observer: Option<Arc<Observer>>,
}

type Observer = dyn Fn(&ReportingClient, &[ClusterStats]) + Send + Sync;

#[derive(Debug, Default)]
struct CollectorState {
    totals: LoadTotals,
    streams: usize,
    reports: u64,
}

impl LoadCollector {
    /// Creates a collector that requests this load from clients.
    #[must_use]
    pub fn new(request: LoadRequest) -> Self {
        Self { request, state: Arc::default(), observer: None }
    }

    /// Sets a function that is called with each report and its client. It must not block. If it
    /// panics, the report is skipped.
    #[must_use]
    pub fn with_observer(
        mut self,
        observer: impl Fn(&ReportingClient, &[ClusterStats]) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Sets the maximum number of localities of the sums, and of clusters with dropped calls; 10,000 by
    /// default. Load of others is [omitted](LoadTotals::omitted).
    #[must_use]
    pub fn with_max_places(self, places: usize) -> Self {
        locked(&self.state).totals = LoadTotals::new(places);
        self
    }

    /// Returns the sums of all reports.
    #[must_use]
    pub fn totals(&self) -> LoadTotals {
        locked(&self.state).totals.clone()
    }

    /// Returns the number of open streams of load reports whose clients are admitted.
    #[must_use]
    pub fn streams(&self) -> usize {
        locked(&self.state).streams
    }

    /// Returns the number of reports received.
    #[must_use]
    pub fn reports(&self) -> u64 {
        locked(&self.state).reports
    }

    pub(crate) fn add(&self, client: &ReportingClient, clusters: &[ClusterStats]) {
        {
            let mut state = locked(&self.state);
            state.totals.add(clusters);
            state.reports = state.reports.saturating_add(1);
        }
        if let Some(observer) = &self.observer
            && caught(|| observer(client, clusters)).is_none()
        {
            tracing::error!(node = &*client.node_id, "the observer of load reports panicked");
        }
    }

    /// Counts an open stream until the returned value is dropped.
    pub(crate) fn open_stream(&self) -> OpenStream {
        let mut state = locked(&self.state);
        state.streams = state.streams.saturating_add(1);
        OpenStream(Arc::clone(&self.state))
    }
}

impl fmt::Debug for LoadCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadCollector").field("request", &self.request).finish_non_exhaustive()
    }
}

/// Count of an open stream.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<Mutex<CollectorState>>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut state = locked(&self.0);
        state.streams = state.streams.saturating_sub(1);
    }
}
