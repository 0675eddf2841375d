//! Dependency manager on a client handle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use xds_core::{
    Time,
    client::Profile,
    server::{AbsenceDelay, ServerConfig, Transaction, Variant},
    types,
};
use xds_routing::dependencies::{DependencyManager, HandleDependencies};

use crate::{
    behind_handle::{HandleNetwork, Polled},
    dependencies::rig::{Outcome, Store, VARIANTS, client_config, shorten},
};

/// Test network without timers.
type Rig = HandleNetwork<HandleDependencies>;

impl Polled for HandleDependencies {
    type Said = Outcome;

    fn poll(&mut self, _: Time, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        self.poll_next(cx)
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

impl Rig {
    fn new(variant: Variant) -> Self {
        let mut config = ServerConfig::default();
        config.type_defaults.full_state.absence_delay = AbsenceDelay::Never;
        config.type_defaults.others.absence_delay = AbsenceDelay::Never;
        let manager = DependencyManager::new("l", "shop.example.com", "node-1");
        Self::connect(variant, client_config(variant, Profile::grpc()), config, |handle| {
            HandleDependencies::new(manager, handle)
        })
    }

    fn set(&mut self, change: impl FnOnce(&mut Store)) -> Vec<String> {
        let mut store = Store(Transaction::new());
        change(&mut store);
        self.apply(store.0).iter().map(shorten).collect()
    }
}

#[test]
fn handle_resolves_dependencies_like_the_client() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        assert!(rig.settle().is_empty());
        let told = rig.set(|it| {
            it.listener("r").routes("r", &["a", "b"]).whole("a", &[1]).cluster("b");
        });
        assert!(told.is_empty());
        let told = rig.set(|it| {
            it.endpoints("b", &[2]);
        });
        assert_eq!(told, ["[a b] a=1 b=2"]);
        assert_eq!(rig.client.watch_count(), 6);
        rig.follower.subscribe(&"a".into());
        let told = rig.set(|it| {
            it.routes("r", &["b"]).endpoints("b", &[3]);
        });
        assert_eq!(told.last().map(String::as_str), Some("[b] a=1 b=3"));
        rig.follower.unsubscribe(&"a".into());
        assert_eq!(rig.settle().iter().map(shorten).collect::<Vec<_>>(), ["[b] b=3"]);
        assert_eq!(rig.client.watch_count(), 4, "what nothing refers to is not watched");
        // Routes to the first cluster again.
        let told = rig.set(|it| {
            it.routes("r", &["a"]);
        });
        assert_eq!(told, ["[a] a=1"]);
        let told = rig.set(|it| {
            it.remove(types::CLUSTER, "b").routes("r", &["a", "*"]);
        });
        assert!(told[0].contains("*=(cannot be watched: "), "{told:?}");
        assert_eq!(rig.client.watch_count(), 4);
        assert_eq!(rig.end(), Poll::Ready(None));
    }
    println!("covers: B44");
}

#[test]
fn handle_does_not_show_half_swaps_and_reports_loops() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        let told = rig.set(|it| {
            it.inline(&["a", "b"]).whole("a", &[1]).aggregate("b", &["a"]);
        });
        assert_eq!(told, ["[a b] a=1 b=<a>"]);
        let mut told = rig.set(|it| {
            it.aggregate("a", &["b"]).eds("b", "new");
        });
        told.extend(rig.set(|it| {
            it.endpoints("new", &[2]);
        }));
        assert_eq!(told.last().map(String::as_str), Some("[a b] a=<b> b=2"));
        assert!(told.iter().all(|it| !it.contains("none of which")), "{told:?}");
        let told = rig.set(|it| {
            it.aggregate("b", &["a"]);
        });
        let none = "(no leaf cluster of the aggregate is available)";
        assert_eq!(told, [format!("[a b] a={none} b={none}")]);
        assert_eq!(rig.client.watch_count(), 3);
    }
    println!("covers: B30a B44");
}

/// Waker that counts its wakeups.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn subscribe_and_unsubscribe_wake_the_waiting_task() {
    let (handle, _driver) = xds_handle::channel();
    let manager = DependencyManager::new("l", "shop.example.com", "node-1");
    let mut follower = HandleDependencies::new(manager, handle);
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    for change in [HandleDependencies::subscribe, HandleDependencies::unsubscribe] {
        assert!(follower.poll_next(&mut Context::from_waker(&waker)).is_pending());
        let before = wakes.0.load(Ordering::SeqCst);
        change(&mut follower, &"a".into());
        assert!(wakes.0.load(Ordering::SeqCst) > before);
    }
}
