//! Heartbeats and responses with content: only resources missing from the response need a
//! heartbeat.

use crate::support::{run_all, run_all_with};
use xds_core::server::ServerConfig;

/// A repeated wildcard subscription is answered in parts. A heartbeat that was due before is
/// replaced by the part; one that becomes due between the parts is sent if its resource was in an
/// earlier part.
#[test]
fn split_response_renews_resources_of_its_parts() {
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
            // A heartbeat that becomes due later is due at its own time.
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

/// A changed resource that waited for an ACK longer than its heartbeat interval.
#[test]
fn delayed_change_replaces_heartbeat() {
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

/// A resource that was rejected and re-sent along with a change is renewed again once accepted.
#[test]
fn resent_resource_is_renewed_after_ack() {
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
