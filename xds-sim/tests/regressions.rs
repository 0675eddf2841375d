//! Runs that once broke a rule, made small: what they came to is mended.

use xds_sim::{Config, Tape, replay};

/// What was wrong, and the tape.
const MENDED: [(&str, &str); 3] = [
    (
        "a client that starts anew sends nothing on the streams it had (IC5)",
        "AAAAAAAAAQIAAAAAAAAAAQAAAQAAAQABAAAAAAAAAAABAAABAAAAAQAAAAABAAEAAAAAAQABAAAAAQAAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAIAAAAAAEAAAAAAgABAAkAAAAAAQMAAAABAAEACAAAAAAB",
    ),
    (
        "the same, seen again",
        "AAAAAAAAAAEAAAAAAAAAAQABAAEBAQEAAAABAQAAAQABAAABAAAAAQAAAAABAAEAAAAAAQABAAEAAAAAAQAAAAABAAEAAAAAAQABAAAAAAEAAQANAAAAAAEAAwAAAQABAw4AAAAAAQMAAAABAAEADQAAAAAB",
    ),
    (
        "the same, seen again",
        "AAAAAAAAAAIAAAAAAAAAAQABAQEAAAEAAAAAAAAAAQEBAAABAAAAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAQALAAAAAAEAAAAAAgABAAwAAAAAAQMLAAAAAAE",
    ),
];

#[test]
fn what_was_mended_stays_so() {
    for (what, tape) in MENDED {
        let tape: Tape = tape.parse().expect("a tape that was printed");
        if let Some(failure) = replay(&tape, &Config::default()).violation {
            panic!("{what}\n{}", failure.to_text(None));
        }
    }
}
