//! HTTP connection manager of a listener, and its validation.

use alloc::vec::Vec;
use core::time::Duration;

use xds_core::{ResourceName, proto::Any};

use crate::{
    extensions::decode,
    filters::{HttpFilter, validate_http_filters},
    proto::envoy::{
        config::listener::v3::ApiListener,
        extensions::filters::network::http_connection_manager::v3::{
            HttpConnectionManager, http_connection_manager::RouteSpecifier,
        },
    },
    route::{RouteConfiguration, validate_route_configuration},
    rules::Side,
    scalars::{validate_duration, validate_source},
    validation::Validator,
};

/// HTTP connection manager (`HttpConnectionManager`): handling of requests.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HttpConnections {
    /// Source of the routes.
    pub routes: Routes,
    /// HTTP filters in order. The last one forwards requests.
    pub filters: Vec<HttpFilter>,
    /// Maximum duration of a call whose route does not set one. `None` means no limit (gRFC A31).
    pub max_stream_duration: Option<Duration>,
}

/// Source of the routes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Routes {
    /// The route configuration with this name (RDS).
    // S0.020
    Named(ResourceName),
    /// An inline route configuration.
    Inline(RouteConfiguration),
}

const HTTP_CONNECTION_MANAGER: &str = "type.googleapis.com/\
    envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

pub(super) fn validate_api(
    api: &ApiListener,
    validator: &mut Validator<'_>,
) -> Option<HttpConnections> {
    validator.field("api_listener", |validator| {
        let Some(any) = api.api_listener.as_ref() else {
            validator.error("must be set");
            return None;
        };
        validate_connections(any, Side::Client, validator)
    })
}

pub(super) fn validate_connections(
    any: &Any,
    side: Side,
    validator: &mut Validator<'_>,
) -> Option<HttpConnections> {
    if any.type_url != HTTP_CONNECTION_MANAGER {
        let why = format_args!("must be an HttpConnectionManager, is `{}`", any.type_url);
        validator.error_in("type_url", why);
        return None;
    }
    let manager: HttpConnectionManager = decode(&any.value, validator)?;
    // Otherwise RBAC would evaluate another client address than Envoy does (A41).
    if manager.xff_num_trusted_hops != 0 {
        validator.error_in("xff_num_trusted_hops", "must be zero");
    }
    if !manager.original_ip_detection_extensions.is_empty() {
        validator.error_in("original_ip_detection_extensions", "must be empty");
    }
    let limit = manager.common_http_protocol_options.as_ref();
    let limit = limit.and_then(|options| options.max_stream_duration.as_ref());
    let max_stream_duration = limit.and_then(|duration| {
        validator.field("common_http_protocol_options.max_stream_duration", |validator| {
            validate_duration(duration, validator)
        })
    });
    let filters = validate_http_filters(&manager.http_filters, side, validator);
    let routes = match manager.route_specifier.as_ref() {
        Some(RouteSpecifier::Rds(rds)) => validator.field("rds", |validator| {
            validator.field("config_source", |validator| {
                validate_source(rds.config_source.as_ref(), validator)
            });
            if rds.route_config_name.is_empty() {
                validator.error_in("route_config_name", "must not be empty");
            }
            Some(Routes::Named(ResourceName::from(rds.route_config_name.as_str())))
        }),
        Some(RouteSpecifier::RouteConfig(routes)) => validator
            .field("route_config", |validator| validate_route_configuration(routes, validator))
            .map(Routes::Inline),
        Some(RouteSpecifier::ScopedRoutes(_)) => {
            validator.error_in("scoped_routes", "not supported by gRPC");
            None
        }
        None => {
            validator.error_in("route_specifier", "must be rds or route_config");
            None
        }
    };
    // Zero means no limit, like an absent value.
    let max_stream_duration = max_stream_duration.filter(|duration| !duration.is_zero());
    Some(HttpConnections { routes: routes?, filters, max_stream_duration })
}
