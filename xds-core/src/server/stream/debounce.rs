//! Changes that are held back to be sent together.

use alloc::collections::BTreeSet;

use crate::{
    server::session::subscriptions::Subscriptions,
    slab::{Key, Slot},
    time::Time,
};

/// Who is to be told when the burst is over.
#[derive(Debug, Default)]
pub(crate) struct Debounced {
    /// Where something changed.
    pub(crate) arenas: BTreeSet<Key>,
    /// Who would have been told.
    pub(crate) sessions: BTreeSet<Key>,
    pub(crate) burst: Option<Burst>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) began: Time,
    pub(crate) ends: Time,
}

impl Debounced {
    /// Remembers a session, if it has something to send that is held back.
    pub(crate) fn note(&mut self, session: Slot, subscriptions: &Subscriptions) {
        if self.burst.is_some()
            && subscriptions.is_held_back(session)
            && let Some(key) = subscriptions.sessions.key(session)
        {
            self.sessions.insert(key);
        }
    }
}
