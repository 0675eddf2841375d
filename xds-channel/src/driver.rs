//! Driver task of a channel: receives configurations, updates routes and pickers.

use core::future::pending;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};

use http::uri::Authority;
use tokio::{
    select,
    sync::{mpsc, watch},
};
use xds_core::ResourceName;
use xds_grpc::clock::Clock;
use xds_handle::ClientHandle;
use xds_routing::{
    Random,
    dependencies::{Configuration, DependencyManager, HandleDependencies, ResolvedClusters},
};

use crate::{
    certificates::{Provider, Providers},
    cluster::Cluster,
    events::DriverEvent,
    options::ChannelOptions,
    routing::{ClusterRef, Routing, RoutingTable},
    status,
    unsupported::UnsupportedFeatures,
};

/// Maximum number of events handled at once.
const MAX_EVENTS: usize = 1024;

pub(crate) struct Driver {
    dependencies: HandleDependencies,
    options: ChannelOptions,
    providers: Arc<Providers>,
    clock: Clock,
    random: Random,
    clusters: BTreeMap<ResourceName, (Cluster, Weak<ClusterRef>)>,
    unsupported: UnsupportedFeatures,
    /// Authority of the channel.
    authority: Authority,
    node_id: Arc<str>,
    routing: watch::Sender<Routing>,
    events: mpsc::UnboundedReceiver<DriverEvent>,
    event_sender: mpsc::UnboundedSender<DriverEvent>,
}

impl Driver {
    pub(crate) fn new(
        manager: DependencyManager,
        client: ClientHandle,
        authority: &Authority,
        options: ChannelOptions,
        seed: u64,
    ) -> (Self, watch::Receiver<Routing>) {
        let (routing, watched) = watch::channel(Routing::Unknown);
        let (event_sender, events) = mpsc::unbounded_channel();
        let files = options.certificate_providers.iter();
        let runtime = options.runtime.clone();
        let provider = |files| Provider::new(files, runtime.clone());
        let providers = files.map(|(name, files)| (name.clone(), provider(files.clone())));
        let driver = Self {
            dependencies: HandleDependencies::new(manager, client),
            providers: Arc::new(providers.collect()),
            node_id: options.node_id.as_str().into(),
            unsupported: UnsupportedFeatures::of_channel(options.load_reports.is_some()),
            options,
            clock: Clock::start(runtime.clone()),
            random: Random::new(seed ^ 1),
            clusters: BTreeMap::new(),
            authority: authority.clone(),
            routing,
            events,
            event_sender,
        };
        (driver, watched)
    }

    /// Runs until the last channel handle is dropped or the client has ended.
    pub(crate) async fn run(mut self) {
        let mut events = Vec::new();
        loop {
            let due =
                self.clusters.values().filter_map(|(cluster, _)| cluster.poll_timeout()).min();
            let due = async {
                match due {
                    Some(due) => self.clock.sleep_until(due).await,
                    None => pending().await,
                }
            };
            select! {
                biased;
                () = self.routing.closed() => return,
                configuration = self.dependencies.next() => match configuration {
                    Some(Ok(configuration)) => self.configure(&configuration),
                    Some(Err(why)) => {
                        let clusters = self.dependencies.manager().clusters();
                        self.fail(&why.message(clusters.note()));
                        self.configure_clusters(&clusters);
                    }
                    None => {
                        let clusters = self.dependencies.manager().clusters();
                        self.fail(&status::with_note("the xDS client has ended", clusters.note()));
                        return;
                    }
                },
                _ = self.events.recv_many(&mut events, MAX_EVENTS) => self.handle(&mut events),
                () = due => {
                    let now = self.clock.now();
                    self.clusters.values_mut().for_each(|(cluster, _)| cluster.handle_timeout(now));
                }
            }
        }
    }

    fn fail(&self, why: &str) {
        self.routing.send_replace(Routing::Failing(Arc::from(why)));
    }

