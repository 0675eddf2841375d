//! Rejections that are still open: what is sent again for them, and what is not.

use alloc::vec::Vec;

use crate::server::{
    session::Session,
    store::{revision::Revision, version::content::StatedVersion},
};

/// Resources that a client rejected and has not accepted since.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRejections {
    pub(crate) state: RejectionState,
    /// Resources that are not sent again until they change.
    until_changed: Vec<SentRange>,
}

/// State of the newest rejection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum RejectionState {
    /// No resources are sent again.
    #[default]
    Settled,
    /// The resources are re-sent with the next change.
    Pending(RetryBatch),
    /// The resources were re-sent, and the client has not answered.
    Resent(RetryBatch),
    /// The full state with this content was rejected.
    FullState(StatedVersion),
}

/// Resources of rejected responses, to be re-sent with the next change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryBatch {
    pub(crate) range: SentRange,
    /// Revision after which a change causes the batch to be re-sent.
    pub(crate) until: Revision,
    /// Under the wildcard: removals after this revision are sent again.
    pub(crate) removals_from: Revision,
    pub(crate) removals: RejectedRemovals,
}

/// Contents of rejected responses other than resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RejectedRemovals {
    None,
    /// Removals. The client may still have the removed resources.
    Present,
}

/// Location of the resources of rejected responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentRange {
    /// By name: lowest nonce under which they were sent.
    pub(crate) first: u64,
    /// By name: highest nonce under which they were sent.
    pub(crate) last: u64,
    /// Under the wildcard: resources changed after this revision are included.
    pub(crate) from: Revision,
    /// Under the wildcard: last included revision. Later ones may have been in another response.
    pub(crate) to: Revision,
}

/// Position of a resource, by which it is found in a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SentPosition {
    Nonce(u64),
    Revision(Revision),
}

/// Maximum number of separate ranges; the oldest ones are merged.
const MAX_RANGES: usize = 8;

impl RetryBatch {
    /// Combines two batches.
    fn merge(self, later: Self) -> Self {
        Self {
            range: self.range.with(later.range),
            until: self.until.max(later.until),
            removals_from: self.removals_from.min(later.removals_from),
            removals: self.removals.max(later.removals),
        }
    }
}

impl SentRange {
    pub(crate) fn has(&self, position: SentPosition) -> bool {
        match position {
            SentPosition::Nonce(nonce) => (self.first..=self.last).contains(&nonce),
            SentPosition::Revision(revision) => self.from < revision && revision <= self.to,
        }
    }

    pub(crate) fn with(self, later: Self) -> Self {
        let (first, from) = (self.first.min(later.first), self.from.min(later.from));
        Self { first, last: later.last, from, to: self.to.max(later.to) }
    }
}

impl OpenRejections {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.state, RejectionState::Settled) && self.until_changed.is_empty()
    }

    /// Adds a rejected response, of which `retry_batch` is to be re-sent.
    pub(crate) fn add(&mut self, response: SentRange, retry_batch: Option<RetryBatch>) {
        let mut pending = retry_batch;
        match self.state {
            RejectionState::Pending(earlier) => {
                pending = Some(pending.map_or(earlier, |new| earlier.merge(new)));
            }
            RejectionState::Resent(earlier) => self.until_changed.push(earlier.range),
            RejectionState::Settled | RejectionState::FullState(_) => {}
        }
        self.state = pending.map_or(RejectionState::Settled, RejectionState::Pending);
        if pending.is_none() {
            self.until_changed.push(response);
        }
        while self.until_changed.len() > MAX_RANGES {
            let oldest = self.until_changed.remove(0);
            if let Some(next) = self.until_changed.first_mut() {
                *next = oldest.with(*next);
            }
        }
    }

    /// Returns the resources to be re-sent with the next change.
    pub(crate) fn pending(&self) -> Option<RetryBatch> {
        match self.state {
            RejectionState::Pending(batch) => Some(batch),
            _ => None,
        }
    }

    /// Ends the pending rejection, because its resources are re-sent or none of them is left.
    pub(crate) fn end_pending(&mut self, then: impl FnOnce(RetryBatch) -> RejectionState) {
        if let RejectionState::Pending(batch) = self.state {
            self.state = then(batch);
        }
    }

    /// Records that the client has accepted a response.
    pub(crate) fn note_accepted(&mut self) {
        if !matches!(self.state, RejectionState::Pending(_)) {
            self.state = RejectionState::Settled;
        }
    }

    /// Drops the ranges in which nothing is left. Returns whether any rejection is open.
    pub(crate) fn review(&mut self, has_any: impl Fn(&SentRange) -> bool) -> bool {
        self.until_changed.retain(has_any);
        self.pending().is_some() || !self.until_changed.is_empty()
    }

    /// Whether the rejected resources include this one. Those that were re-sent do not count.
    pub(crate) fn has(&self, position: SentPosition) -> bool {
        let pending = self.pending().map(|batch| batch.range);
        self.until_changed.iter().chain(&pending).any(|range| range.has(position))
    }

    /// Whether a resource is among those that were re-sent with a change.
    pub(crate) fn has_resent(&self, position: SentPosition) -> bool {
        matches!(self.state, RejectionState::Resent(batch) if batch.range.has(position))
    }
}

impl Session {
    /// Returns the rejections that are still open.
    pub(crate) fn open_rejections(&self) -> Option<&OpenRejections> {
        self.extras.as_deref().map(|extras| &extras.rejections)
    }

    /// Returns the rejected resources to be re-sent with the next change.
    pub(crate) fn retry_batch(&self) -> Option<RetryBatch> {
        self.open_rejections()?.pending()
    }

    /// Forgets the rejected resources that are not sent again until they change.
    pub(crate) fn forget_rejections(&mut self) {
        self.update_extras(|extras| extras.rejections.until_changed.clear());
    }
}
