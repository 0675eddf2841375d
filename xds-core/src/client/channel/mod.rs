//! One incarnation of a transport, and what was said on it.

pub(crate) mod accepted;
pub(crate) mod ack;
pub(crate) mod crossed_unsubscribes;
pub(crate) mod delta;
pub(crate) mod end;
pub(crate) mod pending_verdicts;
pub(crate) mod polling;
pub(crate) mod rate_limit;
pub(crate) mod request;
pub(crate) mod requested;
pub(crate) mod sent_names;
pub(crate) mod settlement;
pub(crate) mod sotw;
pub(crate) mod type_state;

use alloc::{collections::VecDeque, vec::Vec};

use self::{
    ack::Ack,
    end::End,
    pending_verdicts::Reviews,
    polling::Polls,
    rate_limit::{Bucket, NackPace},
    type_state::Machine,
};
use super::{
    config::{backoff::BackoffPolicy, profile::AnswerTiming},
    subscription::{
        does_not_exist_timers::DoesNotExistTimers, registered_type::TypeState, scope::Scopes,
    },
    watch::Debts,
};
use crate::time::Time;

/// One incarnation of a transport.
#[derive(Debug)]
pub(crate) struct Channel {
    /// The position of its lane.
    pub(crate) lane: usize,
    /// The position of its server.
    pub(crate) upstream: usize,
    pub(crate) is_open: bool,
    /// When the driver was told to open it.
    pub(crate) started: Time,
    /// When the first sound response arrived (S1.005).
    pub(crate) responded: Option<Time>,
    /// When a server that was in trouble, and says nothing, is well again.
    pub(crate) trouble_ends: Option<Time>,
    /// Whether the server was told who the client is now.
    pub(crate) node_sent: bool,
    /// The type of the last request.
    pub(crate) last_rendered: Option<usize>,
    /// The types of which a request has stated that something was held before.
    pub(crate) stated_held: Vec<usize>,
    /// Since when nothing has been subscribed.
    pub(crate) idle_since: Option<Time>,
    /// ACKs and NACKs in the order in which the responses arrived (DX-45).
    acks: VecDeque<Ack>,
    /// Whether the driver was told that there is something to send and has not sent it all.
    pub(crate) announced: bool,
    /// The first of the types that the channel carries.
    first_type: usize,
    /// One per carried type.
    machines: Vec<Machine>,
    pub(crate) timers: DoesNotExistTimers,
    /// Responses that wait for a verdict from outside.
    pub(crate) reviews: Reviews,
    /// When responses are answered.
    pub(crate) answers: AnswerTiming,
    /// `None` where requests may go as fast as they come.
    pub(crate) bucket: Option<Bucket>,
    pub(crate) nack_pace: NackPace,
    pub(crate) turns: Turns,
    /// `None` where reading does not wait for watchers.
    pub(crate) debts: Option<Debts>,
}

/// How requests and responses follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) enum Turns {
    /// As they please.
    #[default]
    Free,
    Polled(Polls),
    OfAFile,
}

/// How many unsent answers stop reading: a server that does not read must not fill our memory.
pub(crate) const MAX_QUEUED_ACKS: usize = 8;
impl Channel {
    /// A channel that is on its way; `machines` are those of the types from `first_type` on.
    pub(crate) fn new(
        (lane, upstream): (usize, usize),
        (first_type, machines): (usize, Vec<Machine>),
        now: Time,
    ) -> Self {
        Self {
            lane,
            upstream,
            is_open: false,
            started: now,
            responded: None,
            trouble_ends: None,
            node_sent: false,
            last_rendered: None,
            stated_held: Vec::new(),
            idle_since: None,
            acks: VecDeque::new(),
            announced: false,
            first_type,
            machines,
            timers: DoesNotExistTimers::default(),
            reviews: Reviews::default(),
            answers: AnswerTiming::OnJudgement,
            bucket: None,
            nack_pace: NackPace::default(),
            turns: Turns::default(),
            debts: None,
        }
    }

    /// How it has gone, if it ends now.
    pub(crate) fn end(&self, policy: &BackoffPolicy, now: Time) -> End {
        match self.responded {
            _ if !self.is_open => End::Unconnected,
            Some(responded) if now.since(responded) >= policy.young => End::Served,
            Some(_) | None => End::Early,
        }
    }

    pub(crate) fn polls(&self) -> Option<&Polls> {
        match &self.turns {
            Turns::Polled(polls) => Some(polls),
            Turns::Free | Turns::OfAFile => None,
        }
    }

    pub(crate) fn polls_mut(&mut self) -> Option<&mut Polls> {
        match &mut self.turns {
            Turns::Polled(polls) => Some(polls),
            Turns::Free | Turns::OfAFile => None,
        }
    }

    /// What was said of a type on the channel, if the channel carries it.
    pub(crate) fn machine(&self, type_index: usize) -> Option<&Machine> {
        self.machines.get(type_index.checked_sub(self.first_type)?)
    }

    /// The client is somebody else now. Who is polled hears of it soon enough.
    pub(crate) fn note_new_node(&mut self) {
        if matches!(self.turns, Turns::Free) {
            self.node_sent = false;
        }
    }

