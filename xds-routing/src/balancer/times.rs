//! Timeouts and backoff of a balancer.

use core::time::Duration;

/// Timeouts and backoff of a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BalancerTimes {
    /// Time for a priority to become ready before the next one is tried in parallel. Default: 10 s.
    pub failover: Duration,
    /// Time for which the connections of a priority are kept while a higher priority serves.
    /// Default: 15 min.
    pub keep: Duration,
    /// Backoff after the first failure, from the beginning of one attempt to the next. It grows by
    /// 60% with each failure and has a jitter of 20%. Default: 1 s.
    pub initial_backoff: Duration,
    /// Maximum backoff, before jitter. Default: 2 min.
    pub max_backoff: Duration,
}

impl Default for BalancerTimes {
    /// Returns gRPC's values: 10 s, 15 min, 1 s, 2 min.
    fn default() -> Self {
        Self {
            failover: Duration::from_secs(10),
            keep: Duration::from_secs(15 * 60),
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(120),
        }
    }
}
