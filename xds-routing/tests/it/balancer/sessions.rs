//! Calls of sessions go to the endpoint of the session (gRFC A55, A75).

use std::collections::BTreeSet;

use xds_core::proto::{Any, Duration as DurationSchema};
use xds_routing::{
    Random, Rules,
    balancer::{ConnectionEvent, EndpointPick, PickArguments, PickAttempt, SessionPick, Source},
    cluster::Cluster,
    proto::envoy::{
        config::{
            cluster::v3::{
                self as cds, LoadBalancingPolicy, cluster::CommonLbConfig,
                load_balancing_policy::Policy,
            },
            core::v3::{HealthStatus, HealthStatusSet, HttpProtocolOptions, TypedExtensionConfig},
            endpoint::v3 as eds,
        },
        extensions::{
            load_balancing_policies::pick_first::v3::PickFirst,
            upstreams::http::v3::HttpProtocolOptions as UpstreamOptions,
        },
    },
};

use crate::{
    balancer::rig::{Driver, cluster_schema, judged_endpoints, schema},
    support::*,
};

fn valid_cluster(schema: &cds::Cluster) -> Cluster {
    Cluster::from_schema(schema, &Rules::default()).expect("a cluster")
}

/// Returns a cluster whose sessions can use endpoints with these health statuses.
fn allowing(statuses: &[HealthStatus]) -> Cluster {
    let statuses = statuses.iter().map(|it| *it as i32).collect();
    let override_host_status = Some(HealthStatusSet { statuses });
    let mut schema = cluster_schema("c");
    schema.common_lb_config = Some(CommonLbConfig { override_host_status });
    valid_cluster(&schema)
}

fn draining_allowed() -> Cluster {
    allowing(&[HealthStatus::Healthy, HealthStatus::Unknown, HealthStatus::Draining])
}

fn at(port: u16) -> String {
    format!("10.0.0.1:{port}")
}

/// Returns endpoints of one locality, the last of which has this health status.
fn last_is(ports: &[u32], status: HealthStatus) -> eds::ClusterLoadAssignment {
    let mut schema = schema(&[(0, 1, ports)]);
    let last = schema.endpoints[0].lb_endpoints.last_mut().expect("an endpoint");
    last.health_status = status as i32;
    schema
}

fn update(driver: &mut Driver, cluster: &Cluster, endpoints: &eds::ClusterLoadAssignment) {
    driver.balance(&[Source::new(cluster, &judged_endpoints(endpoints))]);
}

/// Returns the ports that get calls of a session, from 20 picks.
fn served_by(driver: &mut Driver, port: u16) -> BTreeSet<u16> {
    let picks = (0..20).map(|_| driver.pick_session(&at(port)).expect("an endpoint").0);
    picks.collect()
}

#[test]
fn call_of_a_session_goes_to_its_endpoint_if_it_is_ready() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2, 3])]);
    driver.connected(&[1, 2, 3]);
    for port in [1, 2, 3] {
        assert_eq!(served_by(&mut driver, port), [port].into());
    }
    let (_, permit) = driver.pick_session(&at(2)).expect("an endpoint");
    assert_eq!(permit.session_addresses(), Some("10.0.0.1:2"));
    let (_, permit) = driver.pick().expect("an endpoint");
    assert_eq!(permit.session_addresses(), None, "a call without session");
}

#[test]
fn new_session_is_balanced_and_learns_the_address() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2])]);
    driver.connected(&[1, 2]);
    let mut found = BTreeSet::new();
    for _ in 0..20 {
        let (port, permit) = driver.pick_session("").expect("an endpoint");
        assert_eq!(permit.session_addresses(), Some(&*at(port)));
        found.insert(port);
    }
    assert_eq!(found, [1, 2].into());
}

#[test]
fn unknown_or_failed_endpoint_falls_back_to_the_policy() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2, 3])]);
    driver.connected(&[1, 2]);
    for nowhere in ["10.0.0.9:9", "text", "10.0.0.1:1x", ",,", "\u{1F980}"] {
        let found: BTreeSet<_> =
            (0..20).map(|_| driver.pick_session(nowhere).expect("an endpoint").0).collect();
        assert_eq!(found, [1, 2].into(), "{nowhere}");
    }
    assert_eq!(driver.pick_session(&at(3)).unwrap_err(), "queue", "it is connecting");
    driver.fails(3);
    assert_eq!(served_by(&mut driver, 3), [1, 2].into());
    driver.after(30);
    driver.connected(&[3]);
    assert_eq!(served_by(&mut driver, 3), [3].into());
    // A lost connection is made anew, and the session waits for it.
    driver.is(3, ConnectionEvent::Closed);
    assert_eq!(driver.pick_session(&at(3)).unwrap_err(), "queue");
}

