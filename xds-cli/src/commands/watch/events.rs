//! What `xds watch` has to say.

use std::sync::Arc;

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
    pub(crate) version: String,
    pub(crate) bytes: Bytes,
    /// The resource in canonical JSON, secrets hidden.
    pub(crate) json: Arc<Json>,
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
