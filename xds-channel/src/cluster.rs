//! Connections of one cluster, as requested by its balancer.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::uri::{Authority, Scheme};
use tokio::sync::{mpsc, watch};
use xds_core::{ResourceName, Time};
use xds_grpc::{clock::Clock, load_reports::LoadReports, runtime::Task};
use xds_routing::{
    Random,
    balancer::{
        Balancer, BalancerOutput, ConnectionEvent, ConnectionId, ConnectorId, LoadRecorder,
        LoadSource, Picker, SessionRequest, leaves,
    },
    dependencies::{ClusterConfiguration, ResolvedClusters},
    router::Failure,
};

use crate::{
    certificates::Providers,
    counters::ProcessCounters,
    dial::{Dial, DialEvent},
    endpoint::EndpointConnection,
    events::DriverEvent,
    load::{LoadRules, LoadWatch},
    load_reports::ClusterLoad,
    options::ChannelOptions,
    tls::ClusterTls,
};

/// State of a cluster for calls.
#[derive(Clone, Debug)]
pub(crate) enum ClusterState {
    /// Unknown yet: calls wait.
    Unknown,
    /// Calls fail.
    Failing(Failure),
    /// Calls pick an endpoint.
    Picking(Arc<Picking>),
}

/// Picker and the connections that it picks from.
#[derive(Debug)]
pub(crate) struct Picking {
    pub(crate) picker: Picker,
    pub(crate) connections: Connections,
    /// Serial number of the cluster, for requests of calls.
    pub(crate) serial: u64,
    /// For error messages.
    pub(crate) cluster: Arc<ClusterConfiguration>,
    /// `None` if load is not reported.
    pub(crate) load: Option<Arc<ClusterLoad>>,
}

type Connections = Arc<BTreeMap<ConnectionId, EndpointConnection>>;

/// Cluster that routes or calls use.
pub(crate) struct Cluster {
    name: ResourceName,
    /// Number that distinguishes it from an earlier cluster of the same name, whose connection ids
    /// began at the same value.
    serial: u64,
    balancer: Balancer,
    dial: Dial,
    /// Authority of the streams of endpoints' load reports.
    authority: Authority,
    /// For the backoff of these streams.
    random: Random,
    /// Load reports to the management server.
    loads: Option<LoadReports>,
    clock: Clock,
    /// TLS settings of the leaf clusters (gRFC A75), by number.
    tls_settings: TlsSettings,
    providers: Arc<Providers>,
    events: mpsc::UnboundedSender<DriverEvent>,
    /// Configuration for error messages if the picker chooses no cluster; `None` while calls fail.
    configuration: Option<Arc<ClusterConfiguration>>,
    /// Leaf clusters: the clusters whose endpoints receive the calls.
    leaves: Vec<Arc<ClusterConfiguration>>,
    picker: Option<Picker>,
    connections: Connections,
    /// Attempts to connect. Dropping one ends it.
    dials: BTreeMap<ConnectionId, (Task, Scheme)>,
    /// Streams of load reports, with their settings. Dropping one ends it.
    load_watches: BTreeMap<ConnectionId, (LoadRules, Task)>,
    state: watch::Sender<ClusterState>,
}

