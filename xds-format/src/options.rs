//! Options for reading JSON and YAML.

/// Spellings accepted in JSON and YAML.
///
/// Lenient reading only extends strict reading: input that [`Leniency::Strict`] accepts has the
/// same meaning, and gives the same bytes, with [`Leniency::Envoy`]. The table in the repository's
/// `docs/FORMATS.md` compares strict reading, lenient reading and Envoy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leniency {
    /// The canonical JSON mapping of protobuf, with the few other forms listed in
    /// [the crate documentation](crate#what-is-accepted).
    #[default]
    Strict,
    /// The spellings that Envoy accepts in its files, in addition to the strict ones.
    ///
    /// - Names of enum values in any case, and their numbers as strings.
    /// - A single element where a list is expected, and nested lists.
    /// - Booleans as strings, and numbers as hexadecimal or signed strings.
    /// - A wrapper, a timestamp or a field mask in message form, such as `{value: 5}`.
    /// - `null` as an element or a map value, for the default value.
    /// - In JSON: trailing commas, single quotes, unquoted keys, and line breaks in strings.
    /// - In YAML: any tag; `!ignore` before a key drops the entry.
    ///
    /// Input that would be lost or changed is rejected although Envoy accepts it, such as duplicate
    /// keys, and numbers with leading zeros (octal in YAML 1.1).
    Envoy,
}

impl Leniency {
    pub(crate) const fn is_envoy(self) -> bool {
        matches!(self, Self::Envoy)
    }
}

/// Treatment of fields that the schema does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownFields {
    /// Unknown fields are an error. In a file written by hand they are usually misspelt.
    #[default]
    Refused,
    /// Unknown fields are ignored, as in binary messages. Output of another program may use a
    /// newer schema. A field, element or map entry with an unknown name of an enum value is ignored
    /// as well.
    Skipped,
}

/// Treatment of numbers in a `google.protobuf.Value` that have no exact value, because they are
/// 64-bit floating-point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InexactNumbers {
    /// Integers that would be changed are an error.
    #[default]
    Refused,
    /// Integers are rounded to the nearest number, as by most other programs.
    Rounded,
}

/// Options of [`parse_with`](crate::parse_with) and
/// [`encode_message_with`](crate::encode_message_with). The default is strict.
///
/// ```
/// use xds_format::{Leniency, ParseOptions, UnknownFields};
///
/// let options = ParseOptions::default().with_leniency(Leniency::Envoy);
/// assert_eq!(options, ParseOptions::envoy());
/// assert_eq!(options.unknown_fields, UnknownFields::Refused);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParseOptions {
    /// Spellings that are accepted. Default: [`Leniency::Strict`].
    pub leniency: Leniency,
    /// Treatment of unknown fields. Default: [`UnknownFields::Refused`].
    pub unknown_fields: UnknownFields,
    /// Treatment of integers that would be changed. Default: [`InexactNumbers::Refused`].
    pub inexact_numbers: InexactNumbers,
}

impl ParseOptions {
    /// Options for files written for Envoy: lenient, with unknown fields rejected.
    #[must_use]
    pub const fn envoy() -> Self {
        Self {
            leniency: Leniency::Envoy,
            unknown_fields: UnknownFields::Refused,
            inexact_numbers: InexactNumbers::Refused,
        }
    }

    /// Returns these options with the given leniency.
    #[must_use]
    pub const fn with_leniency(mut self, leniency: Leniency) -> Self {
        self.leniency = leniency;
        self
    }

    /// Returns these options with the given treatment of unknown fields.
    #[must_use]
    pub const fn with_unknown_fields(mut self, unknown_fields: UnknownFields) -> Self {
        self.unknown_fields = unknown_fields;
        self
    }

    /// Returns these options with the given treatment of integers that would be changed.
    #[must_use]
    pub const fn with_inexact_numbers(mut self, inexact_numbers: InexactNumbers) -> Self {
        self.inexact_numbers = inexact_numbers;
        self
    }
}
