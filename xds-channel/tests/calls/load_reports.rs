//! Load reports to the management server (gRFC A27, gRFC A64, gRFC A85).

use core::time::Duration;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use prost::Message as _;
use tokio::time::sleep;
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use xds_channel::{ChannelOptions, XdsChannel};
use xds_core::{
    client::Node,
    load_reports::LoadRequest,
    proto::{ClusterStats, UpstreamLocalityStats},
    server::StatusCode,
    types,
};
use xds_grpc::{
    load_reports::LoadReports,
    server::{AuthorizationDecision, AuthorizationRequest, Denied, LoadCollector},
};
use xds_routing::proto::{
    envoy::{
        config::{
            cluster::v3::{
                CircuitBreakers, Cluster, circuit_breakers::Thresholds, cluster::EdsClusterConfig,
            },
            core::v3::{ConfigSource, SelfConfigSource, config_source::ConfigSourceSpecifier},
            endpoint::v3::{
                ClusterLoadAssignment,
                cluster_load_assignment::{Policy, policy::DropOverload},
            },
        },
        r#type::v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
    xds::data::orca::v3::OrcaLoadReport,
};
use xds_tokio::{ClientOptions, ServerOptions, Tokio};

use crate::{
    support::*,
    world::{Backend, Change, Reporting, World, check, eds, place, soon},
};

/// Reports that a management server has received.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(String, ClusterStats)>>>);

impl Received {
    /// Returns a collector of the load of all clusters, each second.
    fn collector(&self) -> LoadCollector {
        self.collector_of(LoadRequest::all(Duration::ZERO))
    }

    fn collector_of(&self, request: LoadRequest) -> LoadCollector {
        let received = self.clone();
        LoadCollector::new(request).with_observer(move |client, clusters| {
            let clusters = clusters.iter().map(|it| (client.node_id.to_string(), it.clone()));
            received.0.lock().unwrap().extend(clusters);
        })
    }

    fn all(&self) -> Vec<ClusterStats> {
        self.0.lock().unwrap().iter().map(|(_, cluster)| cluster.clone()).collect()
    }

    /// Returns the sums by zone.
    fn by_zone(&self) -> BTreeMap<String, UpstreamLocalityStats> {
        let mut sums: BTreeMap<String, UpstreamLocalityStats> = BTreeMap::new();
        for load in self.all().into_iter().flat_map(|it| it.upstream_locality_stats) {
            let sum = sums.entry(load.locality.expect("a locality").zone).or_default();
            sum.total_issued_requests += load.total_issued_requests;
            sum.total_successful_requests += load.total_successful_requests;
            sum.total_error_requests += load.total_error_requests;
            sum.total_requests_in_progress = load.total_requests_in_progress;
        }
        sums
    }

    /// Waits until the sums fulfil a condition.
    async fn until(&self, condition: impl Fn(&BTreeMap<String, UpstreamLocalityStats>) -> bool) {
        soon(async {
            while !condition(&self.by_zone()) {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

/// Returns a cluster whose load is reported to the server that sends it.
fn reported(name: &str) -> Cluster {
    let itself = ConfigSourceSpecifier::Self_(SelfConfigSource {});
    let source = ConfigSource { config_source_specifier: Some(itself), ..ConfigSource::default() };
    Cluster { lrs_server: Some(source), ..eds(name) }
}

fn reporting_client(world: &World) -> HealthClient<XdsChannel> {
    let loads = LoadReports::new(Tokio, Node::new("node-1"), ClientOptions::default());
    world.health_with(ChannelOptions::new("node-1").with_load_reports(loads))
}

fn to(cluster_name: &str) -> Change {
    Change::new().routes(vec![route(prefix(""), cluster(cluster_name))])
}

/// Makes a call that fails with `NOT_FOUND`.
async fn failing_call(client: &mut HealthClient<XdsChannel>) {
    let request = HealthCheckRequest { service: "unknown".into() };
    let status = soon(client.check(request)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

fn assignment_of(places: &[(&str, SocketAddr)]) -> ClusterLoadAssignment {
    let places = places.iter().map(|(zone, at)| place(zone, 0, 1, &[*at]));
    ClusterLoadAssignment {
        cluster_name: "endpoints".into(),
        endpoints: places.collect(),
        ..ClusterLoadAssignment::default()
    }
}

#[tokio::test]
async fn calls_are_reported_by_locality_and_outcome() {
    let received = Received::default();
    let loads = received.collector();
    let world = World::with_server(ServerOptions::default().with_load_reports(loads.clone())).await;
    let [near, far] = [Backend::new().await, Backend::new().await];
    let mut cluster = reported("c");
    cluster.eds_cluster_config =
        Some(EdsClusterConfig { eds_config: ads(), service_name: "endpoints".into() });
    let mut change = to("c").cluster_as(cluster);
    let places = assignment_of(&[("near", near.address), ("far", far.address)]);
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "endpoints", places.encode_to_vec());
    world.apply(change.0).await;
    let mut client = reporting_client(&world);
    for _ in 0..50 {
        check(&mut client, &[]).await.expect("an answer");
    }
    for _ in 0..7 {
        failing_call(&mut client).await;
    }
    let count = |backend: &Backend| backend.calls() as u64;
    let (near, far) = (count(&near), count(&far));
    assert_eq!(near + far, 57);
    received
        .until(|zones| {
            let issued = |zone| zones.get(zone).map_or(0, |it| it.total_issued_requests);
            issued("near") == near && issued("far") == far
        })
        .await;
    let zones = received.by_zone();
    let sum = |of: fn(&UpstreamLocalityStats) -> u64| zones.values().map(of).sum::<u64>();
    assert_eq!(sum(|it| it.total_successful_requests), 50);
    assert_eq!(sum(|it| it.total_error_requests), 7);
    assert_eq!(sum(|it| it.total_requests_in_progress), 0);
    for (node, cluster) in &*received.0.lock().unwrap() {
        assert_eq!(node, "node-1");
        assert_eq!((&*cluster.cluster_name, &*cluster.cluster_service_name), ("c", "endpoints"));
        let interval = cluster.load_report_interval.expect("an interval");
        assert!(interval.seconds >= 1 || interval.nanos > 0, "{interval:?}");
        assert_eq!(cluster.total_dropped_requests, 0);
    }
    assert_eq!(loads.streams(), 1);
    let totals = loads.totals();
    let issued: u64 = totals.localities().map(|(_, calls)| calls.issued).sum();
    assert_eq!(issued, 57);
    println!("covers: B49a");
}

#[tokio::test]
async fn selected_metrics_of_responses_are_reported() {
    let received = Received::default();
    let options = ServerOptions::default().with_load_reports(received.collector());
    let world = World::with_server(options).await;
    let report = OrcaLoadReport {
        cpu_utilization: 0.25,
        mem_utilization: 0.5,
        named_metrics: [("queue".into(), 2.0), ("users".into(), 3.0)].into(),
        ..OrcaLoadReport::default()
    };
    let backend = Backend::reporting(Reporting::WithResponses(report)).await;
    let mut cluster = reported("c");
    cluster.lrs_report_endpoint_metrics =
        vec!["cpu_utilization".into(), "named_metrics.queue".into(), "named_metrics.none".into()];
    world.apply(to("c").cluster_as(cluster).endpoints("c", &[backend.address]).0).await;
    let mut client = reporting_client(&world);
    for _ in 0..4 {
        check(&mut client, &[]).await.expect("an answer");
    }
    received.until(|zones| zones.get("here").is_some_and(|it| it.total_issued_requests == 4)).await;
    let mut queue = (0, 0.0);
    let mut cpu = (0, 0.0);
    for load in received.all().into_iter().flat_map(|it| it.upstream_locality_stats) {
        assert_eq!(load.mem_utilization, None, "not selected");
        if let Some(sum) = load.cpu_utilization {
            cpu.0 += sum.num_requests_finished_with_metric;
            cpu.1 += sum.total_metric_value;
        }
        for sum in load.load_metric_stats {
            assert_eq!(sum.metric_name, "named_metrics.queue");
            queue.0 += sum.num_requests_finished_with_metric;
            queue.1 += sum.total_metric_value;
        }
    }
    assert_eq!((cpu, queue), ((4, 1.0), (4, 8.0)));
    println!("covers: B49b");
}

#[tokio::test]
async fn dropped_calls_are_reported_by_category() {
    let received = Received::default();
    let options = ServerOptions::default().with_load_reports(received.collector());
    let world = World::with_server(options).await;
    let backend = Backend::slow(Duration::from_millis(200)).await;
    let half = FractionalPercent { numerator: 50, denominator: DenominatorType::Hundred as i32 };
    let drops = DropOverload { category: "half".into(), drop_percentage: Some(half) };
    let mut places = assignment_of(&[("near", backend.address)]);
    places.policy = Some(Policy { drop_overloads: vec![drops] });
    places.cluster_name = "c".into();
    let one = Thresholds { max_requests: number(1), ..Thresholds::default() };
    let mut cluster = reported("c");
    cluster.circuit_breakers = Some(CircuitBreakers { thresholds: vec![one] });
    let mut change = to("c").cluster_as(cluster);
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "c", places.encode_to_vec());
    world.apply(change.0).await;
    let client = reporting_client(&world);
    let (mut dropped, mut refused) = (0, 0);
    while dropped < 5 || refused < 5 {
        let mut first = client.clone();
        let mut second = client.clone();
        let (first, second) = tokio::join!(check(&mut first, &[]), check(&mut second, &[]));
        for status in [first, second].into_iter().filter_map(Result::err) {
            match status.message().contains("dropped: half") {
                true => dropped += 1,
                false => refused += 1,
            }
        }
    }
    let sums = || {
        let clusters = received.all();
        let total: u64 = clusters.iter().map(|it| it.total_dropped_requests).sum();
        let categories = clusters.into_iter().flat_map(|it| it.dropped_requests);
        let by_category = categories.map(|it| {
            assert_eq!(it.category, "half");
            it.dropped_count
        });
        (total, by_category.sum::<u64>())
    };
    soon(async {
        while sums() != (dropped + refused, dropped) {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn call_in_progress_is_reported_until_it_ends() {
    let received = Received::default();
    let loads = received.collector();
    let world = World::with_server(ServerOptions::default().with_load_reports(loads.clone())).await;
    let backend = Backend::slow(Duration::from_secs(3)).await;
    let change = to("c").cluster_as(reported("c")).endpoints("c", &[backend.address]);
    world.apply(change.0).await;
    let mut client = reporting_client(&world);
    let call = tokio::spawn(async move { check(&mut client, &[]).await });
    let is_open = |it: &UpstreamLocalityStats| {
        (it.total_issued_requests, it.total_requests_in_progress) == (1, 1)
    };
    received.until(|zones| zones.get("here").is_some_and(is_open)).await;
    let before = received.by_zone().remove("here").expect("a zone");
    assert_eq!(before.total_successful_requests + before.total_error_requests, 0);
    call.await.unwrap().expect("an answer");
    // The client is gone, and with it the cluster. The last report still arrives.
    received
        .until(|zones| zones.get("here").is_some_and(|it| it.total_successful_requests == 1))
        .await;
    let after = received.by_zone().remove("here").expect("a zone");
    assert_eq!((after.total_issued_requests, after.total_requests_in_progress), (1, 0));
    soon(async {
        while loads.streams() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn only_requested_clusters_are_reported() {
    let received = Received::default();
    let request = LoadRequest::of_clusters(["other", "c"], Duration::from_secs(1));
    let options = ServerOptions::default().with_load_reports(received.collector_of(request));
    let world = World::with_server(options).await;
    let backend = Backend::new().await;
    let change = Change::new()
        .routes(vec![
            route(path("/grpc.health.v1.Health/Check"), weighted(&[("c", 1), ("d", 1)])),
            route(prefix(""), cluster("d")),
        ])
        .cluster_as(reported("c"))
        .cluster_as(reported("d"))
        .endpoints("c", &[backend.address])
        .endpoints("d", &[backend.address]);
    world.apply(change.0).await;
    let mut client = reporting_client(&world);
    for _ in 0..40 {
        check(&mut client, &[]).await.expect("an answer");
    }
    received.until(|zones| zones.contains_key("here")).await;
    let clusters = received.all();
    assert!(clusters.iter().all(|it| it.cluster_name == "c"), "{clusters:?}");
    let calls = received.by_zone().remove("here").expect("a zone").total_issued_requests;
    assert!((1..40).contains(&calls), "{calls}");
}

#[tokio::test]
async fn cluster_without_lrs_server_opens_no_stream() {
    let received = Received::default();
    let loads = received.collector();
    let world = World::with_server(ServerOptions::default().with_load_reports(loads.clone())).await;
    let backend = Backend::new().await;
    world.apply(to("c").at("c", &[backend.address]).0).await;
    let mut client = reporting_client(&world);
    check(&mut client, &[]).await.expect("an answer");
    world.apply(Change::new().cluster_as(reported("c")).0).await;
    soon(async {
        while loads.streams() == 0 || !received.by_zone().contains_key("here") {
            check(&mut client, &[]).await.expect("an answer");
        }
    })
    .await;
    // The load is not requested any more.
    world.apply(Change::new().cluster("c").0).await;
    soon(async {
        while loads.streams() > 0 {
            check(&mut client, &[]).await.expect("an answer");
        }
    })
    .await;
}

#[tokio::test]
async fn client_that_is_not_admitted_cannot_report_and_its_calls_continue() {
    let received = Received::default();
    let loads = received.collector();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let authorizer =
        move |client: AuthorizationRequest| -> core::future::Ready<AuthorizationDecision> {
            let is_discovery = client.stream.is_some();
            if !is_discovery {
                seen.lock().unwrap().push(client.node_id.to_string());
            }
            core::future::ready(match is_discovery {
                true => Ok("".into()),
                false => Err(Denied::new(StatusCode::PermissionDenied, "no reports")),
            })
        };
    let options = ServerOptions::default().with_load_reports(loads.clone());
    let world = World::with_server(options.with_authorizer(authorizer)).await;
    let backend = Backend::new().await;
    let change = to("c").cluster_as(reported("c")).endpoints("c", &[backend.address]);
    world.apply(change.0).await;
    let mut client = reporting_client(&world);
    soon(async {
        while asked.lock().unwrap().len() < 2 {
            check(&mut client, &[]).await.expect("an answer");
        }
    })
    .await;
    assert_eq!(asked.lock().unwrap()[0], "node-1");
    assert_eq!((loads.streams(), loads.reports()), (0, 0));
}
