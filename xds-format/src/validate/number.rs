//! Numeric values and constraints.

use core::cmp::Ordering;
use core::fmt;

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use crate::time::{Seconds, print_duration, print_timestamp};

const NANOS: i128 = 1_000_000_000;

/// A number of any width, a duration or a timestamp.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
    /// A duration in nanoseconds.
    Duration(i128),
    /// A timestamp in nanoseconds since 1970.
    Timestamp(i128),
}

impl Number {
    /// Returns the number of a value or of a wrapper message.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::I32(number) | Value::EnumNumber(number) => Self::Integer((*number).into()),
            Value::I64(number) => Self::Integer((*number).into()),
            Value::U32(number) => Self::Integer((*number).into()),
            Value::U64(number) => Self::Integer((*number).into()),
            Value::F32(number) => Self::Float((*number).into()),
            Value::F64(number) => Self::Float(*number),
            Value::Message(message) => return Self::of_message(message),
            _ => return None,
        })
    }

    fn of_message(message: &DynamicMessage) -> Option<Self> {
        let time = || {
            let part = |number| message.get_field_by_number(number);
            let seconds: i128 = part(1)?.as_i64()?.into();
            let nanos: i128 = part(2)?.as_i32()?.into();
            Some(seconds * NANOS + nanos)
        };
        match message.descriptor().full_name() {
            "google.protobuf.Duration" => time().map(Self::Duration),
            "google.protobuf.Timestamp" => time().map(Self::Timestamp),
            _ => match &*message.get_field_by_number(1)? {
                Value::Message(_) => None,
                value => Self::of(value),
            },
        }
    }

    fn is_zero(self) -> bool {
        match self {
            Self::Integer(it) | Self::Duration(it) | Self::Timestamp(it) => it == 0,
            Self::Float(it) => it == 0.0,
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b))
            | (Self::Duration(a), Self::Duration(b))
            | (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            _ => None,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seconds of a time fit into 64 bits.
        let parts = |nanos: i128| {
            let (seconds, nanos) = (nanos / NANOS, nanos % NANOS);
            Some(Seconds {
                seconds: i64::try_from(seconds).ok()?,
                nanos: i32::try_from(nanos).ok()?,
            })
        };
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Duration(nanos) => match parts(*nanos) {
                Some(duration) => f.write_str(&print_duration(duration)),
                None => write!(f, "{nanos}ns"),
            },
            Self::Timestamp(nanos) => {
                let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok();
                let fraction = i32::try_from(nanos.rem_euclid(NANOS)).ok();
                match seconds
                    .zip(fraction)
                    .and_then(|(seconds, nanos)| print_timestamp(Seconds { seconds, nanos }))
                {
                    Some(timestamp) => f.write_str(&timestamp),
                    None => write!(f, "{nanos}ns after 1970"),
                }
            }
        }
    }
}

/// Constraints on a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Numbers {
    pub(crate) constant: Option<Number>,
    pub(crate) above: Option<Number>,
    pub(crate) at_least: Option<Number>,
    pub(crate) below: Option<Number>,
    pub(crate) at_most: Option<Number>,
    /// Allowed values; empty if there is no such constraint.
    pub(crate) one_of: Vec<Number>,
    pub(crate) none_of: Vec<Number>,
    /// Zero is allowed regardless of the other constraints.
    pub(crate) ignore_empty: bool,
}

impl Numbers {
    /// Returns the violated rule and a text that completes "must ...", if the number is not
    /// allowed.
    pub(crate) fn fault(&self, number: Number) -> Option<(&'static str, String)> {
        if self.ignore_empty && number.is_zero() {
            return None;
        }
        if let Some(constant) = self.constant
            && number != constant
        {
            return Some(("const", format!("be {constant}")));
        }
        if let Some(fault) = self.interval_fault(number) {
            return Some(fault);
        }
        if !self.one_of.is_empty() && !self.one_of.contains(&number) {
            return Some(("in", format!("be one of {}", list(&self.one_of))));
        }
        if self.none_of.contains(&number) {
            return Some(("not_in", format!("not be one of {}", list(&self.none_of))));
        }
        None
    }

    /// Checks the bounds. If the lower bound exceeds the upper one, they exclude the range between
    /// them. NaN violates no bound.
    fn interval_fault(&self, number: Number) -> Option<(&'static str, String)> {
        let low = match (self.above, self.at_least) {
            (Some(bound), _) if number <= bound => Some(("gt", format!("be greater than {bound}"))),
            (_, Some(bound)) if number < bound => Some(("gte", format!("be at least {bound}"))),
            _ => None,
        };
        let high = match (self.below, self.at_most) {
            (Some(bound), _) if number >= bound => Some(("lt", format!("be less than {bound}"))),
            (_, Some(bound)) if number > bound => Some(("lte", format!("be at most {bound}"))),
            _ => None,
        };
        if self.is_gap() {
            let (_, low) = low?;
            let (rule, high) = high?;
            return Some((rule, format!("{low} or {high}")));
        }
        low.or(high)
    }

    /// Whether the bounds exclude the range between them.
    pub(super) fn is_gap(&self) -> bool {
        let lower = self.above.or(self.at_least);
        let upper = self.below.or(self.at_most);
        lower.zip(upper).is_some_and(|(lower, upper)| lower > upper)
    }
}

fn list(numbers: &[Number]) -> String {
    numbers.iter().map(Number::to_string).collect::<Vec<_>>().join(", ")
}
