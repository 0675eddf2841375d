//! Deterministic simulation of xDS in virtual time.
//!
//! [`script`] runs protocol scenarios written as text, whose printed answers are the expectation, on a
//! [`Pair`](script::pair::Pair): one client, one server and the link between them. Nothing in it waits:
//! time jumps from one thing that is due to the next, so a run is over in microseconds and is the same
//! every time.

pub mod script;
pub mod status_text;
mod toy;
pub mod trace;
pub mod wire_text;

pub use toy::{Toy, ToyType};
