//! Memory of a management server for idle clients over gRPC, in allocated bytes: core, adapter and
//! HTTP/2. The baseline is bare tonic that only holds a stream.
//!
//! The clients are another process of this program, so their memory is not counted. No times are
//! measured, so there are no statistics: each number is one difference of a counter.

mod fleets;
mod wire;

use std::{
    env,
    io::{BufRead as _, Write as _, stdin},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use peak_alloc::PeakAlloc;
use prost::Message as _;
use tokio::task::JoinSet;
use xds_benches::ratio::{is_test_run, print_ratio};

use self::{
    fleets::{Answer, Bare, CONNECTIONS, Ours, connect, subscription},
    wire::{DELTA_AGGREGATED, FrameClient},
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Maximum memory of an idle client with one subscription in the core, in bytes.
const OF_THE_CORE: usize = (1 << 10) + 256;
const RESOURCES: usize = 10;
/// Variable that makes this program the clients of the server at this address.
const CLIENTS_OF: &str = "XDS_BENCH_CLIENTS_OF";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a machine with sockets");
    if let Ok(server) = env::var(CLIENTS_OF) {
        let server = server.parse().expect("an address and a greeting");
        return runtime.block_on(run_clients(server));
    }
    let clients = if is_test_run() { 64 } else { 1_008 };
    println!("{clients} streams over {CONNECTIONS} connections, {RESOURCES} resources");
    let ours = runtime.block_on(async {
        let ours = Ours::start(RESOURCES).await;
        let mut others = Clients::of(ours.address);
        let mut acks = 0;
        measure(clients, async |what, more| {
            others.open(what, more);
            acks += more as u64;
            ours.until(|stats| stats.acks >= acks).await;
        })
        .await
    });
    let bare = runtime.block_on(async {
        let mut bare = Bare::start().await;
        let mut others = Clients::of(bare.address);
        measure(clients, async |what, more| {
            others.open(what, more);
            bare.take_streams(more).await;
        })
        .await
    });
    println!("\nours: {} bytes a stream, {} a connection with one", ours.stream, ours.connection);
    println!(
        "bare tonic: {} bytes a stream, {} a connection with one",
        bare.stream, bare.connection
    );
    let of = |bytes: usize, baseline: usize| bytes as f64 / baseline as f64;
    print_ratio("an idle stream", "that of bare tonic", of(ours.stream, bare.stream), None);
    let all = "an idle stream, adapter and HTTP/2 included";
    print_ratio(all, "what the core may take of it", of(ours.stream, OF_THE_CORE), None);
    let connection = of(ours.connection, bare.connection);
    print_ratio("a connection with a stream", "that of bare tonic", connection, None);
}

struct Held {
    /// Bytes per stream on an existing connection.
    stream: usize,
    /// Bytes per connection with its first stream.
    connection: usize,
}

/// Measures the memory for each of `clients` that `open` adds.
async fn measure(clients: usize, mut open: impl AsyncFnMut(Open, usize)) -> Held {
    // Allocates everything that is allocated once.
    open(Open::Connections, CONNECTIONS).await;
    settle().await;
    let before = ALLOCATOR.current_usage();
    open(Open::Connections, CONNECTIONS).await;
    settle().await;
    let connection = (ALLOCATOR.current_usage() - before) / CONNECTIONS;
    let before = ALLOCATOR.current_usage();
    open(Open::Streams, clients).await;
    settle().await;
    Held { stream: (ALLOCATOR.current_usage() - before) / clients, connection }
}

/// Waits until server and clients are idle.
async fn settle() {
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kind of clients to add.
#[derive(Clone, Copy)]
enum Open {
    /// Connections with one stream each.
    Connections,
    /// Streams on the existing connections.
    Streams,
}

/// Process with the clients. It exits when its input ends.
struct Clients(Child);

impl Clients {
    fn of(server: SocketAddr) -> Self {
        let program = env::current_exe().expect("this program");
        let child = Command::new(program)
            .env(CLIENTS_OF, server.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("this program again"))
    }

    fn open(&mut self, what: Open, count: usize) {
        let what = match what {
            Open::Connections => "connections",
            Open::Streams => "streams",
        };
        let input = self.0.stdin.as_mut().expect("a pipe");
        writeln!(input, "{what} {count}").expect("it reads");
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends");
    }
}

/// Runs the clients as the parent process commands, until its input ends.
///
/// Clients of bare tonic are sent no response, and wait like clients that have one.
async fn run_clients(server: SocketAddr) {
    let (sender, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|line| sender.send(line).expect("somebody obeys"));
    });
    let (mut channels, mut clients) = (Vec::new(), JoinSet::new());
    while let Some(order) = orders.recv().await {
        let (what, count) = order.split_once(' ').expect("two words");
        let count: usize = count.parse().expect("a number");
        if what == "connections" {
            channels = connect(server, count).await;
        }
        for client in 0..count {
            let channel = channels[client % channels.len()].clone();
            let first = subscription(client).encode_to_vec().into();
            clients.spawn(async move {
                let mut client = FrameClient::call(channel, DELTA_AGGREGATED, first).await;
                loop {
                    client.answer(&Answer::Ack).await;
                }
            });
        }
    }
    clients.shutdown().await;
}
