//! Options as one line, and back.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;
use xds_core::client::{DataErrorPolicy, ReadGate};

use super::{
    Action, Fault, Feature, Lie, Options, Order, ProfileName, Streams, Ties, Transport, Variant,
    Verdicts, Versions,
};

/// Why there is no run with an option.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidOption {
    /// A word says none.
    #[error("{word:?} is no option of a run")]
    Unknown {
        /// The word.
        word: String,
    },
    /// It is less than the least there can be, or more than the most.
    #[error("{field}={value}, and it has to be from {least} to {most}")]
    OutOfRange {
        /// Which one.
        field: &'static str,
        /// What it is.
        value: String,
        /// The least.
        least: String,
        /// The most.
        most: String,
    },
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self.variant {
            Variant::StateOfTheWorld => "sotw",
            Variant::Incremental => "delta",
        };
        write!(
            f,
            "clients={} servers={} variant={variant} streams={:?} types={} names={} profile={:?} \
             data_errors={:?} read_gate={:?} latency={:?} jitter={:?} ties={:?} clock_grain={:?} \
             operations={} order={:?} transport={:?} verdicts={:?} views={} versions={:?} \
             features={} actions={} faults={} lies={}",
            self.clients,
            self.servers,
            self.streams,
            self.types,
            self.names,
            self.profile,
            self.data_errors,
            self.read_gate,
            self.latency,
            self.jitter,
            self.ties,
            self.clock_grain,
            self.operations,
            self.order,
            self.transport,
            self.verdicts,
            self.views,
            self.versions,
            self.features,
            self.actions,
            self.faults,
            self.lies,
        )
    }
}

/// The words of the line, in any order; those that are left out are the [defaults](Options::default).
///
/// ```
/// use xds_sim::Options;
///
/// let options: Options = "clients=2 latency=300ms faults={reset,lag}".parse().unwrap();
/// assert_eq!(options.to_string().parse(), Ok(options));
/// ```
impl FromStr for Options {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut options = Self::default();
        for word in text.split_whitespace() {
            let pair = word.split_once('=');
            pair.and_then(|(key, value)| options.set(key, value))
                .ok_or_else(|| InvalidOption::Unknown { word: word.into() })?;
        }
        options.check()?;
        Ok(options)
    }
}

fn in_range<T: PartialOrd>(
    field: &'static str,
    value: T,
    least: T,
    most: T,
    text: impl Fn(&T) -> String,
) -> Result<(), InvalidOption> {
    if least <= value && value <= most {
        return Ok(());
    }
    let (value, least, most) = (text(&value), text(&least), text(&most));
    Err(InvalidOption::OutOfRange { field, value, least, most })
}

/// The one that is printed like this.
fn one_of<T: Copy + fmt::Debug>(all: &[T], value: &str) -> Option<T> {
    all.iter().copied().find(|it| format!("{it:?}") == value)
}

fn duration(value: &str) -> Option<Duration> {
    let unit = value.find(|letter: char| letter.is_ascii_alphabetic() || letter == 'µ')?;
    let (number, unit) = value.split_at(unit);
    let number: f64 = number.parse().ok().filter(|number| *number >= 0.0)?;
    let nanos = match unit {
        "ns" => number,
        "µs" => number * 1e3,
        "ms" => number * 1e6,
        "s" => number * 1e9,
        _ => return None,
    };
    Some(Duration::from_nanos(nanos.round() as u64))
}

fn set_of<T: Copy, S: FromIterator<T>>(
    all: &[T],
    word_of: fn(T) -> &'static str,
    value: &str,
) -> Option<S> {
    let words = value.strip_prefix('{')?.strip_suffix('}')?;
    let words = words.split(',').filter(|word| !word.is_empty());
    words.map(|word| all.iter().copied().find(|it| word_of(*it) == word)).collect()
}

/// How many clients, names of a type and operations there are at most: runs have to fit into memory and come to an
/// end.
const MOST_CLIENTS: u32 = 100;
const MOST_NAMES: u32 = 10_000;
const MOST_OPERATIONS: u32 = 100_000;

/// How long anything takes at most. Sums of a few of these are no trouble for any clock.
const LONGEST: Duration = Duration::from_secs(86_400);

