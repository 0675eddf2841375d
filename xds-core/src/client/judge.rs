//! From a response to verdicts, and from verdicts to the cache: the one straight line.
//!
//! ```text
//! frame ─▶ walk ─▶ unchanged? ─▶ next                      (the usual case: one comparison)
//!                     │ no
//!                     ▼
//!                  named, wanted, single? ─▶ validate ─▶ candidate
//!                                                            │ after the last resource
//!                                                            ▼
//!                         commit the good, note the bad, delete the absent ─▶ ACK or NACK
//! ```
//!
//! Nothing is committed before the whole response has been seen, since a name that comes twice
//! makes both of its copies invalid (X10).

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use super::{
    authorities::DEFAULT,
    cache::{Cache, Entry, Mark},
    config::{ClientLimits, DataErrorPolicy},
    error::{Source, WatchError, WatchErrorKind},
    faults::{Faults, Strangers},
    frames,
    interest::{Collection, TypeInterest},
    outbox::Outbox,
    resource_type::{Context, Rejection, ResourceType, Value},
    sent::SentNames,
    status::{ClientStats, EntryState},
    watches::{Debts, News, Watches},
};
use crate::{
    slab::Slot,
    text::{ResourceName, Version},
    time::Time,
    wire::{resource::RawResource, response::Response},
};

/// What judging needs to know and may change.
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
    /// Whether the server has been told that everything is wanted, and it still is.
    pub(crate) has_wildcard: bool,
    /// How many channels had ended before this one.
    pub(crate) epoch: u64,
    /// The names that the server was told, and the authorities that use it: what else it sends is
    /// nobody's, and what it leaves out is not deleted by that.
    pub(crate) sent: &'a SentNames,
    pub(crate) scope: &'a [bool],
    /// The position of the server.
    pub(crate) upstream: usize,
    pub(crate) now: Time,
}

/// A changed resource that is wanted, and what validation says of it.
pub(crate) struct Candidate<'f> {
    pub(crate) slot: Slot,
    pub(crate) bytes: &'f [u8],
    pub(crate) verdict: Result<Option<Value>, Rejection>,
}

