//! Configurations of filters. Those of gRPC's filters are validated.

use xds_core::proto::Any;

use super::{
    faults::{FaultInjection, validate_faults},
    rbac::{Rbac, validate_rbac, validate_rbac_override},
};
use crate::{
    extensions::{ExtensionConfig, decode, is_object},
    proto::envoy::extensions::{
        filters::http::{
            fault::v3::HttpFault,
            router::v3::Router,
            stateful_session::v3::{
                StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
            },
        },
        http::stateful_session::cookie::v3::CookieBasedSessionState,
    },
    rules::{FAULT, RBAC, RBAC_OVERRIDE, ROUTER, STATEFUL_SESSION, STATEFUL_SESSION_OVERRIDE},
    scalars::validate_duration,
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
                | (Self::Other(_), Self::Other(_))
        )
    }
}

const GRPC_FILTERS: [&str; 6] =
    [ROUTER, FAULT, RBAC, RBAC_OVERRIDE, STATEFUL_SESSION, STATEFUL_SESSION_OVERRIDE];
const COOKIE: &str = "type.googleapis.com/\
    envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState";

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
        STATEFUL_SESSION => validate_session(&decode(value, validator)?, validator),
        STATEFUL_SESSION_OVERRIDE => {
            let stated: StatefulSessionPerRoute = decode(value, validator)?;
            if let Some(Override::StatefulSession(session)) = stated.r#override.as_ref() {
                validator
                    .field("stateful_session", |validator| validate_session(session, validator));
            }
        }
        _ => {}
    }
    Some(FilterConfig::Other(extension))
}

/// Validates a stateful session configuration: a cookie with a name (gRFC A55).
fn validate_session(session: &StatefulSession, validator: &mut Validator<'_>) {
    let Some(state) = session.session_state.as_ref() else {
        return;
    };
    validator.field("session_state.typed_config", |validator| {
        let Some(config) = state.typed_config.as_ref() else {
            validator.error("must be set");
            return;
        };
        if config.type_url != COOKIE {
            validator.error_in("type_url", format_args!("`{}` is not supported", config.type_url));
            return;
        }
        let Some(state) = decode::<CookieBasedSessionState>(&config.value, validator) else {
            return;
        };
        validator.field("cookie", |validator| {
            let Some(cookie) = state.cookie.as_ref() else {
                validator.error("must be set");
                return;
            };
            if cookie.name.is_empty() {
                validator.error_in("name", "must not be empty");
            }
            if let Some(ttl) = cookie.ttl.as_ref() {
                validator.field("ttl", |validator| validate_duration(ttl, validator));
            }
        });
    });
}
