//! Load that a server wants to know.

use alloc::{collections::BTreeSet, string::String};
use core::time::Duration;

use crate::proto::{self, LoadStatsResponse};

/// Minimum interval between two reports, as in gRPC.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Clusters whose load a server wants to know, and the interval of the reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadRequest {
    /// Names of the clusters; `None` means all.
    clusters: Option<BTreeSet<String>>,
    interval: Duration,
}

impl LoadRequest {
    /// Requests the load of all clusters. Only clients whose node has the feature
    /// [`SEND_ALL_CLUSTERS`](super::SEND_ALL_CLUSTERS) report it, as gRPC and Envoy do.
    ///
    /// An interval below one second is changed to one second.
    #[must_use]
    pub fn all(interval: Duration) -> Self {
        Self { clusters: None, interval: interval.max(MIN_INTERVAL) }
    }

    /// Requests the load of clusters by name.
    ///
    /// An interval below one second is changed to one second.
    #[must_use]
    pub fn of_clusters(
        clusters: impl IntoIterator<Item = impl Into<String>>,
        interval: Duration,
    ) -> Self {
        let clusters = clusters.into_iter().map(Into::into).collect();
        Self { clusters: Some(clusters), interval: interval.max(MIN_INTERVAL) }
    }

    /// Returns whether the load of a cluster is requested.
    #[must_use]
    pub fn includes(&self, cluster: &str) -> bool {
        self.clusters.as_ref().is_none_or(|clusters| clusters.contains(cluster))
    }

    /// Returns the interval of the reports, at least one second.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Creates the request that a server has sent. A negative or missing interval becomes one second.
    pub(super) fn from_proto(response: LoadStatsResponse) -> Self {
        let interval = response.load_reporting_interval.unwrap_or_default();
        let seconds = u64::try_from(interval.seconds).unwrap_or_default();
        let nanos = u32::try_from(interval.nanos).unwrap_or_default().min(999_999_999);
        let interval = Duration::new(seconds, nanos);
        match response.send_all_clusters {
            true => Self::all(interval),
            false => Self::of_clusters(response.clusters, interval),
        }
    }

    pub(super) fn to_proto(&self) -> LoadStatsResponse {
        LoadStatsResponse {
            clusters: self.clusters.iter().flatten().cloned().collect(),
            load_reporting_interval: Some(duration_to_proto(self.interval)),
            report_endpoint_granularity: false,
            send_all_clusters: self.clusters.is_none(),
        }
    }
}

fn duration_to_proto(duration: Duration) -> proto::Duration {
    proto::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}
