//! Shared code of the benchmarks: frames to work on, and ratios instead of absolute times.
//!
//! Absolute times on a shared machine are noise. Every benchmark therefore measures its
//! baselines in the same run, counts only the time that its own thread works, and prints the
//! ratio to a baseline.

pub mod decoded;
pub mod endpoints;
pub mod frames;
pub mod naive;
pub mod ratio;
pub mod served;
pub mod stopwatch;
pub mod subscribed;
