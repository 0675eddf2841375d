//! Weighted round robin by the load that endpoints report (gRFC A58, gRFC A51).

use xds_core::proto::{self, BoolValue};
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
