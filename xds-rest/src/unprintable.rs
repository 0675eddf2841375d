//! Responses with resources that have no JSON form, usually because of an `Any` of an unknown type.

use core::fmt;
use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use prost::Message as _;
use xds_core::proto::{Any, DiscoveryRequest, Resource};
use xds_format::{FormatError, Schema, resource_name};

const WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// Separator between the version of a response and the hash of its omitted resources.
const MARK: &str = "-without-";

/// Maximum number of remembered versions.
const MOST: usize = 4_096;

/// Resources of a response that have no JSON form, while the response is printed.
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

    /// Returns the description of the resources, or `None` if there are none.
    pub(crate) fn omission(&self) -> Option<Omission> {
        (!self.resources.is_empty()).then(|| Omission {
            count: self.resources.len() as u64,
            mark: self.mark(),
            text: self.to_string(),
        })
    }

    /// Returns the suffix for the version of a response without these resources. It distinguishes
    /// the version from that of the whole response, which the client would otherwise never request.
    fn mark(&self) -> String {
        // FNV-1a, which is equal in every process.
        let names = self.resources.iter().flat_map(|(name, _)| name.bytes().chain([0xff]));
        let hash = names.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{MARK}{hash:016x}")
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

/// Description of the resources that a printed response omits.
#[derive(Debug)]
pub(crate) struct Omission {
    count: u64,
    /// Suffix of the version of the response.
    pub(crate) mark: String,
    /// Names of the resources, and the reasons.
    pub(crate) text: String,
}

impl Omission {
    /// Whether a client that states this version has none of the omitted resources, so that a
    /// response without them deletes nothing: the client has no resources yet, or has accepted a
    /// response that omitted the same ones.
    pub(crate) fn is_lacked_at(&self, version: &str) -> bool {
        version.is_empty() || version.ends_with(&self.mark)
    }
}

/// Number of omitted resources, and the last log message about them, which is not repeated.
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
    pub(crate) fn report(&self, omission: &Omission) {
        let before = self.count.fetch_add(omission.count, Ordering::Relaxed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let text = &omission.text;
        if *last != *text {
            tracing::warn!(count = before + omission.count, "{text}");
            last.clone_from(text);
        }
    }
}

/// Versions of the newest incomplete responses of this process.
///
/// The service does not know these versions, so it would respond at once to a client that states
/// one, although nothing has changed.
#[derive(Debug, Default)]
pub(crate) struct IncompleteVersions(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Methods with versions. They are never iterated, so their order does not matter.
    known: HashSet<(&'static str, String)>,
    /// Methods with versions, oldest first.
    order: VecDeque<(&'static str, String)>,
}

impl IncompleteVersions {
    /// Remembers the version of an incomplete response of a method.
    pub(crate) fn add(&self, method: &'static str, version: &str) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = (method, version.to_owned());
        if remembered.known.insert(entry.clone()) {
            remembered.order.push_back(entry);
        }
        if remembered.order.len() > MOST
            && let Some(oldest) = remembered.order.pop_front()
        {
            remembered.known.remove(&oldest);
        }
    }

    /// Returns the version of the whole response, for the version of an incomplete one.
    pub(crate) fn complete<'v>(&self, method: &'static str, version: &'v str) -> Option<&'v str> {
        let (complete, _) = version.rsplit_once(MARK)?;
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.known.contains(&(method, version.to_owned())).then_some(complete)
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

/// Changes the version that an encoded request states. If a field occurs twice, the last one counts.
pub(crate) fn state_version(request: &mut Vec<u8>, version: &str) {
    let fields = DiscoveryRequest { version_info: version.into(), ..DiscoveryRequest::default() };
    request.extend(fields.encode_to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_version_is_completed_only_if_this_process_sent_it() {
        let versions = IncompleteVersions::default();
        versions.add("a", "7-without-1");
        assert_eq!(versions.complete("a", "7-without-1"), Some("7"));
        for (method, other) in [("b", "7-without-1"), ("a", "8-without-1"), ("a", "7")] {
            assert_eq!(versions.complete(method, other), None, "{method} {other}");
        }
    }

    #[test]
    fn oldest_incomplete_versions_are_forgotten() {
        let versions = IncompleteVersions::default();
        for number in 0..=MOST {
            versions.add("a", &format!("{number}-without-1"));
        }
        assert_eq!(versions.complete("a", "0-without-1"), None);
        assert_eq!(versions.complete("a", "1-without-1"), Some("1"));
        let remembered = versions.0.lock().expect("no panic");
        assert_eq!((remembered.known.len(), remembered.order.len()), (MOST, MOST));
    }

    #[test]
    fn last_stated_version_counts() {
        let node = DiscoveryRequest {
            version_info: "7-without-1".into(),
            type_url: "t".into(),
            ..DiscoveryRequest::default()
        };
        let mut request = node.encode_to_vec();
        state_version(&mut request, "7");
        let read = DiscoveryRequest::decode(&*request).expect("a request");
        assert_eq!((&*read.version_info, &*read.type_url), ("7", "t"));
    }
}
