//! What `xds watch` has to say.

use core::fmt;
use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use serde_json::Value as Json;
use xds_core::{TypeUrl, client::WatchError};

use crate::text::type_name;

/// Something that happened to one resource, or to all of a type.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) type_url: TypeUrl,
    /// The resource; `None` for the collection of all of them.
    pub(crate) name: Option<String>,
    pub(crate) news: News,
}

impl Event {
    /// The event, whose resource is static if it is one of these.
    pub(crate) fn with_static(mut self, resources: &BTreeSet<(TypeUrl, String)>) -> Self {
        if let (News::Changed { new, .. }, Some(name)) = (&mut self.news, &self.name)
            && resources.contains(&(self.type_url.clone(), name.clone()))
        {
            new.version = Version::Static;
        }
        self
    }

    /// The type, as in `cds`.
    pub(crate) fn type_name(&self) -> &str {
        type_name(self.type_url.as_str())
    }
}

#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The resource has a new value.
    Changed { old: Option<State>, new: State },
    /// The resource had a value, which is not used any more.
    Removed(Problem),
    /// Something is wrong, but the value stays in use; or, with `None`, it no longer is.
    Ambient(Option<Problem>),
    /// There is no value to use.
    Error(Problem),
}

/// A resource as it is at one time.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) version: Version,
    pub(crate) bytes: Bytes,
    /// The resource in canonical JSON, secrets hidden.
    pub(crate) json: Arc<Json>,
}

/// What distinguishes a state of a resource from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// What the server says.
    Stated(String),
    /// The server says nothing.
    Unstated,
    /// None: the resource is part of the bootstrap.
    Static,
}

impl Version {
    /// The version, if there is one.
    pub(crate) fn stated(&self) -> Option<&str> {
        match self {
            Self::Stated(version) => Some(version),
            Self::Unstated | Self::Static => None,
        }
    }

    /// Without the word for what it is.
    pub(crate) fn short(&self) -> &str {
        match self {
            Self::Stated(version) => version,
            Self::Unstated => "none",
            Self::Static => "static",
        }
    }
}

impl From<&str> for Version {
    fn from(version: &str) -> Self {
        if version.is_empty() { Self::Unstated } else { Self::Stated(version.to_owned()) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stated(version) => write!(f, "version {version}"),
            Self::Unstated => f.write_str("no version"),
            Self::Static => f.write_str("static"),
        }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// With what it is wrong, the node and the server.
    pub(crate) text: String,
    /// Only that.
    pub(crate) reason: String,
}

impl From<WatchError> for Problem {
    fn from(error: WatchError) -> Self {
        Self { text: error.to_string(), reason: error.kind().to_string() }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { reason: text.clone(), text }
    }
}
