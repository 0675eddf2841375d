//! Errors and warnings of a configuration, with the field that they concern.
//!
//! They contain names of fields and kinds of values, never the value of a field that may be secret.

use std::{fmt, sync::Arc};

use thiserror::Error;
use xds_core::client::FeatureWarning;

/// Error that rejects a configuration. Its `Display` form is one line:
///
/// ```text
/// /etc/xds.json: xds_servers[1].channel_creds[0].type: expected a string, found a number
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapError {
    source_name: Option<Arc<str>>,
    /// Environment variable that names the source.
    variable: Option<&'static str>,
    path: String,
    kind: ErrorKind,
}

impl BootstrapError {
    pub(crate) fn new(path: impl Into<String>, kind: ErrorKind) -> Self {
        Self { source_name: None, variable: None, path: path.into(), kind }
    }

    pub(crate) fn in_source(mut self, name: impl Into<Arc<str>>) -> Self {
        self.source_name = Some(name.into());
        self
    }

    pub(crate) const fn named_by(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// Returns the source of the configuration: the path of a file or the name of a variable.
    #[must_use]
    pub fn source_name(&self) -> Option<&str> {
        self.source_name.as_deref()
    }

    /// Returns the path of the field from the top of the configuration, such as
    /// `xds_servers[1].server_uri`; empty at the top.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the reason.
    #[must_use]
    pub const fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.source_name, self.variable) {
            (Some(name), Some(variable)) => write!(f, "{name} ({variable}): ")?,
            (Some(name), None) => write!(f, "{name}: ")?,
            (None, _) => {}
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for BootstrapError {}

/// Reason of a [`BootstrapError`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No source of a bootstrap is configured.
    // BS-01
    #[error("no bootstrap: neither GRPC_XDS_BOOTSTRAP nor GRPC_XDS_BOOTSTRAP_CONFIG is set")]
    NotConfigured,
    /// The file cannot be read.
    // BS-02
    #[error("cannot read: {0}")]
    Unreadable(Arc<str>),
    /// The text is longer than the limit.
    #[error("longer than {limit} bytes")]
    TooLong {
        /// Limit in bytes.
        limit: usize,
    },
    /// The text is not valid JSON.
    // BS-02
    #[error("line {line}, column {column}: invalid JSON: {reason}")]
    Syntax {
        /// Line number, from 1.
        line: usize,
        /// Column number in bytes, from 1.
        column: usize,
        /// Message of the parser.
        reason: Arc<str>,
    },
    /// A required field is absent.
    #[error("required, but missing")]
    Missing,
    /// A field that must not be empty is empty.
    #[error("must not be empty")]
    Empty,
    /// A value has the wrong type for its field.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// Type that the field accepts.
        expected: &'static str,
        /// Type of the value found.
        found: &'static str,
    },
    /// A value has the right type, but the field does not accept it.
    #[error("{0}")]
    InvalidValue(&'static str),
    /// The message type has no such field.
    #[error("unknown field")]
    UnknownField,
    /// A field is given in both spellings of its name.
    #[error("already set as `{0}`")]
    TwoSpellings(Arc<str>),
    /// More than one of several mutually exclusive fields is set.
    #[error("must not be set together with `{0}`")]
    Excludes(&'static str),
    /// The enum has no such value.
    #[error("unknown value, expected one of {0}")]
    UnknownEnumValue(&'static str),
    /// None of the listed credentials is supported. Contains their types.
    // BS-07
    #[error("no supported type: found {}", if .0.is_empty() { "none".into() } else { .0.join(", ") })]
    NoSupportedCredentials(Vec<String>),
    /// A certificate file is given without its key file, or the reverse.
    // A65
    #[error("must be given together with `{0}`")]
    Needs(&'static str),
    /// A listener template creates names outside its authority.
    // BS-18
    #[error("must start with \"xdstp://{authority}/\"")]
    TemplateOutsideAuthority {
        /// Authority of the template, percent-encoded as in resource names.
        authority: String,
    },
    /// The transport does not support the type, which exists only in the incremental variant.
    // S0.042, S0.180
    #[error("{short} is available only in the incremental variant, but api_type is {api_type}")]
    IncrementalOnly {
        /// Short name of the type.
        short: &'static str,
        /// Name of the transport.
        api_type: &'static str,
    },
    /// An aggregated stream over REST does not exist.
    // S0.204
    #[error("REST does not support aggregated streams")]
    RestAggregated,
    /// A source uses the aggregated stream, but the bootstrap does not configure one.
    // S0.059
    #[error("missing, but used by `{0}`")]
    AdsMissing(String),
    /// A source is a server or a file. gRPC supports only the aggregated stream.
    // S0.060, S0.062
    #[error("must be `ads` or `self` for gRPC")]
    NotAggregated,
}

/// Part of a configuration that is ignored, reported to its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    path: String,
    kind: WarningKind,
}

impl Warning {
    pub(crate) fn new(path: impl Into<String>, kind: WarningKind) -> Self {
        Self { path: path.into(), kind }
    }

    /// Returns the path of the field.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the reason.
    #[must_use]
    pub const fn kind(&self) -> &WarningKind {
        &self.kind
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.kind)
    }
}

/// Reason of a [`Warning`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// A server feature is misspelled or deprecated.
    // B36, BS-12, D30
    #[error("{0}")]
    Feature(FeatureWarning),
    /// The type of credentials is known but not supported.
    #[error("credentials of type `{0}` are not supported")]
    UnsupportedCredentials(&'static str),
    /// The type of call credentials is unknown. Calls are made without them.
    // BS-23
    #[error("call credentials of type {0:?} are not supported: calls are made without them")]
    UnknownCallCredentials(Box<str>),
    /// A field of version 2 of the API, read as its version 3 equivalent.
    // X43
    #[error("field of version 2 of the API, read as `{now}`")]
    Version2 {
        /// Equivalent field of version 3.
        now: &'static str,
    },
    /// A feature switch is off, so this part is not used.
    #[error("ignored because {0} is disabled")]
    SwitchedOff(&'static str),
}
