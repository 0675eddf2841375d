//! Which names the server of one channel has been told of, for one type.
//!
//! A name is subscribed on every server that its authority uses, so what was sent is kept per
//! channel: one bit per subscription, and the two counts that say whether a request is due.

use alloc::vec::Vec;

use crate::{client::subscription::TypeInterest, slab::Slot};

/// The names of one type as the server of one channel has been told them.
#[derive(Debug, Default)]
pub(crate) struct SentNames {
    /// By the slot of the subscription. A slot is not reused while a bit of it is set anywhere.
    bits: Vec<u64>,
    /// How many names are wanted of the server that it has not been told.
    unsent: usize,
    /// How many names it has been told that are no longer wanted of it.
    leaving: usize,
    /// The subscriptions that may have changed since the last request; `None` where a request lists
    /// all names anyhow.
    changed: Option<Vec<Slot>>,
}

impl SentNames {
    /// Nothing was sent yet; `scope` says which authorities use the server.
    pub(crate) fn none(interest: &TypeInterest, scope: &[bool]) -> Self {
        Self { bits: Vec::new(), unsent: interest.names_in(scope), ..Self::default() }
    }

    /// Remembers which subscriptions change.
    pub(crate) fn tracking_changes(mut self) -> Self {
        self.changed = Some(Vec::new());
        self
    }

    /// The subscriptions that may have changed, each once or more, in the order in which they did.
    pub(crate) fn take_changed(&mut self) -> Vec<Slot> {
        self.changed.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Once all that changed was taken back before it was said, none of it is remembered. While something
    /// else is outstanding, what goes to and fro is remembered each time, until the next request.
    fn note_change(&mut self, subscription: Slot) {
        let is_outdated = self.is_outdated();
        if let Some(changed) = &mut self.changed {
            match is_outdated {
                true => changed.push(subscription),
                false => changed.clear(),
            }
        }
    }

    /// Whether the server's list of names is not the wanted one.
    pub(crate) fn is_outdated(&self) -> bool {
        self.unsent > 0 || self.leaving > 0
    }

    /// Whether names are wanted of the server that it has not been told.
    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    pub(crate) fn has(&self, subscription: Slot) -> bool {
        let index = subscription.index();
        self.bits.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// A subscription is wanted of the server from now on.
    pub(crate) fn note_wanted(&mut self, subscription: Slot) {
        match self.has(subscription) {
            true => self.leaving = self.leaving.saturating_sub(1),
            false => self.unsent += 1,
        }
        self.note_change(subscription);
    }

    /// A subscription is no longer wanted of the server.
    pub(crate) fn note_unwanted(&mut self, subscription: Slot) {
        match self.has(subscription) {
            true => self.leaving += 1,
            false => self.unsent = self.unsent.saturating_sub(1),
        }
        self.note_change(subscription);
    }

    /// Takes a name that is no longer wanted for one that was never sent. Returns whether it was.
    pub(crate) fn take_back(&mut self, subscription: Slot) -> bool {
        let was_sent = self.has(subscription);
        if was_sent {
            self.remove(subscription);
            self.leaving = self.leaving.saturating_sub(1);
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

    /// The server now knows all that is wanted of it.
    pub(crate) fn note_complete(&mut self) {
        (self.unsent, self.leaving) = (0, 0);
        let _ = self.take_changed();
    }

    /// The server now knows all that is wanted of it but a few names, which it is not told yet.
    pub(crate) fn note_complete_but(&mut self, unsent: usize) {
        self.note_complete();
        self.unsent = unsent;
    }

    /// Counts anew, after the authorities that use the server have changed.
    pub(crate) fn recount(&mut self, interest: &TypeInterest, scope: &[bool]) {
        (self.unsent, self.leaving) = (0, 0);
        let _ = self.take_changed();
        for (slot, subscription) in interest.subscriptions.iter() {
            match (subscription.is_wanted_in(scope), self.has(slot)) {
                (true, false) => self.unsent += 1,
                (false, true) => self.leaving += 1,
                _ => continue,
            }
            self.note_change(slot);
        }
    }

    /// All subscriptions that were sent, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.bits.iter().enumerate().flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| Slot::at_index(at * 64 + bit))
        })
    }

    /// Everything that was sent, which is forgotten.
    pub(crate) fn take_all(&mut self) -> Vec<Slot> {
        let all = self.iter().collect();
        self.bits = Vec::new();
        all
    }
}
