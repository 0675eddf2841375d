//! Routing of calls.

use core::time::Duration;

use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use xds_channel::{InvalidTarget, WaitForReady};
use xds_core::{proto::Duration as DurationSchema, types};
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::{
            Cluster,
            cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType},
        },
        endpoint::v3::{
            ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
            lb_endpoint::HostIdentifier,
        },
        route::v3::{
            RouteAction, header_matcher::HeaderMatchSpecifier as Header,
            route_action::MaxStreamDuration,
        },
    },
    extensions::clusters::aggregate::v3::ClusterConfig,
};

use crate::{
    support::*,
    world::{Backend, Change, World, check, nobody, soon},
};

#[allow(deprecated, reason = "servers still send the field")]
fn exactly(value: &str) -> Header {
    Header::ExactMatch(value.into())
}

#[tokio::test]
async fn calls_are_routed_split_by_weight_and_spread_round_robin() {
    let world = World::new().await;
    let [a, b, c, d] =
        [Backend::new().await, Backend::new().await, Backend::new().await, Backend::new().await];
    let vip = with_header(prefix(""), "who", exactly("vip"));
    let list = vec![
        route(vip, cluster("one")),
        route(prefix("/grpc.health.v1.Health/"), weighted(&[("one", 1), ("two", 3)])),
    ];
    let change = Change::new()
        .routes(list)
        .at("one", &[a.address])
        .at("two", &[b.address, c.address, d.address]);
    // The call waits for the whole configuration.
    let mut client = world.health();
    let (checked, ()) = tokio::join!(check(&mut client, &[("who", "vip")]), world.apply(change.0));
    checked.expect("an answer");
    for _ in 0..9 {
        check(&mut client, &[("who", "vip")]).await.expect("an answer");
    }
    assert_eq!((a.calls(), b.calls() + c.calls() + d.calls()), (10, 0));
    for _ in 0..400 {
        check(&mut client, &[]).await.expect("an answer");
    }
    let one = a.calls() - 10;
    assert!((60..140).contains(&one), "{one}");
    // Round robin, except for endpoints that were connected later.
    let turns = [b.calls(), c.calls(), d.calls()];
    assert_eq!(turns.iter().sum::<usize>(), 400 - one);
    assert!(turns.iter().all(|turn| turn.abs_diff((400 - one) / 3) < 12), "{turns:?}");
}

#[tokio::test]
async fn route_limits_the_call_duration() {
    let world = World::new().await;
    let slow = Backend::slow(Duration::from_secs(5)).await;
    let duration = |nanos| DurationSchema { seconds: 0, nanos };
    let action = RouteAction {
        max_stream_duration: Some(MaxStreamDuration {
            max_stream_duration: Some(duration(900_000_000)),
            grpc_timeout_header_max: Some(duration(300_000_000)),
        }),
        ..action(cluster("c"))
    };
    world
        .apply(Change::new().routes(vec![route_to(prefix(""), action)]).at("c", &[slow.address]).0)
        .await;
    let mut client = world.health();
    let late = check(&mut client, &[("grpc-timeout", "20S")]).await.unwrap_err();
    assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
    let header = slow.counted.headers.lock().unwrap()["grpc-timeout"].clone();
    let header = header.to_str().unwrap();
    let micros = header.strip_suffix('n').map(|it| it.parse::<u64>().unwrap() / 1_000);
    let micros = micros.or_else(|| header.strip_suffix('u').map(|it| it.parse().unwrap()));
    assert!((1..=300_000).contains(&micros.expect(header)), "{header}");
    println!("covers: B26");
}

/// A stream continues on its connection when its cluster is removed.
#[tokio::test]
async fn stream_outlives_the_removal_of_its_cluster() {
    let world = World::new().await;
    let [old, new] = [Backend::new().await, Backend::new().await];
    let to = |name: &str| vec![route(prefix(""), cluster(name))];
    world.apply(Change::new().routes(to("old")).at("old", &[old.address]).0).await;
    let mut client = world.health();
    let mut watch = client.watch(HealthCheckRequest::default()).await;
    let watch = watch.as_mut().expect("a stream").get_mut();
    assert_eq!(watch.message().await.unwrap().expect("a status").status, 1);

    world.apply(Change::new().routes(to("new")).at("new", &[new.address]).without("old").0).await;
    while new.calls() == 0 {
        check(&mut client, &[]).await.expect("an answer");
    }
    let not_serving = tonic_health::ServingStatus::NotServing;
    old.reporter.set_service_status("", not_serving).await;
    assert_eq!(watch.message().await.unwrap().expect("another status").status, 2);
}

