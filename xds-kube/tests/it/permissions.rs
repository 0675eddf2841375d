//! Denied permissions.

use xds_kube::KubeOptions;
use xds_source::{Source as _, SourceError};

use crate::cluster::{Cluster, STRANGER, soon};

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

    let options = cluster.options(STRANGER).with_namespaces(["prod"]);
    let why = denied(&cluster, options).await;
    assert!(why.contains(" in namespace prod: 403 "), "{why}");
    assert!(why.contains("Role"), "{why}");
}
