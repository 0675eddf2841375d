//! What a client has rejected for good.
//!
//! What is rejected goes along with the next change, once (M107). If it is rejected then, too, it is not
//! sent again until it changes, and the client lacks it all the while, whatever else it accepts; and then
//! until it has accepted what it has changed to.

use alloc::collections::{BTreeMap, BTreeSet};

use super::store::{
    arena::{Arena, Resource},
    history::Stamp,
};
use crate::{slab::Slot, text::ResourceName};

/// The resources of one type under the wildcard that a client has rejected and not accepted since, by
/// the change that it rejected first; if it may not have been sent them before that, by their creation: what has
/// referred to them since then leads to something that it has in no form.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    resources: BTreeMap<Stamp, (Slot, ResourceName)>,
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
        self.resources.retain(|_, it| find(arena, it).is_some());
        let known: BTreeSet<Slot> = self.resources.values().map(|(slot, _)| *slot).collect();
        let slots = arena.slots_between(from, to).filter(|slot| !known.contains(slot));
        self.resources.extend(slots.filter_map(|slot| {
            let resource = arena.at(slot)?;
            // What was sent up to there had it as it was before, unless it changed while it waited to be sent.
            let was_sent_before = resource.before <= from;
            let since = if was_sent_before { resource.stamp } else { resource.born() };
            Some((since, (slot, resource.name.clone())))
        }));
    }

    /// The same was accepted.
    pub(crate) fn remove(&mut self, arena: &Arena, (from, to): (Stamp, Stamp)) {
        let is_accepted = |stamp| from < stamp && stamp <= to;
        self.resources.retain(|_, it| find(arena, it).is_some_and(|it| !is_accepted(it.stamp)));
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
