//! Fuzz target for simulations: the bytes determine all choices of a run.

use xds_sim::{Config, Tape, replay};

/// Checks that a run with these bytes as its tape breaks no rule.
pub fn world(bytes: &[u8]) {
    let outcome = replay(&Tape::from_bytes(bytes), &Config::default());
    if let Some(failure) = outcome.violation {
        panic!("{}", failure.to_text(None));
    }
}
