//! The channels between clients and servers.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use bytes::Bytes;
use xds_core::{ChannelId, StreamId, Time, service::Variant};

use super::{
    message::{Message, Request},
    parts::{BadAnswer, StreamKey},
};
use crate::{options::Fault, oracle::Fold};

/// One incarnation of a transport, by its position among all of a run. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl LinkId {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

/// A channel between a client and a server: a stream, unless the run has another transport.
#[derive(Debug)]
pub struct Link {
    /// The position of the client.
    pub client: usize,
    /// The client's channel.
    pub channel: ChannelId,
    /// The position of the server.
    pub server: usize,
    /// The one type that it carries; `None` carries all.
    pub only: Option<usize>,
    /// The variant of the protocol that is spoken on it.
    pub variant: Variant,
    /// Whether the client takes it to be open.
    pub is_open: bool,
    /// Whether the client has not seen its end.
    pub is_known_to_client: bool,
    /// Whether what is under way on it is lost.
    pub(super) is_cut: bool,
    /// Whether nothing comes of the attempt to connect.
    pub(super) is_hanging: bool,
    /// Until when neither side hears that the other one has ended it.
    pub(super) unheard_until: Option<Time>,
    /// What its client has asked for, by the position of the type, if the run is judged.
    pub(crate) asked: Vec<Fold>,
    /// How often its client has asked, if it polls: only the newest request counts.
    pub(super) turn: u32,
    /// What its next answer is to be instead.
    pub(super) bad_answer: Option<BadAnswer>,
    /// The newest response on it, if it is polled.
    pub(super) last_response: Option<Rc<Message>>,
    /// What was found in its file when it was read last.
    pub(super) last_seen: Option<Result<Bytes, &'static str>>,
    /// Whether its client watches its file.
    pub(super) is_watching: bool,
    pub(super) stream: Option<StreamKey>,
    /// What a control plane of the user's has sent while the transport takes nothing: it is not asked whether there is
    /// room.
    pub(super) held: VecDeque<Rc<Message>>,
    /// How much longer messages on it take at present than others.
    pub(super) slowness: Duration,
    /// Whether its server has sent anything on it.
    pub(super) has_spoken: bool,
    pub(super) to_client: Pipe,
    pub(super) to_server: Pipe,
}

impl Link {
    /// What the client has asked for of a type, as its server has to take it; nothing is known of it in
    /// runs that are not judged.
    pub(crate) fn asked(&self, kind: usize) -> Option<&Fold> {
        self.asked.get(kind).filter(|fold| fold.was_requested)
    }

    /// The stream, as our management server knows it.
    pub(crate) fn core_stream(&self) -> Option<StreamId> {
        match self.stream? {
            StreamKey::Core(stream) => Some(stream),
            StreamKey::Own(_) => None,
        }
    }

    /// Whether its server has not seen its end.
    pub(crate) fn is_known_to_server(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether its server can send something on it at once.
    pub(crate) fn takes_responses(&self) -> bool {
        self.is_known_to_server() && self.to_client.blocked_by.is_none()
    }

    /// Whether its client can send something on it at once.
    pub(crate) fn takes_requests(&self) -> bool {
        self.is_open && self.is_known_to_client && self.to_server.blocked_by.is_none()
    }

    /// When all has arrived that is under way in its order.
    pub(crate) fn settled_at(&self) -> Time {
        self.to_client.last_at.max(self.to_server.last_at)
    }

    /// Whether what is under way on it is lost.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(super) fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    pub(super) fn ask(&mut self, kind: usize, request: &Request) {
        if self.asked.len() <= kind {
            self.asked.resize_with(kind + 1, Fold::default);
        }
        self.asked[kind].take(request);
    }

    /// How many responses are under way.
    #[must_use]
    pub fn responses_under_way(&self) -> usize {
        self.to_client.under_way
    }

    /// How many requests are under way.
    #[must_use]
    pub fn requests_under_way(&self) -> usize {
        self.to_server.under_way
    }
}

/// One direction of a link. What goes in first comes out first.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// When the newest message arrives.
    pub(super) last_at: Time,
    /// Until when the network is busy with what was sent, where it takes so many bytes in a second only.
    pub(super) busy_until: Time,
    /// Why the sender's transport takes no messages, if it takes none.
    pub(super) blocked_by: Option<Fault>,
    /// The sender has something to send and waits for room.
    pub(super) is_waiting: bool,
    /// What is sent never arrives.
    pub(super) is_silent: bool,
    /// What has arrived and was not read yet.
    pub(super) inbox: VecDeque<Rc<Message>>,
    /// How many messages have been sent and did not arrive yet.
    pub(super) under_way: usize,
}

/// Which way messages go on a link.
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
