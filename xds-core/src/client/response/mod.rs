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
    aliases::Moved,
    classify::{Candidate, DUPLICATE, Reading},
    nack_message::{Faults, Place},
};
use super::{
    cache::{Cache, entry::Entry, retained_frames},
    channel::{requested::Asked, settlement::Settlement},
    config::{
        ClientLimits, DataErrorPolicy,
        resource_type::{Context, Rejection, ResourceType},
    },
    event::{
        error::{ErrorCategory, NOT_FOUND, Source, WatchError, WatchErrorKind},
        status::{ClientStats, EntryState},
    },
    subscription::{Collection, TypeInterest},
    watch::{Debts, News, Watches, advance::note_told, outbox::Outbox},
};
use crate::{
    service::Variant,
    slab::Slot,
    text::Version,
    time::Time,
    wire::response::Response,
    zoo::{self, Bug},
};

/// State used and changed by the processing of a response.
pub(crate) struct Judge<'a> {
    pub(crate) resource_type: &'a dyn ResourceType,
    pub(crate) context: Context<'a>,
    pub(crate) source: &'a Arc<Source>,
    pub(crate) data_errors: DataErrorPolicy,
    pub(crate) limits: &'a ClientLimits,
    pub(crate) cache: &'a mut Cache,
    pub(crate) interest: &'a mut TypeInterest,
    pub(crate) watches: &'a mut Watches,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) debts: &'a mut Option<Debts>,
    pub(crate) stats: &'a mut ClientStats,
    pub(crate) strangers_seed: u64,
    /// Version of the type last accepted from this server.
    pub(crate) accepted: Version,
    pub(crate) now: Time,
    /// External verdicts on the response's resources.
    pub(crate) settlement: &'a Settlement,
    /// Number of channels that had ended before this one.
    pub(crate) epoch: u64,
    /// Resources requested from the server.
    pub(crate) asked: Asked<'a>,
    /// Position of the server.
    pub(crate) upstream: usize,
    /// Moves of watches from aliases to resources.
    pub(crate) moved: &'a mut Vec<Moved>,
}

/// Result of processing a response.
#[derive(Debug)]
pub(crate) struct Judged {
    /// Message of the NACK; `None` for an ACK.
    pub(crate) nack: Option<Arc<str>>,
    /// Whether the response contains a resource whose name is unknown.
    pub(crate) has_unnamed: bool,
    /// Whether the response should be the complete state of its type but consists of heartbeats.
    pub(crate) is_renewal: bool,
}

