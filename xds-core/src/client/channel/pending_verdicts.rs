//! Responses waiting for verdicts of the application.

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::verdicts::Verdicts;
use crate::{client::event::Update, id::UpdateId};

/// Pending verdicts of one channel.
#[derive(Debug, Default)]
pub(crate) struct PendingVerdicts {
    pub(crate) open: Option<PendingVerdict>,
    /// Total number of reviews.
    pub(crate) count: u64,
    /// Responses that arrived although nothing should have been read, in order.
    pub(crate) waiting: VecDeque<Bytes>,
}

/// Response under review.
#[derive(Debug)]
pub(crate) struct PendingVerdict {
    pub(crate) id: UpdateId,
    pub(crate) type_index: usize,
    pub(crate) frame: Bytes,
    pub(crate) verdicts: Verdicts,
    /// Update for the application; `None` once it was polled.
    pub(crate) update: Option<Update>,
}

impl PendingVerdicts {
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }
}
