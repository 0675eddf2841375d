//! Grammar and encoding of a scripted server's incremental responses.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{proto, types};

use super::response::{ResourceError, resource_error};
use crate::Toy;

/// An incremental response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of a DeltaDiscoveryResponse")]
pub struct Update {
    pub type_name: String,
    pub nonce: String,
    pub resources: Vec<Versioned>,
    pub removed: Vec<String>,
    pub errors: Vec<ResourceError>,
}

/// One resource of an incremental response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of a Resource")]
pub struct Versioned {
    pub type_name: Option<String>,
    pub name: String,
    pub version: String,
    pub aliases: Vec<String>,
    pub ttl: Option<Duration>,
    /// Text of the resource; `None` is a wrapper without a resource.
    pub text: Option<String>,
}

/// Parses the arguments of `update`.
///
/// # Errors
///
/// Returns an error if the arguments are malformed. The text describes the fault.
pub fn parse(type_name: &str, words: &[&str]) -> Result<Update, String> {
    let [nonce, items @ ..] = words else { return Err("an update needs n=".into()) };
    let nonce = nonce.strip_prefix("n=").ok_or("an update needs n= first")?;
    let mut update = Update {
        type_name: type_name.into(),
        nonce: nonce.into(),
        resources: Vec::new(),
        removed: Vec::new(),
        errors: Vec::new(),
    };
    for item in items {
        match item.as_bytes().first() {
            Some(b'-') => update.removed.push(item[1..].into()),
            Some(b'!') => update.errors.push(resource_error(item)?),
            _ => update.resources.push(resource(item)?),
        }
    }
    Ok(update)
}

/// Parses `[TYPE/]NAME@VERSION[+ALIAS..][~TTL][=TEXT]`.
fn resource(item: &str) -> Result<Versioned, String> {
    // Context parameters of a name may contain `=`.
    let named = item.find('@').unwrap_or_default();
    let equals = item.get(named..).and_then(|rest| rest.find('='));
    let (head, text) = match equals.and_then(|at| item.split_at_checked(named + at)) {
        Some((head, text)) => (head, text.get(1..).map(str::to_owned)),
        None => (item, None),
    };
    let (head, ttl) = match head.split_once('~') {
        Some((head, ttl)) => (head, Some(super::command::duration(ttl)?)),
        None => (head, None),
    };
    let mut parts = head.split('+');
    let head = parts.next().unwrap_or_default();
    let aliases = parts.map(str::to_owned).collect();
    let (name, version) = head
        .rsplit_once('@')
        .ok_or_else(|| format!("`{item}` is not of the form NAME@VERSION=TEXT"))?;
    let (type_name, name) = match name.split_once('/') {
        // Names of virtual hosts contain a slash.
        Some((before, name)) if types::by_short_name(before).is_some() => {
            (Some(before.to_owned()), name)
        }
        _ => (None, name),
    };
    let name = super::command::expand_name(name)?;
    Ok(Versioned { type_name, name, version: version.into(), aliases, ttl, text })
}

impl Update {
    /// Encodes the response as a `DeltaDiscoveryResponse`. `url` converts a short name to a type
    /// URL.
    #[must_use]
    pub fn encode(&self, url: impl Fn(&str) -> String) -> Bytes {
        let own = url(&self.type_name);
        let resource = |it: &Versioned| proto::Resource {
            name: it.name.clone(),
            version: it.version.clone(),
            aliases: it.aliases.clone(),
            resource: it.text.as_ref().map(|text| proto::Any {
                type_url: it.type_name.as_deref().map_or_else(|| own.clone(), &url),
                value: Toy::bytes(&it.name, text),
            }),
            ttl: it.ttl.map(|ttl| proto::Duration {
                seconds: ttl.as_secs() as i64,
                nanos: ttl.subsec_nanos() as i32,
            }),
            ..proto::Resource::default()
        };
        let message = proto::DeltaDiscoveryResponse {
            nonce: self.nonce.clone(),
            type_url: own.clone(),
            resources: self.resources.iter().map(resource).collect(),
            removed_resources: self.removed.clone(),
            resource_errors: self.errors.iter().map(ResourceError::message).collect(),
            ..proto::DeltaDiscoveryResponse::default()
        };
        message.encode_to_vec().into()
    }
}
