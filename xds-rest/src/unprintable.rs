//! Responses with resources that have no JSON form, usually because of an `Any` of an unknown type.

use core::fmt;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use prost::Message as _;
use xds_core::proto::{Any, DiscoveryRequest, DiscoveryResponse, Resource};
use xds_format::{FormatError, PrintOptions, Schema, resource_name, to_json};

const WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// A response without the resources that have no JSON form.
pub(crate) struct Printable {
    /// Encoded response. Its version identifies the omitted resources.
    pub(crate) message: Vec<u8>,
    pub(crate) version: String,
    pub(crate) left_out: LeftOut,
}

/// Resources that have no JSON form.
pub(crate) struct LeftOut {
    type_url: String,
    /// Number of resources in the response.
    of: usize,
    resources: Vec<(String, FormatError)>,
}

impl LeftOut {
    pub(crate) fn count(&self) -> u64 {
        self.resources.len() as u64
    }

    /// Whether a client that states this version has none of the resources, so that a response
    /// without them deletes nothing: it has no resources, or has accepted a response without the
    /// same ones.
    pub(crate) fn is_lacked_at(&self, version: &str) -> bool {
        version.is_empty() || version.ends_with(&self.mark())
    }

    /// Returns the suffix for the version of a response without these resources. It distinguishes
    /// the version from that of the whole response, which the client would otherwise never request.
    fn mark(&self) -> String {
        // FNV-1a, which is equal in every process.
        let names = self.resources.iter().flat_map(|(name, _)| name.bytes().chain([0xff]));
        let hash = names.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("-without-{hash:016x}")
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_url, of, resources } = self;
        write!(f, "{} of {of} resources of type {type_url} cannot be printed", resources.len())?;
        for (number, (name, why)) in resources.iter().enumerate() {
            write!(f, "{} `{name}`: {why}", if number == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

/// Number of omitted resources, and the last log message about them.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    count: AtomicU64,
    last: Mutex<String>,
}

impl Reported {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts the resources. Logs them unless the last message was equal, because clients poll
    /// repeatedly.
    pub(crate) fn report(&self, left_out: &LeftOut) {
        let before = self.count.fetch_add(left_out.count(), Ordering::Relaxed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let text = left_out.to_string();
        if *last != text {
            tracing::warn!(count = before + left_out.count(), "{text}");
            *last = text;
        }
    }
}

/// Removes the resources without a JSON form from a response. Returns `None` if there are none, or
/// if the message is not a response.
pub(crate) fn without_unprintable(
    schema: &Schema,
    message: &[u8],
    options: &PrintOptions,
) -> Option<Printable> {
    let mut response = DiscoveryResponse::decode(message).ok()?;
    let of = response.resources.len();
    let mut resources = Vec::new();
    response.resources.retain(|resource| {
        let why = to_json(schema, &resource.type_url, &resource.value, options).err();
        let is_printable = why.is_none();
        resources.extend(why.map(|why| (name_of(schema, resource), why)));
        is_printable
    });
    let type_url = response.type_url.clone();
    let left_out = LeftOut { type_url, of, resources };
    if left_out.resources.is_empty() {
        return None;
    }
    response.version_info.push_str(&left_out.mark());
    let message = response.encode_to_vec();
    Some(Printable { message, version: response.version_info, left_out })
}

fn name_of(schema: &Schema, resource: &Any) -> String {
    if resource.type_url.rsplit('/').next() == Some(WRAPPER)
        && let Ok(wrapper) = Resource::decode(resource.value.clone())
    {
        return wrapper.name;
    }
    resource_name(schema, &resource.type_url, &resource.value).unwrap_or_else(|_| "?".to_owned())
}

/// Returns the version that a client has accepted last.
pub(crate) fn stated_version(request: &[u8]) -> String {
    DiscoveryRequest::decode(request).map(|request| request.version_info).unwrap_or_default()
}
