//! Counters of the calls of a cluster.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use xds_core::{
    Time,
    load_reports::LoadMetric,
    proto::{
        self, ClusterStats, EndpointLoadMetricStats, Locality, UnnamedEndpointLoadMetricStats,
        UpstreamLocalityStats, cluster_stats::DroppedRequests,
    },
};

use crate::guard::locked;

/// Maximum number of distinct named metrics of a locality in a report. Endpoints choose the names.
/// Further metrics are not reported.
pub const MAX_NAMED_METRICS: usize = 1_000;

/// Counters of a cluster.
#[derive(Debug)]
pub(super) struct ClusterCounters {
    pub(super) cluster: String,
    /// Name of the EDS resource, or empty.
    pub(super) service: String,
    state: Mutex<ClusterState>,
}

#[derive(Debug)]
struct ClusterState {
    localities: Vec<Arc<LocalityCounters>>,
    /// Dropped calls by category.
    dropped: BTreeMap<String, u64>,
    total_dropped: u64,
    /// Time of the last report.
    since: Time,
}

/// Counters of a locality.
#[derive(Debug)]
pub(super) struct LocalityCounters {
    locality: Locality,
    pub(super) issued: AtomicU64,
    pub(super) succeeded: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) in_progress: AtomicU64,
    metrics: Mutex<Metrics>,
}

#[derive(Debug, Default)]
struct Metrics {
    cpu: MetricSum,
    memory: MetricSum,
    application: MetricSum,
    named: BTreeMap<String, MetricSum>,
}

#[derive(Clone, Copy, Debug, Default)]
struct MetricSum {
    calls: u64,
    total: f64,
}

impl ClusterCounters {
    pub(super) fn new(cluster: &str, service: &str, now: Time) -> Self {
        let state = ClusterState {
            localities: Vec::new(),
            dropped: BTreeMap::new(),
            total_dropped: 0,
            since: now,
        };
        let (cluster, service) = (cluster.into(), service.into());
        Self { cluster, service, state: Mutex::new(state) }
    }

    pub(super) fn locality(&self, locality: &Locality) -> Arc<LocalityCounters> {
        let mut state = locked(&self.state);
        if let Some(known) = state.localities.iter().find(|known| known.locality == *locality) {
            return Arc::clone(known);
        }
        let created = Arc::new(LocalityCounters {
            locality: locality.clone(),
            issued: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            in_progress: AtomicU64::new(0),
            metrics: Mutex::default(),
        });
        state.localities.push(Arc::clone(&created));
        created
    }

    pub(super) fn count_dropped(&self, category: Option<&str>) {
        let mut state = locked(&self.state);
        state.total_dropped = state.total_dropped.saturating_add(1);
        let Some(category) = category else { return };
        match state.dropped.get_mut(category) {
            Some(count) => *count = count.saturating_add(1),
            None => drop(state.dropped.insert(category.into(), 1)),
        }
    }

    /// Returns the load since the last call, and resets the counters; `None` if there is none.
    /// Localities without recorders and calls are removed.
    pub(super) fn take(&self, now: Time) -> Option<ClusterStats> {
        let mut state = locked(&self.state);
        let interval = now.since(core::mem::replace(&mut state.since, now));
        let mut localities = Vec::new();
        state.localities.retain(|counters| {
            // Afterwards nobody can count here any more, if this is the only reference.
            let is_used = Arc::strong_count(counters) > 1;
            localities.extend(counters.take());
            is_used
        });
        let total_dropped_requests = core::mem::take(&mut state.total_dropped);
        let dropped = core::mem::take(&mut state.dropped).into_iter();
        let is_empty = localities.is_empty() && total_dropped_requests == 0;
        (!is_empty).then(|| ClusterStats {
            cluster_name: self.cluster.clone(),
            cluster_service_name: self.service.clone(),
            upstream_locality_stats: localities,
            total_dropped_requests,
            dropped_requests: dropped
                .map(|(category, dropped_count)| DroppedRequests { category, dropped_count })
                .collect(),
            load_report_interval: Some(proto::Duration {
                seconds: i64::try_from(interval.as_secs()).unwrap_or(i64::MAX),
                nanos: i32::try_from(interval.subsec_nanos()).unwrap_or_default(),
            }),
        })
    }
}

impl LocalityCounters {
    pub(super) fn add_metric(&self, metric: LoadMetric<'_>, value: f64) {
        let mut metrics = locked(&self.metrics);
        let metrics = &mut *metrics;
        let sum = match metric {
            LoadMetric::Cpu => &mut metrics.cpu,
            LoadMetric::Memory => &mut metrics.memory,
            LoadMetric::Application => &mut metrics.application,
            LoadMetric::Named(name) => {
                let is_full = metrics.named.len() >= MAX_NAMED_METRICS;
                if !metrics.named.contains_key(name) {
                    if is_full {
                        return;
                    }
                    metrics.named.insert(name.into(), MetricSum::default());
                }
                let Some(sum) = metrics.named.get_mut(name) else { return };
                sum
            }
            _ => return,
        };
        sum.calls = sum.calls.saturating_add(1);
        sum.total += value;
    }

    fn take(&self) -> Option<UpstreamLocalityStats> {
        let total_issued_requests = self.issued.swap(0, Relaxed);
        let total_successful_requests = self.succeeded.swap(0, Relaxed);
        let total_error_requests = self.failed.swap(0, Relaxed);
        let total_requests_in_progress = self.in_progress.load(Relaxed);
        let metrics = core::mem::take(&mut *locked(&self.metrics));
        let has_load = total_issued_requests
            | total_successful_requests
            | total_error_requests
            | total_requests_in_progress;
        (has_load > 0).then(|| UpstreamLocalityStats {
            locality: Some(self.locality.clone()),
            total_successful_requests,
            total_requests_in_progress,
            total_error_requests,
            total_issued_requests,
            load_metric_stats: metrics.named.into_iter().map(named_metric).collect(),
            cpu_utilization: metrics.cpu.unnamed(),
            mem_utilization: metrics.memory.unnamed(),
            application_utilization: metrics.application.unnamed(),
            ..UpstreamLocalityStats::default()
        })
    }
}

fn named_metric((name, sum): (String, MetricSum)) -> EndpointLoadMetricStats {
    EndpointLoadMetricStats {
        metric_name: format!("{}{name}", LoadMetric::NAMED_PREFIX),
        num_requests_finished_with_metric: sum.calls,
        total_metric_value: sum.total,
    }
}

impl MetricSum {
    fn unnamed(self) -> Option<UnnamedEndpointLoadMetricStats> {
        (self.calls > 0).then_some(UnnamedEndpointLoadMetricStats {
            num_requests_finished_with_metric: self.calls,
            total_metric_value: self.total,
        })
    }
}
