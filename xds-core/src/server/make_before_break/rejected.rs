//! What a client has rejected for good.
//!
//! What is rejected goes along with the next change, once (M107). If it is rejected then, too, it is not
//! sent again until it changes, and the client lacks it all the while, whatever else it accepts; and then
//! until it has accepted what it has changed to.

use alloc::collections::BTreeMap;

use crate::{
    server::store::{
        arena::{Arena, Resource},
        revision::Stamp,
    },
    slab::Slot,
    text::ResourceName,
};

/// The resources of one type under the wildcard that a client has rejected and not accepted since, by
/// the change that it rejected first; if it may not have been sent them before that, by their creation: what has
/// referred to them since then leads to something that it has in no form.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    resources: BTreeMap<Stamp, (Slot, ResourceName)>,
    /// Where each of them is among these.
    places: BTreeMap<Slot, Stamp>,
    /// The response that was added last.
    newest: u64,
}

impl Refused {
    /// The response of this nonce was rejected, or has been, which had what was set after `from` and up to `to`.
    pub(crate) fn add(&mut self, arena: &Arena, (from, to): (Stamp, Stamp), nonce: u64) {
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
            // What was sent up to there had it as it was before, unless it changed while it waited to be sent.
            let was_sent_before = resource.before <= from;
            let since = if was_sent_before { resource.stamp } else { resource.born() };
            self.resources.insert(since, (slot, resource.name.clone()));
            self.places.insert(slot, since);
        }
        self.sweep(arena);
    }

    /// The same was accepted.
    pub(crate) fn remove(&mut self, arena: &Arena, (from, to): (Stamp, Stamp)) {
        if self.resources.is_empty() {
            return;
        }
        for slot in arena.slots_between(from, to) {
            if let Some(since) = self.places.remove(&slot) {
                self.resources.remove(&since);
            }
        }
    }

    /// Lets go of what is there no longer, as soon as that is most of it: then it costs as much as it came to.
    fn sweep(&mut self, arena: &Arena) {
        if self.resources.len() <= arena.existing().saturating_mul(2) {
            return;
        }
        self.resources.retain(|_, it| find(arena, it).is_some());
        self.places = self.resources.iter().map(|(&since, it)| (it.0, since)).collect();
    }

    /// Whether there is anything that it rejected of what was set up to `to`.
    pub(crate) fn has_any(&self, arena: &Arena, to: Stamp) -> bool {
        self.resources.range(..=to).any(|(_, it)| find(arena, it).is_some())
    }
}

/// The resource, as it is now.
fn find<'a>(arena: &'a Arena, (slot, name): &(Slot, ResourceName)) -> Option<&'a Resource> {
    arena.at(*slot).filter(|it| it.payload.is_some() && it.name == *name)
}
