//! Driver task of a channel: receives configurations, updates routes and pickers.

use core::future::pending;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use tokio::{
    select,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use xds_core::ResourceName;
use xds_handle::ClientHandle;
use xds_routing::{
    Random,
    dependencies::{Configuration, DependencyManager, FollowedClusters, HandleDependencies},
};

use crate::{
    certificates::{Provider, Providers},
    cluster::{Clock, Cluster},
    events::News,
    lacks::Lacks,
    options::ChannelOptions,
    routing::{Hold, Routing, Table},
    status,
};

pub(crate) struct Driver {
    dependencies: HandleDependencies,
    options: ChannelOptions,
    providers: Arc<Providers>,
    clock: Clock,
    random: Random,
    clusters: BTreeMap<ResourceName, (Cluster, Weak<Hold>)>,
    lacks: Lacks,
    /// Host name of the channel.
    host: Arc<str>,
    node_id: Arc<str>,
    routing: watch::Sender<Routing>,
    news: mpsc::UnboundedReceiver<News>,
    own_news: mpsc::UnboundedSender<News>,
}

impl Driver {
    pub(crate) fn new(
        manager: DependencyManager,
        client: ClientHandle,
        host: &str,
        options: ChannelOptions,
        seed: u64,
    ) -> (Self, watch::Receiver<Routing>) {
        let (routing, watched) = watch::channel(Routing::Unknown);
        let (own_news, news) = mpsc::unbounded_channel();
        let files = options.certificate_providers.iter();
        let providers = files.map(|(name, files)| (name.clone(), Provider::new(files.clone())));
        let driver = Self {
            dependencies: HandleDependencies::new(manager, client),
            providers: Arc::new(providers.collect()),
            node_id: options.node_id.as_str().into(),
            options,
            clock: Clock(Instant::now()),
            random: Random::new(seed ^ 1),
            clusters: BTreeMap::new(),
            lacks: Lacks::default(),
            host: host.into(),
            routing,
            news,
            own_news,
        };
        (driver, watched)
    }

    /// Runs until the last channel handle is dropped or the client has ended.
    pub(crate) async fn run(mut self) {
        loop {
            let due =
                self.clusters.values().filter_map(|(cluster, _)| cluster.poll_timeout()).min();
            let due = async {
                match due {
                    Some(due) => sleep_until(self.clock.instant(due)).await,
                    None => pending().await,
                }
            };
            select! {
                configuration = self.dependencies.next() => match configuration {
                    Some(Ok(configuration)) => self.configure(&configuration),
                    Some(Err(why)) => {
                        let clusters = self.dependencies.manager().clusters();
                        self.fail(&why.message(clusters.note()));
                        self.configure_clusters(&clusters);
                    }
                    None => {
                        let clusters = self.dependencies.manager().clusters();
                        self.fail(&status::noted("the xDS client has ended", clusters.note()));
                        return;
                    }
                },
                Some(news) = self.news.recv() => self.handle(news),
                () = due => {
                    let now = self.clock.now();
                    self.clusters.values_mut().for_each(|(cluster, _)| cluster.handle_timeout(now));
                }
                () = self.routing.closed() => return,
            }
        }
    }

    fn fail(&self, why: &str) {
        self.routing.send_replace(Routing::Failing(Arc::from(why)));
    }

    /// Applies a configuration: clusters first, so that routes never refer to a missing cluster.
    fn configure(&mut self, configuration: &Configuration) {
        self.tell_lacks(configuration);
        let router = configuration.router();
        let mut holds = BTreeMap::new();
        for name in router.clusters() {
            let hold = self.hold(&name);
            holds.insert(name, hold);
        }
        self.configure_clusters(configuration.followed());
        let note = configuration.followed().note().clone();
        let table = Table { router, clusters: holds, note };
        self.routing.send_replace(Routing::Known(Arc::new(table)));
    }

    /// Warns about unsupported features when a configuration starts to request them.
    fn tell_lacks(&mut self, configuration: &Configuration) {
        let (routes, host) = (configuration.routes(), configuration.virtual_host());
        let clusters = configuration.clusters().values().filter_map(|known| known.as_ref().ok());
        for asked in self.lacks.renew(routes, host, clusters.map(|known| &*known.cluster)) {
            let consequence = asked.lack().consequence();
            tracing::warn!(%asked, consequence, "what a channel does not do is asked for");
        }
    }

    /// Applies cluster configurations. Active calls may need clusters without routes.
    fn configure_clusters(&mut self, clusters: &FollowedClusters) {
        let now = self.clock.now();
        for (cluster, _) in self.clusters.values_mut() {
            cluster.configure(clusters, now);
        }
    }

    fn hold(&mut self, name: &ResourceName) -> Arc<Hold> {
        let known = self.clusters.get(name);
        if let Some(hold) = known.and_then(|(_, hold)| hold.upgrade()) {
            return hold;
        }
        self.dependencies.subscribe(name);
        let (cluster, weak) = self.clusters.entry(name.clone()).or_insert_with(|| {
            let seed = self.random.next_u64();
            let news = self.own_news.clone();
            let cluster =
                Cluster::new(name, &self.host, &self.options, &self.providers, seed, news);
            (cluster, Weak::new())
        });
        let hold = Arc::new(Hold::new(
            name.clone(),
            cluster.state(),
            self.own_news.clone(),
            Arc::clone(&self.node_id),
        ));
        *weak = Arc::downgrade(&hold);
        hold
    }

    fn handle(&mut self, news: News) {
        match news {
            News::Connection { cluster, serial, id, news } => {
                let known = self.clusters.get_mut(&cluster).map(|(cluster, _)| cluster);
                if let Some(cluster) = known.filter(|cluster| cluster.serial() == serial) {
                    cluster.handle_connection(id, news, self.clock.now());
                }
            }
            News::Released(name) => {
                self.dependencies.unsubscribe(&name);
                // Routes may refer to it again meanwhile.
                if self.clusters.get(&name).is_some_and(|(_, hold)| hold.strong_count() == 0) {
                    self.clusters.remove(&name);
                }
            }
        }
    }
}
