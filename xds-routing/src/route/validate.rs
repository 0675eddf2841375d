//! Validation of a route configuration. All virtual hosts are validated, because users of different
//! virtual hosts share the resource.
// X32

use alloc::vec::Vec;

use xds_core::ResourceName;

use super::{
    DomainPattern, Route, RouteConfiguration, RouteMatch, SkipReason, SkippedRoute, VirtualHost,
    action::{Action, Plugins, validate_forward},
    domains::DomainIndex,
    matches::{can_match, validate_match},
    retry::{RetryPolicy, validate_retry},
};
use crate::{
    extensions::validate_extension,
    filters::validate_overrides,
    matching::RouteIndex,
    proto::envoy::config::route::v3::{
        self as schema, route_action::ClusterSpecifier, route_match::PathSpecifier,
    },
    rules::{OtherActions, Routing},
    validation::Validator,
};

/// Routes of a virtual host in order: a reused one, or `None` for the next one to validate.
pub(super) type Plan<'a> = Vec<Option<&'a Route>>;

pub(crate) fn validate_route_configuration(
    schema: &schema::RouteConfiguration,
    validator: &mut Validator<'_>,
) -> Option<RouteConfiguration> {
    validate_with(schema, &[], validator)
}

/// Validates everything except reused routes. A virtual host without a plan reuses none.
pub(super) fn validate_with(
    schema: &schema::RouteConfiguration,
    plans: &[Plan<'_>],
    validator: &mut Validator<'_>,
) -> Option<RouteConfiguration> {
    let plugins = validate_plugins(&schema.cluster_specifier_plugins, validator);
    let mut virtual_hosts = Vec::new();
    for (index, host) in schema.virtual_hosts.iter().enumerate() {
        let plan = plans.get(index);
        let host = validator.element("virtual_hosts", index, |validator| {
            validate_host(host, plan, &plugins, validator)
        });
        virtual_hosts.extend(host);
    }
    let overrides = validate_overrides(&schema.typed_per_filter_config, validator)?;
    let index = DomainIndex::new(virtual_hosts.iter().map(VirtualHost::domains));
    let name = ResourceName::from(schema.name.as_str());
    let trust = validator.trust();
    Some(RouteConfiguration { name, virtual_hosts, overrides, index, trust })
}

fn validate_plugins(
    schema: &[schema::ClusterSpecifierPlugin],
    validator: &mut Validator<'_>,
) -> Plugins {
    let mut plugins = Plugins::new();
    for (index, plugin) in schema.iter().enumerate() {
        validator.element("cluster_specifier_plugins", index, |validator| {
            let Some(extension) = plugin.extension.as_ref() else {
                validator.error_in("extension", "must be set");
                return;
            };
            if plugins.contains_key(&extension.name) {
                let why = format_args!("duplicate name `{}`", extension.name);
                validator.error_in("extension.name", why);
            }
            let Some(config) = extension.typed_config.as_ref() else {
                validator.error_in("extension.typed_config", "must be set");
                return;
            };
            let config = validator.field("extension.typed_config", |validator| {
                let config = validate_extension(config, validator)?;
                if validator.rules.cluster_specifiers.contains(&config.type_url) {
                    return Some(config);
                }
                if !plugin.is_optional {
                    validator.error(format_args!("unknown plugin `{}`", config.type_url));
                }
                None
            });
            plugins.insert(extension.name.clone(), config);
        });
    }
    plugins
}

fn validate_host(
    host: &schema::VirtualHost,
    plan: Option<&Plan<'_>>,
    plugins: &Plugins,
    validator: &mut Validator<'_>,
) -> Option<VirtualHost> {
    let mut domains = Vec::new();
    if host.domains.is_empty() {
        validator.error_in("domains", "must not be empty");
    }
    for (index, domain) in host.domains.iter().enumerate() {
        let parsed = DomainPattern::parse(domain);
        if parsed.is_none() {
            let why = format_args!("`{domain}` is not a valid domain pattern");
            validator.element("domains", index, |validator| validator.error(why));
        }
        domains.extend(parsed);
    }
    let retry = host.retry_policy.as_ref().and_then(|policy| {
        validator.field("retry_policy", |validator| validate_retry(policy, validator))
    });
    let (mut routes, mut skipped_routes) = (Vec::new(), Vec::new());
    let first = match validator.rules.routing {
        Routing::Full => 0,
        Routing::LastRoute => validate_last_route(&host.routes, validator),
    };
    let mut anew = host.routes.iter();
    let count = plan.map_or(host.routes.len(), Vec::len);
    for index in 0..count {
        if let Some(held) = plan.and_then(|plan| *plan.get(index)?) {
            routes.push(held.clone());
            continue;
        }
        let Some(route) = anew.next() else { break };
        if index < first {
            continue;
        }
        let validated = validator.element("routes", index, |validator| {
            if route.r#match.as_ref().is_none_or(can_match) {
                return validate_route(route, retry.as_ref(), plugins, validator);
            }
            // Its errors do not matter to gRPC, whose calls never have such a path.
            validator
                .without_errors(|validator| {
                    validate_route(route, retry.as_ref(), plugins, validator)
                })
                .unwrap_or(Err(SkipReason::Path))
        });
        match validated {
            Ok(route) => routes.extend(route),
            Err(why) => skipped_routes.push(SkippedRoute { route: index, why }),
        }
    }
    let overrides = validate_overrides(&host.typed_per_filter_config, validator)?;
    let index = RouteIndex::new(routes.iter().map(|route| &route.matches.path));
    Some(VirtualHost { name: host.name.clone(), domains, routes, skipped_routes, overrides, index })
}

