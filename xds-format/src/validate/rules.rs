//! Constraints of a field, read from its option `validate.rules`.
//!
//! The option is a message with one member per kind of field. The members are reduced to a few
//! kinds: a range, a length, a list of values, a form of text.

use core::fmt;
use std::borrow::Cow;

use prost_reflect::{DynamicMessage, Value};
use regex::bytes::Regex;

use super::number::{Number, Numbers};

/// Constraints of a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldRules {
    /// Whether the message must be set.
    pub(crate) required: bool,
    /// Whether the content of the message is not checked.
    pub(crate) skip: bool,
    /// Constraints of the value.
    pub(crate) value: ValueRules,
}

/// Constraints of a value, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ValueRules {
    /// No constraint.
    #[default]
    Free,
    /// Numbers of all widths, and durations and timestamps in nanoseconds.
    Number(Numbers),
    /// Required value of a bool.
    Bool(bool),
    /// Strings and bytes.
    Text(Box<TextRules>),
    /// Enums.
    Enum {
        /// Constraints on the number of the enum value.
        numbers: Numbers,
        /// Whether only numbers that the enum defines are allowed.
        defined_only: bool,
    },
    /// Lists.
    Repeated {
        /// Allowed number of elements.
        count: Span,
        /// Whether all elements must differ.
        unique: bool,
        /// Constraints of each element.
        items: Box<FieldRules>,
        /// Whether an empty list is always allowed.
        ignore_empty: bool,
    },
    /// Maps.
    Map {
        /// Allowed number of entries.
        count: Span,
        /// Constraints of each key.
        keys: Box<FieldRules>,
        /// Constraints of each value.
        values: Box<FieldRules>,
        /// Whether an empty map is always allowed.
        ignore_empty: bool,
    },
    /// Type URLs of a `google.protobuf.Any`.
    Any {
        /// Allowed type URLs; empty if there is no such constraint.
        one_of: Vec<String>,
        /// Forbidden type URLs.
        none_of: Vec<String>,
    },
}

/// Minimum and maximum of a count or length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
}

/// Constraints of a string or of bytes. Strings are stored as bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TextRules {
    pub(crate) constant: Option<Vec<u8>>,
    /// Length in characters.
    pub(crate) chars: Span,
    /// Length in bytes.
    pub(crate) bytes: Span,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) prefix: Option<Vec<u8>>,
    pub(crate) suffix: Option<Vec<u8>>,
    pub(crate) contains: Option<Vec<u8>>,
    pub(crate) not_contains: Option<Vec<u8>>,
    pub(crate) one_of: Vec<Vec<u8>>,
    pub(crate) none_of: Vec<Vec<u8>>,
    pub(crate) form: Option<Form>,
    pub(crate) ignore_empty: bool,
}

/// Regular expression that must match the whole text, as in Envoy. Patterns are equal if their
/// sources are.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    source: String,
    whole: Regex,
}

impl Pattern {
    fn new(source: &str) -> Result<Self, regex::Error> {
        // The source alone is compiled first, so that an error is about the text in the schema.
        Regex::new(source)?;
        let whole = Regex::new(&format!(r"\A(?:{source})\z"))?;
        Ok(Self { source: source.to_owned(), whole })
    }

    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.whole.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// Well-known form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Email,
    Hostname,
    Ip,
    Ipv4,
    Ipv6,
    Uri,
    UriReference,
    Address,
    Uuid,
    /// Name of an HTTP header.
    HeaderName(Strictness),
    /// Value of an HTTP header.
    HeaderValue(Strictness),
}

/// Strictness of the check of HTTP headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Only line breaks and zero bytes are forbidden.
    Loose,
    /// The HTTP grammar applies.
    Strict,
}

const FORMS: [(&str, Form); 9] = [
    ("email", Form::Email),
    ("hostname", Form::Hostname),
    ("ip", Form::Ip),
    ("ipv4", Form::Ipv4),
    ("ipv6", Form::Ipv6),
    ("uri", Form::Uri),
    ("uri_ref", Form::UriReference),
    ("address", Form::Address),
    ("uuid", Form::Uuid),
];

