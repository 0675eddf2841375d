//! Settings of the rate limit for requests.

use core::time::Duration;

use thiserror::Error;

/// The requests that each stream to a server may carry: a bucket of tokens, of which every request takes
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    pub(crate) burst: u32,
    /// The time in which one token comes back; more than zero.
    pub(crate) interval: Duration,
}

/// Why a rate is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRequestRate {
    /// No request could ever be sent.
    #[error("a bucket without tokens lets nothing through")]
    NoTokens,
    /// What comes back in a second is not a number, or not more than zero, or next to nothing.
    #[error("tokens must come back at a rate of more than zero")]
    Rate,
}

impl RequestRate {
    /// `burst` requests at once, and `per_second` more each second.
    ///
    /// # Errors
    ///
    /// Nothing would get through, or `per_second` is no rate.
    pub fn new(burst: u32, per_second: f64) -> Result<Self, InvalidRequestRate> {
        if burst == 0 {
            return Err(InvalidRequestRate::NoTokens);
        }
        let interval = Duration::try_from_secs_f64(per_second.recip());
        let interval = interval.map_err(|_| InvalidRequestRate::Rate)?;
        let is_rate = per_second > 0.0;
        if is_rate { Ok(Self { burst, interval }) } else { Err(InvalidRequestRate::Rate) }
    }

    /// Envoy's, where it has a limit and nothing else is said: a hundred at once, ten more each second.
    #[must_use]
    pub const fn envoy() -> Self {
        Self { burst: 100, interval: Duration::from_millis(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lets_something_through() {
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
