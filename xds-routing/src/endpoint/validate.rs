//! Validation of endpoints.

use alloc::{collections::BTreeSet, string::String, vec::Vec};

use xds_core::{
    ResourceName,
    proto::{Locality as LocalityName, value},
};

use super::{ClusterLoadAssignment, Drop, Endpoint, Health, Locality};
use crate::{
    pattern::Fraction,
    proto::envoy::config::{
        core::v3::HealthStatus,
        endpoint::v3::{
            self as schema, cluster_load_assignment::policy::DropOverload,
            lb_endpoint::HostIdentifier,
        },
    },
    scalars::{HostForm, SocketAddress, judge_address},
    validation::Judge,
};

pub(crate) fn judge_endpoints(
    schema: &schema::ClusterLoadAssignment,
    judge: &mut Judge<'_>,
) -> Option<ClusterLoadAssignment> {
    // Priorities are contiguous, so none exceeds the number of localities.
    let most = schema.endpoints.len();
    let mut priorities: Vec<Vec<Locality>> = Vec::new();
    let mut addresses = BTreeSet::new();
    let mut places = BTreeSet::new();
    for (index, locality) in schema.endpoints.iter().enumerate() {
        judge.element("endpoints", index, |judge| {
            let weight = locality.load_balancing_weight.as_ref().map_or(0, |it| it.value);
            // A locality without weight gets no calls and is ignored.
            if weight == 0 {
                return;
            }
            let endpoints = judge_locality(locality, &mut addresses, judge);
            let place = usize::try_from(locality.priority).ok().filter(|&place| place < most);
            let Some(place) = place else {
                judge.fault_in("priority", "leaves a priority before it empty");
                return;
            };
            if priorities.len() <= place {
                priorities.resize_with(place + 1, Vec::new);
            }
            if locality.locality.is_none() {
                judge.fault_in("locality", "must be set");
            }
            let name = locality.locality.clone().unwrap_or_default();
            if let Some(priority) = priorities.get_mut(place) {
                let own = locality.locality.as_ref();
                let own = own.map(|it| (&*it.region, &*it.zone, &*it.sub_zone)).unwrap_or_default();
                if !places.insert((place, own)) {
                    let why = format_args!("{} is there twice in its priority", Place(&name));
                    judge.fault_in("locality", why);
                }
                priority.push(Locality { name, weight, endpoints });
            }
        });
    }
    for (priority, localities) in priorities.iter().enumerate() {
        if localities.is_empty() {
            judge.fault_in("endpoints", format_args!("priority {priority} is empty"));
        }
        let sum: u64 = localities.iter().map(|it| u64::from(it.weight)).sum();
        if sum > u64::from(u32::MAX) {
            let why =
                format_args!("the weights of priority {priority} sum up to more than {}", u32::MAX);
            judge.fault_in("endpoints", why);
        }
    }
    let drops = schema.policy.as_ref().map_or(&[][..], |policy| &policy.drop_overloads);
    let drops = judge_drops(drops, judge);
    let name = ResourceName::from(schema.cluster_name.as_str());
    Some(ClusterLoadAssignment { name, priorities, drops })
}

struct Place<'a>(&'a LocalityName);

impl core::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let LocalityName { region, zone, sub_zone } = self.0;
        write!(f, "`{region}/{zone}/{sub_zone}`")
    }
}

fn judge_locality(
    locality: &schema::LocalityLbEndpoints,
    addresses: &mut BTreeSet<SocketAddress>,
    judge: &mut Judge<'_>,
) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    let mut sum: u64 = 0;
    for (index, endpoint) in locality.lb_endpoints.iter().enumerate() {
        let judged = judge
            .element("lb_endpoints", index, |judge| judge_endpoint(endpoint, addresses, judge));
        if let Some(endpoint) = judged {
            sum = sum.saturating_add(u64::from(endpoint.weight));
            endpoints.push(endpoint);
        }
    }
    if sum > u64::from(u32::MAX) {
        let why = format_args!("the weights sum up to more than {}", u32::MAX);
        judge.fault_in("lb_endpoints", why);
    }
    endpoints
}

/// Validates an endpoint. Returns `None` if it is unhealthy or invalid.
fn judge_endpoint(
    endpoint: &schema::LbEndpoint,
    addresses: &mut BTreeSet<SocketAddress>,
    judge: &mut Judge<'_>,
) -> Option<Endpoint> {
    let health = match HealthStatus::try_from(endpoint.health_status) {
        Ok(HealthStatus::Healthy) => Health::Healthy,
        Ok(HealthStatus::Unknown) => Health::Unknown,
        Ok(HealthStatus::Draining) => Health::Draining,
        _ => return None,
    };
    let weight = endpoint.load_balancing_weight.as_ref().map_or(1, |it| it.value);
    if weight == 0 {
        judge.fault_in("load_balancing_weight", "must be above zero");
    }
    let Some(HostIdentifier::Endpoint(schema)) = endpoint.host_identifier.as_ref() else {
        judge.fault_in("endpoint", "must be set");
        return None;
    };
    let mut own = Vec::new();
    judge.field("endpoint", |judge| {
        own.extend(
            judge.field("address", |judge| {
                judge_address(schema.address.as_ref(), HostForm::Ip, judge)
            }),
        );
        for (index, address) in schema.additional_addresses.iter().enumerate() {
            own.extend(judge.element("additional_addresses", index, |judge| {
                judge.field("address", |judge| {
                    judge_address(address.address.as_ref(), HostForm::Ip, judge)
                })
            }));
        }
        for address in &own {
            if !addresses.insert(address.clone()) {
                judge.fault(format_args!("the address {address} is there twice"));
            }
        }
    });
    let hostname = String::from(&schema.hostname);
    let hash_key = hash_key(endpoint).unwrap_or_default();
    Some(Endpoint { addresses: own, weight, hostname, health, hash_key })
}

/// Returns the hash key from the `envoy.lb` metadata. A value that is not a string is ignored.
fn hash_key(endpoint: &schema::LbEndpoint) -> Option<String> {
    let said = endpoint.metadata.as_ref()?.filter_metadata.get("envoy.lb")?;
    match said.fields.get("hash_key")?.kind.as_ref()? {
        value::Kind::StringValue(key) => Some(key.clone()),
        _ => None,
    }
}

fn judge_drops(drops: &[DropOverload], judge: &mut Judge<'_>) -> Vec<Drop> {
    let mut judged = Vec::new();
    for (index, drop) in drops.iter().enumerate() {
        judge.field("policy", |judge| {
            judge.element("drop_overloads", index, |judge| {
                if drop.category.is_empty() {
                    judge.fault_in("category", "must not be empty");
                }
                let Some(share) = drop.drop_percentage.as_ref().map(Fraction::from_schema) else {
                    judge.fault_in("drop_percentage", "must be set");
                    return;
                };
                match share {
                    Some(share) => judged.push(Drop { category: drop.category.clone(), share }),
                    None => judge.fault_in("drop_percentage.denominator", "unknown value"),
                }
            });
        });
    }
    judged
}
