//! State of rollouts in a cluster.

use core::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::sleep;
use xds_core::rollout::{CohortReport, PeerNews, RolloutId, RolloutState};
use xds_kube::{KubeClient, KubeRollouts, ROLLOUT_PERMISSIONS};
use xds_source::{RolloutStore as _, SourceError, StoreNews};

use crate::{
    cluster::{ADMIN, Cluster, SERVER, STRANGER, soon},
    manifests::{manifest, manifests},
    objects::CONFIG_MAPS,
};

#[path = "../../../xds-source/tests/contract/rollout_store.rs"]
mod contract;

async fn rollouts(cluster: &Cluster, token: &str, namespace: &str, server: &str) -> KubeRollouts {
    let client = KubeClient::new(cluster.options(token)).await.unwrap();
    KubeRollouts::new(client, namespace, "xds-rollout", server)
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn state_of_rollouts_keeps_the_contract() {
    let cluster = Cluster::start().await;
    let first = rollouts(&cluster, ADMIN, "default", "Host_1.example-17").await;
    let second = rollouts(&cluster, ADMIN, "default", "host-2-17").await;
    contract::check(&first, &second).await;
    // A part without a manifest is of an attempt before this server has restarted.
    let part = json!({
        "metadata": {"name": "xds-rollout-20-host-1-example-17-0"},
        "binaryData": {"part": "AAAA"},
    });
    cluster.create(CONFIG_MAPS, &part).await;
    let resources = first.contents(RolloutId(9)).await.unwrap().unwrap();
    first.save_contents(RolloutId(20), &resources).await.unwrap();
    assert_eq!(second.contents(RolloutId(20)).await.unwrap(), Some(resources));
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn server_that_does_not_renew_its_lease_has_left() {
    let cluster = Cluster::start().await;
    let first = rollouts(&cluster, ADMIN, "default", "one").await;
    let second = rollouts(&cluster, ADMIN, "default", "two").await;
    let mut watch = first.watch();
    second.join();
    let joined = soon(contract::wait_replica(&mut watch, PeerNews::Reported(Default::default())));
    assert_eq!(joined.await, "two");
    // It is renewed meanwhile.
    sleep(Duration::from_secs(17)).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = cluster.send("GET", &format!("{leases}/xds-rollout-two"), &Value::Null).await;
    assert_eq!(lease["spec"]["holderIdentity"], "two", "{lease}");
    drop(second);
    assert_eq!(soon(contract::wait_replica(&mut watch, PeerNews::Left)).await, "two");
    for _ in 0..100 {
        let left = cluster.send("GET", leases, &Value::Null).await;
        if left["items"].as_array().unwrap().is_empty() {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("its lease was not deleted");
}

/// A connection may be lost without an error, for example in a load balancer.
#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn server_whose_lease_is_renewed_has_not_left_if_the_watch_is_silent() {
    let cluster = Cluster::start().await;
    let (proxy, options) = cluster.proxy(ADMIN).await;
    let client = KubeClient::new(options).await.unwrap();
    let first = KubeRollouts::new(client, "default", "xds-rollout", "one");
    let second = rollouts(&cluster, ADMIN, "default", "two").await;
    let mut watch = first.watch();
    second.join();
    let joined = PeerNews::Reported(CohortReport::default());
    assert_eq!(soon(contract::wait_replica(&mut watch, joined)).await, "two");
    let report = |generation| CohortReport::new(generation).with_members(2).with_acknowledged(1);
    second.report(report(4)).await.unwrap();
    let reported = PeerNews::Reported(report(4));
    assert_eq!(soon(contract::wait_replica(&mut watch, reported)).await, "two");

    // The watch has begun, and the first server sends no other requests meanwhile.
    proxy.silence();
    second.report(report(5)).await.unwrap();
    // The first server tries to delete the Lease once it seems to have ended, and then reads again.
    match soon(watch.next()).await {
        Some(Ok(StoreNews::Replica(name, PeerNews::Reported(read)))) => {
            assert_eq!((&*name, read), ("two", report(5)));
        }
        other => panic!("{other:?}"),
    }
}

/// A server whose role lacks `delete` must not take a silent watch for the end of the others.
#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn server_without_the_permission_to_delete_reads_whether_a_lease_was_renewed() {
    let cluster = Cluster::start().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let (group, verbs) = ("coordination.k8s.io", ["get", "list", "watch", "patch", "create"]);
    let role = json!({
        "metadata": {"name": "no-delete"},
        "rules": [{"apiGroups": [group], "resources": ["leases"], "verbs": verbs}],
    });
    let binding = json!({
        "metadata": {"name": "no-delete"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "no-delete"},
        "subjects": [{"kind": "User", "name": STRANGER}],
    });
    cluster.create(&format!("{rbac}/roles"), &role).await;
    cluster.create(&format!("{rbac}/rolebindings"), &binding).await;
    let (proxy, options) = cluster.proxy(STRANGER).await;
    let client = KubeClient::new(options).await.unwrap();
    let first = KubeRollouts::new(client, "default", "xds-rollout", "one");
    let second = rollouts(&cluster, ADMIN, "default", "two").await;
    second.join();
    let joined = PeerNews::Reported(CohortReport::default());
    let mut watch = first.watch();
    let joins = async {
        loop {
            match watch.next().await {
                Some(Ok(StoreNews::Replica(name, news))) if &*name == "two" => return news,
                Some(Ok(_)) => {}
                // The API server takes a moment to notice a role.
                Some(Err(SourceError::Denied(_))) | None => {
                    sleep(Duration::from_millis(100)).await;
                    watch = first.watch();
                }
                Some(Err(why)) => panic!("{why}"),
            }
        }
    };
    assert_eq!(soon(joins).await, joined);
    let report = CohortReport::new(4).with_members(2).with_acknowledged(1);
    proxy.silence();
    second.report(report).await.unwrap();
    match soon(watch.next()).await {
        Some(Ok(StoreNews::Replica(name, PeerNews::Reported(read)))) => {
            assert_eq!((&*name, read), ("two", report));
        }
        other => panic!("{other:?}"),
    }
    // A server that has ended is found without the permission, too.
    drop(second);
    assert_eq!(soon(contract::wait_replica(&mut watch, PeerNews::Left)).await, "two");
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn namespace_that_is_being_deleted_is_not_reported_as_a_missing_permission() {
    let cluster = Cluster::start().await;
    cluster.create("/api/v1/namespaces", &json!({"metadata": {"name": "ending"}})).await;
    // No controller of this cluster removes the finalizer, so the namespace remains.
    cluster.delete("/api/v1/namespaces/ending").await;
    let rollouts = rollouts(&cluster, ADMIN, "ending", "one").await;
    let replaced = rollouts.replace(&RolloutState::initial(RolloutId(1))).await;
    let Err(SourceError::Failed(why)) = replaced else { panic!("{replaced:?}") };
    assert!(why.ends_with("because it is being terminated"), "{why}");
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn role_of_the_manifests_suffices_and_a_stranger_is_told_what_lacks() {
    let cluster = Cluster::start().await;
    for object in manifests() {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let path = match kind.as_str() {
            "Namespace" => "/api/v1/namespaces".to_owned(),
            "Role" | "RoleBinding" => {
                let plural = format!("{}s", kind.to_lowercase());
                format!("/apis/rbac.authorization.k8s.io/v1/namespaces/xds-system/{plural}")
            }
            _ => continue,
        };
        cluster.create(&path, &object).await;
    }
    let first = rollouts(&cluster, SERVER, "xds-system", "one").await;
    let second = rollouts(&cluster, SERVER, "xds-system", "two").await;
    let state = RolloutState::initial(RolloutId(1));
    // The API server takes a moment to notice a role.
    for _ in 0..100 {
        if first.replace(&state).await.is_ok() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let cleared = [("leases", "coordination.k8s.io/v1"), ("configmaps", "v1")];
    for (plural, group) in cleared {
        let api = if group == "v1" { "api" } else { "apis" };
        cluster.delete(&format!("/{api}/{group}/namespaces/xds-system/{plural}")).await;
    }
    contract::check(&first, &second).await;

    let stranger = rollouts(&cluster, STRANGER, "xds-system", "three").await;
    let Err(SourceError::Denied(why)) = stranger.replace(&state).await else { panic!("allowed") };
    assert!(why.starts_with("get lease xds-rollout in namespace xds-system: 403"), "{why}");
}

#[test]
fn role_has_exactly_the_permissions_of_rollouts() {
    let role = manifest("Role", "xds-rollouts");
    let rules: Vec<_> = role["rules"].as_array().unwrap().iter().collect();
    assert_eq!(rules.len(), ROLLOUT_PERMISSIONS.len());
    for (rule, used) in rules.iter().zip(ROLLOUT_PERMISSIONS) {
        assert_eq!(rule["apiGroups"][0], used.group);
        assert_eq!(rule["resources"][0], used.resource);
        let verbs: Vec<_> = used.read.iter().chain(used.write).copied().collect();
        let granted: Vec<_> =
            rule["verbs"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        assert_eq!(granted, verbs);
    }
}
