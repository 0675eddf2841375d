//! Subscriptions by state-of-the-world name lists.

use crate::support::{run_all, run_all_with};
use xds_core::server::{LegacyWildcard, ServerConfig, TypeConfig};

#[test]
fn wildcard_and_name_lists_set_subscriptions() {
    run_all(&[
        (
            "M22 M23 M44 S0.104",
            "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1
            > cds               # the ACK lists nothing, as before
            <
            set cds b=2
            < cds changed a=1 b=2
        ",
        ),
        (
            "M24",
            "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1
            > cds a             # leaves the wildcard; a is sent again
            < cds resubscribed a=1
            > cds a
            set cds b=2
            <
            > cds               # an empty list does not bring it back
            <
            set cds a=2 b=3
            <
        ",
        ),
        (
            "M25 S0.103 S2.133",
            "
            set cds a=1 b=1
            > cds a
            < cds first a=1
            > cds
            <
            set cds a=2 b=2
            <
        ",
        ),
        (
            "M26 B01",
            "
            set cds a=1; eds x=1 y=1
            > cds *
            < cds first a=1
            > eds *
            < eds first x=1 y=1
            > eds *
            set eds y=2
            < eds changed y=2
        ",
        ),
        (
            "M27 M81",
            "
            set cds a=1 b=1; eds x=1 y=1
            > cds * a
            < cds first a=1 b=1
            > eds x *
            < eds first x=1 y=1
            > eds x *
            set eds x=2
            < eds changed x=2
        ",
        ),
        (
            "M28",
            "
            set cds a=1 b=1; eds x=1 y=1
            > cds * a
            < cds first a=1 b=1
            > cds a
            <
            set cds b=2
            <
            set cds a=2
            < cds changed a=2
            > eds * x
            < eds first x=1 y=1
            > eds x
            <
            set eds x=2 y=2
            < eds changed x=2
        ",
        ),
        (
            "M29",
            "
            set cds a=1
            > cds *
            < cds first a=1
            > cds
            <
            set cds a=2
            <
        ",
        ),
        (
            "M30",
            "
            set cds a=1 b=1; eds x=1
            > cds a
            < cds first a=1
            > cds
            <
            > cds *
            < cds resubscribed a=1 b=1
            > eds x
            < eds first x=1
            > eds
            <
            > eds *
            < eds resubscribed x=1
        ",
        ),
        (
            "M31",
            "
            set cds a=1 b=1 c=1; eds x=1 y=1 z=1
            > cds a b
            < cds first a=1 b=1
            > cds *
            < cds resubscribed a=1 b=1 c=1
            > eds x y
            < eds first x=1 y=1
            > eds *
            < eds resubscribed z=1      # the rest
            > eds *
            set eds x=2
            < eds changed x=2
        ",
        ),
        (
            "M31",
            "
            set eds x=1 y=1 z=1
            > eds x y
            < eds first x=1 y=1
            > eds *
            set eds x=2                 # newer than the held version
            < eds changed x=2 z=1
            > eds *
            <
        ",
        ),
        (
            "M31",
            "
            set eds x=1 y=1
            > eds x y
            < eds first x=1 y=1
            > eds * y                   # holds everything
            <
            > eds *
            <
            set eds y=2
            < eds changed y=2
        ",
        ),
        (
            "M32",
            "
            set eds x=1; rds r=1
            > eds
            <
            set eds x=2
            <
            > eds x
            < eds first x=2
        ",
        ),
        (
            "M33",
            "
            set eds x=1
            > eds x x x
            < eds first x=1
            > eds x
            <
        ",
        ),
        (
            "M34",
            "
            set eds x=1 y=1
            > eds x y
            < eds first x=1 y=1
            > eds y x
            <
        ",
        ),
    ]);
}

#[test]
fn legacy_wildcard_depends_on_type() {
    let mut on = TypeConfig::of("type.test/custom");
    on.legacy_wildcard = LegacyWildcard::Honored;
    let mut off = TypeConfig::of(xds_core::types::CLUSTER);
    off.legacy_wildcard = LegacyWildcard::Ignored;
    let config = ServerConfig::default()
        .with_type("type.test/custom", on)
        .with_type(xds_core::types::CLUSTER, off);
    run_all_with(
        &config,
        &[(
            "M22 M32",
            "
        set cds a=1; custom c=1
        > cds
        <
        > cds *
        < cds first a=1
        > custom
        < custom first c=1
    ",
        )],
    );
}

#[test]
fn added_names_are_answered_and_dropped_names_end() {
    run_all(&[
        (
            "M46 IS6",
            "
            set eds x=1 y=1
            > eds x
            < eds first x=1
            > eds x y
            < eds resubscribed y=1
            > eds x y
            <
        ",
        ),
        (
            "M46 M80",
            "
            set lds a=1 b=1
            > lds a
            < lds first a=1
            > lds a b
            < lds resubscribed a=1 b=1
        ",
        ),
        (
            "M47 IS8 S0.133 S0.134",
            "
            set eds x=1
            > eds x
            < eds first x=1
            > eds x y
            <
            set eds y=1
            < eds changed y=1
        ",
        ),
        (
            "M48",
            "
            set eds x=1 y=1; lds a=1 b=1
            > eds x y
            < eds first x=1 y=1
            > eds x
            <
            set eds y=2
            <
            > lds a b
            < lds first a=1 b=1
            > lds a
            <
            set lds b=2
            <
        ",
        ),
        (
            "M49",
            "
            set rds a=1 b=1
            > rds a
            < rds first a=1
            > rds b
            < rds resubscribed b=1
            > rds b
            set rds a=2
            <
        ",
        ),
        (
            "M50 S0.102",
            "
            set rds a=1 b=1
            > rds a b
            < rds first a=1 b=1
            > rds b
            <
            > rds a b
            < rds resubscribed a=1
        ",
        ),
        (
            "M51",
            "
            set rds a=1 b=1
            > rds a
            < rds first a=1
            > rds a b             # ACK and new name in one
            < rds resubscribed b=1
            > rds a b
            <
        ",
        ),
        (
            "S0.142 M20",
            "
            set eds foo=1 bar=1
            > eds foo
            < eds first foo=1
            > eds foo bar
            < eds resubscribed bar=1
            2> eds bar
            2< eds first bar=1
        ",
        ),
    ]);
}
