//! Validation of endpoints.

use xds_core::proto::Locality;
use xds_routing::{
    Rules,
    endpoint::{ClusterLoadAssignment, Health},
    proto::envoy::{
        config::{
            core::v3::HealthStatus,
            endpoint::v3::{
                self as endpoints, Endpoint, LbEndpoint, LocalityLbEndpoints,
                cluster_load_assignment, lb_endpoint::HostIdentifier,
            },
        },
        r#type::v3::FractionalPercent,
    },
};

use crate::{support::*, validation::why};

pub(crate) fn endpoint(ip: &str, port: u32) -> LbEndpoint {
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(ip, port)),
            ..Default::default()
        })),
        ..Default::default()
    }
}

pub(crate) fn locality(
    priority: u32,
    weight: u32,
    lb_endpoints: Vec<LbEndpoint>,
) -> LocalityLbEndpoints {
    LocalityLbEndpoints {
        locality: Some(Locality { zone: format!("z{weight}"), ..Default::default() }),
        lb_endpoints,
        load_balancing_weight: number(weight),
        priority,
        ..Default::default()
    }
}

pub(crate) fn assignment(endpoints: Vec<LocalityLbEndpoints>) -> endpoints::ClusterLoadAssignment {
    endpoints::ClusterLoadAssignment { cluster_name: "e".into(), endpoints, ..Default::default() }
}

fn judged_endpoints(
    schema: &endpoints::ClusterLoadAssignment,
) -> Result<ClusterLoadAssignment, String> {
    ClusterLoadAssignment::from_schema(schema, &Rules::default()).map_err(|it| it.to_string())
}

#[test]
fn endpoints_are_grouped_by_priority_and_locality() {
    let mut ill = endpoint("10.0.0.9", 1);
    ill.health_status = 2;
    let mut well = endpoint("10.0.0.2", 1);
    well.health_status = 1;
    let mut draining = endpoint("10.0.0.3", 1);
    draining.health_status = HealthStatus::Draining as i32;
    let valid = judged_endpoints(&assignment(vec![
        locality(1, 2, vec![endpoint("::1", 1)]),
        locality(0, 1, vec![endpoint("10.0.0.1", 1), ill, well, draining]),
        locality(7, 0, vec![endpoint("no address", 1)]),
    ]))
    .unwrap();
    let shape: Vec<Vec<_>> = valid
        .priorities
        .iter()
        .map(|it| it.iter().map(|it| it.name.zone.as_str()).collect())
        .collect();
    assert_eq!(shape, [["z1"], ["z2"]]);
    let texts: Vec<_> =
        valid.endpoints().map(|it| (it.addresses[0].to_string(), it.health)).collect();
    let expected = [
        ("10.0.0.1:1", Health::Unknown),
        ("10.0.0.2:1", Health::Healthy),
        ("10.0.0.3:1", Health::Draining),
        ("[::1]:1", Health::Unknown),
    ];
    assert_eq!(texts, expected.map(|(text, health)| (text.to_owned(), health)));
    let balanced = valid.endpoints().filter(|it| it.health.takes_calls());
    assert_eq!(balanced.count(), 3, "all but the one that is draining");
    println!("covers: B39a");
}

#[test]
fn invalid_endpoints_are_rejected() {
    let faults = |endpoints| why(judged_endpoints(&assignment(endpoints)));
    let one = |ip| vec![endpoint(ip, 1)];
    assert_eq!(
        faults(vec![locality(1, 1, one("::1")), locality(1, 2, one("::2"))]),
        "endpoints: priority 0 is empty"
    );
    assert_eq!(
        faults(vec![locality(u32::MAX, 1, one("::1"))]),
        "endpoints[0].priority: a higher priority has no localities"
    );
    assert_eq!(
        faults(vec![locality(0, 1, one("::1")), locality(0, 1, one("::2"))]),
        "endpoints[1].locality: duplicate locality `/z1/` in this priority"
    );
    assert_eq!(
        faults(vec![locality(0, 1, one("::1")), locality(0, 2, one("::1"))]),
        "endpoints[1].lb_endpoints[0].endpoint: duplicate address [::1]:1"
    );
    assert_eq!(
        faults(vec![locality(0, u32::MAX, one("::1")), locality(0, 2, one("::2"))]),
        "endpoints: the weights of priority 0 sum up to more than 4294967295"
    );
    let text = faults(vec![locality(0, 1, one("name.example"))]);
    assert!(
        text.ends_with("address.socket_address.address: `name.example` is not an IP address"),
        "{text}"
    );
    let text = faults(vec![locality(0, 1, vec![endpoint("::1", 65_536)])]);
    assert!(text.ends_with("port_value: must be a number up to 65535"), "{text}");
    let mut nameless = locality(0, 1, one("::1"));
    nameless.locality = None;
    assert_eq!(faults(vec![nameless.clone()]), "endpoints[0].locality: must be set");
    nameless.load_balancing_weight = None;
    assert!(judged_endpoints(&assignment(vec![nameless])).is_ok(), "it gets nothing anyway");
    let mut weightless = endpoint("::1", 1);
    weightless.load_balancing_weight = number(0);
    assert!(
        faults(vec![locality(0, 1, vec![weightless])])
            .contains("load_balancing_weight: must be above zero")
    );
}

