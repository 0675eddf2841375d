//! Candidates for the state that a management server keeps of what its clients have ACKed, which
//! `docs/design/acknowledged-state.md` compares: memory, and the time of a change, an ACK and a
//! question.
//!
//! | scenario | clients |
//! |---|---|
//! | off | none; the server keeps no state of them |
//! | on | all ACK every change |
//! | one stuck | one more has ACKed nothing since an hour of ten changes a second began |
//! | one stuck, few change | the same, and the changes concern a hundred resources |
//! | all stuck | each has stopped to ACK at another time within this hour |
//!
//! One change in ten removes a resource, and a change of a removed one sets it. Memory is what was allocated since
//! the store had its resources, with the bytes of resources.

mod candidate;
mod horizon;
mod intervals;
mod maps;
mod snapshots;
mod tree;

use std::{hint::black_box, time::Duration};

use peak_alloc::PeakAlloc;
use xds_benches::{ratio::is_test_run, stopwatch::Stopwatch};

use self::candidate::{Candidate, Payload, Version};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const RESOURCES: [u32; 3] = [1_000, 10_000, 100_000];
const HOUR: u32 = 36_000;
/// Number of resources that change if few do.
const FEW: u32 = 100;
const QUESTIONS: u32 = 100_000;

fn main() {
    let (resources, size) = match is_test_run() {
        true => (&RESOURCES[..1], Size { clients: 10, changes: 200 }),
        false => (&RESOURCES[..], Size { clients: 1_000, changes: HOUR }),
    };
    println!("W = {}, {} changes; times of one in ns", size.clients, size.changes);
    println!(
        "A past version has {} bytes and {} of content.\n",
        size_of::<Version>(),
        candidate::BYTES
    );
    println!(
        "| store | R | clients | memory | change | ACK | longest end | has, stuck | has, newest |"
    );
    println!("|---|---:|---|---:|---:|---:|---:|---:|---:|");
    for &resources in resources {
        measure::<intervals::Intervals>(resources, size);
        measure::<horizon::Horizon>(resources, size);
        measure::<tree::Tree>(resources, size);
        // More clients would exceed the memory of a small machine.
        measure::<maps::Maps>(resources, Size { clients: size.clients / 100, ..size });
    }
}

#[derive(Clone, Copy)]
struct Size {
    clients: usize,
    changes: u32,
}

/// Clients that do not ACK all changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stuck {
    None,
    One,
    All,
}

fn measure<C: Candidate>(resources: u32, size: Size) {
    let before = ALLOCATOR.current_usage();
    let store = C::new(resources);
    let held = (ALLOCATOR.current_usage() - before) / resources as usize;
    println!("| {} | {resources} | store | {held} B a resource | | | | | |", C::NAME);
    drop(store);
    let off = Size { clients: 0, ..size };
    run::<C>("off", resources, off, Stuck::None, resources);
    run::<C>("on", resources, size, Stuck::None, resources);
    run::<C>("one stuck", resources, size, Stuck::One, resources);
    run::<C>("one stuck, few change", resources, size, Stuck::One, FEW);
    run::<C>("all stuck", resources, size, Stuck::All, resources);
}

fn run<C: Candidate>(what: &str, resources: u32, size: Size, stuck: Stuck, changing: u32) {
    let mut store = C::new(resources);
    let before = ALLOCATOR.current_usage();
    let mut clients: Vec<C::Acked> = (0..size.clients).map(|_| store.open()).collect();
    let slow = (stuck == Stuck::One).then(|| store.open());
    let mut numbers = Numbers(1);
    let mut exists = vec![true; resources as usize];
    let (mut change_time, mut ack_time, mut acks) = (Duration::ZERO, Duration::ZERO, 0);
    let mut stopped = 0;
    for change in 0..size.changes {
        let resource = numbers.below(changing);
        let is_set = &mut exists[resource as usize];
        *is_set = !*is_set || numbers.below(10) > 0;
        let payload = is_set.then(|| Payload::new(u64::from(change) << 32));
        let started = Stopwatch::start();
        store.change(resource, payload);
        change_time += started.elapsed();
        if stuck == Stuck::All {
            stopped = size.clients * change as usize / size.changes as usize;
        }
        let started = Stopwatch::start();
        for client in &mut clients[stopped..] {
            store.ack(client, &[resource]);
            acks += 1;
        }
        ack_time += started.elapsed();
    }
    // The table of existing resources is not part of the store.
    let memory = ALLOCATOR.current_usage().saturating_sub(before + exists.capacity());
    let ask = |client: Option<&C::Acked>, numbers: &mut Numbers| {
        let client = client?;
        let started = Stopwatch::start();
        for _ in 0..QUESTIONS {
            black_box(store.has(client, numbers.below(changing)).map(|(_, it)| it.content()));
        }
        Some(started.elapsed())
    };
    let stuck_time = ask(slow.as_ref().or_else(|| clients.first()), &mut numbers);
    let newest_time = ask(clients.last(), &mut numbers);
    let each = |time: Option<Duration>, count: u32| match time {
        Some(time) if count > 0 => {
            format!("{:.0}", time.as_secs_f64() * 1e9 / f64::from(count))
        }
        _ => "-".to_owned(),
    };
    // The newest first, so that the state of each is compared with those of all others.
    let ends = clients.into_iter().rev().chain(slow).map(|client| {
        let started = Stopwatch::start();
        store.close(client);
        started.elapsed()
    });
    let longest = ends.max();
    println!(
        "| {} | {resources} | {what}{} | {} KiB | {} | {} | {} | {} | {} |",
        C::NAME,
        if size.clients == 0 { String::new() } else { format!(", W={}", size.clients) },
        memory >> 10,
        each(Some(change_time), size.changes),
        each(Some(ack_time), acks),
        each(longest, 1),
        each(stuck_time, QUESTIONS),
        each(newest_time, QUESTIONS),
    );
}

/// Pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}
