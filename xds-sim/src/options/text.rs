//! Text form of the options: one line of `key=value` words.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

use super::{
    Options,
    keys::{KEYS, instead_of},
};

/// Error for invalid options.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidOption {
    /// A word is not an option.
    #[error("{word:?} is not a run option: {known}")]
    Unknown {
        /// The invalid word.
        word: String,
        /// Permitted words.
        known: String,
    },
    /// A value is out of range.
    #[error("{field}={value}: must be from {least} to {most}")]
    OutOfRange {
        /// Name of the option.
        field: &'static str,
        /// Value given.
        value: String,
        /// Smallest permitted value.
        least: String,
        /// Largest permitted value.
        most: String,
    },
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, key) in KEYS.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}={}", key.name, (key.print)(self))?;
        }
        Ok(())
    }
}

/// Parses words in any order. Options that are not given have their [defaults](Options::default).
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
            options.set(word).ok_or_else(|| InvalidOption::Unknown {
                word: word.into(),
                known: instead_of(word),
            })?;
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

/// Maximum numbers of clients, names per type and operations. Runs must fit into memory and end.
const MOST_CLIENTS: u32 = 100;
const MOST_NAMES: u32 = 10_000;
const MOST_OPERATIONS: u32 = 100_000;

/// Maximum of each duration. Sums of a few of these cannot overflow the virtual clock.
pub(super) const LONGEST: Duration = Duration::from_secs(86_400);

/// Name of a numeric option, its accessor, and its smallest and largest value.
type Number = (&'static str, fn(&Options) -> u32, u32, u32);

pub(super) const NUMBERS: [Number; 7] = [
    ("clients", |it| it.clients, 1, MOST_CLIENTS),
    ("servers", |it| it.servers, 1, 3),
    ("types", |it| it.types, 1, 4),
    ("names", |it| it.names, 1, MOST_NAMES),
    ("operations", |it| it.operations, 0, MOST_OPERATIONS),
    ("views", |it| it.views, 1, 2),
    ("names_per_call", |it| it.names_per_call, 0, MOST_NAMES),
];

impl Options {
    /// Validates the ranges of the options.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is less than its minimum or more than its maximum.
    ///
    /// ```
    /// use xds_sim::Options;
    ///
    /// let mut options = Options::default();
    /// options.servers = 4;
    /// let error = options.check().unwrap_err();
    /// assert_eq!(error.to_string(), "servers=4: must be from 1 to 3");
    /// ```
    pub fn check(&self) -> Result<(), InvalidOption> {
        for (field, value, least, most) in NUMBERS {
            in_range(field, value(self), least, most, u32::to_string)?;
        }
        let times =
            [("latency", self.latency), ("jitter", self.jitter), ("clock_grain", self.clock_grain)];
        for (field, value) in times {
            in_range(field, value, Duration::ZERO, LONGEST, |time| format!("{time:?}"))?;
        }
        Ok(())
    }

    /// Returns the options line without values that equal the [default](Self::default).
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

    fn set(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        let key = KEYS.iter().find(|key| key.name == name)?;
        (key.read)(self, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{options::listing, tape::Choices};

    #[test]
    fn printed_options_parse_to_equal_options() {
        for seed in 0..500 {
            let options = Options::draw(&mut Choices::from_seed(seed));
            assert_eq!(options.to_string().parse(), Ok(options));
        }
    }

    #[test]
    fn default_options_line_is_fixed() {
        let line = "clients=1 servers=1 variant=sotw mixture=Alike streams=Aggregated types=4 names=2 profile=Grpc \
                    data_errors=KeepCached flow_control=Notices latency=5ms jitter=0ns ties=DeliveriesFirst \
                    clock_grain=0ns operations=0 order=ByRank transport=Streams verdicts=AtOnce views=1 \
                    versions=Content responses=Long names_per_call=0 features={} actions={} faults={} lies={}";
        assert_eq!(Options::default().to_string(), line);
    }

    #[test]
    fn unknown_option_error_lists_the_known_ones() {
        for (word, known) in [
            ("clients", "clients must be a number"),
            ("clients=", "clients must be a number"),
            ("colour=red", "expected one of clients, servers, variant, "),
            ("latency=5", "latency must be a time such as 300ms"),
            ("variant=both", "variant must be one of sotw, delta"),
            (
                "faults={reset,gremlins}",
                "gremlins is unknown, expected one of starve, wake-for-nothing, reset, ",
            ),
            (
                "lies=flip",
                "lies must have the form {one,another}, with values from truncate, flip, ",
            ),
        ] {
            let told = word.parse::<Options>().unwrap_err().to_string();
            let start = format!("{word:?} is not a run option: {known}");
            assert!(told.starts_with(&start), "{start}\n{told}");
        }
    }

    #[test]
    fn listed_options_can_be_parsed() {
        let listing = listing();
        for start in
            ["latency=5ms               a time", "  reset                   A stream is reset;"]
        {
            assert!(listing.lines().any(|line| line.starts_with(start)), "{start}\n{listing}");
        }
        let mut key = "";
        for line in listing.lines() {
            let word = line.split_whitespace().next().unwrap();
            if line.starts_with("  ") {
                assert!(format!("{key}={{{word}}}").parse::<Options>().is_ok(), "{key} {word}");
            } else {
                assert_eq!(word.parse(), Ok(Options::default()), "{word}");
                key = word.split_once('=').unwrap().0;
            }
        }
    }
}
