//! Validation of endpoints.

use alloc::{collections::BTreeSet, string::String, vec::Vec};

use xds_core::{
    ResourceName,
    proto::{Locality as LocalityName, value},
};

use super::{ClusterLoadAssignment, DropCategory, Endpoint, Health, Locality};
use crate::{
    pattern::Fraction,
    proto::envoy::config::endpoint::v3::{
        self as schema, cluster_load_assignment::policy::DropOverload, lb_endpoint::HostIdentifier,
    },
    scalars::{HostForm, SocketAddress, validate_address},
    validation::Validator,
};

pub(crate) fn validate_endpoints(
    schema: &schema::ClusterLoadAssignment,
    validator: &mut Validator<'_>,
) -> Option<ClusterLoadAssignment> {
    // Priorities are contiguous, so none exceeds the number of localities.
    let most = schema.endpoints.len();
    let mut priorities: Vec<Vec<Locality>> = Vec::new();
    let mut addresses = BTreeSet::new();
    let mut places = BTreeSet::new();
    for (index, locality) in schema.endpoints.iter().enumerate() {
        validator.element("endpoints", index, |validator| {
            let weight = locality.load_balancing_weight.as_ref().map_or(0, |it| it.value);
            // A locality without weight gets no calls and is ignored.
            if weight == 0 {
                return;
            }
            let endpoints = validate_locality(locality, &mut addresses, validator);
            let place = usize::try_from(locality.priority).ok().filter(|&place| place < most);
            let Some(place) = place else {
                validator.error_in("priority", "a higher priority has no localities");
                return;
            };
            if priorities.len() <= place {
                priorities.resize_with(place + 1, Vec::new);
            }
            if locality.locality.is_none() {
                validator.error_in("locality", "must be set");
            }
            let name = locality.locality.clone().unwrap_or_default();
            if let Some(priority) = priorities.get_mut(place) {
                let own = locality.locality.as_ref();
                let own = own.map(|it| (&*it.region, &*it.zone, &*it.sub_zone)).unwrap_or_default();
                if !places.insert((place, own)) {
                    let repeated = Place(&name);
                    let why = format_args!("duplicate locality {repeated} in this priority");
                    validator.error_in("locality", why);
                }
                priority.push(Locality { name, weight, endpoints });
            }
        });
    }
    for (priority, localities) in priorities.iter().enumerate() {
        if localities.is_empty() {
            validator.error_in("endpoints", format_args!("priority {priority} is empty"));
        }
        let sum: u64 = localities.iter().map(|it| u64::from(it.weight)).sum();
        if sum > u64::from(u32::MAX) {
            let why =
                format_args!("the weights of priority {priority} sum up to more than {}", u32::MAX);
            validator.error_in("endpoints", why);
        }
    }
    let drops = schema.policy.as_ref().map_or(&[][..], |policy| &policy.drop_overloads);
    let drops = validate_drops(drops, validator);
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

fn validate_locality(
    locality: &schema::LocalityLbEndpoints,
    addresses: &mut BTreeSet<SocketAddress>,
    validator: &mut Validator<'_>,
) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    let mut sum: u64 = 0;
    for (index, endpoint) in locality.lb_endpoints.iter().enumerate() {
        let validated = validator.element("lb_endpoints", index, |validator| {
            validate_endpoint(endpoint, addresses, validator)
        });
        if let Some(endpoint) = validated {
            sum = sum.saturating_add(u64::from(endpoint.weight));
            endpoints.push(endpoint);
        }
    }
    if sum > u64::from(u32::MAX) {
        let why = format_args!("the weights sum up to more than {}", u32::MAX);
        validator.error_in("lb_endpoints", why);
    }
    endpoints
}

/// Validates an endpoint. Returns `None` if it is unhealthy or invalid.
fn validate_endpoint(
    endpoint: &schema::LbEndpoint,
    addresses: &mut BTreeSet<SocketAddress>,
    validator: &mut Validator<'_>,
) -> Option<Endpoint> {
    let health = Health::from_schema(endpoint.health_status)?;
    let weight = endpoint.load_balancing_weight.as_ref().map_or(1, |it| it.value);
    if weight == 0 {
        validator.error_in("load_balancing_weight", "must be above zero");
    }
    let Some(HostIdentifier::Endpoint(schema)) = endpoint.host_identifier.as_ref() else {
        validator.error_in("endpoint", "must be set");
        return None;
    };
    let mut own = Vec::new();
    validator.field("endpoint", |validator| {
        own.extend(validator.field("address", |validator| {
            validate_address(schema.address.as_ref(), HostForm::Ip, validator)
        }));
        for (index, address) in schema.additional_addresses.iter().enumerate() {
            own.extend(validator.element("additional_addresses", index, |validator| {
                validator.field("address", |validator| {
                    validate_address(address.address.as_ref(), HostForm::Ip, validator)
                })
            }));
        }
        for address in &own {
            if !addresses.insert(address.clone()) {
                validator.error(format_args!("duplicate address {address}"));
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

fn validate_drops(drops: &[DropOverload], validator: &mut Validator<'_>) -> Vec<DropCategory> {
    let mut validated = Vec::new();
    for (index, drop) in drops.iter().enumerate() {
        validator.field("policy", |validator| {
            validator.element("drop_overloads", index, |validator| {
                if drop.category.is_empty() {
                    validator.error_in("category", "must not be empty");
                }
                let Some(share) = drop.drop_percentage.as_ref().map(Fraction::from_schema) else {
                    validator.error_in("drop_percentage", "must be set");
                    return;
                };
                match share {
                    Some(share) => {
                        validated.push(DropCategory { category: drop.category.clone(), share })
                    }
                    None => validator.error_in("drop_percentage.denominator", "unknown value"),
                }
            });
        });
    }
    validated
}
