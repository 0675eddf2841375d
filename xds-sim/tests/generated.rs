//! IC7: who polls states the version that it accepted last from the same server, unless it
//! let go of something since
//!
//! Found in seed 6 by xds-sim 0.1.0. What happened:
//!
//! "8f0ae9999a0d5f01" after Accepted { version: "", unsaid: [], is_asked: false,
//! has_let_go: true }

use xds_sim::{Config, Options, Tape, replay};

/// What kind of run it is, where it is not as by default.
const OPTIONS: &str = "\
    streams=PerType types=1 names=1 operations=20 transport=Polls \
    actions={watch-again,set-bad}";

/// The choices of the run after these.
const TAPE: &str = "AAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEABQ";

#[test]
fn ic7_seed_6() {
    let options: Options = OPTIONS.parse().expect("options");
    let tape: Tape = TAPE.parse().expect("a tape");
    let outcome = replay(&tape, &Config::default().with_fixed_options(options));
    if let Some(failure) = outcome.violation {
        panic!("{}", failure.to_text(None));
    }
    assert_eq!(outcome.drift, None, "this is another run by now, and shows nothing");
}
