//! Endpoints of a port of a Service, from its EndpointSlices.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    net::{IpAddr, SocketAddr},
};

use super::messages::{
    AdditionalAddress, Address, ClusterLoadAssignment, Endpoint, LbEndpoint, Locality,
    LocalityLbEndpoints, SocketAddress, UInt32Value,
};
use crate::objects::{EndpointState, Slice};

/// Address family of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// One endpoint of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reachable {
    zone: Box<str>,
    state: EndpointState,
    /// Address of the other family of the same Pod.
    other: Option<SocketAddr>,
}

/// Returns the `ClusterLoadAssignment` of a port, sorted by zone and address. `port` is the name of
/// the port, empty if it has none. Without endpoints, the resource is empty.
///
/// As in kube-proxy, endpoints that terminate and still serve are only used if no endpoint is
/// ready. In a dual-stack Service, both addresses of a Pod form one endpoint.
pub(super) fn assignment<'s>(
    cluster: &str,
    port: &str,
    preferred: Family,
    slices: impl Iterator<Item = &'s Slice>,
) -> ClusterLoadAssignment {
    let mut zones: BTreeMap<Box<str>, Vec<(SocketAddr, Reachable)>> = BTreeMap::new();
    let endpoints = endpoints(port, preferred, slices);
    let is_any_ready = endpoints.values().any(|it| it.state == EndpointState::Ready);
    for (address, mut endpoint) in endpoints {
        match endpoint.state {
            EndpointState::Unusable => continue,
            EndpointState::Draining if !is_any_ready => endpoint.state = EndpointState::Ready,
            EndpointState::Draining | EndpointState::Ready => {}
        }
        zones.entry(endpoint.zone.clone()).or_default().push((address, endpoint));
    }
    let localities = zones.into_iter().map(|(zone, endpoints)| {
        let usable = endpoints.iter().filter(|(_, it)| it.state == EndpointState::Ready).count();
        LocalityLbEndpoints {
            locality: Some(Locality { zone: zone.into() }),
            // gRPC ignores localities without a weight. Each endpoint has an equal share.
            load_balancing_weight: Some(UInt32Value {
                value: u32::try_from(usable.max(1)).unwrap_or(u32::MAX),
            }),
            lb_endpoints: endpoints.into_iter().map(lb_endpoint).collect(),
        }
    });
    ClusterLoadAssignment { cluster_name: cluster.to_owned(), endpoints: localities.collect() }
}

/// Collects the endpoints of all slices. An endpoint may be in several slices for a moment, while it
/// moves between them.
fn endpoints<'s>(
    port: &str,
    preferred: Family,
    slices: impl Iterator<Item = &'s Slice>,
) -> BTreeMap<SocketAddr, Reachable> {
    let mut found: BTreeMap<SocketAddr, Reachable> = BTreeMap::new();
    // Addresses of the other family, by the port number and the Pod.
    let mut others: BTreeMap<(SocketAddr, Option<&str>), Reachable> = BTreeMap::new();
    let mut pods: HashMap<(&str, u16), SocketAddr> = HashMap::new();
    for slice in slices {
        let numbers = slice.ports.iter().filter(|it| it.name == port).map(|it| it.number);
        for number in numbers {
            for endpoint in &slice.endpoints {
                let address = SocketAddr::new(endpoint.address, number);
                let reachable =
                    Reachable { zone: endpoint.zone.clone(), state: endpoint.state, other: None };
                let pod = endpoint.target.as_deref();
                if Family::of(endpoint.address) == preferred {
                    if let Some(pod) = pod {
                        pods.entry((pod, number))
                            .and_modify(|known| *known = (*known).min(address))
                            .or_insert(address);
                    }
                    add(found.entry(address), reachable);
                } else {
                    add(others.entry((address, pod)), reachable);
                }
            }
        }
    }
    for ((address, pod), reachable) in others {
        let known = pod.and_then(|pod| pods.get(&(pod, address.port())));
        match known.and_then(|known| found.get_mut(known)) {
            Some(endpoint) => {
                endpoint.other.get_or_insert(address);
            }
            None => add(found.entry(address), reachable),
        }
    }
    found
}

