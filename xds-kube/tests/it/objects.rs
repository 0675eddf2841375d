//! Objects that tests write, and short forms of what a source reports.

use std::{collections::BTreeMap, pin::Pin};

use futures_util::{Stream, StreamExt as _};
use serde_json::{Value, json};
use xds_core::types;
use xds_format::{PrintOptions, Schema, message_to_json};
use xds_source::{Change, Content, Object, ObjectChange, WatchError};

use crate::cluster::soon;

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

pub(crate) fn config_map(name: &str, documents: &[(&str, &str)]) -> Value {
    let data: BTreeMap<_, _> = documents.iter().copied().collect();
    json!({
        "metadata": {"name": name, "labels": {"xds-resources": "true"}},
        "data": data,
    })
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {"xds-service": "true"}},
        "spec": {"ports": [{"name": "grpc", "port": 50051, "targetPort": "grpc"}]},
    })
}

/// Creates a slice of ready endpoints in a zone, each given as its address.
pub(crate) fn slice(name: &str, service: &str, zone: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<_> = addresses
        .iter()
        .map(|it| json!({"addresses": [it], "zone": zone, "conditions": {"ready": true}}))
        .collect();
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "grpc", "port": 8080}],
    })
}

pub(crate) type BoxedWatch = Pin<Box<dyn Stream<Item = Result<Change, WatchError>> + Send>>;

/// Returns the next change with objects, or the end of the watch.
pub(crate) async fn next(changes: &mut BoxedWatch) -> Result<Change, WatchError> {
    loop {
        match soon(changes.next()).await.expect("the watch has ended") {
            Ok(change) if change.objects.is_empty() => {}
            result => return result,
        }
    }
}

/// Returns the next change in short form.
pub(crate) async fn next_shown(changes: &mut BoxedWatch) -> String {
    shown(&next(changes).await.unwrap())
}

/// Returns the changed objects in short form, sorted.
pub(crate) fn shown(change: &Change) -> String {
    let mut shown: Vec<_> = change
        .objects
        .iter()
        .map(|change| match change {
            ObjectChange::Set(object) => format!("+{}", shown_object(object)),
            ObjectChange::Delete(id) => format!("-{id}"),
        })
        .collect();
    shown.sort();
    shown.join("; ")
}

pub(crate) fn shown_object(object: &Object) -> String {
    let content = match &object.content {
        Content::Documents(documents) => {
            documents.iter().map(|it| format!(" {}", it.name)).collect()
        }
        Content::Resources(_) => endpoints(object).iter().map(|it| format!(" {it}")).collect(),
        Content::Invalid(why) => format!(" !{why}"),
        other => panic!("{other:?}"),
    };
    format!("{}{content}", object.id)
}

/// Returns the endpoints of the clusters of an object, such as `a/10.0.0.1:8080`.
pub(crate) fn endpoints(object: &Object) -> Vec<String> {
    let Content::Resources(resources) = &object.content else { return Vec::new() };
    let options = PrintOptions::default();
    let mut found = Vec::new();
    for (type_url, _, bytes) in resources {
        if type_url.as_str() != types::CLUSTER_LOAD_ASSIGNMENT {
            continue;
        }
        let full_name = type_url.as_str().rsplit('/').next().unwrap();
        let value = message_to_json(Schema::envoy(), full_name, bytes, &options).unwrap();
        for locality in value["endpoints"].as_array().into_iter().flatten() {
            let zone = locality["locality"]["zone"].as_str().unwrap_or_default();
            for endpoint in locality["lb_endpoints"].as_array().unwrap() {
                let socket = &endpoint["endpoint"]["address"]["socket_address"];
                let address = socket["address"].as_str().unwrap();
                found.push(format!("{zone}/{address}:{}", socket["port_value"]));
            }
        }
    }
    found
}
