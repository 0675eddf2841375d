//! Many EndpointSlices.

use std::{collections::BTreeMap, time::Instant};

use futures_util::{StreamExt as _, stream};
use xds_source::{Object, ObjectChange, ObjectId, Source as _};

use crate::{
    cluster::{Cluster, soon},
    objects::{BoxedWatch, SERVICES, SLICES, endpoints, next, service, slice},
};

const SERVICE_COUNT: usize = 100;
const SLICES_EACH: usize = 100;

fn address(service: usize, slice: usize) -> String {
    format!("10.{}.{}.{}", 1 + service / 250, service % 250, slice)
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn ten_thousand_slices_lose_no_endpoint() {
    let cluster = Cluster::start().await;
    let source = cluster.source().await;
    for number in 0..SERVICE_COUNT {
        cluster.create(SERVICES, &service(&format!("s{number}"))).await;
    }
    let list = soon(source.list()).await.unwrap();
    assert_eq!(list.objects.len(), SERVICE_COUNT);
    let mut known: BTreeMap<ObjectId, Object> =
        list.objects.into_iter().map(|it| (it.id.clone(), it)).collect();
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));

    // Slices are created while the source is watched.
    let started = Instant::now();
    let total = SERVICE_COUNT * SLICES_EACH;
    let pairs = (0..SLICES_EACH).flat_map(|slice| (0..SERVICE_COUNT).map(move |it| (it, slice)));
    let cluster = &cluster;
    let mut created = stream::iter(pairs)
        .map(|(number, index)| async move {
            let service = format!("s{number}");
            let address = address(number, index);
            let slice = slice(&format!("{service}-{index}"), &service, "a", &[&address]);
            cluster.create(SLICES, &slice).await
        })
        .buffer_unordered(16);
    let (mut changes, mut found) = (0, 0);
    let watching = async {
        while found < total {
            let change = next(&mut watch).await.unwrap();
            changes += 1;
            for changed in change.objects {
                match changed {
                    ObjectChange::Set(object) => {
                        let before = known.insert(object.id.clone(), object.clone()).unwrap();
                        let (before, now) = (endpoints(&before).len(), endpoints(&object).len());
                        assert!(before <= now, "{}: {now} after {before}", object.id);
                        found += now - before;
                    }
                    ObjectChange::Delete(id) => panic!("{id} was removed"),
                }
            }
        }
        started.elapsed()
    };
    let creating = async {
        while created.next().await.is_some() {}
        started.elapsed()
    };
    let (created, seen) = tokio::join!(creating, watching);
    println!("{total} slices created in {created:.2?}, seen after {seen:.2?}, {changes} changes");

    // A fresh reader has the same state.
    let started = Instant::now();
    let fresh = soon(cluster.source().await.list()).await.unwrap();
    println!("listed in {:.2?}", started.elapsed());
    assert_eq!(fresh.objects.len(), known.len());
    for object in &fresh.objects {
        assert_eq!(object.content, known[&object.id].content, "{}", object.id);
    }

    // One change among many objects.
    let mut latencies = Vec::new();
    for round in 0..20 {
        let zone = format!("z{round}");
        let changed = slice("s7-3", "s7", &zone, &[&address(7, 3)]);
        let started = Instant::now();
        cluster.send("PATCH", &format!("{SLICES}/s7-3"), &changed).await;
        let change = next(&mut watch).await.unwrap();
        latencies.push(started.elapsed());
        let [ObjectChange::Set(object)] = &change.objects[..] else { panic!("{change:?}") };
        let expected = format!("{zone}/{}:8080", address(7, 3));
        assert!(endpoints(object).contains(&expected));
    }
    latencies.sort();
    println!("one changed slice: p50 {:.2?}, max {:.2?}", latencies[10], latencies[19]);
}
