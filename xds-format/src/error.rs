//! What went wrong, and where: file, line and column, field path, reason.

use core::fmt;

use crate::format::Format;
use crate::wire::WireError;

/// Why a file, a message or a descriptor set was refused.
///
/// Prints as one line, most useful part last:
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

    /// The name of the file (or other source) as the caller gave it; empty when the input had none.
    #[must_use]
    pub fn source_name(&self) -> &str {
        &self.0.source_name
    }

    /// The same error, of an input that had no name: this is its name.
    #[must_use]
    pub fn in_file(mut self, source_name: &str) -> Self {
        source_name.clone_into(&mut self.0.source_name);
        self
    }

    /// Line and column, for the formats that have them.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// The field path from the top of the file, spelled as the file spells it; empty at the top.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The reason.
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

/// A place in a text file, counted from 1; columns count characters, not bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The place of a byte offset in `text`; offsets past the end mean the end.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The reason of a [`FormatError`]. Names and values that come from the input are abbreviated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The name of a file does not tell its format.
    #[error("unknown file suffix{}: expected one of {}", dotted(.suffix), Format::SUFFIXES)]
    UnknownSuffix {
        /// What stands after the last dot, if there is one.
        suffix: Option<String>,
    },
    /// The text is not UTF-8.
    #[error("the text is not valid UTF-8")]
    NotUtf8,
    /// The text breaks the grammar of its format.
    #[error("invalid {format}: {reason}")]
    Syntax {
        /// The format.
        format: Format,
        /// What the parser says.
        reason: String,
    },
    /// There is nothing in the file. Told apart from an empty list of resources, because an editor
    /// truncates before it writes, and nobody wants all resources removed for that moment.
    #[error("the file is empty")]
    Empty,
    /// The file is none of the accepted shapes.
    #[error(
        "expected an object with `@type`, a list of such objects, or an object with `resources`, found {found}"
    )]
    UnexpectedShape {
        /// What is there.
        found: String,
    },
    /// The header comment of a proto text file names a message that the schema does not have.
    #[error("the header `# proto-message: {name}` names no message of the schema")]
    UnknownHeader {
        /// The name in the header.
        name: String,
    },
    /// A message has no such field.
    #[error("unknown field `{field}` in `{message}`{}", did_you_mean(.suggestion))]
    UnknownField {
        /// The name as written.
        field: String,
        /// The full name of the message.
        message: String,
        /// A field of the message that is spelled nearly so.
        suggestion: Option<String>,
    },
    /// The schema has no such message.
    #[error("unknown type `{type_url}`{}", did_you_mean_or_add(.suggestion))]
    UnknownType {
        /// The type URL or name.
        type_url: String,
        /// A message whose name is nearly the same, or the same in a package that is akin. Without one, the message
        /// says how types are added.
        suggestion: Option<String>,
    },
    /// An object that must say its type does not.
    #[error("missing `@type`")]
    MissingType,
    /// A type URL is not of the form `prefix/full.name`.
    #[error(
        "`{type_url}` is no type URL such as `type.googleapis.com/envoy.config.cluster.v3.Cluster`"
    )]
    InvalidTypeUrl {
        /// What was there.
        type_url: String,
    },
    /// An enum has no such value.
    #[error("unknown value `{value}` of the enum `{enumeration}`{}", did_you_mean(.suggestion))]
    UnknownEnumValue {
        /// The name as written.
        value: String,
        /// The full name of the enum.
        enumeration: String,
        /// A value that is spelled nearly so.
        suggestion: Option<String>,
    },
    /// A value does not fit its field.
    #[error("expected {expected}, found {found}")]
    WrongValue {
        /// What the field takes.
        expected: String,
        /// What was there.
        found: String,
    },
    /// One field is set twice, perhaps under its two names.
    #[error("the field `{field}` is set twice")]
    DuplicateField {
        /// The proto name of the field.
        field: String,
    },
    /// One object has a key twice.
    #[error("the key `{key}` stands twice in one object")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// Two members of a oneof are set.
    #[error("`{first}` and `{second}` exclude each other (oneof `{oneof}`)")]
    OneofConflict {
        /// The oneof.
        oneof: String,
        /// One field, by its proto name.
        first: String,
        /// The other.
        second: String,
    },
    /// A document has two resources of one type and name.
    #[error("the resource `{name}` of type `{type_url}` stands twice in this file")]
    DuplicateResource {
        /// The type URL.
        type_url: String,
        /// The resource name.
        name: String,
    },
    /// A resource has an empty name.
    #[error("the resource has no name: the field `{field}` of `{type_url}` is empty")]
    EmptyName {
        /// The type URL.
        type_url: String,
        /// The field that holds the name.
        field: String,
    },
    /// Resources of this type carry no name of their own.
    #[error(
        "resources of type `{type_url}` carry no name: wrap them in `envoy.service.discovery.v3.Resource`"
    )]
    NoNameField {
        /// The type URL.
        type_url: String,
    },
    /// A `Resource` wrapper is empty.
    #[error("the `Resource` wrapper holds no resource")]
    EmptyWrapper,
    /// A response announces one type and carries another.
    #[error("the resource is of type `{found}`, but the response is of type `{expected}`")]
    TypeMismatch {
        /// The `type_url` of the response.
        expected: String,
        /// The type of the resource.
        found: String,
    },
    /// The documents of one file disagree on the version.
    #[error("version_info is `{second}` here and `{first}` earlier in this file")]
    VersionConflict {
        /// The earlier version.
        first: String,
        /// The later one.
        second: String,
    },
    /// Messages or lists nest too deeply.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The file has more values than the limit.
    #[error("more than {limit} values in one file")]
    TooManyNodes {
        /// The limit.
        limit: usize,
    },
    /// YAML aliases expand to more than the limit: an alias bomb.
    #[error("aliases expand to more than {limit} bytes")]
    AliasBudget {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The bytes are no encoding of the message.
    #[error("cannot decode as `{message}`: {reason}")]
    Corrupt {
        /// The full name of the message.
        message: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The value is well-formed, but a constraint of the schema forbids it: the option
    /// `validate.rules`.
    #[error("{reason}")]
    Constraint {
        /// The constraint, by its name in that option: `min_len`, `lte`, `required`.
        rule: &'static str,
        /// What has to be so, and what is.
        reason: String,
    },
    /// JSON and YAML have no form for an `Any`: the schema lacks its type, or its type URL names no type.
    #[error("an `Any` cannot be written as JSON or YAML: {}", no_type(.type_url))]
    UnprintableAny {
        /// The type URL in the `Any`.
        type_url: String,
    },
    /// A descriptor set cannot be read or contradicts itself.
    #[error("invalid descriptor set: {reason}")]
    Descriptors {
        /// What the descriptor reader says.
        reason: String,
    },
}

impl ErrorKind {
    pub(crate) fn corrupt(message: &str, reason: WireError) -> Self {
        Self::Corrupt { message: message.to_owned(), reason: reason.to_string() }
    }
}

fn no_type(type_url: &str) -> String {
    match type_url.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => format!("the schema lacks the type `{type_url}`"),
        _ if type_url.is_empty() => "it holds a value and no type URL".to_owned(),
        _ => format!("`{type_url}` is no type URL"),
    }
}

