//! The client's side of one management server, and of the channel to it.
//!
//! ```text
//!            first watch                 Opened
//!   Idle ───────────────▶ Open(opening) ────────▶ Open(open) ──┐ messages
//!    ▲ ▲                      │                       │        │ and requests
//!    │ └── nothing wanted ──┐ │ Closed                │ Closed ◀┘
//!    │      for a while     │ ▼                       ▼
//!    └───────────────── BackingOff(until) ────▶ Open(opening) with a fresh channel
//!       nothing wanted
//! ```
//!
//! An idle channel that closes right after it was opened leaves through `BackingOff` as well, so that
//! between two attempts there is always a pause (IC26).
//!
//! Two lifetimes meet here and are kept apart: the *server* keeps accepted versions, backoff and
//! the standing error; the *channel* keeps nonces, names sent, queued ACKs, timers and debts, and
//! all of that goes with it.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use super::{
    backoff::Backoff,
    config::ManagementServer,
    error::{ChannelError, Source},
    review::Reviews,
    sotw::Sotw,
    timers::DoesNotExistTimers,
    watches::Debts,
};
use crate::{
    id::ChannelId,
    slab::Slab,
    text::{Nonce, Version},
    time::Time,
};

/// A server, for the life of the client.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) server: Arc<ManagementServer>,
    /// What errors of each registered type say about where they come from.
    pub(crate) sources: Vec<Arc<Source>>,
    /// The last accepted version of each registered type (S0.081, NV-09).
    pub(crate) versions: Vec<Version>,
    pub(crate) link: Link,
    pub(crate) backoff: Backoff,
    /// Why the server cannot be used, from the first failure until the next response.
    pub(crate) error: Option<ChannelError>,
    /// How many channels have ended: tells whether an error is older than another.
    pub(crate) epoch: u64,
    channels: Slab<Channel>,
}

/// Where the client stands with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing is wanted.
    Idle,
    /// A channel is opening or open.
    Open(ChannelId),
    /// The next channel is opened then.
    BackingOff(Time),
}

/// One incarnation of a transport.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) is_open: bool,
    /// When the driver was told to open it.
    pub(crate) started: Time,
    /// When the first sound response arrived (S1.005).
    pub(crate) responded: Option<Time>,
    pub(crate) node_sent: bool,
    /// Since when nothing has been subscribed.
    pub(crate) idle_since: Option<Time>,
    /// ACKs and NACKs in the order in which the responses arrived (DX-45).
    pub(crate) acks: VecDeque<Ack>,
    /// Whether the driver was told that there is something to send and has not sent it all.
    pub(crate) announced: bool,
    /// One per registered type.
    pub(crate) sotw: Vec<Sotw>,
    pub(crate) timers: DoesNotExistTimers,
    /// Responses that wait for a verdict from outside.
    pub(crate) reviews: Reviews,
    /// `None` where reading does not wait for watchers.
    pub(crate) debts: Option<Debts>,
}

/// The answer to one response.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    pub(crate) type_index: usize,
    pub(crate) version: Version,
    pub(crate) nonce: Nonce,
    /// In a NACK, the rejected version and what was wrong. It belongs to this message alone (D28).
    pub(crate) rejection: Option<(Version, Arc<str>)>,
}

/// How many unsent answers stop reading: a server that does not read must not fill our memory.
pub(crate) const MAX_QUEUED_ACKS: usize = 8;

impl Upstream {
    pub(crate) fn new(server: ManagementServer, sources: Vec<Arc<Source>>) -> Self {
        Self {
            server: Arc::new(server),
            versions: alloc::vec![Version::default(); sources.len()],
            sources,
            link: Link::Idle,
            backoff: Backoff::default(),
            error: None,
            epoch: 0,
            channels: Slab::default(),
        }
    }

    /// Starts a channel; its id is fresh.
    pub(crate) fn start_channel(&mut self, channel: Channel) -> Option<ChannelId> {
        let id = ChannelId(self.channels.push_back(channel)?);
        self.link = Link::Open(id);
        Some(id)
    }

    pub(crate) fn end_channel(&mut self, id: ChannelId) -> Option<Channel> {
        self.channels.get(id.0)?;
        self.link = Link::Idle;
        self.channels.remove(id.0.slot())
    }

    /// The current channel, opening or open.
    pub(crate) fn current(&self) -> Option<(ChannelId, &Channel)> {
        match self.link {
            Link::Open(id) => self.channels.get(id.0).map(|channel| (id, channel)),
            Link::Idle | Link::BackingOff(_) => None,
        }
    }

    pub(crate) fn current_mut(&mut self) -> Option<(ChannelId, &mut Channel)> {
        match self.link {
            Link::Open(id) => self.channels.get_mut(id.0).map(|channel| (id, channel)),
            Link::Idle | Link::BackingOff(_) => None,
        }
    }

    pub(crate) fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.get(id.0)
    }

    pub(crate) fn channel_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(id.0)
    }
}

impl Channel {
    pub(crate) fn new(sotw: Vec<Sotw>, now: Time) -> Self {
        Self {
            is_open: false,
            started: now,
            responded: None,
            node_sent: false,
            idle_since: None,
            acks: VecDeque::new(),
            announced: false,
            sotw,
            timers: DoesNotExistTimers::default(),
            reviews: Reviews::default(),
            debts: None,
        }
    }

    /// Whether the next response may be read (B52).
    pub(crate) fn wants_read(&self) -> bool {
        self.is_open
            && self.acks.len() < MAX_QUEUED_ACKS
            && !self.reviews.is_open()
            && self.debts.as_ref().is_none_or(|debts| debts.open == 0)
    }

    /// Lets the does-not-exist timers run exactly while responses can be read.
    pub(crate) fn settle_timers(&mut self, now: Time) {
        match self.wants_read() {
            true => self.timers.resume(now),
            false => self.timers.pause(now),
        }
    }
}
