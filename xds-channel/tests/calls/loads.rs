//! Weighted round robin by the load that endpoints report (gRFC A58, gRFC A51).

use core::time::Duration;

use prost::Message as _;
use tokio::time::sleep;
use tonic_health::pb::health_client::HealthClient;
use xds_channel::{ChannelOptions, XdsChannel};
use xds_core::{
    proto::{self, BoolValue},
    types,
};
use xds_routing::proto::{
    envoy::{
        config::cluster::v3::Cluster,
        extensions::load_balancing_policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
    },
    xds::data::orca::v3::OrcaLoadReport,
};

use crate::{
    support::*,
    world::{Backend, Change, Reporting, World, check, eds, soon},
};

fn load(cpu_utilization: f64) -> OrcaLoadReport {
    OrcaLoadReport { rps_fractional: 100.0, cpu_utilization, ..OrcaLoadReport::default() }
}

/// Makes calls until one quarter of a hundred goes to the first endpoint and the rest to the second.
async fn shares_become_one_to_three(
    world: &World,
    busy: &Backend,
    idle: &Backend,
    is_out_of_band: bool,
) {
    let rules = ClientSideWeightedRoundRobin {
        enable_oob_load_report: Some(BoolValue { value: is_out_of_band }),
        oob_reporting_period: Some(proto::Duration { seconds: 0, nanos: 50_000_000 }),
        blackout_period: Some(proto::Duration::default()),
        weight_update_period: Some(proto::Duration { seconds: 0, nanos: 100_000_000 }),
        metric_names_for_computing_utilization: vec!["named_metrics.queue".into()],
        ..ClientSideWeightedRoundRobin::default()
    };
    let weighted = Cluster { load_balancing_policy: policies(&rules), ..eds("c") };
    let routes = vec![route(prefix(""), cluster("c"))];
    let change = Change::new().routes(routes).cluster_as(weighted);
    world.apply(change.endpoints("c", &[busy.address, idle.address]).0).await;
    let mut client = world.health();
    soon(async {
        loop {
            let before = (busy.calls(), idle.calls());
            for _ in 0..100 {
                check(&mut client, &[]).await.unwrap();
            }
            let made = (busy.calls() - before.0, idle.calls() - before.1);
            if (23..=27).contains(&made.0) && (73..=77).contains(&made.1) {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn endpoint_that_reports_less_load_with_its_responses_gets_more_calls() {
    let world = World::new().await;
    let busy = Backend::reporting(Reporting::WithResponses(load(0.9))).await;
    let idle = Backend::reporting(Reporting::WithResponses(load(0.3))).await;
    shares_become_one_to_three(&world, &busy, &idle, false).await;
    println!("covers: B33f");
}

/// The utilization of the CPU is the opposite of that of the selected metric (gRFC A114).
#[tokio::test]
async fn selected_metric_is_the_utilization() {
    let world = World::new().await;
    let with_queue = |cpu_utilization, queue| OrcaLoadReport {
        named_metrics: [("queue".into(), queue)].into(),
        ..load(cpu_utilization)
    };
    let busy = Backend::reporting(Reporting::WithResponses(with_queue(0.3, 0.9))).await;
    let idle = Backend::reporting(Reporting::WithResponses(with_queue(0.9, 0.3))).await;
    shares_become_one_to_three(&world, &busy, &idle, false).await;
    println!("covers: B33f");
}

/// With out-of-band reports, those of responses do not count.
#[tokio::test]
async fn endpoint_that_reports_less_load_on_a_stream_gets_more_calls() {
    let world = World::new().await;
    let busy = Backend::reporting(Reporting::OnStreams(load(0.9))).await;
    let idle = Backend::reporting(Reporting::OnStreams(load(0.3))).await;
    shares_become_one_to_three(&world, &busy, &idle, true).await;
    assert_eq!((busy.streams(), idle.streams()), (1, 1));
    println!("covers: B33f");
}

/// Returns a cluster with streams of load reports at this interval.
fn with_streams(interval: i64) -> Cluster {
    let rules = ClientSideWeightedRoundRobin {
        enable_oob_load_report: Some(BoolValue { value: true }),
        oob_reporting_period: Some(proto::Duration { seconds: interval, nanos: 0 }),
        ..ClientSideWeightedRoundRobin::default()
    };
    Cluster { load_balancing_policy: policies(&rules), ..eds("c") }
}

async fn has_streams(backend: &Backend, count: usize) {
    soon(async {
        while backend.streams() < count {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Endpoints that cannot report their load are asked once, and get equal shares.
#[tokio::test]
async fn endpoint_without_load_reports_is_asked_once() {
    let world = World::new().await;
    let backends = [Backend::new().await, Backend::new().await];
    let rules = ClientSideWeightedRoundRobin {
        enable_oob_load_report: Some(BoolValue { value: true }),
        ..ClientSideWeightedRoundRobin::default()
    };
    let weighted = Cluster { load_balancing_policy: policies(&rules), ..eds("c") };
    let change = Change::new().routes(vec![route(prefix(""), cluster("c"))]).cluster_as(weighted);
    world.apply(change.endpoints("c", &backends.each_ref().map(|it| it.address)).0).await;
    let mut client = world.health();
    soon(async {
        while backends.iter().any(|it| it.calls() < 20) {
            check(&mut client, &[]).await.unwrap();
        }
    })
    .await;
    let calls = backends.each_ref().map(Backend::calls);
    assert!(calls[0].abs_diff(calls[1]) < 20, "{calls:?}");
    assert_eq!(backends.each_ref().map(Backend::streams), [1, 1]);
}

/// A changed interval restarts the streams, except on connections without the service.
#[tokio::test]
async fn endpoint_without_load_reports_is_not_asked_again_on_its_connection() {
    let world = World::new().await;
    let without = Backend::new().await;
    let with = Backend::reporting(Reporting::OnStreams(load(0.3))).await;
    let addresses = [without.address, with.address];
    let change = Change::new().routes(vec![route(prefix(""), cluster("c"))]);
    world.apply(change.cluster_as(with_streams(10)).endpoints("c", &addresses).0).await;
    let mut client = world.health();
    check(&mut client, &[]).await.unwrap();
    has_streams(&without, 1).await;
    has_streams(&with, 1).await;
    sleep(Duration::from_millis(100)).await;
    world.apply(Change::new().cluster_as(with_streams(20)).0).await;
    has_streams(&with, 2).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!((without.streams(), with.streams()), (1, 2));
}

/// The authority of a stream is that of calls, including a port.
#[tokio::test]
async fn stream_has_the_authority_of_the_channel() {
    let world = World::new().await;
    let backend = Backend::reporting(Reporting::OnStreams(load(0.3))).await;
    let listener = api_listener("shop", &manager(rds("routes")));
    let table = routes("routes", vec![host(&["*"], vec![route(prefix(""), cluster("c"))])]);
    let mut change = Change::new().cluster_as(with_streams(10)).endpoints("c", &[backend.address]);
    change.0.set(types::LISTENER, "shop", listener.encode_to_vec());
    change.0.set(types::ROUTE_CONFIGURATION, "routes", table.encode_to_vec());
    world.apply(change.0).await;
    let mut options = ChannelOptions::new("node-1");
    options.listener = Some("shop".into());
    let channel = XdsChannel::new(&world.client, "xds:///shop:8080", options).expect("a target");
    check(&mut HealthClient::new(channel), &[]).await.unwrap();
    has_streams(&backend, 1).await;
    assert_eq!(backend.counted.stream_authority.lock().unwrap().as_deref(), Some("shop:8080"));
}

/// A stream does not prevent the end of a connection on which the server accepts no more calls.
#[tokio::test]
async fn stream_ends_after_goaway() {
    let world = World::new().await;
    let mut backend = Backend::reporting(Reporting::OnStreams(load(0.3))).await;
    let change = Change::new().routes(vec![route(prefix(""), cluster("c"))]);
    world.apply(change.cluster_as(with_streams(10)).endpoints("c", &[backend.address]).0).await;
    let mut client = world.health();
    check(&mut client, &[]).await.unwrap();
    has_streams(&backend, 1).await;
    backend.stop();
    soon(&mut backend.serving).await.expect("no panic");
}

#[tokio::test]
async fn load_report_in_the_headers_of_a_response_is_ignored() {
    let world = World::new().await;
    let backends = [
        Backend::reporting(Reporting::InHeaders(load(0.9))).await,
        Backend::reporting(Reporting::InHeaders(load(0.3))).await,
    ];
    let rules = ClientSideWeightedRoundRobin {
        blackout_period: Some(proto::Duration::default()),
        weight_update_period: Some(proto::Duration { seconds: 0, nanos: 100_000_000 }),
        ..ClientSideWeightedRoundRobin::default()
    };
    let weighted = Cluster { load_balancing_policy: policies(&rules), ..eds("c") };
    let change = Change::new().routes(vec![route(prefix(""), cluster("c"))]).cluster_as(weighted);
    world.apply(change.endpoints("c", &backends.each_ref().map(|it| it.address)).0).await;
    let mut client = world.health();
    soon(async {
        while backends.iter().any(|it| it.calls() < 20) {
            check(&mut client, &[]).await.unwrap();
        }
    })
    .await;
    // The weights would be renewed meanwhile.
    sleep(Duration::from_millis(300)).await;
    let before = backends.each_ref().map(Backend::calls);
    for _ in 0..100 {
        check(&mut client, &[]).await.unwrap();
    }
    let made = backends[0].calls() - before[0];
    assert!((45..=55).contains(&made), "{made} of 100 calls");
}