#[test]
fn first_usable_address_of_a_list_is_used() {
    let mut driver = Driver::new(&[(0, 1, &[1, 2, 3])]);
    driver.connected(&[2]);
    driver.fails(3);
    let list = |ports: &[u16]| ports.iter().map(|it| at(*it)).collect::<Vec<_>>().join(",");
    let mut picked = |ports| driver.pick_session(&list(ports)).map(|it| it.0);
    assert_eq!(picked(&[9, 3, 2]), Ok(2));
    assert_eq!(picked(&[1, 2]), Ok(2), "ready before connecting");
    assert_eq!(picked(&[3, 1]), Err("queue".into()));
    assert_eq!(picked(&[3, 9]), Ok(2), "that of the policy");
}

/// The list begins with the address that the connection uses.
#[test]
fn cookie_lists_all_addresses_of_the_endpoint() {
    let mut endpoints = schema(&[(0, 1, &[1, 4])]);
    let one = &mut endpoints.endpoints[0].lb_endpoints[0];
    let Some(eds::lb_endpoint::HostIdentifier::Endpoint(one)) = one.host_identifier.as_mut() else {
        panic!("an endpoint")
    };
    for port in [2, 3] {
        let address = Some(address("10.0.0.1", port));
        one.additional_addresses.push(eds::endpoint::AdditionalAddress { address });
    }
    let mut driver = Driver::new(&[]);
    let cluster = allowing(&[HealthStatus::Unknown]);
    update(&mut driver, &cluster, &endpoints);
    driver.is(1, crate::balancer::rig::connected_to(2));
    let list = "10.0.0.1:2,10.0.0.1:1,10.0.0.1:3";
    for address in [at(1), at(2), at(3), list.into()] {
        let (port, permit) = driver.pick_session(&address).expect("an endpoint");
        assert_eq!((port, permit.session_addresses()), (1, Some(list)));
    }
}

#[test]
fn draining_endpoint_keeps_its_sessions_only_if_the_cluster_allows_it() {
    for (cluster, is_kept) in [(draining_allowed(), true), (allowing(&[]), false)] {
        let mut driver = Driver::new(&[]);
        update(&mut driver, &cluster, &schema(&[(0, 1, &[1, 2])]));
        driver.connected(&[1, 2]);
        let _ = driver.pick_session(&at(2)).expect("an endpoint");
        driver.log();
        update(&mut driver, &cluster, &last_is(&[1, 2], HealthStatus::Draining));
        assert_eq!(driver.log(), if is_kept { "" } else { "-2" });
        assert_eq!(served_by(&mut driver, 2), [if is_kept { 2 } else { 1 }].into());
        assert_eq!(driver.serving(), [1].into(), "calls without session");
        // After its removal there are no sessions.
        update(&mut driver, &cluster, &schema(&[(0, 1, &[1])]));
        assert_eq!(driver.log(), if is_kept { "-2" } else { "" });
        assert_eq!(served_by(&mut driver, 2), [1].into());
    }
}

/// The default is UNKNOWN and HEALTHY, and an empty set means that there is no affinity.
#[test]
fn health_statuses_restrict_the_endpoints_of_sessions() {
    let by_default = valid_cluster(&cluster_schema("c"));
    let healthy = allowing(&[HealthStatus::Healthy, HealthStatus::Degraded]);
    for (cluster, status, is_allowed) in [
        (&by_default, HealthStatus::Unknown, true),
        (&by_default, HealthStatus::Healthy, true),
        (&by_default, HealthStatus::Draining, false),
        (&healthy, HealthStatus::Healthy, true),
        (&healthy, HealthStatus::Unknown, false),
        (&allowing(&[]), HealthStatus::Healthy, false),
    ] {
        let mut driver = Driver::new(&[]);
        update(&mut driver, cluster, &last_is(&[1, 2], status));
        let open: Vec<u16> = driver.ports.values().copied().collect();
        driver.connected(&open);
        let is_used = served_by(&mut driver, 2) == [2].into();
        assert_eq!(is_used, is_allowed, "{status:?} {:?}", cluster.override_host_status);
    }
}

