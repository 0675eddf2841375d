//! A whole world: clients, servers and a network whose every choice comes from the bytes.

use xds_sim::{Config, Tape, replay};

/// The bytes are the choices of a run, and no run breaks a rule.
pub fn world(bytes: &[u8]) {
    let outcome = replay(&Tape::from_bytes(bytes), &Config::default());
    if let Some(failure) = outcome.violation {
        panic!("{}", failure.to_text(None));
    }
}
