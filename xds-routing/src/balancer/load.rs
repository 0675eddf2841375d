//! Load that endpoints report, and the weights that follow from it ([gRFC A58], [gRFC A51]).
//!
//! [gRFC A51]: https://github.com/grpc/proposal/blob/master/A51-custom-backend-metrics.md
//! [gRFC A58]: https://github.com/grpc/proposal/blob/master/A58-client-side-weighted-round-robin-lb-policy.md

use alloc::vec::Vec;
use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use prost::Message as _;
use xds_core::{Time, proto};

use crate::{
    cluster::{UtilizationMetric, WeightedRoundRobin},
    proto::xds::{data::orca::v3::OrcaLoadReport, service::orca::v3::OrcaLoadReportRequest},
};

/// Way in which endpoints report their load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadSource {
    /// With each response, in the trailer [`LoadReport::TRAILER`].
    Responses,
    /// At this interval on a stream of the method [`LoadReport::METHOD`], which the client opens on
    /// each connection.
    Stream(Duration),
}

/// Load report of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// Requests per second.
    pub requests: f64,
    /// Failed requests per second.
    pub errors: f64,
    /// Utilization: that of the application, the selected metrics or the CPU. 1 is the capacity.
    pub utilization: f64,
}

impl LoadReport {
    /// Trailer with the report: an [`OrcaLoadReport`] in base64.
    pub const TRAILER: &'static str = "endpoint-load-metrics-bin";

    /// Method that returns a stream of reports, each an [`OrcaLoadReport`].
    pub const METHOD: &'static str = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";

    /// Returns the encoded request of [`METHOD`](Self::METHOD) for reports at this interval.
    #[must_use]
    pub fn request(interval: Duration) -> Vec<u8> {
        let report_interval = Some(proto::Duration {
            seconds: i64::try_from(interval.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(interval.subsec_nanos()).unwrap_or_default(),
        });
        let request = OrcaLoadReportRequest { report_interval, ..OrcaLoadReportRequest::default() };
        request.encode_to_vec()
    }

    /// Decodes an [`OrcaLoadReport`]. Its utilization is that of the application, or else the maximum
    /// of these metrics ([gRFC A114]), or else that of the CPU. Returns `None` if the report is
    /// malformed.
    ///
    /// [gRFC A114]: https://github.com/grpc/proposal/blob/master/A114-wrr-metric-names-for-computing-utilization.md
    #[must_use]
    pub fn from_bytes(bytes: &[u8], metrics: &[UtilizationMetric]) -> Option<Self> {
        Some(Self::new(&OrcaLoadReport::decode(bytes).ok()?, metrics))
    }

    /// Creates the load report from a decoded message, like [`from_bytes`](Self::from_bytes).
    #[must_use]
    pub fn new(report: &OrcaLoadReport, metrics: &[UtilizationMetric]) -> Self {
        let of_application = report.application_utilization;
        let values = metrics.iter().filter_map(|metric| match metric {
            UtilizationMetric::Cpu => Some(report.cpu_utilization),
            UtilizationMetric::Memory => Some(report.mem_utilization),
            UtilizationMetric::Application => Some(of_application),
            UtilizationMetric::Named(name) => report.named_metrics.get(name).copied(),
        });
        let usable = values.filter(|value| *value > 0.0 && value.is_finite());
        let utilization = match (of_application > 0.0, usable.reduce(f64::max)) {
            (true, _) => of_application,
            (false, Some(most)) => most,
            (false, None) => report.cpu_utilization,
        };
        Self { requests: report.rps_fractional, errors: report.eps, utilization }
    }
}

/// Newest load of an endpoint.
#[derive(Debug)]
pub(super) struct EndpointLoad {
    /// The utilization and the error rate, each per request in a second, as two `f32`.
    figures: AtomicU64,
    /// Time of the last report, in nanoseconds.
    updated: AtomicU64,
    /// Time of the first report of those that followed each other, or [`NEVER`].
    since: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Default for EndpointLoad {
    fn default() -> Self {
        let (figures, updated) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { figures, updated, since: AtomicU64::new(NEVER) }
    }
}

impl EndpointLoad {
    /// Stores a report. One without requests or utilization is ignored, and one whose weight would
    /// be zero or infinite.
    // B33f
    pub(super) fn report(&self, load: &LoadReport, now: Time) {
        let LoadReport { requests, errors, utilization } = *load;
        let is_usable = requests > 0.0 && utilization > 0.0;
        let errors = if errors > 0.0 { errors / requests } else { 0.0 };
        let (utilization, errors) = ((utilization / requests) as f32, (errors / requests) as f32);
        if !is_usable || !utilization.is_normal() || !errors.is_finite() {
            return;
        }
        let figures = u64::from(utilization.to_bits()) << 32 | u64::from(errors.to_bits());
        self.figures.store(figures, Ordering::Relaxed);
        self.updated.store(now.as_nanos(), Ordering::Relaxed);
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.since.compare_exchange(NEVER, now.as_nanos(), set, read);
    }

    /// Begins the blackout again, because the endpoint becomes available again.
    pub(super) fn reset(&self) {
        self.since.store(NEVER, Ordering::Relaxed);
    }

