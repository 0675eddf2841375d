//! Removals of resources that were not sent yet, or whose subscription has ended.

use crate::{
    globs::expand,
    support::{Rig, run_all},
};
use xds_core::server::{ServerConfig, ServerLimits};

// IS11, IS5: a resource that appears and disappears under a glob is not reported, except to
// subscriptions by name.
#[test]
fn short_lived_glob_member_is_not_reported() {
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
        // The client has it by wildcard and keeps it by glob.
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

// IS7, M140: a glob is answered even if all of its members are removed before there is room.
#[test]
fn glob_is_answered_after_removal_of_all_members() {
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

// M139, M93, IL1: the pending state of an unsubscribed resource is sent even if the client
// subscribes to the wildcard meanwhile, unless that brings the resource.
#[test]
fn removal_of_unsubscribed_resource_is_sent_to_wildcard() {
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
        // A removal after that.
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
