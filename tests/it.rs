//! Tests of several crates together, in one binary because that builds faster. Tests of the client core alone are in `calls`,
//! which builds without the adapters (`cargo xtask mutants`).

mod accepted_versions;
#[path = "interop/harness/test.rs"]
mod harness_adapter;
mod references;
mod relay;
