//! Contract of a place for the state of rollouts. `xds-etcd`, `xds-kube` and `xds-cli` include this file
//! and check theirs with it.

#![allow(dead_code)]

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::timeout;
use xds_core::{
    rollout::{CohortReport, PeerNews, RolloutCommand, RolloutId, RolloutState, StoreResult},
    types,
};
use xds_source::{RolloutStore, StoreNews, StoreWatch, StoredResource};

/// Resources with so many bytes altogether.
fn resources(name: &str, bytes: usize) -> Vec<StoredResource> {
    let of_view = |view: &str| StoredResource {
        view: view.into(),
        type_url: types::CLUSTER.into(),
        name: name.into(),
        bytes: Bytes::from(vec![b'x'; bytes / 2]),
        revision: 7,
    };
    ["", "edge"].map(of_view).into()
}

fn running(id: u64, generation: u64, stable: u64) -> RolloutState {
    let text = format!(
        "xds-rollout/1 id={id} generation={generation} phase=running step=1/2 stable={stable} why="
    );
    text.parse().unwrap()
}

/// Waits for the news that a predicate selects.
async fn wait<T>(watch: &mut StoreWatch, select: impl Fn(&StoreNews) -> Option<T>) -> T {
    let found = async {
        while let Some(news) = watch.next().await {
            if let Some(found) = select(&news.unwrap()) {
                return found;
            }
        }
        panic!("the watch has ended");
    };
    timeout(Duration::from_secs(60), found).await.expect("news within a minute")
}

async fn wait_state(watch: &mut StoreWatch, state: &RolloutState) {
    wait(watch, |news| matches!(news, StoreNews::State(it) if it == state).then_some(())).await;
}

pub(crate) async fn wait_replica(watch: &mut StoreWatch, wanted: PeerNews) -> String {
    wait(watch, |news| match news {
        StoreNews::Replica(name, news) if *news == wanted => Some(name.to_string()),
        _ => None,
    })
    .await
}

/// Checks two values for the same place, which is empty.
pub(crate) async fn check(first: &dyn RolloutStore, second: &dyn RolloutStore) {
    states(first, second).await;
    contents(first, second).await;
    if first.is_shared() {
        replicas(first, second).await;
    }
}

async fn states(first: &dyn RolloutStore, second: &dyn RolloutStore) {
    assert_eq!(first.state().await.unwrap(), None);
    assert_eq!(first.history().await.unwrap(), []);
    let mut watch = first.watch();
    let initial = RolloutState::initial(RolloutId(3));
    for store in [first, second] {
        assert_eq!(store.replace(&initial).await.unwrap(), StoreResult::Stored);
        assert_eq!(store.state().await.unwrap().as_ref(), Some(&initial));
    }
    wait_state(&mut watch, &initial).await;
    let other = RolloutState::initial(RolloutId(4));
    let conflict = StoreResult::Conflict(initial.clone());
    assert_eq!(second.replace(&other).await.unwrap(), conflict);
    assert_eq!(second.replace(&running(5, 3, 3)).await.unwrap(), conflict);

    // Of two that are stored at the same time, one is.
    let (a, b) = (running(5, 2, 3), running(6, 2, 3));
    let (of_a, of_b) = tokio::join!(first.replace(&a), second.replace(&b));
    let results = [of_a.unwrap(), of_b.unwrap()];
    let won = match &results {
        [StoreResult::Stored, StoreResult::Conflict(it)] if *it == a => a,
        [StoreResult::Conflict(it), StoreResult::Stored] if *it == b => b,
        other => panic!("{other:?}"),
    };
    wait_state(&mut watch, &won).await;
    assert_eq!(first.history().await.unwrap(), [], "it has not ended");

    let ended = won.commanded(RolloutCommand::Abort).unwrap();
    assert_eq!(second.replace(&ended).await.unwrap(), StoreResult::Stored);
    wait_state(&mut watch, &ended).await;
    let history = first.history().await.unwrap();
    let states: Vec<_> = history.iter().map(|it| &it.state).collect();
    assert_eq!(states, [&ended]);
    assert!(history[0].at.elapsed().unwrap() < Duration::from_secs(600));
    // A new watch begins with what there is.
    wait_state(&mut second.watch(), &ended).await;
}

async fn contents(first: &dyn RolloutStore, second: &dyn RolloutStore) {
    assert_eq!(first.contents(RolloutId(0)).await.unwrap(), Some(Vec::new()));
    assert_eq!(first.contents(RolloutId(5)).await.unwrap(), None);
    // More than fits into one value of etcd or Kubernetes.
    let large = resources("large", 3 << 20);
    first.save_contents(RolloutId(5), &large).await.unwrap();
    assert_eq!(second.contents(RolloutId(5)).await.unwrap().as_ref(), Some(&large));
    if second.is_shared() {
        second.save_contents(RolloutId(5), &resources("other", 2)).await.unwrap();
        assert_eq!(first.contents(RolloutId(5)).await.unwrap().as_ref(), Some(&large));
    }
    for id in [3, 4, 9, 10] {
        second.save_contents(RolloutId(id), &resources("small", 2)).await.unwrap();
    }
    first.clean(&running(9, 7, 3)).await.unwrap();
    let mut kept = Vec::new();
    for id in [3, 4, 5, 9, 10] {
        if second.contents(RolloutId(id)).await.unwrap().is_some() {
            kept.push(id);
        }
    }
    assert_eq!(kept, [3, 9, 10]);
    // The number may be used again.
    first.save_contents(RolloutId(5), &resources("again", 2)).await.unwrap();
    assert_eq!(second.contents(RolloutId(5)).await.unwrap(), Some(resources("again", 2)));
}

async fn replicas(first: &dyn RolloutStore, second: &dyn RolloutStore) {
    let mut watch = first.watch();
    // Its own counts are no news.
    first.join();
    second.join();
    let name = wait_replica(&mut watch, PeerNews::Reported(CohortReport::default())).await;
    let report = CohortReport::new(4).with_members(2).with_acknowledged(1);
    second.report(report).await.unwrap();
    assert_eq!(wait_replica(&mut watch, PeerNews::Reported(report)).await, name);
    second.report_progress(r#"{"rollout": 5}"#).await.unwrap();
    let progress = async {
        loop {
            let all = first.progress().await.unwrap();
            if let Some(found) = all.into_iter().find(|it| it.json == r#"{"rollout": 5}"#) {
                return found.server;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let server = timeout(Duration::from_secs(60), progress).await.expect("progress");
    assert_eq!(server, name);
    // One that was away is told that a replica has left meanwhile.
    drop(watch);
    second.leave().await.unwrap();
    let mut watch = first.watch();
    assert_eq!(wait_replica(&mut watch, PeerNews::Left).await, name);
    assert!(first.progress().await.unwrap().iter().all(|it| it.server != name));
    // Counts that were reported before a replica takes part are valid.
    let early = CohortReport::new(5).with_members(3).with_acknowledged(2);
    second.report(early).await.unwrap();
    second.join();
    assert_eq!(wait_replica(&mut watch, PeerNews::Reported(early)).await, name);
    second.leave().await.unwrap();
    first.leave().await.unwrap();
}
