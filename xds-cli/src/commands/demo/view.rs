//! View of the client's resources: a tree, and a list of changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde_json::Value as Json;
use xds_core::types;

use super::follower::{ClientResource, references};
use crate::{directory::Key, facts, json_diff::differences, style::Style, text::escaped};

/// Formats each listener with its routes, clusters and endpoints.
pub(crate) fn tree(resources: &BTreeMap<Key, ClientResource>, style: Style) -> String {
    let mut out = String::new();
    for (key, listener) in used(resources, types::LISTENER) {
        let address = facts::listener_address(listener).unwrap_or_default();
        let _ = writeln!(out, "listener {} on {address}", style.strong(&key.name));
        for routes_key in references(key, listener) {
            let _ = writeln!(out, "└─ routes {}", style.strong(&routes_key.name));
            if let Some(routes) = json(resources, &routes_key) {
                push_routes(&mut out, resources, &facts::routes(routes), style);
            }
        }
    }
    out
}

fn push_routes(
    out: &mut String,
    resources: &BTreeMap<Key, ClientResource>,
    routes: &[facts::Route],
    style: Style,
) {
    let width = routes.iter().map(|route| route.matches.len()).max().unwrap_or_default();
    for (at, route) in routes.iter().enumerate() {
        let branch = if at + 1 == routes.len() { "└─" } else { "├─" };
        let _ = write!(out, "   {branch} {:width$}", route.matches);
        for name in &route.clusters {
            let _ = write!(out, " → cluster {}", style.strong(name));
            let key = Key { type_url: types::CLUSTER.into(), name: name.as_str().into() };
            let Some(cluster) = json(resources, &key) else { continue };
            for endpoints_key in references(&key, cluster) {
                let endpoints = json(resources, &endpoints_key).map(facts::endpoints);
                let _ = write!(out, " → {}", endpoints.unwrap_or_default().join(", "));
            }
        }
        out.push('\n');
    }
}

/// Formats added, changed and removed resources and errors, one line each.
pub(crate) fn changes(
    before: &BTreeMap<Key, ClientResource>,
    now: &BTreeMap<Key, ClientResource>,
    style: Style,
) -> String {
    let mut out = String::new();
    let keys: BTreeSet<&Key> = before.keys().chain(now.keys()).collect();
    for key in keys {
        let name = format!("{} {}", kind(key), style.strong(&key.name));
        let resource = now.get(key);
        let _ = match (json(before, key), json(now, key)) {
            (None, Some(_)) => writeln!(out, "{} {name}", style.good("+")),
            (Some(_), None) => writeln!(out, "{} {name}", style.bad("-")),
            (Some(old), Some(new)) => differences(old, new).iter().try_for_each(|difference| {
                let field = endpoint_of(difference.new, difference.old)
                    .or_else(|| route_of(difference.new, difference.old))
                    .unwrap_or_else(|| difference.to_string());
                writeln!(out, "{} {name}: {}", style.notable("~"), escaped(&field))
            }),
            (None, None) => Ok(()),
        };
        if let Some(problem) = resource.and_then(|resource| resource.problem.as_ref()) {
            let problem = escaped(problem);
            let kept =
                if json(now, key).is_some() { " (the accepted one stays in use)" } else { "" };
            let _ = writeln!(out, "{} {name}: {problem}{kept}", style.bad("!"));
        }
    }
    out
}

/// Formats an added or removed endpoint as its address.
fn endpoint_of(new: Option<&Json>, old: Option<&Json>) -> Option<String> {
    let address = |endpoint: &Json| {
        let list = serde_json::json!({ "endpoints": [{ "lb_endpoints": [endpoint] }] });
        facts::endpoints(&list).pop()
    };
    match (new, old) {
        (Some(new), None) => address(new).map(|address| format!("+ endpoint {address}")),
        (None, Some(old)) => address(old).map(|address| format!("- endpoint {address}")),
        _ => None,
    }
}

/// Formats an added or removed route as its match and its clusters.
fn route_of(new: Option<&Json>, old: Option<&Json>) -> Option<String> {
    let shown = |route: &Json| {
        route.get("match")?;
        let routes = serde_json::json!({ "virtual_hosts": [{ "routes": [route] }] });
        let route = facts::routes(&routes).pop()?;
        Some(format!("route {} → cluster {}", route.matches, route.clusters.join(", ")))
    };
    match (new, old) {
        (Some(new), None) => shown(new).map(|route| format!("+ {route}")),
        (None, Some(old)) => shown(old).map(|route| format!("- {route}")),
        _ => None,
    }
}

fn kind(key: &Key) -> &'static str {
    match key.type_url.as_str() {
        types::LISTENER => "listener",
        types::ROUTE_CONFIGURATION => "routes",
        types::CLUSTER => "cluster",
        _ => "endpoints",
    }
}

fn json<'r>(resources: &'r BTreeMap<Key, ClientResource>, key: &Key) -> Option<&'r Json> {
    resources.get(key)?.json.as_deref()
}

fn used<'r>(
    resources: &'r BTreeMap<Key, ClientResource>,
    type_url: &str,
) -> impl Iterator<Item = (&'r Key, &'r Json)> {
    resources
        .iter()
        .filter(move |(key, _)| key.type_url == *type_url)
        .filter_map(|(key, resource)| Some((key, resource.json.as_deref()?)))
}
