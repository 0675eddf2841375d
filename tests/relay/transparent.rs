//! Checks that clients of a relay get the same resources as clients of the upstream server: random
//! walks of two clients with the same watches, one on each side of the relay.
// IL6

use std::{collections::BTreeMap, time::Duration};

use xds_core::{
    Client, WatchId,
    client::{Interest, ResourceStatus, WatchError, WatchErrorKind},
    server::{StatusCode, Variant},
    types,
};
use xds_sim::{Toy, ToyType};

use super::{
    relay::{GRACE, RelayWorld, client},
    segment::{Member, Network, VARIANTS},
};

const WALKS: u64 = 1_000;
const STEPS: usize = 40;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Longer than any backoff or does-not-exist timer.
const REST: Duration = Duration::from_secs(300);

/// Watches of each resource, on both sides.
type Watches = BTreeMap<(&'static str, &'static str), (WatchId, WatchId)>;

struct Walk {
    world: RelayWorld,
    variant: Variant,
    direct: Member,
    behind: Member,
    watches: Watches,
    state: u64,
    texts: u64,
}

impl Walk {
    fn new(variant: Variant, seed: u64) -> Self {
        let mut world = RelayWorld::new(variant);
        let direct = world.upstream.join(client("direct", variant, ToyType::new));
        let behind = world.client("behind");
        let watches = Watches::new();
        Self { world, variant, direct, behind, watches, state: seed, texts: 0 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        usize::try_from(self.state >> 33).expect("31 bits") % bound
    }

    /// Selects a type whose removals are reported. State of the world does not
    /// report removed endpoints.
    fn some_type(&mut self) -> &'static str {
        match self.variant {
            Variant::StateOfTheWorld => types::CLUSTER,
            Variant::Incremental => [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT][self.below(2)],
        }
    }

    fn step(&mut self) {
        let (type_url, name) = (self.some_type(), NAMES[self.below(NAMES.len())]);
        let now = self.world.now;
        match self.below(10) {
            0..=2 => {
                self.texts += 1;
                let bytes = Toy::bytes(name, &self.texts.to_string());
                self.world.set(|it| {
                    it.set(type_url, name, bytes);
                });
            }
            3 => self.world.set(|it| {
                it.remove(type_url, name);
            }),
            // In state of the world, a deletion does not end an error.
            4 if self.variant == Variant::Incremental => self.world.set(|it| {
                it.set_error(type_url, name, StatusCode::PermissionDenied, "not for you");
            }),
            4 | 5 => {
                let watches = (
                    self.world.upstream.watch(self.direct, type_url, Interest::Name(name), now),
                    self.world.downstream.watch(self.behind, type_url, Interest::Name(name), now),
                );
                if let Some(before) = self.watches.insert((type_url, name), watches) {
                    self.unwatch(before);
                }
            }
            6 => {
                if let Some(watches) = self.watches.remove(&(type_url, name)) {
                    self.unwatch(watches);
                }
            }
            7 => self.world.upstream.set_network(Network::Down, now),
            8 => self.world.downstream.set_network(Network::Down, now),
            _ => {
                self.world.upstream.set_network(Network::Up, now);
                self.world.downstream.set_network(Network::Up, now);
            }
        }
        let pause = Duration::from_millis([0, 0, 10, 1_000, 20_000][self.below(5)]);
        self.world.advance(pause);
    }

    fn unwatch(&mut self, (direct, behind): (WatchId, WatchId)) {
        let now = self.world.now;
        self.world.upstream.client(self.direct).unwatch(direct, now);
        self.world.downstream.client(self.behind).unwatch(behind, now);
    }

    /// Waits until everything has settled, and compares both clients.
    fn compare(&mut self, seed: u64) {
        let now = self.world.now;
        self.world.upstream.set_network(Network::Up, now);
        self.world.downstream.set_network(Network::Up, now);
        self.world.advance(REST);
        let direct = seen(self.world.upstream.client(self.direct));
        let behind = seen(self.world.downstream.client(self.behind));
        assert_eq!(behind, direct, "seed {seed}, {:?}", self.variant);
        assert_eq!(direct.len(), self.watches.len());
    }
}

impl Walk {
    /// Ends all watches, and checks that none is left upstream.
    fn leave(&mut self) {
        for (_, watches) in std::mem::take(&mut self.watches) {
            self.unwatch(watches);
        }
        self.world.advance(GRACE * 2);
        assert_eq!(self.world.subscriptions(), 0, "the relay keeps what nobody wants");
    }
}

/// State of each resource at a client: its text, and its error in short.
type Seen = BTreeMap<(String, String), (Option<String>, String)>;

fn seen(client: &Client) -> Seen {
    let of = |it: ResourceStatus<'_>| {
        let trouble = match it.error.map(WatchError::kind) {
            None => String::new(),
            // A relay reports a missing resource as an error, because state of the world has no
            // other means.
            Some(WatchErrorKind::Reported { code: StatusCode::NotFound, .. }) => "missing".into(),
            Some(WatchErrorKind::Deleted | WatchErrorKind::Absent) => "missing".into(),
            Some(WatchErrorKind::DoesNotExist(_)) => "missing".into(),
            Some(other) => other.to_string(),
        };
        // With an error, the kept value is the last one received, which may differ
        // between the clients.
        let text = it.bytes.filter(|_| trouble.is_empty()).map(|bytes| Toy::text_of(bytes));
        ((it.type_url.to_string(), it.name.to_string()), (text, trouble))
    };
    client.status().map(of).collect()
}

#[test]
fn client_behind_a_relay_sees_the_same_as_a_direct_client() {
    for variant in VARIANTS {
        let (mut values, mut missing, mut errors) = (0, 0, 0);
        for seed in 0..WALKS {
            let mut walk = Walk::new(variant, seed);
            for _ in 0..STEPS {
                walk.step();
            }
            walk.compare(seed);
            for (text, trouble) in seen(walk.world.upstream.client(walk.direct)).values() {
                match (text, trouble.as_str()) {
                    (Some(_), _) => values += 1,
                    (None, "missing") => missing += 1,
                    (None, _) => errors += 1,
                }
            }
            walk.leave();
        }
        assert!(values > 100 && missing > 100, "{variant:?}: {values} values, {missing} missing");
        assert!(errors > 100 || variant == Variant::StateOfTheWorld, "{errors} errors");
    }
    println!("covers: IL6 M250");
}
