//! Revisions before which deletions have been forgotten.

use alloc::collections::{BTreeSet, VecDeque};

use crate::{server::store::revision::Stamp, slab::Slot, time::Time};

/// How many times such a while fits into the time for which deletions are remembered.
pub(crate) const PARTS: u32 = 8;

/// When deletions are forgotten, those of the oldest while first.
#[derive(Debug, Default)]
pub(crate) struct Horizon(pub(crate) VecDeque<While>);

/// Deletions that are forgotten together.
#[derive(Debug)]
pub(crate) struct While {
    /// When the first of them are.
    pub(crate) end: Time,
    /// When no more are added.
    pub(crate) full: Time,
    /// The last of them.
    pub(crate) until: Stamp,
    pub(crate) arenas: BTreeSet<Slot>,
}
