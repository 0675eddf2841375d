//! Which responses are on their way to the client: the window (M113, IS16).
//!
//! Hardly ever is it more than one, which is why only the newest is in the session itself. A client answers
//! in the order in which it was sent responses, so an answer to one settles those before it.

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

/// A response of the session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) nonce: NonZeroU64,
    pub(crate) version: StatedVersion,
    /// What version its content has, however that is stated.
    pub(crate) content: StatedVersion,
    /// The wildcard cursor before it, and after.
    pub(crate) from: Stamp,
    pub(crate) to: Stamp,
    /// The newest change when it was rendered, sent or not.
    pub(crate) at: Stamp,
    /// When it was rendered or, once it was, answered.
    pub(crate) time: Time,
    /// Its alarm, until that has gone off, or it is answered.
    pub(crate) alarm: Slot,
    pub(crate) answer: Answer,
    pub(crate) purpose: Purpose,
    /// What the client said of the newest response with content: this one's answer, unless it is a
    /// heartbeat.
    pub(crate) verdict: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// None yet.
    Pending,
    /// None yet, and it should have come by now.
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
    /// Whether another response may be sent. Where types wait for each other's ACKs there is one at a
    /// time.
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

    /// Whether the client has not answered all responses.
    pub(crate) fn is_waiting(&self) -> bool {
        self.newest.is_some_and(|sent| sent.answer.is_missing())
    }

    /// Notes a response that was rendered. Of those that are overdue, no more are remembered than have room.
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

    /// The response with this nonce, if it is the newest or still to be answered.
    pub(crate) fn sent_as(&self, nonce: u64) -> Option<Sent> {
        self.earlier().chain(&self.newest).find(|sent| sent.nonce.get() == nonce).copied()
    }

    /// A response was answered; gives what the client now says of the content.
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

    /// Nothing is left of what the client rejected.
    pub(crate) fn forget_verdict(&mut self) {
        if let Some(newest) = self.newest.as_mut().filter(|it| it.verdict == Answer::Nack) {
            newest.verdict = Answer::Ack;
        }
    }

    /// The newest response has an alarm now.
    pub(crate) fn set_alarm(&mut self, alarm: Slot) {
        if let Some(newest) = &mut self.newest {
            newest.alarm = alarm;
        }
    }

    /// That response is not awaited any longer; gives its nonce.
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

    /// What the client had when it went over to everything, if it has accepted nothing since: no response after the
    /// one of the nonce `accepted`.
    pub(crate) fn entered(&self, accepted: u64) -> Option<&Entered> {
        let entered = self.rare.as_deref().and_then(|rare| rare.entered.as_ref());
        entered.filter(|entered| accepted <= entered.after)
    }

    /// Whether an incremental client is to be told what it has left with its wildcard, or with a glob.
    pub(crate) fn owes_farewell(&self) -> bool {
        self.rare.as_deref().is_some_and(|rare| !rare.farewell.is_empty())
    }

    pub(crate) fn bereft(&self) -> Option<&Bereft> {
        self.rare.as_deref().map(|rare| &rare.bereft).filter(|bereft| !bereft.names.is_empty())
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(Box::default)
    }

    /// Changes what a session hardly ever has; nothing is made for it.
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
    /// No answer is awaited any longer to the responses up to the one with this nonce.
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
