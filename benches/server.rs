//! The management server's hot path: a resource changes, and all clients are sent the change.
//!
//! A round has three parts: applying the change, rendering the due responses of all clients, and
//! processing their ACKs. Each is measured for R resources and W incremental clients, which
//! subscribe to everything or to a hundred names each.
//!
//! Baselines in the same run: copying the sent bytes for each client; and the common design of a
//! server that keeps a map of versions for each client and compares it with all resources.

use std::{cell::RefCell, hint::black_box, time::Duration};

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use xds_benches::{
    endpoints, frames,
    naive::Naive,
    ratio::{Ratios, is_test_run, print_ratio},
    served::{FanOut, Served},
};
use xds_core::{service::Variant, types};

const RESOURCES: [usize; 3] = [1_000, 10_000, 100_000];
const CLIENTS: [usize; 3] = [100, 1_000, 10_000];
/// Number of names that a client subscribes to by name.
const NAMES: usize = 100;
/// Number of clients of the server with maps; a thousand would exceed the memory of
/// a small machine.
const NAIVE_CLIENTS: usize = 10;
/// Step between names, coprime to all sizes, so that all resources are reached.
const STEP: usize = 7_919;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .without_plots()
        .configure_from_args();
    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("server");
    let cells: Vec<(usize, usize)> = match is_test_run() {
        true => vec![(1_000, 100)],
        false => RESOURCES.into_iter().flat_map(|r| CLIENTS.map(|w| (r, w))).collect(),
    };
    let mut sent = 0;
    for &(resources, clients) in &cells {
        let names = |client: usize| names_of(client, resources);
        sent = measure_rounds(&mut ratios, &mut group, Wants::Everything, resources, clients);
        measure_rounds(&mut ratios, &mut group, Wants::Names(&names), resources, clients);
    }
    // A hundred of very many clients subscribe to the resource that changes. The others
    // must cost nothing.
    for &clients in CLIENTS.iter().filter(|&&clients| !is_test_run() || clients == 100) {
        let names = |client: usize| match client {
            0..100 => vec![frames::name(0)],
            _ => names_of(client, 10_000).split_off(1),
        };
        measure_rounds(&mut ratios, &mut group, Wants::Few(&names), 10_000, clients);
    }
    for &(resources, _) in cells.iter().filter(|&&(r, w)| w == 100 && r < 100_000) {
        measure_naive(&mut ratios, &mut group, resources);
    }
    measure_churn(&mut ratios, &mut group);
    measure_copies(&mut ratios, &mut group, sent);
    group.finish();
    if !is_test_run() {
        print_table(&ratios);
        print(&ratios);
    }
}

/// Subscriptions of the clients.
#[derive(Clone, Copy)]
enum Wants<'a> {
    Everything,
    /// Names that include the resource that changes.
    Names(&'a dyn Fn(usize) -> Vec<String>),
    /// Names that include the resource that changes only for the first hundred clients.
    Few(&'a dyn Fn(usize) -> Vec<String>),
}

impl Wants<'_> {
    fn cell(self, resources: usize, clients: usize) -> String {
        let what = match self {
            Self::Everything => "wildcard",
            Self::Names(_) => "named",
            Self::Few(_) => "named by few",
        };
        format!("{what}, R={resources}, W={clients}")
    }

    fn subscribers(self, clients: usize) -> usize {
        match self {
            Self::Everything | Self::Names(_) => clients,
            Self::Few(_) => clients.min(100),
        }
    }
}

const PARTS: [&str; 3] = ["update", "fan-out", "ACKs"];

/// Returns the size of a response that one change causes, in bytes.
fn measure_rounds(
    ratios: &mut Ratios,
    group: &mut BenchmarkGroup<'_, WallTime>,
    wants: Wants<'_>,
    resources: usize,
    clients: usize,
) -> usize {
    let mut served = connected(wants, resources, clients);
    let (mut version, mut bytes) = (1, 0);
    ratios.measure_parts(group, &wants.cell(resources, clients), PARTS, || {
        version = next_version(version);
        let change = served.transaction([resource(0, version)].into_iter());
        let (taken, sent) = served.round(change, None);
        assert_eq!(sent.responses, wants.subscribers(clients));
        assert_eq!(sent.resources, sent.responses, "just the one that changed");
        bytes = sent.bytes / sent.responses;
        taken
    });
    bytes
}

