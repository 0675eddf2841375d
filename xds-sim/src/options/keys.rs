//! Keys of the options line, in their order, with the permitted values.

use std::{fmt::Write as _, time::Duration};

use xds_core::client::{DataErrorPolicy, FlowControl};

use super::{
    Action, Actions, Fault, Faults, Feature, Features, Lie, Lies, Mixture, Options, Order,
    ProfileName, Responses, Streams, Ties, Transport, Variant, Verdicts, Versions,
    text::{LONGEST, NUMBERS},
};

/// Permitted values of a key.
pub(super) enum Values {
    Number,
    Time,
    /// One of a list of words.
    One(Vec<String>),
    /// Any of a list of words, each with its meaning.
    Several(Vec<(&'static str, &'static str)>),
}

/// Value of an option, with its text form.
trait Value: Sized {
    fn values() -> Values;
    fn read(text: &str) -> Option<Self>;
    fn print(&self) -> String;
}

impl Value for u32 {
    fn values() -> Values {
        Values::Number
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl Value for Duration {
    fn values() -> Values {
        Values::Time
    }

    fn read(text: &str) -> Option<Self> {
        let unit = text.find(|letter: char| letter.is_ascii_alphabetic() || letter == 'µ')?;
        let (number, unit) = text.split_at(unit);
        let number: f64 = number.parse().ok().filter(|number| *number >= 0.0)?;
        let nanos = match unit {
            "ns" => number,
            "µs" => number * 1e3,
            "ms" => number * 1e6,
            "s" => number * 1e9,
            _ => return None,
        };
        Some(Self::from_nanos(nanos.round() as u64))
    }

    fn print(&self) -> String {
        format!("{self:?}")
    }
}

/// Implements [`Value`] for enums printed as one word.
macro_rules! one_of {
    ($($name:ident { $($kind:ident = $word:expr),* })*) => {
        $(impl Value for $name {
            fn values() -> Values {
                Values::One(vec![$($word.into()),*])
            }

            fn read(text: &str) -> Option<Self> {
                [$(Self::$kind),*].into_iter().find(|it| it.print() == text)
            }

            fn print(&self) -> String {
                match self {
                    $(Self::$kind => $word.into(),)*
                    #[allow(unreachable_patterns, reason = "more kinds may be added")]
                    _ => format!("{self:?}"),
                }
            }
        })*
    };
}

one_of! {
    Variant { StateOfTheWorld = "sotw", Incremental = "delta" }
    Mixture { Alike = "Alike", ByClient = "ByClient", ByServer = "ByServer" }
    Streams { Aggregated = "Aggregated", PerType = "PerType" }
    ProfileName { Grpc = "Grpc", Envoy = "Envoy" }
    DataErrorPolicy { KeepCached = "KeepCached", DropCached = "DropCached" }
    FlowControl { On = "Notices", Off = "Off" }
    Ties { DeliveriesFirst = "DeliveriesFirst", TimersFirst = "TimersFirst" }
    Order {
        ByRank = "ByRank", AsDue = "AsDue", AfterAcks = "AfterAcks", OnlyAfterAcks = "OnlyAfterAcks"
    }
    Transport { Streams = "Streams", Polls = "Polls", Files = "Files" }
    Verdicts { AtOnce = "AtOnce", Soon = "Soon", Late = "Late" }
    Responses { Long = "Long", Short = "Short" }
    Versions { Content = "Content", Counted = "Counted", CountedAnew = "CountedAnew" }
}

/// Implements [`Value`] for sets printed as a list in braces.
macro_rules! set_of {
    ($($set:ident of $kind:ident,)*) => {
        $(impl Value for $set {
            fn values() -> Values {
                Values::Several($kind::ALL.iter().map(|it| (it.as_str(), it.meaning())).collect())
            }

            fn read(text: &str) -> Option<Self> {
                let kind = |word| $kind::ALL.iter().copied().find(|it| it.as_str() == word);
                words_of_set(text)?.map(kind).collect()
            }

            fn print(&self) -> String {
                self.to_string()
            }
        })*
    };
}

set_of! {
    Features of Feature,
    Actions of Action,
    Faults of Fault,
    Lies of Lie,
}

fn words_of_set(text: &str) -> Option<impl Iterator<Item = &str>> {
    let words = text.strip_prefix('{')?.strip_suffix('}')?;
    Some(words.split(',').filter(|word| !word.is_empty()))
}

/// A key of the options line.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) values: fn() -> Values,
    /// Parses a value and sets the option; returns `None` if the value is invalid.
    pub(super) read: fn(&mut Options, &str) -> Option<()>,
    pub(super) print: fn(&Options) -> String,
}

macro_rules! keys {
    ($($field:ident)*) => {
        pub(super) const KEYS: &[Key] = &[$(Key {
            name: stringify!($field),
            values: || values_of(&Options::default().$field),
            read: |options, text| {
                options.$field = Value::read(text)?;
                Some(())
            },
            print: |options| options.$field.print(),
        },)*];
    };
}

fn values_of<T: Value>(_: &T) -> Values {
    T::values()
}

keys! {
    clients servers variant mixture streams types names profile data_errors flow_control latency jitter ties
    clock_grain operations order transport verdicts views versions responses names_per_call features actions faults lies
}

/// Describes the permitted words in place of an invalid one.
pub(super) fn instead_of(word: &str) -> String {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
        let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        return format!("expected one of {}", names.join(", "));
    };
    match (key.values)() {
        Values::Number => format!("{name} must be a number"),
        Values::Time => format!("{name} must be a time such as 300ms"),
        Values::One(words) => format!("{name} must be one of {}", words.join(", ")),
        Values::Several(known) => {
            let known: Vec<_> = known.into_iter().map(|(word, _)| word).collect();
            let unknown = words_of_set(value).and_then(|mut it| it.find(|it| !known.contains(it)));
            let known = known.join(", ");
            match unknown {
                Some(unknown) => format!("{unknown} is unknown, expected one of {known}"),
                None => {
                    format!("{name} must have the form {{one,another}}, with values from {known}")
                }
            }
        }
    }
}

/// Lists all keys of the options line as text, with their defaults and permitted values.
#[must_use]
pub fn listing() -> String {
    let (mut out, default) = (String::new(), Options::default());
    for key in KEYS {
        let pair = format!("{}={}", key.name, (key.print)(&default));
        let values = (key.values)();
        let what = match &values {
            Values::Number => match NUMBERS.iter().find(|number| number.0 == key.name) {
                Some((_, _, least, most)) => format!("a number from {least} to {most}"),
                None => "a number".into(),
            },
            Values::Time => format!("a time up to {LONGEST:?}, such as 300ms"),
            Values::One(words) => format!("one of {}", words.join(", ")),
            Values::Several(_) => format!("any of these, as in {}={{one,another}}:", key.name),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{pair:<26}{what}");
        if let Values::Several(words) = values {
            for (word, meaning) in words {
                let _ = writeln!(out, "  {word:<24}{meaning}");
            }
        }
    }
    out
}
