//! Calls of a gRPC channel while everything behind it is replaced.

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use prost::Message as _;
use tokio::time::sleep;
use tonic::{Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient};
use xds_channel::{ChannelOptions, XdsChannel};
use xds_core::{
    Time,
    client::{ClientConfig, Node, ServerAddress},
    proto::Locality,
    server::{ServerConfig, Transaction},
    types,
};
use xds_grpc::{ClientOptions, ManagementServer, ServerOptions, client::connect};
use xds_handle::ClientHandle;
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations,
    proto::envoy::config::{
        cluster::v3::{
            Cluster,
            cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig},
        },
        endpoint::v3::{
            ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
            lb_endpoint::HostIdentifier,
        },
    },
};
use xds_sim::{
    stack::{
        Conditions, DialOutcome, Host, Serving, Stage,
        check::{check, run_seed},
    },
    trace::Keep,
};

use crate::{
    failure,
    greeter::{GREETER, Greeter, host_of},
    raw::PORT,
    support::{self, ads, api_listener, manager, number, prefix, rds, route},
    two_processes,
};

/// Time after a fault of a backend during which calls may fail.
const EFFECT: Duration = Duration::from_secs(1);

/// Pause of a caller after the last fault.
const CALM_PAUSE: Duration = Duration::from_secs(2);

/// Calls made so far.
#[derive(Default)]
struct Calls {
    answers: u64,
    failures: Vec<Failed>,
    /// Host of the last answer.
    newest: BTreeSet<String>,
}

impl Calls {
    fn add(
        &mut self,
        began: Time,
        ended: Time,
        answer: Result<Response<HealthCheckResponse>, Status>,
    ) {
        match answer {
            Ok(answer) => {
                self.answers += 1;
                self.newest.insert(host_of(&answer));
            }
            Err(why) => self.failures.push(Failed { began, ended, why: why.to_string() }),
        }
    }
}

struct Failed {
    began: Time,
    ended: Time,
    why: String,
}

struct Rollout<'a> {
    stage: &'a Stage,
    client: Host,
    server: Host,
    backends: Vec<(Host, Option<Serving>)>,
    /// Backends that are listed as endpoints.
    listed: BTreeSet<usize>,
    /// Number of clusters that were used before.
    generation: u32,
    management: ManagementServer<Host>,
    /// Times at which calls may have been lost.
    excuses: Vec<Time>,
}

impl<'a> Rollout<'a> {
    fn new(stage: &'a Stage) -> Self {
        let (client, server) = (stage.host("client"), stage.server_host("server"));
        let mut conditions = Conditions::default();
        conditions.latency = Duration::from_millis(stage.below("latency", 20).into());
        let backends: Vec<_> = (0..3).map(|at| stage.host(&format!("backend-{at}"))).collect();
        for far in backends.iter().chain([&server]) {
            stage.set_conditions(&client, far, conditions);
            stage.set_conditions(far, &client, conditions);
        }
        let delay = Duration::from_millis(stage.choices().pick("delay", &[0, 20, 400]));
        let backends = backends.into_iter().map(|host| {
            let serving = Greeter::serve(&host, delay);
            (host, Some(serving))
        });
        let management = serve_management(&server);
        Self {
            stage,
            client,
            management,
            server,
            backends: backends.collect(),
            listed: (0..3).collect(),
            generation: 0,
            excuses: Vec::new(),
        }
    }

    /// Gives the management server the current resources.
    async fn apply(&self) {
        let name = format!("cluster-{}", self.generation);
        let listener = api_listener("greeter", &manager(rds("routes"))).encode_to_vec();
        let routed = route(prefix(""), support::cluster(&name));
        let routes = support::routes("routes", vec![support::host(&["*"], vec![routed])]);
        let cluster = Cluster {
            name: name.clone(),
            cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
            eds_cluster_config: Some(EdsClusterConfig {
                eds_config: ads(),
                ..EdsClusterConfig::default()
            }),
            ..Cluster::default()
        };
        let addresses = self.listed.iter().map(|at| (self.backends[*at].0.address(), GREETER));
        let assignment = assignment(&name, addresses.map(Into::into));
        let mut snapshot = Transaction::snapshot("");
        snapshot.set(types::LISTENER, "greeter", listener);
        snapshot.set(types::ROUTE_CONFIGURATION, "routes", routes.encode_to_vec());
        snapshot.set(types::CLUSTER, name.clone(), cluster.encode_to_vec());
        snapshot.set(types::CLUSTER_LOAD_ASSIGNMENT, name, assignment.encode_to_vec());
        self.management.handle().apply(snapshot).await.expect("a sound snapshot");
    }

