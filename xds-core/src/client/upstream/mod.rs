//! The client's side of its management servers, and of the channels to them.
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
//! That is the state of a *lane*: the stream for all types of a server, or the one for a single type
//! where streams are not aggregated. A channel that is closed from here right after it was opened, for
//! lack of interest or to start over, leaves through `BackingOff` as well, so that between two attempts
//! there is always a pause (IC26), unless the application says that the network is back (BO-06).
//!
//! Lifetimes are kept apart: the *server* keeps accepted versions and counters; the *lane* keeps the
//! backoff and the standing error, so that streams of single types fail each for itself (NA-02); the
//! *channel* keeps nonces, names sent, queued ACKs, timers and debts, and all of that goes with it.

pub(crate) mod backoff;
pub(crate) mod counters;

use alloc::{sync::Arc, vec::Vec};

use self::{backoff::Pauses, counters::Tally};
pub(crate) use super::channel::{Channel, MAX_QUEUED_ACKS, Turns, ack::Ack};
use super::{
    channel::{accepted::Accepted, type_state::Machine},
    config::{ClientConfig, ManagementServer, Streams},
    event::error::{ChannelError, Source},
    subscription::{
        authority::Authority, does_not_exist_timers::DoesNotExistTimers, scope::Scopes,
    },
};
use crate::{id::ChannelId, slab::Slab, text::Nonce, time::Time, zoo::Keepsake};

/// All servers, the lanes to them, and the authorities that use them.
#[derive(Debug)]
pub(crate) struct Upstreams {
    pub(crate) servers: Vec<Upstream>,
    pub(crate) lanes: Vec<Lane>,
    /// The first is that of names without an authority.
    pub(crate) authorities: Vec<Authority>,
    /// How many channels have ended: tells whether an error is older than another.
    pub(crate) epoch: u64,
    /// The token of the timer that was last armed.
    pub(crate) last_timer: u64,
    pub(crate) channels: Slab<Channel>,
}

/// A server, for the life of the client.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) server: Arc<ManagementServer>,
    /// What the server is called.
    pub(crate) name: Arc<str>,
    /// What errors of each registered type say about where they come from.
    pub(crate) sources: Vec<Arc<Source>>,
    /// The last accepted version of each registered type.
    pub(crate) accepted: Vec<Accepted>,
    /// The last nonce of each registered type, for the bug that uses it on another stream.
    pub(crate) nonces: Vec<Keepsake<Nonce>>,
    /// The position of the first of its lanes.
    pub(crate) first_lane: usize,
    pub(crate) serves: Scopes,
    /// What is waited for from the moment it is wanted, where that is how long a resource may take.
    pub(crate) fetches: DoesNotExistTimers,
    pub(crate) tally: Tally,
}

/// One stream's place, whether there is a stream at present or not.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The position of the server.
    pub(crate) upstream: usize,
    pub(crate) carries: Carries,
    pub(crate) link: Link,
    pub(crate) pauses: Pauses,
    /// How many channels in a row have ended without a response.
    pub(crate) failures: u32,
    /// Whether there ever was a response.
    pub(crate) has_answered: bool,
    /// Why the server cannot be used, from the first failure until the next response.
    pub(crate) error: Option<ChannelError>,
    /// The number of the last channel of this lane that ended, in the count of all.
    pub(crate) ended: u64,
}

/// Which of the registered types a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    Everything,
    Type(usize),
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing is wanted.
    Idle,
    /// A channel is opening or open.
    Open(ChannelId),
    /// The next channel is opened then.
    BackingOff(Time),
}

