//! Resources of a Service for gRPC clients.

use bytes::Bytes;
use prost::Message;
use xds_core::{ResourceName, TypeUrl, types};
use xds_source::Content;

use super::{
    endpoints::{Family, assignment},
    messages::{
        Any, ApiListener, Cluster, ConfigSource, EdsClusterConfig, Empty, HttpConnectionManager,
        HttpFilter, Listener, Rds, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
    },
};
use crate::objects::{SERVICE_ANNOTATION, Service, ServicePort, Slice, is_tcp};

const MANAGER: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";

/// Returns the resources of a Service; `None` if it is not annotated.
///
/// Each port has a listener, a route configuration, a cluster and its endpoints, all named
/// `NAME.NAMESPACE:PORT`, so that clients dial `xds:///NAME.NAMESPACE:PORT`. If a Service has no
/// endpoints, the endpoint resource is empty.
pub(crate) fn service<'s>(
    service: &Service,
    slices: impl Iterator<Item = &'s Slice> + Clone,
) -> Option<Content> {
    let chosen = service.metadata.annotations.get(SERVICE_ANNOTATION)?.trim();
    if chosen == "false" {
        return None;
    }
    Some(match ports(service, chosen) {
        Ok(ports) => {
            let family = match service.spec.ip_families.first().map(String::as_str) {
                Some("IPv6") => Family::V6,
                _ => Family::V4,
            };
            let of_port = |port: &&ServicePort| of_port(service, port, family, slices.clone());
            Content::Resources(ports.iter().flat_map(of_port).collect())
        }
        Err(fault) => Content::Invalid(fault),
    })
}

/// Returns the ports that an annotation chooses.
fn ports<'s>(service: &'s Service, chosen: &str) -> Result<Vec<&'s ServicePort>, String> {
    if service.spec.kind.as_deref() == Some("ExternalName") {
        return Err("a Service of type ExternalName has no endpoints".to_owned());
    }
    let tcp = || service.spec.ports.iter().filter(|port| is_tcp(port.protocol.as_deref()));
    let name_of = |port: &ServicePort| port.name.clone().unwrap_or_default();
    let known = || {
        let known = tcp().map(|port| match name_of(port) {
            name if name.is_empty() => port.port.to_string(),
            name => format!("{} ({name})", port.port),
        });
        known.collect::<Vec<_>>().join(", ")
    };
    if chosen == "true" {
        let ports: Vec<_> = tcp().collect();
        return match ports.is_empty() {
            true => Err("the Service has no TCP port".to_owned()),
            false => Ok(ports),
        };
    }
    let mut ports: Vec<&ServicePort> = Vec::new();
    for word in chosen.split(',').map(str::trim) {
        let number = word.parse::<u16>().ok();
        let is_chosen = |port: &&ServicePort| {
            number == Some(port.port) || !word.is_empty() && name_of(port) == word
        };
        let port = tcp().find(is_chosen).ok_or_else(|| {
            format!(
                "annotation {SERVICE_ANNOTATION}: expected true, false, or ports of {}, found \
                 \"{word}\"",
                known()
            )
        })?;
        if !ports.iter().any(|it| it.port == port.port) {
            ports.push(port);
        }
    }
    ports.sort_by_key(|port| port.port);
    Ok(ports)
}