    pub(crate) fn machine_mut(&mut self, type_index: usize) -> Option<&mut Machine> {
        self.machines.get_mut(type_index.checked_sub(self.first_type)?)
    }

    /// The carried types with what was said of them.
    pub(crate) fn machines(&self) -> impl Iterator<Item = (usize, &Machine)> {
        (self.first_type..).zip(&self.machines)
    }

    /// The first type of which a request would say something that the server does not know, unless an answer of
    /// the type is queued, which says that as well: a request before it would pass for an ACK. Where requests have to
    /// wait for one another, types take turns: one that keeps changing must not keep the others from being asked for.
    pub(crate) fn next_dirty(&self, types: &[TypeState], serves: &Scopes) -> Option<usize> {
        // The node is another one than was said: any type may tell, and one of them does.
        let is_answered =
            |type_index: usize| self.acks.iter().any(|answer| answer.type_index == type_index);
        if !self.node_sent
            && self.last_rendered.is_some()
            && let Some((type_index, _)) =
                self.machines().find(|(at, it)| it.was_requested() && !is_answered(*at))
        {
            return Some(type_index);
        }
        let is_dirty = |(type_index, machine): &(usize, &Machine)| {
            let scope = serves.of(*type_index);
            let known = types.get(*type_index);
            known.is_some_and(|known| machine.is_dirty(&known.interest, scope))
                && !is_answered(*type_index)
        };
        let begin = match &self.bucket {
            Some(_) => self.last_rendered.map_or(0, |last| last + 1),
            None => 0,
        };
        let from = self.machines().filter(|(at, _)| *at >= begin);
        let before = self.machines().filter(|(at, _)| *at < begin);
        from.chain(before).find(is_dirty).map(|(type_index, _)| type_index)
    }

    pub(crate) fn has_answers(&self) -> bool {
        !self.acks.is_empty()
    }

    pub(crate) fn queue_answer(&mut self, answer: Ack) {
        self.acks.push_back(answer);
    }

    /// The first answer that may be sent now. Those to responses of one type keep their order.
    pub(crate) fn take_answer(&mut self, now: Time) -> Option<Ack> {
        let at = self.answers().find(|(_, due)| *due <= now)?.0;
        let answer = self.acks.remove(at)?;
        if answer.rejection.is_some() {
            self.nack_pace.note(answer.type_index, now);
        }
        Some(answer)
    }

    /// For each type the first answer, by its place in the queue, and when it may be sent.
    fn answers(&self) -> impl Iterator<Item = (usize, Time)> {
        let answers = self.acks.iter().enumerate().filter(|(at, answer)| {
            let mut earlier = self.acks.iter().take(*at);
            earlier.all(|other| other.type_index != answer.type_index)
        });
        answers.map(|(at, answer)| match answer.rejection {
            Some(_) => (at, self.nack_pace.next(answer.type_index)),
            None => (at, Time::ZERO),
        })
    }

    /// When the next request may be sent, which may be in the past; `None` if there is nothing to say, or
    /// something else has to happen first.
    pub(crate) fn next_request(&self, types: &[TypeState], serves: &Scopes) -> Option<Time> {
        let due = match &self.turns {
            _ if self.is_applying() => return None,
            Turns::Polled(polls) => self.next_poll(polls, types, serves)?,
            Turns::Free | Turns::OfAFile => {
                let answer = self.answers().map(|(_, due)| due).min();
                match answer.filter(|due| *due == Time::ZERO) {
                    Some(due) => due,
                    None if self.next_dirty(types, serves).is_some() => Time::ZERO,
                    None => answer?,
                }
            }
        };
        Some(self.bucket.map_or(due, |bucket| due.max(bucket.next())))
    }

    /// Whether requests wait for watchers.
    pub(crate) fn is_applying(&self) -> bool {
        let has_debts = self.debts.as_ref().is_some_and(|debts| debts.open > 0);
        self.answers == AnswerTiming::AfterNotices && has_debts
    }

    /// When the first NACK may be sent that is held at `now`.
    pub(crate) fn next_held_nack(&self, now: Time) -> Option<Time> {
        self.answers().map(|(_, due)| due).filter(|due| *due > now).min()
    }

    /// Whether the next response may be read (B52).
    pub(crate) fn wants_read(&self, now: Time) -> bool {
        self.can_judge() && self.next_held_nack(now).is_none()
    }

    /// Whether a response could be judged, however fast its answer may be sent.
    fn can_judge(&self) -> bool {
        self.is_open
            && self.acks.len() < MAX_QUEUED_ACKS
            && !self.reviews.is_open()
            && self.debts.as_ref().is_none_or(|debts| debts.open == 0)
    }

    /// Lets the does-not-exist timers run while responses can be judged. They run while NACKs are held: a server
    /// decides how often that is, and must not put off the timers for ever.
    pub(crate) fn settle_timers(&mut self, now: Time) {
        match self.can_judge() {
            true => self.timers.resume(now),
            false => self.timers.pause(now),
        }
    }
}
