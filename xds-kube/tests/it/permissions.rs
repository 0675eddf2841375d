//! Denied permissions.

use core::time::Duration;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::sleep;
use xds_kube::{KubeOptions, KubeSource};
use xds_source::{List, ObjectChange, Source as _, SourceError, WatchError};

use crate::{
    cluster::{Cluster, STRANGER, soon},
    objects::{BoxedWatch, config_map, next, next_shown, shown, shown_object},
};

/// Advice about a permission that is missing in a namespace.
const GRANT: &str = "grant this verb to the account with a Role, or a ClusterRole, that a RoleBinding in \
                     this namespace binds";

async fn denied(cluster: &Cluster, options: KubeOptions) -> String {
    match soon(cluster.source_with(options).await.list()).await {
        Err(SourceError::Denied(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn denied_requests_name_the_verb_the_resource_and_the_namespace() {
    let cluster = Cluster::start().await;
    let why = denied(&cluster, cluster.options("no-such-token")).await;
    assert!(why.starts_with("list ") && why.contains(" in all namespaces: 401 "), "{why}");
    assert!(why.contains("renew the token"), "{why}");

    let why = denied(&cluster, cluster.options(STRANGER)).await;
    assert!(why.contains(" in all namespaces: 403 "), "{why}");
    assert!(why.contains("User \"stranger\" cannot list resource"), "{why}");
    assert!(why.contains("with a ClusterRole that a ClusterRoleBinding binds"), "{why}");

    let options = cluster.options(STRANGER).with_namespaces(["prod"]);
    let why = denied(&cluster, options).await;
    assert!(why.contains(" in namespace prod: 403 "), "{why}");
    assert!(why.contains(GRANT), "{why}");
}

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/two/rolebindings";

/// Creates the namespaces `one` and `two`, which the stranger may read, each with a ConfigMap `a`.
async fn two_namespaces(cluster: &Cluster) -> KubeSource {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{
        "apiGroups": ["", "discovery.k8s.io"],
        "resources": ["configmaps", "services", "endpointslices"],
        "verbs": ["list", "watch"],
    }]);
    let role = json!({"metadata": {"name": "reader"}, "rules": rules});
    cluster.create(&format!("{rbac}/clusterroles"), &role).await;
    for name in ["one", "two"] {
        cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        cluster.create(&config_maps(name), &config_map("a", &[])).await;
        cluster.create(&BINDINGS.replace("two", name), &binding()).await;
    }
    reader(cluster, ["one", "two"]).await
}

fn binding() -> Value {
    json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "name": STRANGER}],
    })
}

fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

async fn reader<const N: usize>(cluster: &Cluster, namespaces: [&str; N]) -> KubeSource {
    cluster.source_with(cluster.options(STRANGER).with_namespaces(namespaces)).await
}