    fn restart(&mut self, at: usize) {
        let (host, serving) = &mut self.backends[at];
        self.stage.kill(host);
        *serving = Some(Greeter::serve(host, Duration::from_millis(20)));
    }

    /// One step. The first backend always serves and is always listed.
    async fn step(&mut self, is_graceful: bool) {
        let at = 1 + self.stage.below("backend", 2) as usize;
        match self.stage.below("step", if is_graceful { 7 } else { 9 }) {
            0 => {
                if !self.listed.remove(&at) {
                    self.listed.insert(at);
                }
                self.apply().await;
            }
            1 => {
                self.generation += 1;
                self.apply().await;
            }
            // A new version of a backend.
            2 => {
                self.listed.remove(&at);
                self.apply().await;
                if let Some(serving) = self.backends[at].1.take() {
                    serving.shut_down().await;
                }
                // A service that has ended is told apart from its host, which ends now.
                sleep(Duration::from_secs(1)).await;
                self.restart(at);
                self.listed.insert(at);
                self.apply().await;
            }
            3 => {
                self.stage.kill(&self.server);
                sleep(Duration::from_secs(self.stage.below("downtime", 40).into())).await;
                self.management = serve_management(&self.server);
                self.apply().await;
            }
            4 => self.stage.reset(&self.client, &self.server),
            5 => self.stage.partition(&self.client, &self.server),
            6 => self.stage.set_reach((self.server.address(), PORT).into(), DialOutcome::Refused),
            7 => {
                self.excuses.push(self.stage.now());
                self.restart(at);
            }
            _ => {
                self.excuses.push(self.stage.now());
                self.stage.reset(&self.client, &self.backends[at].0);
            }
        }
    }

    fn heal(&self) {
        self.stage.heal(&self.client, &self.server);
        self.stage.set_reach((self.server.address(), PORT).into(), DialOutcome::Open);
    }

    fn is_excused(&self, call: &Failed) -> bool {
        self.excuses.iter().any(|at| call.began <= at.after(EFFECT) && call.ended >= *at)
    }
}

fn assignment(name: &str, addresses: impl Iterator<Item = SocketAddr>) -> ClusterLoadAssignment {
    let endpoints = addresses.map(|at| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(support::address(&at.ip().to_string(), at.port().into())),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    });
    let locality = LocalityLbEndpoints {
        locality: Some(Locality { zone: "here".into(), ..Locality::default() }),
        lb_endpoints: endpoints.collect(),
        load_balancing_weight: number(1),
        ..LocalityLbEndpoints::default()
    };
    ClusterLoadAssignment {
        cluster_name: name.into(),
        endpoints: vec![locality],
        ..ClusterLoadAssignment::default()
    }
}

pub(crate) fn serve_management(host: &Host) -> ManagementServer<Host> {
    let options = ServerOptions::default();
    let server = ManagementServer::start_on(host.clone(), ServerConfig::default(), options);
    let serving = server.serve(host.listen((host.address(), PORT).into()).expect("a free port"));
    host.start(async move { drop(serving.await) });
    server
}

pub(crate) fn xds_client(host: &Host) -> ClientHandle {
    let address = ServerAddress::new(format!("server:{PORT}"));
    let config = ClientConfig::new(Node::new("client"), address)
        .with_type(Listeners::default())
        .with_type(RouteConfigurations::default())
        .with_type(Clusters::default())
        .with_type(ClusterLoadAssignments::default());
    connect(host.clone(), config, ClientOptions::default())
}

