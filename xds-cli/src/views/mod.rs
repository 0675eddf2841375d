//! Views of clients: rules that select the view of a client by its node, and views that are based on
//! others. They come from a file.
//!
//! | file | contents |
//! |---|---|
//! | `rules.rs` | the rules, and the view that they select |
//! | `file.rs` | parsing of the file |
//! | `findings.rs` | rules and views without effect |
//!
//! This module does no I/O, except for reading the file.

mod file;
mod findings;
mod rules;

pub(crate) use self::{
    file::read,
    rules::{Bases, Views},
};
