//! Processing of a response, from classification to the cache and the ACK or NACK.
//!
//! ```text
//! frame ─▶ classify each resource: unchanged, heartbeat or candidate    (classify.rs)
//!                             │ after the last resource
//!                             ▼
//!          accept valid ones, reject invalid ones, delete absent ones ─▶ ACK or NACK
//! ```
//!
//! The cache is only changed after all resources have been seen, because a duplicated name
//! invalidates both copies.
// X10

pub(crate) mod aliases;
pub(crate) mod any_response;
pub(crate) mod classify;
pub(crate) mod delta;
pub(crate) mod duplicates;
pub(crate) mod globs;
pub(crate) mod nack_message;
pub(crate) mod reject_all;

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use self::{
    aliases::MovedWatches,
    classify::{Candidate, Classified, DUPLICATE},
    nack_message::{FaultLocation, Faults},
};
use super::{
    cache::{Cache, entry::CacheEntry, retained_frames},
    channel::{requested::RequestedResources, verdicts::Verdicts},
    config::{
        ClientLimits, DataErrorPolicy,
        resource_type::{Rejection, ResourceType, ValidationContext},
    },
    event::{
        error::{ErrorCategory, ErrorOrigin, WatchError, WatchErrorKind},
        status::{ClientStats, ResourceState},
    },
    subscription::{Collection, TypeInterest},
    watch::{NoticeKind, UnhandledNotices, Watches, advance::note_reported, outbox::Outbox},
};
use crate::{
    service::Variant,
    slab::Slot,
    status_code::StatusCode,
    text::Version,
    time::Time,
    wire::response::Response,
    zoo::{self, Bug},
};

/// State used and changed by the processing of a response.
pub(crate) struct ResponseProcessor<'a> {
    pub(crate) resource_type: &'a dyn ResourceType,
    pub(crate) context: ValidationContext<'a>,
    pub(crate) source: &'a Arc<ErrorOrigin>,
    pub(crate) data_errors: DataErrorPolicy,
    pub(crate) limits: &'a ClientLimits,
    pub(crate) cache: &'a mut Cache,
    pub(crate) interest: &'a mut TypeInterest,
    pub(crate) watches: &'a mut Watches,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) unhandled: &'a mut Option<UnhandledNotices>,
    pub(crate) stats: &'a mut ClientStats,
    pub(crate) unrequested_seed: u64,
    /// Version of the type last accepted from this server.
    pub(crate) accepted: Version,
    pub(crate) now: Time,
    /// External verdicts on the response's resources.
    pub(crate) verdicts: &'a Verdicts,
    /// Number of channels that had ended before this one.
    pub(crate) epoch: u64,
    /// Resources requested from the server.
    pub(crate) requested: RequestedResources<'a>,
    /// Position of the server.
    pub(crate) upstream: usize,
    /// Moves of watches from aliases to resources.
    pub(crate) moved: &'a mut Vec<MovedWatches>,
}

/// Result of processing a response.
#[derive(Debug)]
pub(crate) struct ProcessedResponse {
    /// Message of the NACK; `None` for an ACK.
    pub(crate) nack: Option<Arc<str>>,
    /// Whether the response contains a resource whose name is unknown.
    pub(crate) has_unnamed: bool,
    /// Whether the response should be the complete state of its type but consists of heartbeats.
    pub(crate) is_renewal: bool,
}

