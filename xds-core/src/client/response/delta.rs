//! Processing of an incremental response: changed resources, then removed ones.
//!
//! It differs from the state of the world in three ways. Each resource has its own version and is
//! identified by the name in its wrapper, which may differ from the name inside, as for virtual
//! hosts. The absence of a resource is not significant. A server can report a nonexistent resource
//! in two ways: by its name in `removed_resources`, and by a wrapper without a resource.
// D21

use alloc::vec::Vec;

use bytes::Bytes;

use super::{
    ProcessedResponse, ResponseProcessor,
    classify::{Candidate, Classified, DUPLICATE},
    duplicates::IgnoredDuplicates,
    nack_message::{self, FaultLocation},
};
use crate::{
    cache_control::CacheControl,
    client::{
        cache::Occurrence,
        config::resource_type::Rejection,
        event::{error::WatchErrorKind, status::ResourceState},
        resource::unwrap::{ResourceBody, Wrapper},
    },
    slab::Slot,
    text::Version,
    types,
    wire::{delta_response::DeltaResponse, resource::ResourceWrapper, walk::part_of},
    zoo::{self, Bug},
};

/// Contents of an incremental response other than changed resources.
#[derive(Debug, Default)]
struct DeltaClassified<'f> {
    /// Unchanged resources.
    unchanged: Vec<(Slot, Wrapper<'f>)>,
    /// Resources reported as nonexistent.
    absent: Vec<Slot>,
    /// Globs reported as having no members.
    empty: Vec<Slot>,
}

