//! Choice of the listener and of its route configuration.

use serde_json::{Value as Json, json};
use xds_core::types;

use super::{
    json::{is_true, list, text},
    report::ListenerReport,
    request::Request,
    resources::RouteResources,
};
use crate::{args::RouteRules, facts};

/// Listener of a request, with its routes.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) report: Option<ListenerReport>,
    /// Configuration of the HTTP connection manager. Null without a listener.
    pub(super) manager: Json,
    pub(super) rules: RouteRules,
    pub(super) routes: Routes,
}

/// Route configuration of a listener.
#[derive(Debug)]
pub(super) enum Routes {
    Named(String),
    /// Configuration inside of the listener.
    Inline(Json),
}

/// HTTP connection manager of a listener.
struct Manager<'j> {
    filter_chain: Option<&'j str>,
    config: &'j Json,
}

/// Returns the listener that receives the request.
pub(super) fn choose(resources: &RouteResources, request: &Request) -> Result<Entry, String> {
    let listener = match (&request.listener, &request.route_config) {
        (Some(name), _) => {
            let found = resources.get(types::LISTENER, name);
            let found = found.ok_or_else(|| resources.missing(types::LISTENER, name))?;
            Some((name.as_str(), &found.json))
        }
        (None, Some(_)) => None,
        (None, None) => only_listener(resources, request.rules)?,
    };
    let Some((name, listener)) = listener else {
        let name = match &request.route_config {
            Some(name) => name.clone(),
            None => only_routes(resources)?,
        };
        let rules = request.rules.unwrap_or(RouteRules::Envoy);
        return Ok(Entry {
            report: None,
            manager: json!(null),
            rules,
            routes: Routes::Named(name),
        });
    };
    let rules = request.rules.unwrap_or_else(|| default_rules(listener));
    let manager = only_manager(name, listener, rules, request)?;
    let routes = match (&request.route_config, manager.config.get("route_config")) {
        (Some(name), _) => Routes::Named(name.clone()),
        (None, Some(inline)) => Routes::Inline(inline.clone()),
        (None, None) => match routes(manager.config) {
            Some(name) => Routes::Named(name.to_owned()),
            None => {
                return Err(format!(
                    "the listener `{name}` names no route configuration (scoped routes are not \
                     supported): choose with --route-config"
                ));
            }
        },
    };
    Ok(Entry {
        report: Some(ListenerReport {
            name: name.to_owned(),
            address: facts::listener_address(listener),
            filter_chain: manager.filter_chain.map(str::to_owned),
        }),
        manager: manager.config.clone(),
        rules,
        routes,
    })
}

/// Returns the rules of a listener for which the user chooses none.
fn default_rules(listener: &Json) -> RouteRules {
    match listener.get("api_listener") {
        Some(_) => RouteRules::Grpc,
        None => RouteRules::Envoy,
    }
}

/// Returns the HTTP connection manager that these rules use. Several are accepted if their routes
/// do not differ.
fn only_manager<'j>(
    name: &str,
    listener: &'j Json,
    rules: RouteRules,
    request: &Request,
) -> Result<Manager<'j>, String> {
    let mut managers = managers(listener, rules);
    let Some(manager) = managers.next() else { return Err(no_manager(name, listener, rules)) };
    if let Some(other) = managers.find(|it| routes(it.config) != routes(manager.config))
        && request.route_config.is_none()
    {
        let named = |manager: &Manager<'_>| {
            let chain = manager.filter_chain.unwrap_or("a filter chain without a name");
            format!("{chain} ({})", routes(manager.config).unwrap_or("inline routes"))
        };
        return Err(format!(
            "the filter chains of the listener `{name}` have different routes, such as {} and {}: \
             choose with --route-config",
            named(&manager),
            named(&other),
        ));
    }
    Ok(manager)
}

/// Describes a listener that has no routes by these rules.
fn no_manager(name: &str, listener: &Json, rules: RouteRules) -> String {
    let has_other = managers(listener, other(rules)).next().is_some();
    let why = match (rules, has_other) {
        (RouteRules::Grpc, true) => {
            " in an `api_listener`, which gRPC clients need; its filter chains are used with \
             --rules envoy"
        }
        (RouteRules::Grpc, false) => " in an `api_listener`, which gRPC clients need",
        (RouteRules::Envoy, true) => {
            " in a filter chain; its `api_listener` is used with --rules grpc"
        }
        (RouteRules::Envoy, false) => "",
    };
    format!("the listener `{name}` has no HTTP connection manager{why}")
}