    /// Applies a configuration: clusters first, so that routes never refer to a missing cluster.
    fn configure(&mut self, configuration: &Configuration) {
        self.warn_unsupported(configuration);
        let router = configuration.router();
        let mut cluster_refs = BTreeMap::new();
        for name in router.clusters() {
            let cluster_ref = self.cluster_ref(&name);
            cluster_refs.insert(name, cluster_ref);
        }
        self.configure_clusters(configuration.resolved_clusters());
        let note = configuration.resolved_clusters().note().clone();
        let table = RoutingTable { router, clusters: cluster_refs, note };
        self.routing.send_replace(Routing::Known(Arc::new(table)));
    }

    /// Warns about unsupported features when a configuration starts to request them.
    fn warn_unsupported(&mut self, configuration: &Configuration) {
        let (routes, host) = (configuration.routes(), configuration.virtual_host());
        let clusters = configuration.clusters().values().filter_map(|known| known.as_ref().ok());
        for request in self.unsupported.renew(routes, host, clusters.map(|known| &*known.cluster)) {
            let consequence = request.feature().consequence();
            tracing::warn!(%request, consequence, "the configuration requests a feature that channels do not support");
        }
    }

    /// Applies cluster configurations. Active calls may need clusters without routes.
    fn configure_clusters(&mut self, clusters: &ResolvedClusters) {
        let now = self.clock.now();
        for (cluster, _) in self.clusters.values_mut() {
            cluster.configure(clusters, now);
        }
    }

    fn cluster_ref(&mut self, name: &ResourceName) -> Arc<ClusterRef> {
        let known = self.clusters.get(name);
        if let Some(cluster_ref) = known.and_then(|(_, cluster_ref)| cluster_ref.upgrade()) {
            return cluster_ref;
        }
        self.dependencies.subscribe(name);
        let (cluster, weak) = self.clusters.entry(name.clone()).or_insert_with(|| {
            let seed = self.random.next_u64();
            let events = self.event_sender.clone();
            let cluster = Cluster::new(
                name,
                &self.authority,
                &self.options,
                &self.providers,
                &self.clock,
                seed,
                events,
            );
            (cluster, Weak::new())
        });
        let cluster_ref = Arc::new(ClusterRef::new(
            name.clone(),
            cluster.state(),
            self.event_sender.clone(),
            Arc::clone(&self.node_id),
            self.clock.clone(),
        ));
        *weak = Arc::downgrade(&cluster_ref);
        cluster_ref
    }

    /// Handles events, then updates each affected cluster once.
    fn handle(&mut self, events: &mut Vec<DriverEvent>) {
        let mut affected = BTreeSet::new();
        for event in events.drain(..) {
            match event {
                DriverEvent::Connection { cluster: name, serial, id, event } => {
                    let known = self.clusters.get_mut(&name).map(|(cluster, _)| cluster);
                    if let Some(cluster) = known.filter(|cluster| cluster.serial() == serial) {
                        cluster.handle_connection(id, event, self.clock.now());
                        affected.insert(name);
                    }
                }
                DriverEvent::Session { cluster: name, serial, request } => {
                    let known = self.clusters.get_mut(&name).map(|(cluster, _)| cluster);
                    if let Some(cluster) = known.filter(|cluster| cluster.serial() == serial) {
                        cluster.handle_session(&request, self.clock.now());
                        affected.insert(name);
                    }
                }
                DriverEvent::Released(name) => self.release(&name),
            }
        }
        for name in affected {
            if let Some((cluster, _)) = self.clusters.get_mut(&name) {
                cluster.process_outputs();
            }
        }
    }

    /// Releases a cluster. Routes may refer to it again meanwhile.
    fn release(&mut self, name: &ResourceName) {
        self.dependencies.unsubscribe(name);
        let known = self.clusters.get(name);
        if known.is_some_and(|(_, cluster_ref)| cluster_ref.strong_count() == 0) {
            self.clusters.remove(name);
        }
    }
}
