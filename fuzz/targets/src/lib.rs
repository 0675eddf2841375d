//! What the fuzzers do with their bytes: one function for each, which panics if a rule is broken.
//!
//! `fuzz/` hands them to libFuzzer; a plain `cargo test` replays the corpora, so that whatever a fuzzer
//! has found stays found. What holds for all of them: no input panics, and none makes a run without end.

mod bootstrap;
mod client;
mod formats;
mod frames;
mod names;
mod references;
mod rest;
mod server;
mod world;

pub use bootstrap::bootstrap;
pub use client::{delta_response, discovery_response};
pub use formats::{binary, json, text, yaml};
pub use frames::frames;
pub use names::names;
pub use references::references;
pub use rest::{rest_request, rest_response};
pub use server::{delta_request, discovery_request};
pub use world::world;

/// A target: its name, which is that of its corpus and of its fuzzer, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 15] = [
    ("binary", binary),
    ("bootstrap", bootstrap),
    ("delta_request", delta_request),
    ("delta_response", delta_response),
    ("discovery_request", discovery_request),
    ("discovery_response", discovery_response),
    ("frames", frames),
    ("json", json),
    ("names", names),
    ("references", references),
    ("rest_request", rest_request),
    ("rest_response", rest_response),
    ("text", text),
    ("world", world),
    ("yaml", yaml),
];
