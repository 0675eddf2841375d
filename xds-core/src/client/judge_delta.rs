//! An incremental response: what was added or changed, then what was removed.
//!
//! It differs from the state of the world in three ways. Each resource has a version of its own and is
//! known by the name in its wrapper, not by the one inside (virtual hosts, for one, have another
//! inside). Nothing is said by leaving out. And there are two ways to say that a resource does not
//! exist: its name among the removed, and a wrapper without a resource (D21).

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use super::{
    cache::Mark,
    error::WatchErrorKind,
    faults::{Faults, Strangers},
    judge::{Candidate, DUPLICATE, Judge, wrong_type},
    resource_type::Rejection,
    status::EntryState,
};
use crate::{
    slab::Slot,
    text::Version,
    wire::{delta_response::DeltaResponse, resource::Wrapped},
};

/// What reading an incremental response found.
struct Reading<'f> {
    /// Changed resources with the versions they came in.
    candidates: Vec<(Version, Candidate<'f>)>,
    /// Unchanged ones.
    renewed: Vec<(Version, Slot)>,
    repeated: Vec<Slot>,
    absent: Vec<Slot>,
}

impl Judge<'_> {
    /// Judges a sound incremental response and commits it. `Some` is the message of the NACK.
    pub(crate) fn judge_delta(
        mut self,
        response: &DeltaResponse<'_>,
        frame: &Bytes,
    ) -> Option<Arc<str>> {
        let before = self.cache.sequence();
        let mut faults = Faults::new(self.limits.nack_message_bytes);
        let reading = self.read_delta(response, frame, &mut faults);

        for (version, slot) in reading.renewed {
            if !self.cache.is_duplicate(slot) {
                self.stats.resources_valid += 1;
                self.cache.begin_version(version, self.now);
                self.cache.renew(slot);
                if self.cache.get(slot).is_some_and(|entry| entry.state != EntryState::Acked) {
                    self.clear_error(slot);
                }
            }
        }
        self.commit_delta(reading.candidates, frame);
        // What is not about one version of a resource is the whole response's.
        self.cache.begin_version(Version::from(response.system_version), self.now);
        for slot in reading.repeated {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        for slot in reading.absent {
            if !self.cache.is_duplicate(slot) {
                self.remove(slot);
            }
        }
        self.note_collection(self.cache.sequence() != before);
        self.stats.resources_invalid += faults.count();
        faults.into_message()
    }

    fn read_delta<'f>(
        &mut self,
        response: &DeltaResponse<'f>,
        frame: &Bytes,
        faults: &mut Faults,
    ) -> Reading<'f> {
        let version = Version::from(response.system_version);
        self.cache.begin_response(version, self.upstream, self.now);
        let mut strangers = Strangers::new(self.strangers_seed);
        let mut reading = Reading {
            candidates: Vec::new(),
            renewed: Vec::new(),
            repeated: Vec::new(),
            absent: Vec::new(),
        };
        let mut count = 0;
        for (index, wrapped) in response.resources().enumerate() {
            count = index + 1;
            let wrapped = match wrapped {
                Ok(wrapped) => wrapped,
                Err(why) => {
                    faults.add(index, None, &alloc::format!("{why}"));
                    continue;
                }
            };
            self.read_resource(
                index,
                wrapped,
                response,
                frame,
                &mut strangers,
                &mut reading,
                faults,
            );
        }
        for (index, name) in response.removed().enumerate() {
            self.read_absence(count + index, name, &mut reading, faults);
        }
        reading
    }

    #[allow(clippy::too_many_arguments, reason = "one step of one loop")]
    fn read_resource<'f>(
        &mut self,
        index: usize,
        wrapped: Wrapped<'f>,
        response: &DeltaResponse<'f>,
        frame: &Bytes,
        strangers: &mut Strangers,
        reading: &mut Reading<'f>,
        faults: &mut Faults,
    ) {
        let raw = match wrapped.any() {
            Some(Ok(raw)) => raw,
            Some(Err(why)) => {
                return faults.add(index, Some(wrapped.name), &alloc::format!("{why}"));
            }
            None => return self.read_empty(index, wrapped, reading, faults),
        };
        if raw.type_url != response.type_url.as_bytes() {
            return faults.add(index, Some(wrapped.name), &wrong_type(&raw));
        }
        let name = match wrapped.name {
            "" => match self.name_of(&raw) {
                Ok(name) => name,
                Err(rejection) => return faults.add(index, None, rejection.reason()),
            },
            name => name,
        };
        if let Err(rejection) = self.check_name(name) {
            return faults.add(index, None, rejection.reason());
        }
        let Some(slot) = self.find_or_expect(name, index, strangers, faults) else { return };
        match self.cache.mark(slot) {
            Mark::First => {
                let version = Version::from(wrapped.version);
                let held = self.cache.get(slot).and_then(|entry| entry.bytes.as_deref());
                if held == Some(raw.value) {
                    return reading.renewed.push((version, slot));
                }
                let bytes = frame.slice_ref(raw.value);
                let verdict = self.resource_type.validate(&bytes, &self.context);
                if let Err(rejection) = &verdict {
                    faults.add(index, Some(name), rejection.reason());
                }
                reading.candidates.push((version, Candidate { slot, bytes: raw.value, verdict }));
            }
            Mark::Second => {
                faults.add(index, Some(name), DUPLICATE);
                reading.repeated.push(slot);
            }
            Mark::Further => {}
        }
    }

    /// A wrapper without a resource: of the version in use it is a heartbeat (DX-33), with a TTL of
    /// another version it lacks its resource (DX-34), and otherwise it says that the resource, or what
    /// an alias stands for, does not exist (D21, DX-39).
    fn read_empty(
        &mut self,
        index: usize,
        wrapped: Wrapped<'_>,
        reading: &mut Reading<'_>,
        faults: &mut Faults,
    ) {
        let held = self.cache.find(wrapped.name).and_then(|slot| self.cache.get(slot));
        let is_heartbeat = held.is_some_and(|entry| {
            entry.bytes.is_some() && self.cache.version_of(entry).as_str() == wrapped.version
        });
        if is_heartbeat {
            return;
        }
        if !matches!(wrapped.ttl(), Ok(None)) {
            let why = "it has a TTL but no resource, and its version is not the one in use";
            return faults.add(index, Some(wrapped.name), why);
        }
        if !wrapped.name.is_empty() {
            self.read_absence(index, wrapped.name, reading, faults);
        }
        for alias in wrapped.aliases() {
            self.read_absence(index, alias, reading, faults);
        }
    }

    /// Names that nobody asked for are passed over (DX-13).
    fn read_absence(
        &mut self,
        index: usize,
        name: &str,
        reading: &mut Reading<'_>,
        faults: &mut Faults,
    ) {
        let Some(slot) = self.cache.find(name).filter(|&slot| self.may_come_from_here(slot)) else {
            return;
        };
        match self.cache.mark(slot) {
            Mark::First => reading.absent.push(slot),
            Mark::Second => {
                faults.add(index, Some(name), DUPLICATE);
                reading.repeated.push(slot);
            }
            Mark::Further => {}
        }
    }

    fn commit_delta(&mut self, candidates: Vec<(Version, Candidate<'_>)>, frame: &Bytes) {
        let survivors = candidates.iter().map(|(_, candidate)| candidate);
        let held = self.hold_frame(survivors, frame);
        for (version, candidate) in candidates {
            self.cache.begin_version(version, self.now);
            self.commit_one(candidate, held, frame);
        }
    }

    /// The server says that there is no such resource: a deletion if there was one (DX-11), otherwise
    /// the answer to the subscription (B03).
    fn remove(&mut self, slot: Slot) {
        let Some(entry) = self.cache.get(slot) else { return };
        if entry.state == EntryState::DoesNotExist {
            return; // It was said before.
        }
        let was_received = entry.bytes.is_some() || entry.state == EntryState::Nacked;
        let kind = if was_received { WatchErrorKind::Deleted } else { WatchErrorKind::Absent };
        self.data_error(slot, EntryState::DoesNotExist, kind);
    }
}
