//! Outlier detection: temporary ejection of endpoints that fail more often than others
//! ([gRFC A50]).
//!
//! [gRFC A50]: https://github.com/grpc/proposal/blob/master/A50-xds-outlier-detection.md

use core::time::Duration;

use xds_core::proto::UInt32Value;

use crate::{
    proto::envoy::config::cluster::v3 as schema, scalars::validate_duration, validation::Validator,
};

/// Configuration of outlier detection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlierDetection {
    /// Interval between evaluations. Default: 10 s.
    pub interval: Duration,
    /// Ejection time of the first ejection. It is multiplied by the number of recent ejections of the
    /// endpoint. Default: 30 s.
    pub base_ejection_time: Duration,
    /// Maximum ejection time. Default: 300 s, or `base_ejection_time` if that is longer.
    pub max_ejection_time: Duration,
    /// Maximum percentage of ejected endpoints. Default: 10.
    pub max_ejection_percent: u32,
    /// Ejection by success rate. `None` means disabled.
    pub success_rate: Option<SuccessRate>,
    /// Ejection by failure percentage. `None` means disabled.
    pub failure_percentage: Option<FailurePercentage>,
}

/// Ejection of endpoints whose success rate is below that of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SuccessRate {
    /// Factor of the standard deviation below the mean, in thousandths. Default: 1,900.
    pub deviation: u32,
    /// Probability of ejecting an outlier, in percent. Default: 100.
    pub enforcement: u32,
    /// Minimum number of endpoints with enough calls. Default: 5.
    pub minimum_endpoints: u32,
    /// Minimum number of calls per endpoint and interval. Default: 100.
    pub minimum_calls: u32,
}

/// Ejection of endpoints whose failure percentage is too high.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailurePercentage {
    /// Failure percentage above which an endpoint is an outlier. Default: 85.
    pub threshold: u32,
    /// Probability of ejecting an outlier, in percent. Zero, the default, disables this algorithm.
    pub enforcement: u32,
    /// Minimum number of endpoints with enough calls. Default: 5.
    pub minimum_endpoints: u32,
    /// Minimum number of calls per endpoint and interval. Default: 50.
    pub minimum_calls: u32,
}

const BASE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(300);

pub(super) fn validate_outliers(
    outliers: &schema::OutlierDetection,
    validator: &mut Validator<'_>,
) -> Option<OutlierDetection> {
    let mut duration = |name, field: &Option<_>, default| match field {
        None => Some(default),
        Some(field) => validator.field(name, |validator| validate_duration(field, validator)),
    };
    let interval = duration("interval", &outliers.interval, Duration::from_secs(10));
    let base = duration("base_ejection_time", &outliers.base_ejection_time, BASE);
    // By default 300 s, but not less than the base.
    let default = base.map_or(LONGEST, |base| base.max(LONGEST));
    let max = duration("max_ejection_time", &outliers.max_ejection_time, default);
    let mut percent = |name, field: &Option<UInt32Value>, default| {
        let value = field.as_ref().map_or(default, |it| it.value);
        if value > 100 {
            validator.error_in(name, "must not be above 100");
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