/// Validates and returns the index of the last route, the only one that is used without routing
/// (gRFC A27). Header matchers and fractions are newer fields and are ignored.
fn validate_last_route(routes: &[schema::Route], validator: &mut Validator<'_>) -> usize {
    let Some(index) = routes.len().checked_sub(1) else {
        validator.error_in("routes", "must not be empty");
        return 0;
    };
    let path = routes.get(index).and_then(|it| it.r#match.as_ref()?.path_specifier.as_ref());
    let is_for_all = matches!(path, Some(PathSpecifier::Prefix(it)) if it.is_empty() || it == "/");
    let action = routes.get(index).and_then(|it| it.action.as_ref());
    let is_for_one = matches!(
        action,
        Some(schema::route::Action::Route(schema::RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(_)),
            ..
        }))
    );
    validator.element("routes", index, |validator| {
        if !is_for_all {
            validator
                .error_in("match.prefix", "must be empty, because only the last route is used");
        }
        if !is_for_one {
            validator.error_in("route.cluster", "must be set, because calls are not split");
        }
    });
    index
}

fn validate_route(
    route: &schema::Route,
    retry: Option<&RetryPolicy>,
    plugins: &Plugins,
    validator: &mut Validator<'_>,
) -> Result<Option<Route>, SkipReason> {
    let Some(matches) = route.r#match.as_ref() else {
        validator.error_in("match", "must be set");
        return Ok(None);
    };
    let is_read = validator.rules.routing == Routing::Full;
    let expressions = validator.requested_expressions();
    // Checked first, because the rest of such a route may be valid only for other clients (X33).
    if is_read && !matches.query_parameters.is_empty() {
        return Err(SkipReason::QueryParameters);
    }
    let matches: Option<RouteMatch> = match validator.rules.routing {
        Routing::Full => validator.field("match", |validator| validate_match(matches, validator)),
        Routing::LastRoute => Some(RouteMatch::for_all()),
    };
    let action = match route.action.as_ref() {
        Some(schema::route::Action::Route(action)) => validator
            .field("route", |validator| validate_forward(action, retry, plugins, validator))?
            .map(Action::Forward),
        Some(schema::route::Action::NonForwardingAction(_)) => {
            other(Action::NonForwarding, validator)
        }
        None => other(Action::Unsupported, validator),
    };
    let overrides = validate_overrides(&route.typed_per_filter_config, validator);
    let complete = matches.zip(action).zip(overrides);
    Ok(complete.map(|((matches, action), overrides)| Route {
        name: route.name.clone(),
        matches,
        action,
        overrides,
        has_expressions: validator.requested_expressions() != expressions,
    }))
}

/// Validates an action that is not for clients.
fn other(action: Action, validator: &mut Validator<'_>) -> Option<Action> {
    match validator.rules.other_actions {
        OtherActions::FailCalls => Some(action),
        OtherActions::Rejected => {
            validator.error_in("action", "must be route");
            None
        }
    }
}
