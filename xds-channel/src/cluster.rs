//! The connections of one cluster, as its balancer says.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::uri::Scheme;
use hyper::client::conn::http2::SendRequest;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::Instant,
};
use tonic::body::Body;
use xds_core::{ResourceName, Time};
use xds_routing::{
    Random,
    balancer::{
        Balancer, BalancerOutput, BalancerTimes, ConnectionEvent, ConnectionId, Picker, leaves,
    },
    dependencies::{ClusterConfiguration, FollowedClusters},
    router::Failure,
};

use crate::{
    ChannelOptions,
    certificates::Providers,
    counters::OfProcess,
    dial::{ConnectionNews, Dial},
    driver::News,
    tls::ClusterTls,
};

/// The driver's clock, in the cores' time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    pub(crate) fn now(self) -> Time {
        let nanos = self.0.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    pub(crate) fn instant(self, time: Time) -> Instant {
        self.0 + time.since(Time::ZERO)
    }
}

/// What calls to a cluster need.
#[derive(Clone, Debug)]
pub(crate) enum ClusterState {
    /// Nobody knows yet: they wait.
    Unknown,
    /// They fail.
    Failing(Failure),
    /// They are picked for.
    Picking(Arc<Picking>),
}

/// Who picks, and what is picked from.
#[derive(Debug)]
pub(crate) struct Picking {
    pub(crate) picker: Picker,
    pub(crate) connections: Connections,
    /// For the messages of calls that fail.
    pub(crate) cluster: Arc<ClusterConfiguration>,
    /// By what the connections are reached.
    pub(crate) scheme: Scheme,
}

type Connections = Arc<BTreeMap<ConnectionId, SendRequest<Body>>>;

/// A cluster that routes or calls keep.
pub(crate) struct Cluster {
    name: ResourceName,
    /// Of the balancer: one that takes its place numbers its connections from the beginning.
    serial: u64,
    balancer: Balancer,
    times: BalancerTimes,
    random: Random,
    dial: Dial,
    providers: Arc<Providers>,
    news: mpsc::UnboundedSender<News>,
    /// What it is, to say in failures; `None` while calls to it fail.
    configuration: Option<Arc<ClusterConfiguration>>,
    /// The clusters that its calls go to.
    leaves: Vec<Arc<ClusterConfiguration>>,
    picker: Option<Picker>,
    /// Connections are made in another way, and calls take the old ones until it is known what came of that.
    is_renewing: bool,
    connections: Connections,
    dials: BTreeMap<ConnectionId, AbortHandle>,
    state: watch::Sender<ClusterState>,
}

impl Cluster {
    pub(crate) fn new(
        name: &ResourceName,
        host: &Arc<str>,
        options: &ChannelOptions,
        providers: &Arc<Providers>,
        seed: u64,
        news: mpsc::UnboundedSender<News>,
    ) -> Self {
        let mut random = Random::new(seed);
        let dial = Dial { timeout: options.connect_timeout, host: Arc::clone(host), tls: None };
        Self {
            name: name.clone(),
            serial: next_serial(),
            balancer: balancer(options.times, &mut random),
            times: options.times,
            random,
            dial,
            providers: Arc::clone(providers),
            news,
            configuration: None,
            leaves: Vec::new(),
            picker: None,
            is_renewing: false,
            connections: Arc::default(),
            dials: BTreeMap::new(),
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
            self.follow();
        }
    }

    /// Takes what is known of the cluster.
    pub(crate) fn configure(&mut self, clusters: &FollowedClusters, now: Time) {
        // One that calls keep may not be followed yet, if it was let go and is asked for again.
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
        let secured = self.secure(&leaves);
        let configured = secured.and_then(|tls| {
            if tls != self.dial.tls {
                self.begin_anew(tls);
            }
            self.balancer.configure(clusters, &self.name, now)
        });
        match configured {
            Ok(()) => {
                // It is a leaf that can say what is wrong.
                self.configuration = Some(Arc::clone(leaves.last().copied().unwrap_or(&cluster)));
                self.follow();
            }
            Err(failure) => self.fail(failure, now),
        }
    }

