//! The client: watches in, requests and notices out.
//!
//! The way of one response through this folder:
//!
//! | step | file |
//! |---|---|
//! | an event reaches the channel it belongs to | `mod.rs`, `upstream.rs` |
//! | the frame is stepped over, never decoded | `../wire/` |
//! | what changed and is wanted is validated, the rest passed over | `judge.rs`; incremental: `judge_delta.rs` |
//! | the good is taken into use, in the order of change | `judge.rs`, `cache.rs`, `frames.rs` |
//! | a resource of version 2 of the API is taken for one of version 3 | `older.rs` |
//! | a name turns out to be an alias of the resource | `aliases.rs` |
//! | in a proxy's profile, one bad resource spoils the response | `refusal.rs` |
//! | where a type asks for it, somebody outside has a say | `review.rs` |
//! | what is not renewed in time goes again | `expiry.rs` |
//! | what the client has from its own configuration is no server's | `static_resources.rs` |
//! | it belongs to what a glob stands for | `globs.rs`, `glob_watches.rs`, `judge_globs.rs` |
//! | who watches it has news | `watches.rs`, `interest.rs` |
//! | the notice is made when it is polled | `notify.rs` |
//! | the ACK or NACK is rendered when the transport has room | `requests.rs`; `sotw.rs` or `delta.rs`, chosen by `machine.rs` |
//! | it states the version that was accepted last, if that says no more than what is held | `accepted.rs` |
//! | where a server is polled, it is part of the next request | `polls.rs` |
//! | where the server is a file, nobody is told | `files.rs` |
//!
//! What the client holds and counts is told in `status.rs`, `csds.rs`, `tally.rs` and `metrics.rs`.
//!
//! This file dispatches: each public method is a few lines, and decides nothing.

mod cache;
pub(crate) mod channel;
mod commands;
mod config;
pub(crate) mod connections;
mod event;
pub(crate) mod fallback;
mod files;
mod glob_watches;
pub(crate) mod notices;
pub(crate) mod polling;
pub(crate) mod report;
mod requests;
pub(crate) mod resource;
pub(crate) mod response;
mod responses;
mod static_resources;
pub(crate) mod subscription;
pub(crate) mod timeouts;
mod upstream;
pub(crate) mod verdicts;
pub(crate) mod watch;

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use self::{
    cache::Cache,
    subscription::registered_type::TypeState,
    upstream::Upstreams,
    watch::{Watches, outbox::Outbox},
};
pub use self::{
    commands::Interest,
    config::{
        ClientConfig, ClientLimits, Node,
        backoff::BackoffPolicy,
        file::FilePolicy,
        management_server::{
            Authority, Exchange, ManagementServer, MissingAfter, NodeIn, Streams, TransportId,
        },
        polling::{NewNames, PollAnswers, PollPolicy},
        profile::{
            AnswerTiming, ConnectivityErrors, DataErrorPolicy, Duplicates, Fallback, Federation,
            NackVersion, Profile, ReadGate, RejectionUnit, ReportedErrors, TimerStart,
            WildcardForm,
        },
        request_rate::{InvalidRequestRate, RequestRate},
        resource_type::{Context, Held, OpaqueType, Rejection, ResourceType, Value, Verdict},
        server_features::{FeatureWarning, ServerFeature, ServerFeatures},
    },
    event::{
        Call, Change, ChannelEvent, Notice, Output, RequestCause, Resource, Transmit, Update,
        error::{
            ChannelError, ErrorCategory, InvalidSettlement, InvalidWatch, WatchError,
            WatchErrorKind,
        },
        status::{ClientStats, EntryState, FailedUpdate, ResourceStatus},
    },
    report::{
        csds::{ClientSnapshot, Contents, WallClock},
        metrics::{CacheState, Instrument, Metrics, MetricsExporter},
    },
    resource::canonical_name::InvalidStructuredName,
    static_resources::InvalidStaticResource,
    upstream::counters::TypeStats,
};
use crate::{
    frame::Frame,
    id::{ChannelId, UpdateId, WatchId},
    rng::Rng,
    text::{ResourceName, TypeUrl},
    time::{Clock, Deadline, Time, Timer},
};

/// An xDS client as a state machine. See the [crate documentation](crate) for how to drive it.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    /// The encoded node, as every first message of a stream carries it.
    node: Vec<u8>,
    clock: Clock,
    rng: Rng,
    types: Vec<TypeState>,
    upstreams: Upstreams,
    watches: Watches,
    outbox: Outbox,
    stats: ClientStats,
    is_shut_down: bool,
}

