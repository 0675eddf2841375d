//! Place of a session among the sessions of its stream.

use crate::slab::Slot;

/// Location of a session of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionHandle {
    pub(crate) rank: u8,
    pub(crate) arena: Slot,
    pub(crate) session: Slot,
}
