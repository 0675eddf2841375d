//! Metrics in [Prometheus' text format][format].
//!
//! [format]: https://prometheus.io/docs/instrumenting/exposition_formats/

use core::fmt::{Display, Write as _};
use std::time::SystemTime;

use xds_core::{
    load_reports::CallTotals,
    rollout::RolloutPhase,
    server::{ClosedStreams, ServerStats},
};
use xds_tokio::{
    credentials::ExpiringFile,
    server::{LoadCollector, SourceReport, TransportStats},
};

use super::super::write_failures::WriteFailures;
use crate::{directory::SourceMetrics, rollouts::Counts};

/// Metrics, one after the other.
#[derive(Debug, Default)]
pub(super) struct MetricsText(String);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Gauge,
    Counter,
}

impl MetricsText {
    pub(super) fn server(&mut self, stats: &ServerStats, is_ready: bool) {
        self.gauge("xds_server_ready", "1 if new clients are served.", u8::from(is_ready));
        self.gauge("xds_server_streams", "Open streams of clients.", stats.streams);
        self.gauge("xds_server_subscriptions", "Types of all streams.", stats.subscriptions);
        self.gauge("xds_server_resources", "Resources of all views.", stats.resources);
        self.gauge("xds_server_views", "Views, with the default one.", stats.views);
        let waiting = "Streams that wait until the server has caught up with its source.";
        self.gauge("xds_server_waiting_streams", waiting, stats.waiting_for_source);
        self.counter("xds_server_requests_total", "Requests of clients.", stats.requests);
        self.counter("xds_server_responses_total", "Responses to clients.", stats.responses);
        self.counter("xds_server_acks_total", "Responses that clients accepted.", stats.acks);
        self.counter("xds_server_nacks_total", "Responses that clients rejected.", stats.nacks);
        let refused = stats.refused;
        self.counters(
            "xds_server_refused_streams_total",
            "Streams refused, by reason.",
            "reason",
            [
                ("not_ready", refused.not_ready),
                ("stale_source", refused.stale),
                ("too_many_streams", refused.too_many + refused.too_many_new),
                ("shutting_down", refused.shutting_down),
            ],
        );
        let unconfirmed = "Streams answered from the last state, because the source could not \
                           confirm it.";
        self.counter(
            "xds_server_unconfirmed_streams_total",
            unconfirmed,
            stats.unconfirmed_streams,
        );
    }

    /// Adds the streams that have ended. While the server is not ready, it holds requests and then closes
    /// their streams, so these are not among the refused ones.
    pub(super) fn closed_streams(&mut self, closed: &ClosedStreams) {
        self.counters(
            "xds_server_closed_streams_total",
            "Streams that have ended, by reason.",
            "reason",
            [
                ("by_client", closed.by_clients),
                ("invalid_request", closed.invalid),
                ("too_long_request", closed.lengths),
                ("too_many_requests", closed.requests),
                ("too_many_names", closed.subscriptions),
                ("too_many_streams_of_node", closed.streams_per_node),
                ("too_many_views", closed.views),
                ("refused", closed.refused),
                ("not_ready", closed.not_ready),
                ("behind_source", closed.behind_source),
                ("stale_source", closed.source_unreachable),
                ("no_request", closed.no_request),
                ("shutting_down", closed.shutting_down),
                (
                    "other",
                    closed.view_dropped
                        + closed.behind
                        + closed.answer_overdue
                        + closed.no_decision
                        + closed.aged,
                ),
            ],
        );
    }

    pub(super) fn transport(&mut self, stats: &TransportStats) {
        self.gauge("xds_server_connections", "Open connections of clients.", stats.connections);
        self.counters(
            "xds_server_refused_connections_total",
            "Connections closed at once, by the limit that was reached.",
            "reason",
            [
                ("too_many", stats.refused_connections),
                ("too_many_of_one_address", stats.refused_connections_of_one_address),
            ],
        );
        self.counters(
            "xds_server_closed_connections_total",
            "Connections that the server has ended, by reason.",
            "reason",
            [
                ("dropped_handshake", stats.dropped_handshakes),
                ("failed_tls_handshake", stats.failed_tls_handshakes),
                ("silent", stats.silent_connections),
                ("flooded", stats.flooded_connections),
                ("unread", stats.unread_connections),
            ],
        );
        let help =
            "Requests refused because of their size, their duration or the memory that they use.";
        self.counter("xds_server_refused_requests_total", help, stats.refused_requests);
        let help = "Bytes of incomplete requests.";
        self.gauge("xds_server_incomplete_request_bytes", help, stats.incomplete_request_bytes);
        let help = "Bytes of responses that clients have not read.";
        self.gauge("xds_server_unread_response_bytes", help, stats.unread_response_bytes);
    }

