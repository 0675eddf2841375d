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
    ResponseProcessor,
    duplicates::IgnoredDuplicates,
    nack_message::{self, FaultLocation, Faults, UnrequestedNames},
};
use crate::{
    client::{
        cache::{Occurrence, entry::CacheEntry},
        config::{
            profile::ReportedErrors,
            resource_type::{CachedResource, Rejection, Value},
        },
        event::{error::WatchErrorKind, status::ResourceState},
        resource::{
            name::Naming,
            unwrap::{ResourceBody, Unusable, Unwrapped, Wrapper},
        },
    },
    service::{ApiVersion, Variant},
    slab::Slot,
    status_code::StatusCode,
    text::{ResourceName, Version},
    wire::{Malformed, resource_error::RawResourceError, response::Response, walk::part_of},
    zoo::{self, Bug},
};

/// Result of classifying a response.
#[derive(Debug)]
pub(crate) struct Classified<'f> {
    pub(crate) candidates: Vec<Candidate<'f>>,
    /// Entries that the response contains more than once.
    pub(crate) duplicates: Vec<Slot>,
    /// Entries whose resource in use is the newest version again.
    pub(crate) recovered: Vec<Slot>,
    /// Unchanged entries whose wrapper may have been changed, added or removed.
    pub(crate) wrapped: Vec<(Slot, Option<Wrapper<'f>>)>,
    /// Entries whose TTL alone is renewed.
    pub(crate) heartbeats: Vec<(Slot, Wrapper<'f>)>,
    pub(crate) faults: Faults,
    pub(crate) unrequested: UnrequestedNames,
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

impl Classified<'_> {
    /// Returns whether the absence of a resource from a complete response is significant. It is not
    /// if the response contains a resource whose name is unknown, nor if it consists of heartbeats,
    /// which servers send independently of other resources.
    pub(crate) fn is_absence_significant(&self) -> bool {
        !self.faults.has_unnamed() && !self.has_heartbeats_alone
    }
}

impl ResponseProcessor<'_> {
    /// Compares every resource with the cache and validates the changed ones.
    pub(crate) fn classify<'f>(
        &mut self,
        response: &Response<'f>,
        frame: &Bytes,
    ) -> Classified<'f> {
        let control_plane = nack_message::cut(response.control_plane, self.limits.token_bytes);
        let version = Version::from(response.version);
        self.cache.begin_response(version, control_plane, self.upstream, self.now);
        let mut classified = self.new_classified();
        // Servers usually repeat resources in the order of the previous response, which is that of
        // the cache. The next entry is therefore tried before its name is looked up.
        let mut expected = self.cache.first();
        let mut has_content = false;
        let ignored = IgnoredDuplicates::in_sotw(self.naming(), response);
        let type_url = self.resource_type.type_url().as_str().as_bytes();
        for (index, raw) in response.resources().enumerate() {
            if ignored.is_at(index) {
                continue;
            }
            let raw = match raw {
                Ok(raw) => raw,
                Err(why) => {
                    classified
                        .faults
                        .add_unnamed(FaultLocation::Resource(index), &alloc::format!("{why}"));
                    continue;
                }
            };
            let is_plain = raw.type_url == type_url;
            if is_plain
                && self.cache.is_plain_unchanged(expected, raw.value)
                && self.may_be_sent_by_server(expected)
            {
                self.note_unchanged(expected, &mut classified);
                has_content = true;
                expected = self.cache.following(expected);
                continue;
            }
            let slot = match self.naming().unwrap(&raw) {
                Ok(one) => {
                    has_content |= one.body != ResourceBody::Heartbeat;
                    self.classify_one(index, one, expected, response, frame, &mut classified)
                }
                Err(unusable) => {
                    has_content |= !unusable.is_heartbeat;
                    self.classify_unusable(index, unusable, &mut classified)
                }
            };
            if let Some(slot) = slot {
                expected = self.cache.following(slot);
            }
        }
        classified.has_heartbeats_alone = response.resource_count > 0 && !has_content;
        if !classified.duplicates.is_empty() || classified.unrequested.has_duplicates() {
            self.list_duplicates(response, &mut classified);
        }
        classified
    }

    pub(crate) fn new_classified<'f>(&self) -> Classified<'f> {
        Classified {
            candidates: Vec::new(),
            duplicates: Vec::new(),
            recovered: Vec::new(),
            wrapped: Vec::new(),
            heartbeats: Vec::new(),
            faults: Faults::new(self.limits.nack_message_bytes),
            unrequested: UnrequestedNames::new(self.unrequested_seed),
            has_heartbeats_alone: false,
        }
    }

    /// Classifies a resource other than a plain repetition of the expected one. Returns its entry,
    /// if any.
    fn classify_one<'f>(
        &mut self,
        index: usize,
        one: Unwrapped<'f>,
        expected: Slot,
        response: &Response<'f>,
        frame: &Bytes,
        classified: &mut Classified<'f>,
    ) -> Option<Slot> {
        self.note_api(&one);
        let name = match self.naming().name_of(&one) {
            Ok(name) => name,
            Err(rejection) => {
                classified.faults.add_unnamed(FaultLocation::Resource(index), rejection.reason());
                return None;
            }
        };
        let value = match one.body {
            ResourceBody::Resource(value) => value,
            ResourceBody::Heartbeat => {
                let wrapper = one.wrapper.unwrap_or_default();
                return self.classify_heartbeat(index, name, wrapper, response, classified);
            }
        };
        let is_expected = self.cache.get(expected).is_some_and(|entry| entry.name == *name)
            && self.may_be_sent_by_server(expected);
        let slot = match is_expected {
            true => expected,
            false => self.find_or_create(name, index, classified)?,
        };
        if self.cache.get(slot).and_then(|entry| entry.bytes.as_deref()) == Some(value) {
            if self.note_unchanged(slot, classified) == Occurrence::First
                && self.cache.has_other_wrapper(slot, one.wrapper.as_ref())
            {
                classified.wrapped.push((slot, one.wrapper));
            }
            return Some(slot);
        }
        match self.cache.note_occurrence(slot) {
            Occurrence::First => {
                let bytes = part_of(frame, value);
                let verdict = self.verdict_on(slot, &bytes);
                let wrapper = one.wrapper;
                classified.candidates.push(Candidate { index, slot, bytes, wrapper, verdict });
            }
            occurrence => self.note_duplicate(slot, occurrence, classified),
        }
        Some(slot)
    }

    /// Counts resources of API version 2, to show whether any server still sends them.
    // S4.011
    pub(crate) fn note_api(&mut self, one: &Unwrapped<'_>) {
        if one.api == ApiVersion::V2 {
            self.stats.v2_resources += 1;
        }
    }

    /// Rejects an unusable wrapper under its name, so that the resource counts as present.
    pub(crate) fn classify_unusable<'f>(
        &mut self,
        index: usize,
        unusable: Unusable<'f>,
        classified: &mut Classified<'f>,
    ) -> Option<Slot> {
        let Unusable { name, reason, .. } = unusable;
        let location = FaultLocation::Resource(index);
        let Some(slot) = self.find(name).filter(|&slot| self.may_be_sent_by_server(slot)) else {
            match self.naming().check(name) {
                Ok(()) => classified.faults.add(location, name, &reason),
                Err(_) if name.is_empty() => classified.faults.add_unnamed(location, &reason),
                Err(why) => {
                    let reason = alloc::format!("{reason}, and {}", why.reason());
                    classified.faults.add_unnamed(location, &reason);
                }
            }
            return None;
        };
        self.add_rejected(index, slot, Rejection::from(reason), classified);
        Some(slot)
    }

    /// Classifies a wrapper without a resource: it renews the TTL if it has the version in use,
    /// otherwise it is invalid.
    // D22, DX-38
    fn classify_heartbeat<'f>(
        &mut self,
        index: usize,
        name: &'f str,
        wrapper: Wrapper<'f>,
        response: &Response<'f>,
        classified: &mut Classified<'f>,
    ) -> Option<Slot> {
        const NOT_IN_USE: &str = "resource has no content, and its version is not the one in use";
        let Some(slot) = self.find(name).filter(|&slot| self.may_be_sent_by_server(slot)) else {
            // Not subscribed on this server, or never received under a wildcard.
            if self.requested.has_wildcard {
                classified.faults.add(FaultLocation::Resource(index), name, NOT_IN_USE);
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
            match self.cache.note_occurrence(slot) {
                Occurrence::First => classified.heartbeats.push((slot, wrapper)),
                occurrence => self.note_duplicate(slot, occurrence, classified),
            }
        } else if entry.bytes.is_none() && entry.subscription.is_none() {
            // The resource was dropped before, so it cannot be rejected.
            classified.faults.add(FaultLocation::Resource(index), name, NOT_IN_USE);
        } else {
            self.add_rejected(index, slot, Rejection::new(NOT_IN_USE), classified);
        }
        Some(slot)
    }

    pub(crate) fn add_rejected<'f>(
        &mut self,
        index: usize,
        slot: Slot,
        rejection: Rejection,
        classified: &mut Classified<'f>,
    ) {
        match self.cache.note_occurrence(slot) {
            Occurrence::First => {
                let verdict = Err(rejection);
                let bytes = Bytes::new();
                let rejected = Candidate { index, slot, bytes, wrapper: None, verdict };
                classified.candidates.push(rejected);
            }
            occurrence => self.note_duplicate(slot, occurrence, classified),
        }
    }

    /// Notes a resource that is identical to the one in use. Watchers are only notified if it
    /// clears an error.
    // D15, B54
    #[inline]
    fn note_unchanged(&mut self, slot: Slot, classified: &mut Classified<'_>) -> Occurrence {
        let occurrence = self.cache.note_occurrence(slot);
        if occurrence == Occurrence::First {
            self.stats.resources_valid += 1;
            self.cache.renew_unchanged(slot);
            if self.cache.get(slot).is_some_and(|entry| entry.state != ResourceState::Acked) {
                classified.recovered.push(slot);
            }
        } else {
            self.note_duplicate(slot, occurrence, classified);
        }
        occurrence
    }

    /// Reverts the effects of the first copy of a duplicated name.
    pub(crate) fn note_duplicate(
        &mut self,
        slot: Slot,
        occurrence: Occurrence,
        classified: &mut Classified<'_>,
    ) {
        if occurrence != Occurrence::Second || zoo::is(Bug::DuplicatesAccepted) {
            return;
        }
        classified.duplicates.push(slot);
        if self.cache.revert_renewal(slot) {
            self.stats.resources_valid -= 1;
        }
    }

    /// Returns the errors that the server reports for single resources. An error is only a fault of
    /// the response if it cannot be parsed, its name is invalid, or its status is OK. Errors of
    /// resources that were not requested, or that the response contains, are ignored. The first of
    /// several errors of a resource is used.
    pub(crate) fn classify_errors<'e>(
        &mut self,
        errors: impl Iterator<Item = Result<RawResourceError<'e>, Malformed>>,
        faults: &mut Faults,
    ) -> Vec<(Slot, WatchErrorKind)> {
        let mut reported = Vec::new();
        if self.context.profile.reported_errors == ReportedErrors::Ignored {
            return reported;
        }
        for (index, error) in errors.enumerate() {
            let location = FaultLocation::Error(index);
            let RawResourceError { name, code, message } = match error {
                Ok(error) => error,
                Err(why) => {
                    faults.add_unnamed(location, &alloc::format!("{why}"));
                    continue;
                }
            };
            if let Err(why) = self.naming().check_subject(name) {
                faults.add_unnamed(location, why.reason());
            } else if code == 0 {
                faults.add(location, name, "the error has status OK");
            } else if let Some(slot) = self.find_subject(name)
                && self.may_be_sent_by_server(slot)
                && !self.cache.is_in_response(slot)
                && !self.cache.get(slot).is_some_and(CacheEntry::is_tombstone)
            {
                self.cache.note_occurrence(slot);
                let message = nack_message::cut(message, self.limits.error_message_bytes).into();
                let code = StatusCode::from_i32(code);
                reported.push((slot, WatchErrorKind::Reported { code, message }));
            }
        }
        reported
    }

    /// Adds every copy of a duplicated name to the faults, in a second pass over the response.
    fn list_duplicates<'f>(&self, response: &Response<'f>, classified: &mut Classified<'f>) {
        for (index, raw) in response.resources().enumerate() {
            let found = |raw| self.naming().known_name(self.naming().unwrap(&raw));
            let Some(name) = raw.ok().and_then(found) else { continue };
            let is_duplicate = match self.find(name) {
                Some(slot) => self.cache.is_duplicate(slot),
                None => classified.unrequested.is_duplicate(name),
            };
            if is_duplicate {
                classified.faults.add(FaultLocation::Resource(index), name, DUPLICATE);
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
        self.cache.find(&self.naming().canonical(name))
    }

    pub(crate) fn is_glob(&self, slot: Slot) -> bool {
        self.cache.get(slot).is_some_and(|entry| entry.is_glob)
    }

    /// Returns the verdict on a changed resource: the external one if there is one, otherwise that
    /// of validation.
    pub(crate) fn verdict_on(&self, slot: Slot, bytes: &Bytes) -> Result<Option<Value>, Rejection> {
        let entry = self.cache.get(slot);
        if let Some(verdict) = entry.and_then(|entry| self.verdicts.verdict(entry.name.as_str())) {
            return verdict;
        }
        let held = entry
            .and_then(|entry| Some(CachedResource::new(entry.bytes.as_ref()?, entry.value()?)));
        match held {
            Some(held) => self.resource_type.validate_update(held, bytes, &self.context),
            None => self.resource_type.validate(bytes, &self.context),
        }
    }

    /// Returns the entry of a requested resource. Under a wildcard or glob, a new name gets an
    /// entry. Resources that were not requested are ignored, except that their names must be unique
    /// too.
    // S0.101, IC13, FE-22
    pub(crate) fn find_or_create(
        &mut self,
        name: &str,
        index: usize,
        classified: &mut Classified<'_>,
    ) -> Option<Slot> {
        let read = self.naming().parse(name).ok()?;
        let name = &*read.name;
        let known = self.cache.find(name);
        if known.is_some_and(|slot| self.may_be_sent_by_server(slot)) {
            return known;
        }
        let has_authority = read.authority.is_some();
        let globs = &self.cache.globs;
        if known.is_some()
            || !self.requested.is_covered_by_collection(name, has_authority, self.interest, globs)
        {
            classified.unrequested.note(name);
            return None;
        }
        // A complete response replaces all resources, so only its own resources count.
        let limit = self.limits.resources_per_type;
        let is_sotw = self.context.server.variant == Variant::StateOfTheWorld;
        let held = match is_sotw && self.resource_type.full_state_in_sotw() {
            true => self.cache.occurred(),
            false => self.cache.live(),
        };
        if held >= limit {
            let reason = alloc::format!("more than {limit} resources of this type");
            classified.faults.add(FaultLocation::Resource(index), name, &reason);
            return None;
        }
        let slot = self.cache.create(ResourceName::from(name))?;
        self.cache.get_mut(slot)?.has_authority = has_authority;
        Some(slot)
    }
}

/// Reason for rejecting each copy of a duplicated name.
// X10
pub(crate) const DUPLICATE: &str = "duplicate resource name in the response";
