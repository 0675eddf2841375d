//! Names of one type subscribed on one channel.
//!
//! A name is subscribed on every server that its authority uses, so the state is kept per channel:
//! one bit per subscription, and two counters that determine whether a request is due.

use alloc::vec::Vec;

use crate::{client::subscription::TypeInterest, slab::Slot};

/// Names of one type as sent on one channel.
#[derive(Debug, Default)]
pub(crate) struct SentNames {
    /// Bits by the slot of the subscription. A slot is not reused while its bit is set anywhere.
    bits: Vec<u64>,
    /// Number of subscribed names that were not sent.
    unsent: usize,
    /// Number of sent names that are no longer subscribed.
    unsubscribed: usize,
    /// Subscriptions that may have changed since the last request; `None` if each request lists all
    /// names.
    changed: Option<Vec<Slot>>,
}

impl SentNames {
    /// Creates the state before the first request; `scope` states which authorities use the server.
    pub(crate) fn none(interest: &TypeInterest, scope: &[bool]) -> Self {
        Self { bits: Vec::new(), unsent: interest.names_in(scope), ..Self::default() }
    }

    /// Enables tracking of changed subscriptions.
    pub(crate) fn tracking_changes(mut self) -> Self {
        self.changed = Some(Vec::new());
        self
    }

    /// Takes the subscriptions that may have changed, in order and possibly with duplicates.
    pub(crate) fn take_changed(&mut self) -> Vec<Slot> {
        self.changed.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Tracks a change. The list is cleared when all changes have been reverted before a request;
    /// otherwise repeated changes of one subscription accumulate until the next request.
    fn note_change(&mut self, subscription: Slot) {
        let is_outdated = self.is_outdated();
        if let Some(changed) = &mut self.changed {
            match is_outdated {
                true => changed.push(subscription),
                false => changed.clear(),
            }
        }
    }

    /// Returns whether the sent names differ from the subscribed ones.
    pub(crate) fn is_outdated(&self) -> bool {
        self.unsent > 0 || self.unsubscribed > 0
    }

    /// Returns whether subscribed names were not sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    pub(crate) fn has(&self, subscription: Slot) -> bool {
        let index = subscription.index();
        self.bits.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Notes that a name is now subscribed.
    pub(crate) fn note_subscribed(&mut self, subscription: Slot) {
        match self.has(subscription) {
            true => self.unsubscribed = self.unsubscribed.saturating_sub(1),
            false => self.unsent += 1,
        }
        self.note_change(subscription);
    }

    /// Notes that a name is no longer subscribed.
    pub(crate) fn note_unsubscribed(&mut self, subscription: Slot) {
        match self.has(subscription) {
            true => self.unsubscribed += 1,
            false => self.unsent = self.unsent.saturating_sub(1),
        }
        self.note_change(subscription);
    }

    /// Treats a name that is no longer subscribed as never sent. Returns whether it was sent.
    pub(crate) fn forget(&mut self, subscription: Slot) -> bool {
        let was_sent = self.has(subscription);
        if was_sent {
            self.remove(subscription);
            self.unsubscribed = self.unsubscribed.saturating_sub(1);
        }
        was_sent
    }

    pub(crate) fn insert(&mut self, subscription: Slot) {
        let index = subscription.index();
        if self.bits.len() <= index / 64 {
            self.bits.resize(index / 64 + 1, 0);
        }
        if let Some(word) = self.bits.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    pub(crate) fn remove(&mut self, subscription: Slot) {
        let index = subscription.index();
        if let Some(word) = self.bits.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// Notes that a request has sent all changes.
    pub(crate) fn note_complete(&mut self) {
        (self.unsent, self.unsubscribed) = (0, 0);
        let _ = self.take_changed();
    }

    /// Notes that a request has sent all changes except `unsent` names.
    pub(crate) fn note_complete_but(&mut self, unsent: usize) {
        self.note_complete();
        self.unsent = unsent;
    }

    /// Counts again after a change of the authorities that use the server.
    pub(crate) fn recount(&mut self, interest: &TypeInterest, scope: &[bool]) {
        (self.unsent, self.unsubscribed) = (0, 0);
        let _ = self.take_changed();
        for (slot, subscription) in interest.subscriptions.iter() {
            match (subscription.is_subscribed_in(scope), self.has(slot)) {
                (true, false) => self.unsent += 1,
                (false, true) => self.unsubscribed += 1,
                _ => continue,
            }
            self.note_change(slot);
        }
    }

    /// Returns all sent subscriptions in slot order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.bits.iter().enumerate().flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| Slot::at_index(at * 64 + bit))
        })
    }

    /// Takes all sent subscriptions and forgets them.
    pub(crate) fn take_all(&mut self) -> Vec<Slot> {
        let all = self.iter().collect();
        self.bits = Vec::new();
        all
    }
}
