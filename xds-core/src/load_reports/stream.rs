//! Server's side of a stream of load reports.

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;
use prost::Message as _;
use thiserror::Error;

use super::LoadRequest;
use crate::{
    proto::{ClusterStats, DecodeError},
    status_code::StatusCode,
    wire::{
        Malformed,
        walk::{Fields, part_of},
    },
};

/// Maximum number of clusters, localities, metrics and drop categories of a report together. An empty
/// one takes two bytes of a message, and much more memory when it is decoded.
pub const MAX_REPORTED_PARTS: usize = 100_000;

/// Server's side of one stream of load reports.
#[derive(Clone, Debug)]
pub struct LoadReportStream {
    wanted: LoadRequest,
    /// Client; `None` until its first request.
    client: Option<ReportingClient>,
}

/// Client of a stream of load reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportingClient {
    /// Node id. May be empty.
    pub node_id: Arc<str>,
    /// Encoded [`Node`](crate::proto::Node) message.
    pub encoded_node: Bytes,
}

/// Event of a stream of load reports.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadStreamEvent {
    /// The client has identified itself, as [`LoadReportStream::client`]. This is the response to
    /// send.
    Opened(Vec<u8>),
    /// The client has reported the load of clusters.
    Report(Vec<ClusterStats>),
}

/// Reason why a request of a client is invalid. The server ends the stream with this error's
/// [status code](Self::code).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidLoadReport {
    /// The bytes are not a protobuf message.
    #[error("malformed load report: {0}")]
    Malformed(#[from] Malformed),
    /// A cluster does not decode.
    #[error("malformed cluster in a load report: {0}")]
    Cluster(#[from] DecodeError),
    /// The first request has no node.
    #[error("the first request of a stream of load reports must contain the node")]
    NoNode,
    /// The report has more than [`MAX_REPORTED_PARTS`] parts.
    #[error(
        "a load report has more than {MAX_REPORTED_PARTS} clusters, localities, metrics and drop \
         categories"
    )]
    TooManyParts,
}

impl InvalidLoadReport {
    /// Returns the status code with which the server ends the stream.
    #[must_use]
    pub const fn code(&self) -> StatusCode {
        match self {
            Self::Malformed(_) | Self::Cluster(_) | Self::NoNode => StatusCode::InvalidArgument,
            Self::TooManyParts => StatusCode::ResourceExhausted,
        }
    }
}

/// Numbers of the fields of `LoadStatsRequest`, and of the fields of its parts that repeat.
mod field {
    pub(super) const NODE: u32 = 1;
    pub(super) const CLUSTERS: u32 = 2;
    pub(super) const NODE_ID: u32 = 1;
    pub(super) const LOCALITIES: u32 = 2;
    pub(super) const DROPS: u32 = 5;
    pub(super) const METRICS: u32 = 5;
}

impl LoadReportStream {
    /// Creates the state of a new stream, whose client is asked for this load.
    #[must_use]
    pub const fn new(wanted: LoadRequest) -> Self {
        Self { wanted, client: None }
    }

    /// Returns the client; `None` before its first request.
    #[must_use]
    pub const fn client(&self) -> Option<&ReportingClient> {
        self.client.as_ref()
    }

    /// Handles a message of the client.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is malformed or too large, or is the first one and has no
    /// node.
    pub fn handle_request(
        &mut self,
        message: &Bytes,
    ) -> Result<LoadStreamEvent, InvalidLoadReport> {
        let (mut node, mut clusters) = (None, Vec::new());
        let mut parts = 0;
        for field in Fields::of(message) {
            let field = field?;
            match field.number {
                field::NODE => node = Some(field.block()?),
                field::CLUSTERS => {
                    let cluster = field.block()?;
                    count_parts(cluster, &mut parts)?;
                    clusters.push(ClusterStats::decode(cluster)?);
                }
                _ => {}
            }
        }
        match (&self.client, node) {
            (Some(_), _) => Ok(LoadStreamEvent::Report(clusters)),
            (None, Some(node)) => {
                let encoded_node = part_of(message, node);
                self.client = Some(ReportingClient { node_id: id_of(node)?, encoded_node });
                Ok(LoadStreamEvent::Opened(self.wanted.to_proto().encode_to_vec()))
            }
            (None, None) => Err(InvalidLoadReport::NoNode),
        }
    }
}

