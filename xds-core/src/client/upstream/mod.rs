//! Management servers of the client and the channels to them.
//!
//! ```text
//!            first watch                 Opened
//!   Idle ───────────────▶ Open(opening) ────────▶ Open(open) ──┐ messages
//!    ▲ ▲                      │                       │        │ and requests
//!    │ └── idle timeout ────┐ │ Closed                │ Closed ◀┘
//!    │                      │ ▼                       ▼
//!    └───────────────── BackingOff(until) ────▶ Open(opening) with a fresh channel
//!       no subscription
//! ```
//!
//! This is the state of a *stream slot*: the stream for all types of a server, or the one for a
//! single type if streams are not aggregated. A channel that the client closes right after opening
//! it also goes through `BackingOff`, so that there is always a delay between two attempts, unless
//! the application calls [`Client::reset_backoff`](super::Client::reset_backoff).
//!
//! State is kept at three levels. The *server* keeps accepted versions and counters. The *stream
//! slot* keeps the backoff and the current error, so that streams of single types fail
//! independently. The *channel* keeps nonces, sent names, queued ACKs, timers and unhandled
//! notices, which end with it.
// IC26, BO-06, NA-02

pub(crate) mod backoff;
pub(crate) mod counters;

use alloc::{sync::Arc, vec::Vec};

use self::{backoff::Backoff, counters::ServerCounters};
pub(crate) use super::channel::{Channel, TransportState, ack::Ack};
use super::{
    channel::{accepted_version::AcceptedVersion, type_state::TypeState},
    config::{ClientConfig, ServerAddress, Streams},
    event::error::{ChannelError, ErrorOrigin},
    subscription::{
        authority::AuthorityState, does_not_exist_timers::DoesNotExistTimers, scope::Scopes,
    },
};
use crate::{id::ChannelId, slab::Slab, text::Nonce, time::Time, zoo::BugState};

/// All servers, their stream slots, and the authorities that use them.
#[derive(Debug)]
pub(crate) struct Upstreams {
    pub(crate) servers: Vec<Upstream>,
    pub(crate) stream_slots: Vec<StreamSlot>,
    /// Authorities; the first is that of names without an authority.
    pub(crate) authorities: Vec<AuthorityState>,
    /// Number of channels that have ended, used to compare the ages of errors.
    pub(crate) epoch: u64,
    /// Token of the last armed timer.
    pub(crate) last_timer: u64,
    pub(crate) channels: Slab<Channel>,
}

/// Server, for the lifetime of the client.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) server: Arc<ServerAddress>,
    /// URI of the server with masked credentials.
    pub(crate) name: Arc<str>,
    /// Origin of errors of each registered type.
    pub(crate) sources: Vec<Arc<ErrorOrigin>>,
    /// Last accepted version of each registered type.
    pub(crate) accepted: Vec<AcceptedVersion>,
    /// Last nonce of each registered type, for the injected bug that reuses it on another stream.
    pub(crate) nonces: Vec<BugState<Nonce>>,
    /// Position of its first stream slot.
    pub(crate) first_stream_slot: usize,
    pub(crate) scopes: Scopes,
    /// Does-not-exist timers that run from the first subscription
    /// ([`TimerStart::Subscription`](super::TimerStart::Subscription)).
    pub(crate) fetch_timers: DoesNotExistTimers,
    pub(crate) counters: ServerCounters,
}

/// Place for one stream, which may or may not exist at present.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    /// Position of the server.
    pub(crate) upstream: usize,
    pub(crate) carried_types: CarriedTypes,
    pub(crate) connection: Connection,
    pub(crate) backoff: Backoff,
    /// Number of consecutive channels that ended without a response.
    pub(crate) failures: u32,
    /// Whether there has ever been a response.
    pub(crate) has_responded: bool,
    /// Error of the server, from the first failure until the next response.
    pub(crate) error: Option<ChannelError>,
    /// Number of the last ended channel of this stream slot, among all ended channels.
    pub(crate) ended: u64,
}

/// Registered types that a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CarriedTypes {
    All,
    One(usize),
}

/// State of a stream slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// No channel.
    Idle,
    /// Channel that is opening or open.
    Open(ChannelId),
    /// Delay until the next attempt.
    BackingOff(Time),
}

