//! The error type, with file name, position, field path and reason.

use core::fmt;

use crate::format::Format;
use crate::path::REDACTED;
pub(crate) use crate::path::{Path, abbreviate};
use crate::wire::WireError;

/// Error that rejects a file, a message or a descriptor set.
///
/// Its `Display` form is one line:
///
/// ```text
/// routes.yaml:7:9: resources[0].virtual_hosts[0]: unknown field `rotes` in `envoy.config.route.v3.VirtualHost`, did you mean `routes`?
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct FormatError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    source_name: String,
    position: Option<Position>,
    path: String,
    kind: ErrorKind,
}

impl FormatError {
    pub(crate) fn new(source_name: &str, kind: ErrorKind) -> Self {
        Fault::new(None, &Path::Root, kind).in_source(source_name, None)
    }

    /// Returns the name of the file (or other source) as the caller gave it; empty if it had none.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.0.source_name
    }

    /// Sets the source name, for an error of an input without one.
    #[must_use]
    pub fn in_file(mut self, source_name: &str) -> Self {
        source_name.clone_into(&mut self.0.source_name);
        self
    }

    /// Returns the line and column, for text formats.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Returns the field path from the top of the file, as the file spells it; empty at the top.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { source_name, position, path, kind } = &*self.0;
        match (source_name.as_str(), position) {
            ("", None) => {}
            ("", Some(position)) => write!(f, "{position}: ")?,
            (name, None) => write!(f, "{name}: ")?,
            (name, Some(position)) => write!(f, "{name}:{position}: ")?,
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        kind.fmt(f)
    }
}

impl fmt::Debug for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { source_name, position, path, kind } = &*self.0;
        f.debug_struct("FormatError")
            .field("source_name", source_name)
            .field("position", position)
            .field("path", path)
            .field("kind", kind)
            .finish()
    }
}

impl core::error::Error for FormatError {}

/// Position in a text file, counted from 1. Columns count characters, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line number.
    pub line: usize,
    /// Column number.
    pub column: usize,
}

impl Position {
    /// Position of the beginning of a text.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// Returns the position of a byte offset in `text`. An offset past the end means the end.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        Self::START.after(text.get(..char_boundary(text, offset)).unwrap_or_default())
    }

    /// Returns the position behind `text`, which begins at this position.
    pub(crate) fn after(self, text: &str) -> Self {
        match text.rsplit_once('\n') {
            None => Self { column: self.column + text.chars().count(), ..self },
            Some((_, last_line)) => Self {
                line: self.line + text.matches('\n').count(),
                column: last_line.chars().count() + 1,
            },
        }
    }
}

