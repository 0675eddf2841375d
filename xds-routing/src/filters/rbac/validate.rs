//! Validation of the configuration of an RBAC filter.

use alloc::collections::BTreeMap;

use super::{
    common::validate_list,
    permission::validate_permission,
    policy::{AccessPolicy, Rbac},
    principal::validate_principal,
};
use crate::{
    proto::envoy::{
        config::rbac::v3::{
            Policy, Rbac as RulesSchema,
            rbac::{Action, AuditLoggingOptions},
        },
        extensions::filters::http::rbac::v3::{Rbac as RbacSchema, RbacPerRoute},
    },
    validation::Validator,
};

/// Validates the override of a route. One without a configuration disables the filter.
pub(crate) fn validate_rbac_override(
    schema: &RbacPerRoute,
    validator: &mut Validator<'_>,
) -> Option<Rbac> {
    let Some(rbac) = schema.rbac.as_ref() else {
        return Some(Rbac::Disabled);
    };
    validator.field("rbac", |validator| validate_rbac(rbac, validator))
}

pub(crate) fn validate_rbac(schema: &RbacSchema, validator: &mut Validator<'_>) -> Option<Rbac> {
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
