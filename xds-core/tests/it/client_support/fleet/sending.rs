//! Responses of a conforming management server, in either protocol variant.

use std::{collections::BTreeMap, mem};

use prost::Message as _;
use xds_core::{proto, service::Variant};

use super::{
    super::TYPES,
    oracle::{EntryContent, ResponseContent},
    peer::{Conversation, Listing, Names, nonce_of},
    store::{Held, Store},
};

/// The expected content for a resource in a response.
fn word_of(name: &str, held: &Held, version: u64) -> EntryContent {
    EntryContent::Resource {
        bytes: held.to_bytes(name).into(),
        version: format!("v{version}"),
        is_acceptable: held.is_acceptable(),
        lease: held.ttl.map(|ttl| (held.version, ttl)),
    }
}

fn report_of(name: &str, code: i32) -> proto::ResourceError {
    proto::ResourceError {
        resource_name: Some(proto::ResourceName { name: name.into(), ..Default::default() }),
        error_detail: Some(proto::Status { code, ..Default::default() }),
    }
}

impl Conversation {
    /// Returns all resources and errors of the server for the subscriptions.
    pub(super) fn listing(&self, kind: usize, store: &Store) -> Listing {
        let resources = store.of(kind).iter().map(|(name, held)| (name, Ok(held.version)));
        let reports = store.reports(kind).iter().map(|(name, &code)| (name, Err(code)));
        let all = resources.chain(reports).filter(|(name, _)| self.covers(name));
        all.map(|(name, said)| (name.clone(), said)).collect()
    }

    pub(super) fn push_sotw(
        &mut self,
        kind: usize,
        store: &Store,
        number: u64,
    ) -> Option<(ResponseContent, Vec<u8>)> {
        let state = Some((self.listing(kind, store), self.subscribed.clone()));
        if self.sent == state {
            return None;
        }
        self.sent = state;
        Some(self.whole(kind, store, number, |_, _| None))
    }

    pub(super) fn beat_sotw(
        &self,
        kind: usize,
        store: &Store,
        number: u64,
        is_in_use: impl Fn(&str, u64) -> bool,
    ) -> Option<(ResponseContent, Vec<u8>)> {
        if self.sent.as_ref()?.0 != self.listing(kind, store) {
            return None;
        }
        Some(self.whole(kind, store, number, |name, held| {
            held.ttl.map(|ttl| EntryContent::Heartbeat {
                is_in_use: is_in_use(name, held.version),
                ttl,
            })
        }))
    }

    fn whole(
        &self,
        kind: usize,
        store: &Store,
        number: u64,
        heartbeat: impl Fn(&str, &Held) -> Option<EntryContent>,
    ) -> (ResponseContent, Vec<u8>) {
        let mut response = proto::DiscoveryResponse {
            version_info: format!("v{number}"),
            nonce: nonce_of(number),
            type_url: TYPES[kind].into(),
            ..Default::default()
        };
        let mut words = BTreeMap::new();
        for (name, held) in store.of(kind).iter().filter(|(name, _)| self.covers(name)) {
            let heartbeat = heartbeat(name, held);
            response.resources.push(held.to_packed(kind, name, heartbeat.is_some()));
            let word = heartbeat.unwrap_or_else(|| word_of(name, held, number));
            words.insert(name.clone(), word);
        }
        for (name, &code) in store.reports(kind).iter().filter(|(name, _)| self.covers(name)) {
            response.resource_errors.push(report_of(name, code));
            words.insert(name.clone(), EntryContent::Report(code));
        }
        let said = ResponseContent { kind, variant: Variant::StateOfTheWorld, words };
        (said, response.encode_to_vec())
    }

    pub(super) fn push_delta(
        &mut self,
        kind: usize,
        store: &Store,
        number: u64,
    ) -> Option<(ResponseContent, Vec<u8>)> {
        let is_owed = !self.owed.is_empty();
        let owed = mem::take(&mut self.owed);
        let names = store.of(kind).keys().chain(store.reports(kind).keys());
        let names = names.chain(self.known.keys()).chain(self.reported.keys()).chain(&owed);
        let names: Names = names.filter(|name| *name != "*").cloned().collect();
        let (mut response, mut words) = (incremental(kind, number), BTreeMap::new());
        for name in names {
            let covers = self.covers(&name);
            let held = store.of(kind).get(&name).filter(|_| covers);
            let report = store.reports(kind).get(&name).copied().filter(|_| covers);
            let is_owed = owed.contains(&name);
            let was_known = self.known.get(&name).copied();
            let was_reported = self.reported.get(&name).copied();
            let word = match (held, report) {
                (Some(held), _) if is_owed || was_known != Some(held.version) => {
                    self.known.insert(name.clone(), held.version);
                    self.reported.remove(&name);
                    response.resources.push(held.to_wrapper(kind, &name, false));
                    word_of(&name, held, held.version)
                }
                (None, Some(code)) if is_owed || was_reported != Some(code) => {
                    self.known.remove(&name);
                    self.reported.insert(name.clone(), code);
                    response.resource_errors.push(report_of(&name, code));
                    EntryContent::Report(code)
                }
                (None, None) if is_owed || was_known.is_some() || was_reported.is_some() => {
                    self.known.remove(&name);
                    self.reported.remove(&name);
                    response.removed_resources.push(name.clone());
                    EntryContent::Removed
                }
                _ => continue,
            };
            words.insert(name, word);
        }
        let said = ResponseContent { kind, variant: Variant::Incremental, words };
        (is_owed || !said.words.is_empty()).then(|| (said, response.encode_to_vec()))
    }

    pub(super) fn beat_delta(
        &self,
        kind: usize,
        store: &Store,
        number: u64,
        is_in_use: impl Fn(&str, u64) -> bool,
    ) -> Option<(ResponseContent, Vec<u8>)> {
        let (mut response, mut words) = (incremental(kind, number), BTreeMap::new());
        for (name, held) in store.of(kind) {
            let is_known = self.known.get(name) == Some(&held.version);
            if let Some(ttl) = held.ttl.filter(|_| is_known && self.covers(name)) {
                response.resources.push(held.to_wrapper(kind, name, true));
                let is_in_use = is_in_use(name, held.version);
                words.insert(name.clone(), EntryContent::Heartbeat { is_in_use, ttl });
            }
        }
        let said = ResponseContent { kind, variant: Variant::Incremental, words };
        (!said.words.is_empty()).then(|| (said, response.encode_to_vec()))
    }
}

fn incremental(kind: usize, number: u64) -> proto::DeltaDiscoveryResponse {
    proto::DeltaDiscoveryResponse {
        system_version_info: format!("v{number}"),
        nonce: nonce_of(number),
        type_url: TYPES[kind].into(),
        ..Default::default()
    }
}
