//! Fault injection: delays and aborts, at random or requested by headers ([gRFC A33]).
//!
//! [`FaultInjection::decide`] decides once per call. The caller carries out the decision: it delays
//! the call, then aborts it, unless [`ActiveFaults`] has reached its limit.
//!
//! [gRFC A33]: https://github.com/grpc/proposal/blob/master/A33-Fault-Injection.md

use alloc::sync::Arc;
use core::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use crate::{
    pattern::Headers,
    proto::envoy::{
        extensions::filters::{
            common::fault::v3::fault_delay::FaultDelaySecifier,
            http::fault::v3::{HttpFault, fault_abort::ErrorType},
        },
        r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
    random::Random,
    scalars::validate_duration,
    validation::Validator,
};

/// Configuration of the fault injection filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultInjection {
    /// Delay of calls.
    pub delay: Option<Delay>,
    /// Abort of calls.
    pub abort: Option<Abort>,
    /// Maximum number of calls with an active fault. `None` means no limit.
    pub max_active_faults: Option<u32>,
}

/// Delay of a fraction of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delay {
    /// Length of the delay.
    pub length: DelayLength,
    /// Fraction of the calls.
    pub share: Share,
}

/// Length of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelayLength {
    /// A fixed delay.
    Fixed(Duration),
    /// Milliseconds from the header `x-envoy-fault-delay-request`. The header
    /// `x-envoy-fault-delay-request-percentage` can reduce the fraction.
    Headers,
}

/// Abort of a fraction of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abort {
    /// Status of the aborted calls.
    pub with: AbortStatus,
    /// Fraction of the calls.
    pub share: Share,
}

/// Status of aborted calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortStatus {
    /// A fixed gRPC status code. Zero (OK) disables the abort.
    Status(u8),
    /// HTTP status from the header `x-envoy-fault-abort-request`, or else gRPC status code from
    /// `x-envoy-fault-abort-grpc-request`. The header `x-envoy-fault-abort-request-percentage`, or
    /// C-core's `x-envoy-fault-abort-percentage`, can reduce the fraction.
    Headers,
}

/// Fraction of calls. Headers of a call can reduce but not increase it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// Numerator.
    pub numerator: u32,
    /// Denominator: 100, 10,000 or 1,000,000.
    pub denominator: u32,
}

impl Share {
    /// Draws a random number only if the result depends on it.
    fn draw(self, random: &mut Random) -> bool {
        match self.numerator {
            0 => false,
            numerator if numerator >= self.denominator => true,
            numerator => random.below(self.denominator) < numerator,
        }
    }

    fn limited<H: Headers + ?Sized>(self, headers: &H, name: &str) -> Self {
        let stated = headers.value(name).and_then(|value| value.trim().parse::<u32>().ok());
        Self { numerator: stated.map_or(self.numerator, |it| it.min(self.numerator)), ..self }
    }
}

/// Fault to inject into a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Delay before the call proceeds.
    pub delay: Option<Duration>,
    /// gRPC status code with which the call fails after the delay.
    pub abort: Option<u8>,
    /// Maximum number of calls with an active fault, beyond which this fault is not injected.
    /// `None` means no limit.
    pub max_active_faults: Option<u32>,
}

impl Fault {
    /// Whether nothing is injected.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.delay.is_none() && self.abort.is_none()
    }

    /// Combines two faults in sequence. After an abort the second one has no effect.
    pub(crate) fn then(self, other: Self) -> Self {
        if self.abort.is_some() || other.is_none() {
            return self;
        }
        if self.is_none() {
            return other;
        }
        let delay = match (self.delay, other.delay) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        let max_active_faults = match (self.max_active_faults, other.max_active_faults) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { delay, abort: other.abort, max_active_faults }
    }
}

const DELAY: &str = "x-envoy-fault-delay-request";
const DELAY_SHARE: &str = "x-envoy-fault-delay-request-percentage";
const ABORT_HTTP: &str = "x-envoy-fault-abort-request";
const ABORT: &str = "x-envoy-fault-abort-grpc-request";
const ABORT_SHARE: &str = "x-envoy-fault-abort-request-percentage";
/// Name of the header in gRPC's C-core, which differs from that of the gRFC.
const CORE_ABORT_SHARE: &str = "x-envoy-fault-abort-percentage";

