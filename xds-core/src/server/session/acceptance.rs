//! Acceptance of changes by the client of a session, in transaction numbers.
//!
//! A session stores the oldest change that its client has not been sent and the oldest one in an
//! unanswered response. The client has accepted everything before both, or it is not concerned.
//! An up-to-date client has neither, so most sessions store nothing.
// IS29

use alloc::{boxed::Box, sync::Arc};
use core::num::NonZeroU64;

use super::{
    Sends, Session,
    window::{Answer, Sent},
};
use crate::server::store::{arena::Arena, revision::Stamp};

/// Number greater than that of every transaction, used if there is no change.
pub(crate) const NEVER: u64 = u64::MAX;

/// State of a session whose client is not up to date.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// Oldest change that is due.
    unsent: u64,
    /// Oldest change in an unanswered response.
    unanswered: u64,
    /// Response accepted before the newest response was sent.
    accepted: Option<Accepted>,
    /// Error message of the last NACK, until the client ACKs a response.
    error: Option<Arc<str>>,
    /// Nonce of the newest response with a removal of something that the client had; 0 if there
    /// is none.
    deleting: u64,
}

/// Last response that a client ACKed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) nonce: NonZeroU64,
    /// Revision up to which the client then had the resources that the wildcard covers.
    pub(crate) to: Stamp,
    /// Newest revision when the response was rendered.
    pub(crate) at: Stamp,
}

impl Behind {
    const NOTHING: Self =
        Self { unsent: NEVER, unanswered: NEVER, accepted: None, error: None, deleting: 0 };
}

impl Session {
    /// Records that transaction `change`, or something after it, may have made a resource due.
    pub(crate) fn note_due(&mut self, arena: &Arena, change: u64) {
        if self.lacks_something(arena) {
            let behind = self.behind_mut();
            behind.unsent = behind.unsent.min(change);
        } else if let Some(behind) = &mut self.behind {
            behind.unsent = NEVER;
            self.note_up_to_date();
        }
    }

    /// Records that a response with some or all of the due changes is about to become the newest
    /// one.
    pub(crate) fn note_sent(&mut self, arena: &Arena, reached: Stamp) {
        let replaced = self.accepted_response(arena, reached);
        let rest = self.lacks_something(arena);
        let behind = self.behind_mut();
        behind.accepted = replaced;
        behind.unanswered = behind.unanswered.min(behind.unsent);
        if !rest {
            behind.unsent = NEVER;
        }
    }

    /// Records that the response contains a removal.
    pub(crate) fn note_deleting(&mut self, nonce: NonZeroU64) {
        self.behind_mut().deleting = nonce.get();
    }

    /// Whether the client was sent a removal since it last accepted a response.
    pub(crate) fn may_have_what_is_gone(&self, accepted: Option<Accepted>) -> bool {
        let deleting = self.behind.as_deref().map_or(0, |behind| behind.deleting);
        deleting > accepted.map_or(0, |accepted| accepted.nonce.get())
    }

    /// Records the answer to a response. Returns the oldest change that was in it.
    pub(crate) fn note_answered(&mut self) -> u64 {
        let is_waiting = self.is_waiting();
        let Some(behind) = &mut self.behind else { return NEVER };
        let oldest = behind.unanswered;
        if !is_waiting {
            behind.unanswered = NEVER;
        }
        self.note_up_to_date();
        oldest
    }

    /// Returns the number before which every change was answered by the client or does not
    /// concern it.
    pub(crate) fn answered_before(&self, arena: &Arena) -> u64 {
        let lacks = self.lacks_something(arena);
        match &self.behind {
            // Due for a reason without a recorded change, so nothing is known.
            None if lacks => 0,
            None => NEVER,
            Some(behind) if lacks && behind.unsent == NEVER => 0,
            Some(behind) => behind.unanswered.min(behind.unsent),
        }
    }

    /// Returns the last response that the client accepted. `reached` is how far the wildcard was
    /// sent.
    pub(crate) fn accepted_response(&self, arena: &Arena, reached: Stamp) -> Option<Accepted> {
        match self.newest {
            Some(Sent { answer: Answer::Ack, verdict: Answer::Ack, nonce, at, .. }) => {
                let to = if self.sends(arena) == Sends::FullState { at } else { reached };
                Some(Accepted { nonce, to, at })
            }
            _ => self.behind.as_deref().and_then(|behind| behind.accepted),
        }
    }

    /// Error message of the last NACK, until the client ACKs a response.
    pub(crate) fn last_error(&self) -> Option<&Arc<str>> {
        self.behind.as_deref()?.error.as_ref()
    }

    pub(crate) fn keep_error(&mut self, message: Arc<str>) {
        self.behind_mut().error = Some(message);
    }

    pub(crate) fn forget_error(&mut self) {
        if let Some(behind) = &mut self.behind {
            behind.error = None;
        }
    }

    /// Returns the revision up to which the wildcard has been sent, if there is one.
    pub(crate) fn reached(&self) -> Stamp {
        self.wildcard.map_or(Stamp::START, |wildcard| wildcard.reached)
    }

    fn behind_mut(&mut self) -> &mut Behind {
        self.behind.get_or_insert_with(|| Box::new(Behind::NOTHING))
    }

    fn note_up_to_date(&mut self) {
        let is_accepted = self
            .newest
            .is_none_or(|sent| sent.answer == Answer::Ack && sent.verdict == Answer::Ack);
        let is_done =
            |behind: &Behind| behind.unsent == NEVER && behind.unanswered == NEVER && is_accepted;
        if self.behind.as_deref().is_some_and(is_done) {
            self.behind = None;
        }
    }
}
