//! Endpoints that are sent again for warming clusters.

use crate::support::{run_all, run_all_with};
use xds_core::server::{ServerConfig, Warming};

#[test]
fn endpoints_are_resent_for_warming_clusters() {
    run_all(&[
        (
            "M151 M152 IS18 S0.157",
            "
            set cds c=1; eds c=1 d=1
            > cds
            < cds first c=1
            > cds
            > eds c d
            < eds first c=1 d=1
            > eds c d
            <
            set cds c=2
            < cds changed c=2
            > cds
            <                        # the CDS ACK is no EDS request
            > eds c d                # looks like an ACK
            < eds warming c=1 d=1
            > eds c d
            <
            > eds c d
            <
        ",
        ),
        (
            "M152",
            "
            set cds c=1; eds c=1
            > cds
            > eds c
            < cds first c=1
            < eds first c=1
            > cds
            > eds c
            <                        # the endpoints came after the clusters anyway
        ",
        ),
        (
            "M153",
            "
            set cds c=1; eds c=1
            > eds c
            < eds first c=1
            > cds
            < cds first c=1
            > eds c                  # may have been sent before CDS was read
            < eds warming c=1
            > eds nonce:1 c          # sent after CDS was read: already answered
            <
            > eds c
            <                        # no loop
            > eds c
            <
        ",
        ),
        (
            "M151",
            "
            set cds c=1; eds c=1 d=1
            > cds
            > eds c d
            < cds first c=1
            < eds first c=1 d=1
            > cds
            > eds c d
            set cds c=2; eds d=2
            < cds changed c=2
            < eds changed c=1 d=2    # all of them, since c may be warming
            > eds c d
            <
        ",
        ),
        (
            "M151 M52",
            "
            set cds c=1; eds c=bad
            > cds
            > eds c
            < cds first c=1
            < eds first c=bad
            > cds
            set cds c=2
            < cds changed c=2
            > eds nack c             # a NACK is no request
            <
            > eds c                  # a request
            < eds warming c=bad
            > eds nack c
            <
            > eds c
            <
        ",
        ),
        (
            "M151",
            "
            set cds c=1; eds c=1 new=1
            > cds
            > eds c
            < cds first c=1
            < eds first c=1
            > cds
            > eds c
            set cds new=1
            < cds changed c=1 new=1
            > eds c new
            < eds resubscribed c=1 new=1
            > eds c new
            <
        ",
        ),
        (
            "M151",
            "
            set cds c=1; eds c=1 d=1
            > cds
            > eds *
            < cds first c=1
            < eds first c=1 d=1
            > cds
            > eds *
            set cds c=2
            < cds changed c=2
            > eds *
            < eds warming c=1 d=1
            > eds *
            <
        ",
        ),
        (
            "M151",
            "
            set cds c=1
            > cds
            > eds c
            < cds first c=1
            > eds c                  # nothing to send
            <
            set eds c=1
            < eds first c=1
            > eds c
            <
        ",
        ),
        (
            "M60 M151",
            "
            set cds c=1; eds c=1
            > eds c
            < eds first c=1
            > cds
            < cds first c=1
            > eds nonce: c           # while a response is in flight
            <
            > eds c
            < eds warming c=1
            > eds c
            <
        ",
        ),
        (
            "M154",
            "
            set lds l=1; rds r=1
            > lds
            > rds r
            < lds first l=1
            < rds first r=1
            > lds
            > rds r
            set lds l=2
            < lds changed l=2
            > lds
            > rds r
            <
        ",
        ),
        (
            "M151 M116",
            "
            set cds c=1 d=1; eds c=1 d=1
            d> cds +*
            d< cds first c=1 d=1
            d> cds ack
            d> eds +c +d
            d< eds first c=1 d=1
            d> eds ack
            close
            2d> cds +* has:c=1 has:d=1
            2d> eds +c +d has:c=1 has:d=1
            2d< cds first            # no cluster was sent, so nothing is warmed
            2d<
            2d> cds ack
            2d<
            close
            set cds d=2
            3d> cds +* has:c=1 has:d=1
            3d> eds +c +d has:c=1 has:d=1
            3d< cds first d=2
            3d< eds first d=1
            3d> eds ack
            3d> cds ack
            3d<
            set cds c=2
            3d< cds changed c=2
            3d< eds warming c=1
        ",
        ),
        (
            "M151 M18",
            "
            set cds c=1; eds c=1
            > cds
            < cds first c=1
            2> eds c                 # streams are independent
            2< eds first c=1
            2> eds c
            > cds
            set cds c=2
            < cds changed c=2
            2> eds c
            2<
        ",
        ),
    ]);
}

#[test]
fn warming_off_resends_no_endpoints() {
    let mut config = ServerConfig::default();
    config.warming = Warming::Off;
    run_all_with(
        &config,
        &[(
            "M151",
            "
        set cds c=1; eds c=1
        > eds c
        < eds first c=1
        > cds
        < cds first c=1
        > eds c
        <
    ",
        )],
    );
}
