//! Grammar and encoding of a scripted server's responses.
//!
//! A response is `TYPE v=VERSION n=NONCE [cp=ID] ITEM..`, where an item is one of:
//!
//! | item | meaning |
//! |---|---|
//! | `NAME=TEXT` | a resource; a text that starts with `bad` is invalid, and one that starts with `privileged` is invalid unless the server is trusted |
//! | `NAME*COUNT=TEXT` | COUNT resources, numbered from one |
//! | `%LENGTH=TEXT` | a resource with a name of LENGTH bytes |
//! | `TYPE/NAME=TEXT` | a resource of another type |
//! | `~` | bytes that cannot be decoded |
//! | `{OPTIONS}ITEM` | an item in a wrapper; options are `name=`, `v=`, `ttl=10s`, `meta=KEY` |
//! | `{OPTIONS}` | a wrapper without content, such as a heartbeat |
//! | `{~}` | a wrapper that cannot be decoded |
//! | `!NAME=CODE[:TEXT]` | an error of one resource; dashes in the text stand for spaces |

use std::time::Duration;

use bytes::Bytes;
use prost::{Message as _, Name as _};
use xds_core::{proto, types};

use super::command::{duration, expand_name};
use crate::Toy;

/// Response of a scripted server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of a DiscoveryResponse")]
pub struct ScriptedResponse {
    pub type_name: String,
    pub version: String,
    pub nonce: String,
    pub control_plane: Option<String>,
    pub resources: Vec<Resource>,
    pub errors: Vec<ResourceError>,
}

/// One resource of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the module documentation describes the forms")]
pub enum Resource {
    Named { type_name: Option<String>, name: String, text: String },
    Undecodable,
    UndecodableWrapper,
    Wrapped { wrapper: Wrapper, content: Option<Box<Self>> },
}

/// Contents of a `Resource` wrapper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of a Resource")]
pub struct Wrapper {
    pub name: String,
    pub version: String,
    pub ttl: Option<Duration>,
    pub metadata: Option<String>,
}

/// Error of one resource in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of a ResourceError")]
pub struct ResourceError {
    pub name: String,
    pub code: i32,
    pub message: String,
}

/// Parses the arguments of `respond`.
///
/// # Errors
///
/// Returns an error if the arguments are malformed. The text describes the fault.
pub(super) fn parse(type_name: &str, words: &[&str]) -> Result<ScriptedResponse, String> {
    let [version, nonce, items @ ..] = words else {
        return Err("a response needs v= and n=".into());
    };
    let field = |word: &str, key: &str| {
        word.strip_prefix(key)
            .map(str::to_owned)
            .ok_or_else(|| format!("expected {key}, got `{word}`"))
    };
    let (control_plane, items) = match items {
        [first, items @ ..] if first.starts_with("cp=") => (Some(field(first, "cp=")?), items),
        items => (None, items),
    };
    let (errors, resources): (Vec<&str>, Vec<&str>) =
        items.iter().partition(|item| item.starts_with('!'));
    Ok(ScriptedResponse {
        type_name: type_name.into(),
        version: field(version, "v=")?,
        nonce: field(nonce, "n=")?,
        control_plane,
        resources: self::resources(&resources)?,
        errors: errors.into_iter().map(resource_error).collect::<Result<_, _>>()?,
    })
}

/// Parses resources of a response or of the server's store.
pub(super) fn resources(words: &[&str]) -> Result<Vec<Resource>, String> {
    let mut found = Vec::new();
    for &word in words {
        match word {
            "~" => found.push(Resource::Undecodable),
            "{~}" => found.push(Resource::UndecodableWrapper),
            _ => match word.strip_prefix('{') {
                Some(rest) => found.extend(wrapped(rest)?),
                None => found.extend(named(word)?),
            },
        }
    }
    Ok(found)
}

fn wrapped(rest: &str) -> Result<Vec<Resource>, String> {
    let (options, content) =
        rest.split_once('}').ok_or_else(|| format!("`{{{rest}` has no closing brace"))?;
    let mut wrapper = Wrapper::default();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("name", name)) => wrapper.name = name.into(),
            Some(("v", version)) => wrapper.version = version.into(),
            Some(("ttl", ttl)) => wrapper.ttl = Some(duration(ttl)?),
            Some(("meta", key)) => wrapper.metadata = Some(key.into()),
            _ => return Err(format!("unknown wrapper option `{option}`")),
        }
    }
    if content.is_empty() {
        return Ok(vec![Resource::Wrapped { wrapper, content: None }]);
    }
    let wrap = |content| {
        let content = Some(Box::new(content));
        Resource::Wrapped { wrapper: wrapper.clone(), content }
    };
    Ok(resources(&[content])?.into_iter().map(wrap).collect())
}