/// Returns the last boundary between characters up to a byte offset.
pub(crate) fn char_boundary(text: &str, offset: usize) -> usize {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Reason of a [`FormatError`]. Names and values from the input are abbreviated, and those that may
/// be secret are [`REDACTED`] or left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The suffix of a file name is of no known format.
    #[error("unknown file suffix{}: expected one of {}", dotted(.suffix), Format::SUFFIXES)]
    UnknownSuffix {
        /// Suffix of the file name, without the dot, if there is one.
        suffix: Option<String>,
    },
    /// The text is not UTF-8.
    #[error("the text is not valid UTF-8")]
    NotUtf8,
    /// The text is UTF-16, by its byte order mark.
    #[error("the text is UTF-16; save it as UTF-8")]
    Utf16,
    /// The text has a syntax error.
    #[error("invalid {format}: {reason}")]
    Syntax {
        /// The format.
        format: Format,
        /// Message of the parser.
        reason: String,
    },
    /// The file is empty. This differs from an empty list of resources: editors truncate a file
    /// before writing it, which must not remove all resources.
    #[error("the file is empty")]
    Empty,
    /// The file has none of the accepted shapes.
    #[error(
        "expected an object with `@type`, a list of such objects, or an object with `resources`, found {found}"
    )]
    UnexpectedShape {
        /// Description of the value found.
        found: String,
    },
    /// The header comment of a proto text file names a message that the schema does not have.
    #[error(
        "the header `# proto-message: {name}` names a message that is not in the schema{}",
        did_you_mean(.suggestion)
    )]
    UnknownHeader {
        /// Name in the header.
        name: String,
        /// Message with a similar name, or the only one with this short name.
        suggestion: Option<String>,
    },
    /// A proto text file without a header, which is a `DiscoveryResponse`, has a field of another
    /// message.
    #[error(
        "unknown field `{field}` in `{message}`; state the type of the file in its first line, such \
         as `# proto-message: envoy.config.cluster.v3.Cluster`"
    )]
    MissingHeader {
        /// Name as written.
        field: String,
        /// Full name of the message that the file is read as.
        message: String,
    },
    /// The message type has no field of this name.
    #[error("unknown field `{field}` in `{message}`{}", did_you_mean(.suggestion))]
    UnknownField {
        /// Name as written.
        field: String,
        /// Full name of the message.
        message: String,
        /// Field of the message with a similar name.
        suggestion: Option<String>,
    },
    /// The schema has no such message type.
    #[error("unknown type `{type_url}`{}", did_you_mean_or_add(.suggestion))]
    UnknownType {
        /// Type URL or full name.
        type_url: String,
        /// Message with a similar name, or with the same short name in a related package. If there
        /// is none, the error text explains how to add types.
        suggestion: Option<String>,
    },
    /// An object lacks the required `@type`.
    #[error("missing `@type`")]
    MissingType,
    /// A type URL is not of the form `prefix/full.name`.
    #[error(
        "`{type_url}` is not a type URL such as `type.googleapis.com/envoy.config.cluster.v3.Cluster`"
    )]
    InvalidTypeUrl {
        /// Text found in place of a type URL.
        type_url: String,
    },
    /// The enum has no value of this name.
    #[error("unknown value `{value}` of the enum `{enumeration}`{}", did_you_mean(.suggestion))]
    UnknownEnumValue {
        /// Value as written.
        value: String,
        /// Full name of the enum.
        enumeration: String,
        /// Value of the enum with a similar name.
        suggestion: Option<String>,
    },
    /// A value does not fit its field.
    #[error("expected {expected}, found {found}")]
    WrongValue {
        /// Description of the values that the field accepts.
        expected: String,
        /// Description of the value found.
        found: String,
    },
    /// A whole number in a `google.protobuf.Struct`, whose numbers are doubles, would be changed.
    #[error("{number} cannot be represented exactly by a Struct number; put it in quotes")]
    InexactNumber {
        /// Number as written.
        number: String,
    },
    /// A field is set twice, perhaps under both of its names.
    #[error("the field `{field}` is set twice")]
    DuplicateField {
        /// Proto name of the field.
        field: String,
    },
    /// An object has a key twice.
    #[error("duplicate key `{key}`")]
    DuplicateKey {
        /// The key, or [`REDACTED`] if it is not spelt like a field and may be secret.
        key: String,
    },
    /// Two members of a oneof are set.
    #[error("`{first}` and `{second}` must not both be set (oneof `{oneof}`)")]
    OneofConflict {
        /// Name of the oneof.
        oneof: String,
        /// Proto name of the first field.
        first: String,
        /// Proto name of the second field.
        second: String,
    },
    /// A document has two resources of the same type and name.
    #[error("the resource `{name}` of type `{type_url}` occurs twice in this file")]
    DuplicateResource {
        /// Type URL.
        type_url: String,
        /// Resource name.
        name: String,
    },
    /// A resource has an empty name.
    #[error("the resource has no name: the field `{field}` of `{type_url}` is empty")]
    EmptyName {
        /// Type URL.
        type_url: String,
        /// Name of the field that holds the resource name.
        field: String,
    },
    /// Resources of this type have no name field.
    #[error(
        "resources of type `{type_url}` have no name field: wrap them in \
         `envoy.service.discovery.v3.Resource`"
    )]
    NoNameField {
        /// Type URL.
        type_url: String,
    },
    /// A `Resource` wrapper is empty.
    #[error("the `Resource` wrapper contains no resource")]
    EmptyWrapper,
    /// A response announces one type and carries another.
    #[error("the resource is of type `{found}`, but the response is of type `{expected}`")]
    TypeMismatch {
        /// `type_url` of the response.
        expected: String,
        /// Type URL of the resource.
        found: String,
    },
    /// The documents of one file have different versions.
    #[error("version_info is `{second}` here and `{first}` earlier in this file")]
    VersionConflict {
        /// Earlier version.
        first: String,
        /// Later version.
        second: String,
    },
    /// Messages or lists nest too deeply.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// Maximum number of levels.
        limit: usize,
    },
    /// The file has more values than the limit.
    #[error("more than {limit} values in one file")]
    TooManyNodes {
        /// Maximum number of values.
        limit: usize,
    },
    /// YAML aliases expand to more than the limit, as in an alias bomb.
    #[error("aliases expand to more than {limit} bytes")]
    AliasBudget {
        /// Limit in bytes.
        limit: usize,
    },
    /// The bytes are not a valid encoding of the message.
    #[error("cannot decode as `{message}`: {reason}")]
    Corrupt {
        /// Full name of the message.
        message: String,
        /// Decoding error.
        reason: String,
    },
    /// A well-formed value violates a constraint of the schema (option `validate.rules`).
    #[error("{reason}")]
    Constraint {
        /// Name of the constraint in that option, such as `min_len`, `lte` or `required`.
        rule: &'static str,
        /// Description of the required and the actual value.
        reason: String,
    },
    /// An `Any` has no JSON or YAML form, because the schema lacks its type or its type URL is
    /// invalid.
    #[error("an `Any` cannot be written as JSON or YAML: {}", no_type(.type_url))]
    UnprintableAny {
        /// Type URL of the `Any`.
        type_url: String,
    },
    /// A text format cannot express a field, because the schema lacks it.
    #[error(
        "the field number {number} of `{message}` is not in the schema, so no text format has it"
    )]
    UnprintableField {
        /// Full name of the message.
        message: String,
        /// Number of the field.
        number: u32,
    },
    /// A descriptor set cannot be decoded or is inconsistent.
    #[error("invalid descriptor set: {reason}")]
    Descriptors {
        /// Message of the descriptor decoder.
        reason: String,
    },
}

