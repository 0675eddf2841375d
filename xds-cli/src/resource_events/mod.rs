//! Events about resources: values, removals and errors.

mod json;

use core::fmt;
use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use serde_json::Value as Json;
use xds_core::{
    StatusCode, TypeUrl,
    client::{ChannelError, WatchError, WatchErrorKind},
};

pub(crate) use self::json::object;
use crate::{place::FilePlace, text::type_name, tls_advice::TlsOptions};

/// Event about one resource, or about all resources of a type.
#[derive(Clone, Debug)]
pub(crate) struct WatchEvent {
    pub(crate) type_url: TypeUrl,
    /// Name of the resource; `None` for the whole type.
    pub(crate) name: Option<String>,
    pub(crate) kind: EventKind,
}

impl WatchEvent {
    /// Marks the resource as static if it is one of `resources`.
    pub(crate) fn with_static(mut self, resources: &BTreeSet<(TypeUrl, String)>) -> Self {
        if let (EventKind::Changed { new, .. }, Some(name)) = (&mut self.kind, &self.name)
            && resources.contains(&(self.type_url.clone(), name.clone()))
        {
            new.version = Version::Static;
        }
        self
    }

    /// Error of the event, if there is one.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match &self.kind {
            EventKind::Removed(problem)
            | EventKind::Ambient(Some(problem))
            | EventKind::Error(problem) => Some(problem),
            EventKind::Changed { .. } | EventKind::Ambient(None) => None,
        }
    }

    /// Short name of the type, such as `cds`.
    pub(crate) fn type_name(&self) -> &str {
        type_name(self.type_url.as_str())
    }
}

#[derive(Clone, Debug)]
pub(crate) enum EventKind {
    /// The resource has a new value.
    Changed { old: Option<ResourceState>, new: ResourceState },
    /// The resource is removed: its value is no longer used.
    Removed(Problem),
    /// Ambient error: the value stays in use. `None` if the error is resolved.
    Ambient(Option<Problem>),
    /// Error: there is no value to use.
    Error(Problem),
}

/// Value of a resource with its version.
#[derive(Clone, Debug)]
pub(crate) struct ResourceState {
    pub(crate) version: Version,
    pub(crate) bytes: Bytes,
    /// Resource as canonical JSON, without secrets.
    pub(crate) json: Arc<Json>,
}

/// Version of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Version sent by the server.
    Stated(String),
    /// The server sent an empty version.
    Unstated,
    /// The resource is part of the bootstrap and has no version.
    Static,
}

impl Version {
    /// Returns the version, if there is one.
    pub(crate) fn stated(&self) -> Option<&str> {
        match self {
            Self::Stated(version) => Some(version),
            Self::Unstated | Self::Static => None,
        }
    }

    /// Returns the version, or `none` or `static`.
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

/// Error of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Reason with the resource, the node and the server.
    pub(crate) text: String,
    /// Reason only.
    pub(crate) reason: String,
    /// File that cannot be read or is invalid.
    pub(crate) place: Option<FilePlace>,
}

impl From<WatchError> for Problem {
    fn from(error: WatchError) -> Self {
        let place = match error.kind() {
            WatchErrorKind::Unavailable(ChannelError::Unreadable(why)) => {
                FilePlace::of_message(why)
            }
            _ => None,
        };
        let named = |text: String| TlsOptions::Client.named_in(&text);
        let (text, reason) = (named(error.to_string()), named(error.kind().to_string()));
        match error.kind() {
            WatchErrorKind::Unavailable(ChannelError::Status { code, message }) => {
                let explained = |text: String| explained(&text, *code, message);
                Self { text: explained(text), reason: explained(reason), place }
            }
            // The error of a whole type.
            WatchErrorKind::DoesNotExist(after) if error.name().is_none() => {
                let unanswered = format!("no answer within {} s: {UNANSWERED}", after.as_secs());
                Self { text: text.replacen(&reason, &unanswered, 1), reason: unanswered, place }
            }
            _ => Self { text, reason, place },
        }
    }
}

/// Reason for a request for all resources of a type without an answer.
pub(crate) const UNANSWERED: &str =
    "without --delta, servers need not answer a request for a whole type, except for lds and cds";

/// Whether a server that is polled has sent no HTTP response, by the messages of `xds-rest`.
pub(crate) fn is_without_response(error: &ChannelError) -> bool {
    match error {
        ChannelError::Status { code: StatusCode::Unavailable, message } => {
            message.starts_with("no response: ")
        }
        ChannelError::Status { code: StatusCode::DeadlineExceeded, message } => {
            message.starts_with("no response within ")
        }
        _ => false,
    }
}

/// Adds the name of a gRPC status code to the text of an error, and advice.
pub(crate) fn explained(text: &str, code: StatusCode, message: &str) -> String {
    let number = format!("status {}", code.as_i32());
    let named = format!("{number} ({code})");
    let advice = match code {
        StatusCode::Unimplemented => {
            "; this address does not offer the discovery service: is it that of --csds?"
        }
        // The message of `xds-rest` if a connection ends without a response. It has such advice if the
        // server sent something else than HTTP/1.
        StatusCode::Unavailable
            if message.starts_with("no response: ")
                && !message.contains("fatal alert")
                && !message.contains("the server does not speak HTTP")
                && !message.contains("is it a gRPC or TLS port?") =>
        {
            "; --poll uses HTTP/1.1: is it a gRPC or TLS port?"
        }
        _ => "",
    };
    format!("{}{advice}", text.replacen(&number, &named, 1))
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { reason: text.clone(), text, place: None }
    }
}
