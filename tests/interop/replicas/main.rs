//! Many clients of one address, behind which replicas of a management server are, for
//! `tests/interop`. Each client checks that it never sees an older state than before.
//!
//! It reads JSON commands from standard input, one per line, and answers each with an event:
//!
//! ```text
//! {"command": "start", "server": "127.0.0.1:PORT", "clients": N}  -> {"event": "started"}
//! {"command": "restart", "first": I, "every": N}  every N-th client from the I-th on starts as a new
//!     process does, without versions              -> {"event": "restarted", "clients": N}
//! {"command": "report"}                           -> {"event": "report", ...}
//! ```
//!
//! A report has `observations`, `restarts`, `timeouts` (resources that a client without them waited
//! for too long), `violations` (their number), `examples` (the first violations), and `states`, the
//! number of clients for each state that clients have. The program exits at the end of its input.

mod observer;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, stdin},
    select,
    sync::Notify,
};
use xds::{
    Client,
    client::{Event, Profile, Resource, Variant},
    resources::{Cluster, ClusterLoadAssignment, RouteConfiguration},
};

use self::observer::Observer;

/// Largest number of violations that a report describes.
const MOST_EXAMPLES: usize = 20;
/// Route configuration that every client watches.
const ROUTES: &str = "routes";
/// Endpoints that every client watches.
const ENDPOINTS: &str = "tick";

#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Command {
    Start { server: String, clients: usize },
    Restart { first: usize, every: usize },
    Report,
}

/// Client that is observed for as long as the program runs, through all of its restarts.
struct Observed {
    observer: Mutex<Observer>,
    restart: Notify,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    println!("{}", json!({ "event": "ready", "version": env!("CARGO_PKG_VERSION") }));
    let mut clients: Vec<Arc<Observed>> = Vec::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Command::Start { server, clients: count } => {
                for number in clients.len()..clients.len() + count {
                    clients.push(start(&server, number));
                }
                println!("{}", json!({ "event": "started" }));
            }
            Command::Restart { first, every } => {
                let chosen: Vec<_> = clients.iter().skip(first).step_by(every.max(1)).collect();
                chosen.iter().for_each(|client| client.restart.notify_one());
                println!("{}", json!({ "event": "restarted", "clients": chosen.len() }));
            }
            Command::Report => println!("{}", report(&clients)),
        }
    }
    Ok(())
}

/// Starts a client: every other one uses the incremental variant.
fn start(server: &str, number: usize) -> Arc<Observed> {
    let variant = match number % 2 {
        0 => Variant::Incremental,
        _ => Variant::StateOfTheWorld,
    };
    let observer = Mutex::new(Observer::default());
    let observed = Arc::new(Observed { observer, restart: Notify::new() });
    let (server, shared) = (server.to_owned(), Arc::clone(&observed));
    tokio::spawn(async move {
        loop {
            let client = Client::connect(&server)
                .node_id(format!("client-{number}-"))
                .profile(Profile::envoy())
                .variant(variant)
                .start()
                .expect("the address is valid");
            select! {
                () = observe(&client, &shared.observer) => return,
                () = shared.restart.notified() => {}
            }
            client.shut_down();
            lock(&shared.observer).restart();
        }
    });
    observed
}

/// Watches everything until the client ends.
async fn observe(client: &Client, observer: &Mutex<Observer>) {
    let mut clusters = client.watch_all::<Cluster>();
    let mut routes = client.watch::<RouteConfiguration>(ROUTES);
    let mut endpoints = client.watch::<ClusterLoadAssignment>(ENDPOINTS);
    loop {
        let is_open = select! {
            event = clusters.next() => note(observer, "cluster", event),
            event = routes.next() => note(observer, "routes", event),
            event = endpoints.next() => note(observer, "endpoints", event),
        };
        if !is_open {
            return;
        }
    }
}

/// Records an event. Returns `false` at the end of the watch.
fn note<T>(observer: &Mutex<Observer>, kind: &'static str, event: Option<Event<T>>) -> bool {
    let mut observer = lock(observer);
    match event {
        Some(Event::Applied(resource)) => applied(&mut observer, kind, &resource),
        Some(Event::Removed { name, reason }) => {
            observer.removed(kind, name.as_str(), &reason.to_string());
        }
        Some(Event::Synced) if kind == "cluster" => observer.synced(kind),
        Some(_) => {}
        None => return false,
    }
    true
}

fn applied<T>(observer: &mut Observer, kind: &'static str, resource: &Resource<T>) {
    let raw = resource.raw();
    observer.applied(kind, raw.name.as_str(), raw.version.as_str(), &raw.bytes);
}

fn report(clients: &[Arc<Observed>]) -> serde_json::Value {
    let (mut observations, mut restarts, mut timeouts, mut violations) = (0, 0, 0, 0);
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    let mut examples = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let observer = lock(&client.observer);
        observations += observer.observations;
        restarts += observer.restarts;
        timeouts += observer.timeouts;
        violations += observer.violations.len();
        let described = observer.violations.iter().map(|it| format!("client {number}: {it}"));
        examples.extend(described.take(MOST_EXAMPLES - examples.len().min(MOST_EXAMPLES)));
        *states.entry(observer.state()).or_default() += 1;
    }
    json!({
        "event": "report",
        "observations": observations,
        "restarts": restarts,
        "timeouts": timeouts,
        "violations": violations,
        "examples": examples,
        "states": states,
    })
}

fn lock(observer: &Mutex<Observer>) -> std::sync::MutexGuard<'_, Observer> {
    observer.lock().unwrap_or_else(PoisonError::into_inner)
}
