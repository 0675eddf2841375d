//! Effects of a response on globs.
//!
//! Responses do not identify the glob that they answer. A glob therefore counts as received once a
//! response contains one of its members or, if it has none, the glob itself in `removed_resources`.
//! An error with the name of the glob is one of the whole collection.
// FE-23, DE-24

use alloc::vec::Vec;

use super::{Judge, classify::Reading};
use crate::{
    client::{
        cache::entry::Entry,
        event::{
            error::{WatchError, WatchErrorKind},
            status::EntryState,
        },
        subscription::Subscription,
        watch::News,
    },
    slab::Slot,
};

impl Judge<'_> {
    /// Notes that the response contains the resource, valid or invalid.
    pub(crate) fn note_present(&mut self, slot: Slot) {
        let Some(entry) = self.cache.get(slot).filter(|entry| entry.is_foreign) else { return };
        let name = entry.name.clone();
        self.cache.globs.note_present(name.as_str());
    }

    /// Returns the glob with this entry, if it is subscribed on the server.
    fn asked_for_glob(&self, slot: Slot) -> Option<Slot> {
        let entry = self.cache.get(slot).filter(|entry| entry.is_glob)?;
        let is_asked_for = self.asked.sent.has(entry.subscription) && self.may_come_from_here(slot);
        self.cache.globs.find(entry.name.as_str()).filter(|_| is_asked_for)
    }

    /// Marks the globs that the response mentions as received, and clears their errors.
    pub(crate) fn receive_globs(&mut self) {
        for glob in self.cache.globs.take_present() {
            if let Some(known) = self.cache.globs.at(glob)
                && self.asked.sent.has(known.subscription)
            {
                self.receive_glob(glob);
            }
        }
    }

    fn receive_glob(&mut self, glob: Slot) -> Option<()> {
        let known = self.cache.globs.at_mut(glob)?;
        let was_received = core::mem::replace(&mut known.is_received, true);
        let subscription = self.interest.subscriptions.at_mut(known.subscription)?;
        subscription.timer = 0;
        let entry = self.cache.get_mut(subscription.entry)?;
        let was_wrong = entry.error().is_some();
        entry.state = EntryState::Acked;
        entry.clear_error();
        let news = match was_received {
            true if !was_wrong => return None,
            true => News::Ambient,
            false => News::Changed,
        };
        self.watches.tell_all(subscription.first_watch, news, self.outbox, self.debts);
        Some(())
    }

    /// Ends the does-not-exist timers of the globs that a completely rejected response mentions.
    pub(crate) fn settle_globs(&mut self) {
        for glob in self.cache.globs.take_present() {
            if let Some(glob) = self.cache.globs.at(glob)
                && self.asked.sent.has(glob.subscription)
                && let Some(subscription) = self.interest.subscriptions.at_mut(glob.subscription)
            {
                subscription.timer = 0;
            }
        }
    }

    /// Handles the name of a glob among the removed resources: it has no members other than those
    /// in the response. Does nothing if the response contains a resource whose name is unknown,
    /// because it may be a member.
    pub(crate) fn conclude_empty(&mut self, slot: Slot, reading: &Reading<'_>) {
        let Some(glob) = self.asked_for_glob(slot) else { return };
        self.cache.globs.note_spoken_of(glob);
        if reading.faults.has_unnamed() {
            return;
        }
        for member in self.other_members(glob) {
            self.conclude_absent(member);
        }
    }

    /// Returns the members of a glob that are not in the response.
    fn other_members(&self, glob: Slot) -> Vec<Slot> {
        let Some(glob) = self.cache.globs.at(glob) else { return Vec::new() };
        glob.members().filter(|&member| !self.cache.is_in_response(member)).collect()
    }

    /// Handles an error that the server reports for a resource or a glob.
    pub(crate) fn take_report(&mut self, slot: Slot, kind: WatchErrorKind) {
        match self.is_glob(slot) {
            true => self.fail_glob(slot, kind).unwrap_or_default(),
            false => self.data_error(slot, EntryState::ReceivedError, kind),
        }
    }

    /// Sets the error of a glob, which is ambient if the glob was received. If the data-error
    /// policy drops resources, the members are dropped, except those subscribed by name, which have
    /// their own errors.
    fn fail_glob(&mut self, slot: Slot, kind: WatchErrorKind) -> Option<()> {
        let glob = self.asked_for_glob(slot)?;
        if self.drops(&kind) {
            for member in self.other_members(glob) {
                if !self.is_named(member) {
                    self.data_error(member, EntryState::ReceivedError, kind.clone());
                }
            }
            self.cache.globs.at_mut(glob)?.is_received = false;
        }
        let is_received = self.cache.globs.at(glob)?.is_received;
        let entry = self.cache.get_mut(slot)?;
        let error = WatchError::new(kind, Some(entry.name.clone()), self.source);
        let is_news = entry.error() != Some(&error);
        entry.state = EntryState::ReceivedError;
        entry.set_error(error, self.epoch);
        self.settle(slot);
        if is_news {
            let news = if is_received { News::Ambient } else { News::Changed };
            let first = self.interest.first_watch_of(&self.cache.globs, glob);
            self.watches.tell_all(first, news, self.outbox, self.debts);
        }
        Some(())
    }

    fn is_named(&self, slot: Slot) -> bool {
        let subscription =
            self.cache.get(slot).map_or(Slot::NONE, |entry: &Entry| entry.subscription);
        self.interest.subscriptions.at(subscription).is_some_and(Subscription::is_wanted)
    }
}
