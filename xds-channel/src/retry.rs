//! Retries of calls after failures that their route names ([gRFC A44], [gRFC A6]).
//!
//! A call is retried until its response begins, and while its request is
//! kept ([`Replay`](crate::replay::Replay)). A response that consists of a status has not begun.
//!
//! [gRFC A6]: https://github.com/grpc/proposal/blob/master/A6-client-retries.md
//! [gRFC A44]: https://github.com/grpc/proposal/blob/master/A44-xds-retry.md

use core::time::Duration;

use http::{Response, StatusCode};
use tonic::{Code, Status};
use xds_routing::{Random, route::RetryPolicy};

/// Header with the number of earlier attempts.
pub(crate) const PREVIOUS_ATTEMPTS: &str = "grpc-previous-rpc-attempts";
/// Header by which a server delays the next attempt, or prevents it.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Failure of an attempt.
#[derive(Debug)]
pub(crate) struct AttemptError {
    pub(crate) status: Status,
    pub(crate) retry: RetryAfterFailure,
}

/// Whether another attempt could succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAfterFailure {
    IfPolicyAllows,
    /// The call was refused on purpose, or no attempt can succeed any more.
    Never,
}

impl AttemptError {
    pub(crate) fn last(status: Status) -> Self {
        Self { status, retry: RetryAfterFailure::Never }
    }
}

impl From<Status> for AttemptError {
    fn from(status: Status) -> Self {
        Self { status, retry: RetryAfterFailure::IfPolicyAllows }
    }
}

/// Attempts of a call.
#[derive(Debug)]
pub(crate) struct Retries {
    policy: Option<RetryPolicy>,
    /// Number of attempts so far.
    attempts: u32,
    /// Number of retries since the server stated a delay.
    backoffs: u32,
}

impl Retries {
    pub(crate) fn new(policy: Option<RetryPolicy>) -> Self {
        Self { policy, attempts: 0, backoffs: 0 }
    }

    /// Number of attempts before the current one.
    pub(crate) const fn previous(&self) -> u32 {
        self.attempts
    }

    /// Returns the time to wait before another attempt, after one that failed. `None` if there is no
    /// other attempt.
    pub(crate) fn after_failure(
        &mut self,
        error: &AttemptError,
        random: &mut Random,
    ) -> Option<Duration> {
        match error.retry {
            RetryAfterFailure::IfPolicyAllows => self.after(error.status.code(), None, random),
            RetryAfterFailure::Never => None,
        }
    }

    /// Returns the time to wait before another attempt, after the head of a response. `None` if the
    /// response has begun, or if there is no other attempt.
    pub(crate) fn after_response<B>(
        &mut self,
        response: &Response<B>,
        random: &mut Random,
    ) -> Option<Duration> {
        let headers = response.headers();
        let code = match headers.get(Status::GRPC_STATUS) {
            Some(status) => Code::from_bytes(status.as_bytes()),
            None => code_of_http(response.status())?,
        };
        self.after(code, headers.get(PUSHBACK).map(|it| it.as_bytes()), random)
    }

    fn after(
        &mut self,
        code: Code,
        pushback: Option<&[u8]>,
        random: &mut Random,
    ) -> Option<Duration> {
        let policy = self.policy.as_ref()?;
        self.attempts += 1;
        if !is_retryable(code, policy) || self.attempts >= policy.attempts() {
            return None;
        }
        match pushback {
            Some(stated) => {
                self.backoffs = 0;
                let milliseconds = core::str::from_utf8(stated).ok()?.parse().ok()?;
                Some(Duration::from_millis(milliseconds))
            }
            None => {
                let backoff = policy.base_interval.saturating_mul(1 << self.backoffs.min(31));
                self.backoffs += 1;
                Some(random.jittered(backoff.min(policy.max_interval)))
            }
        }
    }
}

/// Returns the status code of a response without one, as of a proxy ([mapping]). `None` if the
/// response has begun.
///
/// [mapping]: https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md
pub(crate) fn code_of_http(status: StatusCode) -> Option<Code> {
    match status {
        StatusCode::OK => None,
        StatusCode::BAD_REQUEST => Some(Code::Internal),
        StatusCode::UNAUTHORIZED => Some(Code::Unauthenticated),
        StatusCode::FORBIDDEN => Some(Code::PermissionDenied),
        StatusCode::NOT_FOUND => Some(Code::Unimplemented),
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Some(Code::Unavailable),
        _ => Some(Code::Unknown),
    }
}

fn is_retryable(code: Code, policy: &RetryPolicy) -> bool {
    policy.statuses.iter().any(|status| status.code().as_i32() == code as i32)
}
