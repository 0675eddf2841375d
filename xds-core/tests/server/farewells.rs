//! What goes before its client was sent it, and what its client has left before it was told that it goes.

use crate::{
    globs::expand,
    support::{Rig, run_all},
};
use xds_core::server::{ServerConfig, ServerLimits};

/// IS11, IS5: what came and went under a glob meanwhile, nobody is told of, unless he asks by name.
#[test]
fn what_came_and_went_under_a_glob_is_not_told() {
    run_all(&[
        (
            "M138 IS11 IS5",
            &expand(
                "
                d> own +@/g/*
                d< own first -@/g/*
                set own @/g/a=1
                set own -@/g/a
                d> own ack
                d<
                set own @/g/b=1
                d< own changed @/g/b=1
                d> own ack
                set own -@/g/b
                d< own changed -@/g/b
                d> own ack
                d<",
            ),
        ),
        // It has it from everything, and keeps it by the glob.
        (
            "M138 M93 IS10",
            &expand(
                "
                set own @/g/a=1
                d> own +*
                d< own first @/g/a=1
                d> own ack +@/g/* -*
                set own -@/g/a
                d< own changed -@/g/* -@/g/a
                d> own ack
                d<",
            ),
        ),
        (
            "M138 M115",
            &expand(
                "
                d> own +@/g/*
                d< own first -@/g/*
                set own @/g/a=1
                d> own +@/g/a
                set own -@/g/a
                d> own ack
                d< own changed -@/g/a",
            ),
        ),
    ]);
}

/// IS7, M140: who asks for a glob is answered, though all of it goes before there is room for it.
#[test]
fn a_glob_is_answered_though_all_of_it_goes() {
    let mut limits = ServerLimits::default();
    limits.response_bytes = 200;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    let long = "x".repeat(80);
    rig.run(&expand(&format!("set own @/c={long}\nset own @/g/a={long}")));
    rig.run(&expand("d> own +@/c +@/g/*"));
    rig.run(&expand(&format!("d< own first @/c={long}\nset own -@/g/a\nd> own ack")));
    rig.run(&expand("d< own first -@/g/a\nd> own ack\nd<"));
    println!("covers: IS7 M140 IS26");
}

/// M139, M93, IL1: what a client has let go of, and is not told yet where it stands, it is told though it subscribes to
/// everything meanwhile, unless that brings it.
#[test]
fn what_was_let_go_of_is_told_to_be_gone_under_everything() {
    run_all(&[
        (
            "M139 IL1",
            &expand(
                "
                set own @/g/a=1 @/g/b=1
                d> own +@/g/*
                d< own first @/g/a=1 @/g/b=1
                d> own -@/g/*
                set own -@/g/a
                d> own +*
                d> own ack
                d< own resubscribed @/g/b=1 -@/g/a
                d> own ack
                d<",
            ),
        ),
        (
            "M139 IL1",
            &expand(
                "
                set own @/g/a=1
                d> own +@/g/*
                d< own first @/g/a=1
                d> own -@/g/*
                set own -@/g/a
                d> own +*
                set own @/g/a=2
                d> own ack
                d< own changed @/g/a=2
                d> own ack
                d<",
            ),
        ),
        (
            "M93 IL1",
            "
            set cds a=1 b=1
            d> cds +*
            d< cds first a=1 b=1
            d> cds -*
            set cds -b
            d> cds +*
            d> cds ack
            d< cds resubscribed a=1 -b
            d> cds ack
            d<",
        ),
        // Also if it goes after that.
        (
            "M93 IL1",
            "
            set cds a=1 b=1
            d> cds +*
            d< cds first a=1 b=1
            d> cds -*
            d> cds +*
            set cds -b
            d> cds ack
            d< cds changed a=1 -b
            d> cds ack
            d<",
        ),
    ]);
}
