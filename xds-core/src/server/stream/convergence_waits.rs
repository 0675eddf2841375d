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

/// Who waits to be told.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// By the arena and the number of the transaction.
    pub(crate) waits: BTreeMap<(Slot, u64), Wait>,
}

#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) view: ViewName,
    pub(crate) type_url: TypeUrl,
    /// The sessions that have not accepted it.
    pub(crate) lagging: BTreeSet<Slot>,
}

impl Waits {
    /// How many are waited for.
    pub(crate) fn len(&self) -> usize {
        self.waits.len()
    }

    /// The numbers that are waited for on an arena.
    pub(crate) fn on(&self, arena: Slot) -> Vec<u64> {
        self.waits
            .range((arena, 0)..=(arena, u64::MAX))
            .map(|((_, sequence), _)| *sequence)
            .collect()
    }
}

impl Wait {
    pub(crate) fn over(self, sequence: u64) -> ServerOutput {
        ServerOutput::Converged { view: self.view, type_url: self.type_url, sequence }
    }
}
