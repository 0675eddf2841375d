//! The client as a sans-IO state machine: watches in, requests and notices out.
//!
//! # Life cycle of a channel
//!
//! A channel is one attempt to reach a server, and the call (the stream) that results from it. The
//! driver manages the connection below the call: it may keep the connection and use it for the call
//! of a later channel.
//!
//! ```text
//! Open ─▶ Opened ─▶ (Writable ─▶ poll_transmit, Message)* ─┬▶ Closed, by the driver
//!   │                                                      └▶ Close, by the client
//!   └───▶ Closed (not connected)
//! ```
//!
//! The id of a channel ends with [`ChannelEvent::Closed`] or [`Output::Close`], whichever comes
//! first. No later output names it. On [`Output::Close`] the driver ends the call and has nothing
//! to report. Events that are already on their way may still be reported; they are ignored and
//! counted. Later calls with the id have no effect: `poll_transmit` returns `None` and `wants_read`
//! returns `false`. Ids are never reused.
//!
//! # Events to report
//!
//! | Observed by the driver | Event |
//! |---|---|
//! | connected, and the call started; at once for a polled server or a file | [`Opened`](ChannelEvent::Opened), before response headers |
//! | refused connection, failed name resolution or TLS handshake, timeout | [`Closed`](ChannelEvent::Closed) with [`Unreachable`](ChannelError::Unreachable) |
//! | a complete gRPC message; the body of an HTTP 200 response, converted to protobuf; a file with new content | [`Message`](ChannelEvent::Message) |
//! | a message above the transport's size limit, or one that cannot be decompressed | [`Undeliverable`](ChannelEvent::Undeliverable) |
//! | HTTP 304 | [`Unchanged`](ChannelEvent::Unchanged) |
//! | trailers, or a response of trailers only, before or after the first message | [`Closed`](ChannelEvent::Closed) with [`Status`](ChannelError::Status); code 0 is a regular end |
//! | lost connection, `RST_STREAM`, end without trailers, another HTTP status | [`Closed`](ChannelEvent::Closed) with [`Status`](ChannelError::Status) and the code that gRPC maps it to, such as 14 (`UNAVAILABLE`) |
//! | a file that is missing or cannot be parsed | [`Undeliverable`](ChannelEvent::Undeliverable); the channel stays open |
//!
//! A driver constructs [`ChannelError::Unreachable`] and [`ChannelError::Status`] only. The client
//! constructs all others, and reports them in [`Output::Close`].
//!
//! # Notices
//!
//! The layer between the client and its watchers passes on each [`Output::Notify`] and calls
//! [`Client::handled`] when the watcher has finished with it; for the watch of a wildcard or glob,
//! when [`Client::next_change`] has returned `None` and the last change is finished. With flow
//! control, a watcher that is never reported as handled stops the stream: the next response is read
//! after the notices of the previous one are handled. (Notices that no response caused, such as
//! connection errors, do not hold it back.) Flow control is on by default for a client that is
//! driven directly ([`FlowControl::Unset`]). With [`FlowControl::Off`], which the handles of
//! `xds-handle` use, `handled` need not be called. A watcher that is dropped calls
//! [`Client::unwatch`] instead.
//!
//! # Source layout
//!
//! The folders are layers: each imports only from those below it.
//!
//! ```text
//! *.rs  timeouts/  report/    methods of `Client`
//! upstream/  response/        servers and their streams; processing of responses
//! channel/                    one stream: sent names, nonces, ACKs, accepted versions
//! watch/                      watches, due notices, the queue of outputs
//! subscription/               subscribed names, authorities, does-not-exist timers
//! cache/                      resources of one type, in order of change
//! event/                      inputs, outputs, errors, status
//! resource/                   names and wrappers of encoded resources
//! config/                     settings, resource types
//! ```
//!
//! A response goes from [`Client::handle_event`] through `responses` and `response` into the cache,
//! which marks watches. `notices` builds a notice from the cache when it is polled, and `requests`
//! renders the ACK or NACK when the transport has room. Frames are parsed in `crate::wire` without
//! decoding resources.
//!
//! The public methods in this file are short and dispatch to the other files.

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
pub(crate) mod upstream;
pub(crate) mod verdicts;
pub(crate) mod watch;

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use self::{
    cache::Cache,
    subscription::registered_type::RegisteredType,
    upstream::Upstreams,
    watch::{Watches, outbox::Outbox},
};
pub use self::{
    commands::Interest,
    config::{
        ClientConfig, ClientLimits, Node,
        backoff::BackoffPolicy,
        file::FilePolicy,
        polling::{NewNames, PollAckContents, PollPolicy},
        profile::{
            AckTiming, ConnectivityErrors, DataErrorPolicy, Duplicates, Fallback, Federation,
            FlowControl, NackVersion, Profile, RejectionUnit, ReportedErrors, TimerStart,
            WildcardForm,
        },
        request_rate::{InvalidRequestRate, RequestRate},
        resource_type::{
            CachedResource, OpaqueType, Rejection, ResourceType, ValidationContext, Value,
            VerdictSource,
        },
        server_address::{
            AuthorityConfig, DoesNotExistTimeout, SendNode, ServerAddress, Streams, TransportId,
            TransportKind,
        },
        server_features::{FeatureWarning, ServerFeature, ServerFeatures},
    },
    event::{
        Call, Change, ChannelEvent, Notice, Output, RequestCause, Resource, Transmit, Update,
        error::{
            ChannelError, ErrorCategory, InvalidVerdict, InvalidWatch, WatchError, WatchErrorKind,
        },
        status::{ClientStats, FailedUpdate, ResourceState, ResourceStatus},
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

/// xDS client as a state machine. See the [crate documentation](crate) for how to drive it.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    /// Encoded node, as sent in the first request of every stream.
    node: Vec<u8>,
    clock: Clock,
    rng: Rng,
    types: Vec<RegisteredType>,
    upstreams: Upstreams,
    watches: Watches,
    outbox: Outbox,
    stats: ClientStats,
    is_shut_down: bool,
}

/// Commands of the application.
impl Client {
    /// Creates a client without watches, which opens no connection yet.
    ///
    /// The same configuration, seed and calls produce the same outputs in every process.
    // SB-02
    #[must_use]
    pub fn new(config: ClientConfig, seed: u64, now: Time) -> Self {
        let mut rng = Rng::new(seed);
        let types = config.types.iter().map(|resource_type| RegisteredType {
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

    /// Starts a watch of one resource, of all resources of a type, or of the members of a glob.
    ///
    /// The watcher is notified at once of the cached state: the resource, followed by an ambient
    /// error if there is one, or the reason why there is no resource.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the type is not registered or registered twice,
    /// the name is empty, `*`, too long or an invalid `xdstp` name, the authority is not
    /// configured, neither a server nor a static resource of the type is, a server of a glob does
    /// not use the incremental variant, there are too many watches, or the client is shut down.
    // S3.035
    pub fn watch(
        &mut self,
        type_url: &TypeUrl,
        interest: Interest<'_>,
        now: Time,
    ) -> Result<WatchId, InvalidWatch> {
        let now = self.clock.advance(now);
        self.start_watch(type_url, interest, now)
    }

    /// Adds a resource from the client's own configuration and returns its name. Watchers of its
    /// name and wildcard watchers of its type get it as if a server had sent it. The name is not
    /// requested from servers, and no server can change or delete the resource.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the resource is invalid, or its name is already
    /// watched or cached. Add static resources before starting watches.
    // S4.016-S4.019
    pub fn add_static_resource(
        &mut self,
        type_url: &TypeUrl,
        resource: Bytes,
        now: Time,
    ) -> Result<ResourceName, InvalidStaticResource> {
        let now = self.clock.advance(now);
        self.insert_static_resource(type_url, resource, now)
    }

    /// Ends a watch, without further notices. An unknown id is ignored.
    pub fn unwatch(&mut self, watch: WatchId, now: Time) {
        let now = self.clock.advance(now);
        self.end_watch(watch, now);
    }

    /// Reports that the watcher has handled its last notice, or the last change of a wildcard or
    /// glob watch. With [`FlowControl::On`], the next response is read after all watchers have
    /// handled the notices of the previous one; with [`AckTiming::AfterNotices`], the ACK waits for
    /// it too. With [`FlowControl::Off`] the call may be omitted. An unknown id is ignored.
    // FC-01
    pub fn handled(&mut self, watch: WatchId, now: Time) {
        let now = self.clock.advance(now);
        self.end_notice(watch, now);
    }

    /// Returns the next change for the watch of a wildcard or glob, or `None` once the watch has
    /// caught up. Changes are ordered by the last change of each resource; several changes of one
    /// resource are reported once.
    #[must_use]
    pub fn next_change(&mut self, watch: WatchId) -> Option<Change> {
        self.step_collection(watch)
    }

    /// Gives the verdict on an [`Update`]: the rejected resources with their reasons. All other
    /// resources are used, and the response is ACKed, or NACKed if any of its resources was
    /// rejected or invalid. If further resources of the response have been subscribed since the
    /// update was handed out, another update with these comes first.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the update does not wait for a verdict, or a
    /// rejected resource was not part of it.
    pub fn submit_verdict(
        &mut self,
        update: UpdateId,
        rejected: impl IntoIterator<Item = (ResourceName, Rejection)>,
        now: Time,
    ) -> Result<(), InvalidVerdict> {
        let now = self.clock.advance(now);
        self.apply_verdict(update, rejected.into_iter().collect(), now)
    }

    /// Ends all backoff delays, for use when the network is back: pending attempts to connect start
    /// now, and the next failure starts with the initial delay. Attempts in progress continue, and
    /// at most one channel to each server opens at a time.
    ///
    /// Do not call this periodically: that would disable the backoff, which protects the servers.
    // BO-06
    pub fn reset_backoff(&mut self, now: Time) {
        let now = self.clock.advance(now);
        self.end_backoff_delays(now);
    }

    /// Replaces the node, for example after a change of its metadata or dynamic parameters. Every
    /// open stream sends the new node with its next request; if no request is due, one is sent for
    /// that purpose. Later streams start with the new node. Errors of watches keep naming the
    /// original node id.
    // B12
    pub fn set_node(&mut self, node: Node, now: Time) {
        self.clock.advance(now);
        let encoded = node.encode(&self.config.profile);
        self.config.node = node;
        if self.is_shut_down || encoded == self.node {
            return;
        }
        self.node = encoded;
        for stream_slot in 0..self.upstreams.stream_slots.len() {
            let id = self.upstreams.channel_of_slot(stream_slot);
            if let Some((channel, _)) = id.and_then(|id| self.upstreams.channel_and_server(id)) {
                channel.note_new_node();
            }
        }
        self.signal_writable();
    }

    /// Returns whether the update waits for a verdict. It no longer does once its channel has
    /// ended.
    #[must_use]
    pub fn is_verdict_pending(&self, update: UpdateId) -> bool {
        self.has_pending_verdict(update)
    }

    /// Closes all channels and ends all watches, without notices. The client does nothing
    /// afterwards.
    // SB-17, IC39
    pub fn shut_down(&mut self, now: Time) {
        self.clock.advance(now);
        self.close_all();
    }
}

/// Events of transports and of the clock. These methods cannot fail.
impl Client {
    /// Handles an event of a transport. Events of closed or unknown channels are ignored and
    /// counted.
    pub fn handle_event(&mut self, event: ChannelEvent, now: Time) {
        let now = self.clock.advance(now);
        match event {
            ChannelEvent::Opened(channel) => self.on_opened(channel, now),
            ChannelEvent::Message(channel, frame) => self.on_message(channel, &frame, now),
            ChannelEvent::Undeliverable(channel, why) => {
                self.on_malformed(channel, ChannelError::Undeliverable(why), now);
            }
            ChannelEvent::Unchanged(channel) => self.on_unchanged(channel, now),
            ChannelEvent::Closed(channel, error) => self.on_closed(channel, error, now),
        }
    }

    /// Performs all actions that are due. Calling it early is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.clock.advance(now);
        self.on_timeout(now);
    }
}

/// Actions for the driver.
impl Client {
    /// Returns the next action for the driver.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.next_output()
    }

    /// Renders the next request of a channel into `frame`. Call it when [`Output::Writable`] names
    /// the channel and the transport has room, until it returns `None`. An earlier call is harmless.
    ///
    /// Rendering changes the state of the client: it takes a queued ACK or NACK, marks the current
    /// subscriptions as sent, starts does-not-exist timers at `now`, and removes subscriptions that
    /// the request ends.
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

    /// Returns the time by which [`handle_timeout`](Self::handle_timeout) must be called: now while
    /// outputs are queued, and `None` if nothing is pending.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        if !self.outbox.is_empty() {
            return Some(Deadline { at: self.clock.now(), why: Timer::QueuedOutput });
        }
        self.next_deadline()
    }

    /// Returns whether the next response of the channel should be read from the transport. No
    /// output signals a change of this value. Inputs, [`poll_output`](Self::poll_output) and
    /// [`poll_transmit`](Self::poll_transmit) can all change it, so check it before each wait.
    // B52
    #[must_use]
    pub fn wants_read(&self, channel: ChannelId) -> bool {
        let now = self.clock.now();
        self.upstreams.channel(channel).is_some_and(|channel| channel.wants_read(now))
    }
}

