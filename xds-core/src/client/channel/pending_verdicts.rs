//! Responses that wait for the verdicts of the application.

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::settlement::Settlement;
use crate::{client::event::Update, id::UpdateId};

/// What one channel waits for.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    pub(crate) open: Option<Review>,
    /// How many there have been.
    pub(crate) count: u64,
    /// Responses that came although nothing was to be read, in order.
    pub(crate) waiting: VecDeque<Bytes>,
}

/// A response under review.
#[derive(Debug)]
pub(crate) struct Review {
    pub(crate) id: UpdateId,
    pub(crate) type_index: usize,
    pub(crate) frame: Bytes,
    pub(crate) settlement: Settlement,
    /// Until it is polled.
    pub(crate) update: Option<Update>,
}

impl Reviews {
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }
}