impl Options {
    /// Whether there are runs with these options.
    ///
    /// # Errors
    ///
    /// A number is less than the least there can be, or more than the most.
    ///
    /// ```
    /// use xds_sim::Options;
    ///
    /// let mut options = Options::default();
    /// options.servers = 4;
    /// let error = options.check().unwrap_err();
    /// assert_eq!(error.to_string(), "servers=4, and it has to be from 1 to 3");
    /// ```
    pub fn check(&self) -> Result<(), InvalidOption> {
        let numbers = [
            ("clients", self.clients, 1, MOST_CLIENTS),
            ("servers", self.servers, 1, 3),
            ("types", self.types, 1, 4),
            ("names", self.names, 1, MOST_NAMES),
            ("operations", self.operations, 0, MOST_OPERATIONS),
            ("views", self.views, 1, 2),
        ];
        for (field, value, least, most) in numbers {
            in_range(field, value, least, most, u32::to_string)?;
        }
        let times =
            [("latency", self.latency), ("jitter", self.jitter), ("clock_grain", self.clock_grain)];
        for (field, value) in times {
            in_range(field, value, Duration::ZERO, LONGEST, |time| format!("{time:?}"))?;
        }
        Ok(())
    }

    /// The line in which they are printed without what is as by [default](Self::default).
    ///
    /// ```
    /// use xds_sim::Options;
    ///
    /// let options: Options = "clients=2 servers=1".parse().unwrap();
    /// assert_eq!(options.differences(), "clients=2");
    /// ```
    #[must_use]
    pub fn differences(&self) -> String {
        let (own, default) = (self.to_string(), Self::default().to_string());
        let words = own.split_whitespace().zip(default.split_whitespace());
        let differing = words.filter(|(own, default)| own != default).map(|(own, _)| own);
        differing.collect::<Vec<_>>().join(" ")
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        const VARIANTS: [(&str, Variant); 2] =
            [("sotw", Variant::StateOfTheWorld), ("delta", Variant::Incremental)];
        match key {
            "clients" => self.clients = value.parse().ok()?,
            "servers" => self.servers = value.parse().ok()?,
            "variant" => self.variant = VARIANTS.iter().find(|(name, _)| *name == value)?.1,
            "streams" => self.streams = one_of(&[Streams::Aggregated, Streams::PerType], value)?,
            "types" => self.types = value.parse().ok()?,
            "names" => self.names = value.parse().ok()?,
            "profile" => self.profile = one_of(&[ProfileName::Grpc, ProfileName::Envoy], value)?,
            "data_errors" => {
                let all = [DataErrorPolicy::KeepCached, DataErrorPolicy::DropCached];
                self.data_errors = one_of(&all, value)?;
            }
            "read_gate" => self.read_gate = one_of(&[ReadGate::Notices, ReadGate::Off], value)?,
            "latency" => self.latency = duration(value)?,
            "jitter" => self.jitter = duration(value)?,
            "ties" => self.ties = one_of(&[Ties::DeliveriesFirst, Ties::TimersFirst], value)?,
            "clock_grain" => self.clock_grain = duration(value)?,
            "operations" => self.operations = value.parse().ok()?,
            "order" => {
                let all = [Order::ByRank, Order::AsDue, Order::AfterAcks, Order::OnlyAfterAcks];
                self.order = one_of(&all, value)?;
            }
            "transport" => {
                let all = [Transport::Streams, Transport::Polls, Transport::Files];
                self.transport = one_of(&all, value)?;
            }
            "verdicts" => {
                let all = [Verdicts::AtOnce, Verdicts::Soon, Verdicts::Late];
                self.verdicts = one_of(&all, value)?;
            }
            "views" => self.views = value.parse().ok()?,
            "versions" => {
                let all = [Versions::Content, Versions::Counted, Versions::CountedAnew];
                self.versions = one_of(&all, value)?;
            }
            "features" => self.features = set_of(Feature::ALL, Feature::as_str, value)?,
            "actions" => self.actions = set_of(Action::ALL, Action::as_str, value)?,
            "faults" => self.faults = set_of(Fault::ALL, Fault::as_str, value)?,
            "lies" => self.lies = set_of(Lie::ALL, Lie::as_str, value)?,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::Choices;

    #[test]
    fn what_is_printed_is_read() {
        for seed in 0..500 {
            let options = Options::draw(&mut Choices::from_seed(seed));
            assert_eq!(options.to_string().parse(), Ok(options));
        }
    }

    #[test]
    fn what_is_no_option_is_told() {
        for word in ["clients", "clients=", "colour=red", "faults={gremlins}", "latency=5"] {
            let told = word.parse::<Options>();
            assert_eq!(told, Err(InvalidOption::Unknown { word: word.into() }));
        }
    }
}
