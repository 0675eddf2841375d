//! Fuzz target for simulations of drivers: the bytes determine all choices of a run.

use xds_sim::{
    Tape,
    stack::{Stage, check::replay, storm::storm},
};

/// Checks that a storm on a stage, with these bytes as its tape, breaks no rule.
pub fn stack(bytes: &[u8]) {
    let outcome = replay(&Tape::from_bytes(bytes), &async |stage: &Stage| storm(stage).await);
    assert!(!outcome.is_failure(), "{outcome}");
}
