//! One scenario in both protocol variants, and with drivers that are late or not: at rest, the
//! participants have the same state.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use xds_core::{
    StatusCode, TypeUrl, WatchId,
    client::{Change, DataErrorPolicy, Notice, ResourceState},
    service::Variant,
};
use xds_sim::{
    Application, Config, Options, World, run_seed,
    storm::settle,
    world::{Party, Reach},
};

const SEEDS: u64 = 150;

/// Number of times that the world comes to rest, and number of operations before each.
const RESTS: u32 = 4;
const OPERATIONS: u32 = 8;

/// Longer than any backoff, a does-not-exist timeout and messages in flight.
const REST: Duration = Duration::from_secs(90);

/// State of a resource at a watcher: the value in use, and the error.
#[derive(Clone, Debug, Default, PartialEq)]
struct Belief {
    value: Option<Bytes>,
    error: Option<StatusCode>,
}

type Beliefs = BTreeMap<WatchId, BTreeMap<String, Belief>>;

/// Records the notices of each watch.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Beliefs>>);

impl Listener {
    fn change<T>(&self, change: impl FnOnce(&mut Beliefs) -> T) -> T {
        change(&mut self.0.lock().expect("nobody panics with it"))
    }
}

impl Application for Listener {
    fn notified(&mut self, watch: WatchId, _: &TypeUrl, name: Option<&str>, notice: &Notice) {
        let Some(name) = name else { return };
        self.change(|beliefs| {
            let belief = beliefs.entry(watch).or_default().entry(name.into()).or_default();
            match notice {
                Notice::Changed(Ok(resource)) => {
                    *belief = Belief { value: Some(resource.bytes.clone()), error: None };
                }
                Notice::Changed(Err(error)) => {
                    *belief = Belief { value: None, error: Some(error.kind().code()) };
                }
                Notice::Ambient(error) => {
                    belief.error = error.as_ref().map(|error| error.kind().code());
                }
                _ => {}
            }
        });
    }

    fn changed(&mut self, watch: WatchId, _: &TypeUrl, change: &Change) {
        self.change(|beliefs| {
            let beliefs = beliefs.entry(watch).or_default();
            match change {
                Change::Resource { name, result: Ok(resource) } => {
                    let value = Some(resource.bytes.clone());
                    beliefs.insert(name.as_str().into(), Belief { value, error: None });
                }
                Change::Resource { name, result: Err(_) } => drop(beliefs.remove(name.as_str())),
                Change::Ambient { name, error } => {
                    let belief = beliefs.entry(name.as_str().into()).or_default();
                    belief.error = error.as_ref().map(|error| error.kind().code());
                }
                Change::Resync => beliefs.clear(),
                _ => {}
            }
        });
    }

    fn restarted(&mut self) {
        self.change(Beliefs::clear);
    }

    fn unwatched(&mut self, watch: WatchId) {
        self.change(|beliefs| beliefs.remove(&watch));
    }
}

/// State of all participants at rest.
#[derive(Clone, Debug, Default, PartialEq)]
struct AtRest {
    /// State of the client by type and name: its entry state, and the value in use.
    has: BTreeMap<(String, String), (ResourceState, Option<Bytes>)>,
    told: Beliefs,
}

impl AtRest {
    fn of(world: &World, listener: &Listener) -> Self {
        let has = world.client(0).status().map(|it| {
            let key = (it.type_url.as_str().to_owned(), it.name.as_str().to_owned());
            (key, (it.state, it.bytes.cloned()))
        });
        Self { has: has.collect(), told: listener.change(|beliefs| beliefs.clone()) }
    }
}

/// Clusters, endpoints and listeners. The state of the world cannot report deleted endpoints.
const TYPES: u32 = 3;
const ENDPOINTS: usize = 1;

/// Performs an operation or a fault.
fn operate(world: &mut World) {
    let kind = world.choices().below("type", TYPES) as usize;
    let name = format!("r{}", world.choices().below("name", 3));
    let nth = world.choices().below("which", 8) as usize;
    let watches: Vec<WatchId> = world.watches(0).map(|(watch, _)| watch).collect();
    let watch = watches.get(nth % watches.len().max(1)).copied();
    match world.choices().below("what", 12) {
        0 | 1 => assert!(world.watch(0, kind, Some(&name)).is_some()),
        2 => assert!(world.watch(0, kind, None).is_some()),
        3 => watch.into_iter().for_each(|watch| world.unwatch(0, watch)),
        4 => watch.into_iter().for_each(|watch| world.watch_again(0, watch)),
        5 | 6 if kind != ENDPOINTS => world.delete(kind, &name),
        7 => world.set_new_text(kind, &name, "bad"),
        8 => world.open_links().into_iter().for_each(|link| world.reset(link, 14)),
        9 => match nth {
            0 | 1 => world.restart_server(0),
            2 => world.restart_client(0),
            3 => world.set_reach(0, Reach::Refused, Duration::from_secs(4)),
            _ => world.open_links().into_iter().for_each(|link| world.end_stream(link)),
        },
        _ => world.set_new_text(kind, &name, "good"),
    }
}