/// Creates a server whose clients have all resources of their subscriptions.
fn connected(wants: Wants<'_>, resources: usize, clients: usize) -> Served {
    let all = (0..resources).map(|index| resource(index, 1));
    let mut served = Served::new(Variant::Incremental, types::CLUSTER_LOAD_ASSIGNMENT, all);
    let mut sent = FanOut::default();
    for client in 0..clients {
        match wants {
            Wants::Everything => served.connect(&["*".into()]),
            Wants::Names(names) | Wants::Few(names) => served.connect(&names(client)),
        };
        if client % 1_000 == 999 {
            sent += served.settle(None);
        }
    }
    sent += served.settle(None);
    if matches!(wants, Wants::Everything) {
        assert_eq!(sent.resources, resources * clients, "everybody has everything");
    }
    served
}

/// Returns the resource that changes and ninety-nine others, which differ for each client.
fn names_of(client: usize, resources: usize) -> Vec<String> {
    let others = (1..NAMES).map(|n| (client * NAMES + n) * STEP % resources);
    core::iter::once(0).chain(others).map(frames::name).collect()
}

fn measure_naive(ratios: &mut Ratios, group: &mut BenchmarkGroup<'_, WallTime>, resources: usize) {
    let all = (0..resources).map(|index| resource(index, 1));
    let mut naive = Naive::new(all, NAIVE_CLIENTS);
    let mut version = 1;
    let naive = RefCell::new(&mut naive);
    ratios.measure(
        group,
        &format!("naive, R={resources}"),
        || {
            version = next_version(version);
            let (name, bytes) = resource(0, version);
            naive.borrow_mut().change(name, version.to_string(), bytes);
        },
        |()| {
            let sent = naive.borrow_mut().fan_out();
            assert_eq!(sent.len(), NAIVE_CLIENTS);
            sent
        },
    );
}

/// Changes one percent of all resources per transaction, another percent each time.
fn measure_churn(ratios: &mut Ratios, group: &mut BenchmarkGroup<'_, WallTime>) {
    let (resources, clients) = if is_test_run() { (1_000, 100) } else { (10_000, 1_000) };
    let changed = resources / 100;
    let mut served = connected(Wants::Everything, resources, clients);
    let (mut version, mut at) = (1, 0);
    ratios.measure_parts(group, CHURN, PARTS, || {
        version = next_version(version);
        at += changed;
        let indices = (0..changed).map(|n| (at + n) * STEP % resources);
        let change = served.transaction(indices.map(|index| resource(index, version)));
        let (taken, sent) = served.round(change, None);
        assert_eq!((sent.responses, sent.resources), (clients, clients * changed));
        taken
    });
}

const CHURN: &str = "1 % of R=10000 changed, W=1000";

/// Measures the minimum cost of sending: copying each response to a buffer of the client.
fn measure_copies(ratios: &mut Ratios, group: &mut BenchmarkGroup<'_, WallTime>, bytes: usize) {
    let response = vec![1_u8; bytes];
    let mut buffers = vec![vec![2_u8; bytes]; 1_000];
    ratios.measure(
        group,
        MEMCPY,
        || (),
        |()| {
            for buffer in black_box(&mut buffers) {
                buffer.copy_from_slice(black_box(&response));
            }
        },
    );
}

const MEMCPY: &str = "memcpy of one response each, W=1000";

