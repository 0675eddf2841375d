//! Channels: the state of one stream, from opening to closing.

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

/// State of one stream, from opening to closing.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Position of its stream slot.
    pub(crate) lane: usize,
    /// Position of its server.
    pub(crate) upstream: usize,
    pub(crate) is_open: bool,
    /// Time at which the driver was asked to open it.
    pub(crate) started: Time,
    /// Arrival time of the first well-formed response.
    // S1.005
    pub(crate) responded: Option<Time>,
    /// Time at which a failed server that sends nothing counts as recovered.
    pub(crate) trouble_ends: Option<Time>,
    /// Whether the current node has been sent.
    pub(crate) node_sent: bool,
    /// Type of the last request.
    pub(crate) last_rendered: Option<usize>,
    /// Types whose first request stated a version of held resources.
    pub(crate) stated_held: Vec<usize>,
    /// Time since which nothing has been subscribed.
    pub(crate) idle_since: Option<Time>,
    /// ACKs and NACKs in the order of the responses.
    // DX-45
    acks: VecDeque<Ack>,
    /// Whether the driver was notified of requests to send and has not polled all of them.
    pub(crate) announced: bool,
    /// First of the types that the channel carries.
    first_type: usize,
    /// One element per carried type.
    machines: Vec<Machine>,
    pub(crate) timers: DoesNotExistTimers,
    /// Responses that wait for an external verdict.
    pub(crate) reviews: Reviews,
    /// Time at which responses are ACKed.
    pub(crate) answers: AnswerTiming,
    /// Rate limit; `None` if there is none.
    pub(crate) bucket: Option<Bucket>,
    pub(crate) nack_pace: NackPace,
    pub(crate) turns: Turns,
    /// Notices that hold back reading; `None` if reading does not wait for watchers.
    pub(crate) debts: Option<Debts>,
}

/// Order of requests and responses.
#[derive(Clone, Debug, Default)]
pub(crate) enum Turns {
    /// Requests may be sent at any time.
    #[default]
    Free,
    Polled(Polls),
    OfAFile,
}

/// Maximum number of unsent ACKs before reading stops. It bounds the memory used for a server that
/// does not read.
pub(crate) const MAX_QUEUED_ACKS: usize = 8;
impl Channel {
    /// Creates a channel that is being opened; `machines` are those of the types from `first_type`
    /// on.
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

    /// Returns how the channel would end now.
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

    /// Returns the state of a type, if the channel carries it.
    pub(crate) fn machine(&self, type_index: usize) -> Option<&Machine> {
        self.machines.get(type_index.checked_sub(self.first_type)?)
    }

    /// Notes that the node has changed. A polled server gets the node with each request anyway.
    pub(crate) fn note_new_node(&mut self) {
        if matches!(self.turns, Turns::Free) {
            self.node_sent = false;
        }
    }

    pub(crate) fn machine_mut(&mut self, type_index: usize) -> Option<&mut Machine> {
        self.machines.get_mut(type_index.checked_sub(self.first_type)?)
    }

    /// Returns the carried types with their states.
    pub(crate) fn machines(&self) -> impl Iterator<Item = (usize, &Machine)> {
        (self.first_type..).zip(&self.machines)
    }

    /// Returns the next type with unsent changes, unless an ACK of it is queued, which will contain
    /// the changes; a request before that ACK would be mistaken for it. With a rate limit, types
    /// take turns, so that a type that keeps changing does not starve the others.
    pub(crate) fn next_dirty(&self, types: &[TypeState], serves: &Scopes) -> Option<usize> {
        // If the node has changed, a request of any type can send it.
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

    /// Takes the first ACK or NACK that may be sent now. Those of one type stay in order.
    pub(crate) fn take_answer(&mut self, now: Time) -> Option<Ack> {
        let at = self.answers().find(|(_, due)| *due <= now)?.0;
        let answer = self.acks.remove(at)?;
        if answer.rejection.is_some() {
            self.nack_pace.note(answer.type_index, now);
        }
        Some(answer)
    }

    /// Returns the first ACK or NACK of each type, as its position in the queue and the time at
    /// which it may be sent.
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

    /// Returns the time at which the next request may be sent, possibly in the past; `None` if
    /// there is nothing to send or another event is needed first.
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

    /// Returns whether requests wait for watchers to handle their notices.
    pub(crate) fn is_applying(&self) -> bool {
        let has_debts = self.debts.as_ref().is_some_and(|debts| debts.open > 0);
        self.answers == AnswerTiming::AfterNotices && has_debts
    }

    /// Returns the time at which the first NACK that is delayed at `now` may be sent.
    pub(crate) fn next_held_nack(&self, now: Time) -> Option<Time> {
        self.answers().map(|(_, due)| due).filter(|due| *due > now).min()
    }

    /// Returns whether the next response may be read.
    // B52
    pub(crate) fn wants_read(&self, now: Time) -> bool {
        self.can_judge() && self.next_held_nack(now).is_none()
    }

    /// Returns whether a response could be processed, regardless of when its ACK may be sent.
    fn can_judge(&self) -> bool {
        self.is_open
            && self.acks.len() < MAX_QUEUED_ACKS
            && !self.reviews.is_open()
            && self.debts.as_ref().is_none_or(|debts| debts.open == 0)
    }

    /// Runs the does-not-exist timers while responses can be processed. They also run while NACKs
    /// are delayed, which the server controls and must not use to postpone the timers forever.
    pub(crate) fn settle_timers(&mut self, now: Time) {
        match self.can_judge() {
            true => self.timers.resume(now),
            false => self.timers.pause(now),
        }
    }
}