impl Cluster {
    pub(crate) fn new(
        name: &ResourceName,
        authority: &Authority,
        options: &ChannelOptions,
        providers: &Arc<Providers>,
        clock: &Clock,
        seed: u64,
        events: mpsc::UnboundedSender<DriverEvent>,
    ) -> Self {
        let dial = Dial {
            runtime: options.runtime.clone(),
            timeout: options.connect_timeout,
            host: authority.host().into(),
            tls: None,
        };
        Self {
            name: name.clone(),
            serial: next_serial(),
            balancer: Balancer::new(options.times, seed).with_counters(Arc::new(ProcessCounters)),
            dial,
            authority: authority.clone(),
            loads: options.load_reports.clone(),
            random: Random::new(!seed),
            clock: clock.clone(),
            tls_settings: TlsSettings::default(),
            providers: Arc::clone(providers),
            events,
            configuration: None,
            leaves: Vec::new(),
            picker: None,
            connections: Arc::default(),
            dials: BTreeMap::new(),
            load_watches: BTreeMap::new(),
            state: watch::Sender::new(ClusterState::Unknown),
        }
    }

    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    pub(crate) fn state(&self) -> watch::Receiver<ClusterState> {
        self.state.subscribe()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.balancer.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.balancer.handle_timeout(now);
            self.process_outputs();
        }
    }

    /// Applies the known configuration of the cluster.
    pub(crate) fn configure(&mut self, clusters: &ResolvedClusters, now: Time) {
        // A cluster that only calls have kept may not be subscribed again yet, although it is
        // needed again.
        if !clusters.by_name().contains_key(&self.name) {
            return;
        }
        let cluster = match clusters.cluster(&self.name) {
            Ok(cluster) => Arc::clone(cluster),
            Err(failure) => return self.fail(failure, now),
        };
        let leaves = leaves(clusters, &cluster);
        let is_same = |(new, old): (&&Arc<_>, &Arc<_>)| Arc::ptr_eq(new, old);
        let is_news = self.configuration.is_none()
            || leaves.len() != self.leaves.len()
            || !leaves.iter().zip(&self.leaves).all(is_same);
        if !is_news {
            return;
        }
        self.leaves = leaves.iter().map(|leaf| Arc::clone(leaf)).collect();
        let before = core::mem::take(&mut self.tls_settings.known);
        let way = |leaf: &ClusterConfiguration| {
            let context = leaf.cluster.tls.as_ref();
            let tls = context.map(|it| ClusterTls::new(it, &self.providers)).transpose();
            let cluster = &leaf.cluster.name;
            let tls = tls.map_err(|why| format!("cluster `{cluster}` requires TLS, but {why}"))?;
            Ok(self.tls_settings.number(tls, &before))
        };
        match self.balancer.configure(clusters, &self.name, way, now) {
            Ok(()) => {
                // Error messages refer to a leaf.
                self.configuration = Some(Arc::clone(leaves.last().copied().unwrap_or(&cluster)));
                self.process_outputs();
            }
            Err(failure) => self.fail(failure, now),
        }
    }

    /// Fails calls and closes connections. Active calls continue.
    fn fail(&mut self, failure: Failure, now: Time) {
        self.configuration = None;
        self.balancer.clear(now);
        self.process_outputs();
        self.state.send_replace(ClusterState::Failing(failure));
    }

    /// Handles an event of a connection. [`process_outputs`](Self::process_outputs) applies it.
    pub(crate) fn handle_connection(&mut self, id: ConnectionId, event: DialEvent, now: Time) {
        let event = match event {
            DialEvent::Connected(requests, address) => {
                // The attempt was aborted meanwhile. Dropping the connection closes it.
                let Some((_, scheme)) = self.dials.remove(&id) else { return };
                let connected = ConnectionEvent::Connected((*address).clone());
                let connection = EndpointConnection::new(requests, scheme, address);
                Arc::make_mut(&mut self.connections).insert(id, connection);
                connected
            }
            DialEvent::Failed(why) => {
                tracing::debug!(cluster = %self.name, %why, "cannot connect to an endpoint");
                self.dials.remove(&id);
                ConnectionEvent::Failed(why)
            }
            DialEvent::Closed => {
                self.load_watches.remove(&id);
                Arc::make_mut(&mut self.connections).remove(&id);
                ConnectionEvent::Closed
            }
        };
        self.balancer.handle_connection(id, event, now);
    }

    /// Handles the request of a call of a session. [`process_outputs`](Self::process_outputs) applies
    /// it.
    pub(crate) fn handle_session(&mut self, request: &SessionRequest, now: Time) {
        self.balancer.handle_session(request, now);
    }

    /// Processes the outputs of the balancer, then updates the state for calls.
    pub(crate) fn process_outputs(&mut self) {
        while let Some(output) = self.balancer.poll_output() {
            match output {
                BalancerOutput::Connect(id, way, addresses) => {
                    let (cluster, serial) = (self.name.clone(), self.serial);
                    let sender = self.events.clone();
                    let report = move |event| {
                        let cluster = cluster.clone();
                        let _ = sender.send(DriverEvent::Connection { cluster, serial, id, event });
                    };
                    let Some(tls) = self.tls_settings.tls(way) else {
                        // Never connect with less protection than requested.
                        report(DialEvent::Failed(
                            "the TLS settings of the cluster have changed".into(),
                        ));
                        continue;
                    };
                    let scheme = if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
                    let dial = Dial { tls, ..self.dial.clone() };
                    self.dials.insert(id, (dial.start(addresses, report), scheme));
                }
                BalancerOutput::Disconnect(id) => {
                    self.dials.remove(&id);
                    // Active calls continue. The connection ends with the last one.
                    Arc::make_mut(&mut self.connections).remove(&id);
                }
                BalancerOutput::Pick(picker) => self.picker = Some(picker),
                _ => {}
            }
        }
        self.watch_loads();
        let (Some(picker), Some(configuration)) = (&self.picker, &self.configuration) else {
            return;
        };
        let of_picker =
            self.leaves.iter().find(|leaf| Some(&leaf.cluster.name) == picker.cluster());
        let (cluster, picker) = (Arc::clone(of_picker.unwrap_or(configuration)), picker.clone());
        let connections = Arc::clone(&self.connections);
        let loads = self.loads.as_ref();
        let load = loads.and_then(|loads| ClusterLoad::new(loads, &cluster.cluster, &picker));
        let picking =
            Picking { picker, connections, serial: self.serial, cluster, load: load.map(Arc::new) };
        self.state.send_replace(ClusterState::Picking(Arc::new(picking)));
    }

    /// Starts and ends streams of load reports, so that there is one on each connection that gets
    /// calls if the policy needs them.
    fn watch_loads(&mut self) {
        let picker = self.picker.as_ref();
        let rules = picker.and_then(|picker| match picker.loads() {
            Some(LoadSource::Stream(interval)) => {
                Some(LoadRules { interval, metrics: picker.load_metrics().to_vec() })
            }
            _ => None,
        });
        let picked = rules.as_ref().and(picker).into_iter().flat_map(Picker::connections);
        let wanted: BTreeMap<ConnectionId, LoadRecorder> = picked.collect();
        self.load_watches
            .retain(|id, (by, _)| Some(&*by) == rules.as_ref() && wanted.contains_key(id));
        let Some(rules) = rules else { return };
        for (id, recorder) in wanted {
            let Some(connection) = self.connections.get(&id) else { continue };
            if connection.lacks_load_reports.load(Ordering::Relaxed) {
                continue;
            }
            self.load_watches.entry(id).or_insert_with(|| {
                let clock = self.clock.clone();
                let watch = LoadWatch {
                    runtime: self.dial.runtime.clone(),
                    connection: connection.clone(),
                    authority: self.authority.clone(),
                    rules: rules.clone(),
                    random: Random::new(self.random.next_u64()),
                };
                (rules.clone(), watch.start(move |load| recorder.record(&load, clock.now())))
            });
        }
    }
}

/// Returns a number that is unique in the process.
fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// TLS settings by number. Settings requested again keep their number, so that their connections
/// are kept. A number is never reused.
#[derive(Debug, Default)]
struct TlsSettings {
    known: KnownTls,
    /// Last number assigned.
    last: u32,
}

type KnownTls = BTreeMap<ConnectorId, Option<ClusterTls>>;

impl TlsSettings {
    /// Returns the number of the settings, the same as before if they are known.
    fn number(&mut self, tls: Option<ClusterTls>, before: &KnownTls) -> ConnectorId {
        let mut all = self.known.iter().chain(before);
        let way = all.find_map(|(way, known)| (*known == tls).then_some(*way));
        let way = way.unwrap_or_else(|| {
            self.last = self.last.saturating_add(1);
            ConnectorId(self.last)
        });
        self.known.insert(way, tls);
        way
    }

    /// Returns the settings of a number; `None` if they are no longer used.
    fn tls(&self, way: ConnectorId) -> Option<Option<ClusterTls>> {
        self.known.get(&way).cloned()
    }
}
