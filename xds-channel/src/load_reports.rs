//! Load reports to the management server ([gRFC A27]).
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md

use std::sync::Arc;

use xds_core::proto::Locality;
use xds_grpc::load_reports::{CallRecord, ClusterRecorder, LoadReports, LocalityRecorder};
use xds_routing::{
    balancer::Picker,
    cluster::{Cluster, Discovery, ReportedMetrics},
    proto::xds::data::orca::v3::OrcaLoadReport,
};

/// Recorders of a cluster whose load is reported.
#[derive(Debug)]
pub(crate) struct ClusterLoad {
    cluster: ClusterRecorder,
    /// Recorders of the localities that receive calls.
    localities: Vec<(Arc<Locality>, LocalityRecorder)>,
    metrics: ReportedMetrics,
}

impl ClusterLoad {
    /// Returns the recorders of a cluster for the localities of a picker; `None` if the load of the
    /// cluster is not reported.
    pub(crate) fn new(loads: &LoadReports, cluster: &Cluster, picker: &Picker) -> Option<Self> {
        let reporting = cluster.load_reporting.as_ref()?;
        let server = reporting.server.as_ref()?;
        let service = match &cluster.discovery {
            Discovery::Eds(name) if *name != cluster.name => Some(name.as_str()),
            _ => None,
        };
        let recorder = loads.cluster(server, cluster.name.as_str(), service);
        let mut localities: Vec<(Arc<Locality>, LocalityRecorder)> = Vec::new();
        for locality in picker.call_localities() {
            if localities.iter().all(|(known, _)| known != locality) {
                localities.push((Arc::clone(locality), recorder.locality(locality)));
            }
        }
        Some(Self { cluster: recorder, localities, metrics: reporting.metrics.clone() })
    }

    /// Counts a call that is dropped by the drop category with this name, or by the circuit breaker.
    pub(crate) fn count_dropped(&self, category: Option<&str>) {
        self.cluster.count_dropped(category);
    }

    /// Counts a call that is sent to a locality.
    pub(crate) fn start(self: &Arc<Self>, locality: &Arc<Locality>) -> Option<CallLoad> {
        let is_same = |known: &Arc<Locality>| Arc::ptr_eq(known, locality) || known == locality;
        let found = self.localities.iter().find(|(known, _)| is_same(known));
        let record = found.map(|(_, recorder)| recorder.start())?;
        Some(CallLoad { record, cluster: Arc::clone(self) })
    }
}

/// Record of a call whose load is reported.
#[derive(Debug)]
pub(crate) struct CallLoad {
    record: CallRecord,
    cluster: Arc<ClusterLoad>,
}

impl CallLoad {
    /// Whether reports contain metrics of endpoints.
    pub(crate) fn needs_metrics(&self) -> bool {
        !self.cluster.metrics.is_empty()
    }

    /// Notes that the call has succeeded.
    pub(crate) const fn succeed(&mut self) {
        self.record.succeed();
    }

    /// Notes that the call was not sent after all.
    pub(crate) const fn discard(&mut self) {
        self.record.discard();
    }

    /// Adds the metrics that the endpoint has reported with the response (gRFC A64).
    pub(crate) fn add_metrics(&self, report: &OrcaLoadReport) {
        for (metric, value) in self.cluster.metrics.select(report) {
            self.record.add_metric(metric, value);
        }
    }
}
