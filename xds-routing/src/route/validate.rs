//! Validation of a route configuration. All virtual hosts are validated, because users of different
//! virtual hosts share the resource.
// X32

use alloc::vec::Vec;

use xds_core::ResourceName;

use super::{
    DomainPattern, PassedOver, Route, RouteConfiguration, RouteMatch, VirtualHost, WhyPassedOver,
    action::{Action, Plugins, judge_forward},
    domains::DomainIndex,
    matches::{can_match, judge_match},
    retry::{RetryPolicy, judge_retry},
};
use crate::{
    extensions::judge_extension,
    filters::judge_overrides,
    matching::RouteIndex,
    proto::envoy::config::route::v3::{
        self as schema, route_action::ClusterSpecifier, route_match::PathSpecifier,
    },
    rules::{OtherActions, Routing},
    validation::Judge,
};

/// Routes of a virtual host in order: a reused one, or `None` for the next one to validate.
pub(super) type Plan<'a> = Vec<Option<&'a Route>>;

pub(crate) fn judge_route_configuration(
    schema: &schema::RouteConfiguration,
    judge: &mut Judge<'_>,
) -> Option<RouteConfiguration> {
    judge_with(schema, &[], judge)
}

/// Validates everything except reused routes. A virtual host without a plan reuses none.
pub(super) fn judge_with(
    schema: &schema::RouteConfiguration,
    plans: &[Plan<'_>],
    judge: &mut Judge<'_>,
) -> Option<RouteConfiguration> {
    let plugins = judge_plugins(&schema.cluster_specifier_plugins, judge);
    let mut virtual_hosts = Vec::new();
    for (index, host) in schema.virtual_hosts.iter().enumerate() {
        let plan = plans.get(index);
        let host =
            judge.element("virtual_hosts", index, |judge| judge_host(host, plan, &plugins, judge));
        virtual_hosts.extend(host);
    }
    let overrides = judge_overrides(&schema.typed_per_filter_config, judge)?;
    let index = DomainIndex::new(virtual_hosts.iter().map(VirtualHost::domains));
    let name = ResourceName::from(schema.name.as_str());
    let trust = judge.trust;
    Some(RouteConfiguration { name, virtual_hosts, overrides, index, trust })
}

fn judge_plugins(schema: &[schema::ClusterSpecifierPlugin], judge: &mut Judge<'_>) -> Plugins {
    let mut plugins = Plugins::new();
    for (index, plugin) in schema.iter().enumerate() {
        judge.element("cluster_specifier_plugins", index, |judge| {
            let Some(extension) = plugin.extension.as_ref() else {
                judge.fault_in("extension", "must be set");
                return;
            };
            if plugins.contains_key(&extension.name) {
                let why = format_args!("`{}` is there twice", extension.name);
                judge.fault_in("extension.name", why);
            }
            let Some(config) = extension.typed_config.as_ref() else {
                judge.fault_in("extension.typed_config", "must be set");
                return;
            };
            let config = judge.field("extension.typed_config", |judge| {
                let config = judge_extension(config, judge)?;
                if judge.rules.cluster_specifiers.contains(&config.type_url) {
                    return Some(config);
                }
                if !plugin.is_optional {
                    judge.fault(format_args!("the plugin `{}` is not known", config.type_url));
                }
                None
            });
            plugins.insert(extension.name.clone(), config);
        });
    }
    plugins
}

fn judge_host(
    host: &schema::VirtualHost,
    plan: Option<&Plan<'_>>,
    plugins: &Plugins,
    judge: &mut Judge<'_>,
) -> Option<VirtualHost> {
    let mut domains = Vec::new();
    if host.domains.is_empty() {
        judge.fault_in("domains", "must not be empty");
    }
    for (index, domain) in host.domains.iter().enumerate() {
        let parsed = DomainPattern::parse(domain);
        if parsed.is_none() {
            let why = format_args!("`{domain}` is no domain pattern");
            judge.element("domains", index, |judge| judge.fault(why));
        }
        domains.extend(parsed);
    }
    let retry = host
        .retry_policy
        .as_ref()
        .and_then(|policy| judge.field("retry_policy", |judge| judge_retry(policy, judge)));
    let (mut routes, mut passed_over) = (Vec::new(), Vec::new());
    let first = match judge.rules.routing {
        Routing::Full => 0,
        Routing::LastRoute => judge_last(&host.routes, judge),
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
        let judged = judge.element("routes", index, |judge| {
            if route.r#match.as_ref().is_none_or(can_match) {
                return judge_route(route, retry.as_ref(), plugins, judge);
            }
            // Its errors do not matter to gRPC, whose calls never have such a path.
            judge
                .without_faults(|judge| judge_route(route, retry.as_ref(), plugins, judge))
                .unwrap_or(Err(WhyPassedOver::Path))
        });
        match judged {
            Ok(route) => routes.extend(route),
            Err(why) => passed_over.push(PassedOver { route: index, why }),
        }
    }
    let overrides = judge_overrides(&host.typed_per_filter_config, judge)?;
    let index = RouteIndex::new(routes.iter().map(|route| &route.matches.path));
    Some(VirtualHost { name: host.name.clone(), domains, routes, passed_over, overrides, index })
}

/// Validates and returns the index of the last route, the only one that is used without routing
/// (gRFC A27). Header matchers and fractions are newer fields and are ignored.
fn judge_last(routes: &[schema::Route], judge: &mut Judge<'_>) -> usize {
    let Some(index) = routes.len().checked_sub(1) else {
        judge.fault_in("routes", "must not be empty");
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
    judge.element("routes", index, |judge| {
        if !is_for_all {
            judge.fault_in("match.prefix", "must be empty, since only the last route counts");
        }
        if !is_for_one {
            judge.fault_in("route.cluster", "must be set, since calls are not split");
        }
    });
    index
}

fn judge_route(
    route: &schema::Route,
    retry: Option<&RetryPolicy>,
    plugins: &Plugins,
    judge: &mut Judge<'_>,
) -> Result<Option<Route>, WhyPassedOver> {
    let Some(matches) = route.r#match.as_ref() else {
        judge.fault_in("match", "must be set");
        return Ok(None);
    };
    let is_read = judge.rules.routing == Routing::Full;
    let expressions = judge.asked_expressions();
    // Checked first, because the rest of such a route may be valid only for other clients (X33).
    if is_read && !matches.query_parameters.is_empty() {
        return Err(WhyPassedOver::QueryParameters);
    }
    let matches: Option<RouteMatch> = match judge.rules.routing {
        Routing::Full => judge.field("match", |judge| judge_match(matches, judge)),
        Routing::LastRoute => Some(RouteMatch::for_all()),
    };
    let action = match route.action.as_ref() {
        Some(schema::route::Action::Route(action)) => judge
            .field("route", |judge| judge_forward(action, retry, plugins, judge))?
            .map(Action::Forward),
        Some(schema::route::Action::NonForwardingAction(_)) => other(Action::TakeIn, judge),
        None => other(Action::Unsupported, judge),
    };
    let overrides = judge_overrides(&route.typed_per_filter_config, judge);
    let complete = matches.zip(action).zip(overrides);
    Ok(complete.map(|((matches, action), overrides)| Route {
        name: route.name.clone(),
        matches,
        action,
        overrides,
        has_expressions: judge.asked_expressions() != expressions,
    }))
}

/// Validates an action that is not for clients.
fn other(action: Action, judge: &mut Judge<'_>) -> Option<Action> {
    match judge.rules.other_actions {
        OtherActions::FailCalls => Some(action),
        OtherActions::Rejected => {
            judge.fault_in("action", "must be route");
            None
        }
    }
}
