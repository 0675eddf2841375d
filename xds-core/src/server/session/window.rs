//! Responses that a session has sent, and what its client has accepted of them.
//!
//! The window rarely holds more than one unanswered response, so only the newest response is stored
//! in the session itself. A client answers responses in order, so an answer to one settles all
//! earlier ones.
//!
//! For the reports, a session also stores the oldest transaction with a change that its client has
//! not been sent, and the oldest one with a change in an unanswered response. Every earlier change
//! was accepted by the client, or does not affect its subscriptions. An up-to-date client has
//! neither, so most sessions store nothing.
// M113, IS16, IS29

use alloc::{boxed::Box, sync::Arc};
use core::num::NonZeroU64;

use super::{Purpose, ResponseMode, Revision, SendOrder, Session, context::SessionContext};
use crate::{
    server::{
        config::AnswerOverdue,
        queue::timer_queue::Alarms,
        store::{arena::Arena, version::content::StatedVersion},
    },
    slab::Slot,
    text::Nonce,
    time::Time,
};

/// Response of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) nonce: NonZeroU64,
    pub(crate) version: StatedVersion,
    /// Version of its content, however it is stated.
    pub(crate) content: StatedVersion,
    /// Wildcard cursor before the response. `to` is the cursor after it.
    pub(crate) from: Revision,
    pub(crate) to: Revision,
    /// Newest revision when it was rendered, whether or not the response includes that change.
    pub(crate) at: Revision,
    /// Time at which it was answered, or rendered if it is unanswered.
    pub(crate) time: Time,
    /// Timer for a missing answer, until it has fired or the answer arrives.
    pub(crate) timer: Slot,
    pub(crate) answer: Answer,
    pub(crate) purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No answer yet.
    Pending,
    /// No answer yet, although the time limit has passed.
    Overdue,
    Ack,
    Nack,
}

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

impl Answer {
    fn is_missing(self) -> bool {
        matches!(self, Self::Pending | Self::Overdue)
    }
}

impl Session {
    /// Whether another response may be sent. If types wait for each other's ACKs, the window is
    /// one response.
    pub(crate) fn has_room(&self, arena: &Arena) -> bool {
        let window = match self.send_order {
            SendOrder::Independent | SendOrder::RemovalsLast => {
                usize::from(arena.config.window.get())
            }
            SendOrder::MakeBeforeBreak | SendOrder::MakeBeforeBreakRemovals(_) => 1,
        };
        let holds_place = |answer: Answer| match (answer, arena.config.answer_overdue) {
            (Answer::Overdue, AnswerOverdue::OpenWindow(_)) => false,
            _ => answer.is_missing(),
        };
        let Some(newest) = self.newest else { return true };
        let earlier = self.earlier().filter(|sent| holds_place(sent.answer)).count();
        earlier + usize::from(holds_place(newest.answer)) < window
    }

