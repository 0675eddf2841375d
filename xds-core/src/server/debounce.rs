//! Coalescing of bursts of changes: clients with the state before a burst are notified when it
//! ends.
//!
//! Only the notification is delayed. Due resources are tracked as usual, so a client receives the
//! newest state, and receives it at once if it sends a request meanwhile.
// M225

use alloc::{collections::BTreeSet, vec::Vec};

use super::{
    Server,
    make_before_break::Dependencies,
    queue::timer_queue::Alarm,
    session::{Session, subscriptions::Subscriptions},
    stream::push_order::Order,
};
use crate::{
    id::StreamId,
    slab::{Key, Slot},
    time::Time,
};

/// Arenas and sessions to be notified when the burst ends.
#[derive(Debug, Default)]
pub(crate) struct HeldBackChanges {
    /// Arenas with changes.
    arenas: BTreeSet<Key>,
    /// Sessions whose notification is held back.
    sessions: BTreeSet<Key>,
    /// Time at which the burst began.
    burst: Option<Time>,
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

impl Server {
    /// Holds back the changes of these arenas, if debouncing is configured.
    pub(crate) fn hold_back(&mut self, arenas: &[Slot]) {
        let Some(debounce) = self.config.debounce.filter(|_| !arenas.is_empty()) else { return };
        for &slot in arenas {
            let Some(key) = self.subscriptions.store.arena_key(slot) else { continue };
            if let Some(arena) = self.subscriptions.store.arena_mut(slot) {
                arena.is_held_back = true;
                self.held_back.arenas.insert(key);
            }
        }
        let now = self.clock.now();
        let began = *self.held_back.burst.get_or_insert(now);
        let ends = now.after(debounce.quiet).min(began.after(debounce.max));
        self.alarms.set(Alarm::BurstEnd, ends);
    }

    /// Releases held-back types that are to be sent before a due type, so that their order is kept
    /// when a client requests something during a burst. The client is then also sent the other
    /// changes of the due type. Costs one step per type of the stream.
    // M144, IS17
    pub(crate) fn release_dependencies(&mut self, id: StreamId) {
        if self.held_back.burst.is_none() {
            return;
        }
        let Some(stream) = self.streams.get(id.0) else { return };
        if !matches!(stream.order, Order::Rank) {
            return;
        }
        let mut due = Vec::new();
        for handle in stream.sessions.iter().rev() {
            let rank = usize::from(handle.rank);
            let goes_first = |&due: &usize| Dependencies::of(due).before_additions.contains(&rank);
            let goes_first = due.iter().any(goes_first);
            if goes_first && self.subscriptions.is_held_back(handle.session) {
                let session = self.subscriptions.sessions.at_mut(handle.session);
                session.into_iter().for_each(Session::make_urgent);
            }
            if self.subscriptions.is_due(handle.session) {
                due.push(rank);
            }
        }
    }

    /// Notifies the sessions when the burst is over.
    pub(crate) fn end_burst(&mut self) {
        let HeldBackChanges { arenas, sessions, .. } = core::mem::take(&mut self.held_back);
        let store = &mut self.subscriptions.store;
        let arenas = arenas.into_iter().filter(|&key| store.arena_key(key.slot()) == Some(key));
        let arenas: Vec<_> = arenas.map(Key::slot).collect();
        for &arena in &arenas {
            if let Some(arena) = self.subscriptions.store.arena_mut(arena) {
                arena.is_held_back = false;
            }
        }
        for key in sessions {
            if self.subscriptions.sessions.get(key).is_some() {
                self.notify_if_due(key.slot());
            }
        }
        for arena in arenas {
            self.notify_wildcards(arena);
        }
    }
}