fn named(word: &str) -> Result<Vec<Resource>, String> {
    // A structured name may contain `=`.
    let split = match word.starts_with("xdstp:") {
        true => word.rsplit_once('='),
        false => word.split_once('='),
    };
    let (name, text) = split.ok_or_else(|| format!("`{word}` is not of the form NAME=TEXT"))?;
    let (type_name, name) = match name.split_once('/').filter(|(before, _)| !before.ends_with(':'))
    {
        Some((type_name, name)) => (Some(type_name.to_owned()), name),
        None => (None, name),
    };
    let names = match name.split_once('*') {
        Some((prefix, count)) => {
            let count: usize = count.parse().map_err(|_| format!("`{count}` is not a count"))?;
            (1..=count).map(|n| format!("{prefix}{n}")).collect()
        }
        None => vec![expand_name(name)?],
    };
    let resource = |name| Resource::Named { type_name: type_name.clone(), name, text: text.into() };
    Ok(names.into_iter().map(resource).collect())
}

pub(super) fn resource_error(word: &str) -> Result<ResourceError, String> {
    let wrong = || format!("`{word}` is not of the form !NAME=CODE:TEXT");
    let (name, status) =
        word.strip_prefix('!').and_then(|word| word.rsplit_once('=')).ok_or_else(wrong)?;
    let (code, message) = status.split_once(':').unwrap_or((status, ""));
    Ok(ResourceError {
        name: expand_name(name)?,
        code: code.parse().map_err(|_| wrong())?,
        message: message.replace('-', " "),
    })
}

impl ScriptedResponse {
    /// Encodes the response as a `DiscoveryResponse`.
    pub(super) fn encode(&self) -> Bytes {
        let url = type_url(&self.type_name);
        let identified = |identifier| proto::ControlPlane { identifier };
        proto::DiscoveryResponse {
            version_info: self.version.clone(),
            nonce: self.nonce.clone(),
            resources: self.resources.iter().map(|resource| resource.encode(&url)).collect(),
            type_url: url,
            control_plane: self.control_plane.clone().map(identified),
            resource_errors: self.errors.iter().map(ResourceError::message).collect(),
            ..proto::DiscoveryResponse::default()
        }
        .encode_to_vec()
        .into()
    }
}

impl ResourceError {
    pub(super) fn message(&self) -> proto::ResourceError {
        let name = proto::ResourceName { name: self.name.clone(), ..Default::default() };
        proto::ResourceError {
            resource_name: (!self.name.is_empty()).then_some(name),
            error_detail: Some(proto::Status {
                code: self.code,
                message: self.message.clone(),
                ..Default::default()
            }),
        }
    }
}

impl Resource {
    fn encode(&self, url: &str) -> proto::Any {
        const CUT_OFF: Bytes = Bytes::from_static(&[0x0a, 0x7f]);
        match self {
            Self::Undecodable => proto::Any { type_url: url.into(), value: CUT_OFF },
            Self::UndecodableWrapper => {
                proto::Any { type_url: proto::Resource::type_url(), value: CUT_OFF }
            }
            Self::Named { type_name, name, text } => proto::Any {
                type_url: type_name.as_deref().map_or_else(|| url.into(), type_url),
                value: Toy::bytes(name, text),
            },
            Self::Wrapped { wrapper, content } => {
                let content = content.as_ref().map(|content| content.encode(url));
                let value = wrapper.encode(content).encode_to_vec().into();
                proto::Any { type_url: proto::Resource::type_url(), value }
            }
        }
    }
}

impl Wrapper {
    fn encode(&self, resource: Option<proto::Any>) -> proto::Resource {
        let metadata = |key: &String| proto::Metadata {
            filter_metadata: [(key.clone(), proto::Struct::default())].into(),
            ..proto::Metadata::default()
        };
        proto::Resource {
            name: self.name.clone(),
            version: self.version.clone(),
            resource,
            ttl: self.ttl.map(|ttl| proto::Duration {
                seconds: ttl.as_secs() as i64,
                nanos: ttl.subsec_nanos() as i32,
            }),
            metadata: self.metadata.as_ref().map(metadata),
            ..proto::Resource::default()
        }
    }
}

/// Returns the type URL of a short name.
pub(super) fn type_url(name: &str) -> String {
    types::by_short_name(name).map_or_else(|| format!("type.googleapis.com/{name}"), str::to_owned)
}
