//! First phase of processing a response: classification and validation of each resource.
//!
//! ```text
//!  Any ─▶ identical to the expected next one? ─▶ unchanged           (the usual case)
//!             │ no
//!             ▼
//!          unwrap ─▶ named, subscribed, unique? ─▶ the one in use? ─▶ unchanged
//!                                                      │ no
//!                                                      ▼
//!                                                  validate ─▶ candidate
//! ```
//!
//! This phase only changes the versions of unchanged resources, and reverts that for duplicated
//! names.

use alloc::vec::Vec;

use bytes::Bytes;

use super::{
    Judge,
    duplicates::Overruled,
    nack_message::{self, Faults, Place, Strangers},
};
use crate::{
    client::{
        cache::{Mark, entry::Entry},
        config::{
            profile::ReportedErrors,
            resource_type::{Held, Rejection, Value},
        },
        event::{error::WatchErrorKind, status::EntryState},
        resource::{
            name::Naming,
            unwrap::{Body, Unusable, Unwrapped, Wrapper},
        },
    },
    service::{ApiVersion, Variant},
    slab::Slot,
    text::{ResourceName, Version},
    wire::{Malformed, resource_error::RawResourceError, response::Response},
    zoo::{self, Bug},
};

/// Result of classifying a response.
#[derive(Debug)]
pub(crate) struct Reading<'f> {
    pub(crate) candidates: Vec<Candidate<'f>>,
    /// Entries that the response contains more than once.
    pub(crate) repeated: Vec<Slot>,
    /// Entries whose resource in use is the newest version again.
    pub(crate) recovered: Vec<Slot>,
    /// Unchanged entries whose wrapper may have been changed, added or removed.
    pub(crate) wrapped: Vec<(Slot, Option<Wrapper<'f>>)>,
    /// Entries whose TTL alone is renewed.
    pub(crate) heartbeats: Vec<(Slot, Wrapper<'f>)>,
    pub(crate) faults: Faults,
    pub(crate) strangers: Strangers,
    /// Whether the response consists of heartbeats, at least one.
    pub(crate) has_heartbeats_alone: bool,
}

/// Subscribed resource that differs from the one in use, with the result of its validation.
#[derive(Debug)]
pub(crate) struct Candidate<'f> {
    /// Position in the response.
    pub(crate) index: usize,
    pub(crate) slot: Slot,
    pub(crate) bytes: Bytes,
    pub(crate) wrapper: Option<Wrapper<'f>>,
    pub(crate) verdict: Result<Option<Value>, Rejection>,
}

impl Reading<'_> {
    /// Returns whether the absence of a resource from a complete response is significant. It is not
    /// if the response contains a resource whose name is unknown, nor if it consists of heartbeats,
    /// which servers send independently of other resources.
    pub(crate) fn tells_absence(&self) -> bool {
        !self.faults.has_unnamed() && !self.has_heartbeats_alone
    }
}

