//! Rejections of a session: the contents that its client rejects, and which of them are sent again.
//!
//! Only this folder changes it; all other code asks.
//!
//! | from | event | to |
//! |---|---|---|
//! | any | NACK | whole, full state, isolating or given up, by [`NackRecovery`] |
//! | whole | change of another resource | sent again |
//! | sent again | NACK | whole, and the resources sent again wait until they change |
//! | sent again | ACK of a response with the rest of it | accepted |
//! | full state, given up | ACK of a response with content | accepted |
//! | whole | ACK of a response with all of it | accepted |
//! | whole, full state, given up | nothing is left of it | accepted |
//! | isolating | no suspect is left, and none was rejected | accepted |
//!
//! [`NackRecovery`]: crate::server::config::NackRecovery

use alloc::collections::VecDeque;
use core::mem;

use super::isolation::SuspectQueue;
use crate::server::{
    session::{Purpose, Session, window::Answer},
    store::{revision::Revision, version::content::StatedVersion},
};

/// Rejected contents of a session that its client has not accepted since.
#[derive(Debug, Default)]
pub(crate) struct OpenRejections {
    state: RejectionState,
    /// Whether the newest response with content was rejected, and some of it is left.
    rejects_newest: bool,
    /// Revision of the wildcard when rejected resources were sent again, until it is reached again.
    /// Changes up to this revision are not sent again.
    sent_again_to: Revision,
    /// Resources that are not sent again until they change.
    until_changed: VecDeque<SentRange>,
}

/// State of the rejection of a session.
#[derive(Debug, Default)]
pub(crate) enum RejectionState {
    /// The client rejects nothing that is to be sent again.
    #[default]
    Accepted,
    /// Responses were rejected, and it is not known why. Their resources are sent once more with
    /// the next change.
    Whole(RetryBatch),
    /// The resources of rejected responses were sent once more, and the client has not answered.
    SentAgain(RetryBatch),
    /// The newest full state was rejected, and had this content. Any change repeats all of it.
    FullState(StatedVersion),
    /// The resources of rejected responses are sent one by one, and those are known that the
    /// client rejects.
    Isolating(SuspectQueue),
    /// The newest response was rejected, and is not sent again.
    GivenUp,
}

/// Resources of rejected responses, to be sent again with the next change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryBatch {
    pub(crate) range: SentRange,
    /// Revision after which a change causes the batch to be sent again.
    pub(crate) until: Revision,
    /// Under the wildcard: revision after which removals are sent again, if there are any.
    pub(crate) removals_from: Option<Revision>,
    /// Whether the responses contained removals. The client may still have the removed resources.
    pub(crate) has_removals: bool,
}

/// Location of the resources of rejected responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentRange {
    /// By name: lowest nonce under which they were sent.
    pub(crate) first: u64,
    /// By name: highest nonce under which they were sent.
    pub(crate) last: u64,
    /// Under the wildcard: the part of its changes that they contained. `None` if there was no wildcard.
    pub(crate) wildcard: Option<WildcardPart>,
}

/// Resources of a wildcard that changed after one revision, and last changed at or before another
/// one. Later changes may have been in another response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WildcardPart {
    pub(crate) after: Revision,
    pub(crate) up_to: Revision,
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
            removals_from: self.removals_from.into_iter().chain(later.removals_from).min(),
            has_removals: self.has_removals || later.has_removals,
        }
    }
}

impl SentRange {
    /// Returns the location of the resources of one response, except those of a wildcard.
    pub(crate) fn of(nonce: u64) -> Self {
        Self { first: nonce, last: nonce, wildcard: None }
    }

    pub(crate) fn has(&self, position: SentPosition) -> bool {
        match position {
            SentPosition::Nonce(nonce) => (self.first..=self.last).contains(&nonce),
            SentPosition::Revision(revision) => {
                self.wildcard.is_some_and(|part| part.after < revision && revision <= part.up_to)
            }
        }
    }

