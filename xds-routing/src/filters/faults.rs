//! Trouble on purpose: calls that are held up or fail, by chance or because their headers ask for it (A33).
//!
//! What becomes of a call is [decided](FaultInjection::decide) once. Whoever makes the call carries it out: it waits,
//! then it fails, unless as much trouble is under way as may be ([`ActiveFaults`]).

use alloc::sync::Arc;
use core::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use crate::{
    judge::Judge,
    pattern::Headers,
    proto::envoy::{
        extensions::filters::{
            common::fault::v3::fault_delay::FaultDelaySecifier,
            http::fault::v3::{HttpFault, fault_abort::ErrorType},
        },
        r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
    random::Random,
    scalars::judge_duration,
};

/// Which calls are in for trouble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultInjection {
    /// Calls that are held up.
    pub delay: Option<Delay>,
    /// Calls that fail.
    pub abort: Option<Abort>,
    /// How many calls may be in trouble at once; `None` is without limit.
    pub most_active: Option<u32>,
}

/// Calls that are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delay {
    /// For how long.
    pub how_long: DelayFor,
    /// How many of them.
    pub share: Share,
}

/// For how long calls are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DelayFor {
    /// This long.
    Fixed(Duration),
    /// As many milliseconds as the header `x-envoy-fault-delay-request` says. Another,
    /// `x-envoy-fault-delay-request-percentage`, can make the share smaller.
    Headers,
}

/// Calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abort {
    /// How.
    pub with: AbortWith,
    /// How many of them.
    pub share: Share,
}

/// How calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortWith {
    /// With this status of gRPC; zero, OK, is not at all.
    Status(u8),
    /// With the status that the header `x-envoy-fault-abort-grpc-request` says. Another,
    /// `x-envoy-fault-abort-percentage`, can make the share smaller.
    Headers,
}

/// A share of calls, of which the headers of a call can make less but not more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// How many.
    pub numerator: u32,
    /// Out of this many: 100, 10,000 or a million.
    pub denominator: u32,
}

impl Share {
    /// Chance is asked only where the outcome depends on it.
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

/// What becomes of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// It is held up this long.
    pub delay: Option<Duration>,
    /// Then it fails with this status of gRPC.
    pub abort: Option<u8>,
    /// If not more than this many calls are in trouble; `None` is without limit.
    pub most_active: Option<u32>,
}

impl Fault {
    /// Whether nothing happens to the call.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.delay.is_none() && self.abort.is_none()
    }

    /// Both of them, one after the other: a call that fails has no more trouble.
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
        let most_active = match (self.most_active, other.most_active) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { delay, abort: other.abort, most_active }
    }
}

const DELAY: &str = "x-envoy-fault-delay-request";
const DELAY_SHARE: &str = "x-envoy-fault-delay-request-percentage";
const ABORT: &str = "x-envoy-fault-abort-grpc-request";
const ABORT_SHARE: &str = "x-envoy-fault-abort-percentage";

impl FaultInjection {
    /// Decides what becomes of a call with these headers.
    pub fn decide<H: Headers + ?Sized>(&self, headers: &H, random: &mut Random) -> Fault {
        let delay = self.delay.and_then(|delay| {
            let (how_long, share) = match delay.how_long {
                DelayFor::Fixed(fixed) => (fixed, delay.share),
                DelayFor::Headers => {
                    let stated = headers.value(DELAY)?.trim().parse().ok()?;
                    (Duration::from_millis(stated), delay.share.limited(headers, DELAY_SHARE))
                }
            };
            (!how_long.is_zero() && share.draw(random)).then_some(how_long)
        });
        let abort = self.abort.and_then(|abort| {
            let (status, share) = match abort.with {
                AbortWith::Status(status) => (status, abort.share),
                AbortWith::Headers => {
                    let stated = headers.value(ABORT)?.trim().parse::<u32>().ok();
                    // What is no status is one that nobody knows.
                    let status = stated.and_then(status).unwrap_or(UNKNOWN);
                    (status, abort.share.limited(headers, ABORT_SHARE))
                }
            };
            (status != OK && share.draw(random)).then_some(status)
        });
        Fault { delay, abort, most_active: self.most_active }
    }
}

/// How many calls are in trouble, of all channels that have a clone of it: a limit is for a whole process.
#[derive(Clone, Debug, Default)]
pub struct ActiveFaults(Arc<AtomicU32>);

/// A call in trouble, until this is dropped.
#[derive(Debug)]
pub struct ActiveFault(Arc<AtomicU32>);

impl ActiveFaults {
    /// A call gets in trouble; `None` if as many are as may be, so that nothing happens to it.
    #[must_use]
    pub fn begin(&self, fault: &Fault) -> Option<ActiveFault> {
        let most = fault.most_active.unwrap_or(u32::MAX);
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
/// The largest status, UNAUTHENTICATED.
const LARGEST: u8 = 16;

fn status(stated: u32) -> Option<u8> {
    u8::try_from(stated).ok().filter(|&status| status <= LARGEST)
}

/// The status that an answer of HTTP without one of gRPC stands for. An answer that says that all is well aborts
/// nothing.
const fn status_of_http(status: u32) -> u8 {
    match status {
        0 | 200 => OK,
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => UNKNOWN,
    }
}

pub(super) fn judge_faults(schema: &HttpFault, judge: &mut Judge<'_>) -> FaultInjection {
    let delay = schema.delay.as_ref().and_then(|delay| {
        let how_long = match delay.fault_delay_secifier.as_ref()? {
            FaultDelaySecifier::FixedDelay(fixed) => DelayFor::Fixed(
                judge.field("delay.fixed_delay", |judge| judge_duration(fixed, judge))?,
            ),
            FaultDelaySecifier::HeaderDelay(_) => DelayFor::Headers,
        };
        Some(Delay { how_long, share: share(delay.percentage.as_ref()) })
    });
    let abort = schema.abort.as_ref().and_then(|abort| {
        let with = match *abort.error_type.as_ref()? {
            ErrorType::HttpStatus(status) => AbortWith::Status(status_of_http(status)),
            ErrorType::GrpcStatus(stated) => match status(stated) {
                Some(status) => AbortWith::Status(status),
                None => {
                    let why = format_args!("{stated} is no status of gRPC");
                    judge.fault_in("abort.grpc_status", why);
                    return None;
                }
            },
            ErrorType::HeaderAbort(_) => AbortWith::Headers,
        };
        Some(Abort { with, share: share(abort.percentage.as_ref()) })
    });
    let most_active = schema.max_active_faults.as_ref().map(|it| it.value);
    FaultInjection { delay, abort, most_active }
}

/// None at all where nothing is stated. What the schema does not know counts as a hundred, as gRPC has it.
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
