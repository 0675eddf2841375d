//! Tests that need more than one crate:
//!
//! - `scripts.rs` runs the protocol scripts in `scripts/`.
//! - `calls.rs` tests calls between outputs, which a script cannot express.
//! - The programs in the README are documentation tests of this crate.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
