//! Bursts of changes, sent as one update.

use core::time::Duration;

use crate::support::{Rig, run_all_with};
use xds_core::{
    Debounce, Timer,
    server::{Admission, ServerConfig, ServerOutput},
};

fn debounced() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.debounce = Some(Debounce::new(Duration::from_millis(100), Duration::from_millis(250)));
    config
}

#[test]
fn burst_of_changes_is_sent_once() {
    run_all_with(
        &debounced(),
        &[
            // A burst ends after a quiet period, in both variants, for names and wildcards.
            (
                "M225 M64",
                "
                set cds a=1; eds x=1
                wait 100ms
                > cds
                > eds x y
                < cds first a=1
                < eds first x=1
                > cds
                > eds x y
                2d> cds
                2d> eds +x
                2d< cds first a=1
                2d< eds first x=1
                2d> cds ack
                2d> eds ack
                set cds a=2
                set cds a=3 b=1; eds x=2
                wait 99ms
                <
                2d<
                set eds x=3 y=1
                wait 99ms
                <
                2d<
                wait 1ms
                < cds changed a=3 b=1
                < eds changed x=3 y=1
                2d< cds changed a=3 b=1
                2d< eds changed x=3",
            ),
            // A burst lasts at most for the maximum delay; the next change starts another one.
            (
                "M225",
                "
                > own a
                set own a=1
                wait 90ms
                set own a=2
                wait 90ms
                set own a=3
                wait 69ms
                <
                wait 1ms
                < own first a=3
                > own a
                set own a=4
                wait 99ms
                <
                wait 1ms
                < own changed a=4",
            ),
            // A new subscription is answered at once with the current state, which is not sent
            // again.
            (
                "M225 M37 M96",
                "
                set eds a=1
                d> eds +a
                d< eds first a=1
                d> eds ack +b
                d< eds resubscribed -b
                d> eds ack
                set eds a=2 b=1
                d<
                d> eds +b
                d< eds changed a=2 b=1
                d> eds ack
                2> eds *
                2< eds first a=2 b=1
                2> eds *
                wait 100ms
                d<
                2<",
            ),
            // Updates that become possible after an ACK are delayed, too, and so are those not yet
            // taken.
            (
                "M225 M64",
                "
                set own a=1
                > own *
                < own first a=1
                wait 100ms
                set own a=2
                > own *
                <
                wait 100ms
                set own a=3                    # before it was taken
                <
                wait 99ms
                <
                wait 1ms
                < own changed a=3",
            ),
        ],
    );
}

// IS17, M144: a request during a burst is answered with all changes of its type, after the types
// that the answer may reference.
#[test]
fn request_during_burst_gets_clusters_before_routes() {
    run_all_with(
        &debounced(),
        &[
            (
                "M225 M144 IS17 S0.161",
                "
                set cds a=1; rds r=1
                wait 100ms
                > cds
                > rds r
                < cds first a=1
                < rds first r=1
                > cds
                > rds r
                set cds b=1; rds r=2 s=1
                <
                > rds r s
                < cds changed a=1 b=1
                < rds changed r=2 s=1
                > cds
                > rds r s
                <
                wait 100ms
                <",
            ),
            (
                "M225 M144 IS17 S0.161",
                "
                set cds a=1; rds r=1; eds x=1
                wait 100ms
                d> cds
                d> rds +r
                d> eds +x
                d< cds first a=1
                d< eds first x=1
                d< rds first r=1
                d> cds ack
                d> rds ack
                d> eds ack
                d> rds +s                       # before this is answered
                set cds b=1 -a; rds r=2 s=1; eds x=2
                d< cds changed b=1
                d< eds changed x=2
                d< rds changed r=2 s=1
                d> cds ack
                d> rds ack
                d> eds ack
                set cds b=2; eds x=3 y=1        # endpoints reference nothing
                d> eds +y
                d< eds changed x=3 y=1
                d> eds ack
                d<
                wait 100ms
                d< cds changed b=2 -a",
            ),
        ],
    );
}

// M225: clients are woken once per burst, and the server requests one wake-up.
#[test]
fn burst_wakes_each_client_once() {
    let mut rig = Rig::new(debounced());
    rig.run("> own *\n2> own a\nset own a=1\nwait 100ms\n< own first a=1\n2< own first a=1");
    rig.run("> own *\n2> own a");
    rig.effects();
    for round in 0..50 {
        rig.set(&format!("own a={round} b={round}"));
    }
    assert_eq!(rig.effects(), []);
    let deadline = rig.server.poll_timeout().expect("a deadline");
    assert_eq!(
        (deadline.at, deadline.why),
        (rig.now.after(Duration::from_millis(100)), Timer::Debounce)
    );
    rig.run("wait 100ms");
    let (one, two) = (rig.stream(1), rig.stream(2));
    assert_eq!(rig.effects(), [ServerOutput::Writable(two), ServerOutput::Writable(one)]);
    rig.run("< own changed a=49 b=49\n2< own changed a=49");
    println!("covers: M225 M226");
}

// M225: streams and views that end during a burst are handled.
#[test]
fn streams_and_views_may_end_during_burst() {
    let mut config = debounced();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run(
        "set @v own a=1\nset @w own a=2\nwait 100ms\n> own *\n2> own *\nassign 1 v\nassign 2 v",
    );
    rig.run("< own first a=1\n2< own first a=1\n> own *\n2> own *");
    rig.run("set @v own a=5 b=1\n1close\nassign 2 w\n2< own changed a=2\n2> own *");
    rig.run("set @v own -a -b\nwait 100ms\n2<");
    assert_eq!(rig.server.stats().views, 2, "the empty view has gone");
    println!("covers: M225");
}
