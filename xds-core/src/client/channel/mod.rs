//! Channels: the state of one stream, from opening to closing.

pub(crate) mod accepted_version;
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
pub(crate) mod sotw;
pub(crate) mod type_state;
pub(crate) mod verdicts;

use alloc::{collections::VecDeque, vec::Vec};

use self::{
    ack::Ack,
    end::ChannelEnd,
    pending_verdicts::PendingVerdicts,
    polling::PollState,
    rate_limit::{NackLimiter, RequestLimiter},
    type_state::TypeState,
};
use super::{
    config::{backoff::BackoffPolicy, profile::AckTiming},
    subscription::{
        does_not_exist_timers::DoesNotExistTimers, registered_type::RegisteredType, scope::Scopes,
    },
    watch::UnhandledNotices,
};
use crate::time::Time;

/// State of one stream, from opening to closing.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Position of its stream slot.
    pub(crate) stream_slot: usize,
    /// Position of its server.
    pub(crate) upstream: usize,
    pub(crate) is_open: bool,
    /// Time at which the driver was asked to open it.
    pub(crate) started: Time,
    /// Arrival time of the first well-formed response.
    // S1.005
    pub(crate) responded: Option<Time>,
    /// Time at which a failed server that sends nothing counts as recovered.
    pub(crate) recovery_due: Option<Time>,
    /// Whether the current node has been sent.
    pub(crate) node_sent: bool,
    /// Type of the last request.
    pub(crate) last_rendered: Option<usize>,
    /// Types whose first request stated a version of held resources.
    pub(crate) types_with_stated_versions: Vec<usize>,
    /// Time since which nothing has been subscribed.
    pub(crate) idle_since: Option<Time>,
    /// ACKs and NACKs in the order of the responses.
    // DX-45
    acks: VecDeque<Ack>,
    /// Whether the driver was notified of requests to send and has not polled all of them.
    pub(crate) is_writable_signalled: bool,
    /// First of the types that the channel carries.
    first_type: usize,
    /// One element per carried type.
    type_states: Vec<TypeState>,
    pub(crate) timers: DoesNotExistTimers,
    /// Responses that wait for an external verdict.
    pub(crate) pending_verdicts: PendingVerdicts,
    /// Time at which responses are ACKed.
    pub(crate) ack_timing: AckTiming,
    /// Rate limit; `None` if there is none.
    pub(crate) bucket: Option<RequestLimiter>,
    pub(crate) nack_limiter: NackLimiter,
    pub(crate) transport_state: TransportState,
    /// Notices that hold back reading; `None` if reading does not wait for watchers.
    pub(crate) unhandled: Option<UnhandledNotices>,
}

/// Order of requests and responses.
#[derive(Clone, Debug, Default)]
pub(crate) enum TransportState {
    /// Requests may be sent at any time.
    #[default]
    Stream,
    Polling(PollState),
    File,
}

/// Maximum number of unsent ACKs before reading stops. It bounds the memory used for a server that
/// does not read.
const MAX_QUEUED_ACKS: usize = 8;

/// Maximum number of unsent ACKs if the driver reads nevertheless; one more ends the channel.
const MAX_UNSENT_ACKS: usize = 64;

impl Channel {
    /// Creates a channel that is being opened; `type_states` are those of the types from `first_type`
    /// on.
    pub(crate) fn new(
        (stream_slot, upstream): (usize, usize),
        (first_type, type_states): (usize, Vec<TypeState>),
        now: Time,
    ) -> Self {
        Self {
            stream_slot,
            upstream,
            is_open: false,
            started: now,
            responded: None,
            recovery_due: None,
            node_sent: false,
            last_rendered: None,
            types_with_stated_versions: Vec::new(),
            idle_since: None,
            acks: VecDeque::new(),
            is_writable_signalled: false,
            first_type,
            type_states,
            timers: DoesNotExistTimers::default(),
            pending_verdicts: PendingVerdicts::default(),
            ack_timing: AckTiming::AfterValidation,
            bucket: None,
            nack_limiter: NackLimiter::default(),
            transport_state: TransportState::default(),
            unhandled: None,
        }
    }

    /// Returns how the channel would end now.
    pub(crate) fn end(&self, policy: &BackoffPolicy, now: Time) -> ChannelEnd {
        match self.responded {
            _ if !self.is_open => ChannelEnd::Unconnected,
            Some(responded) if now.since(responded) >= policy.min_stream_lifetime => {
                ChannelEnd::Served
            }
            Some(_) | None => ChannelEnd::Early,
        }
    }

    pub(crate) fn poll_state(&self) -> Option<&PollState> {
        match &self.transport_state {
            TransportState::Polling(poll_state) => Some(poll_state),
            TransportState::Stream | TransportState::File => None,
        }
    }

    pub(crate) fn poll_state_mut(&mut self) -> Option<&mut PollState> {
        match &mut self.transport_state {
            TransportState::Polling(poll_state) => Some(poll_state),
            TransportState::Stream | TransportState::File => None,
        }
    }

    /// Returns the state of a type, if the channel carries it.
    pub(crate) fn type_state(&self, type_index: usize) -> Option<&TypeState> {
        self.type_states.get(type_index.checked_sub(self.first_type)?)
    }

    /// Notes that the node has changed. A polled server gets the node with each request anyway.
    pub(crate) fn note_new_node(&mut self) {
        if matches!(self.transport_state, TransportState::Stream) {
            self.node_sent = false;
        }
    }