fn other(rules: RouteRules) -> RouteRules {
    match rules {
        RouteRules::Envoy => RouteRules::Grpc,
        RouteRules::Grpc => RouteRules::Envoy,
    }
}

/// Returns the only listener with routes; `None` if there is no listener with routes at all.
fn only_listener(
    resources: &RouteResources,
    rules: Option<RouteRules>,
) -> Result<Option<(&str, &Json)>, String> {
    let listeners = || resources.of(types::LISTENER).map(|(name, it)| (name, &it.json));
    let has_routes = |listener: &Json, rules| managers(listener, rules).next().is_some();
    let mut with_routes =
        listeners().filter(|(_, it)| has_routes(it, rules.unwrap_or_else(|| default_rules(it))));
    let first = with_routes.next();
    let others: Vec<_> = with_routes.map(|(name, _)| name).collect();
    match (first, others.as_slice(), rules) {
        (Some((first, _)), [_, ..], _) => Err(format!(
            "there are several listeners: choose with --listener ({first}, {})",
            others.join(", ")
        )),
        (None, _, Some(rules)) => match listeners().find(|(_, it)| has_routes(it, other(rules))) {
            Some((name, listener)) => Err(no_manager(name, listener, rules)),
            None => Ok(None),
        },
        (first, ..) => Ok(first),
    }
}

/// Returns the name of the only route configuration.
fn only_routes(resources: &RouteResources) -> Result<String, String> {
    let names: Vec<_> = resources.of(types::ROUTE_CONFIGURATION).map(|(name, _)| name).collect();
    match names.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err("there is neither a listener with routes nor a route configuration".to_owned()),
        names => Err(format!(
            "there are several route configurations: choose with --route-config ({})",
            names.join(", ")
        )),
    }
}

/// Returns the HTTP connection managers that these rules use: that of the `api_listener` for gRPC,
/// those of the filter chains for Envoy.
fn managers(listener: &Json, rules: RouteRules) -> impl Iterator<Item = Manager<'_>> {
    let api = listener.pointer("/api_listener/api_listener");
    let api = api.filter(|_| rules == RouteRules::Grpc);
    let chains =
        list(listener, "/filter_chains").iter().chain(listener.get("default_filter_chain"));
    let chains = chains.filter(move |_| rules == RouteRules::Envoy);
    let filters = chains.flat_map(|chain| {
        let configs = list(chain, "/filters").iter().filter_map(|it| it.get("typed_config"));
        configs.map(move |config| Manager { filter_chain: text(chain, "/name"), config })
    });
    let all = api.map(|config| Manager { filter_chain: None, config }).into_iter().chain(filters);
    all.filter(|manager| {
        let type_url = text(manager.config, "/@type").unwrap_or_default();
        type_url.ends_with(".http_connection_manager.v3.HttpConnectionManager")
    })
}

fn routes(manager: &Json) -> Option<&str> {
    text(manager, "/rds/route_config_name")
}

/// Returns the host that the virtual host is chosen by.
pub(super) fn host(manager: &Json, host: &str) -> String {
    let mut host = host;
    if is_true(manager, "/strip_any_host_port") || is_true(manager, "/strip_matching_host_port") {
        let end = host.rfind(':').filter(|&colon| {
            let port = host.get(colon + 1..).unwrap_or_default();
            !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit())
        });
        host = end.and_then(|end| host.get(..end)).unwrap_or(host);
    }
    if is_true(manager, "/strip_trailing_host_dot") {
        host = host.strip_suffix('.').unwrap_or(host);
    }
    host.to_owned()
}

/// Returns what the listener does to requests and the explanation does not repeat.
pub(super) fn notes(manager: &Json) -> Vec<String> {
    let changes = [
        ("/normalize_path", "normalize_path"),
        ("/merge_slashes", "merge_slashes"),
        ("/strip_matching_host_port", "strip_matching_host_port"),
    ];
    let set = changes.into_iter().filter(|(pointer, _)| is_true(manager, pointer));
    let mut notes: Vec<_> = set
        .map(|(_, field)| match field {
            "strip_matching_host_port" => {
                "strip_matching_host_port is set: the port of the host is assumed to be the \
                 listener's"
                    .to_owned()
            }
            _ => format!("{field} is set: the path is taken as it is after that"),
        })
        .collect();
    let filters = list(manager, "/http_filters").iter().filter_map(|it| text(it, "/name"));
    let others: Vec<_> = filters.filter(|name| !name.ends_with("router")).collect();
    if !others.is_empty() {
        notes.push(format!("HTTP filters are not applied: {}", others.join(", ")));
    }
    notes
}