impl ResponseProcessor<'_> {
    /// Processes a well-formed incremental response and updates the cache.
    pub(crate) fn process_delta(
        mut self,
        response: &DeltaResponse<'_>,
        frame: &Bytes,
    ) -> ProcessedResponse {
        let before = self.cache.sequence();
        let (mut classified, other) = self.classify_delta(response, frame);
        let reported = self.classify_errors(response.resource_errors(), &mut classified.faults);
        if self.rejects_all(&classified) {
            return self.reject_all(classified, before);
        }

        self.renew(other.unchanged);
        self.update_wrappers(&classified);
        self.commit_delta(core::mem::take(&mut classified.candidates), frame, &mut classified);
        // Changes other than those of single resources have the version of the response.
        self.cache.begin_version(Version::from(response.system_version));
        for &slot in &classified.duplicates {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        for slot in other.absent {
            let is_lost = zoo::is(Bug::RemovalsLostOnNack) && classified.faults.count() > 0;
            if !self.cache.is_duplicate(slot) && !is_lost {
                self.handle_absent(slot);
            }
        }
        for slot in other.empty {
            self.handle_empty_glob(slot, &classified);
        }
        self.receive_globs();
        for (slot, kind) in reported {
            self.handle_reported_error(slot, kind);
        }
        self.cache.end_response();
        self.note_collection_received(self.cache.sequence() != before);
        self.finish(classified)
    }

    fn classify_delta<'f>(
        &mut self,
        response: &DeltaResponse<'f>,
        frame: &Bytes,
    ) -> (Classified<'f>, DeltaClassified<'f>) {
        let control_plane = nack_message::cut(response.control_plane, self.limits.token_bytes);
        let version = Version::from(response.system_version);
        self.cache.begin_response(version, control_plane, self.upstream, self.now);
        let mut classified = self.new_classified();
        let mut other = DeltaClassified::default();
        let mut resources = 0;
        let ignored = IgnoredDuplicates::in_delta(self.naming(), response);
        for (index, wrapped) in response.resources().enumerate() {
            resources = index + 1;
            if ignored.is_at(index) {
                continue;
            }
            match wrapped {
                Ok(wrapped) => {
                    self.classify_wrapped(index, &wrapped, frame, &mut classified, &mut other);
                }
                Err(why) => {
                    classified
                        .faults
                        .add_unnamed(FaultLocation::Resource(index), &alloc::format!("{why}"));
                }
            }
        }
        let removed = (resources..).zip(response.removed());
        for (_, name) in removed.filter(|&(index, _)| !ignored.is_at(index)) {
            self.classify_absent(name, &mut classified, &mut other);
        }
        if !classified.duplicates.is_empty() || classified.unrequested.has_duplicates() {
            self.list_duplicates_of_delta(response, resources, &mut classified);
        }
        (classified, other)
    }

    fn classify_wrapped<'f>(
        &mut self,
        index: usize,
        wrapped: &ResourceWrapper<'f>,
        frame: &Bytes,
        classified: &mut Classified<'f>,
        other: &mut DeltaClassified<'f>,
    ) {
        let one = match self.naming().unwrap_delta(wrapped) {
            Ok(one) => one,
            Err(unusable) => {
                if let Some(slot) = self.classify_unusable(index, unusable, classified) {
                    self.note_present(slot);
                }
                return;
            }
        };
        self.note_api(&one);
        let wrapper = one.wrapper.unwrap_or_default();
        let value = match one.body {
            ResourceBody::Resource(value) => value,
            ResourceBody::Heartbeat => {
                return self.classify_empty(index, wrapped, wrapper, classified, other);
            }
        };
        let name = match self.naming().name_of(&one) {
            Ok(name) => name,
            Err(rejection) => {
                classified.faults.add_unnamed(FaultLocation::Resource(index), rejection.reason());
                return;
            }
        };
        self.resolve_aliases(name, wrapper.aliases);
        let Some(slot) = self.find_or_create(name, index, classified) else { return };
        self.note_present(slot);
        match self.cache.note_occurrence(slot) {
            Occurrence::First => {
                if self.cache.get(slot).and_then(|entry| entry.bytes.as_deref()) == Some(value) {
                    return other.unchanged.push((slot, wrapper));
                }
                let bytes = part_of(frame, value);
                let verdict = self.verdict_on(slot, &bytes);
                let wrapper = Some(wrapper);
                classified.candidates.push(Candidate { index, slot, bytes, wrapper, verdict });
            }
            occurrence => self.note_duplicate(slot, occurrence, classified),
        }
    }

    /// Handles a wrapper without a resource. With the version in use it is a heartbeat. With a TTL
    /// and another version it is invalid. Otherwise it reports that the resource, or the resource
    /// of an alias, does not exist. For virtual hosts, which have no heartbeats, it always does.
    // D21, DX-33, DX-34, DX-39, NA-05
    fn classify_empty<'f>(
        &mut self,
        index: usize,
        wrapped: &ResourceWrapper<'f>,
        wrapper: Wrapper<'f>,
        classified: &mut Classified<'f>,
        other: &mut DeltaClassified<'f>,
    ) {
        const NOT_IN_USE: &str =
            "resource has a TTL but no content, and its version is not the one in use";
        let slot = self.find(wrapped.name).filter(|&slot| self.may_be_sent_by_server(slot));
        let has_heartbeats = types::has_heartbeats(self.resource_type.type_url().as_str());
        let is_in_use = slot.and_then(|slot| self.cache.get(slot)).is_some_and(|entry| {
            entry.bytes.is_some() && self.cache.version_of(entry).as_str() == wrapper.version
        });
        if let Some(slot) = slot.filter(|_| is_in_use) {
            self.note_present(slot);
        }
        match slot {
            Some(slot) if has_heartbeats && is_in_use => match self.cache.note_occurrence(slot) {
                Occurrence::First => classified.heartbeats.push((slot, wrapper)),
                occurrence => self.note_duplicate(slot, occurrence, classified),
            },
            Some(slot) if has_heartbeats && wrapper.ttl.is_some() => {
                self.add_rejected(index, slot, Rejection::new(NOT_IN_USE), classified);
            }
            // The resource may have expired in the meantime. After the NACK, the server sends it
            // again.
            None if has_heartbeats && wrapper.ttl.is_some() && self.requested.has_wildcard => {
                classified.faults.add(FaultLocation::Resource(index), wrapped.name, NOT_IN_USE);
            }
            _ => {
                self.classify_absent(wrapped.name, classified, other);
                for alias in wrapped.aliases().iter() {
                    self.classify_absent(alias, classified, other);
                }
            }
        }
    }

    /// Handles a resource reported as nonexistent. Names that were not requested are ignored. The
    /// name of a glob without members may be repeated.
    // DX-13
    fn classify_absent(
        &mut self,
        name: &str,
        classified: &mut Classified<'_>,
        other: &mut DeltaClassified<'_>,
    ) {
        let subject = self.find_subject(name).filter(|&slot| self.may_be_sent_by_server(slot));
        let Some(slot) = subject else { return };
        match self.cache.note_occurrence(slot) {
            Occurrence::First if self.is_glob(slot) => other.empty.push(slot),
            _ if self.is_glob(slot) => {}
            Occurrence::First => other.absent.push(slot),
            occurrence => self.note_duplicate(slot, occurrence, classified),
        }
    }

    /// Adds every copy of a duplicated name to the faults, in a second pass over the response.
    fn list_duplicates_of_delta<'f>(
        &self,
        response: &DeltaResponse<'f>,
        resources: usize,
        classified: &mut Classified<'f>,
    ) {
        let wrapped = response.resources().map(|wrapped| wrapped.map_or("", |it| it.name));
        let removed = (resources..).zip(response.removed());
        for (index, name) in wrapped.enumerate().chain(removed) {
            let is_duplicate = match self.find(name) {
                Some(slot) => self.cache.is_duplicate(slot),
                None => classified.unrequested.is_duplicate(name),
            };
            if is_duplicate {
                classified.faults.add(FaultLocation::Resource(index), name, DUPLICATE);
            }
        }
    }

    /// Renews the versions and wrappers of unchanged resources.
    fn renew(&mut self, unchanged: Vec<(Slot, Wrapper<'_>)>) {
        for (slot, wrapper) in unchanged {
            if self.cache.is_duplicate(slot) {
                continue;
            }
            self.stats.resources_valid += 1;
            self.cache.begin_version(Version::from(wrapper.version));
            // From now on the resource is held from this server.
            self.cache.note_effect_on_others(slot);
            self.cache.renew(slot);
            match non_default_wrapper(wrapper) {
                Some(wrapper) => self.cache.wrap(slot, &wrapper, self.now),
                None => self.cache.unwrap(slot),
            }
            if self.cache.get(slot).is_some_and(|entry| entry.state != ResourceState::Acked) {
                self.clear_error(slot);
            }
        }
    }

    fn commit_delta<'f>(
        &mut self,
        candidates: Vec<Candidate<'f>>,
        frame: &Bytes,
        classified: &mut Classified<'f>,
    ) {
        let held = self.retain_frame(&candidates, &classified.duplicates, frame);
        for mut candidate in candidates {
            let wrapper = candidate.wrapper.unwrap_or_default();
            self.cache.begin_version(Version::from(wrapper.version));
            candidate.wrapper = non_default_wrapper(wrapper);
            self.commit_candidate(candidate, held, &mut classified.faults);
        }
    }

    /// Handles the server's report that a resource does not exist: a deletion if it existed,
    /// otherwise the answer to the subscription.
    // DX-11, B03
    pub(crate) fn handle_absent(&mut self, slot: Slot) {
        let Some(entry) = self.cache.get(slot) else { return };
        let is_kept = entry.bytes.is_none() || !self.is_dropped_on(&WatchErrorKind::Deleted);
        if entry.state == ResourceState::DoesNotExist && is_kept {
            return; // Reported before.
        }
        let was_received = entry.bytes.is_some() || entry.state == ResourceState::Nacked;
        let kind = if was_received { WatchErrorKind::Deleted } else { WatchErrorKind::Absent };
        self.set_data_error(slot, ResourceState::DoesNotExist, kind);
    }
}

/// Returns the wrapper if it contains more than a version, which the cache stores separately.
fn non_default_wrapper(wrapper: Wrapper<'_>) -> Option<Wrapper<'_>> {
    let says_more = wrapper.metadata.is_some()
        || wrapper.ttl.is_some()
        || wrapper.cache_control != CacheControl::Cacheable;
    says_more.then_some(wrapper)
}