    pub(crate) fn type_state_mut(&mut self, type_index: usize) -> Option<&mut TypeState> {
        self.type_states.get_mut(type_index.checked_sub(self.first_type)?)
    }

    /// Returns the carried types with their states.
    pub(crate) fn type_states(&self) -> impl Iterator<Item = (usize, &TypeState)> {
        (self.first_type..).zip(&self.type_states)
    }

    /// Returns the next type with unsent changes, unless an ACK of it is queued, which will contain
    /// the changes; a request before that ACK would be mistaken for it. With a rate limit, types
    /// take turns, so that a type that keeps changing does not starve the others.
    pub(crate) fn next_dirty(&self, types: &[RegisteredType], scopes: &Scopes) -> Option<usize> {
        // If the node has changed, a request of any type can send it.
        let has_queued_ack =
            |type_index: usize| self.acks.iter().any(|ack| ack.type_index == type_index);
        if !self.node_sent
            && self.last_rendered.is_some()
            && let Some((type_index, _)) =
                self.type_states().find(|(at, it)| it.was_requested() && !has_queued_ack(*at))
        {
            return Some(type_index);
        }
        let is_dirty = |(type_index, type_state): &(usize, &TypeState)| {
            let scope = scopes.of(*type_index);
            let known = types.get(*type_index);
            known.is_some_and(|known| type_state.is_dirty(&known.interest, scope))
                && !has_queued_ack(*type_index)
        };
        let begin = match &self.bucket {
            Some(_) => self.last_rendered.map_or(0, |last| last + 1),
            None => 0,
        };
        let from = self.type_states().filter(|(at, _)| *at >= begin);
        let before = self.type_states().filter(|(at, _)| *at < begin);
        from.chain(before).find(is_dirty).map(|(type_index, _)| type_index)
    }

    pub(crate) fn has_queued_acks(&self) -> bool {
        !self.acks.is_empty()
    }

    /// Returns whether the driver has read so far ahead that no further response is processed.
    pub(crate) fn is_overrun(&self) -> bool {
        self.acks.len() >= MAX_UNSENT_ACKS || self.pending_verdicts.waiting.len() >= MAX_QUEUED_ACKS
    }

    pub(crate) fn queue_ack(&mut self, ack: Ack) {
        self.acks.push_back(ack);
    }

    /// Takes the first ACK or NACK that may be sent now. Those of one type stay in order.
    pub(crate) fn take_ack(&mut self, now: Time) -> Option<Ack> {
        let at = self.next_acks().find(|(_, due)| *due <= now)?.0;
        let ack = self.acks.remove(at)?;
        if ack.rejection.is_some() {
            self.nack_limiter.note(ack.type_index, now);
        }
        Some(ack)
    }

    /// Returns the first ACK or NACK of each type, as its position in the queue and the time at
    /// which it may be sent.
    fn next_acks(&self) -> impl Iterator<Item = (usize, Time)> {
        let acks = self.acks.iter().enumerate().filter(|(at, ack)| {
            let mut earlier = self.acks.iter().take(*at);
            earlier.all(|other| other.type_index != ack.type_index)
        });
        acks.map(|(at, ack)| match ack.rejection {
            Some(_) => (at, self.nack_limiter.next(ack.type_index)),
            None => (at, Time::ZERO),
        })
    }

    /// Returns the time at which the next request may be sent, possibly in the past; `None` if
    /// there is nothing to send or another event is needed first.
    pub(crate) fn next_request(&self, types: &[RegisteredType], scopes: &Scopes) -> Option<Time> {
        let due = match &self.transport_state {
            _ if self.awaits_watchers() => return None,
            TransportState::Polling(poll_state) => self.next_poll(poll_state, types, scopes)?,
            TransportState::Stream | TransportState::File => {
                let ack = self.next_acks().map(|(_, due)| due).min();
                match ack.filter(|due| *due == Time::ZERO) {
                    Some(due) => due,
                    None if self.next_dirty(types, scopes).is_some() => Time::ZERO,
                    None => ack?,
                }
            }
        };
        Some(self.bucket.map_or(due, |bucket| due.max(bucket.next())))
    }

    /// Returns whether requests wait for watchers to handle their notices.
    pub(crate) fn awaits_watchers(&self) -> bool {
        let has_unhandled = self.unhandled.as_ref().is_some_and(|unhandled| unhandled.count > 0);
        self.ack_timing == AckTiming::AfterNotices && has_unhandled
    }

    /// Returns the time at which the first NACK that is delayed at `now` may be sent.
    pub(crate) fn next_delayed_nack(&self, now: Time) -> Option<Time> {
        self.next_acks().map(|(_, due)| due).filter(|due| *due > now).min()
    }

    /// Returns whether the next response may be read.
    // B52
    pub(crate) fn wants_read(&self, now: Time) -> bool {
        self.can_process() && self.next_delayed_nack(now).is_none()
    }

    /// Returns whether a response could be processed, regardless of when its ACK may be sent.
    fn can_process(&self) -> bool {
        self.is_open
            && self.acks.len() < MAX_QUEUED_ACKS
            && !self.pending_verdicts.is_open()
            && self.unhandled.as_ref().is_none_or(|unhandled| unhandled.count == 0)
    }

    /// Runs the does-not-exist timers while responses can be processed. They also run while NACKs
    /// are delayed, which the server controls and must not use to postpone the timers forever.
    pub(crate) fn update_timers(&mut self, now: Time) {
        match self.can_process() {
            true => self.timers.resume(now),
            false => self.timers.pause(now),
        }
    }
}
