//! Periods after which retained deletions are discarded.

use alloc::collections::{BTreeSet, VecDeque};

use crate::{server::store::revision::Stamp, slab::Slot, time::Time};

/// Number of periods into which the retention time of deletions is divided.
pub(crate) const PARTS: u32 = 8;

/// Periods of retained deletions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Horizon(pub(crate) VecDeque<While>);

/// Deletions of one period, which are discarded together.
#[derive(Debug)]
pub(crate) struct While {
    /// Time at which they are discarded.
    pub(crate) end: Time,
    /// Time at which the period ends and no more deletions are added.
    pub(crate) full: Time,
    /// Revision of the last deletion of the period.
    pub(crate) until: Stamp,
    pub(crate) arenas: BTreeSet<Slot>,
}
