//! Validation of the `HttpConnectionManager` of a listener.

use xds_core::{ResourceName, proto::Any};

use super::{HttpConnections, Routes};
use crate::{
    extensions::decode,
    filters::judge_http_filters,
    proto::envoy::{
        config::listener::v3::ApiListener,
        extensions::filters::network::http_connection_manager::v3::{
            HttpConnectionManager, http_connection_manager::RouteSpecifier,
        },
    },
    route::judge_route_configuration,
    rules::Side,
    scalars::{judge_duration, judge_source},
    validation::Judge,
};

pub(super) const HTTP_CONNECTION_MANAGER: &str = "type.googleapis.com/\
    envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

pub(super) fn judge_api(api: &ApiListener, judge: &mut Judge<'_>) -> Option<HttpConnections> {
    judge.field("api_listener", |judge| {
        let Some(any) = api.api_listener.as_ref() else {
            judge.fault("must be set");
            return None;
        };
        judge_connections(any, Side::Client, judge)
    })
}

pub(super) fn judge_connections(
    any: &Any,
    side: Side,
    judge: &mut Judge<'_>,
) -> Option<HttpConnections> {
    if any.type_url != HTTP_CONNECTION_MANAGER {
        let why = format_args!("is `{}`, must be an HttpConnectionManager", any.type_url);
        judge.fault_in("type_url", why);
        return None;
    }
    let manager: HttpConnectionManager = decode(&any.value, judge)?;
    // Otherwise RBAC would evaluate another client address than Envoy does (A41).
    if manager.xff_num_trusted_hops != 0 {
        judge.fault_in("xff_num_trusted_hops", "must be zero");
    }
    if !manager.original_ip_detection_extensions.is_empty() {
        judge.fault_in("original_ip_detection_extensions", "must be empty");
    }
    let limit = manager.common_http_protocol_options.as_ref();
    let limit = limit.and_then(|options| options.max_stream_duration.as_ref());
    let max_stream_duration = limit.and_then(|duration| {
        judge.field("common_http_protocol_options.max_stream_duration", |judge| {
            judge_duration(duration, judge)
        })
    });
    let filters = judge_http_filters(&manager.http_filters, side, judge);
    let routes = match manager.route_specifier.as_ref() {
        Some(RouteSpecifier::Rds(rds)) => judge.field("rds", |judge| {
            judge.field("config_source", |judge| judge_source(rds.config_source.as_ref(), judge));
            if rds.route_config_name.is_empty() {
                judge.fault_in("route_config_name", "must not be empty");
            }
            Some(Routes::Named(ResourceName::from(rds.route_config_name.as_str())))
        }),
        Some(RouteSpecifier::RouteConfig(routes)) => judge
            .field("route_config", |judge| judge_route_configuration(routes, judge))
            .map(Routes::Inline),
        Some(RouteSpecifier::ScopedRoutes(_)) => {
            judge.fault_in("scoped_routes", "not supported by gRPC");
            None
        }
        None => {
            judge.fault_in("route_specifier", "must be rds or route_config");
            None
        }
    };
    // Zero means no limit, like an absent value.
    let max_stream_duration = max_stream_duration.filter(|duration| !duration.is_zero());
    Some(HttpConnections { routes: routes?, filters, max_stream_duration })
}