fn add<K: Ord>(entry: Entry<'_, K, Reachable>, reachable: Reachable) {
    match entry {
        Entry::Vacant(entry) => {
            entry.insert(reachable);
        }
        // The choice does not depend on the order of the slices.
        Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            if (reachable.state, &reachable.zone) > (known.state, &known.zone) {
                *known = reachable;
            }
        }
    }
}

fn lb_endpoint((address, endpoint): (SocketAddr, Reachable)) -> LbEndpoint {
    let is_draining = endpoint.state == EndpointState::Draining;
    let additional = endpoint.other.into_iter();
    let additional = additional.map(|it| AdditionalAddress { address: Some(message_of(it)) });
    LbEndpoint {
        endpoint: Some(Endpoint {
            address: Some(message_of(address)),
            additional_addresses: additional.collect(),
        }),
        health_status: if is_draining { LbEndpoint::DRAINING } else { LbEndpoint::HEALTHY },
    }
}

fn message_of(address: SocketAddr) -> Address {
    let socket_address = SocketAddress {
        address: address.ip().to_string(),
        port_value: Some(u32::from(address.port())),
    };
    Address { socket_address: Some(socket_address) }
}

#[cfg(test)]
mod tests {
    use EndpointState::{Draining, Ready, Unusable};

    use super::*;
    use crate::objects::{SliceEndpoint, SlicePort};

    /// Creates a slice of endpoints, each given as an address, a zone and a state.
    fn slice(ports: &[(&str, u16)], endpoints: &[(&str, &str, EndpointState)]) -> Slice {
        let ports = ports.iter().map(|&(name, number)| SlicePort { name: name.into(), number });
        let endpoints = endpoints.iter().map(|&(address, zone, state)| SliceEndpoint {
            address: address.parse().unwrap(),
            zone: zone.into(),
            state,
            target: None,
        });
        Slice {
            service: "s".into(),
            revision: 1,
            ports: ports.collect(),
            endpoints: endpoints.collect(),
        }
    }

    /// Returns a slice whose endpoints are of Pods, in the order of the uids.
    fn of_pods(mut slice: Slice, uids: &[&str]) -> Slice {
        slice.endpoints.iter_mut().zip(uids).for_each(|(it, uid)| it.target = Some((*uid).into()));
        slice
    }