impl ResponseProcessor<'_> {
    /// Processes a well-formed state-of-the-world response and updates the cache.
    pub(crate) fn process(mut self, response: &Response<'_>, frame: &Bytes) -> ProcessedResponse {
        let before = self.cache.sequence();
        let mut classified = self.classify(response, frame);
        let reported = self.classify_errors(response.resource_errors(), &mut classified.faults);
        if self.rejects_all(&classified) {
            return self.reject_all(classified, before);
        }
        for &slot in &classified.recovered {
            if !self.cache.is_duplicate(slot) {
                self.clear_error(slot);
            }
        }
        self.update_wrappers(&classified);
        self.commit(&mut classified, frame);
        for &slot in &classified.duplicates {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        for (slot, kind) in reported {
            self.handle_reported_error(slot, kind);
        }
        let is_absence_significant = classified.is_absence_significant();
        let is_complete =
            self.resource_type.full_state_in_sotw() || zoo::is(Bug::AbsenceDeletesEndpoints);
        let loses_removals = zoo::is(Bug::RemovalsLostOnNack) && classified.faults.count() > 0;
        if is_complete && is_absence_significant && !loses_removals {
            self.delete_absent();
        }
        self.handle_missing_in_file(is_absence_significant);
        self.cache.end_response();
        let has_changes = self.cache.sequence() != before;
        // Heartbeats may have crossed the request for the collection.
        match classified.has_heartbeats_alone {
            true => self.notify_collections(has_changes),
            false => self.note_collection_received(has_changes),
        }
        let mut processed = self.finish(classified);
        processed.is_renewal = is_complete && processed.nack.is_none() && !is_absence_significant;
        processed
    }

    /// Returns the result after all resources have been processed.
    pub(crate) fn finish(&mut self, classified: Classified<'_>) -> ProcessedResponse {
        self.stats.resources_invalid += classified.faults.count();
        let has_unnamed = classified.faults.has_unnamed();
        ProcessedResponse { has_unnamed, nack: classified.faults.into_message(), is_renewal: false }
    }

    /// Renews the wrappers of unchanged resources and the TTLs of heartbeats, without notices.
    pub(crate) fn update_wrappers(&mut self, classified: &Classified<'_>) {
        for (slot, wrapper) in &classified.wrapped {
            match wrapper {
                _ if self.cache.is_duplicate(*slot) => {}
                Some(wrapper) => self.cache.wrap(*slot, wrapper, self.now),
                None => self.cache.unwrap(*slot),
            }
        }
        for (slot, wrapper) in &classified.heartbeats {
            if !self.cache.is_duplicate(*slot) {
                self.stats.resources_valid += 1;
                self.cache.rearm(*slot, wrapper, self.now);
                if zoo::is(Bug::HeartbeatIsAnUpdate) {
                    self.cache.touch(*slot);
                    self.notify(*slot, NoticeKind::Changed);
                }
            }
        }
    }

    fn commit(&mut self, classified: &mut Classified<'_>, frame: &Bytes) {
        let candidates = core::mem::take(&mut classified.candidates);
        let held = self.retain_frame(&candidates, &classified.duplicates, frame);
        for candidate in candidates {
            self.commit_candidate(candidate, held, &mut classified.faults);
        }
    }

    /// Retains the frame if the resources accepted from it make that worthwhile.
    pub(crate) fn retain_frame(
        &mut self,
        candidates: &[Candidate<'_>],
        duplicates: &[Slot],
        frame: &Bytes,
    ) -> Slot {
        // Usually there are no duplicates, and then no entry needs to be looked up.
        let comes_once = |slot| duplicates.is_empty() || !self.cache.is_duplicate(slot);
        let survivors = candidates
            .iter()
            .filter(|candidate| candidate.verdict.is_ok() && comes_once(candidate.slot))
            .map(|candidate| candidate.bytes.len())
            .sum();
        match retained_frames::is_worth_retaining(frame.len(), survivors) {
            true => self.cache.retain_frame(frame.len()),
            false => Slot::NONE,
        }
    }

    pub(crate) fn commit_candidate(
        &mut self,
        candidate: Candidate<'_>,
        held: Slot,
        faults: &mut Faults,
    ) {
        let Candidate { index, slot, bytes, wrapper, verdict } = candidate;
        if self.cache.is_duplicate(slot) {
            return;
        }
        let verdict = verdict.and_then(|value| match self.has_room_for(slot, bytes.len()) {
            true => Ok(value),
            false => {
                let limit = self.limits.bytes_per_type;
                Err(Rejection::new(alloc::format!("more than {limit} bytes of this type")))
            }
        });
        match verdict {
            Ok(value) => {
                let bytes = match held.is_none() {
                    true => Bytes::copy_from_slice(&bytes),
                    false => bytes,
                };
                self.stats.resources_valid += 1;
                self.cache.accept(slot, bytes, value, held);
                if let Some(wrapper) = wrapper {
                    self.cache.wrap(slot, &wrapper, self.now);
                }
                self.cache.touch(slot);
                self.notify(slot, NoticeKind::Changed);
            }
            Err(rejection) => {
                let name = self.cache.get(slot).map_or("", |entry| entry.name.as_str());
                faults.add(FaultLocation::Resource(index), name, rejection.reason());
                self.reject(slot, rejection);
                if bytes.len() <= self.limits.rejected_resource_bytes {
                    self.cache.keep_rejected(slot, &bytes);
                }
            }
        }
    }

    /// Returns whether a resource of this length fits within the limit. A complete response
    /// replaces all resources, and its own limit bounds it.
    fn has_room_for(&self, slot: Slot, length: usize) -> bool {
        let is_sotw = self.context.server.variant == Variant::StateOfTheWorld;
        let is_complete = is_sotw && self.resource_type.full_state_in_sotw();
        is_complete || self.cache.bytes_with(slot, length) <= self.limits.bytes_per_type
    }

    /// Rejects a resource. It counts as present; the data-error policy decides about an earlier
    /// version.
    // Rows 5 to 7 of A88's table.
    pub(crate) fn reject(&mut self, slot: Slot, rejection: Rejection) {
        self.set_data_error(slot, ResourceState::Nacked, WatchErrorKind::Invalid(rejection));
    }

    /// Deletes received resources that are missing from a complete response. Resources that were
    /// never received are not deleted. An error reported by this server is sent only once, so it
    /// stays until the server sends something new for the resource.
    // S0.120, S0.127, IC21, D25, trap 19
    fn delete_absent(&mut self) {
        if self.cache.is_complete() {
            return;
        }
        let absent = self
            .cache
            .iter()
            .filter(|&(slot, entry)| {
                let was_received = entry.bytes.is_some()
                    || entry.state == ResourceState::Nacked
                    || zoo::is(Bug::AbsenceDeletesNeverReceived)
                        && entry.state == ResourceState::Requested;
                let is_reported = entry.state == ResourceState::ReceivedError
                    && entry.has_error_from(self.upstream);
                let is_absent = !self.cache.is_in_response(slot)
                    && self.requested.is_absence_significant(entry, self.interest);
                was_received && !is_reported && is_absent
            })
            .map(|(slot, entry)| (slot, entry.state, entry.bytes.is_some()))
            .collect::<Vec<_>>();
        for (slot, state, has_resource) in absent {
            let is_kept = !self.is_dropped_on(&WatchErrorKind::Deleted);
            if has_resource && state == ResourceState::DoesNotExist && is_kept {
                continue; // D7: the deletion of a kept resource is reported once.
            }
            self.set_data_error(slot, ResourceState::DoesNotExist, WatchErrorKind::Deleted);
        }
    }

    /// Returns whether the server may send the entry.
    pub(crate) fn may_be_sent_by_server(&self, slot: Slot) -> bool {
        self.cache
            .get(slot)
            .is_some_and(|entry| self.requested.may_send(entry, self.interest, &self.cache.globs))
    }

    fn is_in_collection_only(&self, slot: Slot) -> bool {
        self.cache.get(slot).is_some_and(|entry| entry.subscription.is_none())
    }

    /// Sets the error of a resource whose newest state is an error. The resource in use is dropped
    /// or kept; if it is kept, the error is ambient.
    // Rows 5 to 7 and 9 to 15 of A88's table; S3.028-S3.030.
    pub(crate) fn set_data_error(
        &mut self,
        slot: Slot,
        state: ResourceState,
        kind: WatchErrorKind,
    ) {
        // Limits the number of deleted but kept resources of a collection.
        let is_full = self.cache.live() > self.limits.resources_per_type
            || self.cache.bytes() > self.limits.bytes_per_type;
        let is_one_too_many = self.is_in_collection_only(slot) && is_full;
        let was_in_use = self.cache.get(slot).is_some_and(|entry| entry.bytes.is_some());
        if self.is_dropped_on(&kind) || is_one_too_many {
            self.cache.drop_resource(slot);
        }
        self.note_reported(slot);
        let Some(entry) = self.cache.get_mut(slot) else { return };
        let error = WatchError::from_origin(kind, Some(entry.name.clone()), self.source);
        let is_kept = entry.bytes.is_some();
        // Watchers that have the resource are notified of its end, even if the error is not new.
        let is_dropped = was_in_use && !is_kept;
        let is_new = is_dropped || entry.error() != Some(&error) || entry.state != state;
        entry.state = state;
        entry.set_error(error, self.epoch);
        self.cache.set_error_source(slot);
        if is_kept && is_new {
            self.cache.touch_ambient(slot);
            self.notify(slot, NoticeKind::Ambient);
        } else if !is_kept && is_new {
            self.cache.touch(slot);
            self.notify(slot, NoticeKind::Changed);
        }
        self.stop_timer(slot);
        if self.cache.get(slot).is_some_and(CacheEntry::is_tombstone) {
            self.cache.add_tombstone(slot);
        }
    }

    /// Returns whether an error ends the use of an earlier version. This depends on the server that
    /// caused the error, not on the one that sent the resource.
    // DE-27
    pub(crate) fn is_dropped_on(&self, kind: &WatchErrorKind) -> bool {
        match self.data_errors {
            DataErrorPolicy::KeepCached => false,
            DataErrorPolicy::DropDeleted => matches!(
                kind,
                WatchErrorKind::Deleted
                    | WatchErrorKind::Reported { code: StatusCode::NotFound, .. }
            ),
            DataErrorPolicy::DropCached => kind.category() == ErrorCategory::Data,
        }
    }

    /// Clears the error of a resource whose version in use is the newest one again.
    pub(crate) fn clear_error(&mut self, slot: Slot) {
        self.note_reported(slot);
        let Some(entry) = self.cache.get_mut(slot) else { return };
        entry.state = ResourceState::Acked;
        entry.clear_error();
        self.cache.touch_ambient(slot);
        self.notify(slot, NoticeKind::Ambient);
    }

    fn note_reported(&mut self, slot: Slot) {
        note_reported(slot, self.cache, self.interest, self.watches);
    }

    /// Notifies the watches of the entry's name. Wildcard watches are notified once per response.
    fn notify(&mut self, slot: Slot, kind: NoticeKind) {
        self.stop_timer(slot);
        let subscription = self.cache.get(slot).map_or(Slot::NONE, |entry| entry.subscription);
        if let Some(subscription) = self.interest.subscriptions.at(subscription) {
            self.watches.notify_all(subscription.first_watch, kind, self.outbox, self.unhandled);
        }
    }

    /// Ends the does-not-exist timer of a name that the server has mentioned.
    // IC24
    pub(crate) fn stop_timer(&mut self, slot: Slot) {
        let state = self.cache.get(slot).map(|entry| entry.state);
        if zoo::is(Bug::TimerOutlivesReportedError) && state == Some(ResourceState::ReceivedError) {
            return;
        }
        let subscription = self.cache.get(slot).map_or(Slot::NONE, |entry| entry.subscription);
        if let Some(subscription) = self.interest.subscriptions.at_mut(subscription) {
            subscription.timer = 0;
        }
    }

    /// Notes that the collection exists, which follows from any response of the type, even an empty
    /// one.
    // X22
    pub(crate) fn note_collection_received(&mut self, has_changes: bool) {
        let is_first = self.requested.has_wildcard
            && !matches!(self.interest.collection, Collection::Received);
        if is_first {
            self.interest.collection = Collection::Received;
            self.interest.collection_timer = 0;
        }
        for &watch in &self.interest.wildcards {
            if is_first {
                self.watches.notify(watch, NoticeKind::Changed, self.outbox, self.unhandled);
            }
        }
        self.notify_collections(has_changes);
    }

    /// Notifies wildcard watches if resources have changed, and watches of changed globs.
    pub(crate) fn notify_collections(&mut self, has_changes: bool) {
        if has_changes {
            for &watch in &self.interest.wildcards {
                self.watches.notify(
                    watch,
                    NoticeKind::ChangesAvailable,
                    self.outbox,
                    self.unhandled,
                );
            }
        }
        for glob in self.cache.globs.take_changed() {
            let first = self.interest.first_watch_of(&self.cache.globs, glob);
            self.watches.notify_all(
                first,
                NoticeKind::ChangesAvailable,
                self.outbox,
                self.unhandled,
            );
        }
    }
}
