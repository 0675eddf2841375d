//! Window of unanswered responses of a session.
//!
//! The window rarely holds more than one response, so only the newest is stored in the session
//! itself. A client answers responses in order, so an answer to one settles all earlier ones.
// M113, IS16

use alloc::boxed::Box;
use core::num::NonZeroU64;

use super::{
    Purpose, Session, Staging, Stamp,
    context::Turn,
    extras::{Bereft, Entered, Lacks, Rare, Suspects},
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
    pub(crate) from: Stamp,
    pub(crate) to: Stamp,
    /// Newest revision when it was rendered, whether or not the response includes that change.
    pub(crate) at: Stamp,
    /// Time at which it was answered, or rendered if it is unanswered.
    pub(crate) time: Time,
    /// Timer for a missing answer, until it has fired or the answer arrives.
    pub(crate) alarm: Slot,
    pub(crate) answer: Answer,
    pub(crate) purpose: Purpose,
    /// Answer to the newest response with content. For a response that is not a heartbeat, this
    /// is its own answer.
    pub(crate) verdict: Answer,
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
        let window = match self.staging {
            Staging::Free | Staging::Reversed => usize::from(arena.config.window.get()),
            Staging::Staged | Staging::Lingering(_) => 1,
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
    pub(crate) fn is_waiting(&self) -> bool {
        self.newest.is_some_and(|sent| sent.answer.is_missing())
    }

    /// Records a rendered response. At most a window of earlier unanswered responses is kept.
    pub(crate) fn put_on_way(&mut self, sent: Sent, arena: &Arena) {
        self.with_rare(|rare| rare.lacks = Lacks::Resources);
        let before = self.newest.replace(sent);
        let Some(before) = before.filter(|before| before.answer.is_missing()) else { return };
        let earlier = &mut self.rare_mut().earlier;
        earlier.push_back(before);
        if earlier.len() > usize::from(arena.config.window.get()) {
            earlier.pop_front();
        }
    }

    /// Returns the response with this nonce, if it is the newest or an unanswered one.
    pub(crate) fn sent_as(&self, nonce: u64) -> Option<Sent> {
        self.earlier().chain(&self.newest).find(|sent| sent.nonce.get() == nonce).copied()
    }

    /// Records the answer to a response. Returns the resulting answer to the content.
    pub(crate) fn settle(&mut self, sent: Sent, answer: Answer, now: Time) -> Answer {
        let nonce = sent.nonce;
        let verdict = match sent.purpose {
            Purpose::Content => answer,
            Purpose::Heartbeat => sent.verdict,
        };
        if let Some(newest) = self.newest.as_mut().filter(|newest| newest.nonce == nonce) {
            (newest.answer, newest.verdict, newest.time) = (answer, verdict, now);
            newest.alarm = Slot::NONE;
        }
        if let Some(rare) = self.rare.as_deref_mut() {
            rare.earlier.retain(|sent| sent.nonce > nonce);
            self.tidy();
        }
        verdict
    }

    /// Ends the rejected state, because nothing that the client rejected is left.
    pub(crate) fn forget_verdict(&mut self) {
        if let Some(newest) = self.newest.as_mut().filter(|it| it.verdict == Answer::Nack) {
            newest.verdict = Answer::Ack;
        }
    }

    /// Sets the timer of the newest response.
    pub(crate) fn set_alarm(&mut self, alarm: Slot) {
        if let Some(newest) = &mut self.newest {
            newest.alarm = alarm;
        }
    }

    /// Marks the oldest pending response as overdue. Returns its nonce.
    pub(crate) fn give_up_awaiting(&mut self) -> Option<Nonce> {
        let earlier = self.rare.as_deref_mut().map(|rare| &mut rare.earlier);
        let mut all = earlier.into_iter().flatten().chain(&mut self.newest);
        let sent = all.find(|sent| sent.answer == Answer::Pending)?;
        (sent.answer, sent.alarm) = (Answer::Overdue, Slot::NONE);
        Some(super::request::ack::nonce_of(sent.nonce))
    }

    fn earlier(&self) -> impl Iterator<Item = &Sent> {
        self.rare.iter().flat_map(|rare| &rare.earlier)
    }

    pub(crate) fn suspects(&self) -> Option<Suspects> {
        self.rare.as_deref()?.suspects
    }

    /// Returns the resources that the client had when it subscribed to the wildcard, unless it
    /// has accepted a response since. `accepted` is the nonce of the last accepted response.
    pub(crate) fn entered(&self, accepted: u64) -> Option<&Entered> {
        let entered = self.rare.as_deref().and_then(|rare| rare.entered.as_ref());
        entered.filter(|entered| accepted <= entered.after)
    }

    /// Whether removals are due to an incremental client that left its wildcard or a glob.
    pub(crate) fn owes_farewell(&self) -> bool {
        self.rare.as_deref().is_some_and(|rare| !rare.farewell.is_empty())
    }

    pub(crate) fn bereft(&self) -> Option<&Bereft> {
        self.rare.as_deref().map(|rare| &rare.bereft).filter(|bereft| !bereft.names.is_empty())
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(Box::default)
    }

    /// Applies a change to the rarely needed state, if there is any.
    pub(crate) fn with_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        if let Some(rare) = self.rare.as_deref_mut() {
            change(rare);
            self.tidy();
        }
    }

    pub(crate) fn tidy(&mut self) {
        if self.rare.as_deref().is_some_and(Rare::is_empty) {
            self.rare = None;
        }
    }
}

impl Turn<'_> {
    /// Cancels the timers of all responses up to the one with this nonce.
    pub(crate) fn stop_awaiting(&self, nonce: NonZeroU64, alarms: &mut Alarms) {
        let Some(within) = self.arena.config.answer_overdue.after() else { return };
        let sent = self.session.earlier().chain(&self.session.newest);
        for sent in sent.filter(|sent| sent.nonce <= nonce && !sent.alarm.is_none()) {
            alarms.stop_awaiting(sent.alarm, within);
        }
    }
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.earlier.is_empty()
            && self.suspects.is_none()
            && self.lacks == Lacks::Resources
            && self.apart.is_empty()
            && self.too_long.is_empty()
            && self.farewell.is_empty()
            && self.bereft.names.is_empty()
            && self.telling.is_none()
            && self.lingering == 0
            && self.brought.is_empty()
            && self.had.is_none()
            && self.graces.is_empty()
            && self.first_hold.is_none()
            && self.entered.is_none()
            && self.began == Stamp::START
            && self.rejected_state.is_none()
            && self.isolation.is_none()
            && self.owed_globs.globs.is_empty()
            && self.parameters == Parameters::None
            && self.texts.is_empty()
    }
}
