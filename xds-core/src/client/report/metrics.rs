//! The five instruments of gRFC A78, with A88's cache states, for whatever collects them (B45).
//!
//! A client counts anyway; nothing here costs anything until [`Client::metrics`] is called, which is
//! once per scrape. It walks all entries to count them by state.
//!
//! ```
//! use xds_core::client::{Instrument, MetricsExporter};
//!
//! /// One line per measurement.
//! struct Lines(Vec<String>);
//!
//! impl MetricsExporter for Lines {
//!     fn counter(&mut self, what: Instrument, labels: &[(&'static str, &str)], total: u64) {
//!         self.0.push(format!("{} {labels:?} {total}", what.name()));
//!     }
//!
//!     fn gauge(&mut self, what: Instrument, labels: &[(&'static str, &str)], value: u64) {
//!         self.counter(what, labels, value);
//!     }
//! }
//!
//! # use xds_core::{Client, Time, TypeUrl, client::*, types};
//! # let config = ClientConfig::new(Node::new("n"), ManagementServer::new("sim"))
//! #     .with_type(OpaqueType::new(types::CLUSTER));
//! # let mut client = Client::new(config, 1, Time::ZERO);
//! client.watch(&TypeUrl::from(types::CLUSTER), Interest::Name("web"), Time::ZERO)?;
//! let mut lines = Lines(Vec::new());
//! client.metrics().export("xds:///web", &mut lines);
//! assert_eq!(
//!     lines.0.last().map(String::as_str),
//!     Some(concat!(
//!         "grpc.xds_client.resources [(\"grpc.target\", \"xds:///web\"), ",
//!         "(\"grpc.xds.authority\", \"#old\"), (\"grpc.xds.cache_state\", \"requested\"), ",
//!         "(\"grpc.xds.resource_type\", \"envoy.config.cluster.v3.Cluster\")] 1",
//!     ))
//! );
//! # Ok::<(), InvalidWatch>(())
//! ```

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use crate::{
    client::{
        Client,
        config::Federation,
        event::status::EntryState,
        upstream::{
            Link,
            counters::{Health, TypeStats},
        },
    },
    proto::ClientResourceStatus,
    text::TypeUrl,
};

/// Takes measurements to whatever collects them.
///
/// Labels are pairs of name and value, always in the same order for an instrument. A gauge that was
/// told before and no longer is has ceased to exist: nothing is in that state any more. A counter that
/// was told once always is.
pub trait MetricsExporter {
    /// A number that only grows: the total since the client was made.
    fn counter(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], total: u64);

    /// A number as it is now.
    fn gauge(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], value: u64);
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Instrument {
    /// Gauge, by server: 1 once a stream was created, 0 after a failure without a response, 1 again
    /// with the next response (CM-12). Not told of a server that is not in use.
    Connected,
    /// Counter, by server: how often it went from working to not working (CM-11).
    ServerFailure,
    /// Counter, by server and type: resources that were valid, changed or not (CM-10).
    ResourceUpdatesValid,
    /// Counter, by server and type: resources that were rejected, whether their name is known or
    /// not (CM-10).
    ResourceUpdatesInvalid,
    /// Gauge, by authority, cache state and type: watched resources (CM-13).
    Resources,
}

impl Instrument {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Connected,
        Self::ServerFailure,
        Self::ResourceUpdatesValid,
        Self::ResourceUpdatesInvalid,
        Self::Resources,
    ];

    /// The instrument's name in gRFC A78.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connected => "grpc.xds_client.connected",
            Self::ServerFailure => "grpc.xds_client.server_failure",
            Self::ResourceUpdatesValid => "grpc.xds_client.resource_updates_valid",
            Self::ResourceUpdatesInvalid => "grpc.xds_client.resource_updates_invalid",
            Self::Resources => "grpc.xds_client.resources",
        }
    }

    /// What is counted, in the notation of UCUM.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Connected => "{bool}",
            Self::ServerFailure => "{failure}",
            Self::ResourceUpdatesValid | Self::ResourceUpdatesInvalid | Self::Resources => {
                "{resource}"
            }
        }
    }

    /// What it means, in a sentence.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Connected => "Whether the xDS client has a working stream to the xDS server.",
            Self::ServerFailure => "How often the xDS server went from healthy to unhealthy.",
            Self::ResourceUpdatesValid => {
                "Resources received that were valid, whether they changed or not."
            }
            Self::ResourceUpdatesInvalid => "Resources received that were invalid.",
            Self::Resources => "Resources that the xDS client watches.",
        }
    }
}

