//! Client's side of load reporting.

use alloc::{string::ToString as _, vec::Vec};

use prost::Message as _;

use super::{LoadRequest, SEND_ALL_CLUSTERS};
use crate::{
    client::{BackoffPolicy, Node, channel::end::ChannelEnd, upstream::backoff::Backoff},
    proto::{self, ClusterStats, DecodeError, LoadStatsRequest, LoadStatsResponse},
    rng::Rng,
    time::Time,
};

/// Client's side of the load reports to one server, as a state machine.
///
/// The caller opens a stream of the method [`METHOD`](super::METHOD), sends the message that
/// [`open`](Self::open) returns, and then passes on the server's messages and sends a
/// [`report`](Self::report) when [`poll_timeout`](Self::poll_timeout) is due. When the stream has
/// ended, or could not be opened, it opens the next one at the time that [`closed`](Self::closed)
/// returns.
#[derive(Clone, Debug)]
pub struct LoadReporter {
    node: proto::Node,
    policy: BackoffPolicy,
    backoff: Backoff,
    rng: Rng,
    state: ReporterState,
}

/// State of the stream.
#[derive(Clone, Debug, Default)]
enum ReporterState {
    /// No stream is open.
    #[default]
    Closed,
    /// A stream whose server has not answered yet.
    Opened,
    Reporting {
        request: LoadRequest,
        due: Time,
        was_empty: bool,
    },
}

impl LoadReporter {
    /// Creates a reporter for the client with this node. `seed` is for the jitter of the backoff.
    #[must_use]
    pub fn new(node: &Node, seed: u64) -> Self {
        let mut node = node.message().clone();
        node.client_features = Vec::from([SEND_ALL_CLUSTERS.to_string()]);
        Self {
            node,
            policy: BackoffPolicy::grpc(),
            backoff: Backoff::default(),
            rng: Rng::new(seed),
            state: ReporterState::Closed,
        }
    }

    /// Begins a stream, and returns its first message.
    pub fn open(&mut self) -> Vec<u8> {
        self.backoff.note_connected();
        self.state = ReporterState::Opened;
        let node = Some(self.node.clone());
        LoadStatsRequest { node, cluster_stats: Vec::new() }.encode_to_vec()
    }

    /// Handles a message of the server. If it requests what is already being reported, reports
    /// continue undisturbed. Otherwise the next one is due after the new interval.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is malformed. The caller then ends the stream.
    pub fn handle_response(&mut self, message: &[u8], now: Time) -> Result<(), DecodeError> {
        let wanted = LoadRequest::from_proto(LoadStatsResponse::decode(message)?);
        match &self.state {
            ReporterState::Closed => {}
            ReporterState::Reporting { request, .. } if *request == wanted => {}
            ReporterState::Opened | ReporterState::Reporting { .. } => {
                let due = now.after(wanted.interval());
                self.state = ReporterState::Reporting { request: wanted, due, was_empty: false };
            }
        }
        Ok(())
    }