impl Judge<'_> {
    /// Judges a sound response and commits it. `Some` is the message of the NACK.
    pub(crate) fn judge(mut self, response: &Response<'_>, frame: &Bytes) -> Option<Arc<str>> {
        let before = self.cache.sequence();
        let mut faults = Faults::new(self.limits.nack_message_bytes);

        let reading = self.read(response, frame, &mut faults);
        for slot in reading.recovered {
            if !self.cache.is_duplicate(slot) {
                self.clear_error(slot);
            }
        }
        self.commit(reading.candidates, frame);
        for slot in reading.repeated {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        if self.resource_type.full_state_in_sotw() {
            self.delete_absent();
        }
        self.note_collection(self.cache.sequence() != before);
        self.stats.resources_invalid += faults.count();
        faults.into_message()
    }

    /// Compares every resource with what is known and validates the changed.
    fn read<'f>(
        &mut self,
        response: &Response<'f>,
        frame: &Bytes,
        faults: &mut Faults,
    ) -> Reading<'f> {
        self.cache.begin_response(Version::from(response.version), self.upstream, self.now);
        let mut reading =
            Reading { candidates: Vec::new(), repeated: Vec::new(), recovered: Vec::new() };
        let mut strangers = Strangers::new(self.strangers_seed);
        // A server mostly repeats its resources in the order of the last response, which is that of
        // the cache: the next entry is guessed before any name is looked at.
        let mut guess = self.cache.first();
        for (index, raw) in response.resources().enumerate() {
            let raw = match raw {
                Ok(raw) => raw,
                Err(why) => {
                    faults.add(index, None, &alloc::format!("{why}"));
                    continue;
                }
            };
            if raw.type_url != response.type_url.as_bytes() {
                faults.add(index, None, &wrong_type(&raw));
                continue;
            }
            let is_known = self.cache.get(guess).and_then(|entry| entry.bytes.as_deref());
            if is_known == Some(raw.value) {
                self.repeat(guess, index, &mut reading, faults);
                guess = self.cache.following(guess);
                continue;
            }
            let name = match self.name_of(&raw) {
                Ok(name) => name,
                Err(rejection) => {
                    faults.add(index, None, rejection.reason());
                    continue;
                }
            };
            let Some(slot) = self.find_or_expect(name, index, &mut strangers, faults) else {
                continue;
            };
            guess = self.cache.following(slot);
            if self.cache.get(slot).and_then(|entry| entry.bytes.as_deref()) == Some(raw.value) {
                self.repeat(slot, index, &mut reading, faults);
                continue;
            }
            match self.cache.mark(slot) {
                Mark::First => {
                    let bytes = frame.slice_ref(raw.value);
                    let verdict = self.resource_type.validate(&bytes, &self.context);
                    if let Err(rejection) = &verdict {
                        faults.add(index, Some(name), rejection.reason());
                    }
                    reading.candidates.push(Candidate { slot, bytes: raw.value, verdict });
                }
                Mark::Second => {
                    faults.add(index, Some(name), DUPLICATE);
                    reading.repeated.push(slot);
                }
                Mark::Further => {}
            }
        }
        reading
    }

    /// A resource that is byte for byte the one in use: nobody is told, unless something was wrong
    /// beside it (D15, B54).
    fn repeat(&mut self, slot: Slot, index: usize, reading: &mut Reading<'_>, faults: &mut Faults) {
        match self.cache.mark(slot) {
            Mark::First => {
                self.stats.resources_valid += 1;
                self.cache.renew(slot);
                if self.cache.get(slot).is_some_and(|entry| entry.state != EntryState::Acked) {
                    reading.recovered.push(slot);
                }
            }
            Mark::Second => {
                let name = self.cache.get(slot).map(|entry| entry.name.as_str());
                faults.add(index, name, DUPLICATE);
                reading.repeated.push(slot);
            }
            Mark::Further => {}
        }
    }

    pub(crate) fn name_of<'f>(&self, raw: &RawResource<'f>) -> Result<&'f str, Rejection> {
        let name = self.resource_type.name(raw.value)?;
        self.check_name(name)?;
        Ok(name)
    }

    pub(crate) fn check_name(&self, name: &str) -> Result<(), Rejection> {
        let (bytes, limit) = (name.len(), self.limits.name_bytes);
        if name.is_empty() {
            Err(Rejection::new("the resource has no name"))
        } else if bytes > limit {
            Err(Rejection::new(alloc::format!(
                "name of {bytes} bytes exceeds the limit of {limit}"
            )))
        } else {
            Ok(())
        }
    }

    /// The entry of a name that is wanted. Under a wildcard every name is; otherwise resources that
    /// nobody asked for are passed over (S0.101, IC13), though not even they may come twice.
    pub(crate) fn find_or_expect(
        &mut self,
        name: &str,
        index: usize,
        strangers: &mut Strangers,
        faults: &mut Faults,
    ) -> Option<Slot> {
        let known = self.cache.find(name);
        if known.is_some_and(|slot| self.may_come_from_here(slot)) {
            return known;
        }
        if !self.has_wildcard || known.is_some() {
            if strangers.is_repeated(name) {
                faults.add(index, Some(name), DUPLICATE);
            }
            return None;
        }
        // A complete response leaves nothing but what is in it, so only that counts.
        let limit = self.limits.resources_per_type;
        let held = match self.resource_type.full_state_in_sotw() {
            true => self.cache.marked(),
            false => self.cache.live(),
        };
        if held >= limit {
            faults.add(index, Some(name), &alloc::format!("more than {limit} resources"));
            return None;
        }
        self.cache.create(ResourceName::from(name))
    }

    fn commit(&mut self, candidates: Vec<Candidate<'_>>, frame: &Bytes) {
        let held = self.hold_frame(candidates.iter(), frame);
        for candidate in candidates {
            self.commit_one(candidate, held, frame);
        }
    }

    /// Keeps the frame if what will be accepted out of it makes that worth while.
    pub(crate) fn hold_frame<'c, 'f: 'c>(
        &mut self,
        candidates: impl Iterator<Item = &'c Candidate<'f>>,
        frame: &Bytes,
    ) -> Slot {
        let survivors = candidates
            .filter(|candidate| {
                candidate.verdict.is_ok() && !self.cache.is_duplicate(candidate.slot)
            })
            .map(|candidate| candidate.bytes.len())
            .sum();
        match frames::worth_keeping(frame.len(), survivors) {
            true => self.cache.hold_frame(frame.len()),
            false => Slot::NONE,
        }
    }

    pub(crate) fn commit_one(&mut self, candidate: Candidate<'_>, held: Slot, frame: &Bytes) {
        let Candidate { slot, bytes, verdict } = candidate;
        if self.cache.is_duplicate(slot) {
            return;
        }
        match verdict {
            Ok(value) => {
                let bytes = match held.is_none() {
                    true => Bytes::copy_from_slice(bytes),
                    false => frame.slice_ref(bytes),
                };
                self.stats.resources_valid += 1;
                self.cache.accept(slot, bytes, value, held);
                self.cache.touch(slot);
                self.tell(slot, News::Changed);
            }
            Err(rejection) => {
                self.reject(slot, rejection);
                if bytes.len() <= self.limits.rejected_resource_bytes {
                    self.cache.keep_rejected(slot, bytes);
                }
            }
        }
    }

    /// A bad resource counts as present; what becomes of an earlier one is policy (rows 5 to 7 of
    /// A88's table).
    pub(crate) fn reject(&mut self, slot: Slot, rejection: Rejection) {
        self.data_error(slot, EntryState::Nacked, WatchErrorKind::Invalid(rejection));
    }

    /// A resource received earlier that a complete response lacks is deleted (S0.120), one that was
    /// only asked for is not (S0.127, IC21).
    fn delete_absent(&mut self) {
        if self.cache.is_complete() {
            return;
        }
        let absent = self
            .cache
            .iter()
            .filter(|&(slot, entry)| {
                let was_received = entry.bytes.is_some() || entry.state == EntryState::Nacked;
                was_received && !self.cache.is_in_response(slot) && self.is_asked_for_here(entry)
            })
            .map(|(slot, entry)| (slot, entry.state, entry.bytes.is_some()))
            .collect::<Vec<_>>();
        for (slot, state, has_resource) in absent {
            if has_resource && state == EntryState::DoesNotExist {
                continue; // The deletion was reported and the resource kept: said once (D7).
            }
            self.data_error(slot, EntryState::DoesNotExist, WatchErrorKind::Deleted);
        }
    }

    /// Whether the server is one that may speak of the entry: names belong to authorities, and only
    /// the servers of its authority are asked for a name (A47).
    pub(crate) fn may_come_from_here(&self, slot: Slot) -> bool {
        let Some(entry) = self.cache.get(slot) else { return false };
        match self.interest.subscriptions.at(entry.subscription) {
            Some(subscription) => self.scope.get(subscription.authority) == Some(&true),
            None => self.has_wildcard,
        }
    }

    /// Whether the absence of the entry from a complete response means something.
    fn is_asked_for_here(&self, entry: &Entry) -> bool {
        match self.interest.subscriptions.at(entry.subscription) {
            Some(subscription) => {
                let by_wildcard = self.has_wildcard && subscription.authority == DEFAULT;
                by_wildcard || self.sent.has(entry.subscription)
            }
            None => self.has_wildcard,
        }
    }

    fn is_wildcard_only(&self, slot: Slot) -> bool {
        self.cache.get(slot).is_some_and(|entry| entry.subscription.is_none())
    }

    /// Rows 5 to 7, 9 and 10 of A88's table: the newest state of the resource is an error.
    pub(crate) fn data_error(&mut self, slot: Slot, state: EntryState, kind: WatchErrorKind) {
        // Under a wildcard, what is deleted but kept must not pile up without end.
        let is_one_too_many =
            self.is_wildcard_only(slot) && self.cache.live() > self.limits.resources_per_type;
        let drops = match self.data_errors {
            DataErrorPolicy::KeepCached => false,
            DataErrorPolicy::DropDeleted => matches!(kind, WatchErrorKind::Deleted),
            DataErrorPolicy::DropCached => true,
        };
        if drops || is_one_too_many {
            self.cache.drop_resource(slot);
        }
        let Some(entry) = self.cache.get_mut(slot) else { return };
        let error = WatchError::new(kind, Some(entry.name.clone()), self.source);
        let is_news = entry.error() != Some(&error) || entry.state != state;
        let is_kept = entry.bytes.is_some();
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
        let is_gone = !is_kept && state == EntryState::DoesNotExist && self.is_wildcard_only(slot);
        if is_gone {
            self.cache.bury(slot);
        }
    }

    /// The resource in use turned out to be the newest again.
    pub(crate) fn clear_error(&mut self, slot: Slot) {
        let Some(entry) = self.cache.get_mut(slot) else { return };
        entry.state = EntryState::Acked;
        entry.clear_error();
        self.cache.touch_ambient(slot);
        self.tell(slot, News::Ambient);
    }

    /// Tells the watchers of the entry's name; wildcard watches are told once per response.
    fn tell(&mut self, slot: Slot, news: News) {
        self.settle(slot);
        let subscription = self.cache.get(slot).map_or(Slot::NONE, |entry| entry.subscription);
        if let Some(subscription) = self.interest.subscriptions.at(subscription) {
            self.watches.tell_all(subscription.first_watch, news, self.outbox, self.debts);
        }
    }

    /// The server has spoken of the name: its does-not-exist timer ends (IC24).
    fn settle(&mut self, slot: Slot) {
        let subscription = self.cache.get(slot).map_or(Slot::NONE, |entry| entry.subscription);
        if let Some(subscription) = self.interest.subscriptions.at_mut(subscription) {
            subscription.timer = 0;
        }
    }

    /// Any response of the type, even an empty one, settles that the collection exists (X22).
    pub(crate) fn note_collection(&mut self, has_changes: bool) {
        let is_first =
            self.has_wildcard && !matches!(self.interest.collection, Collection::Received);
        if is_first {
            self.interest.collection = Collection::Received;
            self.interest.collection_timer = 0;
        }
        for &watch in &self.interest.wildcards {
            if is_first {
                self.watches.tell(watch, News::Changed, self.outbox, self.debts);
            }
            if has_changes {
                self.watches.tell(watch, News::Behind, self.outbox, self.debts);
            }
        }
    }
}

/// What reading a response found.
struct Reading<'f> {
    candidates: Vec<Candidate<'f>>,
    /// Entries that the response has more than once.
    repeated: Vec<Slot>,
    /// Entries whose resource in use turned out to be the newest again.
    recovered: Vec<Slot>,
}

pub(crate) const DUPLICATE: &str = "the name comes more than once in the response";

pub(crate) fn wrong_type(raw: &RawResource<'_>) -> alloc::string::String {
    let shown = &raw.type_url[..raw.type_url.len().min(200)];
    alloc::format!(
        "its type is {:?}, not that of the response",
        alloc::string::String::from_utf8_lossy(shown)
    )
}