/// A call waits for the endpoints of its cluster even if routes refer to another one meanwhile.
/// Afterwards the cluster is unsubscribed.
#[tokio::test]
async fn cluster_stays_subscribed_while_a_call_needs_it() {
    let world = World::new().await;
    let [old, new] = [Backend::new().await, Backend::new().await];
    let to = |name: &str| vec![route(prefix(""), cluster(name))];
    world.apply(Change::new().routes(to("old")).at("old", &[nobody().await]).0).await;
    let mut client = world.health();
    let refused = check(&mut client, &[]).await.unwrap_err();
    assert!(refused.message().contains("cluster `old`"), "{refused}");
    let waiting = {
        let mut client = client.clone();
        tokio::spawn(async move {
            let mut request = Request::new(HealthCheckRequest::default());
            request.extensions_mut().insert(WaitForReady);
            client.check(request).await.map(drop)
        })
    };
    // Until the call's cluster is chosen.
    tokio::task::yield_now().await;
    world.apply(Change::new().routes(to("new")).at("new", &[new.address]).0).await;
    while new.calls() == 0 {
        let _ = check(&mut client, &[]).await;
    }
    assert!(!waiting.is_finished());
    let is_followed = async || {
        let status = world.client.status().await.expect("a client");
        status.iter().any(|it| it.type_url.as_str() == types::CLUSTER && it.name == "old")
    };
    assert!(is_followed().await);
    world.apply(Change::new().endpoints("old", &[old.address]).0).await;
    soon(waiting).await.expect("no panic").expect("an answer");
    assert_eq!(old.calls(), 1);
    soon(async {
        while is_followed().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    println!("covers: B26");
}

/// Aggregate cluster of an unreachable member and a logical DNS member.
#[tokio::test]
async fn aggregate_cluster_falls_back_to_its_next_member() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let all = Cluster {
        name: "all".into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::ClusterType(CustomClusterType {
            name: "envoy.clusters.aggregate".into(),
            typed_config: Some(packed(&ClusterConfig {
                clusters: vec!["lost".into(), "named".into()],
            })),
        })),
        ..Cluster::default()
    };
    let endpoint = Endpoint {
        address: Some(address("localhost", backend.address.port().into())),
        ..Endpoint::default()
    };
    let endpoint = LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        ..LbEndpoint::default()
    };
    let locality =
        LocalityLbEndpoints { lb_endpoints: vec![endpoint], ..LocalityLbEndpoints::default() };
    let named = Cluster {
        name: "named".into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::LogicalDns as i32)),
        load_assignment: Some(ClusterLoadAssignment {
            endpoints: vec![locality],
            ..ClusterLoadAssignment::default()
        }),
        ..Cluster::default()
    };
    let change = Change::new()
        .routes(vec![route(prefix(""), cluster("all"))])
        .at("lost", &[nobody().await])
        .cluster_as(named)
        .cluster_as(all);
    world.apply(change.0).await;
    let mut client = world.health();
    for _ in 0..5 {
        check(&mut client, &[]).await.expect("an answer");
    }
    assert_eq!(backend.calls(), 5);
}

/// A name with a slash is the unchanged listener name and virtual host domain.
#[tokio::test]
async fn listener_name_may_contain_slashes() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let listener = api_listener("a/b", &manager(rds("routes")));
    let table = routes("routes", vec![host(&["a/b"], vec![route(prefix(""), cluster("c"))])]);
    let mut change = Change::new().at("c", &[backend.address]).0;
    change.set(types::LISTENER, "a/b", prost::Message::encode_to_vec(&listener));
    change.set(types::ROUTE_CONFIGURATION, "routes", prost::Message::encode_to_vec(&table));
    world.apply(change).await;
    let options = xds_channel::ChannelOptions::new("node-1");
    let channel = xds_channel::XdsChannel::new(&world.client, "xds:///a/b", options).unwrap();
    let mut client = tonic_health::pb::health_client::HealthClient::new(channel);
    check(&mut client, &[]).await.expect("an answer");
    assert_eq!(backend.calls(), 1);
}

#[test]
fn invalid_target_is_rejected() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new().await;
        for target in ["shop", "dns:///shop", "xds:///", "xds://authority", "xds:///a b"] {
            let options = xds_channel::ChannelOptions::new("n");
            let refused = xds_channel::XdsChannel::new(&world.client, target, options).unwrap_err();
            assert_eq!(refused, InvalidTarget::Form { target: target.into() });
        }
        // A name need not be a valid authority.
        for target in ["xds:///a/b", "xds:///shop:80", "xds:///xdstp://a/t/shop", "xds:///[x]"] {
            let options = xds_channel::ChannelOptions::new("n");
            xds_channel::XdsChannel::new(&world.client, target, options).expect("a target");
        }
    });
}
