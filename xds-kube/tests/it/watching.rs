//! Watches that end: a restarted server, expired positions, lost changes.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt as _;
use serde_json::json;
use xds_source::{ObjectChange, Revision, Source as _, SourceError, WatchError};

use crate::{
    cluster::{Cluster, soon},
    objects::{
        BoxedWatch, CONFIG_MAPS, SERVICES, SLICES, config_map, next, next_shown, service,
        shown_object, slice,
    },
};

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn watch_resumes_after_a_restart_of_the_server() {
    let mut cluster = Cluster::start().await;
    let source = cluster.source().await;
    cluster.create(SERVICES, &service("greeter")).await;
    let list = soon(source.list()).await.unwrap();
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    cluster.create(CONFIG_MAPS, &config_map("a", &[])).await;
    next(&mut watch).await.unwrap();

    cluster.stop_apiserver();
    // A connection that ends ends the watch, with an error or without.
    match soon(watch.next()).await {
        Some(Err(WatchError::Source(SourceError::Unavailable(_)))) | None => {}
        other => panic!("{other:?}"),
    }
    let again = soon(source.list()).await.unwrap();
    assert_eq!(again.objects.len(), 2, "all positions are known, so the last state is returned");
    let refused = next(&mut (Box::pin(source.watch(again.revision)) as BoxedWatch)).await;
    let Err(WatchError::Source(SourceError::Unavailable(why))) = &refused else {
        panic!("{refused:?}")
    };
    assert!(why.starts_with("watch ") && why.contains("Connection refused"), "{why}");

    cluster.start_apiserver().await;
    cluster.create(CONFIG_MAPS, &config_map("b", &[])).await;
    cluster.create(SLICES, &slice("g", "greeter", "a", &["10.1.0.1"])).await;
    // The server has forgotten older changes of its memory: some kinds may have to be read again.
    let (mut after, mut known) = (again.revision, BTreeMap::new());
    for object in again.objects {
        known.insert(object.id.clone(), shown_object(&object));
    }
    let expected =
        ["ConfigMap default/a", "ConfigMap default/b", "Service default/greeter a/10.1.0.1:8080"];
    while known.values().map(String::as_str).ne(expected) {
        let mut watch: BoxedWatch = Box::pin(source.watch(after));
        match next(&mut watch).await {
            Ok(change) => {
                assert!(change.revision > after);
                after = change.revision;
                for changed in change.objects {
                    let ObjectChange::Set(object) = changed else { panic!("{changed:?}") };
                    known.insert(object.id.clone(), shown_object(&object));
                }
            }
            Err(WatchError::Compacted) => {
                let list = soon(source.list()).await.unwrap();
                assert!(list.revision >= after, "{} < {after}", list.revision);
                after = list.revision;
                let ids: BTreeSet<_> = list.objects.iter().map(|it| it.id.clone()).collect();
                assert!(known.keys().all(|id| ids.contains(id)), "{ids:?}");
                for object in list.objects {
                    known.insert(object.id.clone(), shown_object(&object));
                }
            }
            Err(why) => panic!("{why}"),
        }
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn expired_position_is_reported_and_only_expired_kinds_are_read_again() {
    let mut cluster = Cluster::start().await;
    let source = cluster.source().await;
    cluster.create(CONFIG_MAPS, &config_map("gone", &[])).await;
    cluster.create(CONFIG_MAPS, &config_map("kept", &[("a.yaml", "{}")])).await;
    let list = soon(source.list()).await.unwrap();
    assert_eq!(list.objects.len(), 2);

    // Changes that nobody watches, and that the server and etcd then forget.
    cluster.delete(&format!("{CONFIG_MAPS}/gone")).await;
    let change = json!({"data": {"a.yaml": null, "b.yaml": "{}"}});
    cluster.send("PATCH", &format!("{CONFIG_MAPS}/kept"), &change).await;
    cluster.create(CONFIG_MAPS, &config_map("new", &[])).await;
    cluster.stop_apiserver();
    cluster.compact();
    cluster.start_apiserver().await;

    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    assert_eq!(next(&mut watch).await.unwrap_err(), WatchError::Compacted);
    let again = soon(source.list()).await.unwrap();
    assert!(again.revision > list.revision);
    let shown: Vec<_> = again.objects.iter().map(shown_object).collect();
    assert_eq!(shown, ["ConfigMap default/kept b.yaml", "ConfigMap default/new"]);

    // The watch goes on behind the list.
    let mut watch: BoxedWatch = Box::pin(source.watch(again.revision));
    cluster.delete(&format!("{CONFIG_MAPS}/new")).await;
    assert_eq!(next_shown(&mut watch).await, "-ConfigMap default/new");
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn watch_from_another_revision_than_the_last_one_reads_everything_again() {
    let cluster = Cluster::start().await;
    let source = cluster.source().await;
    // Nothing was read yet.
    let early = next(&mut (Box::pin(source.watch(Revision(1))) as BoxedWatch)).await;
    assert_eq!(early.unwrap_err(), WatchError::Replaced);
    let list = soon(source.list()).await.unwrap();
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    cluster.create(CONFIG_MAPS, &config_map("a", &[])).await;
    // The change is lost between the source and its caller.
    let lost = next(&mut watch).await.unwrap();
    assert!(lost.revision > list.revision);
    let resumed = next(&mut (Box::pin(source.watch(list.revision)) as BoxedWatch)).await;
    assert_eq!(resumed.unwrap_err(), WatchError::Replaced);
    let list = soon(source.list()).await.unwrap();
    assert_eq!(list.objects.len(), 1);
}
