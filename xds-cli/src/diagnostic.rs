//! Diagnostics: findings about files, each with its rule, severity and position.

use core::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use xds_core::references::{ResourceId, Severity};
use xds_format::{ErrorKind, FormatError, Position};

use crate::{
    style::Style,
    text::{escaped, type_name},
};

/// Kind of a diagnostic. Its id is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    InvalidFile,
    RejectedResource,
    DanglingReference,
    UncheckedReference,
    UnreferencedResource,
    MalformedResource,
    Deprecated,
    Bootstrap,
    NamedFile,
    InvalidViews,
    UnusedView,
    InvalidPolicy,
    Guard,
    NoResources,
}

impl Rule {
    pub(crate) const ALL: [Self; 14] = [
        Self::InvalidFile,
        Self::RejectedResource,
        Self::DanglingReference,
        Self::UncheckedReference,
        Self::UnreferencedResource,
        Self::MalformedResource,
        Self::Deprecated,
        Self::Bootstrap,
        Self::NamedFile,
        Self::InvalidViews,
        Self::UnusedView,
        Self::InvalidPolicy,
        Self::Guard,
        Self::NoResources,
    ];

    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::InvalidFile => "invalid-file",
            Self::RejectedResource => "rejected-resource",
            Self::DanglingReference => "dangling-reference",
            Self::UncheckedReference => "unchecked-reference",
            Self::UnreferencedResource => "unreferenced-resource",
            Self::MalformedResource => "malformed-resource",
            Self::Deprecated => "deprecated",
            Self::Bootstrap => "bootstrap",
            Self::NamedFile => "named-file",
            Self::InvalidViews => "invalid-views",
            Self::UnusedView => "unused-view",
            Self::InvalidPolicy => "invalid-policy",
            Self::Guard => "guard",
            Self::NoResources => "no-resources",
        }
    }

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::InvalidFile => "A file of resources cannot be read or has an error.",
            Self::RejectedResource => {
                "Clients reject a resource that violates a constraint of the API."
            }
            Self::DanglingReference => "A resource refers to one that does not exist.",
            Self::UncheckedReference => {
                "A reference is not checked, because a broken file may define its target."
            }
            Self::UnreferencedResource => {
                "Nothing refers to a resource that is used only by reference."
            }
            Self::MalformedResource => "The bytes of a resource are not a message of its type.",
            Self::Deprecated => {
                "A resource uses a deprecated field or enum value, or a type of an earlier version."
            }
            Self::Bootstrap => "A bootstrap has an error, or a part that is ignored.",
            Self::NamedFile => "A file that a bootstrap names is missing or cannot be used.",
            Self::InvalidViews => "A file of views cannot be read or has an error.",
            Self::UnusedView => {
                "A rule for views names one that does not exist, or no rule leads to a view."
            }
            Self::InvalidPolicy => "A policy of rollouts cannot be read or has an error.",
            Self::Guard => {
                "The resources violate a rule of --guard, or it names a view that does not exist."
            }
            Self::NoResources => {
                "A directory has no resources, or has some in subdirectories that are not read."
            }
        }
    }
}

/// Severity of a diagnostic. Notes are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warning,
    Note,
}

impl Level {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Warning => Self::Warning,
            _ => Self::Error,
        }
    }
}

/// Finding about a file, or about a resource in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    pub(crate) rule: Rule,
    pub(crate) level: Level,
    pub(crate) file: PathBuf,
    /// Line and column in the file, for text formats.
    pub(crate) position: Option<Position>,
    /// Path of the field; empty if the diagnostic is not about one.
    pub(crate) field: String,
    pub(crate) resource: Option<ResourceId>,
    /// Description, without file and position.
    pub(crate) text: String,
    /// Number of further errors of the file that the diagnostic stands for.
    pub(crate) more: usize,
}

impl Diagnostic {
    pub(crate) fn new(rule: Rule, level: Level, file: &Path, text: impl Into<String>) -> Self {
        let (file, text) = (file.to_owned(), text.into());
        let (position, resource) = (None, None);
        Self { rule, level, file, position, field: String::new(), resource, text, more: 0 }
    }

    /// Creates the diagnostic that stands for further errors of a file.
    pub(crate) fn of_more(file: &Path, more: usize) -> Self {
        let text = format!("and {more} more errors");
        Self { more, ..Self::new(Rule::InvalidFile, Level::Error, file, text) }
    }

    pub(crate) fn at(self, position: Option<Position>) -> Self {
        Self { position, ..self }
    }

    pub(crate) fn in_field(self, field: impl Into<String>) -> Self {
        Self { field: field.into(), ..self }
    }

    pub(crate) fn about(self, resource: ResourceId) -> Self {
        Self { resource: Some(resource), ..self }
    }

    /// Returns the error of a file that cannot be parsed.
    pub(crate) fn of_format(rule: Rule, file: &Path, error: &FormatError) -> Self {
        let (kind, option) = (error.kind(), option_for(error.kind()));
        let text = match error.path() {
            "" => format!("{kind}{option}"),
            path => format!("{path}: {kind}{option}"),
        };
        Self::new(rule, Level::Error, file, text).at(error.position()).in_field(error.path())
    }

    /// Formats the diagnostic as one line that begins with its coloured severity.
    pub(crate) fn line(&self, style: Style) -> String {
        let word = self.level.word();
        let word = match self.level {
            Level::Error => style.bad(word),
            Level::Warning => style.notable(word),
            Level::Note => style.quiet(word),
        };
        format!("{word}: {}", escaped(&self.to_string()))
    }

    /// Formats the diagnostic as an event.
    pub(crate) fn to_json(&self) -> Json {
        let mut object = match self.rule {
            Rule::InvalidFile | Rule::InvalidViews => {
                json!({ "event": "file_error", "error": self.to_string() })
            }
            _ => json!({ "event": "finding", "finding": self.text }),
        };
        object["severity"] = self.level.word().into();
        object["rule"] = self.rule.id().into();
        object["file"] = self.file.display().to_string().into();
        object["line"] = self.position.map(|it| it.line).into();
        object["column"] = self.position.map(|it| it.column).into();
        if !self.field.is_empty() {
            object["field"] = self.field.as_str().into();
        }
        if self.more > 0 {
            object["more"] = self.more.into();
        }
        if let Some(resource) = &self.resource {
            object["type"] = type_name(resource.type_url.as_str()).into();
            object["name"] = resource.name.as_str().into();
        }
        object
    }
}

/// Writes file, position and description.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(position) = self.position {
            write!(f, ":{position}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// Returns the option that helps against an error, as an addition to its text.
pub(crate) const fn option_for(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::UnknownType { suggestion: None, .. } => " (`--descriptors FILE`)",
        _ => "",
    }
}