/// A session may begin elsewhere, so a connection is made when a cookie names the endpoint.
#[test]
fn connection_to_a_draining_endpoint_is_made_for_a_session() {
    let mut driver = Driver::new(&[]);
    update(&mut driver, &draining_allowed(), &last_is(&[1, 2], HealthStatus::Draining));
    driver.connected(&[1]);
    assert_eq!(driver.log(), "+1");
    assert_eq!(driver.pick_session(&at(2)).unwrap_err(), "queue");
    assert_eq!(driver.log(), "+2");
    assert_eq!(driver.pick_session(&at(2)).unwrap_err(), "queue");
    assert_eq!(driver.log(), "", "it is being made");
    driver.connected(&[2]);
    assert_eq!(served_by(&mut driver, 2), [2].into());
    assert_eq!(driver.serving(), [1].into());
}

/// Otherwise calls would wait for an endpoint that is gone, or the client would connect to it
/// without end.
#[test]
fn connection_of_sessions_only_is_not_made_anew() {
    let mut driver = Driver::new(&[]);
    update(&mut driver, &draining_allowed(), &last_is(&[1, 2], HealthStatus::Draining));
    driver.connected(&[1]);
    driver.pick_session(&at(2)).unwrap_err();
    driver.fails(2);
    assert_eq!(served_by(&mut driver, 2), [1].into(), "it has failed");
    driver.log();
    driver.after(60);
    assert_eq!(driver.log(), "-2");
    // The next call tries again.
    assert_eq!(driver.pick_session(&at(2)).unwrap_err(), "queue");
    driver.connected(&[2]);
    assert_eq!(served_by(&mut driver, 2), [2].into());
    driver.log();
    driver.is(2, ConnectionEvent::Closed);
    assert_eq!(driver.log(), "-2");
    driver.after(60);
    assert_eq!(driver.log(), "");
}

#[test]
fn unused_connection_is_closed_after_the_idle_timeout() {
    let options = HttpProtocolOptions {
        idle_timeout: Some(DurationSchema { seconds: 100, nanos: 0 }),
        ..HttpProtocolOptions::default()
    };
    let options = UpstreamOptions { common_http_protocol_options: Some(options) };
    let config = Any {
        type_url: "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
            .into(),
        value: prost::Message::encode_to_vec(&options).into(),
    };
    let config = TypedExtensionConfig { name: "u".into(), typed_config: Some(config) };
    let mut cluster = cluster_schema("c");
    cluster.upstream_config = Some(config);
    let statuses = vec![HealthStatus::Unknown as i32, HealthStatus::Draining as i32];
    let override_host_status = Some(HealthStatusSet { statuses });
    cluster.common_lb_config = Some(CommonLbConfig { override_host_status });
    let cluster = valid_cluster(&cluster);

    let mut driver = Driver::new(&[]);
    update(&mut driver, &cluster, &schema(&[(0, 1, &[1, 2, 3])]));
    driver.connected(&[1, 2, 3]);
    driver.pick_session(&at(2)).expect("an endpoint");
    driver.log();
    let mut draining = last_is(&[1, 2, 3], HealthStatus::Draining);
    draining.endpoints[0].lb_endpoints[1].health_status = HealthStatus::Draining as i32;
    update(&mut driver, &cluster, &draining);
    assert_eq!(driver.log(), "-3", "no session has used it");
    driver.after(60);
    assert_eq!(served_by(&mut driver, 2), [2].into());
    driver.after(60);
    assert_eq!(driver.log(), "", "it was used 60 seconds ago");
    driver.after(60);
    assert_eq!(driver.log(), "-2");
}

/// Sessions work across the priorities of a cluster (A75).
#[test]
fn endpoint_of_an_unused_priority_gets_the_calls_of_its_sessions() {
    let mut driver = Driver::new(&[(0, 1, &[1]), (1, 1, &[2])]);
    driver.connected(&[1]);
    assert_eq!(driver.log(), "+1");
    assert_eq!(driver.pick_session(&at(2)).unwrap_err(), "queue");
    assert_eq!(driver.log(), "+2");
    driver.connected(&[2]);
    assert_eq!(served_by(&mut driver, 2), [2].into());
    assert_eq!(driver.serving(), [1].into());
    // The endpoint moves to the first priority, and then back.
    driver.update(&schema(&[(0, 1, &[1, 2])]));
    assert_eq!(driver.log(), "");
    assert_eq!(driver.serving(), [1, 2].into());
    driver.update(&schema(&[(0, 1, &[1]), (1, 1, &[2])]));
    assert_eq!(driver.log(), "");
    assert_eq!(served_by(&mut driver, 2), [2].into());
}

