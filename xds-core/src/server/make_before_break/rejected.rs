//! Resources that a client has permanently rejected.
//!
//! A rejected resource is sent once more with the next change. If it is rejected again, it is not
//! sent until it changes, and the client lacks it, whatever else it accepts, until it has accepted
//! the changed resource.
// M107

use alloc::collections::BTreeMap;

use crate::{
    server::store::{
        arena::{Arena, ResourceEntry},
        revision::Revision,
    },
    slab::Slot,
    text::ResourceName,
};

/// Wildcard resources of one type that a client has rejected and not accepted since.
///
/// The key is the revision of the change that was rejected first or, if the client may never have
/// been sent the resource before, of its creation, because everything that refers to it since then
/// refers to a resource that the client lacks.
#[derive(Debug, Default)]
pub(crate) struct RejectedWildcardResources {
    resources: BTreeMap<Revision, (Slot, ResourceName)>,
    /// Key of each resource in `resources`.
    places: BTreeMap<Slot, Revision>,
    /// Nonce of the response that was added last.
    newest: u64,
}

impl RejectedWildcardResources {
    /// Adds the resources of a rejected response, which were set after `from` and up to `to`. The client
    /// has accepted all resources up to the revision `accepted`.
    pub(crate) fn add(
        &mut self,
        arena: &Arena,
        (from, to): (Revision, Revision),
        accepted: Revision,
        nonce: u64,
    ) {
        if self.newest == nonce {
            return;
        }
        self.newest = nonce;
        for slot in arena.slots_between(from, to) {
            let Some(resource) = arena.at(slot) else { continue };
            if let Some(since) = self.places.get(&slot) {
                if self.resources.get(since).is_some_and(|it| find(arena, it).is_some()) {
                    continue;
                }
                self.resources.remove(since);
            }
            // Content that the client has not accepted may never have been sent: a split response
            // leaves it out if the resource changes before its part is sent.
            let has_previous = resource.before <= accepted;
            let since = if has_previous { resource.revision } else { resource.created };
            self.resources.insert(since, (slot, resource.name.clone()));
            self.places.insert(slot, since);
        }
        self.sweep(arena);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Removes the resources of an accepted response, which were set after `from` and up to `to`.
    pub(crate) fn remove(&mut self, arena: &Arena, (from, to): (Revision, Revision)) {
        if self.resources.is_empty() {
            return;
        }
        for slot in arena.slots_between(from, to) {
            if let Some(since) = self.places.remove(&slot) {
                self.resources.remove(&since);
            }
        }
    }

    /// Removes deleted resources once they are the majority, which makes the cost proportional to
    /// the additions.
    fn sweep(&mut self, arena: &Arena) {
        if self.resources.len() <= arena.existing().saturating_mul(2) {
            return;
        }
        self.resources.retain(|_, it| find(arena, it).is_some());
        self.places = self.resources.iter().map(|(&since, it)| (it.0, since)).collect();
    }

    /// Returns the first key of a resource that exists.
    pub(crate) fn first(&self, arena: &Arena) -> Option<Revision> {
        let mut resources = self.resources.iter();
        resources.find(|(_, it)| find(arena, it).is_some()).map(|(&since, _)| since)
    }
}

/// Returns the current resource, if it still exists.
fn find<'a>(arena: &'a Arena, (slot, name): &(Slot, ResourceName)) -> Option<&'a ResourceEntry> {
    arena.at(*slot).filter(|it| it.payload.is_some() && it.name == *name)
}