    /// Returns the time of the next report; `None` until the server has requested reports.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            ReporterState::Reporting { due, .. } => Some(due),
            ReporterState::Closed | ReporterState::Opened => None,
        }
    }

    /// Returns the next message if a report is due. `take` returns the load of the requested clusters
    /// since their last report. Of successive reports without load, only the first one is sent.
    pub fn report(
        &mut self,
        now: Time,
        take: impl FnOnce(&LoadRequest) -> Vec<ClusterStats>,
    ) -> Option<Vec<u8>> {
        let ReporterState::Reporting { request, due, was_empty } = &mut self.state else {
            return None;
        };
        if now < *due {
            return None;
        }
        *due = now.after(request.interval());
        let cluster_stats = take(request);
        let is_empty = cluster_stats.is_empty();
        if core::mem::replace(was_empty, is_empty) && is_empty {
            return None;
        }
        Some(LoadStatsRequest { node: None, cluster_stats }.encode_to_vec())
    }

    /// Ends a stream, or an attempt to open one, and returns the time of the next attempt. Delays are
    /// those of gRPC's connection backoff: 1 s at first, up to 120 s. A stream on which the server
    /// has requested reports resets them.
    pub fn closed(&mut self, now: Time) -> Time {
        let end = match core::mem::take(&mut self.state) {
            ReporterState::Closed => ChannelEnd::Unconnected,
            ReporterState::Opened => ChannelEnd::Early,
            ReporterState::Reporting { .. } => ChannelEnd::Served,
        };
        now.after(self.backoff.next_delay(end, &self.policy, &mut self.rng))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::load_reports::{LoadReportStream, LoadStreamEvent};

    fn response(wanted: LoadRequest) -> Vec<u8> {
        let mut server = LoadReportStream::new(wanted);
        let request = LoadReporter::new(&Node::new("n"), 0).open();
        match server.handle_request(&request.into()) {
            Ok(LoadStreamEvent::Opened(response)) => response,
            other => panic!("{other:?}"),
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO.after(Duration::from_secs(seconds))
    }

    fn load() -> Vec<ClusterStats> {
        Vec::from([ClusterStats { cluster_name: "c".into(), ..ClusterStats::default() }])
    }

    // B49a
    #[test]
    fn first_message_has_the_node_and_the_feature_of_all_clusters() {
        let message = LoadReporter::new(&Node::new("node-1"), 0).open();
        let request = LoadStatsRequest::decode(&*message).expect("a request");
        let node = request.node.expect("a node");
        assert_eq!(node.id, "node-1");
        assert_eq!(node.client_features, ["envoy.lrs.supports_send_all_clusters"]);
        assert_eq!(request.cluster_stats, []);
    }

    #[test]
    fn reports_follow_the_interval_of_the_server() {
        let mut reporter = LoadReporter::new(&Node::new("n"), 0);
        assert_eq!(reporter.poll_timeout(), None);
        reporter.open();
        assert_eq!(reporter.poll_timeout(), None, "the server has to begin");
        assert_eq!(reporter.report(at(9), |_| load()), None);
        let wanted = LoadRequest::of_clusters(["c"], seconds(10));
        reporter.handle_response(&response(wanted), at(1)).expect("valid");
        assert_eq!(reporter.poll_timeout(), Some(at(11)));
        assert_eq!(reporter.report(at(10), |_| load()), None, "too early");
        let report = reporter.report(at(12), |wanted| {
            assert!(wanted.includes("c") && !wanted.includes("d"));
            load()
        });
        let report = LoadStatsRequest::decode(&*report.expect("a report")).expect("a request");
        assert_eq!(report, LoadStatsRequest { node: None, cluster_stats: load() });
        assert_eq!(reporter.poll_timeout(), Some(at(22)));
    }

    #[test]
    fn repeated_request_does_not_delay_reports() {
        let mut reporter = LoadReporter::new(&Node::new("n"), 0);
        reporter.open();
        let ten = response(LoadRequest::all(seconds(10)));
        reporter.handle_response(&ten, at(0)).expect("valid");
        reporter.handle_response(&ten, at(9)).expect("valid");
        assert_eq!(reporter.poll_timeout(), Some(at(10)));
        let two = response(LoadRequest::all(seconds(2)));
        reporter.handle_response(&two, at(9)).expect("valid");
        assert_eq!(reporter.poll_timeout(), Some(at(11)));
    }

    #[test]
    fn only_the_first_of_successive_empty_reports_is_sent() {
        let mut reporter = LoadReporter::new(&Node::new("n"), 0);
        reporter.open();
        let all = response(LoadRequest::all(seconds(1)));
        reporter.handle_response(&all, at(0)).expect("valid");
        let sent = [false, true, true, false, true, true, false].iter().zip(1..);
        let sent = sent.map(|(has_load, time)| {
            let report = reporter.report(at(time), |_| if *has_load { load() } else { Vec::new() });
            report.is_some()
        });
        let sent: Vec<bool> = sent.collect();
        assert_eq!(sent, [true, true, true, true, true, true, true]);
        assert_eq!(reporter.report(at(8), |_| Vec::new()), None);
    }

    #[test]
    fn short_and_invalid_intervals_become_one_second() {
        for (seconds, nanos) in [(0, 0), (0, 500_000_000), (-7, 0), (i64::MIN, i32::MIN)] {
            let interval = proto::Duration { seconds, nanos };
            let message = LoadStatsResponse {
                load_reporting_interval: Some(interval),
                ..LoadStatsResponse::default()
            };
            let mut reporter = LoadReporter::new(&Node::new("n"), 0);
            reporter.open();
            reporter.handle_response(&message.encode_to_vec(), at(0)).expect("valid");
            assert_eq!(reporter.poll_timeout(), Some(at(1)), "{seconds} {nanos}");
        }
        let interval = proto::Duration { seconds: i64::MAX, nanos: i32::MAX };
        let message = LoadStatsResponse {
            load_reporting_interval: Some(interval),
            ..LoadStatsResponse::default()
        };
        let mut reporter = LoadReporter::new(&Node::new("n"), 0);
        reporter.open();
        reporter.handle_response(&message.encode_to_vec(), at(0)).expect("valid");
        assert!(reporter.poll_timeout().is_some_and(|due| due > at(1_000_000)));
    }

    #[test]
    fn delays_grow_until_the_server_requests_reports() {
        let mut reporter = LoadReporter::new(&Node::new("n"), 3);
        let mut delays = Vec::new();
        for _ in 0..4 {
            delays.push(reporter.closed(at(0)).since(Time::ZERO).as_secs_f64());
        }
        for (delay, base) in delays.iter().zip([1.0, 1.6, 2.56, 4.096]) {
            assert!((base * 0.8..=base * 1.2).contains(delay), "{delay} {base}");
        }
        reporter.open();
        let all = response(LoadRequest::all(seconds(1)));
        reporter.handle_response(&all, at(0)).expect("valid");
        assert!(reporter.closed(at(0)) <= at(2));
        assert_eq!(reporter.poll_timeout(), None, "a new stream begins anew");
        for expected in [1.0, 1.6, 2.56] {
            reporter.open();
            let delay = reporter.closed(at(0)).since(Time::ZERO).as_secs_f64();
            let bounds = expected * 0.8..=expected * 1.2;
            assert!(bounds.contains(&delay), "{delay}: a stream without a response is a failure");
        }
    }

    #[test]
    fn malformed_response_is_an_error() {
        let mut reporter = LoadReporter::new(&Node::new("n"), 0);
        reporter.open();
        assert!(reporter.handle_response(b"\xff\xff", at(0)).is_err());
        assert_eq!(reporter.poll_timeout(), None);
    }
}
