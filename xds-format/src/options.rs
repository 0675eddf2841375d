//! How texts are read.

/// Which spellings of JSON and YAML are read.
///
/// Leniency only ever accepts more: what [`Leniency::Strict`] accepts means the same under [`Leniency::Envoy`], and
/// gives the same bytes. The repository's `docs/FORMATS.md` has a table of spellings: what each of the two accepts, and
/// what Envoy accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leniency {
    /// The canonical JSON mapping of protobuf, with the few other forms that [the crate](crate#what-is-accepted)
    /// lists.
    #[default]
    Strict,
    /// What Envoy accepts in its files as well: names of enum values in any case, and their numbers as strings; one
    /// element where a list is expected, and lists within it; booleans as strings; numbers as strings in hexadecimal
    /// or with a sign; a wrapper, a timestamp or a field mask as the message that it is, such as `{value: 5}`; `null`
    /// as an element or a value of a map, for its default. In JSON trailing commas, single quotes, keys without
    /// quotes and line breaks in strings; in YAML any tags, of which `!ignore` before a key drops the entry.
    ///
    /// Not accepted, though Envoy does: whatever would lose or change what is written, such as a key that stands
    /// twice, or a number with leading zeros, which is octal in YAML 1.1.
    Envoy,
}

impl Leniency {
    pub(crate) const fn is_envoy(self) -> bool {
        matches!(self, Self::Envoy)
    }
}

/// What becomes of fields that the schema does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownFields {
    /// They are an error: what somebody writes by hand is misspelt more often than new.
    #[default]
    Refused,
    /// They are passed over, as in binary messages: what another program writes may be newer than the
    /// schema.
    Skipped,
}

/// How [`parse_with`](crate::parse_with) and [`encode_message_with`](crate::encode_message_with) read a text. By
/// default strictly.
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
    /// Which spellings are accepted.
    pub leniency: Leniency,
    /// What becomes of unknown fields.
    pub unknown_fields: UnknownFields,
}

impl ParseOptions {
    /// Options for files that are written for Envoy: lenient, without unknown fields.
    #[must_use]
    pub const fn envoy() -> Self {
        Self { leniency: Leniency::Envoy, unknown_fields: UnknownFields::Refused }
    }

    /// These options with another leniency.
    #[must_use]
    pub const fn with_leniency(mut self, leniency: Leniency) -> Self {
        self.leniency = leniency;
        self
    }

    /// These options with another treatment of unknown fields.
    #[must_use]
    pub const fn with_unknown_fields(mut self, unknown_fields: UnknownFields) -> Self {
        self.unknown_fields = unknown_fields;
        self
    }
}
