//! No call fails while clusters are replaced under load.
//!
//! An operator starts new backends, adds a cluster for them to the management server, changes the
//! routes to it, and removes the old cluster, at once or later. The old backends stop after some
//! time without calls. Meanwhile calls are routed, wait, are sent and end.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use xds_core::{
    ResourceName,
    client::{DataErrorPolicy, Profile},
    server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig, Variant},
    types,
};
use xds_routing::{
    Call, Random,
    dependencies::{Children, Configuration, Endpoints},
    router::{CallTarget, Router},
};

use crate::dependencies::rig::{Rig, VARIANTS};

const TICK: Duration = Duration::from_millis(50);
/// Number of services, each with its own cluster.
const SERVICES: u32 = 3;

/// Time at which an old cluster is removed from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    /// With the change of the routes.
    AtOnce,
    /// After its backends stopped.
    Last,
}

/// Active call.
struct CallUnderWay {
    cluster: ResourceName,
    /// Port of the backend, once the call was sent.
    backend: Option<u32>,
    ticks: u32,
}

/// Generation of the backends of a service.
struct Generation {
    cluster: String,
    port: u32,
    /// Number of ticks without a call.
    idle: u32,
    is_current: bool,
}

struct Run {
    rig: Rig,
    random: Random,
    in_use: Option<(Configuration, Router)>,
    calls: Vec<CallUnderWay>,
    generations: Vec<Generation>,
    /// Current cluster of each service in the server's routes.
    routed: BTreeMap<u32, String>,
    /// Delayed endpoints: the number of ticks, the cluster and the port.
    late_endpoints: Vec<(u32, String, u32)>,
    backends: BTreeSet<u32>,
    removal: Removal,
    ended: usize,
    swapped: usize,
}

impl Run {
    fn new(variant: Variant, removal: Removal, ordering: OrderingPolicy, seed: u64) -> Self {
        let mut profile = Profile::grpc();
        if removal == Removal::Last {
            // In this mode not even a client that drops deleted resources at once may lose calls.
            profile.data_errors = DataErrorPolicy::DropCached;
        }
        let mut config = ServerConfig::default();
        config.ordering = ordering;
        let types = &mut config.type_defaults;
        types.full_state.absence_delay = xds_core::server::AbsenceDelay::Never;
        types.others.absence_delay = xds_core::server::AbsenceDelay::Never;
        let mut run = Self {
            rig: Rig::with_server(variant, profile, config),
            random: Random::new(seed),
            in_use: None,
            calls: Vec::new(),
            generations: Vec::new(),
            routed: BTreeMap::new(),
            late_endpoints: Vec::new(),
            backends: BTreeSet::new(),
            removal,
            ended: 0,
            swapped: 0,
        };
        for service in 0..SERVICES {
            run.swap(service);
        }
        run.tick();
        run
    }

    /// Starts new backends with a new cluster, and changes the routes to it.
    fn swap(&mut self, service: u32) {
        let number = self.generations.len() as u32;
        let (cluster, port) = (format!("service-{service}-{number}"), 1000 + number);
        self.backends.insert(port);
        let old = self.routed.insert(service, cluster.clone());
        for generation in &mut self.generations {
            generation.is_current &= Some(&generation.cluster) != old.as_ref();
        }
        self.generations.push(Generation {
            cluster: cluster.clone(),
            port,
            idle: 0,
            is_current: true,
        });
        let routes: Vec<&str> = self.routed.values().map(String::as_str).collect();
        let delay = self.random.below(30);
        let removal = self.removal;
        self.rig.set(|it| {
            it.listener("r").routes("r", &routes).cluster(&cluster);
            match delay {
                0 => it.endpoints(&cluster, &[port]),
                _ => it,
            };
            if let Some(old) = &old
                && removal == Removal::AtOnce
            {
                it.remove(types::CLUSTER, old);
            }
        });
        if delay > 0 {
            self.late_endpoints.push((delay, cluster, port));
        }
        self.swapped += 1;
    }

    fn tick(&mut self) {
        let mut due = Vec::new();
        self.late_endpoints.retain_mut(|(ticks, cluster, port)| {
            *ticks -= 1;
            if *ticks == 0 {
                due.push((cluster.clone(), *port));
            }
            *ticks > 0
        });
        for (cluster, port) in due {
            self.rig.set(|it| {
                it.endpoints(&cluster, &[port]);
            });
        }
        self.rig.advance(TICK);
        while let Some(outcome) = self.rig.said.pop_front() {
            let configuration = outcome.expect("there was a sound one, or there is none yet");
            self.in_use = Some((configuration.clone(), configuration.router()));
        }
        self.move_calls();
        self.take_down();
    }

