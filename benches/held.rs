//! Memory of a management server for its clients, in allocated bytes.
//!
//! No times are measured, so there are no statistics: each number is one difference of a counter.

use peak_alloc::PeakAlloc;
use xds_benches::{
    endpoints, frames,
    ratio::{is_test_run, print_ratio},
    served::{FanOut, Served},
};
use xds_core::{
    server::{MakeBeforeBreakPolicy, OrderingPolicy},
    service::Variant,
    types,
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const STREAM: usize = 1 << 10;
const SUBSCRIPTION: usize = 256;
const NAMES: usize = 100;

fn main() {
    let (clients, resources) = if is_test_run() { (100, 1_000) } else { (10_000, 10_000) };
    println!("{clients} clients of {resources} resources");

    for (variant, name) in
        [(Variant::Incremental, "incremental"), (Variant::StateOfTheWorld, "state of the world")]
    {
        let plain = OrderingPolicy::default();
        let one = idle(&plain, variant, clients, resources, &[types::CLUSTER_LOAD_ASSIGNMENT]);
        let four = idle(&plain, variant, clients, resources, &TYPES);
        println!("{name}, idle: {one} bytes with one subscription, {four} with four");
        let aim = |subscriptions: usize| STREAM + subscriptions * SUBSCRIPTION;
        print_per(&format!("{name}, one wildcard"), one, "its share", aim(1), Some(1.0));
        print_per(&format!("{name}, four wildcards"), four, "its share", aim(4), Some(1.0));
        let more = (four - one) / (TYPES.len() - 1);
        print_per(&format!("{name}, a wildcard more"), more, "its share", SUBSCRIPTION, None);
        let gated = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
        let gated = idle(&gated, variant, clients, resources, &TYPES);
        print_per(&format!("{name}, make before break"), gated, "without", four, Some(1.1));
    }

    let clients = clients / 10;
    let mut served = server(Variant::Incremental, resources);
    let before = ALLOCATOR.current_usage();
    for client in 0..clients {
        let names: Vec<_> =
            (0..NAMES).map(|n| frames::name((client * NAMES + n) * 7_919 % resources)).collect();
        served.connect(&names);
        served.settle(None);
    }
    let named = (ALLOCATOR.current_usage() - before) / clients;
    println!("\n{NAMES} names: {named} bytes, {} for each name", named / NAMES);
    drop(served);

    let mut served = server(Variant::Incremental, resources);
    for _ in 0..clients {
        served.connect(&["*".into()]);
    }
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let sent = served.settle(None);
    let peak = ALLOCATOR.peak_usage() - before;
    let one = sent.bytes / clients;
    print_per(&format!("peak, first load of {clients}"), peak, "the bytes of one", one, None);
    drop(served);

    let mut served = server(Variant::Incremental, 0);
    let before = ALLOCATOR.current_usage();
    served.change((0..resources).map(|n| (frames::name(n), endpoints::encoded(n, 1))));
    let held = ALLOCATOR.current_usage() - before;
    let payload: usize = (0..resources).map(|n| endpoints::encoded(n, 1).len()).sum();
    println!("\na resource: {} bytes, {} of them its own", held / resources, payload / resources);
    print_per("resources", held, "their own bytes", payload, None);
}

const TYPES: [&str; 4] =
    [types::CLUSTER_LOAD_ASSIGNMENT, types::CLUSTER, types::LISTENER, types::ROUTE_CONFIGURATION];

/// Returns the bytes per idle client that subscribes to everything of these types and has ACKed it.
fn idle(
    ordering: &OrderingPolicy,
    variant: Variant,
    clients: usize,
    resources: usize,
    types: &[&'static str],
) -> usize {
    let mut served = ordered_server(ordering.clone(), variant, resources);
    // Allocates everything that all clients share, and the capacity of tables.
    let first = served.connect(&["*".into()]);
    types.iter().skip(1).for_each(|it| served.subscribe(first, it));
    served.settle(None);
    let before = ALLOCATOR.current_usage();
    for _ in 0..clients {
        let stream = served.connect(&["*".into()]);
        types.iter().skip(1).for_each(|it| served.subscribe(stream, it));
        let sent: FanOut = served.settle(None);
        assert_eq!(sent.resources, resources);
    }
    (ALLOCATOR.current_usage() - before) / clients
}

fn server(variant: Variant, resources: usize) -> Served {
    ordered_server(OrderingPolicy::default(), variant, resources)
}

fn ordered_server(ordering: OrderingPolicy, variant: Variant, resources: usize) -> Served {
    let all = (0..resources).map(|n| (frames::name(n), endpoints::encoded(n, 1)));
    Served::ordered(ordering, variant, types::CLUSTER_LOAD_ASSIGNMENT, all)
}

fn print_per(work: &str, bytes: usize, baseline: &str, of: usize, aim: Option<f64>) {
    print_ratio(work, baseline, bytes as f64 / of as f64, aim);
}