    /// Returns the weight, or zero if there is none that can be used.
    pub(super) fn weight(&self, rules: &WeightedRoundRobin, now: Time) -> f64 {
        let since = self.since.load(Ordering::Relaxed);
        let updated = Time::from_nanos(self.updated.load(Ordering::Relaxed));
        if since == NEVER {
            return 0.0;
        }
        if now.since(updated) >= rules.expiration {
            self.reset();
            return 0.0;
        }
        if now.since(Time::from_nanos(since)) < rules.blackout {
            return 0.0;
        }
        let figures = self.figures.load(Ordering::Relaxed);
        let (utilization, errors) = ((figures >> 32) as u32, figures as u32);
        let part = |bits| f64::from(f32::from_bits(bits));
        let penalty = match part(errors) {
            errors if errors > 0.0 => errors * f64::from(rules.error_penalty),
            _ => 0.0,
        };
        // An infinite penalty gives the least weight, not the mean of an endpoint without one.
        (1.0 / (part(utilization) + penalty)).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const RULES: WeightedRoundRobin = WeightedRoundRobin {
        out_of_band: None,
        blackout: Duration::from_secs(10),
        expiration: Duration::from_secs(60),
        update: Duration::from_secs(1),
        error_penalty: 2.0,
        utilization_metrics: Vec::new(),
    };

    fn at(seconds: u64) -> Time {
        Time::ZERO.after(Duration::from_secs(seconds))
    }

    #[track_caller]
    fn check(load: &EndpointLoad, seconds: u64, expected: f64) {
        let weight = load.weight(&RULES, at(seconds));
        assert!((weight - expected).abs() <= expected / 1e6, "{weight} instead of {expected}");
    }

    #[test]
    fn weight_counts_after_the_blackout_until_it_expires() {
        let load = EndpointLoad::default();
        check(&load, 100, 0.0);
        load.report(&LoadReport { requests: 100.0, errors: 0.0, utilization: 0.5 }, at(100));
        check(&load, 109, 0.0);
        check(&load, 110, 200.0);
        // 0.5 + 20/100 * 2
        load.report(&LoadReport { requests: 100.0, errors: 20.0, utilization: 0.5 }, at(120));
        check(&load, 120, 100.0 / 0.9);
        check(&load, 179, 100.0 / 0.9);
        check(&load, 180, 0.0);
        // The blackout begins again.
        load.report(&LoadReport { requests: 100.0, errors: 0.0, utilization: 0.5 }, at(200));
        check(&load, 209, 0.0);
        check(&load, 210, 200.0);
        load.reset();
        check(&load, 211, 0.0);
    }

    #[test]
    fn unusable_reports_are_ignored() {
        let load = EndpointLoad::default();
        for (requests, errors, utilization) in [
            (0.0, 1.0, 0.5),
            (10.0, 0.0, 0.0),
            (-1.0, 0.0, 0.5),
            (f64::NAN, 0.0, 0.5),
            (f64::INFINITY, 0.0, 0.5),
            (10.0, 0.0, f64::INFINITY),
            // The weight would be infinite or zero.
            (1e300, 0.0, 0.5),
            (10.0, 0.0, 1e-300),
            (1e-300, 0.0, 0.5),
            (10.0, 0.0, 1e300),
            (10.0, f64::INFINITY, 0.5),
            (10.0, 1e300, 0.5),
        ] {
            load.report(&LoadReport { requests, errors, utilization }, at(1));
            check(&load, 50, 0.0);
        }
        load.report(&LoadReport { requests: 1.0, errors: f64::NAN, utilization: 1.0 }, at(1));
        check(&load, 50, 1.0);
        assert_eq!(LoadReport::from_bytes(b"\xff", &[]), None);
    }

    #[test]
    fn utilization_is_that_of_the_application_or_the_largest_metric_or_the_cpu() {
        let named = |name: &str| UtilizationMetric::Named(name.into());
        let metrics = [
            UtilizationMetric::Application,
            UtilizationMetric::Memory,
            named("queue"),
            named("a.b"),
            named("absent"),
        ];
        let utilization = |report: &OrcaLoadReport, metrics: &[_]| {
            LoadReport::from_bytes(&report.encode_to_vec(), metrics).map(|it| it.utilization)
        };
        let mut report = OrcaLoadReport { cpu_utilization: 0.9, ..OrcaLoadReport::default() };
        assert_eq!(utilization(&report, &metrics), Some(0.9), "no metric is present");
        report.mem_utilization = 0.4;
        report.named_metrics = [("queue".into(), 0.2), ("a.b".into(), 0.6)].into();
        assert_eq!(utilization(&report, &metrics), Some(0.6));
        assert_eq!(utilization(&report, &metrics[..3]), Some(0.4));
        assert_eq!(utilization(&report, &[]), Some(0.9));
        for unusable in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            report.named_metrics.insert("a.b".into(), unusable);
            assert_eq!(utilization(&report, &metrics), Some(0.4), "{unusable}");
        }
        report.application_utilization = 0.1;
        assert_eq!(utilization(&report, &metrics), Some(0.1));
    }

    #[test]
    fn infinite_penalty_applies_only_to_errors() {
        let rules = WeightedRoundRobin { error_penalty: f32::INFINITY, ..RULES };
        let load = EndpointLoad::default();
        load.report(&LoadReport { requests: 10.0, errors: 0.0, utilization: 0.5 }, at(1));
        let weight = load.weight(&rules, at(50));
        assert!((weight - 20.0).abs() < 1e-6, "{weight}");
        load.report(&LoadReport { requests: 10.0, errors: 0.1, utilization: 0.5 }, at(1));
        let weight = load.weight(&rules, at(50));
        assert!(weight > 0.0 && weight < 1e-300, "{weight}");
    }
}
