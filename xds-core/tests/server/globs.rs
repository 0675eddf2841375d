//! Globs, structured names and locators on the server.

use core::time::Duration;

use crate::support::{Rig, payload, run_all, run_all_with, url};
use xds_core::{
    Debounce, Time,
    server::{
        Admission, Globs, NackRecovery, Server, ServerConfig, SubscribedNames, Transaction,
        TransactionError, TypeConfig,
    },
};

/// Replaces `@/` by the common prefix of the structured names in these scripts.
pub(crate) fn expand(script: &str) -> String {
    script.replace("@/", "xdstp://au/own/")
}

fn run(cases: &[(&str, &str)]) {
    let cases: Vec<_> = cases.iter().map(|(covers, script)| (*covers, expand(script))).collect();
    let cases: Vec<_> = cases.iter().map(|(covers, script)| (*covers, &**script)).collect();
    run_all(&cases);
}

#[test]
fn glob_gets_its_members() {
    run(&[
        // All members, present and future, at any depth.
        (
            "M138 M35",
            "
            set own @/g/a=1 @/g/x/b=1 @/h/c=1 plain=1
            d> own +@/g/*
            d< own first @/g/a=1 @/g/x/b=1
            d> own ack
            set own @/h/c=2
            d<
            set own @/g/d=1 @/g/a=2
            d< own changed @/g/a=2 @/g/d=1
            d> own ack
            set own -@/g/x/b -@/h/c
            d< own changed -@/g/x/b
            d> own ack
            d<
            set own @/g/x/b=2
            d< own changed @/g/x/b=2
            d> own ack
            d> own -@/g/*
            d< own resubscribed -@/g/a -@/g/d -@/g/x/b
            d> own ack
            set own @/g/a=3 @/g/e=1
            d<",
        ),
        // State of the world, as partial responses.
        (
            "M138 M35",
            "
            set own @/g/a=1 @/h/c=1
            > own @/g/* @/h/c
            < own first @/g/a=1 @/h/c=1
            > own @/g/* @/h/c
            <
            set own @/g/b=1
            < own changed @/g/b=1
            > own @/g/* @/h/c
            set own -@/g/a
            <
            set own @/g/a=2
            < own changed @/g/a=2
            > own @/h/c
            <
            set own @/g/a=3
            <
            > own @/h/c @/g/*
            < own resubscribed @/g/a=3 @/g/b=1",
        ),
        // A repeated subscription is answered again.
        (
            "M96 M138",
            "
            set own @/g/a=1
            d> own +@/g/*
            d< own first @/g/a=1
            d> own ack +@/g/*
            d< own resubscribed @/g/a=1
            d> own ack
            d<",
        ),
        // A glob without members is reported as missing itself; later members are sent.
        (
            "M140 M138",
            "
            d> own +@/g/* +*
            d< own first -@/g/*
            d> own ack
            2d> own +@/g/*
            2d< own first -@/g/*
            2d> own ack
            3> own @/g/*
            3<
            set own @/g/a=1
            d< own changed @/g/a=1
            2d< own changed @/g/a=1
            3< own first @/g/a=1
            2d> own ack
            set own -@/g/a
            2d< own changed -@/g/a
            2d> own ack
            2d<",
        ),
        // An error of a glob is sent under its name, and its members are sent as well.
        (
            "M178 M171 M176",
            "
            set own !@/g/*=7 @/g/a=1
            d> own +@/g/* +*
            d< own first !@/g/*=7 @/g/a=1
            d> own ack
            2> own @/g/*
            2< own first !@/g/*=7 @/g/a=1
            3d> own +@/h/*
            3d< own first -@/h/*
            3d> own ack
            set own !@/h/*=14
            3d< own changed !@/h/*=14
            3d> own ack
            3d<
            set own -@/h/* -@/g/*
            3d< own changed -@/h/*
            3d> own ack
            3d<
            d< own changed @/g/a=1",
        ),
    ]);
}

#[test]
fn overlapping_globs_and_names_keep_covered_resources() {
    run(&[
        // The name is unsubscribed, the glob stays: the current state is sent, as under a wildcard.
        (
            "M139",
            "
            set own @/g/a=1 @/g/b=1
            d> own +@/g/* +@/g/a +@/g/none
            d< own first @/g/a=1 @/g/b=1 -@/g/none
            d> own ack -@/g/a -@/g/none
            d< own resubscribed @/g/a=1 -@/g/none
            d> own ack
            d<
            set own @/g/a=2
            d< own changed @/g/a=2
            d> own ack",
        ),
        // The glob is unsubscribed; the name stays, and so do members of another glob.
        (
            "M139",
            "
            set own @/g/a=1 @/g/b=1 @/g/x/c=1
            d> own +@/g/* +@/g/a +@/g/x/*
            d< own first @/g/a=1 @/g/b=1 @/g/x/c=1
            d> own ack -@/g/*
            d< own resubscribed -@/g/b
            d> own ack
            set own @/g/a=2 @/g/b=2 @/g/x/c=2
            d< own changed @/g/a=2 @/g/x/c=2
            d> own ack",
        ),
        // Under a wildcard, unsubscribing a glob removes nothing.
        (
            "M139",
            "
            set own @/g/a=1 b=1
            d> own +@/g/* +*
            d< own first @/g/a=1 b=1
            d> own ack -@/g/*
            d<
            set own @/g/a=2
            d< own changed @/g/a=2
            d> own ack +@/g/*
            d< own resubscribed @/g/a=2
            d> own ack -*
            d< own resubscribed -b
            d> own ack
            set own @/g/a=3 b=3
            d< own changed @/g/a=3",
        ),
        // A glob is replaced by the wildcard, then the resource is removed.
        (
            "M139",
            "
            set own @/g/a=1
            d> own +@/g/*
            d< own first @/g/a=1
            d> own ack +* -@/g/*
            d< own resubscribed            # already held
            d> own ack
            set own -@/g/a
            d< own changed -@/g/a",
        ),
        // State of the world.
        (
            "M139 M34",
            "
            set own @/g/a=1 @/g/b=1
            > own @/g/a @/g/*
            < own first @/g/a=1 @/g/b=1
            > own @/g/* @/g/a
            <
            > own @/g/*
            <
            set own @/g/a=2
            < own changed @/g/a=2
            > own @/g/a
            < own resubscribed @/g/a=2
            > own @/g/a
            <
            set own @/g/b=2 @/g/a=3
            < own changed @/g/a=3",
        ),
        // A reconnecting client states versions of members.
        (
            "M138 M116 M118",
            "
            set own @/g/a=1 @/g/b=1 @/g/c=1
            d> own +@/g/*
            d< own first @/g/a=1 @/g/b=1 @/g/c=1
            close
            set own @/g/b=2 -@/g/c
            2d> own +@/g/* has:@/g/a=1 has:@/g/b=1 has:@/g/c=1 has:@/h/x@1
            2d< own first @/g/b=2 -@/g/c
            2d> own ack
            2d<",
        ),
        // A rejected member is re-sent along with the next change.
        (
            "M107 M138",
            "
            set own @/g/a=1 @/g/b=1
            d> own +@/g/*
            d< own first @/g/a=1 @/g/b=1
            d> own nack
            d<
            set own @/g/b=2
            d< own changed @/g/a=1 @/g/b=2",
        ),
    ]);
}

#[test]
fn names_are_compared_in_canonical_form() {
    let (one, other) = ("xdstp://au/own/a?x=1&y=2", "xdstp://au/own/a?y=2&x=%31");
    let ty = "type.test/own";
    let mut rig = Rig::default();
    let mut transaction = Transaction::new();
    transaction.set(ty, other, payload("a", "1"));
    rig.server.apply(transaction, rig.now).expect("a good name");
    assert_eq!(rig.server.resource(ty, one), Some(&payload("a", "1")));
    assert_eq!(rig.server.resource(ty, other), Some(&payload("a", "1")));
    rig.run(&format!("> own {other}\n< own first a=1\n> own {one}\n<"));
    rig.run("2> own xdstp://au/own/*?y=2&x=1\n2< own first a=1");
    rig.run("3> own xdstp://au/own/*\n3<");
    // Another spelling of the name is the same resource.
    let mut transaction = Transaction::new();
    transaction.set(ty, one, payload("a", "2")).set(ty, other, payload("a", "3"));
    let applied = rig.server.apply(transaction, rig.now).expect("good names");
    assert_eq!((applied.changed, rig.server.stats().resources), (1, 1));
    rig.run(&format!("< own changed a=3\n> own {other}\n4> own xdstp:bad\n4<"));
    println!("covers: M141");
}

// M210, M218: invalid names are refused before anything changes.
#[test]
fn invalid_names_are_refused() {
    let apply = |name: &str| {
        let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
        let mut transaction = Transaction::new();
        transaction.set("type.test/own", "fine", payload("fine", "1"));
        transaction.set("type.test/own", name, payload("a", "1"));
        let applied = server.apply(transaction, Time::ZERO);
        assert_eq!(server.stats().resources, if applied.is_ok() { 2 } else { 0 });
        applied.map(drop)
    };
    assert_eq!(apply("xdstp://au/own/a"), Ok(()));
    assert_eq!(apply("g/*"), Ok(()), "a plain name like any other");
    assert_eq!(apply("xdstp://au/other/a"), Err(TransactionError::ForeignName { change: 1 }));
    assert_eq!(apply("xdstp://au/own/g/*"), Err(TransactionError::GlobName { change: 1 }));
    let error = apply("xdstp:own/a").expect_err("malformed");
    assert!(matches!(error, TransactionError::MalformedName { change: 1, .. }), "{error}");
    println!("covers: M210 M218");
}

/// Members of a glob have a status, rejections and retries like named resources.
#[test]
fn glob_members_have_status_and_retries() {
    run(&[
        (
            "M138 M234",
            "
            set own @/g/a=1 @/g/b=1
            d> own +@/g/*
            d< own first @/g/a=1 @/g/b=1
            d> own ack
            sync own @/g/a:synced @/g/b:synced
            d> own +@/h/*
            d< own resubscribed -@/h/*
            d> own ack
            sync own @/g/a:synced @/g/b:synced @/h/*:missing",
        ),
        // A pending unsubscription answer under a wildcard is superseded by a glob subscription.
        (
            "M138 M91 M139",
            "
            set own @/g/a=1
            d> own +* +@/g/a
            d< own first @/g/a=1
            d> own ack
            d> own -@/g/a
            d> own +@/g/*
            d< own resubscribed @/g/a=1
            d> own ack -*
            d<
            set own @/g/a=2
            d< own changed @/g/a=2",
        ),
    ]);
    let mut ty = TypeConfig::of(&url("eds"));
    ty.globs = Globs::AnyName;
    ty.nack_recovery = NackRecovery::Isolate;
    run_all_with(
        &ServerConfig::default().with_type(url("eds"), ty),
        &[(
            "M138 M108",
            "
            set eds g/a=1 g/b=1
            d> eds +g/*
            d< eds first g/a=1 g/b=1
            d> eds nack
            d< eds recovery g/a=1
            d> eds nack
            d< eds recovery g/b=1",
        )],
    );
}

// M35: plain names are globs only where the type opts in, in complete responses, too.
#[test]
fn plain_name_globs_require_type_option() {
    run_all(&[("M35", "set eds g/a=1\nd> eds +g/*\nd< eds first -g/*\n2> eds g/*\n2<")]);
    let mut config = ServerConfig::default();
    for short in ["eds", "cds"] {
        let mut ty = TypeConfig::of(&url(short));
        ty.globs = Globs::AnyName;
        config = config.with_type(url(short), ty);
    }
    run_all_with(
        &config,
        &[
            (
                "M35 M138",
                "
                set eds g/a=1 ga=1
                d> eds +g/*
                d< eds first g/a=1
                d> eds ack
                set eds g/x/b=1
                d< eds changed g/x/b=1",
            ),
            (
                "M138 M74 M76",
                "
                set cds g/a=1 g/b=1 h=1
                > cds g/*
                < cds first g/a=1 g/b=1
                > cds g/*
                set cds h=2
                <
                set cds g/b=2
                < cds changed g/a=1 g/b=2
                > cds g/*
                set cds -g/a
                < cds changed g/b=2
                > cds g/* h
                < cds resubscribed g/b=2 h=2
                > cds h
                <
                set cds g/b=3
                <",
            ),
        ],
    );
}

// M36, M142: locators are names; parameters are ignored.
#[test]
fn locators_subscribe_like_names() {
    run(&[
        (
            "M36 M142",
            "
            set own a=1 b=1 @/g/c=1
            > own a loc:b loc:@/g/*
            < own first a=1 b=1 @/g/c=1
            > own a loc:b loc:@/g/*
            <
            > own loc:b
            <
            set own a=2 b=2
            < own changed b=2",
        ),
        (
            "M36 M142 M140",
            "
            d> own +a loc:@/g/*
            d< own first -a -@/g/*",
        ),
    ]);
}

// M223, M225: view changes and bursts work for globs, and leave no state.
#[test]
fn globs_follow_view_changes_and_bursts() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    config.debounce = Some(Debounce::new(Duration::from_millis(10), Duration::from_millis(10)));
    let mut rig = Rig::new(config);
    rig.run(&expand(
        "
        set @v own @/g/same=1 @/g/other=1 @/g/gone=1
        set @w own @/g/same=1 @/g/other=2 @/g/more=1
        layers above w
        wait 10ms
        d> own +@/g/*
        assign 1 v
        d< own first @/g/same=1 @/g/other=1 @/g/gone=1
        d> own ack
        d> own +@/g/same             # by glob and by name
        d< own resubscribed @/g/same=1
        d> own ack
        assign 1 above
        d< own changed @/g/other=2 @/g/more=1 -@/g/gone
        d> own ack
        d<
        d> own -@/g/same
        d< own resubscribed @/g/same=1
        d> own ack
        set @w own @/g/new=1
        set @w own -@/g/same
        d<
        wait 10ms
        d< own changed @/g/new=1 -@/g/same
        d> own ack
        d<",
    ));
    let interests: Vec<_> = rig.server.status().map(|it| it.subscribed).collect();
    assert_eq!(interests, [SubscribedNames::Names(1)], "of the members it has not spoken");
    rig.run(&expand("1close\nset @v own -@/g/same -@/g/other -@/g/gone\nlayers above"));
    rig.run(&expand("set @w own -@/g/other -@/g/more -@/g/new\nwait 10ms"));
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.names, stats.payloads, stats.types), (1, 0, 0, 0));
    println!("covers: M223 M225 M138 M243");
}

// M139, M223, IS14: unsubscribing a name under a glob is answered with its state even after a view
// change. Names that were neither subscribed to nor sent are not reported.
#[test]
fn unsubscribed_name_under_glob_is_answered_after_view_change() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run(&expand(
        "
        set @v own @/g/sent=1
        set @w own @/g/other=1
        d> own +@/g/* +@/g/sent +@/g/none +@/g/late +@/g/other
        assign 1 v
        d< own first @/g/sent=1 -@/g/none -@/g/late -@/g/other
        set @v own @/g/late=1 @/g/unheard=1
        d> own -@/g/sent -@/g/none -@/g/late -@/g/other
        assign 1 w
        assign 1 v
        assign 1 w
        d> own ack
        d< own changed @/g/other=1 -@/g/sent -@/g/none -@/g/late
        d> own ack
        d<
        set @w own @/g/other=2 @/g/none=1
        d< own changed @/g/other=2 @/g/none=1",
    ));
    println!("covers: M139 M223 IS14");
}
