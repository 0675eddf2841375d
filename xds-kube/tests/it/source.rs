//! Objects as resources.

use serde_json::{Value, json};
use xds_source::Source as _;

use crate::{
    cluster::{ADMIN, Cluster, soon},
    objects::{
        BoxedWatch, CONFIG_MAPS, SERVICES, SLICES, config_map, next_shown, service, shown_object,
        slice,
    },
};

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn config_map_is_created_changed_and_deleted() {
    let cluster = Cluster::start().await;
    let source = cluster.source().await;
    // Objects without the label are nobody's business.
    let mut other = config_map("other", &[("a.yaml", "{}")]);
    other["metadata"]["labels"] = Value::Null;
    cluster.create(CONFIG_MAPS, &other).await;
    let list = soon(source.list()).await.unwrap();
    assert_eq!(list.objects.len(), 0);
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));

    let documents = [("a.yaml", "{}"), ("b.json", "{}"), ("README.md", "text")];
    cluster.create(CONFIG_MAPS, &config_map("mesh", &documents)).await;
    assert_eq!(next_shown(&mut watch).await, "+ConfigMap default/mesh a.yaml b.json");
    let mesh = format!("{CONFIG_MAPS}/mesh");
    // An annotation of somebody else is no change: the next change is that of the data.
    let annotation = json!({"metadata": {"annotations": {"xds-rejected": "1 client"}}});
    cluster.send("PATCH", &mesh, &annotation).await;
    cluster.send("PATCH", &mesh, &json!({"data": {"b.json": null, "c.yaml": "{}"}})).await;
    assert_eq!(next_shown(&mut watch).await, "+ConfigMap default/mesh a.yaml c.yaml");
    let view = json!({"metadata": {"annotations": {"xds-view": "canary"}}});
    cluster.send("PATCH", &mesh, &view).await;
    assert_eq!(
        next_shown(&mut watch).await,
        "+ConfigMap default/mesh in view canary a.yaml c.yaml; -ConfigMap default/mesh"
    );
    let label = json!({"metadata": {"labels": {"xds-resources": null}}});
    cluster.send("PATCH", &mesh, &label).await;
    assert_eq!(next_shown(&mut watch).await, "-ConfigMap default/mesh in view canary");
    let label = json!({"metadata": {"labels": {"xds-resources": "true"}}});
    cluster.send("PATCH", &mesh, &label).await;
    next_shown(&mut watch).await;
    cluster.delete(&mesh).await;
    assert_eq!(next_shown(&mut watch).await, "-ConfigMap default/mesh in view canary");
    assert_eq!(soon(source.list()).await.unwrap().objects.len(), 0);
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn service_has_the_endpoints_of_its_slices() {
    let cluster = Cluster::start().await;
    let source = cluster.source().await;
    cluster.create(SERVICES, &service("greeter")).await;
    let list = soon(source.list()).await.unwrap();
    let shown: Vec<_> = list.objects.iter().map(shown_object).collect();
    assert_eq!(shown, ["Service default/greeter"], "an empty set of endpoints");
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));

    cluster.create(SLICES, &slice("g-1", "greeter", "a", &["10.1.0.1", "10.1.0.2"])).await;
    assert_eq!(
        next_shown(&mut watch).await,
        "+Service default/greeter a/10.1.0.1:8080 a/10.1.0.2:8080"
    );
    cluster.create(SLICES, &slice("g-2", "greeter", "b", &["10.1.0.3"])).await;
    assert_eq!(
        next_shown(&mut watch).await,
        "+Service default/greeter a/10.1.0.1:8080 a/10.1.0.2:8080 b/10.1.0.3:8080"
    );
    // One endpoint is no longer ready.
    let endpoints = json!({"endpoints": [
        {"addresses": ["10.1.0.1"], "zone": "a", "conditions": {"ready": false, "serving": false}},
        {"addresses": ["10.1.0.2"], "zone": "a", "conditions": {"ready": true}},
    ]});
    cluster.send("PATCH", &format!("{SLICES}/g-1"), &endpoints).await;
    assert_eq!(
        next_shown(&mut watch).await,
        "+Service default/greeter a/10.1.0.2:8080 b/10.1.0.3:8080"
    );
    cluster.delete(&format!("{SLICES}/g-1")).await;
    assert_eq!(next_shown(&mut watch).await, "+Service default/greeter b/10.1.0.3:8080");
    cluster.delete(&format!("{SLICES}/g-2")).await;
    assert_eq!(next_shown(&mut watch).await, "+Service default/greeter");
    cluster.delete(&format!("{SERVICES}/greeter")).await;
    assert_eq!(next_shown(&mut watch).await, "-Service default/greeter");
}

/// The API server accepts port numbers of EndpointSlices that are no TCP ports.
#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn slice_with_an_invalid_port_does_not_end_the_watch_or_fail_the_list() {
    let cluster = Cluster::start().await;
    let source = cluster.source().await;
    let list = soon(source.list()).await.unwrap();
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    let mut odd = slice("g-1", "greeter", "a", &["10.1.0.1"]);
    odd["ports"] = json!([{"name": "grpc", "port": 8080}, {"name": "odd", "port": 70_000}]);
    let created = cluster.create(SLICES, &odd).await;
    assert_eq!(created["ports"][1]["port"], 70_000);
    odd["metadata"]["name"] = json!("g-2");
    odd["ports"] = json!([{"name": "grpc", "port": -1}]);
    cluster.create(SLICES, &odd).await;
    cluster.create(CONFIG_MAPS, &config_map("mesh", &[("a.yaml", "{}")])).await;
    assert_eq!(next_shown(&mut watch).await, "+ConfigMap default/mesh a.yaml");
    cluster.create(SERVICES, &service("greeter")).await;
    assert_eq!(next_shown(&mut watch).await, "+Service default/greeter a/10.1.0.1:8080");
    let fresh = soon(cluster.source().await.list()).await.unwrap();
    let shown: Vec<_> = fresh.objects.iter().map(shown_object).collect();
    assert_eq!(shown, ["Service default/greeter a/10.1.0.1:8080", "ConfigMap default/mesh a.yaml"]);
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn namespaces_and_labels_select_objects() {
    let cluster = Cluster::start().await;
    for name in ["one", "two", "three"] {
        cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        let path = format!("/api/v1/namespaces/{name}/configmaps");
        cluster.create(&path, &config_map("mesh", &[])).await;
        let mut team = config_map("team", &[]);
        team["metadata"]["labels"]["team"] = json!("a");
        cluster.create(&path, &team).await;
    }
    for (namespaces, selector, expected) in [
        (&["two", "one", "two"][..], None, "one/mesh one/team two/mesh two/team"),
        (&[], Some("team=a"), "one/team three/team two/team"),
        (&["three"], Some("team notin (a)"), "three/mesh"),
        (&["absent"], None, ""),
    ] {
        let mut options = cluster.options(ADMIN).with_namespaces(namespaces.iter().copied());
        if let Some(selector) = selector {
            options = options.with_selector(selector);
        }
        let list = soon(cluster.source_with(options).await.list()).await.unwrap();
        let found = list.objects.iter().map(|it| it.id.as_str().replace("ConfigMap ", ""));
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected);
    }
}