    pub(crate) fn with(self, later: Self) -> Self {
        let parts = self.wildcard.into_iter().chain(later.wildcard);
        let first = self.first.min(later.first);
        Self { first, last: later.last, wildcard: parts.reduce(WildcardPart::with) }
    }
}

impl WildcardPart {
    fn with(self, other: Self) -> Self {
        Self { after: self.after.min(other.after), up_to: self.up_to.max(other.up_to) }
    }
}

impl OpenRejections {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.state, RejectionState::Accepted)
            && !self.rejects_newest
            && self.sent_again_to == Revision::START
            && self.until_changed.is_empty()
    }

    /// Adds a rejected response. `is_newest` tells whether it is the newest one.
    pub(super) fn add(&mut self, response: SentRange, new: RejectionState, is_newest: bool) {
        self.rejects_newest |= is_newest;
        if !matches!(new, RejectionState::Whole(_)) {
            self.until_changed.push_back(response);
        }
        self.state = match (mem::take(&mut self.state), new) {
            (RejectionState::Whole(earlier), RejectionState::Whole(later)) => {
                RejectionState::Whole(earlier.merge(later))
            }
            (RejectionState::SentAgain(earlier), new) => {
                self.until_changed.push_back(earlier.range);
                new
            }
            (RejectionState::Isolating(suspects), _) => RejectionState::Isolating(suspects),
            (_, new) => new,
        };
        while self.until_changed.len() > MAX_RANGES {
            let oldest = self.until_changed.pop_front();
            if let Some((oldest, next)) = oldest.zip(self.until_changed.front_mut()) {
                *next = oldest.with(*next);
            }
        }
    }

    /// Records that a response with content is sent.
    pub(crate) fn note_sent(&mut self) {
        self.rejects_newest = false;
        if matches!(self.state, RejectionState::FullState(_) | RejectionState::GivenUp) {
            self.state = RejectionState::Accepted;
        }
    }

    /// Records that the client has accepted a response with content, after which the wildcard was
    /// at a revision.
    /// `has_rest` tells whether resources by name are still to be sent again.
    pub(super) fn note_accepted(&mut self, cursor: Revision, has_rest: bool) {
        if cursor >= self.sent_again_to {
            self.sent_again_to = Revision::START;
        }
        let is_kept = match self.state {
            RejectionState::Whole(_) | RejectionState::Isolating(_) => true,
            RejectionState::SentAgain(_) => has_rest,
            _ => false,
        };
        if !is_kept {
            self.state = RejectionState::Accepted;
        }
    }

    /// Records that the rejected resources are sent again, when the wildcard is at a revision.
    pub(super) fn send_again(&mut self, cursor: Revision) {
        if let RejectionState::Whole(batch) = self.state {
            self.state = RejectionState::SentAgain(batch);
            self.sent_again_to = cursor;
        }
    }

    /// Ends the rejection of whole responses, because nothing of them is left or all of it was
    /// accepted with another response.
    pub(super) fn clear(&mut self) {
        self.rejects_newest = false;
        if !matches!(self.state, RejectionState::SentAgain(_) | RejectionState::Isolating(_)) {
            self.state = RejectionState::Accepted;
        }
    }

    /// Records that the client is moved to another view. `is_over` tells whether it is sent there
    /// what it rejected.
    pub(super) fn leave_view(&mut self, is_over: bool) {
        self.until_changed.clear();
        self.rejects_newest &= !is_over;
        self.sent_again_to = Revision::START;
        if !matches!(self.state, RejectionState::SentAgain(_) | RejectionState::FullState(_)) {
            self.state = RejectionState::Accepted;
            self.isolate(SuspectQueue::default());
        }
    }

    /// Forgets the resources that are not sent again until they change.
    pub(super) fn forget_until_changed(&mut self) {
        self.until_changed.clear();
    }

    /// Drops the ranges in which nothing is left. Returns whether any rejection is open.
    pub(super) fn review(&mut self, has_any: impl Fn(&SentRange) -> bool) -> bool {
        self.until_changed.retain(has_any);
        self.batch().is_some() || !self.until_changed.is_empty()
    }

    /// Returns the resources to be sent again with the next change.
    pub(crate) fn batch(&self) -> Option<RetryBatch> {
        match self.state {
            RejectionState::Whole(batch) => Some(batch),
            _ => None,
        }
    }

    /// Returns the revision up to which the wildcard is sent again.
    pub(super) fn sent_again_to(&self) -> Revision {
        self.sent_again_to
    }

    /// Whether the rejected resources include this one. Those that were sent again do not count.
    pub(crate) fn has(&self, position: SentPosition) -> bool {
        let batch = self.batch().map(|batch| batch.range);
        self.until_changed.iter().chain(&batch).any(|range| range.has(position))
    }

    /// Returns the location of the resources that were sent again with a change.
    pub(crate) fn sent_again(&self) -> Option<SentRange> {
        match self.state {
            RejectionState::SentAgain(batch) => Some(batch.range),
            _ => None,
        }
    }

    /// Whether a full state with this content was rejected.
    pub(super) fn has_state(&self, content: StatedVersion) -> bool {
        matches!(self.state, RejectionState::FullState(of) if of == content)
    }

    /// Returns the suspects, if rejected resources are being isolated.
    pub(super) fn suspects(&self) -> Option<&SuspectQueue> {
        match &self.state {
            RejectionState::Isolating(suspects) => Some(suspects),
            _ => None,
        }
    }

    /// Takes the suspects, which [`isolate`](Self::isolate) puts back.
    pub(super) fn take_suspects(&mut self) -> SuspectQueue {
        match mem::take(&mut self.state) {
            RejectionState::Isolating(suspects) => suspects,
            state => {
                self.state = state;
                SuspectQueue::default()
            }
        }
    }

    /// Isolates the rejected resources among these suspects, if there are any.
    pub(super) fn isolate(&mut self, suspects: SuspectQueue) {
        if !suspects.is_empty() {
            self.state = RejectionState::Isolating(suspects);
        } else if self.rejects_newest && matches!(self.state, RejectionState::Accepted) {
            self.state = RejectionState::GivenUp;
        }
    }
}

