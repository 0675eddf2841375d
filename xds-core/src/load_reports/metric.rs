//! Metrics of endpoints in load reports.

/// Metric that endpoints report with their responses, and clients in load reports ([gRFC A85]).
///
/// [gRFC A85]: https://github.com/grpc/proposal/blob/master/A85-lrs-custom-metrics-changes.md
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadMetric<'a> {
    /// CPU utilization.
    Cpu,
    /// Memory utilization.
    Memory,
    /// Utilization by an application-specific measure.
    Application,
    /// Named metric. Load reports contain the name with [`NAMED_PREFIX`](Self::NAMED_PREFIX).
    Named(&'a str),
}

impl LoadMetric<'_> {
    /// Prefix of the names of named metrics in load reports.
    pub const NAMED_PREFIX: &'static str = "named_metrics.";
}