/// Calls a greeter through `xds:///greeter` while its backends are replaced and the management
/// server fails. Every call succeeds, except while a backend fails without notice.
async fn roll_out(stage: &Stage, is_graceful: bool) {
    let mut rollout = Rollout::new(stage);
    rollout.apply().await;
    let options = ChannelOptions::new("client").with_runtime(rollout.client.clone());
    let channel = XdsChannel::new(&xds_client(&rollout.client), "xds:///greeter", options);
    let health = HealthClient::new(channel.expect("a target"));
    let mut first = health.clone();
    let answer = first.check(HealthCheckRequest::default()).await.expect("no fault yet");
    assert!(host_of(&answer).starts_with("backend-"));

    let (calls, has_ended) = (Arc::<Mutex<Calls>>::default(), Arc::new(AtomicBool::new(false)));
    let is_calm = Arc::new(AtomicBool::new(false));
    let start = tokio::time::Instant::now();
    let since = stage.now();
    for caller in 0..2 {
        let pause = Duration::from_millis(stage.choices().pick("pause", &[20, 90, 1_700]));
        let (mut health, calls) = (health.clone(), calls.clone());
        let (is_calm, has_ended) = (is_calm.clone(), has_ended.clone());
        rollout.client.start(async move {
            sleep(Duration::from_millis(caller)).await;
            while !has_ended.load(Ordering::Relaxed) {
                let began = since.after(start.elapsed());
                let answer = health.check(HealthCheckRequest::default()).await;
                let ended = since.after(start.elapsed());
                calls.lock().unwrap().add(began, ended, answer);
                // Few calls while nothing happens.
                sleep(if is_calm.load(Ordering::Relaxed) { CALM_PAUSE } else { pause }).await;
            }
        });
    }
    for _ in 0..stage.below("number of steps", 10) {
        stage.choices().begin_span();
        rollout.step(is_graceful).await;
        let wait = stage.choices().pick("wait", &[0, 1, 50, 1_000, 8_000]);
        sleep(Duration::from_millis(wait)).await;
        stage.choices().end_span();
    }
    rollout.heal();
    is_calm.store(true, Ordering::Relaxed);
    // Backoff after a long outage is at most 120 s, and jittered.
    sleep(Duration::from_secs(200)).await;
    calls.lock().unwrap().newest.clear();
    sleep(Duration::from_secs(20)).await;
    has_ended.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(3)).await;

    let calls = calls.lock().unwrap();
    if let Some(call) = calls.failures.iter().find(|call| !rollout.is_excused(call)) {
        let what = format!("a call from {} to {} failed: {}", call.began, call.ended, call.why);
        stage.violate("calls-succeed", "calls survive a rollout", what);
    }
    assert!(calls.answers > 0);
    let listed: BTreeSet<_> = rollout.listed.iter().map(|at| format!("backend-{at}")).collect();
    if calls.newest != listed {
        let what = format!("answers of {:?} instead of {listed:?}", calls.newest);
        stage.violate("endpoints-used", "all listed endpoints are used in the end", what);
    }
}

async fn graceful(stage: &Stage) {
    roll_out(stage, true).await;
}

async fn with_failing_backends(stage: &Stage) {
    roll_out(stage, false).await;
}

#[test]
fn no_call_fails_in_a_rollout_while_the_management_server_fails() {
    assert_eq!(check(0..40, &graceful).runs, 40);
}

#[test]
fn calls_fail_only_while_a_backend_fails() {
    assert_eq!(check(0..40, &with_failing_backends).runs, 40);
}

/// The rule can fail: a backend that ends without notice, and is not excused.
#[test]
fn backend_killed_under_calls_is_found() {
    async fn kill(stage: &Stage) {
        let mut rollout = Rollout::new(stage);
        rollout.apply().await;
        let options = ChannelOptions::new("client").with_runtime(rollout.client.clone());
        let channel = XdsChannel::new(&xds_client(&rollout.client), "xds:///greeter", options);
        let mut health = HealthClient::new(channel.expect("a target"));
        for _ in 0..40 {
            rollout.restart(1 + stage.below("backend", 2) as usize);
            let calls = (0..3).map(|_| {
                let mut health = health.clone();
                tokio::spawn(async move { health.check(HealthCheckRequest::default()).await })
            });
            let calls: Vec<_> = calls.collect();
            sleep(Duration::from_millis(10)).await;
            rollout.restart(1 + stage.below("backend", 2) as usize);
            for call in calls {
                if let Err(why) = call.await.expect("no panic") {
                    let what = why.to_string();
                    stage.violate("calls-succeed", "calls survive a rollout", what);
                }
            }
            drop(health.check(HealthCheckRequest::default()).await);
        }
    }
    let text = failure(|| _ = check(0..20, &kill));
    assert!(text.contains("calls-succeed"), "{text}");
}

#[test]
fn runs_of_a_channel_are_equal_in_two_processes() {
    let hashes = || -> Vec<u64> {
        let run = |seed| run_seed(seed, &with_failing_backends, Keep::Hash).hash;
        (0..4).map(run).collect()
    };
    two_processes("rollout::runs_of_a_channel_are_equal_in_two_processes", hashes);
}