impl Session {
    /// Returns the rejected contents that the client has not accepted since, if there are any.
    pub(crate) fn rejections(&self) -> Option<&OpenRejections> {
        self.extras.as_deref().map(|extras| &extras.rejections)
    }

    /// Returns the rejected resources to be sent again with the next change.
    pub(crate) fn retry_batch(&self) -> Option<RetryBatch> {
        self.rejections()?.batch()
    }

    /// Whether the client rejected the newest response.
    pub(crate) fn is_nacked(&self) -> bool {
        self.newest.is_some_and(|sent| sent.answer == Answer::Nack)
    }

    /// Whether the client accepted the newest response, and the contents before it if that is a
    /// heartbeat.
    pub(crate) fn has_accepted_newest(&self) -> bool {
        let rejects_content = || self.rejections().is_some_and(|it| it.rejects_newest);
        self.newest.is_some_and(|sent| {
            sent.answer == Answer::Ack && (sent.purpose == Purpose::Content || !rejects_content())
        })
    }

    /// Whether the client rejected contents that were not sent again since, or not accepted then.
    pub(crate) fn is_rejected(&self) -> bool {
        self.rejections().is_some_and(|it| {
            it.rejects_newest
                || !matches!(it.state, RejectionState::Accepted | RejectionState::SentAgain(_))
        })
    }

    /// Whether the client rejected the newest content that it was sent, and nothing of it was left
    /// later, so that the rejection ended. If the same content comes back, the client lacks it.
    pub(crate) fn has_settled_newest(&self) -> bool {
        let is_content = self.newest.is_some_and(|sent| sent.purpose == Purpose::Content);
        is_content && self.is_nacked() && !self.is_rejected()
    }

    /// Whether the client does not have the newest version that it was sent. The rejection may
    /// have been cleared after all of it was removed.
    pub(crate) fn has_rejected_newest(&self) -> bool {
        !self.awaits_answer() && (self.is_rejected() || self.is_nacked())
    }
}
