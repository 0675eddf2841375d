//! Read-only view of a session, from which it follows what its client has.

use super::{Session, subscription::SubscriptionTable, subscriptions::Subscriptions};
use crate::{server::store::arena::Arena, slab::Slot};

/// Session together with all state from which it follows what its client has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionView<'a> {
    pub(crate) slot: Slot,
    pub(crate) session: &'a Session,
    pub(crate) arena: &'a Arena,
    pub(crate) subscriptions: &'a SubscriptionTable,
}

impl<'a> SessionView<'a> {
    pub(crate) fn of(slot: Slot, subscriptions: &'a Subscriptions) -> Option<Self> {
        let session = subscriptions.sessions.at(slot)?;
        let arena = subscriptions.store.arena(session.arena)?;
        Some(Self { slot, session, arena, subscriptions: &subscriptions.table })
    }
}
