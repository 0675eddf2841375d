use xds_routing::{
    Rules,
    proto::envoy::config::{
        cluster::v3::{
            self as cds, OutlierDetection,
            cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, LbPolicy},
        },
        route::v3::{RetryPolicy, RouteAction},
    },
};

use super::*;
use crate::support::{action, ads, cluster, prefix, route_to, table, validated};

fn eds(name: &str) -> cds::Cluster {
    cds::Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: ads(),
            ..EdsClusterConfig::default()
        }),
        ..cds::Cluster::default()
    }
}

fn routes(retry_on: &str) -> Arc<RouteConfiguration> {
    let retry = RetryPolicy { retry_on: retry_on.into(), ..RetryPolicy::default() };
    let action = RouteAction { retry_policy: Some(retry), ..action(cluster("c")) };
    Arc::new(validated(&table(vec![route_to(prefix(""), action)])).expect("a table"))
}

/// A request is reported when it is new, and again if it was absent in between.
#[test]
fn what_is_asked_for_and_not_done_is_said_when_it_comes() {
    let mut lacks = Lacks::default();
    let mut told = |routes: &Arc<RouteConfiguration>, clusters: &[cds::Cluster]| {
        let clusters: Vec<_> = clusters
            .iter()
            .map(|it| Cluster::from_schema(it, &Rules::default()).expect("a cluster"))
            .collect();
        let news = lacks.renew(routes, &routes.virtual_hosts()[0], clusters.iter());
        news.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (plain, retried) = (routes("5xx"), routes("unavailable"));
    assert_eq!(told(&plain, &[eds("c")]), [] as [&str; 0], "that is nothing for gRPC");

    let ring = cds::Cluster { lb_policy: LbPolicy::RingHash as i32, ..eds("ring") };
    let ejecting =
        cds::Cluster { outlier_detection: Some(OutlierDetection::default()), ..eds("c") };
    let of_ring = "cluster `ring` asks for another policy than round robin";
    let of_c = "cluster `c` asks for outlier detection";
    assert_eq!(told(&plain, &[ejecting.clone(), ring.clone()]), [of_c, of_ring]);
    let of_routes = "route configuration `routes` asks for retries";
    assert_eq!(told(&retried, &[ejecting.clone(), ring.clone()]), [of_routes]);
    assert_eq!(told(&retried, std::slice::from_ref(&ejecting)), [] as [&str; 0]);
    assert_eq!(told(&plain, &[ejecting, ring]), [of_ring]);
    assert_eq!(told(&retried, &[]), [of_routes]);
}