/// Adds the number of the parts of a cluster, and of the cluster itself, up to the limit.
fn count_parts(cluster: &[u8], parts: &mut usize) -> Result<(), InvalidLoadReport> {
    *parts += 1;
    for field in Fields::of(cluster) {
        let field = field?;
        match field.number {
            field::LOCALITIES => {
                *parts += 1;
                for field in Fields::of(field.block()?) {
                    *parts += usize::from(field?.number == field::METRICS);
                }
            }
            field::DROPS => *parts += 1,
            _ => {}
        }
    }
    match *parts > MAX_REPORTED_PARTS {
        true => Err(InvalidLoadReport::TooManyParts),
        false => Ok(()),
    }
}

/// Returns the id of an encoded node.
fn id_of(node: &[u8]) -> Result<Arc<str>, Malformed> {
    let mut id = "";
    for field in Fields::of(node) {
        let field = field?;
        if field.number == field::NODE_ID {
            id = field.string()?;
        }
    }
    Ok(id.into())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::proto::{LoadStatsRequest, LoadStatsResponse, Node, UpstreamLocalityStats};

    #[test]
    fn first_request_without_node_is_an_error() {
        let mut stream = LoadReportStream::new(LoadRequest::all(Duration::from_secs(10)));
        assert_eq!(stream.handle_request(&Bytes::new()), Err(InvalidLoadReport::NoNode));
        let malformed = stream.handle_request(&Bytes::from_static(b"\xff"));
        assert!(matches!(malformed, Err(InvalidLoadReport::Malformed(_))));
        assert_eq!(malformed.map_err(|why| why.code()), Err(StatusCode::InvalidArgument));
    }

    /// Returns a request of one client with these clusters.
    fn request(cluster_stats: Vec<ClusterStats>) -> Bytes {
        let node = Some(Node { id: "n".into(), ..Node::default() });
        LoadStatsRequest { node, cluster_stats }.encode_to_vec().into()
    }

    #[test]
    fn report_with_too_many_parts_is_an_error() {
        let mut stream = LoadReportStream::new(LoadRequest::all(Duration::from_secs(10)));
        assert!(stream.handle_request(&request(Vec::new())).is_ok());
        let report = |localities: usize| {
            let localities = alloc::vec![UpstreamLocalityStats::default(); localities];
            let cluster =
                ClusterStats { upstream_locality_stats: localities, ..ClusterStats::default() };
            request(Vec::from([cluster]))
        };
        let most = stream.handle_request(&report(MAX_REPORTED_PARTS - 1));
        assert!(matches!(most, Ok(LoadStreamEvent::Report(_))));
        let more = stream.handle_request(&report(MAX_REPORTED_PARTS));
        assert_eq!(more, Err(InvalidLoadReport::TooManyParts));
        assert_eq!(more.map_err(|why| why.code()), Err(StatusCode::ResourceExhausted));
        let clusters = alloc::vec![ClusterStats::default(); MAX_REPORTED_PARTS + 1];
        let more = stream.handle_request(&request(clusters));
        assert_eq!(more, Err(InvalidLoadReport::TooManyParts));
    }

    #[test]
    fn response_lists_the_clusters_or_requests_all() {
        let opened = |wanted| {
            let mut stream = LoadReportStream::new(wanted);
            let first = stream.handle_request(&request(Vec::new()));
            let Ok(LoadStreamEvent::Opened(response)) = first else {
                panic!("the first request");
            };
            assert_eq!(stream.client().map(|client| &*client.node_id), Some("n"));
            LoadStatsResponse::decode(&*response).expect("a response")
        };
        let all = opened(LoadRequest::all(Duration::from_millis(2_500)));
        assert!(all.send_all_clusters && all.clusters.is_empty());
        let interval = all.load_reporting_interval.expect("an interval");
        assert_eq!((interval.seconds, interval.nanos), (2, 500_000_000));
        let two = opened(LoadRequest::of_clusters(["b", "a"], Duration::ZERO));
        assert!(!two.send_all_clusters);
        assert_eq!(two.clusters, ["a", "b"]);
        assert_eq!(two.load_reporting_interval.expect("an interval").seconds, 1);
    }
}