/// How a resource stands in the cache: the values of the label `grpc.xds.cache_state` (S3.070).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CacheState {
    /// Subscribed, not received.
    Requested,
    /// Not received in time, or deleted.
    DoesNotExist,
    /// Deleted, though the last one stays in use (S3.072).
    DoesNotExistButCached,
    /// Received and valid.
    Acked,
    /// Invalid, and nothing is in use.
    Nacked,
    /// Invalid, and the last valid one stays in use.
    NackedButCached,
    /// The server sent an error instead (S3.073).
    ReceivedError,
    /// The server sent an error instead, and the last resource stays in use (S3.074).
    ReceivedErrorButCached,
    /// Not received in time from a server whose silence is taken for trouble (S3.071).
    Timeout,
}

impl CacheState {
    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::DoesNotExist => "does_not_exist",
            Self::DoesNotExistButCached => "does_not_exist_but_cached",
            Self::Acked => "acked",
            Self::Nacked => "nacked",
            Self::NackedButCached => "nacked_but_cached",
            Self::ReceivedError => "received_error",
            Self::ReceivedErrorButCached => "received_error_but_cached",
            Self::Timeout => "timeout",
        }
    }

    fn of(state: EntryState, is_cached: bool) -> Self {
        match (ClientResourceStatus::from(state), is_cached) {
            (ClientResourceStatus::Unknown | ClientResourceStatus::Requested, _) => Self::Requested,
            (ClientResourceStatus::DoesNotExist, false) => Self::DoesNotExist,
            (ClientResourceStatus::DoesNotExist, true) => Self::DoesNotExistButCached,
            (ClientResourceStatus::Acked, _) => Self::Acked,
            (ClientResourceStatus::Nacked, false) => Self::Nacked,
            (ClientResourceStatus::Nacked, true) => Self::NackedButCached,
            (ClientResourceStatus::ReceivedError, false) => Self::ReceivedError,
            (ClientResourceStatus::ReceivedError, true) => Self::ReceivedErrorButCached,
            (ClientResourceStatus::Timeout, _) => Self::Timeout,
        }
    }
}

/// All measurements of one moment.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    servers: Vec<ServerSample>,
    updates: Vec<UpdateSample>,
    resources: Vec<ResourceSample>,
}

#[derive(Clone, Debug)]
struct ServerSample {
    server: Arc<str>,
    /// `None` of a server that is not in use.
    connected: Option<u64>,
    failures: u64,
}

#[derive(Clone, Debug)]
struct UpdateSample {
    server: Arc<str>,
    type_url: TypeUrl,
    valid: u64,
    invalid: u64,
}

#[derive(Clone, Debug)]
struct ResourceSample {
    authority: Arc<str>,
    state: CacheState,
    type_url: TypeUrl,
    count: u64,
}

const TARGET: &str = "grpc.target";
const SERVER: &str = "grpc.xds.server";
const AUTHORITY: &str = "grpc.xds.authority";
const CACHE_STATE: &str = "grpc.xds.cache_state";
const RESOURCE_TYPE: &str = "grpc.xds.resource_type";

impl Metrics {
    /// Hands out all measurements. `target` is what the client was made for, as a gRPC target, or
    /// `#server` for a client that configures a server.
    pub fn export(&self, target: &str, exporter: &mut dyn MetricsExporter) {
        for ServerSample { server, connected, failures } in &self.servers {
            let labels = [(TARGET, target), (SERVER, &**server)];
            if let Some(connected) = connected {
                exporter.gauge(Instrument::Connected, &labels, *connected);
            }
            exporter.counter(Instrument::ServerFailure, &labels, *failures);
        }
        for UpdateSample { server, type_url, valid, invalid } in &self.updates {
            let kind = (RESOURCE_TYPE, type_url.message_name());
            let labels = [(TARGET, target), (SERVER, &**server), kind];
            exporter.counter(Instrument::ResourceUpdatesValid, &labels, *valid);
            exporter.counter(Instrument::ResourceUpdatesInvalid, &labels, *invalid);
        }
        for ResourceSample { authority, state, type_url, count } in &self.resources {
            let labels = [
                (TARGET, target),
                (AUTHORITY, &**authority),
                (CACHE_STATE, state.as_str()),
                (RESOURCE_TYPE, type_url.message_name()),
            ];
            exporter.gauge(Instrument::Resources, &labels, *count);
        }
    }
}

