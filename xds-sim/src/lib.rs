//! Deterministic simulation of xDS in virtual time.
//!
//! [`script`] runs protocol scenarios written as text, whose printed answers are the expectation, on a
//! [`Pair`](script::pair::Pair): one client, one server and the link between them. Nothing in it waits:
//! time jumps from one thing that is due to the next, so a run is over in microseconds and is the same
//! every time.

pub mod check;
pub mod options;
pub mod oracle;
pub mod script;
pub mod shrink;
pub mod situations;
pub mod status_text;
pub mod storm;
pub mod tape;
mod toy;
pub mod trace;
pub mod wire_text;
pub mod world;

pub use check::{
    Config, Failure, Outcome, Report, check, record_seed, record_tape, replay, run_seed,
};
pub use options::Options;
pub use shrink::shrink;
pub use situations::{Situation, Situations};
pub use storm::storm;
pub use tape::Tape;
pub use toy::{Toy, ToyType};
pub use world::{Application, ControlPlane, Reply, World};
