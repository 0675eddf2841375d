//! The management server compared with go-control-plane: repeats the measurements of `peers/go`.
//!
//! Both sides count the time that their processors work, on all threads in Go, so the garbage
//! collector is included. `peers/run` runs both, one after the other, and passes the measurements
//! of go-control-plane to this program. Without them it only prints that there is nothing to
//! compare with.

use std::{
    env, fs,
    time::{Duration, Instant},
};

use peak_alloc::PeakAlloc;
use xds_benches::{endpoints, frames, ratio::is_test_run, served::Served};
use xds_core::{service::Variant, types};

// Counts every allocation, so times are too high rather than too low.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Variable set by `peers/run`: the file with the measurements of go-control-plane.
const MEASURED: &str = "XDS_BENCH_GO_CONTROL_PLANE";

const LEAST_ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 1_000;
/// Time for which a cell is measured, unless it has had too few rounds.
const ENOUGH: Duration = Duration::from_millis(500);
/// Number of names that a client subscribes to by name.
const NAMES: usize = 100;
/// Step between names, coprime to all sizes, so that names are spread over all resources.
const STEP: usize = 7_919;

fn main() {
    let Some(file) = env::var_os(MEASURED) else {
        if is_test_run() {
            let smallest = Cell { wants: Wants::Everything, resources: 1_000, clients: 100 };
            smallest.measure();
        }
        println!("skip: no measurements of go-control-plane: run benches/peers/run");
        return;
    };
    let measured = fs::read_to_string(file).expect("the file that peers/run wrote");
    let theirs: Vec<Measurement> = measured.lines().map(Measurement::read).collect();
    println!(
        "{:<9}{:<10}{:>9}{:>8}  {:<8}{:>14}{:>14}{:>9}",
        "cache", "client", "resources", "clients", "part", "theirs", "ours", "times"
    );
    let mut last: Option<(Cell, Measured)> = None;
    for it in theirs {
        let ours = match last {
            Some((cell, ours)) if cell == it.cell => ours,
            _ => it.cell.measure(),
        };
        last = Some((it.cell, ours));
        let ours = match it.part.as_str() {
            "change" => ours.change.as_nanos() as f64,
            "ACKs" => ours.acks.as_nanos() as f64,
            _ => ours.heap as f64,
        };
        let print = |value: f64| match it.part.as_str() {
            "heap" => format!("{value:.0} B"),
            _ => format!("{:.3} ms", value / 1e6),
        };
        println!(
            "{:<9}{:<10}{:>9}{:>8}  {:<8}{:>14}{:>14}{:>9.0}",
            it.cache,
            it.cell.wants.name(),
            it.cell.resources,
            it.cell.clients,
            it.part,
            print(it.value),
            print(ours),
            it.value / ours,
        );
    }
}

/// Measurement of go-control-plane.
struct Measurement {
    cache: String,
    cell: Cell,
    part: String,
    value: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Cell {
    wants: Wants,
    resources: usize,
    clients: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Everything,
    Names,
}

/// Costs of a cell, as the mean of all rounds.
#[derive(Clone, Copy)]
struct Measured {
    /// Time from the new resource to the responses for all clients.
    change: Duration,
    /// Time in which the encoded ACKs of all clients are processed.
    acks: Duration,
    /// Heap memory per client, in bytes.
    heap: usize,
}

impl Measurement {
    fn read(line: &str) -> Self {
        let fields: Vec<_> = line.split('\t').collect();
        let [cache, wants, resources, clients, part, value] = fields[..] else {
            panic!("not a measurement: {line:?}")
        };
        let number = |text: &str| text.parse().expect("a number");
        let wants = if wants == "named" { Wants::Names } else { Wants::Everything };
        Self {
            cache: cache.to_owned(),
            cell: Cell { wants, resources: number(resources), clients: number(clients) },
            part: part.to_owned(),
            value: value.parse().expect("a number"),
        }
    }
}

impl Wants {
    fn name(self) -> &'static str {
        match self {
            Self::Everything => "wildcard",
            Self::Names => "named",
        }
    }
}

impl Cell {
    fn measure(self) -> Measured {
        let resource = |index, version| (frames::name(index), endpoints::encoded(index, version));
        let all = (0..self.resources).map(|index| resource(index, 1));
        let mut served = Served::new(Variant::Incremental, types::CLUSTER_LOAD_ASSIGNMENT, all);
        let before = ALLOCATOR.current_usage();
        for client in 0..self.clients {
            served.connect(&self.names_of(client));
        }
        served.settle(None);
        let heap = (ALLOCATOR.current_usage() - before) / self.clients;

        let (mut changes, mut acks) = (Vec::new(), Vec::new());
        let started = Instant::now();
        let mut version = 1;
        while changes.len() < LEAST_ROUNDS
            || changes.len() < MOST_ROUNDS && started.elapsed() < ENOUGH
        {
            version += 1;
            let change = served.transaction([resource(0, version)].into_iter());
            let ([applied, fanned_out, answered], sent) = served.round(change, None);
            assert_eq!((sent.responses, sent.resources), (self.clients, self.clients));
            changes.push(applied + fanned_out);
            acks.push(answered);
        }
        Measured { change: mean(&changes), acks: mean(&acks), heap }
    }

    fn names_of(self, client: usize) -> Vec<String> {
        match self.wants {
            Wants::Everything => vec!["*".into()],
            Wants::Names => {
                let others = (1..NAMES).map(|n| (client * NAMES + n) * STEP % self.resources);
                core::iter::once(0).chain(others).map(frames::name).collect()
            }
        }
    }
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / u32::try_from(times.len()).expect("few rounds")
}
