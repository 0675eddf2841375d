//! Aliases with globs, complete responses, deferred removals and layered views.

use crate::{
    globs::expand,
    support::{Rig, run_all, run_all_with, url},
};
use xds_core::server::{
    Admission, MakeBeforeBreakPolicy, NackRecovery, OnDemand, OrderingPolicy, ServerConfig,
    TypeConfig,
};

#[test]
fn aliases_follow_the_rules_of_names() {
    run_all(&[
        (
            "M136 M107",
            "
            set vhds r/a+r/x=1 r/b=1
            d> vhds +r/x +r/b
            d< vhds first r/a+r/x=1 r/b=1
            d> vhds nack
            d<
            set vhds r/b=2
            d< vhds changed r/b=2 r/a+r/x=1",
        ),
        (
            "M136 M161 M164 M167",
            "
            set eds a+x~10s=1
            td> eds +x +y
            td< eds first a+x~10s=1 -y
            td> eds ack
            wait 4s
            set eds a+x+y~10s=1
            td< eds changed a+x+y~10s=1
            td> eds ack
            wait 4s
            td<
            wait 1s
            td< eds heartbeat a~10s
            td> eds ack
            set eds a+x~10s=2
            td< eds changed a+x~10s=2 -y
            td> eds nack
            wait 5s
            td<",
        ),
        // Another resource with the alias does not delay the heartbeat.
        (
            "M136 M164",
            "
            set eds b+x~10s=1
            td> eds +x +b
            td< eds first b+x~10s=1
            td> eds ack
            wait 4s
            set eds a+x=1
            td< eds changed a+x=1
            td> eds ack
            wait 1s
            td< eds heartbeat b~10s",
        ),
        (
            "M136 S0.188",
            "
            set eds a+x~10s=1
            t> eds x                 # there are no aliases in this variant
            t<
            2t> eds a
            2t< eds first a~10s=1
            2t> eds a x
            2t<
            set eds a+x~10s=2
            t<
            2t< eds changed a~10s=2
            2t> eds a x
            set eds x=1
            t< eds first x=1
            2t< eds changed x=1",
        ),
        (
            "M136",
            "
            set sds a+x=1; cds c=1
            d> sds +x
            d< sds first a+x=1
            d> sds ack
            sync sds a:synced",
        ),
    ]);
    let mut config = ServerConfig::default();
    config.limits.response_bytes = 200;
    run_all_with(
        &config,
        &[(
            "M136 M83",
            "
            set eds a+x=1 b=1
            d> eds +a +b +x
            d< eds first a+x=1
            d> eds ack
            d< eds first b=1
            d> eds ack
            d<",
        )],
    );
    let mut ty = TypeConfig::of(&url("eds"));
    ty.nack_recovery = NackRecovery::Isolate;
    run_all_with(
        &ServerConfig::default().with_type(url("eds"), ty),
        &[(
            "M136 M108",
            "
            set eds a+x=1 b+y=1
            d> eds +x +y
            d< eds first a+x=1 b+y=1
            d> eds nack
            d< eds recovery a+x=1
            d> eds nack
            d< eds recovery b+y=1
            d> eds ack
            d<",
        )],
    );
    let mut config = ServerConfig::default();
    config.on_demand = OnDemand::Notify;
    run_all_with(
        &config,
        &[(
            "M136 M254",
            "
            set eds a+x=1
            d> eds +x                # it is not missing
            asked
            d< eds first a+x=1
            d> eds ack +y
            wanted eds y
            d<
            set eds b+y=1            # available now
            d< eds changed b+y=1
            d> eds ack -y
            unwanted eds y",
        )],
    );
}

#[test]
fn alias_subscription_is_answered_though_glob_covers_resource() {
    run_all(&[(
        "M136 M138 IS7",
        &expand(
            "
            set own @/g/a+@/x=1 @/g/b=1
            d> own +@/g/*
            d< own first @/g/a+@/x=1 @/g/b=1
            close
            2d> own +@/g/* +@/x has:@/g/a+@/x=1 has:@/g/b=1
            2d< own first @/g/a+@/x=1
            2d> own ack
            2d<",
        ),
    )]);
}

// M146, M147: the alias is removed with its resource; a replacement is sent first.
#[test]
fn alias_of_deferred_removal_is_removed_with_resource() {
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
    config.admission = Admission::ByApplication;
    let begin = "
        set @v cds a=1; eds a+x=1
        d> cds +*
        assign 1 v
        d< cds first a=1
        d> cds ack
        d> eds +x
        d< eds first a+x=1
        d> eds ack";
    let gone = format!(
        "{begin}
        set @v cds -a; eds -a
        d< cds changed -a
        d<
        d> cds ack
        d< eds changed -a -x
        d> eds ack
        d<
        set @v cds a=1; eds a+x=1
        d< cds changed a=1
        d< eds changed a+x=1"
    );
    let moved = format!(
        "{begin}
        set @v cds b=1 -a; eds b+x=1 -a
        d< cds changed b=1 -a
        d< eds changed b+x=1
        d> eds ack
        d<
        d> cds ack
        d< eds changed -a
        d> eds ack
        d<"
    );
    let elsewhere = format!(
        "{begin}
        set @w cds b=1; eds b+x=1
        assign 1 w
        d< cds changed b=1 -a
        d< eds changed b+x=1
        d> eds ack
        d<
        d> cds ack
        d< eds changed -a
        d> eds ack
        d<"
    );
    run_all_with(
        &config,
        &[("M136 M137 M147", &gone), ("M136 M146 M147", &moved), ("M136 M147 M223", &elsewhere)],
    );
}

// M222, M223, M224: an alias resolves per view, which may consist of layers.
#[test]
fn aliases_resolve_per_view() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run(
        "
        set @base vhds r/a+r/x=1 r/b+r/y=1 r/c+r/z=1
        set @own vhds r/b+r/x=2 r/d+r/y=1
        layers over own base
        d> vhds +r/x +r/y
        assign 1 base
        d< vhds first r/a+r/x=1 r/b+r/y=1
        d> vhds ack
        assign 1 over                # r/b differs there and lacks an alias
        d< vhds changed r/d+r/y=1 -r/b
        d> vhds ack
        set @own vhds r/a+r/y=3      # hides the lower layer
        d< vhds changed r/b+r/x=2 r/a+r/y=3 -r/d
        d> vhds ack
        set @own vhds -r/a
        d< vhds changed r/a+r/x=1 r/d+r/y=1 -r/b
        d> vhds ack
        set @base vhds r/a=1
        d< vhds changed r/b+r/x=2 -r/a
        d> vhds ack
        assign 1 none
        d< vhds changed -r/b -r/d -r/x -r/y
        d> vhds ack
        assign 1 base
        d< vhds changed r/b+r/y=1
        d> vhds ack
        d<
        1close
        layers over
        set @own vhds -r/b -r/d
        set @base vhds -r/a -r/b -r/c",
    );
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.names, stats.payloads, stats.types), (1, 0, 0, 0));
    println!("covers: M136 M222 M223 M224 M243");
}