impl Upstreams {
    /// The servers of a configuration, each distinct one once (FE-16).
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let node_id: Arc<str> = Arc::from(config.node.id());
        let mut distinct: Vec<Arc<ManagementServer>> = Vec::new();
        let authorities = Authority::all(config, &mut distinct);
        let mut lanes = Vec::new();
        let mut servers = Vec::new();
        for server in distinct {
            let upstream = servers.len();
            let first_lane = lanes.len();
            let lane = |carries| Lane {
                upstream,
                carries,
                link: Link::Idle,
                pauses: Pauses::default(),
                failures: 0,
                has_answered: false,
                error: None,
                ended: 0,
            };
            match server.streams {
                Streams::Aggregated => lanes.push(lane(Carries::Everything)),
                Streams::PerType => {
                    lanes.extend((0..config.types.len()).map(|index| lane(Carries::Type(index))));
                }
            }
            let name = server.name();
            let sources = config.types.iter().map(|resource_type| {
                Arc::new(Source {
                    type_url: resource_type.type_url().clone(),
                    server: Arc::clone(&name),
                    node_id: Arc::clone(&node_id),
                })
            });
            servers.push(Upstream {
                sources: sources.collect(),
                name,
                accepted: alloc::vec![Accepted::default(); config.types.len()],
                nonces: alloc::vec![Keepsake::default(); config.types.len()],
                first_lane,
                fetches: DoesNotExistTimers::default(),
                tally: Tally::new(config.types.len()),
                serves: Scopes::new(&authorities, upstream, config.types.len()),
                server,
            });
        }
        Self { servers, lanes, authorities, epoch: 0, last_timer: 0, channels: Slab::default() }
    }

    /// Starts a channel; its id is fresh.
    pub(crate) fn start_channel(&mut self, channel: Channel) -> Option<ChannelId> {
        let lane = channel.lane;
        let id = ChannelId(self.channels.push_back(channel)?);
        self.lanes.get_mut(lane)?.link = Link::Open(id);
        Some(id)
    }

    pub(crate) fn end_channel(&mut self, id: ChannelId) -> Option<Channel> {
        let lane = self.channels.get(id.0)?.lane;
        self.lanes.get_mut(lane)?.link = Link::Idle;
        self.channels.remove(id.0.slot())
    }

    /// The channel of a lane, opening or open.
    pub(crate) fn on_lane(&self, lane: usize) -> Option<ChannelId> {
        match self.lanes.get(lane)?.link {
            Link::Open(id) => Some(id),
            Link::Idle | Link::BackingOff(_) => None,
        }
    }

    /// Whether a channel to the server is on its way: one opens at a time (IC26).
    pub(crate) fn is_opening(&self, upstream: usize) -> bool {
        let mut channels = self.channels.iter();
        channels.any(|(_, channel)| channel.upstream == upstream && !channel.is_open)
    }

    pub(crate) fn channel(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.get(id.0)
    }

    pub(crate) fn channel_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(id.0)
    }

    /// The channel and the server that it leads to.
    pub(crate) fn channel_and_server(
        &mut self,
        id: ChannelId,
    ) -> Option<(&mut Channel, &mut Upstream)> {
        let channel = self.channels.get_mut(id.0)?;
        let server = self.servers.get_mut(channel.upstream)?;
        Some((channel, server))
    }

    /// The server that an authority relies on for a type at present, with the lane of the type.
    pub(crate) fn active(&self, authority: usize, type_index: usize) -> Option<(&Upstream, &Lane)> {
        let upstream = self.authorities.get(authority)?.active(type_index);
        let lane = self.lanes.get(self.lane_of(upstream, type_index)?)?;
        Some((self.servers.get(upstream)?, lane))
    }

    /// The servers that an authority may use for a type.
    pub(crate) fn servers_of(
        &self,
        authority: usize,
        type_index: usize,
    ) -> impl Iterator<Item = &ManagementServer> {
        let authority = self.authorities.get(authority);
        let servers = authority.map(|it| it.servers(type_index)).unwrap_or_default();
        servers.iter().filter_map(|&server| Some(&*self.servers.get(server)?.server))
    }

    /// The position of the lane that carries a type of a server.
    pub(crate) fn lane_of(&self, upstream: usize, type_index: usize) -> Option<usize> {
        let server = self.servers.get(upstream)?;
        Some(match server.server.streams {
            Streams::Aggregated => server.first_lane,
            Streams::PerType => server.first_lane + type_index,
        })
    }

    /// What the channels of an authority say of a type.
    pub(crate) fn machines_of(
        &mut self,
        authority: usize,
        type_index: usize,
        mut act: impl FnMut(&mut Machine),
    ) {
        for lane in 0..self.lanes.len() {
            let Some(id) = self.on_lane(lane) else { continue };
            if let Some((channel, server)) = self.channel_and_server(id)
                && server.serves.of(type_index).get(authority) == Some(&true)
                && let Some(machine) = channel.machine_mut(type_index)
            {
                act(machine);
            }
        }
    }

    /// Whether some server believes that everything of a type is wanted.
    pub(crate) fn has_wildcard_on_wire(&self, type_index: usize) -> bool {
        self.channels
            .iter()
            .filter_map(|(_, channel)| channel.machine(type_index))
            .any(Machine::has_wildcard)
    }
}

impl Lane {
    pub(crate) fn types(&self, registered: usize) -> core::ops::Range<usize> {
        match self.carries {
            Carries::Everything => 0..registered,
            Carries::Type(index) => index..index + 1,
        }
    }
}