/// Waits until a namespace can be read, or no longer: the API server takes a moment to notice a role.
async fn wait_readable(cluster: &Cluster, namespace: &str, is_readable: bool) {
    for _ in 0..100 {
        if soon(reader(cluster, [namespace]).await.list()).await.is_ok() == is_readable {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("namespace {namespace}: the role has no effect");
}

/// Takes changes until the objects are these, each in short form.
async fn wait_objects(watch: &mut BoxedWatch, objects: &mut Shown, expected: &[&str]) {
    while objects.values().ne(expected) {
        for change in next(watch).await.unwrap().objects {
            let id = change.id().to_string();
            match change {
                ObjectChange::Set(object) => objects.insert(id, shown_object(&object)),
                ObjectChange::Delete(_) => objects.remove(&id),
            };
        }
    }
}

type Shown = BTreeMap<String, String>;

fn shown_all(list: List) -> Shown {
    list.objects.iter().map(|it| (it.id.to_string(), shown_object(it))).collect()
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn denied_namespace_keeps_its_last_state_while_others_change() {
    let cluster = Cluster::start().await;
    let source = two_namespaces(&cluster).await;
    wait_readable(&cluster, "one", true).await;
    wait_readable(&cluster, "two", true).await;
    let list = soon(source.list()).await.unwrap();
    let after = list.revision;
    let mut objects = shown_all(list);
    assert!(objects.values().eq(["ConfigMap one/a", "ConfigMap two/a"]), "{objects:?}");

    cluster.delete(&format!("{BINDINGS}/reader")).await;
    wait_readable(&cluster, "two", false).await;
    let mut watch: BoxedWatch = Box::pin(source.watch(after));
    cluster.create(&config_maps("one"), &config_map("b", &[])).await;
    cluster.delete(&format!("{}/a", config_maps("two"))).await;
    let denied = |resource: &str, group: &str| {
        let what = format!("{resource}{group} in namespace two");
        let user = format!("User \"{STRANGER}\" cannot watch resource \"{resource}\"");
        let api =
            format!("in API group \"{}\" in the namespace \"two\"", group.trim_start_matches('.'));
        let said = format!("{resource}{group} is forbidden: {user} {api}");
        format!("{what} !watch {what}: 403 {said}: {GRANT}")
    };
    let [config_maps_denied, slices_denied, services_denied] =
        [("configmaps", ""), ("endpointslices", ".discovery.k8s.io"), ("services", "")]
            .map(|(resource, group)| denied(resource, group));
    let kept = ["ConfigMap one/a", "ConfigMap one/b", "ConfigMap two/a"];
    let expected = [&kept[..], &[&config_maps_denied, &slices_denied, &services_denied]].concat();
    wait_objects(&mut watch, &mut objects, &expected).await;

    // Another watch, and a list, show the same.
    let list = soon(source.list()).await.unwrap();
    assert_eq!(shown_all(list.clone()), objects);
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    cluster.delete(&format!("{}/b", config_maps("one"))).await;
    assert_eq!(next_shown(&mut watch).await, "-ConfigMap one/b");
    objects.remove("ConfigMap one/b");

    // The changes in between are not lost.
    cluster.create(BINDINGS, &binding()).await;
    let scopes = ["configmaps", "endpointslices.discovery.k8s.io", "services"];
    let scopes = scopes.map(|it| format!("{it} in namespace two"));
    let expected: Vec<_> =
        ["ConfigMap one/a"].into_iter().chain(scopes.iter().map(String::as_str)).collect();
    wait_objects(&mut watch, &mut objects, &expected).await;
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn first_list_waits_for_a_denied_namespace() {
    let cluster = Cluster::start().await;
    let source = two_namespaces(&cluster).await;
    wait_readable(&cluster, "one", true).await;
    cluster.delete(&format!("{BINDINGS}/reader")).await;
    wait_readable(&cluster, "two", false).await;
    let Err(SourceError::Denied(why)) = soon(source.list()).await else { panic!("allowed") };
    assert!(why.starts_with("list services in namespace two: 403 "), "{why}");
    assert!(why.contains(GRANT) && why.contains("nothing is served"), "{why}");
    cluster.create(BINDINGS, &binding()).await;
    wait_readable(&cluster, "two", true).await;
    assert_eq!(soon(source.list()).await.unwrap().objects.len(), 2);
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn watch_ends_with_an_error_once_all_scopes_are_denied() {
    let cluster = Cluster::start().await;
    let source = two_namespaces(&cluster).await;
    wait_readable(&cluster, "one", true).await;
    wait_readable(&cluster, "two", true).await;
    let list = soon(source.list()).await.unwrap();
    for name in ["one", "two"] {
        cluster.delete(&format!("{}/reader", BINDINGS.replace("two", name))).await;
        wait_readable(&cluster, name, false).await;
    }
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    let why = loop {
        match next(&mut watch).await {
            Ok(change) => assert!(!shown(&change).contains("ConfigMap"), "{change:?}"),
            Err(why) => break why,
        }
    };
    let WatchError::Source(SourceError::Denied(why)) = why else { panic!("{why:?}") };
    assert!(why.contains(" in namespace ") && why.contains(GRANT), "{why}");
}
