//! Server's side of a stream of load reports.

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;
use prost::Message as _;
use thiserror::Error;

use super::LoadRequest;
use crate::proto::{ClusterStats, DecodeError, LoadStatsRequest, Node};

/// Server's side of one stream of load reports.
#[derive(Clone, Debug)]
pub struct LoadReportStream {
    wanted: LoadRequest,
    /// Client; `None` until its first request.
    node: Option<Arc<Node>>,
}

/// Event of a stream of load reports.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadStreamEvent {
    /// The client has identified itself, as [`LoadReportStream::node`]. This is the response to send.
    Opened(Vec<u8>),
    /// The client has reported the load of clusters.
    Report(Vec<ClusterStats>),
}

/// Reason why a request of a client is invalid. The server ends the stream with
/// `INVALID_ARGUMENT`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidLoadReport {
    /// The message does not decode.
    #[error("malformed load report: {0}")]
    Malformed(DecodeError),
    /// The first request has no node.
    #[error("the first request of a stream of load reports must contain the node")]
    NoNode,
}

impl LoadReportStream {
    /// Creates the state of a new stream, whose client is asked for this load.
    #[must_use]
    pub const fn new(wanted: LoadRequest) -> Self {
        Self { wanted, node: None }
    }

    /// Returns the client; `None` before its first request.
    #[must_use]
    pub const fn node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref()
    }

    /// Handles a message of the client.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is malformed, or is the first one and has no node.
    pub fn handle_request(&mut self, message: &[u8]) -> Result<LoadStreamEvent, InvalidLoadReport> {
        let request = LoadStatsRequest::decode(Bytes::copy_from_slice(message))
            .map_err(InvalidLoadReport::Malformed)?;
        match (&self.node, request.node) {
            (Some(_), _) => Ok(LoadStreamEvent::Report(request.cluster_stats)),
            (None, Some(node)) => {
                self.node = Some(Arc::new(node));
                Ok(LoadStreamEvent::Opened(self.wanted.to_proto().encode_to_vec()))
            }
            (None, None) => Err(InvalidLoadReport::NoNode),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::proto::LoadStatsResponse;

    #[test]
    fn first_request_without_node_is_an_error() {
        let mut stream = LoadReportStream::new(LoadRequest::all(Duration::from_secs(10)));
        assert_eq!(stream.handle_request(b""), Err(InvalidLoadReport::NoNode));
        assert!(matches!(stream.handle_request(b"\xff"), Err(InvalidLoadReport::Malformed(_))));
    }

    #[test]
    fn response_lists_the_clusters_or_requests_all() {
        let opened = |wanted| {
            let mut stream = LoadReportStream::new(wanted);
            let node = Some(Node { id: "n".into(), ..Node::default() });
            let request = LoadStatsRequest { node, cluster_stats: Vec::new() }.encode_to_vec();
            let Ok(LoadStreamEvent::Opened(response)) = stream.handle_request(&request) else {
                panic!("the first request");
            };
            assert_eq!(stream.node().map(|node| &*node.id), Some("n"));
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
