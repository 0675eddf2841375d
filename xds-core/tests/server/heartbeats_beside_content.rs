//! Heartbeats and responses with content: what went out with content needs no heartbeat, and what was left out does.

use crate::support::{run_all, run_all_with};
use xds_core::server::ServerConfig;

/// Everything that comes again comes in parts. What was due of it before needs no heartbeat after its part, and what
/// falls due between the parts needs one if it was in a part before.
#[test]
fn what_comes_again_in_parts_is_renewed_by_its_part() {
    let mut config = ServerConfig::default();
    config.limits.response_bytes = 150;
    run_all_with(
        &config,
        &[
            (
                "M163 M164 IS5",
                "
                set eds a=1
                set eds b~10s=1
                td> eds +*
                td< eds first a=1
                td> eds ack
                td< eds first b~10s=1
                wait 6s
                td> eds ack +*
                td< eds resubscribed a=1
                td> eds ack
                td< eds resubscribed b~10s=1
                td> eds ack
                td<",
            ),
            (
                "M161 M163 M164 IS5",
                "
                set eds a~10s=1
                set eds b~10s=1
                set eds c~10s=1
                td> eds +*
                td< eds first a~10s=1
                td> eds ack
                td< eds first b~10s=1
                td> eds ack
                td< eds first c~10s=1
                td> eds ack +*
                td< eds resubscribed a~10s=1
                wait 6s
                td> eds ack
                td< eds resubscribed b~10s=1
                td> eds ack
                td< eds resubscribed c~10s=1
                td> eds ack
                td< eds heartbeat a~10s
                td> eds ack
                td<
                wait 4s
                td< eds heartbeat a~10s
                td> eds ack
                td< eds heartbeat b~10s
                td> eds ack
                td< eds heartbeat c~10s
                td> eds ack
                td<",
            ),
            // What falls due later is as late as it is, not as what went with its part.
            (
                "M161 M163 M164",
                "
                set eds a~10s=1
                set eds b=1
                td> eds +*
                td< eds first a~10s=1
                td> eds ack
                td< eds first b=1
                wait 5s
                td> eds ack +*
                td< eds resubscribed a~10s=1
                td> eds ack
                td< eds resubscribed b=1
                wait 6s
                td> eds ack
                td< eds heartbeat a~10s
                td> eds ack
                td<",
            ),
        ],
    );
}

/// A change that has waited for an answer beyond its time for a heartbeat.
#[test]
fn a_change_that_waited_needs_no_heartbeat() {
    run_all(&[(
        "M163 M164 IS5",
        "
        set eds a~10s=1
        td> eds +*
        td< eds first a~10s=1
        set eds b~10s=1
        wait 6s
        td> eds ack
        td< eds changed b~10s=1
        td> eds ack
        td< eds heartbeat a~10s
        td> eds ack
        td<",
    )]);
}

/// What was rejected and rides along with a change is renewed again, once that is accepted.
#[test]
fn what_came_again_is_renewed_again() {
    run_all(&[(
        "M107 M167",
        "
        set eds a~10s=1
        td> eds +a +b
        td< eds first a~10s=1 -b
        td> eds ack
        set eds b=bad
        td< eds changed b=bad
        td> eds nack
        set eds a~10s=2
        td< eds changed a~10s=2 b=bad
        td> eds nack
        set eds b=good
        td< eds changed a~10s=2 b=good
        td> eds ack
        wait 5s
        td< eds heartbeat a~10s",
    )]);
}
