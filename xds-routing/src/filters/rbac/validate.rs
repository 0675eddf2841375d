//! Validation of the configuration of an RBAC filter.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{
    condition::AccessCondition,
    permission::validate_permission,
    policy::{AccessPolicy, Rbac},
    principal::validate_principal,
};
use crate::{
    matchers::{validate_header, validate_string_matcher},
    proto::envoy::{
        config::{
            rbac::v3::{Policy, Rbac as RulesSchema, rbac::Action, rbac::AuditLoggingOptions},
            route::v3::HeaderMatcher as HeaderSchema,
        },
        extensions::filters::http::rbac::v3::{Rbac as RbacSchema, RbacPerRoute},
        r#type::matcher::v3::{PathMatcher, path_matcher::Rule},
    },
    validation::Validator,
};

/// Validates the override of a route. One without a configuration disables the filter.
pub(in crate::filters) fn validate_rbac_override(
    schema: &RbacPerRoute,
    validator: &mut Validator<'_>,
) -> Option<Rbac> {
    let Some(rbac) = schema.rbac.as_ref() else {
        return Some(Rbac::Disabled);
    };
    validator.field("rbac", |validator| validate_rbac(rbac, validator))
}

pub(in crate::filters) fn validate_rbac(
    schema: &RbacSchema,
    validator: &mut Validator<'_>,
) -> Option<Rbac> {
    // Ignoring it would allow what it denies.
    if schema.matcher.is_some() {
        validator.error_in("matcher", "not supported by gRPC");
    }
    let Some(rules) = schema.rules.as_ref() else {
        return Some(Rbac::Disabled);
    };
    validator.field("rules", |validator| validate_rules(rules, validator))
}

fn validate_rules(rules: &RulesSchema, validator: &mut Validator<'_>) -> Option<Rbac> {
    let rbac: fn(BTreeMap<_, _>) -> Rbac = match Action::try_from(rules.action) {
        Ok(Action::Allow) => Rbac::Allow,
        Ok(Action::Deny) => Rbac::Deny,
        // The policies are ignored, as if there were none.
        Ok(Action::Log) => return Some(Rbac::Disabled),
        Err(_) => {
            validator.error_in("action", "unknown value");
            return None;
        }
    };
    let mut policies = BTreeMap::new();
    for (name, policy) in &rules.policies {
        let policy = validator
            .element("policies", name, |validator| validate_policy(policy, validator))
            .map(|policy| (name.clone(), policy));
        policies.extend(policy);
    }
    if let Some(options) = rules.audit_logging_options.as_ref() {
        validator.field("audit_logging_options", |validator| validate_audit(options, validator));
    }
    Some(rbac(policies))
}

fn validate_policy(policy: &Policy, validator: &mut Validator<'_>) -> Option<AccessPolicy> {
    let [permissions, principals] = [
        validate_list("permissions", &policy.permissions, validator, |permission, validator| {
            validate_permission(permission, 0, validator)
        }),
        validate_list("principals", &policy.principals, validator, |principal, validator| {
            validate_principal(principal, 0, validator)
        }),
    ];
    for (name, condition) in
        [("condition", policy.condition), ("checked_condition", policy.checked_condition)]
    {
        if condition.is_some() {
            validator.error_in(name, "not supported by gRPC");
        }
    }
    Some(AccessPolicy { permissions, principals })
}

/// Loggers are not supported, so those that are not optional are invalid.
fn validate_audit(options: &AuditLoggingOptions, validator: &mut Validator<'_>) {
    for (index, logger) in options.logger_configs.iter().enumerate() {
        if !logger.is_optional {
            validator.element("logger_configs", index, |validator| {
                validator.error_in("audit_logger", "not supported and not optional");
            });
        }
    }
}

/// Validates a list of conditions, which must not be empty.
pub(super) fn validate_list<T>(
    name: &str,
    list: &[T],
    validator: &mut Validator<'_>,
    validate: impl Fn(&T, &mut Validator<'_>) -> Option<AccessCondition>,
) -> Vec<AccessCondition> {
    if list.is_empty() {
        validator.error_in(name, "must not be empty");
    }
    let mut validated = Vec::new();
    for (index, condition) in list.iter().enumerate() {
        validated
            .extend(validator.element(name, index, |validator| validate(condition, validator)));
    }
    validated
}

/// Maximum number of levels of conditions within conditions.
const DEPTH: usize = 16;

/// Returns the depth of conditions within one of this depth, or `None` after recording an error.
pub(super) fn deeper(depth: usize, validator: &mut Validator<'_>) -> Option<usize> {
    if depth >= DEPTH {
        validator.error(format_args!("nested more than {DEPTH} levels deep"));
        return None;
    }
    Some(depth + 1)
}

/// Validates a condition for every request, which must be true.
pub(super) fn validate_any(any: bool, validator: &mut Validator<'_>) -> Option<AccessCondition> {
    if !any {
        validator.error_in("any", "must be true");
    }
    Some(AccessCondition::Constant(true))
}

/// Validates a header matcher. Some headers belong to the gRPC library and not to the application.
pub(super) fn validate_header_condition(
    header: &HeaderSchema,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    validator.field("header", |validator| {
        let header = validate_header(header, validator)?;
        if header.name.starts_with("grpc-") || header.name == ":scheme" {
            let why = format_args!("`{}` must not be matched", header.name);
            validator.error_in("name", why);
        }
        Some(AccessCondition::Header(header))
    })
}

pub(super) fn validate_path_condition(
    path: &PathMatcher,
    validator: &mut Validator<'_>,
) -> Option<AccessCondition> {
    validator.field("url_path", |validator| {
        let Some(Rule::Path(matcher)) = path.rule.as_ref() else {
            validator.error_in("path", "must be set");
            return None;
        };
        validator
            .field("path", |validator| validate_string_matcher(matcher, validator))
            .map(AccessCondition::Path)
    })
}