/// The layer of sessions is above the LB policy.
#[test]
fn session_is_served_while_the_policy_has_no_endpoint() {
    let mut driver = Driver::new(&[]);
    update(&mut driver, &draining_allowed(), &last_is(&[1, 2], HealthStatus::Draining));
    driver.pick_session(&at(2)).unwrap_err();
    driver.connected(&[2]);
    assert_eq!(driver.pick().unwrap_err(), "queue");
    assert_eq!(served_by(&mut driver, 2), [2].into());
    driver.fails(1);
    assert!(driver.pick().unwrap_err().contains("1 refused"));
    assert_eq!(served_by(&mut driver, 2), [2].into());
    assert!(driver.pick_session(&at(7)).unwrap_err().contains("1 refused"));
}

/// The member of an aggregate cluster is chosen first (A75).
#[test]
fn session_uses_the_member_that_gets_the_calls() {
    let [first, second] = ["a", "b"].map(|name| valid_cluster(&cluster_schema(name)));
    let [of_first, of_second] =
        [[1_u32], [2]].map(|ports| judged_endpoints(&schema(&[(0, 1, &ports)])));
    let mut driver = Driver::new(&[]);
    driver.balance(&[Source::new(&first, &of_first), Source::new(&second, &of_second)]);
    driver.connected(&[1]);
    assert_eq!(served_by(&mut driver, 2), [1].into());
    driver.is(1, ConnectionEvent::Closed);
    driver.after(2);
    driver.fails(1);
    driver.connected(&[2]);
    assert_eq!(served_by(&mut driver, 1), [2].into());
    assert_eq!(driver.picker.cluster().map(|it| it.as_str()), Some("b"));
}

/// Drop categories and the limit of calls are above the layer of sessions.
#[test]
fn limits_apply_to_calls_of_sessions() {
    let mut limited = cluster_schema("c");
    let thresholds = cds::circuit_breakers::Thresholds {
        max_requests: number(1),
        ..cds::circuit_breakers::Thresholds::default()
    };
    limited.circuit_breakers = Some(cds::CircuitBreakers { thresholds: vec![thresholds] });
    let mut driver = Driver::new(&[]);
    update(&mut driver, &valid_cluster(&limited), &schema(&[(0, 1, &[1, 2])]));
    driver.connected(&[1, 2]);
    let held = driver.pick_session(&at(2)).expect("an endpoint");
    assert_eq!(driver.pick_session(&at(2)).unwrap_err(), "TooMany");
    drop(held);
    assert!(driver.pick_session(&at(2)).is_ok());
}

#[test]
fn pick_first_uses_its_connection_for_sessions() {
    let policy = PickFirst { shuffle_address_list: false };
    let config = Any {
        type_url:
            "type.googleapis.com/envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst"
                .into(),
        value: prost::Message::encode_to_vec(&policy).into(),
    };
    let config = TypedExtensionConfig { name: "first".into(), typed_config: Some(config) };
    let policies = vec![Policy { typed_extension_config: Some(config) }];
    let mut cluster = cluster_schema("c");
    cluster.load_balancing_policy = Some(LoadBalancingPolicy { policies });
    let mut driver = Driver::new(&[]);
    update(&mut driver, &valid_cluster(&cluster), &schema(&[(0, 1, &[1, 2])]));
    driver.is(1, crate::balancer::rig::connected_to(2));
    let (port, permit) = driver.pick_session("").expect("an endpoint");
    assert_eq!((port, permit.session_addresses()), (1, Some("10.0.0.1:2")));
    driver.log();
    driver.pick_session(&at(2)).expect("the connection is to this endpoint");
    assert_eq!(driver.log(), "");
    // One to the other endpoint is made for its sessions only.
    assert_eq!(driver.pick_session(&at(1)).unwrap_err(), "queue");
    assert_eq!(driver.log(), "+1");
}

/// Without sessions, a balancer has no state for them.
#[test]
fn first_call_of_a_session_requests_a_picker() {
    let mut driver = Driver::new(&[(0, 1, &[1])]);
    driver.connected(&[1]);
    let mut arguments = PickArguments::new(PickAttempt::First);
    arguments.session = Some(SessionPick::new("", driver.now));
    let mut random = Random::new(0);
    let picked = driver.picker.pick_for(&arguments, &mut random);
    assert!(matches!(picked, EndpointPick::Request(_)), "{picked:?}");
    driver.pick_session("").expect("an endpoint");
    let picked = driver.picker.pick_for(&arguments, &mut random);
    assert!(matches!(picked, EndpointPick::Endpoint(..)), "{picked:?}");
    // After an hour without sessions.
    driver.after(2 * 3_600);
    let picked = driver.picker.pick_for(&arguments, &mut random);
    assert!(matches!(picked, EndpointPick::Request(_)), "{picked:?}");
}
