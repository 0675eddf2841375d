//! Load reporting of a cluster ([gRFC A27], [gRFC A85]).
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A85]: https://github.com/grpc/proposal/blob/master/A85-lrs-custom-metrics-changes.md

use alloc::{boxed::Box, collections::BTreeSet, string::String};

use xds_core::{client::ServerAddress, load_reports::LoadMetric};

use crate::{
    proto::{
        envoy::config::{cluster::v3 as schema, core::v3::config_source::ConfigSourceSpecifier},
        xds::data::orca::v3::OrcaLoadReport,
    },
    validation::Validator,
};

/// Load reports of a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoadReporting {
    /// Server that sent the cluster, and that load is reported to. `None` if the sender is unknown.
    ///
    /// If another server later sends an identical cluster, for example after a fallback, the value does
    /// not change.
    pub server: Option<Box<ServerAddress>>,
    /// Metrics of endpoints that reports contain.
    pub metrics: ReportedMetrics,
}

/// Metrics of endpoints that load reports contain (gRFC A85). By default there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportedMetrics {
    /// Whether the CPU utilization is reported.
    pub cpu: bool,
    /// Whether the memory utilization is reported.
    pub memory: bool,
    /// Whether the utilization by an application-specific measure is reported.
    pub application: bool,
    /// Whether all named metrics are reported.
    pub all_named: bool,
    /// Names of the named metrics that are reported.
    pub named: BTreeSet<String>,
}

impl ReportedMetrics {
    /// Parses the texts of `lrs_report_endpoint_metrics`. Unknown ones are ignored.
    fn of_texts(texts: &[String]) -> Self {
        let mut metrics = Self::default();
        for text in texts {
            match text.as_str() {
                "cpu_utilization" => metrics.cpu = true,
                "mem_utilization" => metrics.memory = true,
                "application_utilization" => metrics.application = true,
                "named_metrics.*" => metrics.all_named = true,
                other => {
                    let name = other.strip_prefix("named_metrics.").filter(|it| !it.is_empty());
                    metrics.named.extend(name.map(Into::into));
                }
            }
        }
        metrics
    }

    /// Whether reports contain no metrics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the selected metrics of an endpoint's report.
    pub fn select<'a>(
        &'a self,
        report: &'a OrcaLoadReport,
    ) -> impl Iterator<Item = (LoadMetric<'a>, f64)> {
        let utilizations = [
            (self.cpu, LoadMetric::Cpu, report.cpu_utilization),
            (self.memory, LoadMetric::Memory, report.mem_utilization),
            (self.application, LoadMetric::Application, report.application_utilization),
        ];
        let selected = utilizations.into_iter().filter(|(is_selected, ..)| *is_selected);
        let named = report.named_metrics.iter();
        let named = named.filter(|(name, _)| self.all_named || self.named.contains(*name));
        let named = named.map(|(name, value)| (LoadMetric::Named(name), *value));
        selected.map(|(_, metric, value)| (metric, value)).chain(named)
    }
}

// B49b
pub(super) fn validate_load_reporting(
    cluster: &schema::Cluster,
    validator: &mut Validator<'_>,
) -> Option<LoadReporting> {
    let server = cluster.lrs_server.as_ref()?;
    if !matches!(server.config_source_specifier, Some(ConfigSourceSpecifier::Self_(_))) {
        validator.error_in("lrs_server", "must be self");
    }
    let server = validator.server.cloned().map(Box::new);
    let metrics = ReportedMetrics::of_texts(&cluster.lrs_report_endpoint_metrics);
    Some(LoadReporting { server, metrics })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn parse(texts: &[&str]) -> ReportedMetrics {
        ReportedMetrics::of_texts(&texts.iter().map(|it| (*it).into()).collect::<Vec<String>>())
    }

    #[test]
    fn texts_select_metrics_and_unknown_ones_are_ignored() {
        let report = OrcaLoadReport {
            cpu_utilization: 1.0,
            mem_utilization: 2.0,
            application_utilization: 3.0,
            named_metrics: [("queue".into(), 4.0), ("users".into(), 5.0)].into(),
            ..OrcaLoadReport::default()
        };
        let selected = |texts: &[&str]| {
            let metrics = parse(texts);
            metrics.select(&report).map(|(_, value)| value).collect::<Vec<_>>()
        };
        for ignored in [&[][..], &["eps", "named_metrics", "named_metrics.", "", "*"]] {
            assert!(parse(ignored).is_empty());
            assert_eq!(selected(ignored), [0.0; 0]);
        }
        assert_eq!(selected(&["named_metrics.users", "cpu_utilization"]), [1.0, 5.0]);
        let all = ["named_metrics.*", "mem_utilization", "application_utilization"];
        assert_eq!(selected(&all), [2.0, 3.0, 4.0, 5.0]);
    }
}
