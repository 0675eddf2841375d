//! Validation of the stateful session filter.

use alloc::sync::Arc;
use core::time::Duration;

use super::cookie::{SessionCookie, StatefulSession};
use crate::{
    extensions::decode,
    proto::envoy::{
        extensions::{
            filters::http::stateful_session::v3::{
                self as schema, StatefulSessionPerRoute, stateful_session_per_route::Override,
            },
            http::stateful_session::cookie::v3::CookieBasedSessionState,
        },
        r#type::http::v3::Cookie,
    },
    scalars::validate_duration,
    validation::Validator,
};

const COOKIE: &str = "type.googleapis.com/\
    envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState";

/// Validates the filter of a listener. Without a session state, calls have no sessions.
pub(crate) fn validate_session(
    session: &schema::StatefulSession,
    validator: &mut Validator<'_>,
) -> Option<StatefulSession> {
    let Some(state) = session.session_state.as_ref() else {
        return Some(StatefulSession::default());
    };
    validator.field("session_state.typed_config", |validator| {
        let Some(config) = state.typed_config.as_ref() else {
            validator.error("must be set");
            return None;
        };
        if config.type_url != COOKIE {
            validator.error_in("type_url", format_args!("`{}` is not supported", config.type_url));
            return None;
        }
        let state: CookieBasedSessionState = decode(&config.value, validator)?;
        validator.field("cookie", |validator| {
            let cookie = validate_cookie(state.cookie.as_ref(), validator)?;
            Some(StatefulSession { cookie: Some(Arc::new(cookie)) })
        })
    })
}

/// Validates an override in a route. One that is disabled, or empty, means that calls have no
/// sessions.
pub(crate) fn validate_session_override(
    stated: &StatefulSessionPerRoute,
    validator: &mut Validator<'_>,
) -> Option<StatefulSession> {
    match stated.r#override.as_ref() {
        Some(Override::StatefulSession(session)) => {
            validator.field("stateful_session", |validator| validate_session(session, validator))
        }
        _ => Some(StatefulSession::default()),
    }
}

fn validate_cookie(
    cookie: Option<&Cookie>,
    validator: &mut Validator<'_>,
) -> Option<SessionCookie> {
    let Some(cookie) = cookie else {
        validator.error("must be set");
        return None;
    };
    if cookie.name.is_empty() {
        validator.error_in("name", "must not be empty");
    }
    let ttl = match cookie.ttl.as_ref() {
        Some(ttl) => validator.field("ttl", |validator| validate_duration(ttl, validator))?,
        None => Duration::ZERO,
    };
    Some(SessionCookie { name: cookie.name.clone(), path: cookie.path.clone(), ttl })
}
