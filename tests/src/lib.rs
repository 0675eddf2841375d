//! Tests that need more than one crate. There is nothing here but the tests themselves:
//!
//! - `scripts.rs` carries out the protocol scripts in `scripts/`.