impl FieldRules {
    /// Reads a `validate.FieldRules`. An invalid regular expression is an error.
    pub(crate) fn read(rules: &DynamicMessage) -> Result<Self, regex::Error> {
        let rules = Reader(rules);
        let mut read = Self::default();
        if let Some(message) = rules.message("message") {
            let message = Reader(&message);
            read.required = message.flag("required");
            read.skip = message.flag("skip");
        }
        let Some((kind, Value::Message(member))) =
            rules.0.fields().find(|(field, _)| field.containing_oneof().is_some())
        else {
            return Ok(read);
        };
        let member = Reader(member);
        read.required |= member.flag("required");
        read.value = match kind.name() {
            "bool" => member
                .value("const")
                .and_then(|it| it.as_bool())
                .map_or_else(ValueRules::default, ValueRules::Bool),
            "string" | "bytes" => ValueRules::Text(Box::new(member.text_rules(kind.name())?)),
            "enum" => ValueRules::Enum {
                numbers: member.numbers(),
                defined_only: member.flag("defined_only"),
            },
            "repeated" => ValueRules::Repeated {
                count: member.span("min_items", "max_items"),
                unique: member.flag("unique"),
                items: member.nested("items")?,
                ignore_empty: member.flag("ignore_empty"),
            },
            "map" => ValueRules::Map {
                count: member.span("min_pairs", "max_pairs"),
                keys: member.nested("keys")?,
                values: member.nested("values")?,
                ignore_empty: member.flag("ignore_empty"),
            },
            "any" => {
                let list = |name| {
                    let texts = member.list(name).into_iter();
                    texts.filter_map(|it| it.as_str().map(str::to_owned)).collect()
                };
                ValueRules::Any { one_of: list("in"), none_of: list("not_in") }
            }
            _ => ValueRules::Number(member.numbers()),
        };
        Ok(read)
    }
}

/// Access to the fields of a rule by name. Fields that the schema's `validate.proto` lacks are
/// absent.
struct Reader<'m>(&'m DynamicMessage);

impl Reader<'_> {
    fn value(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.0.has_field_by_name(name).then(|| self.0.get_field_by_name(name)).flatten()
    }

    fn message(&self, name: &str) -> Option<DynamicMessage> {
        self.value(name).and_then(|it| it.as_message().cloned())
    }

    fn nested(&self, name: &str) -> Result<Box<FieldRules>, regex::Error> {
        let rules = self.message(name).map(|rules| FieldRules::read(&rules)).transpose()?;
        Ok(Box::new(rules.unwrap_or_default()))
    }

    fn flag(&self, name: &str) -> bool {
        self.value(name).and_then(|it| it.as_bool()).unwrap_or_default()
    }

    fn list(&self, name: &str) -> Vec<Value> {
        self.value(name).and_then(|it| it.as_list().map(<[_]>::to_vec)).unwrap_or_default()
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.value(name)?.as_u64()
    }

    fn span(&self, min: &str, max: &str) -> Span {
        Span { min: self.size(min), max: self.size(max) }
    }

    fn span_or(&self, exact: &str, min: &str, max: &str) -> Span {
        match self.size(exact) {
            Some(exact) => Span { min: Some(exact), max: Some(exact) },
            None => self.span(min, max),
        }
    }

    fn number(&self, name: &str) -> Option<Number> {
        Number::of(&*self.value(name)?)
    }

    fn numbers(&self) -> Numbers {
        let list = |name| self.list(name).iter().filter_map(Number::of).collect();
        Numbers {
            constant: self.number("const"),
            above: self.number("gt"),
            at_least: self.number("gte"),
            below: self.number("lt"),
            at_most: self.number("lte"),
            one_of: list("in"),
            none_of: list("not_in"),
            ignore_empty: self.flag("ignore_empty"),
        }
    }

    fn text(&self, name: &str) -> Option<Vec<u8>> {
        text_bytes(&*self.value(name)?)
    }

    fn text_rules(&self, kind: &str) -> Result<TextRules, regex::Error> {
        let list = |name| self.list(name).iter().filter_map(text_bytes).collect();
        let length = self.span_or("len", "min_len", "max_len");
        let (chars, bytes) = match kind {
            "string" => (length, self.span_or("len_bytes", "min_bytes", "max_bytes")),
            _ => (Span::default(), length),
        };
        let pattern = self.value("pattern");
        let pattern = pattern.as_deref().and_then(Value::as_str).map(Pattern::new).transpose()?;
        Ok(TextRules {
            constant: self.text("const"),
            chars,
            bytes,
            pattern,
            prefix: self.text("prefix"),
            suffix: self.text("suffix"),
            contains: self.text("contains"),
            not_contains: self.text("not_contains"),
            one_of: list("in"),
            none_of: list("not_in"),
            form: self.form(),
            ignore_empty: self.flag("ignore_empty"),
        })
    }

    fn form(&self) -> Option<Form> {
        if let Some((_, form)) = FORMS.iter().find(|(name, _)| self.flag(name)) {
            return Some(*form);
        }
        // Strict is the default.
        let strict = self.value("strict").and_then(|it| it.as_bool()).unwrap_or(true);
        let strictness = if strict { Strictness::Strict } else { Strictness::Loose };
        match self.value("well_known_regex")?.as_enum_number()? {
            1 => Some(Form::HeaderName(strictness)),
            2 => Some(Form::HeaderValue(strictness)),
            _ => None,
        }
    }
}

/// Returns the bytes of a string or bytes value.
pub(crate) fn text_bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}
