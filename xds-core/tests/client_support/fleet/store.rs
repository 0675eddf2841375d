//! What a management server has.

use std::collections::BTreeMap;

use prost::Message as _;
use xds_core::proto;

use super::super::TYPES;

/// The resources of one server, by type and name.
#[derive(Clone, Debug, Default)]
pub struct Store {
    types: [BTreeMap<String, Held>; TYPES.len()],
}

/// One resource.
#[derive(Clone, Debug)]
pub struct Held {
    pub version: u64,
    pub text: u8,
}

impl Store {
    pub fn of(&self, kind: usize) -> &BTreeMap<String, Held> {
        &self.types[kind]
    }

    pub fn put(&mut self, kind: usize, name: String, held: Held) {
        self.types[kind].insert(name, held);
    }

    pub fn remove(&mut self, kind: usize, name: &str) {
        self.types[kind].remove(name);
    }

    /// Replaces what clients do not accept; `version` is the last one that was given.
    pub fn heal(&mut self, version: &mut u64) {
        for held in self.types.iter_mut().flat_map(BTreeMap::values_mut) {
            if held.text == 3 {
                *version += 1;
                *held = Held { version: *version, text: 0 };
            }
        }
    }
}

impl Held {
    pub fn to_any(&self, kind: usize, name: &str) -> proto::Any {
        proto::Any { type_url: TYPES[kind].into(), value: self.to_bytes(name).into() }
    }

    /// The text says which version it is; the third is not accepted.
    pub fn to_bytes(&self, name: &str) -> Vec<u8> {
        let locality = proto::Locality {
            region: name.into(),
            zone: format!("text {}", self.text),
            ..Default::default()
        };
        locality.encode_to_vec()
    }
}
