//! Load reporting: clients report to a management server how many calls they send where.
//!
//! The [Load Reporting Service][lrs] (LRS) is separate from discovery. The client opens a stream and
//! sends its node. The server answers with the clusters that it wants to know about and an interval.
//! The client then sends a report in each interval. Reports contain the calls by cluster and
//! locality, and the metrics that endpoints have reported with their responses ([gRFC A64]).
//!
//! - [`LoadReporter`] is the client's side of the streams to one server.
//! - [`LoadReportStream`] is the server's side of a stream, and [`LoadTotals`] sums up the reports of
//!   all clients.
//!
//! Neither counts calls: the caller does, in [`ClusterStats`].
//!
//! ```
//! use core::time::Duration;
//! use xds_core::{Time, client::Node, load_reports::*};
//! use xds_core::proto::{ClusterStats, Locality, UpstreamLocalityStats};
//!
//! let mut client = LoadReporter::new(&Node::new("node-1"), 42);
//! let wanted = LoadRequest::all(Duration::from_secs(10));
//! let mut server = LoadReportStream::new(wanted);
//!
//! let now = Time::ZERO; // a real driver reads its monotonic clock before every call
//! let LoadStreamEvent::Opened(response) = server.handle_request(&client.open().into())? else {
//!     panic!("the first request identifies the client")
//! };
//! client.handle_response(&response, now)?;
//!
//! let due = client.poll_timeout().expect("a report in ten seconds");
//! let report = client.report(due, |_| {
//!     let sent = UpstreamLocalityStats {
//!         locality: Some(Locality { zone: "zone-a".into(), ..Locality::default() }),
//!         total_successful_requests: 3,
//!         total_issued_requests: 3,
//!         ..UpstreamLocalityStats::default()
//!     };
//!     Vec::from([ClusterStats {
//!         cluster_name: "backend".into(),
//!         upstream_locality_stats: Vec::from([sent]),
//!         ..ClusterStats::default()
//!     }])
//! });
//! let LoadStreamEvent::Report(clusters) = server.handle_request(&report.expect("a report").into())? else {
//!     panic!("every later request is a report")
//! };
//! let mut totals = LoadTotals::default();
//! totals.add(&clusters);
//! let (place, calls) = totals.localities().next().expect("calls to zone-a");
//! assert_eq!((&*place.cluster, &*place.zone, calls.succeeded), ("backend", "zone-a", 3));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! [gRFC A64]: https://github.com/grpc/proposal/blob/master/A64-lrs-custom-metrics.md
//! [lrs]: https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/load_stats/v3/lrs.proto
//! [`ClusterStats`]: crate::proto::ClusterStats

mod metric;
mod reporter;
mod request;
mod stream;
mod totals;

pub use self::{
    metric::LoadMetric,
    reporter::LoadReporter,
    request::LoadRequest,
    stream::{
        InvalidLoadReport, LoadReportStream, LoadStreamEvent, MAX_REPORTED_PARTS, ReportingClient,
    },
    totals::{CallTotals, LoadPlace, LoadTotals},
};

/// gRPC method of load reports. Both directions are streams.
pub const METHOD: &str = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";

/// gRPC service of load reports.
pub const SERVICE: &str = "envoy.service.load_stats.v3.LoadReportingService";

/// Client feature of a node whose client can report all clusters, so that the server need not list
/// them.
pub const SEND_ALL_CLUSTERS: &str = "envoy.lrs.supports_send_all_clusters";
