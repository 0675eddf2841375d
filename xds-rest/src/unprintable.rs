//! Responses with resources that have no JSON form, usually because of an `Any` of an unknown type.

use core::fmt;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use prost::Message as _;
use xds_core::proto::{Any, DiscoveryRequest, Resource};
use xds_format::{FormatError, Schema, resource_name};

const WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// Resources of a response that have no JSON form.
pub(crate) struct LeftOut {
    type_url: String,
    /// Number of resources in the response.
    of: usize,
    resources: Vec<(String, FormatError)>,
}

impl LeftOut {
    /// Creates an empty list for a response with `of` resources of a type.
    pub(crate) fn new(type_url: String, of: usize) -> Self {
        Self { type_url, of, resources: Vec::new() }
    }

    pub(crate) fn add(&mut self, schema: &Schema, resource: &Any, why: FormatError) {
        self.resources.push((name_of(schema, resource), why));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn count(&self) -> u64 {
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
    pub(crate) fn mark(&self) -> String {
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
