//! Resources of a management server.

use std::{collections::BTreeMap, mem, time::Duration};

use prost::{Message as _, Name as _};
use xds_core::proto;

use super::super::TYPES;

/// The resources of one server, by type and name.
#[derive(Clone, Debug, Default)]
pub struct Store {
    types: [BTreeMap<String, Held>; TYPES.len()],
    /// Error code (gRPC status) that the server reports for a missing resource.
    reports: [BTreeMap<String, i32>; TYPES.len()],
}

/// One resource.
#[derive(Clone, Debug)]
pub struct Held {
    pub version: u64,
    pub text: u8,
    pub ttl: Option<Duration>,
}

impl Store {
    pub fn of(&self, kind: usize) -> &BTreeMap<String, Held> {
        &self.types[kind]
    }

    pub fn reports(&self, kind: usize) -> &BTreeMap<String, i32> {
        &self.reports[kind]
    }

    pub fn put(&mut self, kind: usize, name: String, held: Held) {
        self.reports[kind].remove(&name);
        self.types[kind].insert(name, held);
    }

    pub fn report(&mut self, kind: usize, name: String, code: i32) {
        self.types[kind].remove(&name);
        self.reports[kind].insert(name, code);
    }

    pub fn remove(&mut self, kind: usize, name: &str) {
        self.types[kind].remove(name);
    }

    /// Replaces invalid resources, resources with a TTL, and errors. `version` is the last version
    /// used.
    pub fn heal(&mut self, version: &mut u64) {
        let mut next = || {
            *version += 1;
            Held { version: *version, text: 0, ttl: None }
        };
        for (held, reports) in self.types.iter_mut().zip(&mut self.reports) {
            for held in held.values_mut().filter(|held| !held.is_acceptable() || held.ttl.is_some())
            {
                *held = next();
            }
            held.extend(mem::take(reports).into_keys().map(|name| (name, next())));
        }
    }
}

impl Held {
    pub fn is_acceptable(&self) -> bool {
        self.text != 3
    }

    /// Returns the resource in a wrapper; a heartbeat has no content.
    pub fn to_wrapper(&self, kind: usize, name: &str, is_heartbeat: bool) -> proto::Resource {
        proto::Resource {
            name: name.into(),
            version: format!("v{}", self.version),
            resource: (!is_heartbeat).then(|| self.to_any(kind, name)),
            ttl: self.ttl.map(|ttl| proto::Duration { seconds: ttl.as_secs() as i64, nanos: 0 }),
            ..Default::default()
        }
    }

    /// Returns the resource as in a state-of-the-world response: with a TTL, in a wrapper.
    pub fn to_packed(&self, kind: usize, name: &str, is_heartbeat: bool) -> proto::Any {
        if self.ttl.is_none() {
            return self.to_any(kind, name);
        }
        let wrapper = self.to_wrapper(kind, name, is_heartbeat);
        proto::Any { type_url: proto::Resource::type_url(), value: wrapper.encode_to_vec().into() }
    }

    pub fn to_any(&self, kind: usize, name: &str) -> proto::Any {
        proto::Any { type_url: TYPES[kind].into(), value: self.to_bytes(name).into() }
    }

    /// Returns the encoded resource. Text 3 is invalid.
    pub fn to_bytes(&self, name: &str) -> Vec<u8> {
        let locality = proto::Locality {
            region: name.into(),
            zone: format!("text {}", self.text),
            ..Default::default()
        };
        locality.encode_to_vec()
    }
}