impl FaultInjection {
    /// Decides on the fault for a call with these headers.
    pub fn decide<H: Headers + ?Sized>(&self, headers: &H, random: &mut Random) -> Fault {
        let delay = self.delay.and_then(|delay| {
            let (length, share) = match delay.length {
                DelayLength::Fixed(fixed) => (fixed, delay.share),
                DelayLength::Headers => {
                    let stated = headers.value(DELAY)?.trim().parse().ok()?;
                    (Duration::from_millis(stated), delay.share.limited(headers, DELAY_SHARE))
                }
            };
            (!length.is_zero() && share.draw(random)).then_some(length)
        });
        let abort = self.abort.and_then(|abort| {
            let (status, share) = match abort.with {
                AbortStatus::Status(status) => (status, abort.share),
                AbortStatus::Headers => {
                    let share = abort.share.limited(headers, ABORT_SHARE);
                    (stated_status(headers)?, share.limited(headers, CORE_ABORT_SHARE))
                }
            };
            (status != OK && share.draw(random)).then_some(status)
        });
        Fault { delay, abort, max_active_faults: self.max_active_faults }
    }
}

/// Number of calls with an active fault, shared by all clones. The limit applies to a whole
/// process.
#[derive(Clone, Debug, Default)]
pub struct ActiveFaults(Arc<AtomicU32>);

/// Guard of a call with an active fault.
#[derive(Debug)]
pub struct ActiveFault(Arc<AtomicU32>);

impl ActiveFaults {
    /// Registers an active fault. Returns `None` if the limit is reached, so that nothing is
    /// injected.
    #[must_use]
    pub fn begin(&self, fault: &Fault) -> Option<ActiveFault> {
        let most = fault.max_active_faults.unwrap_or(u32::MAX);
        let more = |active: u32| (active < most).then(|| active.saturating_add(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(ActiveFault(Arc::clone(&self.0)))
    }
}

impl Drop for ActiveFault {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

const OK: u8 = 0;
const UNKNOWN: u8 = 2;
/// Largest gRPC status code, UNAUTHENTICATED.
const LARGEST: u8 = 16;

fn status(stated: u32) -> Option<u8> {
    u8::try_from(stated).ok().filter(|&status| status <= LARGEST)
}

/// Returns the status that the headers of a call state. An invalid HTTP status is ignored, and an
/// invalid gRPC status code counts as UNKNOWN.
fn stated_status<H: Headers + ?Sized>(headers: &H) -> Option<u8> {
    let stated = |name| headers.value(name).map(|value| value.trim().parse::<u32>().ok());
    match stated(ABORT_HTTP) {
        Some(Some(http)) if (200..600).contains(&http) => Some(status_of_http(http)),
        _ => Some(stated(ABORT)?.and_then(status).unwrap_or(UNKNOWN)),
    }
}

/// Maps an HTTP status to the gRPC status of a response without one, also 200 ([gRFC A33]).
///
/// [gRFC A33]: https://github.com/grpc/proposal/blob/master/A33-Fault-Injection.md
const fn status_of_http(status: u32) -> u8 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => UNKNOWN,
    }
}

pub(super) fn validate_faults(schema: &HttpFault, validator: &mut Validator<'_>) -> FaultInjection {
    let delay = schema.delay.as_ref().and_then(|delay| {
        let length = match delay.fault_delay_secifier.as_ref()? {
            FaultDelaySecifier::FixedDelay(fixed) => DelayLength::Fixed(
                validator
                    .field("delay.fixed_delay", |validator| validate_duration(fixed, validator))?,
            ),
            FaultDelaySecifier::HeaderDelay(_) => DelayLength::Headers,
        };
        Some(Delay { length, share: share(delay.percentage.as_ref()) })
    });
    let abort = schema.abort.as_ref().and_then(|abort| {
        let with = match *abort.error_type.as_ref()? {
            ErrorType::HttpStatus(status) => AbortStatus::Status(status_of_http(status)),
            ErrorType::GrpcStatus(stated) => match status(stated) {
                Some(status) => AbortStatus::Status(status),
                None => {
                    let why = format_args!("{stated} is not a gRPC status code");
                    validator.error_in("abort.grpc_status", why);
                    return None;
                }
            },
            ErrorType::HeaderAbort(_) => AbortStatus::Headers,
        };
        Some(Abort { with, share: share(abort.percentage.as_ref()) })
    });
    let max_active_faults = schema.max_active_faults.as_ref().map(|it| it.value);
    FaultInjection { delay, abort, max_active_faults }
}

/// Converts a fraction. An absent one is zero, and an unknown denominator counts as 100, as in
/// gRPC.
fn share(percent: Option<&FractionalPercent>) -> Share {
    let Some(percent) = percent else {
        return Share { numerator: 0, denominator: 100 };
    };
    let denominator = match DenominatorType::try_from(percent.denominator) {
        Ok(DenominatorType::TenThousand) => 10_000,
        Ok(DenominatorType::Million) => 1_000_000,
        Ok(DenominatorType::Hundred) | Err(_) => 100,
    };
    Share { numerator: percent.numerator, denominator }
}
