//! Registered endpoints, and the endpoint resource of a cluster.

use std::{collections::BTreeMap, net::IpAddr};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Endpoint that a service registers under a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Endpoint {
    /// IP address, or a host name for clusters that resolve DNS names.
    pub address: String,
    /// TCP port.
    pub port: u16,
    /// Region of the endpoint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Zone of the endpoint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// Priority: endpoints with the lowest number are preferred. Default: 0, the highest priority.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: u32,
    /// Share of the zone's requests, relative to the other weights in the zone. Default: 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn one() -> u32 {
    1
}

impl Endpoint {
    /// Creates an endpoint with a weight of 1 and without a zone.
    pub fn new(address: impl Into<String>, port: u16) -> Self {
        Self { address: address.into(), port, weight: 1, ..Self::default() }
    }

    /// Sets the region and the zone.
    #[must_use]
    pub fn in_zone(mut self, region: impl Into<String>, zone: impl Into<String>) -> Self {
        (self.region, self.zone) = (region.into(), zone.into());
        self
    }

    /// Sets the weight.
    #[must_use]
    pub const fn with_weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub const fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    pub(crate) fn parse(value: &[u8]) -> Result<Self, String> {
        let endpoint: Self = serde_json::from_slice(value)
            .map_err(|why| format!("not a registered endpoint, such as {EXAMPLE}: {why}"))?;
        if endpoint.address.is_empty() || endpoint.port == 0 || endpoint.weight == 0 {
            return Err("an endpoint needs an address, a port and a weight of at least 1".into());
        }
        Ok(endpoint)
    }

