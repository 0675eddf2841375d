//! Tests that need more than one crate. There is nothing here but the tests themselves:
//!
//! - `scripts.rs` carries out the protocol scripts in `scripts/`.
//! - `calls.rs` is for what depends on calls between outputs, which a script cannot say.
//! - The programs in the README are documentation tests of this crate.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
