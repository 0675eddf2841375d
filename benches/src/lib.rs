//! What the benchmarks share: the frames they work on, and ratios instead of bare times.
//!
//! Absolute times on a shared machine are noise. Every benchmark therefore measures its baselines in
//! the same run and prints how many times as long the work took.

pub mod decoded;
pub mod endpoints;
pub mod frames;
pub mod ratio;
pub mod subscribed;
