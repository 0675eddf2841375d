//! Registered waits for convergence.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    server::event::ServerOutput,
    slab::Slot,
    text::{TypeUrl, ViewName},
};

/// Registered waits for convergence.
#[derive(Debug, Default)]
pub(crate) struct ConvergenceWaits {
    /// Waits by arena and sequence number of the transaction.
    pub(crate) waits: BTreeMap<(Slot, u64), ConvergenceWait>,
}

#[derive(Debug)]
pub(crate) struct ConvergenceWait {
    pub(crate) view: ViewName,
    pub(crate) type_url: TypeUrl,
    /// Sessions that have not accepted the change.
    pub(crate) lagging: BTreeSet<Slot>,
}

impl ConvergenceWaits {
    /// Number of waits.
    pub(crate) fn len(&self) -> usize {
        self.waits.len()
    }

    /// Removes a session from all waits, and returns the keys of those that it delayed.
    pub(crate) fn remove(&mut self, session: Slot) -> Vec<(Slot, u64)> {
        let left = self.waits.iter_mut();
        left.filter_map(|(&key, wait)| wait.lagging.remove(&session).then_some(key)).collect()
    }

    /// Sequence numbers with a wait on an arena.
    pub(crate) fn on(&self, arena: Slot) -> Vec<u64> {
        self.waits
            .range((arena, 0)..=(arena, u64::MAX))
            .map(|((_, sequence), _)| *sequence)
            .collect()
    }
}

impl ConvergenceWait {
    pub(crate) fn into_output(self, sequence: u64) -> ServerOutput {
        ServerOutput::Converged { view: self.view, type_url: self.type_url, sequence }
    }
}