/// Returns the states at each rest of a run in which `before` is called before each operation.
fn rests(seed: u64, variant: Variant, before: fn(&mut World)) -> Vec<AtRest> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let listener = Listener::default();
    let heard = listener.clone();
    let scenario = move |world: &mut World| {
        for _ in 0..RESTS {
            for _ in 0..OPERATIONS {
                before(world);
                operate(world);
                let pause = world.choices().below("pause", 4_000);
                world.advance(Duration::from_millis(pause.into()));
            }
            world.heal();
            world.advance(REST);
            kept.lock().expect("nobody panics with it").push(AtRest::of(world, &heard));
        }
        settle(world);
    };
    let config = Config::new(scenario).with_application(move |_| Box::new(listener.clone()));
    let config = config.with_options(move |options| {
        let drawn = options.clone();
        *options = Options::default();
        (options.types, options.variant, options.streams) = (TYPES, variant, drawn.streams);
        options.flow_control = drawn.flow_control;
        // Otherwise the value in use would depend on timing.
        options.data_errors = DataErrorPolicy::DropCached;
        (options.latency, options.ties) = (drawn.latency, drawn.ties);
        // Latency draws would change the later choices.
        options.jitter = Duration::ZERO;
    });
    let outcome = run_seed(seed, &config);
    if let Some(failure) = outcome.violation {
        panic!("seed {seed}: {}", failure.to_text(None));
    }
    std::mem::take(&mut *seen.lock().expect("nobody panics with it"))
}

/// Returns the state of a watch without the kind of its error, because silence may be the only sign
/// that a resource does not exist.
fn alike(told: &Beliefs, watch: WatchId) -> Option<BTreeMap<String, Belief>> {
    let mut told = told.get(&watch)?.clone();
    for belief in told.values_mut() {
        if belief.value.is_none() {
            belief.error = belief.error.map(|_| StatusCode::Unknown);
        }
    }
    Some(told)
}

fn ensure_equal(seed: u64, one: &[AtRest], other: &[AtRest]) {
    assert_eq!((one.len(), other.len()), (RESTS as usize, RESTS as usize), "seed {seed}");
    for (at, (one, other)) in one.iter().zip(other).enumerate() {
        for key in one.has.keys().chain(other.has.keys()) {
            let (one, other) = (one.has.get(key), other.has.get(key));
            assert_eq!(one, other, "seed {seed}, rest {at}: {key:?}");
        }
        for watch in one.told.keys().chain(other.told.keys()) {
            let (one, other) = (alike(&one.told, *watch), alike(&other.told, *watch));
            assert_eq!(one, other, "seed {seed}, rest {at}: {watch}");
        }
    }
}

#[test]
fn sotw_and_delta_converge_to_the_same_state() {
    let (mut deleted, mut rejected) = (0, 0);
    for seed in 0..SEEDS {
        let whole = rests(seed, Variant::StateOfTheWorld, |_| {});
        let incremental = rests(seed, Variant::Incremental, |_| {});
        ensure_equal(seed, &whole, &incremental);
        let states = whole.iter().flat_map(|rest| rest.has.values().map(|(state, _)| *state));
        let states: Vec<ResourceState> = states.collect();
        deleted += states.iter().filter(|state| **state == ResourceState::DoesNotExist).count();
        rejected += states.iter().filter(|state| **state == ResourceState::Nacked).count();
    }
    assert!(deleted > 0 && rejected > 0, "{deleted} were missing and {rejected} rejected");
    println!("covers: IL4");
}

#[test]
fn late_drains_converge_to_the_same_state() {
    for seed in 0..SEEDS {
        for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
            let at_once = rests(seed, variant, |_| {});
            let late = rests(seed, variant, |world| {
                world.suspend(Party::Client(0), Duration::from_millis(2_500));
                world.suspend(Party::Server(0), Duration::from_millis(1_500));
            });
            ensure_equal(seed, &at_once, &late);
        }
    }
}
