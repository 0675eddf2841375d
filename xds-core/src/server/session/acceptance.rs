//! Acceptance of changes by the client of a session, in transaction numbers.
//!
//! A session stores the oldest change that its client has not been sent and the oldest one in an
//! unanswered response. Every earlier change was accepted by the client, or does not affect its
//! subscriptions.
//! An up-to-date client has neither, so most sessions store nothing.
// IS29

use alloc::{boxed::Box, sync::Arc};
use core::num::NonZeroU64;

use super::{ResponseMode, Session, window::Sent};
use crate::server::store::{arena::Arena, revision::Revision};

/// Number greater than that of every transaction, used if there is no change.
pub(crate) const NEVER: u64 = u64::MAX;

/// State of a session whose client is not up to date.
#[derive(Clone, Debug)]
pub(crate) struct UnacceptedChanges {
    /// Oldest change that is due.
    unsent: u64,
    /// Oldest change in an unanswered response.
    unanswered: u64,
    /// Response accepted before the newest response was sent.
    accepted: Option<AcceptedResponse>,
    /// Error message of the last NACK, until the client ACKs a response.
    error: Option<Arc<str>>,
    /// Nonce of the newest response with a removal of something that the client had; 0 if there
    /// is none.
    last_removal: u64,
}

/// Last response that a client ACKed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptedResponse {
    pub(crate) nonce: NonZeroU64,
    /// Revision up to which the client then had the resources that the wildcard covers.
    pub(crate) to: Revision,
    /// Newest revision when the response was rendered.
    pub(crate) at: Revision,
}

impl UnacceptedChanges {
    const NOTHING: Self =
        Self { unsent: NEVER, unanswered: NEVER, accepted: None, error: None, last_removal: 0 };
}

impl Session {
    /// Records that transaction `change`, or something after it, may have made a resource due.
    pub(crate) fn note_due(&mut self, arena: &Arena, change: u64) {
        if self.has_pending_content(arena) {
            let unaccepted = self.unaccepted_mut();
            unaccepted.unsent = unaccepted.unsent.min(change);
        } else if let Some(unaccepted) = &mut self.unaccepted {
            unaccepted.unsent = NEVER;
            self.note_up_to_date();
        }
    }

    /// Records that a response with some or all of the due changes is about to become the newest
    /// one.
    pub(crate) fn note_sent(&mut self, arena: &Arena, reached: Revision) {
        let replaced = self.accepted_response(arena, reached);
        let rest = self.has_pending_content(arena);
        let unaccepted = self.unaccepted_mut();
        unaccepted.accepted = replaced;
        unaccepted.unanswered = unaccepted.unanswered.min(unaccepted.unsent);
        if !rest {
            unaccepted.unsent = NEVER;
        }
    }

    /// Records that the response contains a removal.
    pub(crate) fn note_removal_sent(&mut self, nonce: NonZeroU64) {
        self.unaccepted_mut().last_removal = nonce.get();
    }

    /// Whether the client was sent a removal since it last accepted a response.
    pub(crate) fn may_have_removed_resources(&self, accepted: Option<AcceptedResponse>) -> bool {
        let last_removal =
            self.unaccepted.as_deref().map_or(0, |unaccepted| unaccepted.last_removal);
        last_removal > accepted.map_or(0, |accepted| accepted.nonce.get())
    }

    /// Records the answer to a response. Returns the oldest change that was in it.
    pub(crate) fn note_answered(&mut self) -> u64 {
        let awaits_answer = self.awaits_answer();
        let Some(unaccepted) = &mut self.unaccepted else { return NEVER };
        let oldest = unaccepted.unanswered;
        if !awaits_answer {
            unaccepted.unanswered = NEVER;
        }
        self.note_up_to_date();
        oldest
    }

    /// Returns the number before which every change was answered by the client or does not
    /// concern it.
    pub(crate) fn answered_before(&self, arena: &Arena) -> u64 {
        let rejected_data = self.has_pending_content(arena);
        match &self.unaccepted {
            // Due for a reason without a recorded change, so nothing is known.
            None if rejected_data => 0,
            None => NEVER,
            Some(unaccepted) if rejected_data && unaccepted.unsent == NEVER => 0,
            Some(unaccepted) => unaccepted.unanswered.min(unaccepted.unsent),
        }
    }

    /// Returns the last response that the client accepted. `reached` is how far the wildcard was
    /// sent.
    pub(crate) fn accepted_response(
        &self,
        arena: &Arena,
        reached: Revision,
    ) -> Option<AcceptedResponse> {
        match self.newest {
            Some(Sent { nonce, at, .. }) if self.has_accepted_newest() => {
                let to =
                    if self.response_mode(arena) == ResponseMode::FullState { at } else { reached };
                Some(AcceptedResponse { nonce, to, at })
            }
            _ => self.unaccepted.as_deref().and_then(|unaccepted| unaccepted.accepted),
        }
    }

    /// Error message of the last NACK, until the client ACKs a response.
    pub(crate) fn last_error(&self) -> Option<&Arc<str>> {
        self.unaccepted.as_deref()?.error.as_ref()
    }

    pub(crate) fn keep_error(&mut self, message: Arc<str>) {
        self.unaccepted_mut().error = Some(message);
    }

    pub(crate) fn forget_error(&mut self) {
        if let Some(unaccepted) = &mut self.unaccepted {
            unaccepted.error = None;
        }
    }

    /// Returns the revision up to which the wildcard has been sent, if there is one.
    pub(crate) fn reached(&self) -> Revision {
        self.wildcard.map_or(Revision::START, |wildcard| wildcard.reached)
    }

    fn unaccepted_mut(&mut self) -> &mut UnacceptedChanges {
        self.unaccepted.get_or_insert_with(|| Box::new(UnacceptedChanges::NOTHING))
    }

    fn note_up_to_date(&mut self) {
        let is_accepted = self.newest.is_none() || self.has_accepted_newest();
        let is_done = |unaccepted: &UnacceptedChanges| {
            unaccepted.unsent == NEVER && unaccepted.unanswered == NEVER && is_accepted
        };
        if self.unaccepted.as_deref().is_some_and(is_done) {
            self.unaccepted = None;
        }
    }
}
