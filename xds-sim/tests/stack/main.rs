//! The shipping drivers on a stage.

#![cfg(feature = "stack")]

mod apps;
mod determinism;
mod faults;
mod pair;
mod storms;