/// Commands of the application.
impl Client {
    /// A client that watches nothing yet, and therefore connects to nothing yet (SB-02).
    ///
    /// The same config, seed and calls give the same outputs in every process.
    #[must_use]
    pub fn new(config: ClientConfig, seed: u64, now: Time) -> Self {
        let mut rng = Rng::new(seed);
        let types = config.types.iter().map(|resource_type| TypeState {
            seed: rng.next_u64(),
            resource_type: Arc::clone(resource_type),
            cache: Cache::new(rng.next_u64()),
            interest: subscription::TypeInterest::default(),
        });
        Self {
            node: config.node.encode(&config.profile),
            types: types.collect(),
            upstreams: Upstreams::new(&config),
            config,
            clock: Clock::starting_at(now),
            rng,
            watches: Watches::default(),
            outbox: Outbox::default(),
            stats: ClientStats::default(),
            is_shut_down: false,
        }
    }

    /// Watches a resource, every resource, or those that a glob stands for, of a type.
    ///
    /// What is known already is told at once: a cached resource, then what is wrong beside it
    /// (S3.035), or why there is none.
    ///
    /// # Errors
    ///
    /// The type is not registered, or is twice, the name is empty, `*` or too long, a server cannot be asked
    /// for globs, or the client is shut down. Nothing has changed then.
    pub fn watch(
        &mut self,
        type_url: &TypeUrl,
        interest: Interest<'_>,
        now: Time,
    ) -> Result<WatchId, InvalidWatch> {
        let now = self.clock.advance(now);
        self.start_watch(type_url, interest, now)
    }

    /// Adds a resource that the client has from its own configuration (S4.016-S4.019). Watchers of its name, and
    /// of everything of its type, get it as if a server had sent it. No server is asked for the name, nor can
    /// one change or delete what it stands for. Returns the name.
    ///
    /// # Errors
    ///
    /// It is not valid, or its name is watched or known already: static resources are added first. Nothing has
    /// changed then.
    pub fn add_static_resource(
        &mut self,
        type_url: &TypeUrl,
        resource: Bytes,
        now: Time,
    ) -> Result<ResourceName, InvalidStaticResource> {
        let now = self.clock.advance(now);
        self.take_static_resource(type_url, resource, now)
    }

    /// Ends a watch: nothing is said about it from then on. An id that is not known is ignored.
    pub fn unwatch(&mut self, watch: WatchId, now: Time) {
        let now = self.clock.advance(now);
        self.end_watch(watch, now);
    }

    /// Says that the watcher is done with the last notice, or with the last change of a watch of
    /// many. Where [`ReadGate::Notices`] holds, the next response is read once all watchers are
    /// done with the last one (FC-01).
    pub fn handled(&mut self, watch: WatchId, now: Time) {
        let now = self.clock.advance(now);
        self.end_notice(watch, now);
    }

    /// The next change of a wildcard's or a glob's watch in the order in which resources last changed, or
    /// `None` once the watch has caught up. A resource that changed several times is told once.
    #[must_use]
    pub fn next_change(&mut self, watch: WatchId) -> Option<Change> {
        self.step_collection(watch)
    }

    /// Says what of an [`Update`] is rejected, and why. The rest of it is used now, and the response is
    /// answered: with a NACK if anything in it is rejected or was invalid. Where more of the response has
    /// come to be wanted since it was handed out, that is handed out first, as another update.
    ///
    /// # Errors
    ///
    /// The update waits for no verdict, or a rejected resource was not part of it. Nothing has changed
    /// then.
    pub fn settle(
        &mut self,
        update: UpdateId,
        rejected: impl IntoIterator<Item = (ResourceName, Rejection)>,
        now: Time,
    ) -> Result<(), InvalidSettlement> {
        let now = self.clock.advance(now);
        self.settle_update(update, rejected.into_iter().collect(), now)
    }

    /// Says that the network is back: whatever waits for its next attempt to reach a server makes it now,
    /// and what failed before no longer makes pauses longer (BO-06). Attempts that are under way go on,
    /// and to each server one channel opens at a time.
    ///
    /// An application that says so again and again takes away the pauses that spare the servers.
    pub fn reset_backoff(&mut self, now: Time) {
        let now = self.clock.advance(now);
        self.end_pauses(now);
    }

    /// Changes who the client says it is, as when metadata or dynamic parameters of the node have changed
    /// (B12). Each open stream is told with its next request, which is sent for that if there is nothing else
    /// to say; further streams begin with it. Errors of watches go on to name the id with which the client
    /// began.
    pub fn set_node(&mut self, node: Node, now: Time) {
        self.clock.advance(now);
        let encoded = node.encode(&self.config.profile);
        self.config.node = node;
        if self.is_shut_down || encoded == self.node {
            return;
        }
        self.node = encoded;
        for lane in 0..self.upstreams.lanes.len() {
            let id = self.upstreams.on_lane(lane);
            if let Some((channel, _)) = id.and_then(|id| self.upstreams.channel_and_server(id)) {
                channel.note_new_node();
            }
        }
        self.announce();
    }

