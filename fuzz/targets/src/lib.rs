//! Fuzz targets: one function each, which panics if a rule is broken.
//!
//! `fuzz/` passes them to libFuzzer. A plain `cargo test` replays the corpora, so that
//! every input that a fuzzer found stays tested. For all targets, no input may cause a
//! panic or an endless loop.

mod bootstrap;
mod client;
mod formats;
mod frames;
mod names;
mod references;
mod rest;
mod server;
mod stack;
mod world;

pub use bootstrap::bootstrap;
pub use client::{delta_response, discovery_response};
pub use formats::{binary, json, text, yaml};
pub use frames::frames;
pub use names::names;
pub use references::references;
pub use rest::{rest_request, rest_response};
pub use server::{delta_request, discovery_request};
pub use stack::stack;
pub use world::world;

/// Target: the name of its corpus and fuzzer, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 16] = [
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
    ("stack", stack),
    ("text", text),
    ("world", world),
    ("yaml", yaml),
];
