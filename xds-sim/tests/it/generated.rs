//! Regression test: a NACK states an error and the version that was accepted last
//!
//! Found in seed 3 by xds-sim 0.1.0. What happened:
//!
//! code 3, version "8f0ae9999a0d5f01" after AcceptedVersion { version: "", unconfirmed: [],
//! is_outdated: false, is_of_everything: false }
// IC3

// With the crate `xds`: use xds::sim::{Config, Options, Tape, replay};
use xds_sim::{Config, Options, Tape, replay};

/// Options of the run that differ from the defaults.
const OPTIONS: &str = "types=1 names=1 operations=20 actions={unwatch,set-bad}";

/// Choices of the run after the options.
const TAPE: &str = "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABQ";

#[test]
fn ic3_seed_3() {
    let options: Options = OPTIONS.parse().expect("options");
    let tape: Tape = TAPE.parse().expect("a tape");
    let outcome = replay(&tape, &Config::default().with_fixed_options(options));
    if let Some(failure) = outcome.violation {
        panic!("{}", failure.to_text(None));
    }
    assert_eq!(outcome.drift, None, "the tape now leads to another run");
}