impl Client {
    /// Everything that is measured, as it is now. The sum of [`Instrument::Resources`] is the number
    /// of resources in [`status`](Self::status) (IC32).
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            servers: self.count_servers(),
            updates: self.count_updates(),
            resources: self.count_resources(),
        }
    }

    /// Servers that differ in what is relied on, but not in their URI, share a series: it has no other
    /// label. Such a one is connected if any of them is.
    fn count_servers(&self) -> Vec<ServerSample> {
        let mut samples = Merged::default();
        for (position, upstream) in self.upstreams.servers.iter().enumerate() {
            let connected = match upstream.tally.health() {
                Health::Working if self.is_in_use(position) => Some(1),
                Health::Failing if self.is_in_use(position) => Some(0),
                Health::Untried | Health::Working | Health::Failing => None,
            };
            let sample = samples.of(&*upstream.name, || ServerSample {
                server: Arc::clone(&upstream.name),
                connected: None,
                failures: 0,
            });
            sample.connected = sample.connected.max(connected);
            sample.failures += upstream.tally.failures();
        }
        samples.samples
    }

    fn count_updates(&self) -> Vec<UpdateSample> {
        let mut samples = Merged::default();
        // A type of which nothing was received has no series yet.
        let is_heard_of = |stats: &TypeStats<'_>| stats.accepted + stats.rejected > 0;
        for stats in self.type_stats().filter(is_heard_of) {
            let labels = (stats.server, stats.type_url.message_name());
            let sample = samples.of(labels, || UpdateSample {
                server: Arc::from(stats.server),
                type_url: stats.type_url.clone(),
                valid: 0,
                invalid: 0,
            });
            sample.valid += stats.resources_valid;
            sample.invalid += stats.resources_invalid;
        }
        samples.samples
    }

    /// Whether there is a stream to the server, or one is wanted.
    fn is_in_use(&self, position: usize) -> bool {
        let has_stream = self
            .upstreams
            .lanes
            .iter()
            .any(|lane| lane.upstream == position && matches!(lane.link, Link::Open(_)));
        let Some(server) = self.upstreams.servers.get(position) else { return false };
        let mut types = self.types.iter().enumerate();
        has_stream || types.any(|(at, known)| known.interest.is_wanted_in(server.serves.of(at)))
    }

    fn count_resources(&self) -> Vec<ResourceSample> {
        let mut samples = Vec::new();
        for known in &self.types {
            let mut authorities = BTreeMap::<&str, BTreeMap<CacheState, u64>>::new();
            for (_, entry) in known.cache.iter().filter(|(_, entry)| known.covers(entry)) {
                let mut authority = match self.config.profile.federation {
                    Federation::On => authority_label(entry.name.as_str()),
                    Federation::Off => OLD_STYLE,
                };
                // Under a wildcard it is the server that makes up names. It must not fill whatever
                // stores the measurements with series.
                if authorities.len() >= MAX_AUTHORITIES && !authorities.contains_key(authority) {
                    authority = OTHER_AUTHORITIES;
                }
                let state = CacheState::of(entry.state, entry.bytes.is_some());
                *authorities.entry(authority).or_default().entry(state).or_default() += 1;
            }
            let type_url = known.resource_type.type_url();
            samples.extend(authorities.into_iter().flat_map(|(authority, states)| {
                states.into_iter().map(move |(state, count)| ResourceSample {
                    authority: Arc::from(authority),
                    state,
                    type_url: type_url.clone(),
                    count,
                })
            }));
        }
        samples
    }
}

/// Samples in the order in which their labels first came up, one for each.
#[derive(Debug)]
struct Merged<L, S> {
    samples: Vec<S>,
    positions: BTreeMap<L, usize>,
}

impl<L, S> Default for Merged<L, S> {
    fn default() -> Self {
        Self { samples: Vec::new(), positions: BTreeMap::new() }
    }
}

impl<L: Ord, S> Merged<L, S> {
    fn of(&mut self, labels: L, empty: impl FnOnce() -> S) -> &mut S {
        let position = *self.positions.entry(labels).or_insert_with(|| {
            self.samples.push(empty());
            self.samples.len() - 1
        });
        &mut self.samples[position]
    }
}

/// How many authorities of one type are told apart.
const MAX_AUTHORITIES: usize = 100;

/// Names that have no authority because they are of the old style.
const OLD_STYLE: &str = "#old";

/// Names whose authority is one too many.
const OTHER_AUTHORITIES: &str = "#other";

/// The value of the label for a name's authority, which may be empty. Names in the cache are canonical,
/// so the text tells without being parsed.
fn authority_label(name: &str) -> &str {
    match name.strip_prefix("xdstp://") {
        Some(rest) => rest.split(['/', '?']).next().unwrap_or_default(),
        None => OLD_STYLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_those_of_new_style_names() {
        assert_eq!(authority_label("web"), "#old");
        assert_eq!(
            authority_label("xdstp://a.example/envoy.config.cluster.v3.Cluster/web"),
            "a.example"
        );
        assert_eq!(authority_label("xdstp:///envoy.config.cluster.v3.Cluster/web"), "");
        assert_eq!(authority_label("xdstp:web"), "#old");
    }
}