    fn shown(port: &str, preferred: Family, slices: &[Slice]) -> String {
        let assignment = assignment("c", port, preferred, slices.iter());
        let address = |it: &Option<Address>| {
            let socket = it.as_ref().unwrap().socket_address.as_ref().unwrap();
            format!("{}:{}", socket.address, socket.port_value.unwrap())
        };
        let localities = assignment.endpoints.iter().map(|locality| {
            let endpoints = locality.lb_endpoints.iter().map(|it| {
                let mark = match it.health_status {
                    LbEndpoint::HEALTHY => "",
                    LbEndpoint::DRAINING => "~",
                    other => panic!("{other}"),
                };
                let endpoint = it.endpoint.as_ref().unwrap();
                let others: Vec<_> = endpoint
                    .additional_addresses
                    .iter()
                    .map(|it| format!("+{}", address(&it.address)))
                    .collect();
                format!("{mark}{}{}", address(&endpoint.address), others.concat())
            });
            let endpoints: Vec<_> = endpoints.collect();
            let weight = locality.load_balancing_weight.as_ref().unwrap().value;
            format!(
                "{}*{weight}: {}",
                locality.locality.as_ref().unwrap().zone,
                endpoints.join(" ")
            )
        });
        localities.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn zones_are_localities_with_the_number_of_their_endpoints_as_weight() {
        let slices = [
            slice(&[("", 80)], &[("10.0.0.2", "b", Ready), ("10.0.0.10", "a", Ready)]),
            slice(&[("", 80)], &[("10.0.0.3", "a", Ready), ("10.0.0.4", "", Ready)]),
        ];
        let expected = "*1: 10.0.0.4:80; a*2: 10.0.0.3:80 10.0.0.10:80; b*1: 10.0.0.2:80";
        assert_eq!(shown("", Family::V4, &slices), expected);
        let [first, second] = slices;
        assert_eq!(shown("", Family::V4, &[second, first]), expected, "the order is the same");
    }

    #[test]
    fn unready_endpoints_are_left_out_and_serving_ones_drain() {
        let endpoints = [
            ("10.0.0.1", "a", Unusable),
            ("10.0.0.2", "a", Draining),
            ("10.0.0.3", "a", Ready),
            ("10.0.0.4", "b", Draining),
        ];
        let slices = [slice(&[("", 80)], &endpoints)];
        let expected = "a*1: ~10.0.0.2:80 10.0.0.3:80; b*1: ~10.0.0.4:80";
        assert_eq!(shown("", Family::V4, &slices), expected);
    }

    #[test]
    fn draining_endpoints_are_used_if_none_is_ready() {
        let endpoints = [("10.0.0.1", "a", Unusable), ("10.0.0.2", "a", Draining)];
        assert_eq!(shown("", Family::V4, &[slice(&[("", 80)], &endpoints)]), "a*1: 10.0.0.2:80");
        let none = [("10.0.0.1", "a", Unusable)];
        assert_eq!(shown("", Family::V4, &[slice(&[("", 80)], &none)]), "");
        assert_eq!(shown("", Family::V4, &[]), "");
    }

    #[test]
    fn named_target_port_may_have_another_number_in_each_slice() {
        let slices = [
            slice(&[("grpc", 50051), ("admin", 9000)], &[("10.0.0.1", "", Ready)]),
            slice(&[("grpc", 50052), ("admin", 9000)], &[("10.0.0.2", "", Ready)]),
            slice(&[("admin", 9000)], &[("10.0.0.3", "", Ready)]),
        ];
        assert_eq!(shown("grpc", Family::V4, &slices), "*2: 10.0.0.1:50051 10.0.0.2:50052");
        assert_eq!(
            shown("admin", Family::V4, &slices),
            "*3: 10.0.0.1:9000 10.0.0.2:9000 10.0.0.3:9000"
        );
        assert_eq!(shown("", Family::V4, &slices), "");
    }

    #[test]
    fn endpoint_in_two_slices_is_one_endpoint_in_its_better_state() {
        let old = slice(&[("", 80)], &[("10.0.0.1", "a", Draining)]);
        let new = slice(&[("", 80)], &[("10.0.0.1", "b", Ready)]);
        for slices in [[old.clone(), new.clone()], [new, old]] {
            assert_eq!(shown("", Family::V4, &slices), "b*1: 10.0.0.1:80");
        }
    }

    #[test]
    fn both_addresses_of_a_pod_are_one_endpoint() {
        let v4 = slice(&[("", 80)], &[("10.0.0.1", "a", Ready), ("10.0.0.2", "a", Ready)]);
        let v6 = slice(&[("", 80)], &[("fd00::1", "a", Ready), ("fd00::2", "a", Ready)]);
        let slices = [of_pods(v4.clone(), &["p1", "p2"]), of_pods(v6.clone(), &["p1", "p2"])];
        let expected = "a*2: 10.0.0.1:80+fd00::1:80 10.0.0.2:80+fd00::2:80";
        assert_eq!(shown("", Family::V4, &slices), expected);
        let expected = "a*2: fd00::1:80+10.0.0.1:80 fd00::2:80+10.0.0.2:80";
        assert_eq!(shown("", Family::V6, &slices), expected);
        // A Pod that has one address only, and endpoints that are no Pods.
        let slices = [of_pods(v4, &["p1", "p2"]), v6];
        let expected = "a*4: 10.0.0.1:80 10.0.0.2:80 fd00::1:80 fd00::2:80";
        assert_eq!(shown("", Family::V4, &slices), expected);
    }
}
