//! Clusters and their endpoints.

use serde_json::Value as Json;
use xds_core::types;

use super::{
    json::{list, number, text},
    report::{ClusterReport, EndpointReport, LocalityReport},
    resources::RouteResources,
};
use crate::facts;

/// Explains a cluster. Missing resources are added to `missing`.
pub(super) fn explain(
    resources: &RouteResources,
    name: &str,
    missing: &mut Vec<(&'static str, String)>,
) -> Option<ClusterReport> {
    let Some(cluster) = resources.get(types::CLUSTER, name) else {
        missing.push((types::CLUSTER, name.to_owned()));
        return None;
    };
    let cluster = &cluster.json;
    let custom = text(cluster, "/cluster_type/name");
    let kind = custom.or_else(|| text(cluster, "/type")).unwrap_or("STATIC");
    let policy = list(cluster, "/load_balancing_policy/policies").first();
    let policy = policy.and_then(|it| text(it, "/typed_extension_config/name"));
    let endpoints_name = facts::endpoints_name(cluster);
    let localities = match &endpoints_name {
        None => cluster.get("load_assignment").map(localities),
        Some(name) => match resources.get(types::CLUSTER_LOAD_ASSIGNMENT, name) {
            Some(endpoints) => Some(localities(&endpoints.json)),
            None => {
                missing.push((types::CLUSTER_LOAD_ASSIGNMENT, name.clone()));
                None
            }
        },
    };
    let aggregates = list(cluster, "/cluster_type/typed_config/clusters");
    Some(ClusterReport {
        kind: kind.to_owned(),
        lb_policy: policy
            .or_else(|| text(cluster, "/lb_policy"))
            .unwrap_or("ROUND_ROBIN")
            .to_owned(),
        endpoints_name,
        localities: localities.unwrap_or_default(),
        aggregates: aggregates.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
    })
}

/// Returns the localities with their endpoints, by priority.
fn localities(assignment: &Json) -> Vec<LocalityReport> {
    let mut localities: Vec<_> = list(assignment, "/endpoints")
        .iter()
        .map(|group| {
            let parts = ["region", "zone", "sub_zone"];
            let parts = parts.map(|part| text(group, &format!("/locality/{part}")).unwrap_or(""));
            LocalityReport {
                locality: parts.join("/").trim_end_matches('/').to_owned(),
                priority: number(group, "/priority").unwrap_or_default(),
                weight: number(group, "/load_balancing_weight"),
                endpoints: list(group, "/lb_endpoints").iter().filter_map(endpoint).collect(),
            }
        })
        .collect();
    localities.sort_by_key(|it| it.priority);
    localities
}

fn endpoint(endpoint: &Json) -> Option<EndpointReport> {
    let address = endpoint.pointer("/endpoint/address")?;
    let pipe = || text(address, "/pipe/path").map(|path| format!("unix:{path}"));
    let socket = address.get("socket_address").map(|socket| {
        let host = text(socket, "/address").unwrap_or_default();
        let port = number(socket, "/port_value").unwrap_or_default();
        match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    });
    Some(EndpointReport {
        address: socket.or_else(pipe).unwrap_or_else(|| address.to_string()),
        health: text(endpoint, "/health_status").unwrap_or("UNKNOWN").to_owned(),
        weight: number(endpoint, "/load_balancing_weight"),
    })
}
