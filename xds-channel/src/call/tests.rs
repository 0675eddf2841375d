//! Cases that no valid configuration leads to, and timing.

use core::time::Duration;
use std::{collections::BTreeMap, sync::Mutex};

use crate::support::{api_listener, cluster, manager, prefix, rds, route, valid};
use tokio::{sync::watch, time::advance};
use tonic::Code;
use xds_routing::{
    Random, Rules, dependencies::DependencyManager, listener::Listener, router::Router,
};

use super::*;

fn request() -> Request<Body> {
    Request::builder().uri("http://shop/s/m").body(Body::empty()).expect("a request")
}

// B26: a route to an unknown cluster is a bug and the only failure with INTERNAL.
#[tokio::test]
async fn a_cluster_that_nobody_knows_of_is_internal() {
    let listener = api_listener("shop", &manager(rds("routes")));
    let listener = Listener::from_schema(&listener, &Rules::default()).expect("a listener");
    let connections = listener.api().expect("one of clients");
    let routes = Arc::new(valid(vec![route(prefix(""), cluster("c"))]));
    let table = Table {
        router: Router::new(routes, "shop", connections).expect("a virtual host"),
        clusters: BTreeMap::new(),
        note: DependencyManager::new("shop", "shop", "node-1").clusters().note().clone(),
    };
    let (_routing, routing) = watch::channel(Routing::Known(Arc::new(table)));
    let shared = Shared {
        routing,
        authority: "shop".parse().expect("an authority"),
        node_id: "node-1".into(),
        random: Mutex::new(Random::new(0)),
    };
    let status = call(Arc::new(shared), request()).await.expect_err("it cannot go anywhere");
    assert_eq!(status.code(), Code::Internal);
    let why = "unknown cluster `c` (resolution note: xDS node ID: node-1)";
    assert_eq!(status.message(), why);
    println!("covers: S3.090 S3.095 B26");
}

/// The endpoint receives the remaining time as its timeout.
#[tokio::test(start_paused = true)]
async fn a_call_that_waited_has_less_time() {
    let (parts, body) = request().into_parts();
    let outgoing = Outgoing {
        parts,
        body: Replay::new(body),
        deadline: Some(Instant::now() + Duration::from_secs(20)),
        trial: PickAttempt::First,
        refused_by: None,
    };
    let told = || {
        let request = outgoing.request(Scheme::HTTP).expect("all of it is there");
        request.headers()["grpc-timeout"].to_str().expect("a text").to_owned()
    };
    assert_eq!(told(), "20000000u");
    advance(Duration::from_millis(200)).await;
    assert_eq!(told(), "19800000u");
    advance(Duration::from_secs(60)).await;
    assert_eq!(told(), "0n");
}