impl Upstreams {
    /// Creates the servers of a configuration, without duplicates.
    // FE-16
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let node_id: Arc<str> = Arc::from(config.node.id());
        let mut distinct: Vec<Arc<ServerAddress>> = Vec::new();
        let authorities = AuthorityState::all(config, &mut distinct);
        let mut stream_slots = Vec::new();
        let mut servers = Vec::new();
        for server in distinct {
            let upstream = servers.len();
            let first_stream_slot = stream_slots.len();
            let stream_slot = |carried_types| StreamSlot {
                upstream,
                carried_types,
                connection: Connection::Idle,
                backoff: Backoff::default(),
                failures: 0,
                has_responded: false,
                error: None,
                ended: 0,
            };
            match server.streams {
                Streams::Aggregated => stream_slots.push(stream_slot(CarriedTypes::All)),
                Streams::PerType => {
                    stream_slots.extend(
                        (0..config.types.len()).map(|index| stream_slot(CarriedTypes::One(index))),
                    );
                }
            }
            let name = server.name();
            let sources = config.types.iter().map(|resource_type| {
                Arc::new(ErrorOrigin {
                    type_url: resource_type.type_url().clone(),
                    server: Arc::clone(&name),
                    node_id: Arc::clone(&node_id),
                })
            });
            servers.push(Upstream {
                sources: sources.collect(),
                name,
                accepted: alloc::vec![AcceptedVersion::default(); config.types.len()],
                nonces: alloc::vec![BugState::default(); config.types.len()],
                first_stream_slot,
                fetch_timers: DoesNotExistTimers::default(),
                counters: ServerCounters::new(config.types.len()),
                scopes: Scopes::new(&authorities, upstream, config.types.len()),
                server,
            });
        }
        Self {
            servers,
            stream_slots,
            authorities,
            epoch: 0,
            last_timer: 0,
            channels: Slab::default(),
        }
    }

    /// Adds a channel with a new id.
    pub(crate) fn start_channel(&mut self, channel: Channel) -> Option<ChannelId> {
        let stream_slot = channel.stream_slot;
        let id = ChannelId(self.channels.push_back(channel)?);
        self.stream_slots.get_mut(stream_slot)?.connection = Connection::Open(id);
        Some(id)
    }

    pub(crate) fn end_channel(&mut self, id: ChannelId) -> Option<Channel> {
        let stream_slot = self.channels.get(id.0)?.stream_slot;
        self.stream_slots.get_mut(stream_slot)?.connection = Connection::Idle;
        self.channels.remove(id.0.slot())
    }

    /// Returns the channel of a stream slot, opening or open.
    pub(crate) fn channel_of_slot(&self, stream_slot: usize) -> Option<ChannelId> {
        match self.stream_slots.get(stream_slot)?.connection {
            Connection::Open(id) => Some(id),
            Connection::Idle | Connection::BackingOff(_) => None,
        }
    }

    /// Returns whether a channel to the server is opening. Only one opens at a time.
    // IC26
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

    /// Returns the channel and its server.
    pub(crate) fn channel_and_server(
        &mut self,
        id: ChannelId,
    ) -> Option<(&mut Channel, &mut Upstream)> {
        let channel = self.channels.get_mut(id.0)?;
        let server = self.servers.get_mut(channel.upstream)?;
        Some((channel, server))
    }

    /// Returns the active server of an authority for a type, and the stream slot of the type.
    pub(crate) fn active(
        &self,
        authority: usize,
        type_index: usize,
    ) -> Option<(&Upstream, &StreamSlot)> {
        let upstream = self.authorities.get(authority)?.active(type_index);
        let stream_slot = self.stream_slots.get(self.stream_slot_of(upstream, type_index)?)?;
        Some((self.servers.get(upstream)?, stream_slot))
    }

    /// Returns the servers that an authority may use for a type.
    pub(crate) fn servers_of(
        &self,
        authority: usize,
        type_index: usize,
    ) -> impl Iterator<Item = &ServerAddress> {
        let authority = self.authorities.get(authority);
        let servers = authority.map(|it| it.servers(type_index)).unwrap_or_default();
        servers.iter().filter_map(|&server| Some(&*self.servers.get(server)?.server))
    }

    /// Returns the position of the stream slot for a type of a server.
    pub(crate) fn stream_slot_of(&self, upstream: usize, type_index: usize) -> Option<usize> {
        let server = self.servers.get(upstream)?;
        Some(match server.server.streams {
            Streams::Aggregated => server.first_stream_slot,
            Streams::PerType => server.first_stream_slot + type_index,
        })
    }

    /// Calls `act` with the state of the type on each channel that the authority uses.
    pub(crate) fn for_each_type_state(
        &mut self,
        authority: usize,
        type_index: usize,
        mut act: impl FnMut(&mut TypeState),
    ) {
        for stream_slot in 0..self.stream_slots.len() {
            let Some(id) = self.channel_of_slot(stream_slot) else { continue };
            if let Some((channel, server)) = self.channel_and_server(id)
                && server.scopes.of(type_index).get(authority) == Some(&true)
                && let Some(type_state) = channel.type_state_mut(type_index)
            {
                act(type_state);
            }
        }
    }

    /// Returns whether any server considers a wildcard of the type subscribed.
    pub(crate) fn has_wildcard_on_wire(&self, type_index: usize) -> bool {
        self.channels
            .iter()
            .filter_map(|(_, channel)| channel.type_state(type_index))
            .any(TypeState::has_wildcard)
    }
}

impl StreamSlot {
    pub(crate) fn types(&self, registered: usize) -> core::ops::Range<usize> {
        match self.carried_types {
            CarriedTypes::All => 0..registered,
            CarriedTypes::One(index) => index..index + 1,
        }
    }
}