impl Judge<'_> {
    /// Processes a well-formed state-of-the-world response and updates the cache.
    pub(crate) fn judge(mut self, response: &Response<'_>, frame: &Bytes) -> Judged {
        let before = self.cache.sequence();
        let mut reading = self.read(response, frame);
        let reported = self.read_errors(response.resource_errors(), &mut reading.faults);
        if self.refuses_all(&reading) {
            return self.refuse_all(reading, before);
        }
        for &slot in &reading.recovered {
            if !self.cache.is_duplicate(slot) {
                self.clear_error(slot);
            }
        }
        self.rewrap(&reading);
        self.commit(&mut reading, frame);
        for &slot in &reading.repeated {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        for (slot, kind) in reported {
            self.take_report(slot, kind);
        }
        let tells_absence = reading.tells_absence();
        let is_complete =
            self.resource_type.full_state_in_sotw() || zoo::is(Bug::AbsenceDeletesEndpoints);
        let loses_removals = zoo::is(Bug::RemovalsLostOnNack) && reading.faults.count() > 0;
        if is_complete && tells_absence && !loses_removals {
            self.delete_absent();
        }
        self.conclude_what_the_file_lacks(tells_absence);
        self.cache.end_response();
        let has_changes = self.cache.sequence() != before;
        // Heartbeats may have crossed the request for the collection.
        match reading.has_heartbeats_alone {
            true => self.tell_wildcards(has_changes),
            false => self.note_collection(has_changes),
        }
        let mut judged = self.sum_up(reading);
        judged.is_renewal = is_complete && judged.nack.is_none() && !tells_absence;
        judged
    }

    /// Returns the result after all resources have been processed.
    pub(crate) fn sum_up(&mut self, reading: Reading<'_>) -> Judged {
        self.stats.resources_invalid += reading.faults.count();
        let has_unnamed = reading.faults.has_unnamed();
        Judged { has_unnamed, nack: reading.faults.into_message(), is_renewal: false }
    }

    /// Renews the wrappers of unchanged resources and the TTLs of heartbeats, without notices.
    pub(crate) fn rewrap(&mut self, reading: &Reading<'_>) {
        for (slot, wrapper) in &reading.wrapped {
            match wrapper {
                _ if self.cache.is_duplicate(*slot) => {}
                Some(wrapper) => self.cache.wrap(*slot, wrapper, self.now),
                None => self.cache.unwrap(*slot),
            }
        }
        for (slot, wrapper) in &reading.heartbeats {
            if !self.cache.is_duplicate(*slot) {
                self.stats.resources_valid += 1;
                self.cache.rearm(*slot, wrapper, self.now);
                if zoo::is(Bug::HeartbeatIsAnUpdate) {
                    self.cache.touch(*slot);
                    self.tell(*slot, News::Changed);
                }
            }
        }
    }

    fn commit(&mut self, reading: &mut Reading<'_>, frame: &Bytes) {
        let candidates = core::mem::take(&mut reading.candidates);
        let held = self.hold_frame(&candidates, &reading.repeated, frame);
        for candidate in candidates {
            self.commit_one(candidate, held, &mut reading.faults);
        }
    }

    /// Retains the frame if the resources accepted from it make that worthwhile.
    pub(crate) fn hold_frame(
        &mut self,
        candidates: &[Candidate<'_>],
        repeated: &[Slot],
        frame: &Bytes,
    ) -> Slot {
        // Usually there are no duplicates, and then no entry needs to be looked up.
        let comes_once = |slot| repeated.is_empty() || !self.cache.is_duplicate(slot);
        let survivors = candidates
            .iter()
            .filter(|candidate| candidate.verdict.is_ok() && comes_once(candidate.slot))
            .map(|candidate| candidate.bytes.len())
            .sum();
        match retained_frames::worth_keeping(frame.len(), survivors) {
            true => self.cache.hold_frame(frame.len()),
            false => Slot::NONE,
        }
    }

    pub(crate) fn commit_one(&mut self, candidate: Candidate<'_>, held: Slot, faults: &mut Faults) {
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
                self.tell(slot, News::Changed);
            }
            Err(rejection) => {
                let name = self.cache.get(slot).map_or("", |entry| entry.name.as_str());
                faults.add(Place::Resource(index), name, rejection.reason());
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
        self.data_error(slot, EntryState::Nacked, WatchErrorKind::Invalid(rejection));
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
                    || entry.state == EntryState::Nacked
                    || zoo::is(Bug::AbsenceDeletesWhatNeverCame)
                        && entry.state == EntryState::Requested;
                let is_reported =
                    entry.state == EntryState::ReceivedError && entry.is_blamed_by(self.upstream);
                let is_absent = !self.cache.is_in_response(slot)
                    && self.asked.means_absence(entry, self.interest);
                was_received && !is_reported && is_absent
            })
            .map(|(slot, entry)| (slot, entry.state, entry.bytes.is_some()))
            .collect::<Vec<_>>();
        for (slot, state, has_resource) in absent {
            let is_kept = !self.drops(&WatchErrorKind::Deleted);
            if has_resource && state == EntryState::DoesNotExist && is_kept {
                continue; // D7: the deletion of a kept resource is reported once.
            }
            self.data_error(slot, EntryState::DoesNotExist, WatchErrorKind::Deleted);
        }
    }

    /// Returns whether the server may send the entry.
    pub(crate) fn may_come_from_here(&self, slot: Slot) -> bool {
        self.cache
            .get(slot)
            .is_some_and(|entry| self.asked.may_speak_of(entry, self.interest, &self.cache.globs))
    }

    fn is_in_collection_only(&self, slot: Slot) -> bool {
        self.cache.get(slot).is_some_and(|entry| entry.subscription.is_none())
    }

    /// Sets the error of a resource whose newest state is an error. The resource in use is dropped
    /// or kept; if it is kept, the error is ambient.
    // Rows 5 to 7 and 9 to 15 of A88's table; S3.028-S3.030.
    pub(crate) fn data_error(&mut self, slot: Slot, state: EntryState, kind: WatchErrorKind) {
        // Limits the number of deleted but kept resources of a collection.
        let is_full = self.cache.live() > self.limits.resources_per_type
            || self.cache.bytes() > self.limits.bytes_per_type;
        let is_one_too_many = self.is_in_collection_only(slot) && is_full;
        let was_in_use = self.cache.get(slot).is_some_and(|entry| entry.bytes.is_some());
        if self.drops(&kind) || is_one_too_many {
            self.cache.drop_resource(slot);
        }
        self.note_told(slot);
        let Some(entry) = self.cache.get_mut(slot) else { return };
        let error = WatchError::new(kind, Some(entry.name.clone()), self.source);
        let is_kept = entry.bytes.is_some();
        // Watchers that have the resource are notified of its end, even if the error is not new.
        let is_dropped = was_in_use && !is_kept;
        let is_news = is_dropped || entry.error() != Some(&error) || entry.state != state;
        entry.state = state;
        entry.set_error(error, self.epoch);
        self.cache.blame_response(slot);
        if is_kept && is_news {
            self.cache.touch_ambient(slot);
            self.tell(slot, News::Ambient);
        } else if !is_kept && is_news {
            self.cache.touch(slot);
            self.tell(slot, News::Changed);
        }
        self.settle(slot);
        if self.cache.get(slot).is_some_and(Entry::is_tombstone) {
            self.cache.bury(slot);
        }
    }

    /// Returns whether an error ends the use of an earlier version. This depends on the server that
    /// caused the error, not on the one that sent the resource.
    // DE-27
    pub(crate) fn drops(&self, kind: &WatchErrorKind) -> bool {
        match self.data_errors {
            DataErrorPolicy::KeepCached => false,
            DataErrorPolicy::DropDeleted => matches!(
                kind,
                WatchErrorKind::Deleted | WatchErrorKind::Reported { code: NOT_FOUND, .. }
            ),
            DataErrorPolicy::DropCached => kind.category() == ErrorCategory::Data,
        }
    }

    /// Clears the error of a resource whose version in use is the newest one again.
    pub(crate) fn clear_error(&mut self, slot: Slot) {
        self.note_told(slot);
        let Some(entry) = self.cache.get_mut(slot) else { return };
        entry.state = EntryState::Acked;
        entry.clear_error();
        self.cache.touch_ambient(slot);
        self.tell(slot, News::Ambient);
    }

    fn note_told(&mut self, slot: Slot) {
        note_told(slot, self.cache, self.interest, self.watches);
    }

    /// Notifies the watches of the entry's name. Wildcard watches are notified once per response.
    fn tell(&mut self, slot: Slot, news: News) {
        self.settle(slot);
        let subscription = self.cache.get(slot).map_or(Slot::NONE, |entry| entry.subscription);
        if let Some(subscription) = self.interest.subscriptions.at(subscription) {
            self.watches.tell_all(subscription.first_watch, news, self.outbox, self.debts);
        }
    }

    /// Ends the does-not-exist timer of a name that the server has mentioned.
    // IC24
    pub(crate) fn settle(&mut self, slot: Slot) {
        let state = self.cache.get(slot).map(|entry| entry.state);
        if zoo::is(Bug::TimerOutlivesReportedError) && state == Some(EntryState::ReceivedError) {
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
    pub(crate) fn note_collection(&mut self, has_changes: bool) {
        let is_first =
            self.asked.has_wildcard && !matches!(self.interest.collection, Collection::Received);
        if is_first {
            self.interest.collection = Collection::Received;
            self.interest.collection_timer = 0;
        }
        for &watch in &self.interest.wildcards {
            if is_first {
                self.watches.tell(watch, News::Changed, self.outbox, self.debts);
            }
        }
        self.tell_wildcards(has_changes);
    }

    /// Notifies wildcard watches if resources have changed, and watches of changed globs.
    pub(crate) fn tell_wildcards(&mut self, has_changes: bool) {
        if has_changes {
            for &watch in &self.interest.wildcards {
                self.watches.tell(watch, News::Behind, self.outbox, self.debts);
            }
        }
        for glob in self.cache.globs.take_changed() {
            let first = self.interest.first_watch_of(&self.cache.globs, glob);
            self.watches.tell_all(first, News::Behind, self.outbox, self.debts);
        }
    }
}
