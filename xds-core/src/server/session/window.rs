//! Window of unanswered responses of a session.
//!
//! The window rarely holds more than one response, so only the newest is stored in the session
//! itself. A client answers responses in order, so an answer to one settles all earlier ones.
// M113, IS16

use alloc::boxed::Box;
use core::num::NonZeroU64;

use super::{
    Purpose, Revision, SendOrder, Session,
    context::SessionContext,
    extras::{BeforeWildcard, ResourcesWithoutSubscription, SessionExtras},
    name_usage::NameUnits,
};
use crate::{
    server::{
        config::AnswerOverdue,
        queue::timer_queue::Alarms,
        store::{arena::Arena, version::content::StatedVersion},
    },
    slab::Slot,
    text::Nonce,
    time::Time,
    wire::request::Parameters,
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

    /// Records a rendered response. At most a window of earlier unanswered responses is kept.
    pub(crate) fn record_sent(&mut self, sent: Sent, arena: &Arena) {
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

    /// Records the answer to a response.
    pub(crate) fn record_answer(&mut self, sent: Sent, answer: Answer, now: Time) {
        let nonce = sent.nonce;
        if let Some(newest) = self.newest.as_mut().filter(|newest| newest.nonce == nonce) {
            (newest.answer, newest.time, newest.timer) = (answer, now, Slot::NONE);
        }
        if let Some(extras) = self.extras.as_deref_mut() {
            extras.earlier.retain(|sent| sent.nonce > nonce);
            self.drop_empty_extras();
        }
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

    /// Returns the resources that the client had when it subscribed to the wildcard, unless it
    /// has accepted a response since. `accepted` is the nonce of the last accepted response.
    pub(crate) fn before_wildcard(&self, accepted: u64) -> Option<&BeforeWildcard> {
        let before_wildcard =
            self.extras.as_deref().and_then(|extras| extras.before_wildcard.as_ref());
        before_wildcard.filter(|before_wildcard| accepted <= before_wildcard.after)
    }

    /// Whether removals are due to an incremental client that left its wildcard or a glob.
    pub(crate) fn has_unsubscribe_removals(&self) -> bool {
        self.extras.as_deref().is_some_and(|extras| !extras.unsubscribe_removals.is_empty())
    }

    pub(crate) fn without_subscription(&self) -> Option<&ResourcesWithoutSubscription> {
        self.extras
            .as_deref()
            .map(|extras| &extras.without_subscription)
            .filter(|without_subscription| !without_subscription.names.is_empty())
    }

    pub(crate) fn extras_mut(&mut self) -> &mut SessionExtras {
        self.extras.get_or_insert_with(Box::default)
    }

    /// Applies a change to the rarely needed state, if there is any.
    pub(crate) fn update_extras(&mut self, change: impl FnOnce(&mut SessionExtras)) {
        if let Some(extras) = self.extras.as_deref_mut() {
            change(extras);
            self.drop_empty_extras();
        }
    }

    pub(crate) fn drop_empty_extras(&mut self) {
        if self.extras.as_deref().is_some_and(SessionExtras::is_empty) {
            self.extras = None;
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

impl SessionExtras {
    fn is_empty(&self) -> bool {
        self.earlier.is_empty()
            && self.rejections.is_empty()
            && self.contents.is_empty()
            && self.implicit_subscriptions.is_empty()
            && self.too_long.is_empty()
            && self.unsubscribe_removals.is_empty()
            && self.without_subscription.names.is_empty()
            && self.partial_removals.is_none()
            && self.deferred_removals == 0
            && self.acked.is_empty()
            && self.grace_periods.is_empty()
            && self.first_response_hold.is_none()
            && self.before_wildcard.is_none()
            && self.wildcard_since == Revision::START
            && self.due_globs.globs.is_empty()
            && self.sent_clusters.is_none()
            && self.parameters == Parameters::None
            && self.surplus == NameUnits::default()
            && self.texts.is_empty()
    }
}
