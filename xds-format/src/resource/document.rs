//! The parsed content of a file: named resources with the bytes that go into `Any.value`.

use core::time::Duration;

use bytes::Bytes;

use crate::schema::RESOURCE_WRAPPER;
use crate::wire::{self, Fields, Payload, WireError, last_string};

/// The resources of one file, and the fields of the response around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// `version_info` of the response, if the file is a response and sets it.
    pub version_info: Option<String>,
    /// `type_url` of the response. `None` if the file holds several responses of different types.
    pub type_url: Option<String>,
    /// Number of responses in the file. 0 if its resources stand outside any response.
    pub responses: usize,
    /// `nonce` of the response. Only REST bodies have a use for it.
    pub nonce: Option<String>,
    /// Resources in file order. No two have the same type and name.
    pub resources: Vec<Resource>,
}

/// One named resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// Type URL as the file spells it.
    pub type_url: String,
    /// Resource name, from the wrapper if it has one, otherwise from the resource. Never empty.
    pub name: String,
    /// Encoded message, without the surrounding `Any` and wrapper.
    pub bytes: Bytes,
    /// Fields of the `Resource` wrapper, if there was one.
    pub wrapper: Option<Wrapper>,
}

/// The fields of an `envoy.service.discovery.v3.Resource` that matter to a file.
///
/// Other fields, such as `cache_control`, are checked and dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wrapper {
    /// Version of this resource. May be empty.
    pub version: String,
    /// Aliases of the resource.
    pub aliases: Vec<String>,
    /// Time that the resource may be used without a refresh.
    pub ttl: Option<Duration>,
}

/// Field numbers of `DiscoveryResponse`.
pub(crate) const RESPONSE_VERSION_INFO: u32 = 1;
pub(crate) const RESPONSE_RESOURCES: u32 = 2;
pub(crate) const RESPONSE_TYPE_URL: u32 = 4;
pub(crate) const RESPONSE_NONCE: u32 = 5;

/// Field numbers of `Any`.
pub(crate) const ANY_TYPE_URL: u32 = 1;
pub(crate) const ANY_VALUE: u32 = 2;

/// Field numbers of `Resource`.
pub(crate) const WRAPPER_VERSION: u32 = 1;
pub(crate) const WRAPPER_RESOURCE: u32 = 2;
pub(crate) const WRAPPER_NAME: u32 = 3;
pub(crate) const WRAPPER_ALIASES: u32 = 4;
pub(crate) const WRAPPER_TTL: u32 = 6;

/// Field numbers of `Duration`.
const DURATION_SECONDS: u32 = 1;
const DURATION_NANOS: u32 = 2;

impl Document {
    /// Encodes the document as one `DiscoveryResponse`, as an xDS client expects it from a file or
    /// from a REST server.
    ///
    /// The encoding is deterministic. Resources that had a wrapper keep it.
    #[must_use]
    pub fn to_discovery_response(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_string(
            &mut out,
            RESPONSE_VERSION_INFO,
            self.version_info.as_deref().unwrap_or_default(),
        );
        for resource in &self.resources {
            wire::put_len(&mut out, RESPONSE_RESOURCES, &resource.to_any());
        }
        put_string(&mut out, RESPONSE_TYPE_URL, self.common_type().unwrap_or_default());
        put_string(&mut out, RESPONSE_NONCE, self.nonce.as_deref().unwrap_or_default());
        out
    }

    /// Returns the announced type if there is one, otherwise the type of the first resource; `None`
    /// if a resource has another type.
    fn common_type(&self) -> Option<&str> {
        let first = || self.resources.first().map(|resource| resource.type_url.as_str());
        let common = self.type_url.as_deref().or_else(first)?;
        self.resources.iter().all(|resource| resource.type_url == common).then_some(common)
    }
}

impl Resource {
    fn to_any(&self) -> Vec<u8> {
        let plain = any(&self.type_url, &self.bytes);
        let Some(wrapper) = &self.wrapper else { return plain };
        let mut out = Vec::new();
        put_string(&mut out, WRAPPER_VERSION, &wrapper.version);
        wire::put_len(&mut out, WRAPPER_RESOURCE, &plain);
        put_string(&mut out, WRAPPER_NAME, &self.name);
        for alias in &wrapper.aliases {
            wire::put_len(&mut out, WRAPPER_ALIASES, alias.as_bytes());
        }
        if let Some(ttl) = wrapper.ttl {
            let mut duration = Vec::new();
            put_nonzero(&mut duration, DURATION_SECONDS, ttl.as_secs());
            put_nonzero(&mut duration, DURATION_NANOS, ttl.subsec_nanos().into());
            wire::put_len(&mut out, WRAPPER_TTL, &duration);
        }
        any(&format!("type.googleapis.com/{RESOURCE_WRAPPER}"), &out)
    }
}

pub(crate) fn any(type_url: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(type_url.len() + value.len() + 12);
    put_string(&mut out, ANY_TYPE_URL, type_url);
    if !value.is_empty() {
        wire::put_len(&mut out, ANY_VALUE, value);
    }
    out
}

pub(crate) fn put_string(out: &mut Vec<u8>, number: u32, value: &str) {
    if !value.is_empty() {
        wire::put_len(out, number, value.as_bytes());
    }
}

fn put_nonzero(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        wire::put_tag(out, number, 0);
        wire::put_varint(out, value);
    }
}

/// Returns the type URL and the value of an encoded `Any`.
pub(crate) fn read_any(any: &[u8]) -> Result<(&str, &[u8]), WireError> {
    let mut value = &[][..];
    for field in Fields::new(any) {
        let field = field?;
        if let Payload::Len(bytes) = field.payload
            && field.number == ANY_VALUE
        {
            value = bytes;
        }
    }
    Ok((last_string(any, ANY_TYPE_URL)?, value))
}