impl Judge<'_> {
    /// Compares every resource with the cache and validates the changed ones.
    pub(crate) fn read<'f>(&mut self, response: &Response<'f>, frame: &Bytes) -> Reading<'f> {
        let control_plane = nack_message::cut(response.control_plane, self.limits.token_bytes);
        let version = Version::from(response.version);
        self.cache.begin_response(version, control_plane, self.upstream, self.now);
        let mut reading = self.begin_reading();
        if self.asked.has_wildcard {
            self.cache.make_room_for(response.resource_count.min(self.limits.resources_per_type));
        }
        // Servers usually repeat resources in the order of the previous response, which is that of
        // the cache. The next entry is therefore tried before its name is looked up.
        let mut guess = self.cache.first();
        let mut has_content = false;
        let overruled = Overruled::in_sotw(self.naming(), response);
        let type_url = self.resource_type.type_url().as_str().as_bytes();
        for (index, raw) in response.resources().enumerate() {
            if overruled.is_at(index) {
                continue;
            }
            let raw = match raw {
                Ok(raw) => raw,
                Err(why) => {
                    reading.faults.add_unnamed(Place::Resource(index), &alloc::format!("{why}"));
                    continue;
                }
            };
            let is_plain = raw.type_url == type_url;
            if is_plain
                && self.cache.is_plain_repeat(guess, raw.value)
                && self.may_come_from_here(guess)
            {
                self.repeat(guess, &mut reading);
                has_content = true;
                guess = self.cache.following(guess);
                continue;
            }
            let slot = match self.naming().unwrap(&raw) {
                Ok(one) => {
                    has_content |= one.body != Body::Heartbeat;
                    self.read_one(index, one, guess, response, frame, &mut reading)
                }
                Err(unusable) => {
                    has_content |= !unusable.is_heartbeat;
                    self.read_unusable(index, unusable, &mut reading)
                }
            };
            if let Some(slot) = slot {
                guess = self.cache.following(slot);
            }
        }
        reading.has_heartbeats_alone = response.resource_count > 0 && !has_content;
        if !reading.repeated.is_empty() || reading.strangers.has_repeated() {
            self.name_repeated(response, &mut reading);
        }
        reading
    }

    pub(crate) fn begin_reading<'f>(&self) -> Reading<'f> {
        Reading {
            candidates: Vec::new(),
            repeated: Vec::new(),
            recovered: Vec::new(),
            wrapped: Vec::new(),
            heartbeats: Vec::new(),
            faults: Faults::new(self.limits.nack_message_bytes),
            strangers: Strangers::new(self.strangers_seed),
            has_heartbeats_alone: false,
        }
    }

    /// Classifies a resource other than a plain repetition of the expected one. Returns its entry,
    /// if any.
    fn read_one<'f>(
        &mut self,
        index: usize,
        one: Unwrapped<'f>,
        guess: Slot,
        response: &Response<'f>,
        frame: &Bytes,
        reading: &mut Reading<'f>,
    ) -> Option<Slot> {
        self.note_api(&one);
        let name = match self.naming().name_of(&one) {
            Ok(name) => name,
            Err(rejection) => {
                reading.faults.add_unnamed(Place::Resource(index), rejection.reason());
                return None;
            }
        };
        let value = match one.body {
            Body::Resource(value) => value,
            Body::Heartbeat => {
                let wrapper = one.wrapper.unwrap_or_default();
                return self.read_heartbeat(index, name, wrapper, response, reading);
            }
        };
        let is_guessed = self.cache.get(guess).is_some_and(|entry| entry.name == *name)
            && self.may_come_from_here(guess);
        let slot = match is_guessed {
            true => guess,
            false => self.find_or_expect(name, index, reading)?,
        };
        if self.cache.get(slot).and_then(|entry| entry.bytes.as_deref()) == Some(value) {
            if self.repeat(slot, reading) == Mark::First
                && self.cache.has_other_wrapper(slot, one.wrapper.as_ref())
            {
                reading.wrapped.push((slot, one.wrapper));
            }
            return Some(slot);
        }
        match self.cache.mark(slot) {
            Mark::First => {
                let bytes = frame.slice_ref(value);
                let verdict = self.verdict_on(slot, &bytes);
                let wrapper = one.wrapper;
                reading.candidates.push(Candidate { index, slot, bytes, wrapper, verdict });
            }
            mark => self.note_repeated(slot, mark, reading),
        }
        Some(slot)
    }

    /// Counts resources of API version 2, to show whether any server still sends them.
    // S4.011
    pub(crate) fn note_api(&mut self, one: &Unwrapped<'_>) {
        if one.api == ApiVersion::V2 {
            self.stats.older_resources += 1;
        }
    }

    /// Rejects an unusable wrapper under its name, so that the resource counts as present.
    pub(crate) fn read_unusable<'f>(
        &mut self,
        index: usize,
        unusable: Unusable<'f>,
        reading: &mut Reading<'f>,
    ) -> Option<Slot> {
        let Unusable { name, reason, .. } = unusable;
        let place = Place::Resource(index);
        let Some(slot) = self.find(name).filter(|&slot| self.may_come_from_here(slot)) else {
            match self.naming().check(name) {
                Ok(()) => reading.faults.add(place, name, &reason),
                Err(_) if name.is_empty() => reading.faults.add_unnamed(place, &reason),
                Err(why) => {
                    let reason = alloc::format!("{reason}, and {}", why.reason());
                    reading.faults.add_unnamed(place, &reason);
                }
            }
            return None;
        };
        self.refuse(index, slot, Rejection::from(reason), reading);
        Some(slot)
    }

    /// Classifies a wrapper without a resource: it renews the TTL if it has the version in use,
    /// otherwise it is invalid.
    // D22, DX-38
    fn read_heartbeat<'f>(
        &mut self,
        index: usize,
        name: &'f str,
        wrapper: Wrapper<'f>,
        response: &Response<'f>,
        reading: &mut Reading<'f>,
    ) -> Option<Slot> {
        const NOT_IN_USE: &str = "it has no content, and its version is not the one in use";
        let Some(slot) = self.find(name).filter(|&slot| self.may_come_from_here(slot)) else {
            // Not subscribed on this server, or never received under a wildcard.
            if self.asked.has_wildcard {
                reading.faults.add(Place::Resource(index), name, NOT_IN_USE);
            }
            return None;
        };
        let is_version_in_use = match wrapper.version {
            "" => {
                response.version == self.accepted.as_str()
                    || self.cache.is_response_version(slot, response.version)
            }
            version => self.cache.is_own_version(slot, version),
        };
        let entry = self.cache.get(slot)?;
        if entry.bytes.is_some() && is_version_in_use {
            match self.cache.mark(slot) {
                Mark::First => reading.heartbeats.push((slot, wrapper)),
                mark => self.note_repeated(slot, mark, reading),
            }
        } else if entry.bytes.is_none() && entry.subscription.is_none() {
            // The resource was dropped before, so it cannot be rejected.
            reading.faults.add(Place::Resource(index), name, NOT_IN_USE);
        } else {
            self.refuse(index, slot, Rejection::new(NOT_IN_USE), reading);
        }
        Some(slot)
    }

    pub(crate) fn refuse<'f>(
        &mut self,
        index: usize,
        slot: Slot,
        rejection: Rejection,
        reading: &mut Reading<'f>,
    ) {
        match self.cache.mark(slot) {
            Mark::First => {
                let verdict = Err(rejection);
                let bytes = Bytes::new();
                let refused = Candidate { index, slot, bytes, wrapper: None, verdict };
                reading.candidates.push(refused);
            }
            mark => self.note_repeated(slot, mark, reading),
        }
    }

    /// Notes a resource that is identical to the one in use. Watchers are only notified if it
    /// clears an error.
    // D15, B54
    #[inline]
    fn repeat(&mut self, slot: Slot, reading: &mut Reading<'_>) -> Mark {
        let mark = self.cache.mark(slot);
        if mark == Mark::First {
            self.stats.resources_valid += 1;
            self.cache.renew_unchanged(slot);
            if self.cache.get(slot).is_some_and(|entry| entry.state != EntryState::Acked) {
                reading.recovered.push(slot);
            }
        } else {
            self.note_repeated(slot, mark, reading);
        }
        mark
    }

    /// Reverts the effects of the first copy of a duplicated name.
    pub(crate) fn note_repeated(&mut self, slot: Slot, mark: Mark, reading: &mut Reading<'_>) {
        if mark != Mark::Second || zoo::is(Bug::DuplicatesAccepted) {
            return;
        }
        reading.repeated.push(slot);
        if self.cache.take_back_renewal(slot) {
            self.stats.resources_valid -= 1;
        }
    }

    /// Returns the errors that the server reports for single resources. An error is only a fault of
    /// the response if it cannot be parsed, its name is invalid, or its status is OK. Errors of
    /// resources that were not requested, or that the response contains, are ignored. The first of
    /// several errors of a resource is used.
    pub(crate) fn read_errors<'e>(
        &mut self,
        errors: impl Iterator<Item = Result<RawResourceError<'e>, Malformed>>,
        faults: &mut Faults,
    ) -> Vec<(Slot, WatchErrorKind)> {
        let mut reported = Vec::new();
        if self.context.profile.reported_errors == ReportedErrors::Ignored {
            return reported;
        }
        for (index, error) in errors.enumerate() {
            let place = Place::Error(index);
            let RawResourceError { name, code, message } = match error {
                Ok(error) => error,
                Err(why) => {
                    faults.add_unnamed(place, &alloc::format!("{why}"));
                    continue;
                }
            };
            if let Err(why) = self.naming().check_subject(name) {
                faults.add_unnamed(place, why.reason());
            } else if code == 0 {
                faults.add(place, name, "its status is OK");
            } else if let Some(slot) = self.find_subject(name)
                && self.may_come_from_here(slot)
                && !self.cache.is_in_response(slot)
                && !self.cache.get(slot).is_some_and(Entry::is_tombstone)
            {
                self.cache.mark(slot);
                let message = nack_message::cut(message, self.limits.error_message_bytes).into();
                reported.push((slot, WatchErrorKind::Reported { code, message }));
            }
        }
        reported
    }

    /// Adds every copy of a duplicated name to the faults, in a second pass over the response.
    fn name_repeated<'f>(&self, response: &Response<'f>, reading: &mut Reading<'f>) {
        for (index, raw) in response.resources().enumerate() {
            let found = |raw| self.naming().found(self.naming().unwrap(&raw));
            let Some(name) = raw.ok().and_then(found) else { continue };
            let is_repeated = match self.find(name) {
                Some(slot) => self.cache.is_duplicate(slot),
                None => reading.strangers.came_twice(name),
            };
            if is_repeated {
                reading.faults.add(Place::Resource(index), name, DUPLICATE);
            }
        }
    }

    /// Returns the settings for names of this response's resources.
    pub(crate) fn naming(&self) -> Naming<'_> {
        Naming {
            resource_type: self.resource_type,
            limits: self.limits,
            profile: self.context.profile,
        }
    }

    /// Returns the entry of a resource.
    pub(crate) fn find(&self, name: &str) -> Option<Slot> {
        self.find_subject(name).filter(|&slot| !self.is_glob(slot))
    }

    /// Returns the entry of a resource or a glob.
    pub(crate) fn find_subject(&self, name: &str) -> Option<Slot> {
        self.cache.find(&self.naming().kept(name))
    }

    pub(crate) fn is_glob(&self, slot: Slot) -> bool {
        self.cache.get(slot).is_some_and(|entry| entry.is_glob)
    }

    /// Returns the verdict on a changed resource: the external one if there is one, otherwise that
    /// of validation.
    pub(crate) fn verdict_on(&self, slot: Slot, bytes: &Bytes) -> Result<Option<Value>, Rejection> {
        let entry = self.cache.get(slot);
        if let Some(said) = entry.and_then(|entry| self.settlement.verdict(entry.name.as_str())) {
            return said;
        }
        let held = entry.and_then(|entry| Some(Held::new(entry.bytes.as_ref()?, entry.value()?)));
        match held {
            Some(held) => self.resource_type.validate_after(held, bytes, &self.context),
            None => self.resource_type.validate(bytes, &self.context),
        }
    }

    /// Returns the entry of a requested resource. Under a wildcard or glob, a new name gets an
    /// entry. Resources that were not requested are ignored, except that their names must be unique
    /// too.
    // S0.101, IC13, FE-22
    pub(crate) fn find_or_expect(
        &mut self,
        name: &str,
        index: usize,
        reading: &mut Reading<'_>,
    ) -> Option<Slot> {
        let read = self.naming().read(name).ok()?;
        let name = &*read.name;
        let known = self.cache.find(name);
        if known.is_some_and(|slot| self.may_come_from_here(slot)) {
            return known;
        }
        let is_foreign = read.authority.is_some();
        let globs = &self.cache.globs;
        if known.is_some() || !self.asked.by_collection(name, is_foreign, self.interest, globs) {
            reading.strangers.note(name);
            return None;
        }
        // A complete response replaces all resources, so only its own resources count.
        let limit = self.limits.resources_per_type;
        let is_sotw = self.context.server.variant == Variant::StateOfTheWorld;
        let held = match is_sotw && self.resource_type.full_state_in_sotw() {
            true => self.cache.marked(),
            false => self.cache.live(),
        };
        if held >= limit {
            let reason = alloc::format!("more than {limit} resources");
            reading.faults.add(Place::Resource(index), name, &reason);
            return None;
        }
        let slot = self.cache.create(ResourceName::from(name))?;
        self.cache.get_mut(slot)?.is_foreign = is_foreign;
        Some(slot)
    }
}

/// Reason for rejecting each copy of a duplicated name.
// X10
pub(crate) const DUPLICATE: &str = "the name comes more than once in the response";
