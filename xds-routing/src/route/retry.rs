//! Retry policies ([gRFC A44]).
//!
//! [gRFC A44]: https://github.com/grpc/proposal/blob/master/A44-xds-retry.md

use core::time::Duration;

use xds_core::StatusCode;

use crate::{
    proto::envoy::config::route::v3 as schema, scalars::validate_duration, validation::Validator,
};

/// Retry policy.
///
/// The backoff begins with the base interval and doubles with each further retry, up to the maximum
/// interval. gRPC varies each backoff at random by 20 percent
/// ([`Random::jittered`](crate::Random::jittered)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Retryable statuses, sorted. Empty means no retries.
    pub statuses: alloc::vec::Vec<RetryableStatus>,
    /// Maximum number of retries, not counting the first attempt. Default: 1.
    pub retries: u32,
    /// Backoff before the first retry. Default: 25 ms.
    pub base_interval: Duration,
    /// Maximum backoff. Default: ten times the base interval.
    pub max_interval: Duration,
}

impl RetryPolicy {
    /// Returns the maximum number of attempts, including the first. gRPC limits it to five.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.retries.saturating_add(1).min(MOST_ATTEMPTS)
    }
}

/// gRPC status after which a call can be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RetryableStatus {
    /// CANCELLED.
    Cancelled,
    /// DEADLINE_EXCEEDED.
    DeadlineExceeded,
    /// INTERNAL.
    Internal,
    /// RESOURCE_EXHAUSTED.
    ResourceExhausted,
    /// UNAVAILABLE.
    Unavailable,
}

impl RetryableStatus {
    /// Returns the status code.
    ///
    /// ```
    /// use xds_core::StatusCode;
    /// use xds_routing::route::RetryPolicy;
    ///
    /// /// Returns whether a call that ended with this code can be retried.
    /// fn is_retryable(policy: &RetryPolicy, code: StatusCode) -> bool {
    ///     policy.statuses.iter().any(|status| status.code() == code)
    /// }
    /// ```
    #[must_use]
    pub const fn code(self) -> StatusCode {
        match self {
            Self::Cancelled => StatusCode::Cancelled,
            Self::DeadlineExceeded => StatusCode::DeadlineExceeded,
            Self::Internal => StatusCode::Internal,
            Self::ResourceExhausted => StatusCode::ResourceExhausted,
            Self::Unavailable => StatusCode::Unavailable,
        }
    }
}

const STATUSES: [(&str, RetryableStatus); 5] = [
    ("cancelled", RetryableStatus::Cancelled),
    ("deadline-exceeded", RetryableStatus::DeadlineExceeded),
    ("internal", RetryableStatus::Internal),
    ("resource-exhausted", RetryableStatus::ResourceExhausted),
    ("unavailable", RetryableStatus::Unavailable),
];

const MOST_ATTEMPTS: u32 = 5;
const DEFAULT_BASE_INTERVAL: Duration = Duration::from_millis(25);

pub(crate) fn validate_retry(
    policy: &schema::RetryPolicy,
    validator: &mut Validator<'_>,
) -> Option<RetryPolicy> {
    // Names that are unknown or for HTTP are ignored.
    let named =
        |name: &str| policy.retry_on.split(',').any(|it| it.trim().eq_ignore_ascii_case(name));
    let statuses = STATUSES.iter().filter(|(name, _)| named(name)).map(|&(_, status)| status);
    let retries = policy.num_retries.as_ref().map_or(1, |it| it.value);
    if retries == 0 {
        validator.error_in("num_retries", "must be above zero");
    }
    let (base_interval, max_interval) = match policy.retry_back_off.as_ref() {
        None => (DEFAULT_BASE_INTERVAL, DEFAULT_BASE_INTERVAL * 10),
        Some(back_off) => validator
            .field("retry_back_off", |validator| validate_intervals(back_off, validator))?,
    };
    Some(RetryPolicy { statuses: statuses.collect(), retries, base_interval, max_interval })
}

fn validate_intervals(
    back_off: &schema::retry_policy::RetryBackOff,
    validator: &mut Validator<'_>,
) -> Option<(Duration, Duration)> {
    let Some(base) = back_off.base_interval.as_ref() else {
        validator.error_in("base_interval", "must be set");
        return None;
    };
    let base = validator.field("base_interval", |validator| validate_duration(base, validator))?;
    if base.is_zero() {
        validator.error_in("base_interval", "must be above zero");
    }
    let max = match back_off.max_interval.as_ref() {
        None => base.saturating_mul(10),
        Some(max) => {
            validator.field("max_interval", |validator| validate_duration(max, validator))?
        }
    };
    if max < base {
        validator.error_in("max_interval", "must not be below base_interval");
    }
    Some((base, max))
}
