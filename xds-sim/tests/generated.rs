//! MINE: Nobody comes to the end of this scenario.
//!
//! Found in seed 4 by xds-sim 0.1.0. What happened:
//!
//! it has come\u{a}to the end

use xds_sim::{Config, Options, Tape, replay};

/// What kind of run it is, where it is not as by default.
const OPTIONS: &str = "\
    clients=2 variant=delta names=8 read_gate=Off latency=1ms operations=80 order=AfterAcks \
    actions={delete,set-bad,set-back,slow-watcher,set-for-a-while,watch-many} \
    faults={starve,wake-for-nothing,reset,end,hang,half-open,block-requests,block-responses,restart-server,restart-client,lag,slow,hang-up,go-away,bad-file,lost-event,late-timers,clock-jump,narrow,clog}";

/// The choices of the run after these.
const TAPE: &str =
    "tJgDPgUBAQMHKykCAwACAj8zBgABAwEpFAoDAAEGDDwHAAABBCI8DAIAAQYfBAQJAQIAGgYMGwADBws";

#[test]
fn mine_seed_4() {
    let options: Options = OPTIONS.parse().expect("options");
    let tape: Tape = TAPE.parse().expect("a tape");
    let outcome = replay(&tape, &Config::default().with_fixed_options(options));
    if let Some(failure) = outcome.violation {
        panic!("{}", failure.to_text(None));
    }
}
