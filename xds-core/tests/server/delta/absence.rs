//! Missing resources in the incremental variant.

use crate::support::{run_all, run_all_with, url};
use xds_core::server::{Absence, ServerConfig, TypeConfig};

// M127-M135, M142: a missing resource is reported once and stays subscribed.
#[test]
fn missing_resource_is_reported_once_as_removed() {
    run_all(&[
        (
            "M127 M128 IS12 IS8",
            "
            set eds a=1
            d> eds +a +missing
            d< eds first a=1 -missing
            d> eds ack
            d<
            set eds missing=1
            d< eds changed missing=1",
        ),
        (
            "M129 M130 IS11",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            set eds -a
            d< eds changed -a
            d> eds ack
            d<
            set eds a=2
            d< eds changed a=2",
        ),
        (
            "M132",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            set eds -a
            set eds a=1
            d> eds ack
            d< eds changed a=1
            d> eds ack
            d<",
        ),
        (
            "M135 S0.116",
            "
            set cds a=1
            d> cds +* +a
            d< cds first a=1
            d> cds ack
            set cds -a
            d< cds changed -a
            d> cds ack
            d<
            set cds a=3
            d< cds changed a=3",
        ),
        (
            "M142 M36",
            "
            set eds a=1
            d> eds loc:a loc:b
            d< eds first a=1 -b",
        ),
        (
            "M151",
            "
            set cds c=1 d=1; eds c=1 d=1
            d> cds
            d< cds first c=1 d=1
            d> cds ack
            d> eds +c +d
            d< eds first c=1 d=1
            d> eds ack
            set cds c=2
            d< cds changed c=2
            d< eds warming c=1
            d> cds ack
            d> eds ack
            d<",
        ),
        (
            "M153",
            "
            set cds c=1; eds c=1
            d> eds +c
            d< eds first c=1
            d> eds ack
            d> cds
            d< cds first c=1
            d< eds warming c=1
            d> eds ack
            d<",
        ),
    ]);
}

/// Clients of an early protocol edition get an empty resource for a missing one; deletions are
/// reported as usual.
#[test]
fn missing_resource_can_be_reported_as_empty_resource() {
    let mut of_endpoints = TypeConfig::of(&url("eds"));
    of_endpoints.absence = Absence::EmptyResource;
    let config = ServerConfig::default().with_type(url("eds"), of_endpoints);
    run_all_with(
        &config,
        &[(
            "S0.196 S0.197",
            "
            set eds a=1
            d> eds +a +b
            d< eds first a=1 ?b
            d> eds ack
            set eds b=1
            d< eds changed b=1
            d> eds ack
            set eds -b
            d< eds changed -b
            d> eds ack
            d> eds +b
            d< eds resubscribed ?b
            d> eds ack +*
            d< eds resubscribed
            d> eds ack -b
            d< eds resubscribed ?b
            d> eds ack
            d> cds +x
            d< cds first -x",
        )],
    );
}
