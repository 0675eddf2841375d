//! Validation of principals.

use alloc::{boxed::Box, vec::Vec};

use super::{
    common::{
        deeper, validate_any, validate_header_condition, validate_list, validate_path_condition,
    },
    condition::AccessCondition,
};
use crate::{
    matchers::{validate_range, validate_string_matcher},
    proto::envoy::config::{
        core::v3::CidrRange as CidrRangeSchema,
        rbac::v3::{
            Principal,
            principal::{Authenticated, Identifier, Set},
        },
    },
    validation::Validator,
};

pub(super) fn validate_principal(
    principal: &Principal,
    depth: usize,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    let Some(identifier) = principal.identifier.as_ref() else {
        validator.error_in("identifier", "must be one that gRPC supports");
        return None;
    };
    let unsupported = match identifier {
        Identifier::AndIds(set) => {
            return validate_set("and_ids", set, depth, validator, AccessCondition::And);
        }
        Identifier::OrIds(set) => {
            return validate_set("or_ids", set, depth, validator, AccessCondition::Or);
        }
        Identifier::NotId(inverted) => {
            let depth = deeper(depth, validator)?;
            let inverted = validator
                .field("not_id", |validator| validate_principal(inverted, depth, validator))?;
            return Some(AccessCondition::Not(Box::new(inverted)));
        }
        Identifier::Any(any) => return validate_any(*any, validator),
        Identifier::Authenticated(client) => return validate_authenticated(client, validator),
        // Without a proxy protocol, these addresses do not differ.
        #[allow(deprecated, reason = "servers still send the field")]
        Identifier::SourceIp(range) => return validate_address("source_ip", range, validator),
        Identifier::DirectRemoteIp(range) => {
            return validate_address("direct_remote_ip", range, validator);
        }
        Identifier::RemoteIp(range) => return validate_address("remote_ip", range, validator),
        Identifier::Header(header) => return validate_header_condition(header, validator),
        Identifier::UrlPath(path) => return validate_path_condition(path, validator),
        // gRPC has no dynamic metadata.
        Identifier::Metadata(metadata) => return Some(AccessCondition::Constant(metadata.invert)),
        Identifier::FilterState(_) => "filter_state",
        Identifier::SourcedMetadata(_) => "sourced_metadata",
        Identifier::Custom(_) => "custom",
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
    let ids = validator.field(name, |validator| {
        validate_list("ids", &set.ids, validator, |principal, validator| {
            validate_principal(principal, depth, validator)
        })
    });
    Some(combine(ids))
}

fn validate_authenticated(
    client: &Authenticated,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    let Some(name) = client.principal_name.as_ref() else {
        return Some(AccessCondition::Authenticated(None));
    };
    let name = validator.field("authenticated.principal_name", |validator| {
        validate_string_matcher(name, validator)
    })?;
    Some(AccessCondition::Authenticated(Some(name)))
}

fn validate_address(
    name: &str,
    range: &CidrRangeSchema,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    validator
        .field(name, |validator| validate_range(range, validator))
        .map(AccessCondition::ClientAddress)
}