impl ErrorKind {
    /// Returns the error without a type URL that does not have the form of one.
    pub(crate) fn without_malformed_url(self) -> Self {
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        let is_url = |text: &str| {
            let name = text.rsplit_once('/').map_or("", |(_, name)| name);
            text.starts_with("type.googleapis.com/")
                && name.contains('.')
                && name.bytes().all(is_name_byte)
        };
        match self {
            Self::UnknownType { type_url, suggestion } if !is_url(&type_url) => {
                Self::UnknownType { type_url: REDACTED.to_owned(), suggestion }
            }
            Self::InvalidTypeUrl { .. } => Self::InvalidTypeUrl { type_url: REDACTED.to_owned() },
            Self::UnprintableAny { type_url } if !is_url(&type_url) => {
                Self::UnprintableAny { type_url: REDACTED.to_owned() }
            }
            other => other,
        }
    }

    pub(crate) fn corrupt(message: &str, reason: WireError) -> Self {
        Self::Corrupt { message: message.to_owned(), reason: reason.to_string() }
    }
}

fn no_type(type_url: &str) -> String {
    match type_url.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => {
            format!("the type `{type_url}` is not in the schema")
        }
        _ if type_url.is_empty() => "it has a value but no type URL".to_owned(),
        _ => format!("`{type_url}` is not a type URL"),
    }
}

fn dotted(suffix: &Option<String>) -> String {
    suffix.as_ref().map(|suffix| format!(" `.{suffix}`")).unwrap_or_default()
}

fn did_you_mean_or_add(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(_) => did_you_mean(suggestion),
        None => ": it is not in the schema; add it with a descriptor set".to_owned(),
    }
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}

/// Result of a conversion whose error does not name the source yet.
pub(crate) type Result<T, E = Box<Fault>> = core::result::Result<T, E>;

/// An error with its byte offset in the text, before the file name is known.
#[derive(Debug)]
pub(crate) struct Fault {
    offset: Option<usize>,
    path: String,
    kind: ErrorKind,
}

impl Fault {
    pub(crate) fn new(
        offset: impl Into<Option<usize>>,
        path: &Path<'_>,
        kind: ErrorKind,
    ) -> Box<Self> {
        Box::new(Self { offset: offset.into(), path: path.to_string(), kind })
    }

    /// Whether the errors are the same error at the same place.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.offset.is_some() && self.offset == other.offset && self.kind == other.kind
    }

    /// Whether the error is an unknown name of an enum value.
    pub(crate) fn is_unknown_name(&self) -> bool {
        matches!(self.kind, ErrorKind::UnknownEnumValue { .. })
    }

    /// Adds the name of the source and, given its text, line and column.
    pub(crate) fn in_source(self, source_name: &str, text: Option<&str>) -> FormatError {
        let position = text.and_then(|text| Some(Position::of(text, self.offset?)));
        FormatError(Box::new(Inner {
            source_name: source_name.to_owned(),
            position,
            path: self.path,
            kind: self.kind,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a\näöü: x\n";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, text.find('x').unwrap()), Position { line: 2, column: 6 });
        assert_eq!(Position::of(text, 3), Position { line: 2, column: 1 }); // inside `ä`
        assert_eq!(Position::of(text, 999), Position { line: 3, column: 1 });
    }

    #[test]
    fn format_error_is_pointer_sized() {
        assert_eq!(size_of::<FormatError>(), size_of::<usize>());
    }
}