    fn start_call(&mut self) {
        let Some((_, router)) = &self.in_use else { return };
        let service = self.random.below(SERVICES);
        // The path depends on the generation, because routes match by the name of the cluster.
        let routed: Vec<ResourceName> = router.clusters().into_iter().collect();
        let prefix = format!("service-{service}-");
        let Some(name) = routed.iter().find(|it| it.as_str().starts_with(&prefix)) else { return };
        let path = format!("/{name}/method");
        let call = Call::new(&path, &[]);
        let decision = router.decide(&call, None, &mut self.random).expect("a route");
        let CallTarget::Cluster { name, .. } = decision.target else { panic!("no plugin") };
        let cluster = name.clone();
        self.rig.subscribe(cluster.as_str());
        let ticks = 3 + self.random.below(40);
        self.calls.push(CallUnderWay { cluster, backend: None, ticks });
    }

    fn move_calls(&mut self) {
        let Some((configuration, _)) = &self.in_use else { return };
        let mut over = Vec::new();
        let mut busy = BTreeSet::new();
        for call in &mut self.calls {
            // The cluster of an active call exists, whatever changed since the call was routed.
            let cluster = configuration.cluster(&call.cluster);
            let cluster = cluster.unwrap_or_else(|failure| panic!("dropped: {failure}"));
            let Children::Leaf(leaf) = &cluster.children else { panic!("no aggregate") };
            let Endpoints::Known(endpoints) = &leaf.endpoints else {
                panic!("dropped: {}", cluster.failure("no endpoints"));
            };
            call.ticks -= 1;
            let waits = call.ticks % 3 != 0;
            if call.backend.is_none() && !waits {
                let port = endpoints.endpoints().next().expect("one").addresses[0].port;
                call.backend = Some(u32::from(port));
            }
            if let Some(port) = call.backend {
                assert!(self.backends.contains(&port), "dropped: {port} is down");
                busy.insert(port);
            }
            if call.ticks == 0 && call.backend.is_some() {
                over.push(call.cluster.clone());
            }
        }
        self.calls.retain(|call| call.ticks > 0);
        for generation in &mut self.generations {
            generation.idle = if busy.contains(&generation.port) { 0 } else { generation.idle + 1 };
        }
        self.ended += over.len();
        for cluster in over {
            self.rig.unsubscribe(cluster.as_str());
        }
    }

    /// Stops the backends that got no calls for three seconds.
    fn take_down(&mut self) {
        let is_over = |it: &Generation| !it.is_current && it.idle > 60;
        let over: Vec<(String, u32)> = self
            .generations
            .iter()
            .filter(|it| is_over(it))
            .map(|it| (it.cluster.clone(), it.port))
            .collect();
        for (cluster, port) in over {
            if self.backends.remove(&port) && self.removal == Removal::Last {
                self.rig.set(|it| {
                    it.remove(types::CLUSTER, &cluster);
                });
            }
        }
    }
}

#[test]
fn no_call_is_dropped_while_clusters_are_swapped() {
    let gated = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
    let (mut ended, mut swapped) = (0, 0);
    for variant in VARIANTS {
        for removal in [Removal::AtOnce, Removal::Last] {
            for ordering in [OrderingPolicy::default(), gated.clone()] {
                for seed in 0..4 {
                    let mut run = Run::new(variant, removal, ordering.clone(), seed);
                    for tick in 0..1500 {
                        if run.random.below(60) == 0 && tick < 1300 {
                            let service = run.random.below(SERVICES);
                            run.swap(service);
                        }
                        for _ in 0..run.random.below(3) {
                            run.start_call();
                        }
                        run.tick();
                    }
                    // When idle, only the current clusters are left.
                    while !run.calls.is_empty() {
                        run.tick();
                    }
                    run.rig.advance(Duration::from_secs(30));
                    let routed = run.routed.values().cloned().collect::<Vec<_>>();
                    let last = run.rig.follower.manager().configuration().unwrap().unwrap();
                    let names = last.clusters().keys().map(ToString::to_string);
                    assert_eq!(names.collect::<Vec<_>>(), routed);
                    ended += run.ended;
                    swapped += run.swapped;
                }
            }
        }
    }
    println!("{ended} calls, {swapped} clusters");
    assert!(ended > 30_000 && swapped > 500, "{ended} calls, {swapped} clusters");
    println!("covers: B26 B44");
}