/// Prints the costs of one change by size, and the cost per client relative to the smallest size.
fn print_table(ratios: &Ratios) {
    println!(
        "\n| clients subscribe to | R | W | update | fan-out | ACKs | a client | of the smallest |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for wants in [Wants::Everything, Wants::Names(&|_| vec![])] {
        let parts = |resources, clients| {
            let cell = wants.cell(resources, clients);
            let [update, fan_out, acks] =
                PARTS.map(|part| ratios.median(&format!("{cell}: {part}")));
            Some([update?, fan_out?, acks?])
        };
        let each = |[_, fan_out, acks]: [f64; 3], clients: usize| (fan_out + acks) / clients as f64;
        let smallest = parts(RESOURCES[0], CLIENTS[0]).map(|it| each(it, CLIENTS[0]));
        for (resources, clients) in RESOURCES.into_iter().flat_map(|r| CLIENTS.map(|w| (r, w))) {
            let Some((times, smallest)) = parts(resources, clients).zip(smallest) else { continue };
            let what = match wants {
                Wants::Everything => "everything".to_owned(),
                Wants::Names(_) | Wants::Few(_) => format!("{NAMES} names"),
            };
            let [update, fan_out, acks] = times.map(|time| format!("{:.1} us", time * 1e6));
            let client = each(times, clients);
            println!(
                "| {what} | {resources} | {clients} | {update} | {fan_out} | {acks} | {:.0} ns | {:.2} |",
                client * 1e9,
                client / smallest,
            );
        }
    }
}

fn print(ratios: &Ratios) {
    let everything = |r, w, part: &str| format!("{}: {part}", Wants::Everything.cell(r, w));
    let named = |r, w, part: &str| format!("{}: {part}", Wants::Names(&|_| vec![]).cell(r, w));
    let few = |w, part: &str| format!("{}: {part}", Wants::Few(&|_| vec![]).cell(10_000, w));

    println!();
    let (fan_out, acks) = (everything(10_000, 1_000, "fan-out"), everything(10_000, 1_000, "ACKs"));
    ratios.print_time(&fan_out, Duration::from_micros(200));
    ratios.print_time(&acks, Duration::from_micros(300));
    ratios.print(&fan_out, MEMCPY, None);
    ratios.print(&acks, MEMCPY, None);

    println!("\none client of a server that keeps a map for each / one of ours");
    for resources in RESOURCES {
        let naive = format!("naive, R={resources}");
        ratios.print_per(
            &naive,
            NAIVE_CLIENTS,
            &everything(resources, 1_000, "fan-out"),
            1_000,
            None,
        );
    }

    println!("\nmore clients: one of W / one of 100");
    for resources in RESOURCES {
        for clients in [1_000, 10_000] {
            for cell in [everything, named] {
                for part in ["fan-out", "ACKs"] {
                    let (work, base) = (cell(resources, clients, part), cell(resources, 100, part));
                    ratios.print_per(&work, clients, &base, 100, None);
                }
            }
        }
    }

    println!("\nmore resources: of R / of 1,000");
    for resources in [10_000, 100_000] {
        for part in PARTS {
            for cell in [everything, named] {
                ratios.print(&cell(resources, 1_000, part), &cell(1_000, 1_000, part), None);
            }
        }
    }

    println!("\nwho did not ask for it: a hundred of W / a hundred of a hundred");
    for clients in [1_000, 10_000] {
        for part in PARTS {
            ratios.print(&few(clients, part), &few(100, part), None);
        }
    }

    println!("\na hundred changes in one go: each of them / the only one");
    for part in PARTS {
        ratios.print_per(
            &format!("{CHURN}: {part}"),
            100,
            &everything(10_000, 1_000, part),
            1,
            None,
        );
    }
    let update = everything(10_000, 1_000, "update");
    if let Some((update, fan_out)) = ratios.median(&update).zip(ratios.median(&fan_out)) {
        print_ratio("update", "fan-out, R=10000, W=1000", update / fan_out, None);
    }
}

fn resource(index: usize, version: u16) -> (String, Bytes) {
    (frames::name(index), endpoints::encoded(index, version))
}

fn next_version(version: u16) -> u16 {
    // Never version 1, which every resource had at first.
    version.checked_add(1).unwrap_or(2)
}
