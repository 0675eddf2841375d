//! Changes that are held back to be sent together.

use alloc::collections::BTreeSet;

use crate::{
    server::session::subscriptions::Subscriptions,
    slab::{Key, Slot},
    time::Time,
};

/// Arenas and sessions to be notified when the burst ends.
#[derive(Debug, Default)]
pub(crate) struct HeldBackChanges {
    /// Arenas with changes.
    pub(crate) arenas: BTreeSet<Key>,
    /// Sessions whose notification is held back.
    pub(crate) sessions: BTreeSet<Key>,
    pub(crate) burst: Option<Burst>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) began: Time,
    pub(crate) ends: Time,
}

impl HeldBackChanges {
    /// Remembers a session that has held-back changes.
    pub(crate) fn note(&mut self, session: Slot, subscriptions: &Subscriptions) {
        if self.burst.is_some()
            && subscriptions.is_held_back(session)
            && let Some(key) = subscriptions.sessions.key(session)
        {
            self.sessions.insert(key);
        }
    }
}
