//! Runs that once broke a rule, made small: what they came to is mended.

use xds_sim::{Config, Tape, replay};

/// What was wrong, and the tape.
const MENDED: [(&str, &str); 10] = [
    (
        "a client that starts anew sends nothing on the streams it had (IC5)",
        "AAAAAAAAAQIAAAAAAAAAAAEAAAEAAAEAAQAAAAAAAAAAAAABAAABAAAAAAEAAAAAAQABAAAAAAEAAQAAAAEAAAEAAAAAAQABAAAAAAEAAQAAAAABAAEACAAAAAABAAAAAAIAAQAJAAAAAAEDAAAAAQABAAgAAAAAAQ",
    ),
    (
        "the same, seen again",
        "AAAAAAAAAAEAAAAAAAAAAAEAAQABAQEBAAAAAAABAQAAAQABAAABAAAAAAEAAAAAAQABAAAAAAEAAQABAAAAAAEAAAAAAQABAAAAAAEAAQAAAAABAAEADQAAAAABAAMAAAEAAQMOAAAAAAEDAAAAAQABAA0AAAAAAQ",
    ),
    (
        "the same, seen again",
        "AAAAAAAAAAIAAAAAAAAAAAEAAQEBAAABAAAAAAAAAAAAAQEBAAABAAAAAAEAAAAAAQABAAAAAAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAAAAABAAEACwAAAAABAAAAAAIAAQAMAAAAAAEDCwAAAAAB",
    ),
    (
        "a stream that the client had ended itself is no failure of its server (IC26, the rule was wrong)",
        "AAAAAwAAAAEAAAEAAAAAAAEBAQAAAQAAAAAAAAEAAAEAAAAAAAAAAAAAAAEAAQAAAAABAAEAAAAAAQABAAAAAAEAAQAAAAABAAMAAAAAAQAAAAABAAEACQAAAAABBQgAAAAAAQAFAAAAAAEACQAAAAAB",
    ),
    (
        "everything of an empty list that ended is asked for again though a response crossed its end (IL1)",
        "AAAAAAAAAAAAAAAAAAAAAAEBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAQAAAAAAQQBAAAAAAEABQAAAAABAwQ",
    ),
    (
        "everything of endpoints is asked for again though a response crossed its end (IL1)",
        "AAADAAAAAQEAAAAAAAAAAAEBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAQAAAAABAAABAAAAAQADAAAAAAEAAAEAAAABAAABAAAAAQABAAAAAAEABAABAAABAAMAAQEAAQQFAAAAAAEABAABAAABAAMAAQ",
    ),
    (
        "a name is asked for again though a response crossed its end (IL1)",
        "AAAAAAAAAQIAAAAAAAAAAAEBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAABAgABAAAAAAAAAQADAAEAAAEAAAAAAAABAAAAAAAAAQAAAAEAAAEAAQABAgABAAUAAAAEAQAAAAE",
    ),
    (
        "a proxy's time for a resource goes on while a name is asked for anew (IL1)",
        "AKAGAAAAAAADAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQABAAAAAAEAAAAAAwABCAAAAAAAAQgEAAAAAAEAAAAAAw",
    ),
    (
        "heartbeats are not withheld by those of whom nothing was due (IS27, IL1)",
        "AAADAAAAAQEAAAQAAAAAAAEBAAEAAAEBAAEBAAAAAAAAAAAAAAAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEAAAAAAAABAAAAAAAAAQAAAAAAAAEACQABABABAAQBAQAAAQcAAAAAAAEACgABAQEBCAoAAQAAAQc",
    ),
    (
        "a first answer is given though all of it was deleted while it was held back (M39, IL1)",
        "AAAAAAAAAgABAAAAAAAAAwEAAAEBAQAAAQEBAAABAQAAAAAAAAAAAAAAAAEAAQACAAABAAAAAAAAAQAAAAIAAAABAAMAAAAAAQAMAAAAAAEHBQAC",
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
