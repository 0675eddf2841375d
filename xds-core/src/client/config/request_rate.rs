//! Rate limit for requests to a server.

use core::time::Duration;

use thiserror::Error;

use crate::token_bucket::RateLimit;

/// Rate limit for the requests of each stream to a server: a token bucket from which every request
/// takes one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    pub(crate) burst: u32,
    /// Time in which one token is added.
    pub(crate) interval: Duration,
}

/// Error of an invalid request rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRequestRate {
    /// The burst size is zero, so no request could ever be sent.
    #[error("burst must be at least 1")]
    NoTokens,
    /// The rate per second is not a number, not positive, or too small to represent.
    #[error("tokens per second must be a positive number")]
    Rate,
}

impl RequestRate {
    /// Creates a rate limit that allows bursts of `burst` requests and adds `per_second` tokens
    /// each second.
    ///
    /// # Errors
    ///
    /// Returns an error if `burst` is zero, or `per_second` is not a number, not positive or too
    /// small.
    pub fn new(burst: u32, per_second: f64) -> Result<Self, InvalidRequestRate> {
        if burst == 0 {
            return Err(InvalidRequestRate::NoTokens);
        }
        let interval = Duration::try_from_secs_f64(per_second.recip());
        let interval = interval.map_err(|_| InvalidRequestRate::Rate)?;
        let is_rate = per_second > 0.0;
        if is_rate { Ok(Self { burst, interval }) } else { Err(InvalidRequestRate::Rate) }
    }

    /// Returns Envoy's default rate limit: bursts of 100 requests, and 10 tokens per second.
    #[must_use]
    pub const fn envoy() -> Self {
        Self { burst: 100, interval: Duration::from_millis(100) }
    }
}

impl RateLimit for RequestRate {
    fn interval(self) -> Duration {
        self.interval
    }

    fn burst(self) -> u32 {
        self.burst
    }
}

#[cfg(test)]
mod tests {
    use crate::client::config::request_rate::*;

    #[test]
    fn request_rate_without_tokens_or_positive_finite_interval_is_rejected() {
        for (burst, per_second, expected) in [
            (0, 1.0, Err(InvalidRequestRate::NoTokens)),
            (1, f64::NAN, Err(InvalidRequestRate::Rate)),
            (1, 0.0, Err(InvalidRequestRate::Rate)),
            (1, -0.0, Err(InvalidRequestRate::Rate)),
            (1, -1.0, Err(InvalidRequestRate::Rate)),
            (1, f64::MIN_POSITIVE, Err(InvalidRequestRate::Rate)),
            (100, 10.0, Ok(RequestRate::envoy())),
            (5, f64::INFINITY, Ok(RequestRate { burst: 5, interval: Duration::ZERO })),
        ] {
            assert_eq!(RequestRate::new(burst, per_second), expected, "{burst} {per_second}");
        }
    }
}