    /// Adds the times at which files of the listeners' credentials expire.
    pub(super) fn expiries(&mut self, expiries: Vec<(ExpiringFile, SystemTime)>) {
        let name = "xds_server_credentials_expiry_timestamp_seconds";
        let help =
            "Time at which a file of the TLS credentials expires, the earliest of each kind.";
        self.head(name, help, Kind::Gauge);
        for (file, at) in expiries {
            let kind = match file {
                ExpiringFile::Certificate => "certificate",
                ExpiringFile::ClientAuthority => "client_ca",
                ExpiringFile::RevocationList => "crl",
                _ => continue,
            };
            let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            self.labelled(name, &[("file", kind)], seconds);
        }
    }

    pub(super) fn write_failures(&mut self, failures: &WriteFailures) {
        let help = "Failed writes: exports to files, and feedback to objects of the source.";
        self.counters("xds_server_write_failures_total", help, "of", failures.counts());
    }

    pub(super) fn source(&mut self, report: &SourceReport, metrics: &SourceMetrics) {
        if let Some(revision) = report.revision {
            self.gauge("xds_source_revision", "Revision up to which all is served.", revision);
        }
        // The report has no failures before the source was read once, and none of a directory.
        let stale = report.unreachable_for.unwrap_or_default().max(metrics.failing_for());
        let help = "Time for which the source could not be read, 0 while it can be.";
        self.gauge("xds_source_stale_seconds", help, stale.as_secs_f64());
        let broken = "Objects of the source, such as files or keys, that are invalid.";
        self.gauge("xds_source_invalid_objects", broken, metrics.broken());
        let help = "1 while guards refuse the newest state of the source.";
        self.gauge("xds_source_refused", help, u8::from(metrics.is_refused()));
        let help = "Changes of the source that guards have refused.";
        self.counter("xds_source_refused_changes_total", help, metrics.refusals());
        let help = "Failures to read or watch the source, by kind.";
        self.counters("xds_source_errors_total", help, "kind", metrics.failures());
    }

    pub(super) fn rollouts(&mut self, counts: &Counts, is_failing: bool) {
        let progress = counts.progress.as_ref();
        let under_way = progress.filter(|it| !it.phase.is_final());
        let help = "Number of the newest rollout, 0 if there was none since the start.";
        self.gauge("xds_rollout", help, progress.map_or(0, |it| it.id.0));
        let help =
            "1 while a change is not rolled out because the state of rollouts cannot be used.";
        self.gauge("xds_rollout_failing", help, u8::from(is_failing));
        let help = "1 while a rollout is under way.";
        self.gauge("xds_rollout_under_way", help, u8::from(under_way.is_some()));
        let waits = under_way
            .is_some_and(|it| matches!(it.phase, RolloutPhase::Halted | RolloutPhase::Paused));
        let help = "1 while the rollout waits for a command, because it is halted or paused.";
        self.gauge("xds_rollout_waiting", help, u8::from(waits));
        let step = under_way.map_or(0, |it| it.step + 1);
        self.gauge("xds_rollout_step", "Step of the rollout, from 1; 0 without one.", step);
        let steps = under_way.map_or(0, |it| it.steps);
        self.gauge("xds_rollout_steps", "Number of steps of the rollout.", steps);
        let help = "Connected clients that see the change of the rollout.";
        self.gauge("xds_rollout_clients", help, under_way.map_or(0, |it| it.members));
        let help = "Clients that have accepted the change of the rollout.";
        let accepted = under_way.map_or(0, |it| it.acknowledged);
        self.gauge("xds_rollout_acknowledged_clients", help, accepted);
        let ended = [("completed", counts.completed), ("rolled_back", counts.rolled_back)];
        let help = "Rollouts that have ended since the start, by outcome.";
        self.counters("xds_rollouts_ended_total", help, "outcome", ended);
    }

