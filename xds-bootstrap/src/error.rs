//! What is wrong with a configuration, and where.
//!
//! Errors name fields and kinds of values, never the values of fields that may hold a secret.

use std::{fmt, sync::Arc};

use thiserror::Error;
use xds_core::client::FeatureWarning;

/// Why a configuration was refused. Prints as one line, the most useful part last:
///
/// ```text
/// /etc/xds.json: xds_servers[1].channel_creds[0].type: expected a string, found a number
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapError {
    source_name: Option<Arc<str>>,
    path: String,
    kind: ErrorKind,
}

impl BootstrapError {
    pub(crate) fn new(path: impl Into<String>, kind: ErrorKind) -> Self {
        Self { source_name: None, path: path.into(), kind }
    }

    pub(crate) fn in_source(mut self, name: impl Into<Arc<str>>) -> Self {
        self.source_name = Some(name.into());
        self
    }

    /// Where the configuration came from: a file's path or an environment variable's name.
    #[must_use]
    pub fn source_name(&self) -> Option<&str> {
        self.source_name.as_deref()
    }

    /// The field, from the top of the configuration, as in `xds_servers[1].server_uri`; empty at the
    /// top.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong.
    #[must_use]
    pub const fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.source_name {
            write!(f, "{name}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for BootstrapError {}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No source of a bootstrap is configured (BS-01).
    #[error("no bootstrap: neither GRPC_XDS_BOOTSTRAP nor GRPC_XDS_BOOTSTRAP_CONFIG is set")]
    NotConfigured,
    /// The file cannot be read (BS-02).
    #[error("cannot read: {0}")]
    Unreadable(Arc<str>),
    /// The text is longer than the limit.
    #[error("longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The text is not JSON (BS-02).
    #[error("line {line}, column {column}: {reason}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in bytes.
        column: usize,
        /// The parser's words.
        reason: Arc<str>,
    },
    /// A required field is absent.
    #[error("required, but missing")]
    Missing,
    /// A field that must have a content has none.
    #[error("must not be empty")]
    Empty,
    /// A value is of another kind than the field.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What the field takes.
        expected: &'static str,
        /// What there is.
        found: &'static str,
    },
    /// A value is of the right kind, but not one that the field takes.
    #[error("{0}")]
    InvalidValue(&'static str),
    /// A message has no such field.
    #[error("unknown field")]
    UnknownField,
    /// A field is there in both of its spellings.
    #[error("also given as `{0}`")]
    TwoSpellings(Arc<str>),
    /// Of fields that exclude each other more than one is set.
    #[error("excludes `{0}`, which is set as well")]
    Excludes(&'static str),
    /// An enum has no such value.
    #[error("no such value; known are {0}")]
    UnknownEnumValue(&'static str),
    /// None of the credentials offered is supported (BS-07).
    #[error("no supported type; offered: {}", if .0.is_empty() { "none".into() } else { .0.join(", ") })]
    NoSupportedCredentials(Vec<String>),
    /// A file of a certificate is given without the one of its key, or the other way (A65).
    #[error("must be given together with `{0}`")]
    Needs(&'static str),
    /// A template makes names of another authority (BS-18).
    #[error("must start with \"xdstp://{authority}/\"")]
    TemplateOutsideAuthority {
        /// The authority the template belongs to, as it is escaped in names.
        authority: String,
    },
    /// A transport that cannot carry what it is configured for (S0.042, S0.180).
    #[error("{short} has only an incremental variant, which {api_type} is not")]
    IncrementalOnly {
        /// The type's message name.
        short: &'static str,
        /// The transport.
        api_type: &'static str,
    },
    /// REST cannot be aggregated (S0.204).
    #[error("an aggregated stream cannot be had over REST")]
    RestAggregated,
    /// A configuration uses the aggregated stream and does not say where it is (S0.059).
    #[error("used by `{0}`, but missing")]
    AdsMissing(String),
    /// gRPC knows no way to get resources but the stream it has (S0.060, S0.062).
    #[error("must be `ads` or `self` in gRPC's profile")]
    NotAggregated,
}

/// Something in a configuration that is passed over, but that its author should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    path: String,
    kind: WarningKind,
}

impl Warning {
    pub(crate) fn new(path: impl Into<String>, kind: WarningKind) -> Self {
        Self { path: path.into(), kind }
    }

    /// The field it is about.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it says.
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

/// What a warning says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// A server feature is odd (B36, BS-12, D30).
    #[error("{0}")]
    Feature(FeatureWarning),
    /// Credentials that are known, but cannot be used.
    #[error("credentials of type `{0}` are known, but not supported")]
    UnsupportedCredentials(&'static str),
    /// Call credentials of a type that is not known. Calls are made without them (BS-23).
    #[error("call credentials of type {0:?} are not known, and calls are made without them")]
    UnknownCallCredentials(Box<str>),
    /// A field of version 2 of the API, which version 3 has in another place (X43).
    #[error("of version 2 of the API; read as `{now}`")]
    Version2 {
        /// The field of version 3.
        now: &'static str,
    },
    /// A guard keeps this part out of use.
    #[error("not used: {0} is off")]
    GuardedOff(&'static str),
}
