//! Channels between clients and servers.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use bytes::Bytes;
use xds_core::{ChannelId, StreamId, Time, service::Variant};

use super::{
    message::{Message, Request},
    parts::{BadAnswer, StreamKey},
};
use crate::{options::Fault, world::subscription::SubscriptionState};

/// Index of a channel among all channels of a run, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// A channel between a client and a server: a stream, a polled channel or a file.
#[derive(Debug)]
pub struct Link {
    /// Index of the client.
    pub client: usize,
    /// The client's channel id.
    pub channel: ChannelId,
    /// Index of the server.
    pub server: usize,
    /// Index of the only type that the channel carries; `None` means all types.
    pub only: Option<usize>,
    /// Protocol variant.
    pub variant: Variant,
    /// Whether the channel is open at the client.
    pub is_open: bool,
    /// Whether the client has not yet seen its end.
    pub is_known_to_client: bool,
    /// Whether messages in flight are lost.
    pub(super) is_cut: bool,
    /// Whether the connection attempt hangs.
    pub(super) is_hanging: bool,
    /// Time until which neither side is notified that the other has ended the stream.
    pub(super) silent_until: Option<Time>,
    /// Subscriptions of its client by type index, if oracles check the run.
    pub(crate) asked: Vec<SubscriptionState>,
    /// Number of polls. Only the newest request counts.
    pub(super) poll: u32,
    /// Replacement for its next answer.
    pub(super) bad_answer: Option<BadAnswer>,
    /// Newest response, if the channel is polled.
    pub(super) last_response: Option<Rc<Message>>,
    /// Result of the last read of its file.
    pub(super) last_seen: Option<Result<Bytes, &'static str>>,
    /// Whether its client watches the file.
    pub(super) is_watching: bool,
    pub(super) stream: Option<StreamKey>,
    /// Messages from a user-defined control plane that wait for a blocked transport.
    pub(super) held: VecDeque<Rc<Message>>,
    /// Additional latency of this channel.
    pub(super) slowness: Duration,
    /// Whether its server has sent a message.
    pub(super) has_spoken: bool,
    pub(super) to_client: Pipe,
    pub(super) to_server: Pipe,
}

impl Link {
    /// Creates a channel that is about to connect.
    pub(super) fn new(
        client: usize,
        channel: ChannelId,
        server: usize,
        only: Option<usize>,
        variant: Variant,
    ) -> Self {
        Self {
            client,
            channel,
            server,
            only,
            variant,
            is_open: false,
            is_known_to_client: true,
            is_cut: false,
            is_hanging: false,
            silent_until: None,
            asked: Vec::new(),
            poll: 0,
            bad_answer: None,
            last_response: None,
            last_seen: None,
            is_watching: false,
            stream: None,
            held: VecDeque::new(),
            slowness: Duration::ZERO,
            has_spoken: false,
            to_client: Pipe::default(),
            to_server: Pipe::default(),
        }
    }

    /// Returns the client's subscription to a type as the server must see it, or `None` before the
    /// first request or if no oracles check the run.
    pub(crate) fn asked(&self, kind: usize) -> Option<&SubscriptionState> {
        self.asked.get(kind).filter(|subscription| subscription.was_requested)
    }

    /// Returns the stream's id in this project's server.
    pub(crate) fn core_stream(&self) -> Option<StreamId> {
        match self.stream? {
            StreamKey::Core(stream) => Some(stream),
            StreamKey::Own(_) => None,
        }
    }

    /// Whether the server has not yet seen its end.
    pub(crate) fn is_known_to_server(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether the server's transport accepts messages.
    pub(crate) fn takes_responses(&self) -> bool {
        self.is_known_to_server() && self.to_client.blocked_by.is_none()
    }

    /// Whether the client's transport accepts messages.
    pub(crate) fn takes_requests(&self) -> bool {
        self.is_open && self.is_known_to_client && self.to_server.blocked_by.is_none()
    }

    /// Time at which all messages in flight have arrived.
    pub(crate) fn settled_at(&self) -> Time {
        self.to_client.last_at.max(self.to_server.last_at)
    }

    /// Whether messages in flight are lost.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    pub(super) fn requested(&mut self, kind: usize, request: &Request) {
        if self.asked.len() <= kind {
            self.asked.resize_with(kind + 1, SubscriptionState::default);
        }
        self.asked[kind].take(request);
    }

    /// Number of responses in flight.
    #[must_use]
    pub fn responses_under_way(&self) -> usize {
        self.to_client.under_way
    }

    /// Number of requests in flight.
    #[must_use]
    pub fn requests_under_way(&self) -> usize {
        self.to_server.under_way
    }
}

/// One direction of a channel, which delivers messages in order.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Arrival time of the newest message.
    pub(super) last_at: Time,
    /// Time until which limited bandwidth delays further messages.
    pub(super) busy_until: Time,
    /// Fault that blocks the sender's transport, if there is one.
    pub(super) blocked_by: Option<Fault>,
    /// Whether the sender has a message that waits for the transport.
    pub(super) is_waiting: bool,
    /// Whether messages are lost.
    pub(super) is_silent: bool,
    /// Messages that have arrived and are unread.
    pub(super) inbox: VecDeque<Rc<Message>>,
    /// Number of messages in flight.
    pub(super) under_way: usize,
}

/// Direction of messages on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

impl Direction {
    pub(super) const fn what_is_blocked(self) -> &'static str {
        match self {
            Self::ToServer => "requests blocked",
            Self::ToClient => "responses blocked",
        }
    }
}
