//! Replacement of clusters and endpoints under load, without losing calls.

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::sync::Arc;

use tokio::time::sleep;
use tonic_health::pb::HealthCheckRequest;
use xds_routing::proto::envoy::config::route::v3::Route;

use crate::{
    support::*,
    world::{Backend, Change, World, soon},
};

const CALLERS: usize = 8;
const SWAPS: usize = 30;

/// Callers without pauses on one channel. Every other caller makes streams and keeps each one until
/// the next one has delivered a message.
struct Load {
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    callers: Vec<tokio::task::JoinHandle<Result<(), tonic::Status>>>,
}

impl Load {
    fn start(world: &World) -> Self {
        let client = world.health();
        let (done, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let callers = (0..CALLERS).map(|caller| {
            let (mut client, done, stop) = (client.clone(), Arc::clone(&done), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut kept = None;
                while !stop.load(Ordering::SeqCst) {
                    if caller % 2 == 0 {
                        client.check(HealthCheckRequest::default()).await?;
                    } else {
                        let mut stream =
                            client.watch(HealthCheckRequest::default()).await?.into_inner();
                        let spoke = stream.message().await?.is_some();
                        assert!(spoke, "a stream says how it is before it ends");
                        kept = Some(stream);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
                drop(kept);
                Ok(())
            })
        });
        Self { callers: callers.collect(), done, stop }
    }

    /// Waits until `more` further calls were answered or one has failed.
    async fn answers(&self, more: usize) {
        let target = self.done.load(Ordering::SeqCst) + more;
        let is_whole = || self.callers.iter().all(|caller| !caller.is_finished());
        soon(async {
            while self.done.load(Ordering::SeqCst) < target && is_whole() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    async fn end(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        for caller in self.callers {
            soon(caller).await.expect("no panic").expect("no call is lost");
        }
        self.done.load(Ordering::SeqCst)
    }
}

fn to(name: &str) -> Vec<Route> {
    vec![route(prefix(""), cluster(name))]
}

/// Each change replaces the cluster and removes the previous one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_clusters_are_swapped() {
    let world = World::new().await;
    let mut backends = vec![Backend::new().await];
    world.apply(Change::new().routes(to("c-0")).at("c-0", &[backends[0].address]).0).await;
    let load = Load::start(&world);
    load.answers(50).await;
    for swap in 1..=SWAPS {
        let (old, new) = (format!("c-{}", swap - 1), format!("c-{swap}"));
        let backend = Backend::new().await;
        let change = Change::new().routes(to(&new)).at(&new, &[backend.address]).without(&old);
        world.apply(change.0).await;
        backends.push(backend);
        // The new cluster is in use, so the old backend can stop.
        while backends[swap].calls() == 0 {
            load.answers(1).await;
        }
        load.answers(10).await;
        if let Some(gone) = swap.checked_sub(2) {
            backends[gone].stop();
        }
    }
    let calls = load.end().await;
    let seen: usize = backends.iter().map(Backend::calls).sum();
    assert_eq!(calls, seen, "each call was seen by one backend");
    assert!(backends.iter().all(|backend| backend.calls() > 0));
}

/// Each change moves the cluster to another backend.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_while_endpoints_are_swapped() {
    let world = World::new().await;
    let mut backends = vec![Backend::new().await];
    world.apply(Change::new().routes(to("c")).at("c", &[backends[0].address]).0).await;
    let load = Load::start(&world);
    load.answers(50).await;
    for swap in 1..=SWAPS {
        let backend = Backend::new().await;
        world.apply(Change::new().endpoints("c", &[backend.address]).0).await;
        backends.push(backend);
        while backends[swap].calls() == 0 {
            load.answers(1).await;
        }
        backends[swap - 1].stop();
    }
    let calls = load.end().await;
    assert_eq!(calls, backends.iter().map(Backend::calls).sum::<usize>());
}
