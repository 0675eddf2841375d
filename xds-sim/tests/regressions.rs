//! Runs that once broke a rule, made small: what they came to is mended.

use xds_sim::{Config, Tape, replay};

/// What was wrong, and the tape.
const MENDED: [(&str, &str); 4] = [
    (
        "a client that starts anew sends nothing on the streams it had (IC5)",
        "AAAAAAAAAQIAAAAAAAAAAQAAAQAAAQABAAAAAAAAAAAAAAEAAAEAAAAAAQAAAAABAAEAAAAAAQABAAAAAQAAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAIAAAAAAEAAAAAAgABAAkAAAAAAQMAAAABAAEACAAAAAAB",
    ),
    (
        "the same, seen again",
        "AAAAAAAAAAEAAAAAAAAAAQABAAEBAQEAAAAAAAEBAAABAAEAAAEAAAAAAQAAAAABAAEAAAAAAQABAAEAAAAAAQAAAAABAAEAAAAAAQABAAAAAAEAAQANAAAAAAEAAwAAAQABAw4AAAAAAQMAAAABAAEADQAAAAAB",
    ),
    (
        "the same, seen again",
        "AAAAAAAAAAIAAAAAAAAAAQABAQEAAAEAAAAAAAAAAAABAQEAAAEAAAAAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAQALAAAAAAEAAAAAAgABAAwAAAAAAQMLAAAAAAE",
    ),
    (
        "a stream that the client had ended itself is no failure of its server (IC26, the rule was wrong)",
        "AAAAAwAAAAEAAAEAAAAAAQEBAAABAAAAAAAAAQAAAQAAAAAAAAAAAAAAAQABAAAAAAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAwAAAAABAAAAAAEAAQAJAAAAAAEFCAAAAAABAAUAAAAAAQAJAAAAAAE",
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