/// Additional addresses of an endpoint are validated like the first one (gRFC A61).
#[test]
fn additional_addresses_are_validated() {
    let with = |first: &str, others: &[&str]| {
        let others = others
            .iter()
            .map(|&ip| endpoints::endpoint::AdditionalAddress { address: Some(address(ip, 1)) });
        let endpoint = Endpoint {
            address: Some(address(first, 1)),
            additional_addresses: others.collect(),
            ..Endpoint::default()
        };
        LbEndpoint {
            host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
            ..LbEndpoint::default()
        }
    };
    let validator = |list| judged_endpoints(&assignment(vec![locality(0, 1, list)]));
    let valid =
        validator(vec![with("10.0.0.1", &["::1", "10.0.0.2"]), with("10.0.0.3", &[])]).unwrap();
    let addresses: Vec<Vec<_>> = valid
        .endpoints()
        .map(|it| it.addresses.iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(
        addresses,
        [vec!["10.0.0.1:1", "[::1]:1", "10.0.0.2:1"], vec!["10.0.0.3:1"]],
        "in the order in which they are tried"
    );

    let place = "endpoints[0].lb_endpoints";
    assert_eq!(
        why(validator(vec![with("::1", &["::2", "::2"])])),
        format!("{place}[0].endpoint: duplicate address [::2]:1")
    );
    assert_eq!(
        why(validator(vec![with("::1", &["::2"]), with("::3", &["::1"])])),
        format!("{place}[1].endpoint: duplicate address [::1]:1")
    );
    let text = why(validator(vec![with("::1", &["name"])]));
    let place = format!("{place}[0].endpoint.additional_addresses[0].address.");
    assert!(text.starts_with(&place) && text.ends_with("`name` is not an IP address"), "{text}");
    let mut unset = with("::1", &["::2"]);
    if let Some(HostIdentifier::Endpoint(endpoint)) = &mut unset.host_identifier {
        endpoint.additional_addresses[0].address = None;
    }
    assert_eq!(why(validator(vec![unset])), format!("{place}socket_address: must be set"));
    println!("covers: B39b");
}

#[test]
fn drop_overloads_are_parsed() {
    let mut with = assignment(vec![]);
    let drop = |category: &str, share| cluster_load_assignment::policy::DropOverload {
        category: category.into(),
        drop_percentage: share,
    };
    let half = FractionalPercent { numerator: 50, denominator: 0 };
    with.policy =
        Some(cluster_load_assignment::Policy { drop_overloads: vec![drop("busy", Some(half))] });
    assert_eq!(judged_endpoints(&with).unwrap().drops[0].share.millionths(), 500_000);
    with.policy = Some(cluster_load_assignment::Policy { drop_overloads: vec![drop("", None)] });
    let text = why(judged_endpoints(&with));
    assert!(text.contains("policy.drop_overloads[0].category: must not be empty"), "{text}");
}

/// Addresses that are written differently may be equal.
#[test]
fn addresses_are_compared_in_canonical_form() {
    let with = |one: &str, other: &str| {
        judged_endpoints(&assignment(vec![locality(
            0,
            1,
            vec![endpoint(one, 1), endpoint(other, 1)],
        )]))
    };
    let twice = why(with("::1", "0:0:0:0:0:0:0:1"));
    assert!(twice.ends_with("duplicate address [::1]:1"), "{twice}");
    assert!(with("::1", "::2").is_ok());
    // These two differ for the operating system.
    assert!(with("127.0.0.1", "::ffff:127.0.0.1").is_ok());
}