    /// Whether an update waits for a verdict. One whose channel has ended does not.
    #[must_use]
    pub fn awaits(&self, update: UpdateId) -> bool {
        self.is_under_review(update)
    }

    /// Closes all channels, ends all watches and does nothing any more (SB-17). Watches end without a notice:
    /// whoever shuts a client down knows what it watched, and an adapter that hands out streams ends them
    /// (IC39).
    pub fn shut_down(&mut self, now: Time) {
        self.clock.advance(now);
        self.end_everything();
    }
}

/// News of the transports and of the clock. None of it can fail: there is nothing for an adapter to
/// decide.
impl Client {
    /// Takes news of a transport. What comes from a channel that is closed or never was is ignored
    /// and counted.
    pub fn handle_event(&mut self, event: ChannelEvent, now: Time) {
        let now = self.clock.advance(now);
        match event {
            ChannelEvent::Opened(channel) => self.on_opened(channel, now),
            ChannelEvent::Message(channel, frame) => self.on_message(channel, &frame, now),
            ChannelEvent::Malformed(channel, why) => {
                self.on_malformed(channel, ChannelError::Undeliverable(why), now);
            }
            ChannelEvent::Unchanged(channel) => self.on_unchanged(channel, now),
            ChannelEvent::Closed(channel, error) => self.on_closed(channel, error, now),
        }
    }

    /// Does what is due. Calling early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.clock.advance(now);
        self.on_timeout(now);
    }
}

/// What the driver must do next.
impl Client {
    /// The next thing to do, if any. Does no work.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.next_output()
    }

    /// Renders the next request of a channel that has room for one into `frame`. Call it until it
    /// returns `None`; after that, when [`Output::Writable`] names the channel.
    ///
    /// This is the one poll that does work: it takes an ACK, states the names wanted now, starts
    /// does-not-exist timers at `now`, and lets go of what was unsubscribed.
    #[must_use]
    pub fn poll_transmit(
        &mut self,
        channel: ChannelId,
        now: Time,
        frame: &mut Frame,
    ) -> Option<Transmit> {
        let now = self.clock.advance(now);
        self.render_request(channel, now, frame)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        if !self.outbox.is_empty() {
            return Some(Deadline { at: self.clock.now(), why: Timer::QueuedOutput });
        }
        self.next_deadline()
    }

    /// Whether the next response of the channel should be read from the transport (B52). Ask again
    /// after every input; the answer is a matter of level, not of edge.
    #[must_use]
    pub fn wants_read(&self, channel: ChannelId) -> bool {
        let now = self.clock.now();
        self.upstreams.channel(channel).is_some_and(|channel| channel.wants_read(now))
    }
}

/// Looks inside.
impl Client {
    /// The watches whose notices hold back reading on a channel ([`ReadGate::Notices`]) until they are
    /// [handled](Self::handled), oldest first, each with its type and name. A watch of everything has no name.
    pub fn unhandled(
        &self,
        channel: ChannelId,
    ) -> impl Iterator<Item = (WatchId, &TypeUrl, Option<&ResourceName>)> {
        self.watches.ids().filter_map(move |id| {
            let watch = self.watches.get(id).filter(|watch| watch.owes(channel))?;
            let known = self.types.get(watch.type_index)?;
            let name = known.watched_name(&watch.target);
            Some((id, known.resource_type.type_url(), name))
        })
    }

    /// Every resource that is watched by name, or known of under a wildcard or a glob, type by type.
    pub fn status(&self) -> impl Iterator<Item = ResourceStatus<'_>> {
        self.types.iter().flat_map(|known| {
            known.cache.iter().filter(|(_, entry)| known.covers(entry)).map(|(_, entry)| {
                ResourceStatus {
                    type_url: known.resource_type.type_url(),
                    name: &entry.name,
                    state: entry.state,
                    bytes: entry.bytes.as_ref(),
                    version: known.cache.version_of(entry),
                    updated: known.cache.updated(entry),
                    control_plane: known.cache.control_plane_of(entry),
                    error: entry.error(),
                    failed: entry.failed(),
                }
            })
        })
    }

    /// How often things happened.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.stats
    }

    /// How often things happened with each type at each server.
    pub fn type_stats(&self) -> impl Iterator<Item = TypeStats<'_>> {
        self.upstreams.servers.iter().flat_map(|upstream| {
            let types = self.types.iter().map(|known| known.resource_type.type_url());
            types.zip(&upstream.accepted).enumerate().filter_map(|(index, (type_url, accepted))| {
                upstream.tally.of_type(index, &upstream.name, type_url, accepted.version())
            })
        })
    }

    /// How many watches there are.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.watches.len()
    }
}