/// Status and counters.
impl Client {
    /// Returns the watches whose notices hold back reading on a channel ([`FlowControl::On`])
    /// until they are [handled](Self::handled), oldest first, each with its type and name. A
    /// wildcard watch has no name.
    pub fn unhandled(
        &self,
        channel: ChannelId,
    ) -> impl Iterator<Item = (WatchId, &TypeUrl, Option<&ResourceName>)> {
        self.watches.ids().filter_map(move |id| {
            let watch = self.watches.get(id).filter(|watch| watch.holds_back(channel))?;
            let known = self.types.get(watch.type_index)?;
            let name = known.watched_name(&watch.target);
            Some((id, known.resource_type.type_url(), name))
        })
    }

    /// Returns the status of all resources that are watched by name, or cached for a wildcard or a
    /// glob, type by type.
    pub fn status(&self) -> impl Iterator<Item = ResourceStatus<'_>> {
        self.types.iter().flat_map(RegisteredType::status)
    }

    /// Returns the part of [`status`](Self::status) for one type; nothing if the type is not registered.
    pub fn status_of_type(&self, type_url: &str) -> impl Iterator<Item = ResourceStatus<'_>> {
        self.registered(type_url).into_iter().flat_map(RegisteredType::status)
    }

    /// Returns the status of one resource, or `None` if it is not part of [`status`](Self::status).
    /// Takes time independent of the number of resources.
    #[must_use]
    pub fn status_of(&self, type_url: &str, name: &str) -> Option<ResourceStatus<'_>> {
        self.registered(type_url)?.status_of(name)
    }

    fn registered(&self, type_url: &str) -> Option<&RegisteredType> {
        self.types.iter().find(|known| known.resource_type.type_url().as_str() == type_url)
    }

    /// Returns the counters of the client.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.stats
    }

    /// Returns the counters of each type at each server.
    pub fn type_stats(&self) -> impl Iterator<Item = TypeStats<'_>> {
        self.upstreams.servers.iter().flat_map(|upstream| {
            let types = self.types.iter().map(|known| known.resource_type.type_url());
            types.zip(&upstream.accepted).enumerate().filter_map(|(index, (type_url, accepted))| {
                upstream.counters.of_type(index, &upstream.name, type_url, accepted.version())
            })
        })
    }

    /// Returns the number of watches.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.watches.len()
    }
}