    /// Whether any response is unanswered.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.newest.is_some_and(|sent| sent.answer.is_missing())
    }

    /// Returns the number in the nonce of the newest response if that is unanswered.
    pub(crate) fn unanswered_nonce(&self) -> Option<u64> {
        self.newest.filter(|sent| sent.answer.is_missing()).map(|sent| sent.nonce.get())
    }

    /// Records a rendered response. At most a window of earlier unanswered responses is kept. The
    /// wildcard had been sent up to `reached`. `removes` tells whether the response removes something
    /// that the client had.
    pub(crate) fn record_sent(
        &mut self,
        sent: Sent,
        reached: Revision,
        removes: bool,
        arena: &Arena,
    ) {
        let accepted = self.accepted_when_reached(arena, reached);
        let has_rest = self.has_pending_content(arena);
        let unaccepted = self.unaccepted_mut();
        unaccepted.accepted = accepted;
        unaccepted.unanswered = unaccepted.unanswered.min(unaccepted.unsent);
        if !has_rest {
            unaccepted.unsent = NEVER;
        }
        if removes {
            unaccepted.last_removal = sent.nonce.get();
        }
        if sent.purpose == Purpose::Content {
            self.update_extras(|extras| extras.rejections.note_sent());
        }
        let before = self.newest.replace(sent);
        let Some(before) = before.filter(|before| before.answer.is_missing()) else { return };
        let earlier = &mut self.extras_mut().earlier;
        earlier.push_back(before);
        if earlier.len() > usize::from(arena.config.window.get()) {
            earlier.pop_front();
        }
    }

    /// Returns the response with this nonce, if it is the newest or an unanswered one.
    pub(crate) fn find_sent(&self, nonce: u64) -> Option<Sent> {
        self.earlier().chain(&self.newest).find(|sent| sent.nonce.get() == nonce).copied()
    }

    /// Records the answer to a response. Returns the oldest transaction with a change in it.
    pub(crate) fn record_answer(&mut self, sent: Sent, answer: Answer, now: Time) -> u64 {
        let nonce = sent.nonce;
        if let Some(newest) = self.newest.as_mut().filter(|newest| newest.nonce == nonce) {
            (newest.answer, newest.time, newest.timer) = (answer, now, Slot::NONE);
        }
        self.update_extras(|extras| extras.earlier.retain(|sent| sent.nonce > nonce));
        let awaits_answer = self.awaits_answer();
        let Some(unaccepted) = &mut self.unaccepted else { return NEVER };
        let oldest = unaccepted.unanswered;
        if !awaits_answer {
            unaccepted.unanswered = NEVER;
        }
        self.note_up_to_date();
        oldest
    }

    /// Sets the timer of the newest response.
    pub(crate) fn set_answer_timer(&mut self, timer: Slot) {
        if let Some(newest) = &mut self.newest {
            newest.timer = timer;
        }
    }

    /// Marks the oldest pending response as overdue. Returns its nonce.
    pub(crate) fn mark_overdue(&mut self) -> Option<Nonce> {
        let earlier = self.extras.as_deref_mut().map(|extras| &mut extras.earlier);
        let mut all = earlier.into_iter().flatten().chain(&mut self.newest);
        let sent = all.find(|sent| sent.answer == Answer::Pending)?;
        (sent.answer, sent.timer) = (Answer::Overdue, Slot::NONE);
        Some(super::request::ack::nonce_of(sent.nonce))
    }

    fn earlier(&self) -> impl Iterator<Item = &Sent> {
        self.extras.iter().flat_map(|extras| &extras.earlier)
    }

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

    /// Whether the client was sent a removal since it last accepted a response.
    pub(crate) fn may_have_removed_resources(&self, accepted: Option<AcceptedResponse>) -> bool {
        let last_removal =
            self.unaccepted.as_deref().map_or(0, |unaccepted| unaccepted.last_removal);
        last_removal > accepted.map_or(0, |accepted| accepted.nonce.get())
    }

    /// Returns the number before which every change was answered by the client or does not
    /// concern it.
    pub(crate) fn answered_before(&self, arena: &Arena) -> u64 {
        let has_pending = self.has_pending_content(arena);
        match &self.unaccepted {
            // Due for a reason without a recorded change, so nothing is known.
            None if has_pending => 0,
            None => NEVER,
            Some(unaccepted) if has_pending && unaccepted.unsent == NEVER => 0,
            Some(unaccepted) => unaccepted.unanswered.min(unaccepted.unsent),
        }
    }

    /// Returns the last response that the client accepted.
    pub(crate) fn accepted_response(&self, arena: &Arena) -> Option<AcceptedResponse> {
        self.accepted_when_reached(arena, self.reached())
    }

    /// Returns the last response that the client accepted, if the wildcard was sent up to `reached`.
    fn accepted_when_reached(&self, arena: &Arena, reached: Revision) -> Option<AcceptedResponse> {
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

impl SessionContext<'_> {
    /// Cancels the timers of all responses up to the one with this nonce.
    pub(crate) fn cancel_answer_timers(&self, nonce: NonZeroU64, alarms: &mut Alarms) {
        let Some(within) = self.arena.config.answer_overdue.after() else { return };
        let sent = self.session.earlier().chain(&self.session.newest);
        for sent in sent.filter(|sent| sent.nonce <= nonce && !sent.timer.is_none()) {
            alarms.stop_awaiting(sent.timer, within);
        }
    }
}
