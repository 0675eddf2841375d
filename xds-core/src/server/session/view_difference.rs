//! Move of an up-to-date session to another view: only what differs between the views is looked at.
//!
//! The general move exports and imports all names that the client has. A client that has exactly what
//! its view has does not need that: what differs is found once for all such clients.
// M223

use alloc::{sync::Arc, vec::Vec};

use super::{
    ResponseMode, context::SessionContext, subscriptions::Subscriptions, wildcard::CatchUp,
};
use crate::{
    server::{
        event::ResponseCause,
        store::{arena::Arena, revision::Revision},
    },
    slab::Slot,
    text::ResourceName,
};

/// Names whose resources differ between the arenas of two views, and whether the first one has them.
pub(crate) type ViewDifference = Arc<[(ResourceName, bool)]>;

/// Difference that was computed last.
#[derive(Debug)]
pub(crate) struct KnownDifference {
    /// Arenas, and their newest revisions.
    between: [(Slot, Revision); 2],
    names: ViewDifference,
}

impl Subscriptions {
    /// Returns the difference between the view of a session and another one, if the client has
    /// exactly what its view has.
    pub(crate) fn difference_for(&mut self, session: Slot, to: Slot) -> Option<ViewDifference> {
        let session = self.sessions.at(session)?;
        let (from, to_arena) = (self.store.arena(session.arena)?, self.store.arena(to)?);
        if !session.is_up_to_date(from) {
            return None;
        }
        let between = [(session.arena, from.clock()), (to, to_arena.clock())];
        if let Some(known) = self.difference.as_ref().filter(|it| it.between == between) {
            return Some(known.names.clone());
        }
        let names: ViewDifference = difference(from, to_arena).into();
        self.difference = Some(KnownDifference { between, names: names.clone() });
        Some(names)
    }
}

fn difference(from: &Arena, to: &Arena) -> Vec<(ResourceName, bool)> {
    let mut names = Vec::new();
    let hash_in = |arena: &Arena, name: &ResourceName| {
        Some(arena.entry(name.as_str())?.payload.as_ref()?.hash)
    };
    for resource in from.slots().filter_map(|slot| from.at(slot)) {
        if let Some(payload) = &resource.payload
            && hash_in(to, &resource.name) != Some(payload.hash)
        {
            names.push((resource.name.clone(), true));
        }
    }
    for resource in to.slots().filter_map(|slot| to.at(slot)) {
        if resource.payload.is_some() && hash_in(from, &resource.name).is_none() {
            names.push((resource.name.clone(), false));
        }
    }
    names
}

impl super::Session {
    /// Whether the client has accepted all that its wildcard covers, and has nothing else. O(1).
    fn is_up_to_date(&self, arena: &Arena) -> bool {
        self.response_mode(arena) == ResponseMode::ChangesAndRemovals
            && !self.gates_other_types()
            && self.wildcard.is_some_and(|it| it.full_send.is_none())
            && self.subscriptions.is_empty()
            && self.extras.is_none()
            && self.unaccepted.is_none()
            && self.has_accepted_newest()
            && !self.has_pending_content(arena)
    }
}

impl SessionContext<'_> {
    /// Imports an up-to-date session into its new arena: the difference is due.
    pub(crate) fn import_difference(&mut self, difference: &ViewDifference, cause: ResponseCause) {
        self.subscribe_wildcard(cause);
        let newest = self.arena.newest();
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.full_send = None;
            (wildcard.cursor, wildcard.reached) = (newest, newest);
        }
        for (name, existed) in difference.iter() {
            if *existed {
                self.note_client_version(name.as_str(), |_| false, cause);
                continue;
            }
            let slot = self.arena.slot_of(name.clone());
            if let Some(subscription) = slot.and_then(|slot| self.add_retained(slot)) {
                self.make_due(subscription, cause);
            }
        }
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.catch_up = CatchUp::Everything;
        }
        if difference.is_empty() {
            // No response ends this, and the client has received everything.
            self.session.update_extras(|extras| extras.wildcard_since = Revision::START);
        }
        self.renew_all_at_once();
    }
}
