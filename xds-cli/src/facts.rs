//! Facts about a resource for output and for following references: addresses, routes, names of
//! other resources.
//!
//! Resources are given as canonical JSON with proto field names. Fields that are missing or have an
//! unexpected shape are ignored.

use serde_json::Value as Json;
use xds_core::types;

use crate::text::count;

/// Summarizes a resource in a few words, such as `2 endpoints`.
pub(crate) fn summary(type_url: &str, resource: &Json) -> Option<String> {
    match type_url {
        types::LISTENER => listener_address(resource),
        types::ROUTE_CONFIGURATION => Some(count(routes(resource).len() as u64, "route")),
        types::CLUSTER => {
            let policy = text(resource, "/lb_policy").unwrap_or("ROUND_ROBIN");
            Some(format!("{}, {policy}", text(resource, "/type").unwrap_or("STATIC")))
        }
        types::CLUSTER_LOAD_ASSIGNMENT => Some(count(endpoints(resource).len() as u64, "endpoint")),
        _ => None,
    }
}

/// Returns the address of a listener, such as `127.0.0.1:8080`.
pub(crate) fn listener_address(listener: &Json) -> Option<String> {
    socket_address(listener.pointer("/address/socket_address")?)
}

/// Returns the sorted names of the route configurations that the HTTP filters of a
/// listener refer to.
pub(crate) fn route_configurations(listener: &Json) -> Vec<String> {
    let mut names = Vec::new();
    collect(listener, "route_config_name", &mut names);
    names.sort();
    names.dedup();
    names
}

/// Route: its match and its clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) matches: String,
    pub(crate) clusters: Vec<String>,
}

/// Returns all routes of all virtual hosts, in order.
pub(crate) fn routes(configuration: &Json) -> Vec<Route> {
    list(configuration, "/virtual_hosts")
        .flat_map(|host| list(host, "/routes"))
        .map(|route| Route {
            matches: ["/match/prefix", "/match/path", "/match/path_separated_prefix"]
                .into_iter()
                .find_map(|field| text(route, field))
                .unwrap_or("*")
                .to_owned(),
            clusters: text(route, "/route/cluster")
                .into_iter()
                .chain(
                    list(route, "/route/weighted_clusters/clusters")
                        .filter_map(|cluster| text(cluster, "/name")),
                )
                .map(str::to_owned)
                .collect(),
        })
        .collect()
}

/// Returns the EDS resource name of a cluster; `None` if the cluster does not use EDS.
pub(crate) fn endpoints_name(cluster: &Json) -> Option<String> {
    if text(cluster, "/type") != Some("EDS") {
        return None;
    }
    let service = text(cluster, "/eds_cluster_config/service_name");
    service.or_else(|| text(cluster, "/name")).map(str::to_owned)
}

/// Returns the connect timeout of a cluster, such as `0.250s`.
pub(crate) fn connect_timeout(cluster: &Json) -> Option<&str> {
    text(cluster, "/connect_timeout")
}

/// Returns the addresses of all endpoints, in order.
pub(crate) fn endpoints(assignment: &Json) -> Vec<String> {
    list(assignment, "/endpoints")
        .flat_map(|locality| list(locality, "/lb_endpoints"))
        .filter_map(|it| socket_address(it.pointer("/endpoint/address/socket_address")?))
        .collect()
}

fn socket_address(address: &Json) -> Option<String> {
    let port = address.pointer("/port_value").and_then(Json::as_u64).unwrap_or_default();
    match text(address, "/address")? {
        host if host.contains(':') => Some(format!("[{host}]:{port}")),
        host => Some(format!("{host}:{port}")),
    }
}

fn text<'j>(json: &'j Json, pointer: &str) -> Option<&'j str> {
    json.pointer(pointer)?.as_str()
}

fn list<'j>(json: &'j Json, pointer: &str) -> impl Iterator<Item = &'j Json> {
    json.pointer(pointer).and_then(Json::as_array).into_iter().flatten()
}

/// Collects the strings of all fields with this name, at any depth.
fn collect(json: &Json, field: &str, found: &mut Vec<String>) {
    match json {
        Json::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text) if name == field => found.push(text.to_owned()),
                    _ => collect(value, field, found),
                }
            }
        }
        Json::Array(elements) => elements.iter().for_each(|it| collect(it, field, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_of_listeners_and_routes_are_found() {
        let listener = json!({
            "address": { "socket_address": { "address": "::1", "port_value": 80 } },
            "filter_chains": [{ "filters": [{ "typed_config": { "rds": { "route_config_name": "r" } } }] }],
            "default_filter_chain": { "filters": [{ "typed_config": { "rds": { "route_config_name": "d" } } }] },
        });
        assert_eq!(route_configurations(&listener), ["d", "r"]);
        assert_eq!(summary(types::LISTENER, &listener).as_deref(), Some("[::1]:80"));

        let weighted = json!({ "clusters": [{ "name": "b" }, { "name": "c" }] });
        let configuration = json!({ "virtual_hosts": [{ "routes": [
            { "match": { "prefix": "/" }, "route": { "cluster": "a" } },
            { "match": { "path": "/x" }, "route": { "weighted_clusters": weighted } },
            { "match": {}, "redirect": {} },
        ] }] });
        let shown: Vec<_> = routes(&configuration)
            .into_iter()
            .map(|it| (it.matches, it.clusters.join(" ")))
            .collect();
        let expected = [("/", "a"), ("/x", "b c"), ("*", "")];
        assert_eq!(shown, expected.map(|(matches, to)| (matches.to_owned(), to.to_owned())));
    }

    #[test]
    fn eds_name_is_the_service_name_or_the_cluster_name() {
        let named =
            json!({ "name": "c", "type": "EDS", "eds_cluster_config": { "service_name": "s" } });
        assert_eq!(endpoints_name(&named).as_deref(), Some("s"));
        assert_eq!(endpoints_name(&json!({ "name": "c", "type": "EDS" })).as_deref(), Some("c"));
        assert_eq!(endpoints_name(&json!({ "name": "c", "type": "STATIC" })), None);
        assert_eq!(summary(types::CLUSTER, &named).as_deref(), Some("EDS, ROUND_ROBIN"));
    }

    #[test]
    fn unexpected_shapes_have_no_references() {
        for odd in [json!(null), json!([]), json!({ "endpoints": 3, "virtual_hosts": [1, {}] })] {
            assert!(endpoints(&odd).is_empty() && routes(&odd).is_empty());
            assert_eq!(listener_address(&odd), None);
        }
    }
}
