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
    Judge, Judged,
    classify::{Candidate, DUPLICATE, Reading},
    duplicates::Overruled,
    nack_message::{self, Place},
};
use crate::{
    cache_control::CacheControl,
    client::{
        cache::Mark,
        config::resource_type::Rejection,
        event::{error::WatchErrorKind, status::EntryState},
        resource::unwrap::{Body, Wrapper},
    },
    slab::Slot,
    text::Version,
    types,
    wire::{delta_response::DeltaResponse, resource::Wrapped},
    zoo::{self, Bug},
};

/// Contents of an incremental response other than changed resources.
#[derive(Debug, Default)]
struct Beside<'f> {
    /// Unchanged resources.
    unchanged: Vec<(Slot, Wrapper<'f>)>,
    /// Resources reported as nonexistent.
    absent: Vec<Slot>,
    /// Globs reported as having no members.
    empty: Vec<Slot>,
}

impl Judge<'_> {
    /// Processes a well-formed incremental response and updates the cache.
    pub(crate) fn judge_delta(mut self, response: &DeltaResponse<'_>, frame: &Bytes) -> Judged {
        let before = self.cache.sequence();
        let (mut reading, beside) = self.read_delta(response, frame);
        let reported = self.read_errors(response.resource_errors(), &mut reading.faults);
        if self.refuses_all(&reading) {
            return self.refuse_all(reading, before);
        }

        self.renew(beside.unchanged);
        self.rewrap(&reading);
        self.commit_delta(core::mem::take(&mut reading.candidates), frame, &mut reading);
        // Changes other than those of single resources have the version of the response.
        self.cache.begin_version(Version::from(response.system_version));
        for &slot in &reading.repeated {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        for slot in beside.absent {
            let is_lost = zoo::is(Bug::RemovalsLostOnNack) && reading.faults.count() > 0;
            if !self.cache.is_duplicate(slot) && !is_lost {
                self.conclude_absent(slot);
            }
        }
        for slot in beside.empty {
            self.conclude_empty(slot, &reading);
        }
        self.receive_globs();
        for (slot, kind) in reported {
            self.take_report(slot, kind);
        }
        self.cache.end_response();
        self.note_collection(self.cache.sequence() != before);
        self.sum_up(reading)
    }

    fn read_delta<'f>(
        &mut self,
        response: &DeltaResponse<'f>,
        frame: &Bytes,
    ) -> (Reading<'f>, Beside<'f>) {
        let control_plane = nack_message::cut(response.control_plane, self.limits.token_bytes);
        let version = Version::from(response.system_version);
        self.cache.begin_response(version, control_plane, self.upstream, self.now);
        let mut reading = self.begin_reading();
        let mut beside = Beside::default();
        let mut resources = 0;
        let overruled = Overruled::in_delta(self.naming(), response);
        for (index, wrapped) in response.resources().enumerate() {
            resources = index + 1;
            if overruled.is_at(index) {
                continue;
            }
            match wrapped {
                Ok(wrapped) => {
                    self.read_wrapped(index, &wrapped, frame, &mut reading, &mut beside);
                }
                Err(why) => {
                    reading.faults.add_unnamed(Place::Resource(index), &alloc::format!("{why}"));
                }
            }
        }
        let removed = (resources..).zip(response.removed());
        for (_, name) in removed.filter(|&(index, _)| !overruled.is_at(index)) {
            self.read_absence(name, &mut reading, &mut beside);
        }
        if !reading.repeated.is_empty() || reading.strangers.has_repeated() {
            self.name_repeated_in(response, resources, &mut reading);
        }
        (reading, beside)
    }

    fn read_wrapped<'f>(
        &mut self,
        index: usize,
        wrapped: &Wrapped<'f>,
        frame: &Bytes,
        reading: &mut Reading<'f>,
        beside: &mut Beside<'f>,
    ) {
        let one = match self.naming().unwrap_delta(wrapped) {
            Ok(one) => one,
            Err(unusable) => {
                if let Some(slot) = self.read_unusable(index, unusable, reading) {
                    self.note_present(slot);
                }
                return;
            }
        };
        self.note_api(&one);
        let wrapper = one.wrapper.unwrap_or_default();
        let value = match one.body {
            Body::Resource(value) => value,
            Body::Heartbeat => {
                return self.read_empty(index, wrapped, wrapper, reading, beside);
            }
        };
        let name = match self.naming().name_of(&one) {
            Ok(name) => name,
            Err(rejection) => {
                reading.faults.add_unnamed(Place::Resource(index), rejection.reason());
                return;
            }
        };
        self.resolve_aliases(name, wrapper.aliases);
        let Some(slot) = self.find_or_expect(name, index, reading) else { return };
        self.note_present(slot);
        match self.cache.mark(slot) {
            Mark::First => {
                if self.cache.get(slot).and_then(|entry| entry.bytes.as_deref()) == Some(value) {
                    return beside.unchanged.push((slot, wrapper));
                }
                let bytes = frame.slice_ref(value);
                let verdict = self.verdict_on(slot, &bytes);
                let wrapper = Some(wrapper);
                reading.candidates.push(Candidate { index, slot, bytes, wrapper, verdict });
            }
            mark => self.note_repeated(slot, mark, reading),
        }
    }

    /// Handles a wrapper without a resource. With the version in use it is a heartbeat. With a TTL
    /// and another version it is invalid. Otherwise it reports that the resource, or the resource
    /// of an alias, does not exist. For virtual hosts, which have no heartbeats, it always does.
    // D21, DX-33, DX-34, DX-39, NA-05
    fn read_empty<'f>(
        &mut self,
        index: usize,
        wrapped: &Wrapped<'f>,
        wrapper: Wrapper<'f>,
        reading: &mut Reading<'f>,
        beside: &mut Beside<'f>,
    ) {
        const NOT_IN_USE: &str =
            "it has a TTL but no content, and its version is not the one in use";
        let slot = self.find(wrapped.name).filter(|&slot| self.may_come_from_here(slot));
        let has_heartbeats = types::has_heartbeats(self.resource_type.type_url().as_str());
        let is_in_use = slot.and_then(|slot| self.cache.get(slot)).is_some_and(|entry| {
            entry.bytes.is_some() && self.cache.version_of(entry).as_str() == wrapper.version
        });
        if let Some(slot) = slot.filter(|_| is_in_use) {
            self.note_present(slot);
        }
        match slot {
            Some(slot) if has_heartbeats && is_in_use => match self.cache.mark(slot) {
                Mark::First => reading.heartbeats.push((slot, wrapper)),
                mark => self.note_repeated(slot, mark, reading),
            },
            Some(slot) if has_heartbeats && wrapper.ttl.is_some() => {
                self.refuse(index, slot, Rejection::new(NOT_IN_USE), reading);
            }
            // The resource may have expired in the meantime. After the NACK, the server sends it
            // again.
            None if has_heartbeats && wrapper.ttl.is_some() && self.asked.has_wildcard => {
                reading.faults.add(Place::Resource(index), wrapped.name, NOT_IN_USE);
            }
            _ => {
                self.read_absence(wrapped.name, reading, beside);
                for alias in wrapped.aliases().iter() {
                    self.read_absence(alias, reading, beside);
                }
            }
        }
    }

    /// Handles a resource reported as nonexistent. Names that were not requested are ignored. The
    /// name of a glob without members may be repeated.
    // DX-13
    fn read_absence(&mut self, name: &str, reading: &mut Reading<'_>, beside: &mut Beside<'_>) {
        let subject = self.find_subject(name).filter(|&slot| self.may_come_from_here(slot));
        let Some(slot) = subject else { return };
        match self.cache.mark(slot) {
            Mark::First if self.is_glob(slot) => beside.empty.push(slot),
            _ if self.is_glob(slot) => {}
            Mark::First => beside.absent.push(slot),
            mark => self.note_repeated(slot, mark, reading),
        }
    }

    /// Adds every copy of a duplicated name to the faults, in a second pass over the response.
    fn name_repeated_in<'f>(
        &self,
        response: &DeltaResponse<'f>,
        resources: usize,
        reading: &mut Reading<'f>,
    ) {
        let wrapped = response.resources().map(|wrapped| wrapped.map_or("", |it| it.name));
        let removed = (resources..).zip(response.removed());
        for (index, name) in wrapped.enumerate().chain(removed) {
            let is_repeated = match self.find(name) {
                Some(slot) => self.cache.is_duplicate(slot),
                None => reading.strangers.came_twice(name),
            };
            if is_repeated {
                reading.faults.add(Place::Resource(index), name, DUPLICATE);
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
            self.cache.overrule(slot);
            self.cache.renew(slot);
            match worth_keeping(wrapper) {
                Some(wrapper) => self.cache.wrap(slot, &wrapper, self.now),
                None => self.cache.unwrap(slot),
            }
            if self.cache.get(slot).is_some_and(|entry| entry.state != EntryState::Acked) {
                self.clear_error(slot);
            }
        }
    }

    fn commit_delta<'f>(
        &mut self,
        candidates: Vec<Candidate<'f>>,
        frame: &Bytes,
        reading: &mut Reading<'f>,
    ) {
        let held = self.hold_frame(&candidates, &reading.repeated, frame);
        for mut candidate in candidates {
            let wrapper = candidate.wrapper.unwrap_or_default();
            self.cache.begin_version(Version::from(wrapper.version));
            candidate.wrapper = worth_keeping(wrapper);
            self.commit_one(candidate, held, &mut reading.faults);
        }
    }

    /// Handles the server's report that a resource does not exist: a deletion if it existed,
    /// otherwise the answer to the subscription.
    // DX-11, B03
    pub(crate) fn conclude_absent(&mut self, slot: Slot) {
        let Some(entry) = self.cache.get(slot) else { return };
        let is_kept = entry.bytes.is_none() || !self.drops(&WatchErrorKind::Deleted);
        if entry.state == EntryState::DoesNotExist && is_kept {
            return; // Reported before.
        }
        let was_received = entry.bytes.is_some() || entry.state == EntryState::Nacked;
        let kind = if was_received { WatchErrorKind::Deleted } else { WatchErrorKind::Absent };
        self.data_error(slot, EntryState::DoesNotExist, kind);
    }
}

/// Returns the wrapper if it contains more than a version, which the cache stores separately.
fn worth_keeping(wrapper: Wrapper<'_>) -> Option<Wrapper<'_>> {
    let says_more = wrapper.metadata.is_some()
        || wrapper.ttl.is_some()
        || wrapper.cache_control != CacheControl::MayKeep;
    says_more.then_some(wrapper)
}
