//! Validation of the configurations of gRPC's filters. Those of server filters are only decoded,
//! because a client does not use them.

use xds_core::proto::Any;

use super::{FilterConfig, faults::judge_faults};
use crate::{
    extensions::{ExtensionConfig, decode, is_object},
    proto::envoy::extensions::{
        filters::http::{
            fault::v3::HttpFault,
            rbac::v3::{Rbac, RbacPerRoute},
            router::v3::Router,
            stateful_session::v3::{
                StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
            },
        },
        http::stateful_session::cookie::v3::CookieBasedSessionState,
    },
    rules::{FAULT, RBAC, RBAC_OVERRIDE, ROUTER, STATEFUL_SESSION, STATEFUL_SESSION_OVERRIDE},
    scalars::judge_duration,
    validation::Judge,
};

const OWN: [&str; 6] =
    [ROUTER, FAULT, RBAC, RBAC_OVERRIDE, STATEFUL_SESSION, STATEFUL_SESSION_OVERRIDE];
const COOKIE: &str = "type.googleapis.com/\
    envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState";

/// Validates the configuration of a supported filter. One that only the data plane knows is
/// accepted unread.
pub(super) fn judge_config(
    config: &Any,
    extension: ExtensionConfig,
    judge: &mut Judge<'_>,
) -> Option<FilterConfig> {
    let url = extension.type_url.as_str();
    if OWN.contains(&url) && is_object(config) {
        judge.fault(format_args!("the configuration of `{url}` must not be an object"));
        return None;
    }
    let value = &config.value;
    match url {
        FAULT => {
            let faults = judge_faults(&decode::<HttpFault>(value, judge)?, judge);
            return Some(FilterConfig::Faults(faults));
        }
        ROUTER => {
            decode::<Router>(value, judge)?;
        }
        RBAC => {
            decode::<Rbac>(value, judge)?;
        }
        RBAC_OVERRIDE => {
            decode::<RbacPerRoute>(value, judge)?;
        }
        STATEFUL_SESSION => judge_session(&decode(value, judge)?, judge),
        STATEFUL_SESSION_OVERRIDE => {
            let stated: StatefulSessionPerRoute = decode(value, judge)?;
            if let Some(Override::StatefulSession(session)) = stated.r#override.as_ref() {
                judge.field("stateful_session", |judge| judge_session(session, judge));
            }
        }
        _ => {}
    }
    Some(FilterConfig::Other(extension))
}

/// Validates a stateful session configuration: a cookie with a name (gRFC A55).
fn judge_session(session: &StatefulSession, judge: &mut Judge<'_>) {
    let Some(state) = session.session_state.as_ref() else {
        return;
    };
    judge.field("session_state.typed_config", |judge| {
        let Some(config) = state.typed_config.as_ref() else {
            judge.fault("must be set");
            return;
        };
        if config.type_url != COOKIE {
            judge.fault_in("type_url", format_args!("`{}` is not supported", config.type_url));
            return;
        }
        let Some(state) = decode::<CookieBasedSessionState>(&config.value, judge) else {
            return;
        };
        judge.field("cookie", |judge| {
            let Some(cookie) = state.cookie.as_ref() else {
                judge.fault("must be set");
                return;
            };
            if cookie.name.is_empty() {
                judge.fault_in("name", "must not be empty");
            }
            if let Some(ttl) = cookie.ttl.as_ref() {
                judge.field("ttl", |judge| judge_duration(ttl, judge));
            }
        });
    });
}
