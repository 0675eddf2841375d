//! When an endpoint that fails more than others is left alone for a while (A50).

use core::time::Duration;

use xds_core::proto::UInt32Value;

use crate::{judge::Judge, proto::envoy::config::cluster::v3 as schema, scalars::judge_duration};

/// When an endpoint is left alone for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlierDetection {
    /// How often to look.
    pub interval: Duration,
    /// How long it is left alone, times how often it was.
    pub base_ejection_time: Duration,
    /// How long at most.
    pub max_ejection_time: Duration,
    /// How many per cent of the endpoints at most.
    pub max_ejection_percent: u32,
    /// Because it succeeds less often than others; `None` is not looked at.
    pub success_rate: Option<SuccessRate>,
    /// Because it fails too often; `None` is not looked at.
    pub failure_percentage: Option<FailurePercentage>,
}

/// Endpoints that succeed less often than others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SuccessRate {
    /// How far from the mean is too far, in thousandths of the standard deviation.
    pub deviation: u32,
    /// How often, in per cent, it has consequences.
    pub enforcement: u32,
    /// How many endpoints it takes.
    pub minimum_endpoints: u32,
    /// How many calls it takes.
    pub minimum_calls: u32,
}

/// Endpoints that fail too often.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailurePercentage {
    /// How many per cent are too many.
    pub threshold: u32,
    /// How often, in per cent, it has consequences.
    pub enforcement: u32,
    /// How many endpoints it takes.
    pub minimum_endpoints: u32,
    /// How many calls it takes.
    pub minimum_calls: u32,
}

const BASE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

pub(super) fn judge_outliers(
    outliers: &schema::OutlierDetection,
    judge: &mut Judge<'_>,
) -> Option<OutlierDetection> {
    let mut duration = |name, field: &Option<_>, default| match field {
        None => Some(default),
        Some(field) => judge.field(name, |judge| judge_duration(field, judge)),
    };
    let interval = duration("interval", &outliers.interval, Duration::from_secs(10));
    let base = duration("base_ejection_time", &outliers.base_ejection_time, BASE);
    // Where it is not stated, the base counts if it is longer than five minutes.
    let default = base.map_or(LONGEST, |base| base.max(LONGEST));
    let max = duration("max_ejection_time", &outliers.max_ejection_time, default);
    let mut percent = |name, field: &Option<UInt32Value>, default| {
        let value = field.as_ref().map_or(default, |it| it.value);
        if value > 100 {
            judge.fault_in(name, "must not be above 100");
        }
        value
    };
    let max_ejection_percent = percent("max_ejection_percent", &outliers.max_ejection_percent, 10);
    let success = percent("enforcing_success_rate", &outliers.enforcing_success_rate, 100);
    let threshold =
        percent("failure_percentage_threshold", &outliers.failure_percentage_threshold, 85);
    let failure =
        percent("enforcing_failure_percentage", &outliers.enforcing_failure_percentage, 0);
    let number =
        |field: &Option<UInt32Value>, default| field.as_ref().map_or(default, |it| it.value);
    Some(OutlierDetection {
        interval: interval?,
        base_ejection_time: base?,
        max_ejection_time: max?,
        max_ejection_percent,
        success_rate: (success > 0).then(|| SuccessRate {
            deviation: number(&outliers.success_rate_stdev_factor, 1_900),
            enforcement: success,
            minimum_endpoints: number(&outliers.success_rate_minimum_hosts, 5),
            minimum_calls: number(&outliers.success_rate_request_volume, 100),
        }),
        failure_percentage: (failure > 0).then(|| FailurePercentage {
            threshold,
            enforcement: failure,
            minimum_endpoints: number(&outliers.failure_percentage_minimum_hosts, 5),
            minimum_calls: number(&outliers.failure_percentage_request_volume, 50),
        }),
    })
}
