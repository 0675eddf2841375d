//! What a client has rejected for good.
//!
//! What is rejected goes along with the next change, once (M107). If it is rejected then, too, it is not
//! sent again until it changes, and the client lacks it all the while, whatever else it accepts.

use alloc::collections::BTreeMap;

use super::store::{arena::Arena, history::Stamp};
use crate::slab::Slot;

/// The resources of one type under the wildcard that a client has rejected and not accepted since, by
/// the change that made them so.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    resources: BTreeMap<Stamp, Slot>,
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
        self.resources.retain(|&stamp, &mut slot| is_current(arena, stamp, slot));
        let slots = arena.slots_between(from, to);
        self.resources.extend(slots.filter_map(|slot| Some((arena.at(slot)?.stamp, slot))));
    }

    /// The same was accepted.
    pub(crate) fn remove(&mut self, arena: &Arena, (from, to): (Stamp, Stamp)) {
        let is_accepted = |stamp| from < stamp && stamp <= to;
        self.resources
            .retain(|&stamp, &mut slot| !is_accepted(stamp) && is_current(arena, stamp, slot));
    }

    /// Whether there is anything that was set up to `to` and has not changed since.
    pub(crate) fn has_any(&self, arena: &Arena, to: Stamp) -> bool {
        self.resources.range(..=to).any(|(&stamp, &slot)| is_current(arena, stamp, slot))
    }
}

fn is_current(arena: &Arena, stamp: Stamp, slot: Slot) -> bool {
    arena.at(slot).is_some_and(|resource| resource.stamp == stamp && resource.payload.is_some())
}