    pub(crate) fn to_value(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

const EXAMPLE: &str = r#"{"address": "10.0.0.1", "port": 8080, "zone": "a"}"#;

/// Endpoint with the revision at which its key was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) revision: u64,
    pub(crate) endpoint: Endpoint,
}

/// Returns the registrations to use, sorted by id. If several have the same address and port, only
/// the newest is used, or the one with the last id if they were written in one transaction. gRPC
/// clients reject a cluster with two endpoints at one address.
fn without_duplicates(endpoints: &BTreeMap<String, Registered>) -> impl Iterator<Item = &Endpoint> {
    let at = |Endpoint { address, port, .. }: &Endpoint| match address.parse::<IpAddr>() {
        Ok(ip) => (ip.to_string(), *port),
        Err(_) => (address.clone(), *port),
    };
    let mut newest: BTreeMap<_, (u64, &str)> = BTreeMap::new();
    for (id, Registered { revision, endpoint }) in endpoints {
        let known = newest.entry(at(endpoint)).or_default();
        *known = (*known).max((*revision, id));
    }
    endpoints.iter().filter_map(move |(id, Registered { revision, endpoint })| {
        let is_newest = newest.get(&at(endpoint)) == Some(&(*revision, id));
        is_newest.then_some(endpoint)
    })
}

/// Returns the `ClusterLoadAssignment` of a cluster as JSON. The text is deterministic, so every
/// replica generates the same one.
pub(crate) fn assignment(cluster: &str, endpoints: &BTreeMap<String, Registered>) -> Bytes {
    let mut localities: BTreeMap<(u32, &str, &str), Vec<Value>> = BTreeMap::new();
    for endpoint in without_duplicates(endpoints) {
        let Endpoint { address, port, region, zone, priority, weight } = endpoint;
        let entry = json!({
            "endpoint": { "address": { "socket_address": {
                "address": address, "port_value": port,
            }}},
            "load_balancing_weight": weight,
        });
        localities.entry((*priority, region, zone)).or_default().push(entry);
    }
    let groups: Vec<_> = localities
        .into_iter()
        .map(|((priority, region, zone), endpoints)| {
            // The weight of a zone is the sum of its endpoints' weights.
            let weights = endpoints.iter().filter_map(|it| it["load_balancing_weight"].as_u64());
            let weight = u32::try_from(weights.sum::<u64>()).unwrap_or(u32::MAX);
            json!({
                "locality": { "region": region, "zone": zone },
                "priority": priority,
                "load_balancing_weight": weight,
                "lb_endpoints": endpoints,
            })
        })
        .collect();
    let assignment = json!({ "cluster_name": cluster, "endpoints": groups });
    assignment.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_parsed_as_it_is_written() {
        let endpoint = Endpoint::new("10.0.0.1", 80).in_zone("eu", "eu-1").with_weight(3);
        assert_eq!(Endpoint::parse(&endpoint.to_value()), Ok(endpoint));
        let short = Endpoint::parse(br#"{"address": "::1", "port": 1}"#).unwrap();
        assert_eq!(short, Endpoint::new("::1", 1));
        let fault = Endpoint::parse(br#"{"address": "::1"}"#).unwrap_err();
        assert!(fault.contains("port"), "{fault}");
        let fault = Endpoint::parse(br#"{"address": "::1", "port": 1, "zon": "a"}"#).unwrap_err();
        assert!(fault.contains("zon"), "{fault}");
    }

    fn registered<const N: usize>(
        revision: u64,
        endpoints: [(&str, Endpoint); N],
    ) -> BTreeMap<String, Registered> {
        let of = |(id, endpoint): (&str, _)| (id.to_owned(), Registered { revision, endpoint });
        endpoints.map(of).into()
    }

    /// Returns the addresses, ports and weights of the endpoints.
    fn used(endpoints: &BTreeMap<String, Registered>) -> Vec<String> {
        let parsed: Value = serde_json::from_slice(&assignment("web", endpoints)).unwrap();
        let groups = parsed["endpoints"].as_array().unwrap().iter();
        let all = groups.flat_map(|group| group["lb_endpoints"].as_array().unwrap());
        let shown = all.map(|it| {
            let socket = &it["endpoint"]["address"]["socket_address"];
            let (address, port) = (socket["address"].as_str().unwrap(), &socket["port_value"]);
            format!("{address} {port} weight {}", it["load_balancing_weight"])
        });
        shown.collect()
    }

    /// gRPC clients reject a cluster with two endpoints at one address, also in different localities.
    #[test]
    fn newest_registration_of_an_address_and_port_is_used() {
        let mut endpoints = registered(
            5,
            [
                ("a", Endpoint::new("::1", 80).with_weight(1)),
                ("b", Endpoint::new("::1", 81).with_weight(2)),
                ("c", Endpoint::new("web.example", 80).with_weight(3)),
            ],
        );
        let all = ["::1 80 weight 1", "::1 81 weight 2", "web.example 80 weight 3"];
        assert_eq!(used(&endpoints), all);
        let older = Endpoint::new("0::1", 80).with_weight(9).with_priority(1);
        endpoints.extend(registered(4, [("z", older)]));
        assert_eq!(used(&endpoints), all);
        let newer = Endpoint::new("0::1", 80).with_weight(7).in_zone("eu", "a");
        endpoints.extend(registered(6, [("0", newer)]));
        let changed = ["::1 81 weight 2", "web.example 80 weight 3", "0::1 80 weight 7"];
        assert_eq!(used(&endpoints), changed);
        // Registrations of one transaction have one revision.
        let last = Endpoint::new("web.example", 80).with_weight(4);
        endpoints.extend(registered(5, [("d", last)]));
        let changed = ["::1 81 weight 2", "web.example 80 weight 4", "0::1 80 weight 7"];
        assert_eq!(used(&endpoints), changed);
    }

    #[test]
    fn endpoints_are_grouped_by_priority_and_zone() {
        let endpoints = [
            ("1", Endpoint::new("10.0.0.1", 80).in_zone("eu", "b")),
            ("2", Endpoint::new("10.0.0.2", 80).in_zone("eu", "a").with_weight(2)),
            ("3", Endpoint::new("10.0.0.3", 80).in_zone("eu", "b")),
            ("4", Endpoint::new("10.0.0.4", 80).with_priority(1)),
        ];
        let endpoints = registered(1, endpoints);
        let text = assignment("web", &endpoints);
        let parsed: Value = serde_json::from_slice(&text).unwrap();
        let groups = parsed["endpoints"].as_array().unwrap();
        let shape: Vec<_> = groups
            .iter()
            .map(|group| {
                let zone = group["locality"]["zone"].as_str().unwrap();
                let weight = group["load_balancing_weight"].as_u64().unwrap();
                (zone, weight, group["lb_endpoints"].as_array().unwrap().len())
            })
            .collect();
        assert_eq!(shape, [("a", 2, 1), ("b", 2, 2), ("", 1, 1)]);
    }
}
