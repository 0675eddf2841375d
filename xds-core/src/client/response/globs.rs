//! What a response says of globs: of which it has members, which have none, and what is wrong with one.
//!
//! Nothing marks what a server sends as the answer to a glob. So a glob counts as received once a response
//! has one of its members, or says that there are none by naming the glob itself among what was removed
//! (FE-23). An error that goes by the glob's name is the collection's (DE-24).

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
    /// The response has the resource, good or bad.
    pub(crate) fn note_present(&mut self, slot: Slot) {
        let Some(entry) = self.cache.get(slot).filter(|entry| entry.is_foreign) else { return };
        let name = entry.name.clone();
        self.cache.globs.note_present(name.as_str());
    }

    /// The glob with this entry, if the server was asked for it.
    fn asked_for_glob(&self, slot: Slot) -> Option<Slot> {
        let entry = self.cache.get(slot).filter(|entry| entry.is_glob)?;
        let is_asked_for = self.asked.sent.has(entry.subscription) && self.may_come_from_here(slot);
        self.cache.globs.find(entry.name.as_str()).filter(|_| is_asked_for)
    }

    /// The globs that the response speaks of exist, and nothing is wrong with them any more.
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

    /// Nothing of the response counts, but the server has spoken: nothing is waited for any longer.
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

    /// The response has the name of a glob among what was removed: there are no members. The response may
    /// have some all the same, which count; any may be the one of a name that cannot be determined.
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

    /// The members of a glob that are not in the response.
    fn other_members(&self, glob: Slot) -> Vec<Slot> {
        let Some(glob) = self.cache.globs.at(glob) else { return Vec::new() };
        glob.members().filter(|&member| !self.cache.is_in_response(member)).collect()
    }

    /// The server reports an error of a resource or of a glob.
    pub(crate) fn take_report(&mut self, slot: Slot, kind: WatchErrorKind) {
        match self.is_glob(slot) {
            true => self.fail_glob(slot, kind).unwrap_or_default(),
            false => self.data_error(slot, EntryState::ReceivedError, kind),
        }
    }

    /// What is wrong with a glob is told beside its members. It ends their use if data errors do, save of
    /// those that are asked for by name, which have errors of their own.
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
