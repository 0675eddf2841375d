//! How far a client is with what changed, in numbers of transactions (IS29).
//!
//! A session keeps the oldest change that its client has not been sent, and the oldest one in what is on
//! its way. Everything before both the client has accepted, or it does not concern it. A client that is
//! up to date has neither, so that most sessions keep nothing.

use alloc::{boxed::Box, sync::Arc};
use core::num::NonZeroU64;

use super::{
    Sends, Session,
    window::{Answer, Sent},
};
use crate::server::store::{arena::Arena, revision::Stamp};

/// Later than every change: there is none.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a session keeps while its client is not up to date.
#[derive(Clone, Debug)]
pub(crate) struct Behind {
    /// The oldest change that is due.
    unsent: u64,
    /// The oldest change on its way.
    unanswered: u64,
    /// What was accepted before the newest response.
    accepted: Option<Accepted>,
    /// What it last rejected a response for, until it accepts one.
    error: Option<Arc<str>>,
    /// The number of the newest response that told it that something it had is gone; zero if none did.
    deleting: u64,
}

/// The response that a client accepted last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) nonce: NonZeroU64,
    /// Up to where the client then had what the wildcard covers.
    pub(crate) to: Stamp,
    /// The newest change when it was rendered.
    pub(crate) at: Stamp,
}

impl Behind {
    const NOTHING: Self =
        Self { unsent: NEVER, unanswered: NEVER, accepted: None, error: None, deleting: 0 };
}

impl Session {
    /// A transaction of the number `change`, or something since it, may have made something due.
    pub(crate) fn note_due(&mut self, arena: &Arena, change: u64) {
        if self.lacks_something(arena) {
            let behind = self.behind_mut();
            behind.unsent = behind.unsent.min(change);
        } else if let Some(behind) = &mut self.behind {
            behind.unsent = NEVER;
            self.note_up_to_date();
        }
    }

    /// A response is about to become the newest one, with everything that is due or a part of it.
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

    /// That response tells that something is gone.
    pub(crate) fn note_deleting(&mut self, nonce: NonZeroU64) {
        self.behind_mut().deleting = nonce.get();
    }

    /// Whether the client was told that something is gone since it last accepted a response.
    pub(crate) fn may_have_what_is_gone(&self, accepted: Option<Accepted>) -> bool {
        let deleting = self.behind.as_deref().map_or(0, |behind| behind.deleting);
        deleting > accepted.map_or(0, |accepted| accepted.nonce.get())
    }

    /// A response was answered; gives the oldest change that was in it.
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

    /// The client has answered every change before this one, or it does not concern it.
    pub(crate) fn answered_before(&self, arena: &Arena) -> u64 {
        let lacks = self.lacks_something(arena);
        match &self.behind {
            // Due for a reason that nobody told: nothing is known.
            None if lacks => 0,
            None => NEVER,
            Some(behind) if lacks && behind.unsent == NEVER => 0,
            Some(behind) => behind.unanswered.min(behind.unsent),
        }
    }

    /// The response that the client accepted last; `reached` is how far the wildcard has been sent.
    pub(crate) fn accepted_response(&self, arena: &Arena, reached: Stamp) -> Option<Accepted> {
        match self.newest {
            Some(Sent { answer: Answer::Ack, verdict: Answer::Ack, nonce, at, .. }) => {
                let to = if self.sends(arena) == Sends::FullState { at } else { reached };
                Some(Accepted { nonce, to, at })
            }
            _ => self.behind.as_deref().and_then(|behind| behind.accepted),
        }
    }

    /// What the client last rejected a response for, until it accepts one.
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

    /// How far the wildcard has been sent, if there is one.
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