fn of_port<'s>(
    service: &Service,
    port: &ServicePort,
    family: Family,
    slices: impl Iterator<Item = &'s Slice>,
) -> [(TypeUrl, ResourceName, Bytes); 4] {
    let metadata = &service.metadata;
    let name = format!("{}.{}:{}", metadata.name, metadata.namespace, port.port);
    let manager = HttpConnectionManager {
        stat_prefix: name.clone(),
        rds: Some(Rds {
            config_source: Some(ConfigSource::aggregated()),
            route_config_name: name.clone(),
        }),
        http_filters: vec![HttpFilter {
            name: "router".to_owned(),
            typed_config: Some(Any::of(ROUTER, &Empty {})),
        }],
    };
    let listener = Listener {
        name: name.clone(),
        api_listener: Some(ApiListener { api_listener: Some(Any::of(MANAGER, &manager)) }),
    };
    let route = Route {
        r#match: Some(RouteMatch { prefix: Some(String::new()) }),
        route: Some(RouteAction { cluster: Some(name.clone()) }),
    };
    let routes = RouteConfiguration {
        name: name.clone(),
        virtual_hosts: vec![VirtualHost {
            name: name.clone(),
            // The listener serves one host only, so the authority of the call does not matter.
            domains: vec!["*".to_owned()],
            routes: vec![route],
        }],
    };
    let cluster = Cluster {
        name: name.clone(),
        discovery_type: Some(Cluster::EDS),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ConfigSource::aggregated()) }),
    };
    let port_name = port.name.as_deref().unwrap_or_default();
    let endpoints = assignment(&name, port_name, family, slices);
    let name = ResourceName::from(name.as_str());
    [
        (types::LISTENER.into(), name.clone(), listener.encode_to_vec().into()),
        (types::ROUTE_CONFIGURATION.into(), name.clone(), routes.encode_to_vec().into()),
        (types::CLUSTER.into(), name.clone(), cluster.encode_to_vec().into()),
        (types::CLUSTER_LOAD_ASSIGNMENT.into(), name, endpoints.encode_to_vec().into()),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use xds_format::{PrintOptions, Schema, Validator, message_to_json};

    use super::*;

    fn parse(annotation: &str, spec: &Value) -> Service {
        let object = json!({
            "metadata": {"name": "greeter", "namespace": "shop",
                         "annotations": {SERVICE_ANNOTATION: annotation}},
            "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    fn content(annotation: &str, spec: &Value) -> Content {
        service(&parse(annotation, spec), [].iter()).unwrap()
    }

    fn listeners(content: &Content) -> Vec<&str> {
        let Content::Resources(resources) = content else { panic!("{content:?}") };
        let listeners = resources.iter().filter(|it| it.0.as_str() == types::LISTENER);
        listeners.map(|(_, name, _)| name.as_str()).collect()
    }

    #[test]
    fn port_becomes_a_listener_with_routes_a_cluster_and_its_endpoints() {
        let spec = json!({"ports": [{"port": 50051}]});
        let slice = Slice::of(
            serde_json::from_value(json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "greeter"}},
                "endpoints": [{"addresses": ["10.0.0.1"], "zone": "a"},
                              {"addresses": ["10.0.0.2"], "zone": "b",
                               "conditions": {"ready": false, "serving": true,
                                              "terminating": true}}],
                "ports": [{"name": "", "port": 8080}],
            }))
            .unwrap(),
        )
        .unwrap();
        let slices = [slice];
        let content = service(&parse("true", &spec), slices.iter()).unwrap();
        let Content::Resources(resources) = content else { panic!("{content:?}") };
        let schema = Schema::envoy();
        let options = PrintOptions::default();
        let shown = resources.iter().map(|(type_url, name, bytes)| {
            assert_eq!(name.as_str(), "greeter.shop:50051");
            let violations = Validator::envoy().violations(type_url.as_str(), bytes).unwrap();
            assert!(violations.is_empty(), "{violations:?}");
            let full_name = type_url.as_str().rsplit('/').next().unwrap();
            message_to_json(schema, full_name, bytes, &options).unwrap()
        });
        let shown: Vec<Value> = shown.collect();
        let aggregated = json!({"ads": {}, "resource_api_version": "V3"});
        let any = |message: &str| format!("type.googleapis.com/{message}");
        let socket = |address: &str| json!({"address": {"socket_address": {"address": address, "port_value": 8080}}});
        let name = "greeter.shop:50051";
        let expected = [
            json!({"name": name, "api_listener": {"api_listener": {
                "@type": any(MANAGER), "stat_prefix": name,
                "rds": {"config_source": aggregated, "route_config_name": name},
                "http_filters": [{"name": "router", "typed_config": {"@type": any(ROUTER)}}],
            }}}),
            json!({"name": name, "virtual_hosts": [{"name": name, "domains": ["*"], "routes": [
                {"match": {"prefix": ""}, "route": {"cluster": name}},
            ]}]}),
            json!({"name": name, "type": "EDS", "eds_cluster_config": {"eds_config": aggregated}}),
            json!({"cluster_name": name, "endpoints": [
                {"locality": {"zone": "a"}, "load_balancing_weight": 1,
                 "lb_endpoints": [{"endpoint": socket("10.0.0.1"), "health_status": "HEALTHY"}]},
                {"locality": {"zone": "b"}, "load_balancing_weight": 1,
                 "lb_endpoints": [{"endpoint": socket("10.0.0.2"), "health_status": "DRAINING"}]},
            ]}),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn annotation_chooses_ports_by_name_or_number() {
        let spec = json!({"ports": [
            {"name": "grpc", "port": 50051, "protocol": "TCP", "targetPort": "grpc"},
            {"name": "admin", "port": 9000},
            {"name": "dns", "port": 53, "protocol": "UDP"},
        ]});
        for (annotation, expected) in [
            ("true", &["greeter.shop:50051", "greeter.shop:9000"][..]),
            ("grpc", &["greeter.shop:50051"]),
            ("9000", &["greeter.shop:9000"]),
            (" grpc, admin ,50051", &["greeter.shop:9000", "greeter.shop:50051"]),
        ] {
            assert_eq!(listeners(&content(annotation, &spec)), expected, "{annotation}");
        }
        for annotation in ["", "yes", "grpc,", "dns", "53", "70000"] {
            let Content::Invalid(fault) = content(annotation, &spec) else { panic!("valid") };
            assert!(fault.contains("ports of 50051 (grpc), 9000 (admin)"), "{fault}");
        }
    }

    #[test]
    fn service_without_annotation_has_no_resources() {
        assert_eq!(service(&Service::default(), [].iter()), None);
        assert_eq!(service(&parse("false", &json!({})), [].iter()), None);
    }

    #[test]
    fn headless_service_is_served_like_others() {
        let spec = json!({"clusterIP": "None", "ports": [{"port": 50051}]});
        assert_eq!(listeners(&content("true", &spec)), ["greeter.shop:50051"]);
    }

    #[test]
    fn service_that_cannot_be_served_is_invalid() {
        for (spec, expected) in [
            (json!({"type": "ExternalName", "externalName": "a.example"}), "ExternalName"),
            (json!({"ports": null}), "no TCP port"),
            (json!({"ports": [{"port": 53, "protocol": "UDP"}]}), "no TCP port"),
        ] {
            let Content::Invalid(fault) = content("true", &spec) else { panic!("valid") };
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
