//! The shipping drivers on a stage.

#![cfg(feature = "stack")]

mod apps;
mod budgets;
mod determinism;
mod faults;
mod names;
mod pair;
mod raw;
mod storms;
mod unread;
