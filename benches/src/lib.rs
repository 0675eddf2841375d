//! What the benchmarks share: the frames they work on, and ratios instead of bare times.
//!
//! Absolute times on a shared machine are noise. Every benchmark therefore measures its baselines in
//! the same run, counts what its own thread works, and prints how many times as long the work took.

pub mod decoded;
pub mod endpoints;
pub mod frames;
pub mod naive;
pub mod ratio;
pub mod served;
pub mod stopwatch;
pub mod subscribed;
