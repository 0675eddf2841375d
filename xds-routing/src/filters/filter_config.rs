//! Configurations of filters. Those of gRPC's filters are validated.

use xds_core::proto::Any;

use super::{
    faults::{FaultInjection, validate_faults},
    rbac::{Rbac, validate_rbac, validate_rbac_override},
    sessions::{StatefulSession, validate_session, validate_session_override},
};
use crate::{
    extensions::{ExtensionConfig, decode, is_object},
    proto::envoy::extensions::filters::http::{fault::v3::HttpFault, router::v3::Router},
    rules::{FAULT, RBAC, RBAC_OVERRIDE, ROUTER, STATEFUL_SESSION, STATEFUL_SESSION_OVERRIDE},
    validation::Validator,
};

/// Configuration of an HTTP filter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterConfig {
    /// Fault injection (gRFC A33).
    Faults(FaultInjection),
    /// Access rules of a server (gRFC A41).
    Rbac(Rbac),
    /// Session affinity (gRFC A55).
    Sessions(StatefulSession),
    /// Any other filter.
    Other(ExtensionConfig),
}

impl FilterConfig {
    /// Whether a configuration in a route can replace that of the listener. Only the caller knows
    /// which types belong to the same other filter.
    pub(super) const fn is_replaced_by(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::Faults(_), Self::Faults(_))
                | (Self::Rbac(_), Self::Rbac(_))
                | (Self::Sessions(_), Self::Sessions(_))
                | (Self::Other(_), Self::Other(_))
        )
    }
}

const GRPC_FILTERS: [&str; 6] =
    [ROUTER, FAULT, RBAC, RBAC_OVERRIDE, STATEFUL_SESSION, STATEFUL_SESSION_OVERRIDE];

/// Validates the configuration of a supported filter. One that only the data plane knows is
/// accepted unread.
pub(super) fn validate_config(
    config: &Any,
    extension: ExtensionConfig,
    validator: &mut Validator<'_>,
) -> Option<FilterConfig> {
    let url = extension.type_url.as_str();
    if GRPC_FILTERS.contains(&url) && is_object(config) {
        validator.error(format_args!("the configuration of `{url}` must not be an object"));
        return None;
    }
    let value = &config.value;
    match url {
        FAULT => {
            let faults = validate_faults(&decode::<HttpFault>(value, validator)?, validator);
            return Some(FilterConfig::Faults(faults));
        }
        ROUTER => {
            decode::<Router>(value, validator)?;
        }
        RBAC => {
            return validate_rbac(&decode(value, validator)?, validator).map(FilterConfig::Rbac);
        }
        RBAC_OVERRIDE => {
            return validate_rbac_override(&decode(value, validator)?, validator)
                .map(FilterConfig::Rbac);
        }
        STATEFUL_SESSION => {
            return validate_session(&decode(value, validator)?, validator)
                .map(FilterConfig::Sessions);
        }
        STATEFUL_SESSION_OVERRIDE => {
            return validate_session_override(&decode(value, validator)?, validator)
                .map(FilterConfig::Sessions);
        }
        _ => {}
    }
    Some(FilterConfig::Other(extension))
}
