//! Validation of permissions.

use alloc::{boxed::Box, vec::Vec};
use core::ops::Range;

use super::{
    common::{
        deeper, validate_any, validate_header_condition, validate_list, validate_path_condition,
    },
    condition::AccessCondition,
};
use crate::{
    matchers::{validate_range, validate_string_matcher},
    proto::envoy::{
        config::rbac::v3::{
            Permission,
            permission::{Rule, Set},
        },
        r#type::v3::Int32Range,
    },
    validation::Validator,
};

pub(super) fn validate_permission(
    permission: &Permission,
    depth: usize,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    let Some(rule) = permission.rule.as_ref() else {
        validator.error_in("rule", "must be one that gRPC supports");
        return None;
    };
    let unsupported = match rule {
        Rule::AndRules(set) => {
            return validate_set("and_rules", set, depth, validator, AccessCondition::And);
        }
        Rule::OrRules(set) => {
            return validate_set("or_rules", set, depth, validator, AccessCondition::Or);
        }
        Rule::NotRule(inverted) => {
            let depth = deeper(depth, validator)?;
            let inverted = validator
                .field("not_rule", |validator| validate_permission(inverted, depth, validator))?;
            return Some(AccessCondition::Not(Box::new(inverted)));
        }
        Rule::Any(any) => return validate_any(*any, validator),
        Rule::Header(header) => return validate_header_condition(header, validator),
        Rule::UrlPath(path) => return validate_path_condition(path, validator),
        Rule::DestinationIp(range) => {
            return validator
                .field("destination_ip", |validator| validate_range(range, validator))
                .map(AccessCondition::ServerAddress);
        }
        Rule::DestinationPort(port) => {
            return validate_port(*port, validator).map(AccessCondition::ServerPort);
        }
        Rule::DestinationPortRange(ports) => {
            return validate_ports(*ports, validator).map(AccessCondition::ServerPort);
        }
        // gRPC has no dynamic metadata.
        Rule::Metadata(metadata) => return Some(AccessCondition::Constant(metadata.invert)),
        Rule::RequestedServerName(matcher) => {
            let matcher = validator.field("requested_server_name", |validator| {
                validate_string_matcher(matcher, validator)
            })?;
            return Some(AccessCondition::Constant(matcher.matches("")));
        }
        Rule::Matcher(_) => "matcher",
        Rule::UriTemplate(_) => "uri_template",
        Rule::SourcedMetadata(_) => "sourced_metadata",
    };
    validator.error_in(unsupported, "not supported by gRPC");
    None
}

fn validate_set(
    name: &str,
    set: &Set,
    depth: usize,
    validator: &mut Validator<'_>,
    combine: fn(Vec<AccessCondition>) -> AccessCondition,
) -> Option<AccessCondition> {
    let depth = deeper(depth, validator)?;
    let rules = validator.field(name, |validator| {
        validate_list("rules", &set.rules, validator, |permission, validator| {
            validate_permission(permission, depth, validator)
        })
    });
    Some(combine(rules))
}

/// Number of ports, including 0.
const PORTS: u32 = 65_536;

fn validate_port(port: u32, validator: &mut Validator<'_>) -> Option<Range<u32>> {
    if port >= PORTS {
        validator.error_in("destination_port", "must be a number up to 65535");
        return None;
    }
    Some(port..port + 1)
}

fn validate_ports(ports: Int32Range, validator: &mut Validator<'_>) -> Option<Range<u32>> {
    let bounds = u32::try_from(ports.start).ok().zip(u32::try_from(ports.end).ok());
    let ports = bounds.filter(|&(start, end)| start < end && end <= PORTS);
    if ports.is_none() {
        validator.error_in("destination_port_range", "must be a non-empty range of ports");
    }
    ports.map(|(start, end)| start..end)
}
