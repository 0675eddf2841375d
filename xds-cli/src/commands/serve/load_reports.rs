//! `--load-reports`: load that clients report.

use core::fmt;
use std::sync::Arc;

use prost::Message as _;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;
use xds_core::{
    load_reports::LoadRequest,
    proto::{ClusterStats, UpstreamLocalityStats},
};
use xds_tokio::server::LoadCollector;

use crate::args::ServeArgs;

/// Number of reports that wait to be printed. Further ones are not printed.
const MAX_WAITING: usize = 1_024;

/// Maximum size of a report of a cluster that is printed, in bytes. Clients choose the names in it.
const MAX_PRINTED: usize = 64 << 10;

/// Load of one cluster, reported by one client.
#[derive(Debug)]
pub(super) struct ReportedLoad {
    node_id: Arc<str>,
    cluster: ClusterStats,
}

/// Reports that are printed; none without `--load-reports`.
pub(super) struct LoadReports {
    pub(super) collector: Option<LoadCollector>,
    reports: mpsc::Receiver<ReportedLoad>,
}

impl LoadReports {
    pub(super) fn new(args: &ServeArgs) -> Self {
        let (sender, reports) = mpsc::channel(MAX_WAITING);
        let collector = args.load_reports.map(|interval| {
            LoadCollector::new(LoadRequest::all(interval)).with_observer(move |client, clusters| {
                for cluster in clusters.iter().filter(|it| it.encoded_len() <= MAX_PRINTED) {
                    let (node_id, cluster) = (Arc::clone(&client.node_id), cluster.clone());
                    let _ = sender.try_send(ReportedLoad { node_id, cluster });
                }
            })
        });
        Self { collector, reports }
    }

    pub(super) async fn next(&mut self) -> Option<ReportedLoad> {
        self.reports.recv().await
    }
}

impl ReportedLoad {
    pub(super) fn to_json(&self) -> Json {
        let Self { node_id, cluster } = self;
        let mut event = json!({
            "event": "load_report",
            "node_id": **node_id,
            "cluster": cluster.cluster_name,
            "seconds": cluster.load_report_interval.map_or(0.0, |it| {
                it.seconds as f64 + f64::from(it.nanos) / 1e9
            }),
            "localities": cluster.upstream_locality_stats.iter().map(locality).collect::<Json>(),
            "dropped": cluster.total_dropped_requests,
        });
        if !cluster.cluster_service_name.is_empty() {
            event["service"] = cluster.cluster_service_name.as_str().into();
        }
        if !cluster.dropped_requests.is_empty() {
            let categories = cluster.dropped_requests.iter();
            let counts = categories.map(|it| (it.category.clone(), it.dropped_count.into()));
            event["dropped_by_category"] = Json::Object(counts.collect());
        }
        event
    }
}

fn locality(load: &UpstreamLocalityStats) -> Json {
    let mut object = json!({
        "issued": load.total_issued_requests,
        "succeeded": load.total_successful_requests,
        "failed": load.total_error_requests,
        "in_progress": load.total_requests_in_progress,
    });
    let place = load
        .locality
        .iter()
        .flat_map(|it| [("region", &it.region), ("zone", &it.zone), ("sub_zone", &it.sub_zone)]);
    for (field, name) in place.filter(|(_, name)| !name.is_empty()) {
        object[field] = name.as_str().into();
    }
    let sum = |calls: u64, total: f64| json!({ "calls": calls, "sum": total });
    let utilizations = [
        ("cpu_utilization", &load.cpu_utilization),
        ("mem_utilization", &load.mem_utilization),
        ("application_utilization", &load.application_utilization),
    ];
    let unnamed = utilizations.into_iter().filter_map(|(name, metric)| {
        let metric = metric.as_ref()?;
        let sum = sum(metric.num_requests_finished_with_metric, metric.total_metric_value);
        Some((name.to_owned(), sum))
    });
    let named = load.load_metric_stats.iter().map(|it| {
        let sum = sum(it.num_requests_finished_with_metric, it.total_metric_value);
        (it.metric_name.clone(), sum)
    });
    let metrics: serde_json::Map<_, _> = unnamed.chain(named).collect();
    if !metrics.is_empty() {
        object["metrics"] = Json::Object(metrics);
    }
    object
}

impl fmt::Debug for LoadReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadReports").field("collector", &self.collector).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use xds_core::proto::{
        Duration, EndpointLoadMetricStats, Locality, UnnamedEndpointLoadMetricStats,
        cluster_stats::DroppedRequests,
    };

    use super::*;

    #[test]
    fn report_has_localities_metrics_and_drops() {
        let load = UpstreamLocalityStats {
            locality: Some(Locality { zone: "a".into(), ..Locality::default() }),
            total_issued_requests: 3,
            total_successful_requests: 1,
            total_error_requests: 1,
            total_requests_in_progress: 1,
            load_metric_stats: vec![EndpointLoadMetricStats {
                metric_name: "named_metrics.queue".into(),
                num_requests_finished_with_metric: 2,
                total_metric_value: 5.0,
            }],
            cpu_utilization: Some(UnnamedEndpointLoadMetricStats {
                num_requests_finished_with_metric: 2,
                total_metric_value: 0.5,
            }),
            ..UpstreamLocalityStats::default()
        };
        let cluster = ClusterStats {
            cluster_name: "c".into(),
            cluster_service_name: "s".into(),
            upstream_locality_stats: vec![load],
            total_dropped_requests: 4,
            dropped_requests: vec![DroppedRequests { category: "d".into(), dropped_count: 3 }],
            load_report_interval: Some(Duration { seconds: 1, nanos: 500_000_000 }),
        };
        let expected = json!({
            "event": "load_report",
            "node_id": "n",
            "cluster": "c",
            "service": "s",
            "seconds": 1.5,
            "localities": [{
                "zone": "a", "issued": 3, "succeeded": 1, "failed": 1, "in_progress": 1,
                "metrics": {
                    "cpu_utilization": { "calls": 2, "sum": 0.5 },
                    "named_metrics.queue": { "calls": 2, "sum": 5.0 },
                },
            }],
            "dropped": 4,
            "dropped_by_category": { "d": 3 },
        });
        assert_eq!(ReportedLoad { node_id: "n".into(), cluster }.to_json(), expected);
    }
}