    /// How connections are secured, which is the same for all clusters that calls go to.
    fn secure(&self, leaves: &[&Arc<ClusterConfiguration>]) -> Result<Option<ClusterTls>, Failure> {
        let mut asked = leaves.iter().map(|leaf| {
            let context = leaf.cluster.tls.as_ref();
            let tls = context.map(|it| ClusterTls::new(it, &self.providers)).transpose();
            tls.map_err(|why| leaf.failure(format!("the cluster asks for TLS, but {why}")))
        });
        let first = asked.next().transpose()?.flatten();
        for (tls, leaf) in asked.zip(leaves.iter().skip(1)) {
            if tls? != first {
                let why = "the clusters that it is made of are secured in different ways, \
                    which is not supported";
                return Err(leaf.failure(why));
            }
        }
        Ok(first)
    }

    /// Connections that were made in another way are used until there are others, or cannot be; calls on them
    /// go on.
    fn begin_anew(&mut self, tls: Option<ClusterTls>) {
        self.dial.tls = tls;
        self.serial = next_serial();
        self.balancer = balancer(self.times, &mut self.random);
        self.picker = None;
        self.is_renewing = matches!(*self.state.borrow(), ClusterState::Picking(_));
        self.connections = Arc::default();
        core::mem::take(&mut self.dials).values().for_each(AbortHandle::abort);
    }

    /// Nobody is to get calls, so nobody is connected to; calls under way go on.
    fn fail(&mut self, failure: Failure, now: Time) {
        self.configuration = None;
        self.is_renewing = false;
        self.balancer.clear(now);
        self.follow();
        self.state.send_replace(ClusterState::Failing(failure));
    }

    pub(crate) fn handle_connection(&mut self, id: ConnectionId, news: ConnectionNews, now: Time) {
        let event = match news {
            ConnectionNews::Connected(requests) => {
                // Given up meanwhile: dropping it ends it.
                if self.dials.remove(&id).is_none() {
                    return;
                }
                Arc::make_mut(&mut self.connections).insert(id, requests);
                ConnectionEvent::Connected
            }
            ConnectionNews::Failed(why) => {
                self.dials.remove(&id);
                ConnectionEvent::Failed(why)
            }
            ConnectionNews::Closed => {
                Arc::make_mut(&mut self.connections).remove(&id);
                ConnectionEvent::Closed
            }
        };
        self.balancer.handle_connection(id, event, now);
        self.follow();
    }

    /// Does what the balancer says, then tells the calls.
    fn follow(&mut self) {
        while let Some(output) = self.balancer.poll_output() {
            match output {
                BalancerOutput::Connect(id, addresses) => {
                    let (cluster, serial) = (self.name.clone(), self.serial);
                    let sender = self.news.clone();
                    let tell = move |news| {
                        let cluster = cluster.clone();
                        let _ = sender.send(News::Connection { cluster, serial, id, news });
                    };
                    self.dials.insert(id, self.dial.clone().start(addresses, tell));
                }
                BalancerOutput::Disconnect(id) => {
                    if let Some(dial) = self.dials.remove(&id) {
                        dial.abort();
                    }
                    // Calls under way go on: the connection ends with the last of them.
                    Arc::make_mut(&mut self.connections).remove(&id);
                }
                BalancerOutput::Pick(picker) => self.picker = Some(picker),
                _ => {}
            }
        }
        let (Some(picker), Some(cluster)) = (self.picker.clone(), self.configuration.clone())
        else {
            return;
        };
        if self.is_renewing && picker.is_queueing() {
            return;
        }
        self.is_renewing = false;
        let connections = Arc::clone(&self.connections);
        let scheme = if self.dial.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let picking = Picking { picker, connections, cluster, scheme };
        self.state.send_replace(ClusterState::Picking(Arc::new(picking)));
    }
}

/// No two balancers of a process have the same.
fn next_serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn balancer(times: BalancerTimes, random: &mut Random) -> Balancer {
    Balancer::new(times, random.next_u64()).with_counters(Arc::new(OfProcess))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.dials.values().for_each(AbortHandle::abort);
    }
}
