//! The manifests in `deploy/kubernetes/`.

use std::{fs, path::PathBuf};

use serde_json::Value;
use xds_format::{ParseOptions, Schema, parse_all};
use xds_kube::{PERMISSIONS, RESOURCES_LABEL, SERVICE_ANNOTATION};

/// Returns the objects of all manifests.
pub(crate) fn manifests() -> Vec<Value> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes");
    let mut files: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "yaml"));
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    let objects = files.iter().flat_map(|file| {
        let text = fs::read_to_string(file).unwrap();
        let objects: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&text);
        objects.unwrap_or_else(|why| panic!("{}: {why}", file.display()))
    });
    objects.collect()
}

pub(crate) fn manifest(kind: &str, name: &str) -> Value {
    let is_it = |it: &Value| it["kind"] == kind && it["metadata"]["name"] == name;
    manifests().into_iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn role_has_exactly_the_permissions_that_are_used() {
    let role = manifest("ClusterRole", "xds-server");
    let mut granted = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let texts = |field: &str| -> Vec<String> {
            let texts = rule[field].as_array().unwrap().iter();
            texts.map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(rule.as_object().unwrap().len(), 3, "{rule}");
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                let verbs = texts("verbs").into_iter();
                granted.extend(verbs.map(|verb| format!("{verb} {resource}.{group}")));
            }
        }
    }
    let used = PERMISSIONS.iter().flat_map(|it| {
        let verbs = it.read.iter().chain(it.write);
        verbs.map(|verb| format!("{verb} {}.{}", it.resource, it.group))
    });
    let mut used: Vec<_> = used.collect();
    granted.sort();
    used.sort();
    assert_eq!(granted, used);
}

#[test]
fn role_is_bound_to_the_account_of_the_deployment() {
    let account = manifest("ServiceAccount", "xds-server");
    let binding = manifest("ClusterRoleBinding", "xds-server");
    assert_eq!(binding["roleRef"]["name"], "xds-server");
    let subject = &binding["subjects"][0];
    assert_eq!(subject["name"], account["metadata"]["name"]);
    assert_eq!(subject["namespace"], account["metadata"]["namespace"]);
    let deployment = manifest("Deployment", "xds-server");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], account["metadata"]["name"]);
    assert_eq!(deployment["metadata"]["namespace"], account["metadata"]["namespace"]);
    assert_eq!(deployment["spec"]["replicas"], 2);
    let container = &pod["containers"][0];
    let port = &container["ports"][0]["containerPort"];
    assert_eq!(&container["readinessProbe"]["grpc"]["port"], port);
    assert_eq!(&container["livenessProbe"]["tcpSocket"]["port"], port);
    let service = manifest("Service", "xds-server");
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);
    // Clients dial this Service.
    let bootstrap = manifest("ConfigMap", "xds-bootstrap");
    let bootstrap = bootstrap["data"]["bootstrap.json"].as_str().unwrap();
    let bootstrap: Value = serde_json::from_str(bootstrap).unwrap();
    let dialled = bootstrap["xds_servers"][0]["server_uri"].as_str().unwrap();
    let port = &service["spec"]["ports"][0]["port"];
    assert_eq!(dialled, format!("dns:///xds-server.xds-system.svc.cluster.local:{port}"));
}

#[test]
fn examples_are_what_the_server_reads() {
    let service = manifest("Service", "greeter");
    assert_eq!(service["metadata"]["annotations"][SERVICE_ANNOTATION], "true");
    let resources = manifest("ConfigMap", "edge");
    assert_eq!(resources["metadata"]["labels"][RESOURCES_LABEL], "true");
    for (key, text) in resources["data"].as_object().unwrap() {
        let format = xds_format::Format::from_path(key).unwrap();
        let text = text.as_str().unwrap().as_bytes();
        let parsed =
            parse_all(Schema::envoy(), key, format, text, ParseOptions::default(), 1).unwrap();
        assert_eq!(parsed.resources.len(), 1);
    }
}