fn dotted(suffix: &Option<String>) -> String {
    suffix.as_ref().map(|suffix| format!(" `.{suffix}`")).unwrap_or_default()
}

fn did_you_mean_or_add(suggestion: &Option<String>) -> String {
    match suggestion {
        Some(_) => did_you_mean(suggestion),
        None => {
            ": the schema lacks it; a descriptor set can add it (`--descriptors FILE`)".to_owned()
        }
    }
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map(|name| format!(", did you mean `{name}`?")).unwrap_or_default()
}

/// An error on its way up: it knows its place in the text, not yet the name of the file.
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

/// The way down to a value, built on the stack so that it costs nothing until an error prints it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'p> {
    /// The top of the file or message.
    Root,
    /// A part of a file, by the path to it.
    Raw(&'p str),
    /// A field of a message.
    Field(&'p Self, &'p str),
    /// An element of a list.
    Index(&'p Self, usize),
    /// A value of a map.
    Key(&'p Self, &'p str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Raw(path) => f.write_str(path),
            Self::Field(parent @ (Self::Root | Self::Raw("")), name) => {
                write!(f, "{parent}{}", abbreviate(name))
            }
            Self::Field(parent, name) => write!(f, "{parent}.{}", abbreviate(name)),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[{:?}]", abbreviate(key)),
        }
    }
}

/// Names from the input may be megabytes long; an error message shows their beginning.
pub(crate) fn abbreviate(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
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
    fn paths_read_like_code() {
        let resources = Path::Field(&Path::Root, "resources");
        let third = Path::Index(&resources, 3);
        let metadata = Path::Field(&third, "filter_metadata");
        assert_eq!(
            Path::Key(&metadata, "envoy.lb").to_string(),
            r#"resources[3].filter_metadata["envoy.lb"]"#
        );
        assert_eq!(Path::Field(&Path::Index(&Path::Root, 0), "name").to_string(), "[0].name");
    }

    #[test]
    fn long_names_are_cut() {
        let name = "ä".repeat(1 << 20);
        assert_eq!(abbreviate(&name), format!("{}... (2097152 bytes)", "ä".repeat(120)));
    }

    #[test]
    fn an_error_is_small_to_return() {
        assert_eq!(size_of::<FormatError>(), size_of::<usize>());
    }
}
