//! Pick first (gRFC A62): one connection, to the first address that answers.

use xds_core::{Time, proto::Any};
use xds_routing::{
    Rules,
    balancer::{Balancer, BalancerOutput, BalancerTimes, ConnectionEvent, Source},
    cluster::Cluster,
    proto::envoy::{
        config::cluster::v3::{LoadBalancingPolicy, load_balancing_policy::Policy},
        config::core::v3::TypedExtensionConfig,
        extensions::load_balancing_policies::pick_first::v3::PickFirst,
    },
};

use crate::balancer::rig::{Driver, cluster_schema, judged_endpoints, schema};

fn first(shuffle_address_list: bool) -> Cluster {
    let policy = PickFirst { shuffle_address_list };
    let typed_config = Any {
        type_url:
            "type.googleapis.com/envoy.extensions.load_balancing_policies.pick_first.v3.PickFirst"
                .into(),
        value: prost::Message::encode_to_vec(&policy).into(),
    };
    let config = TypedExtensionConfig { name: "first".into(), typed_config: Some(typed_config) };
    let policy = Policy { typed_extension_config: Some(config) };
    let mut schema = cluster_schema("c");
    schema.load_balancing_policy = Some(LoadBalancingPolicy { policies: vec![policy] });
    Cluster::from_schema(&schema, &Rules::default()).expect("a cluster")
}

/// Returns the ports of the addresses of each connection that is to be made.
fn dialled(balancer: &mut Balancer) -> Vec<Vec<u16>> {
    let mut dialled = Vec::new();
    while let Some(output) = balancer.poll_output() {
        if let BalancerOutput::Connect(_, _, addresses) = output {
            dialled.push(addresses.iter().map(|it| it.port).collect());
        }
    }
    dialled
}

#[test]
fn addresses_of_a_priority_are_one_connection() {
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1, 2]), (0, 9, &[3]), (1, 1, &[4])]));
    let mut balancer = Balancer::new(BalancerTimes::default(), 1);
    balancer.update(&[Source::new(&first(false), &endpoints)], Time::ZERO);
    assert_eq!(dialled(&mut balancer), [[1, 2, 3]], "in the order of the resource");

    let mut driver = Driver::new(&[]);
    driver.balance(&[Source::new(&first(false), &endpoints)]);
    driver.connected(&[1]);
    assert_eq!(driver.serving(), [1].into());
    driver.is(1, ConnectionEvent::Closed);
    assert_eq!(driver.pick().unwrap_err(), "queue");
    driver.after(2);
    driver.fails(1);
    assert!(driver.log().ends_with("+4"), "the next priority");
    driver.connected(&[4]);
    assert_eq!(driver.serving(), [4].into());
}

#[test]
fn changed_addresses_serve_once_they_are_connected() {
    let mut driver = Driver::new(&[]);
    let before = judged_endpoints(&schema(&[(0, 1, &[1, 2])]));
    driver.balance(&[Source::new(&first(false), &before)]);
    driver.connected(&[1]);
    driver.balance(&[Source::new(&first(false), &before)]);
    assert_eq!(driver.log(), "+1", "unchanged");
    let after = judged_endpoints(&schema(&[(0, 1, &[3, 1])]));
    driver.balance(&[Source::new(&first(false), &after)]);
    assert_eq!((driver.log().as_str(), driver.serving()), ("+3", [1].into()));
    driver.connected(&[3]);
    assert_eq!((driver.log().as_str(), driver.serving()), ("-1", [3].into()));
    let none = judged_endpoints(&schema(&[(0, 1, &[])]));
    driver.balance(&[Source::new(&first(false), &none)]);
    assert_eq!(driver.pick().unwrap_err(), "there are no endpoints");
}

#[test]
fn addresses_are_shuffled_by_the_seed() {
    let endpoints = judged_endpoints(&schema(&[(0, 1, &[1, 2, 3, 4])]));
    let source = || first(true);
    let mut firsts = [0; 4];
    for seed in 0..400 {
        let mut balancer = Balancer::new(BalancerTimes::default(), seed);
        balancer.update(&[Source::new(&source(), &endpoints)], Time::ZERO);
        let order = dialled(&mut balancer).concat();
        firsts[usize::from(order[0]) - 1] += 1;
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 4]);
        balancer.update(&[Source::new(&source(), &endpoints)], Time::ZERO);
        assert!(dialled(&mut balancer).is_empty(), "the order of equal addresses is the same");
    }
    assert!(firsts.iter().all(|count| (60..140).contains(count)), "{firsts:?}");
}
