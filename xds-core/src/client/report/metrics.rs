//! Metrics of an xDS client.
//!
//! The instruments and labels are those of
//! [gRFC A78](https://github.com/grpc/proposal/blob/master/A78-grpc-metrics-wrr-pf-xds.md) and
//! [gRFC A88](https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md).
//!
//! Call [`Client::metrics`] once per scrape. It iterates over all cached resources to count them by
//! state.
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
//! # let config = ClientConfig::new(Node::new("n"), ServerAddress::new("sim"))
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
// B45

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use crate::{
    client::{
        Client,
        config::Federation,
        event::status::ResourceState,
        upstream::{
            Connection,
            counters::{Health, TypeStats},
        },
    },
    proto::ClientResourceStatus,
    text::TypeUrl,
};

/// Receiver of measurements, implemented for a metrics library.
///
/// Labels are pairs of name and value, always in the same order for an instrument. A gauge series
/// that is missing from an export no longer exists. Counter series never disappear.
pub trait MetricsExporter {
    /// Records the total of a counter since the creation of the client.
    fn counter(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], total: u64);

    /// Records the current value of a gauge.
    fn gauge(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], value: u64);
}

/// Measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Instrument {
    /// Gauge, by server: 1 once a stream was created, 0 after a failure without a response, 1 again
    /// with the next response. Not exported for servers that are not in use.
    // CM-12
    Connected,
    /// Counter, by server: number of times that the server became unhealthy.
    // CM-11
    ServerFailure,
    /// Counter, by server and type: valid resources received, changed or unchanged.
    // CM-10
    ResourceUpdatesValid,
    /// Counter, by server and type: rejected resources, including those whose name is unknown.
    // CM-10
    ResourceUpdatesInvalid,
    /// Gauge, by authority, cache state and type: number of watched resources.
    // CM-13
    Resources,
}

impl Instrument {
    /// All instruments.
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

    /// Returns the unit in UCUM notation.
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

    /// Returns a description of one sentence.
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

/// State of a resource in the cache: the values of the label `grpc.xds.cache_state`.
// S3.070
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CacheState {
    /// Subscribed, not received yet.
    Requested,
    /// Deleted, or not received in time.
    DoesNotExist,
    /// Deleted, while the last version stays in use.
    // S3.072
    DoesNotExistButCached,
    /// Received and valid.
    Acked,
    /// Rejected, with no version in use.
    Nacked,
    /// Newest version rejected, while the last valid one stays in use.
    NackedButCached,
    /// Error reported by the server, with no version in use.
    // S3.073
    ReceivedError,
    /// Error reported by the server, while the last version stays in use.
    // S3.074
    ReceivedErrorButCached,
    /// Timed out at a server that reports resources that do not exist.
    // S3.071
    Timeout,
}

impl CacheState {
    /// Returns the label's value.
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

    fn of(state: ResourceState, is_cached: bool) -> Self {
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

/// Snapshot of all metrics of a client.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    servers: Vec<ServerSample>,
    updates: Vec<UpdateSample>,
    resources: Vec<ResourceSample>,
}

#[derive(Clone, Debug)]
struct ServerSample {
    server: Arc<str>,
    /// `None` for a server that is not in use.
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
    /// Passes all measurements to `exporter`. `target` is the gRPC target of the client, or
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
    /// Returns the current values of all metrics. The sum of [`Instrument::Resources`] is the
    /// number of resources in [`status`](Self::status).
    // IC32
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            servers: self.count_servers(),
            updates: self.count_updates(),
            resources: self.count_resources(),
        }
    }

    /// Counts the servers by URI, their only label: servers with the same URI share a series. It is
    /// connected if any of them is.
    fn count_servers(&self) -> Vec<ServerSample> {
        let mut samples = Merged::default();
        for (position, upstream) in self.upstreams.servers.iter().enumerate() {
            let connected = match upstream.counters.health() {
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
            sample.failures += upstream.counters.failures();
        }
        samples.samples
    }

    fn count_updates(&self) -> Vec<UpdateSample> {
        let mut samples = Merged::default();
        // No series for a type before its first response.
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

    /// Returns whether the server has an open stream or a subscription needs it.
    fn is_in_use(&self, position: usize) -> bool {
        let has_stream = self.upstreams.stream_slots.iter().any(|stream_slot| {
            stream_slot.upstream == position
                && matches!(stream_slot.connection, Connection::Open(_))
        });
        let Some(server) = self.upstreams.servers.get(position) else { return false };
        let mut types = self.types.iter().enumerate();
        has_stream || types.any(|(at, known)| known.interest.is_subscribed_in(server.scopes.of(at)))
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
                // Under a wildcard, the server chooses the names and must not create unlimited
                // series.
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

/// Samples merged by label, in the order in which the labels first occurred.
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
        #[expect(clippy::indexing_slicing, reason = "each position is that of a sample")]
        let sample = &mut self.samples[position];
        sample
    }
}

/// Maximum number of authorities of one type with series of their own.
const MAX_AUTHORITIES: usize = 100;

/// Label value for names without an authority.
const OLD_STYLE: &str = "#old";

/// Label value for all authorities beyond [`MAX_AUTHORITIES`].
const OTHER_AUTHORITIES: &str = "#other";

/// Returns the authority label of a name; the authority may be empty. Names in the cache are
/// canonical, so they need no parsing.
fn authority_label(name: &str) -> &str {
    match name.strip_prefix("xdstp://") {
        Some(rest) => rest.split(['/', '?']).next().unwrap_or_default(),
        None => OLD_STYLE,
    }
}

#[cfg(test)]
mod tests {
    use crate::client::report::metrics::*;

    #[test]
    fn authority_label_is_the_authority_of_xdstp_names_only() {
        assert_eq!(authority_label("web"), "#old");
        assert_eq!(
            authority_label("xdstp://a.example/envoy.config.cluster.v3.Cluster/web"),
            "a.example"
        );
        assert_eq!(authority_label("xdstp:///envoy.config.cluster.v3.Cluster/web"), "");
        assert_eq!(authority_label("xdstp:web"), "#old");
    }
}