    /// Adds the load that clients have reported. They choose the names.
    pub(super) fn loads(&mut self, loads: &LoadCollector) {
        let totals = loads.totals();
        self.gauge("xds_load_streams", "Open streams of load reports.", loads.streams());
        self.counter("xds_load_reports_total", "Load reports received.", loads.reports());
        let help =
            "Localities and clusters in reports that are omitted, because there are too many.";
        self.counter("xds_load_omitted_total", help, totals.omitted());
        for (name, help, count) in [
            (
                "xds_load_issued_calls_total",
                "Calls that clients have sent.",
                (|calls| calls.issued) as fn(&CallTotals) -> u64,
            ),
            ("xds_load_succeeded_calls_total", "Calls that succeeded.", |calls| calls.succeeded),
            ("xds_load_failed_calls_total", "Calls that failed.", |calls| calls.failed),
        ] {
            self.head(name, help, Kind::Counter);
            for (place, calls) in totals.localities() {
                let labels = [
                    ("cluster", &*place.cluster),
                    ("service", &*place.service),
                    ("region", &*place.region),
                    ("zone", &*place.zone),
                    ("sub_zone", &*place.sub_zone),
                ];
                self.labelled(name, &labels, count(calls));
            }
        }
        let (name, help) = ("xds_load_dropped_calls_total", "Calls that clients have dropped.");
        self.head(name, help, Kind::Counter);
        for (cluster, calls) in totals.dropped() {
            self.labelled(name, &[("cluster", cluster)], calls);
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, Kind::Gauge);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, help, Kind::Counter);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        self.head(name, help, Kind::Counter);
        for (value_of_label, value) in values {
            let _ = writeln!(self.0, "{name}{{{label}=\"{value_of_label}\"}} {value}");
        }
    }

    /// Writes a value with the labels that are not empty.
    fn labelled(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels = labels.iter().filter(|(_, value)| !value.is_empty());
        let labels: Vec<_> =
            labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }

    fn head(&mut self, name: &str, help: &str, kind: Kind) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn labels_of_clients_are_escaped() {
        let mut text = MetricsText::default();
        text.labelled("m", &[("a", "x\"y\\\nz"), ("empty", ""), ("b", "c")], 3);
        assert_eq!(text.finish(), "m{a=\"x\\\"y\\\\\\nz\",b=\"c\"} 3\n");
    }

    #[test]
    fn metrics_have_a_help_a_type_and_values() {
        let mut report = SourceReport::default();
        (report.revision, report.unreachable_for) = (Some(7), Some(Duration::from_millis(1_500)));
        let mut text = MetricsText::default();
        text.server(&ServerStats::default(), true);
        text.source(&report, &SourceMetrics::default());
        let mut closed = ClosedStreams::default();
        closed.not_ready = 3;
        text.closed_streams(&closed);
        text.transport(&TransportStats::default());
        text.rollouts(&Counts { rolled_back: 2, ..Counts::default() }, true);
        let text = text.finish();
        for line in [
            "# TYPE xds_server_ready gauge",
            "xds_server_ready 1",
            "# TYPE xds_server_nacks_total counter",
            "xds_server_nacks_total 0",
            "xds_server_refused_streams_total{reason=\"stale_source\"} 0",
            "xds_source_revision 7",
            "xds_source_stale_seconds 1.5",
            "xds_source_refused 0",
            "xds_source_refused_changes_total 0",
            "xds_source_errors_total{kind=\"unavailable\"} 0",
            "xds_server_closed_streams_total{reason=\"not_ready\"} 3",
            "xds_server_closed_connections_total{reason=\"silent\"} 0",
            "xds_rollout_failing 1",
            "xds_rollout_under_way 0",
            "xds_rollouts_ended_total{outcome=\"rolled_back\"} 2",
        ] {
            assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
        }
        let names = |prefix: &str| text.lines().filter(|it| it.starts_with(prefix)).count();
        assert_eq!(names("# HELP "), names("# TYPE "));
    }
}
