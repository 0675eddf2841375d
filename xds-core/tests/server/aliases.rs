//! Resources with other names: who subscribes to one of these is sent the resource under its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Rig, payload, run_all, run_all_with, url};
use proptest::{collection::vec, prelude::*};
use xds_core::{
    Time,
    server::{
        Absence, AckGated, Admission, NackRecovery, OnDemand, OrderingPolicy, Removals,
        ResourceOptions, Server, ServerConfig, Transaction, TransactionError, TypeConfig,
    },
};

#[test]
fn a_subscription_by_alias_is_one_to_the_resource() {
    run_all(&[
        (
            "M136 S0.187 S0.188 S0.189 S0.190 S0.191",
            "
            set vhds r/a+r/x+r/y=1 r/b=1
            d> vhds +r/x
            d< vhds first r/a+r/x+r/y=1
            d> vhds ack
            set vhds r/a+r/x+r/y=2
            d< vhds changed r/a+r/x+r/y=2
            d> vhds ack
            set vhds r/b=2
            d<
            d> vhds +r/x             # it is always answered
            d< vhds resubscribed r/a+r/x+r/y=2",
        ),
        (
            "M136 S0.194",
            "
            set vhds r/a+r/x=1
            d> vhds +r/x
            d< vhds first r/a+r/x=1
            d> vhds ack -r/x
            set vhds r/a+r/x=2
            d<
            d> vhds +r/x
            d< vhds resubscribed r/a+r/x=2
            d> vhds ack -r/a         # by the name of what the alias stands for
            set vhds r/a+r/x=3
            d<
            d> vhds +r/a
            d< vhds resubscribed r/a+r/x=3
            d> vhds ack -r/x         # by an alias of what the name stands for
            set vhds r/a+r/x=4
            d<
            d> vhds -r/x -r/none
            d<",
        ),
        // As clients do that have learned the name.
        (
            "M136",
            "
            set vhds r/a+r/x=1
            d> vhds +r/x
            d< vhds first r/a+r/x=1
            d> vhds ack +r/a -r/x
            d< vhds resubscribed r/a+r/x=1
            d> vhds ack
            set vhds r/a+r/x=2
            d< vhds changed r/a+r/x=2
            d> vhds ack
            set vhds r/a=3
            d< vhds changed r/a=3
            d> vhds ack
            set vhds -r/a
            d< vhds changed -r/a",
        ),
    ]);
}

#[test]
fn several_names_of_one_resource_are_one_resource() {
    run_all(&[
        (
            "M136 M135",
            "
            set vhds r/a+r/x+r/y=1
            d> vhds +r/x +r/a +r/y
            d< vhds first r/a+r/x+r/y=1
            d> vhds ack
            d<
            set vhds r/a+r/x+r/y=2
            d< vhds changed r/a+r/x+r/y=2
            d> vhds ack
            d<
            d> vhds -r/x -r/y
            set vhds r/a+r/x+r/y=3
            d< vhds changed r/a+r/x+r/y=3
            d> vhds ack
            set vhds -r/a
            d< vhds changed -r/a",
        ),
        // The name goes, an alias stays: the client may have dropped what it still subscribes to.
        (
            "M136 S0.191",
            "
            set vhds r/a+r/x+r/y=1
            d> vhds +r/x +r/a +r/y
            d< vhds first r/a+r/x+r/y=1
            d> vhds ack -r/a
            d< vhds resubscribed r/a+r/x+r/y=1
            d> vhds ack -r/y
            d<
            set vhds r/a+r/x+r/y=2
            d< vhds changed r/a+r/x+r/y=2
            d> vhds ack -r/a         # now that of all that it subscribes to
            set vhds r/a+r/x+r/y=3
            d<",
        ),
        (
            "M136 M97 M91 M92",
            "
            set vhds r/a+r/x=1 r/b=1
            d> vhds +* +r/x +r/none
            d< vhds first r/a+r/x=1 r/b=1 -r/none
            d> vhds ack +r/x
            d< vhds resubscribed r/a+r/x=1
            d> vhds ack
            set vhds r/a+r/x=2
            d< vhds changed r/a+r/x=2
            d> vhds ack -r/x -r/none
            d< vhds resubscribed r/a+r/x=2 -r/none
            d> vhds ack
            d<
            set vhds r/a+r/x=3
            d< vhds changed r/a+r/x=3
            d> vhds ack -r/a         # the wildcard goes on
            d<",
        ),
        (
            "M136 M93",
            "
            set vhds r/a+r/x=1 r/b=1
            d> vhds +* +r/x
            d< vhds first r/a+r/x=1 r/b=1
            d> vhds ack -*
            d< vhds resubscribed -r/b
            d> vhds ack
            set vhds r/a+r/x=2
            d< vhds changed r/a+r/x=2",
        ),
        (
            "M136",
            "
            set vhds r/a+r/x=1
            d> vhds +r/a
            d< vhds first r/a+r/x=1
            d> vhds ack +* +r/x      # asked for, so it is in the answer
            d< vhds resubscribed r/a+r/x=1",
        ),
        // What passes with the wildcard does not end the subscription by alias.
        (
            "M136 M91",
            "
            set vhds r/a+r/x=1
            d> vhds +* +r/a
            d< vhds first r/a+r/x=1
            d> vhds ack
            d> vhds -r/a
            d> vhds +r/x
            d< vhds resubscribed r/a+r/x=1
            d> vhds ack -*
            d<
            set vhds r/a+r/x=2
            d< vhds changed r/a+r/x=2",
        ),
    ]);
}

/// Who is told what: that the resource is gone, to whom it was sent; and of the alias, that it stands for
/// nothing.
#[test]
fn an_alias_may_lead_nowhere_and_elsewhere() {
    run_all(&[
        (
            "M137",
            "
            set vhds r/a=1
            d> vhds +r/x
            d< vhds first -r/x
            d> vhds ack
            set vhds r/a+r/x=1       # only the alias is new
            d< vhds changed r/a+r/x=1
            d> vhds ack
            set vhds r/a=1
            d< vhds changed -r/a -r/x
            d> vhds ack
            set vhds r/a+r/x=2
            d< vhds changed r/a+r/x=2
            d> vhds ack
            set vhds -r/a
            d< vhds changed -r/a -r/x
            d> vhds ack
            d<",
        ),
        // Of several, the first by name; to who has it from elsewhere, nothing is gone.
        (
            "M136 M137",
            "
            set vhds r/b+r/x=1
            d> vhds +r/x
            d< vhds first r/b+r/x=1
            d> vhds ack
            2d> vhds +r/x +r/b
            2d< vhds first r/b+r/x=1
            2d> vhds ack
            3d> vhds +r/x +*
            3d< vhds first r/b+r/x=1
            3d> vhds ack
            set vhds r/c+r/x=1
            d<
            2d<
            3d< vhds changed r/c+r/x=1
            3d> vhds ack
            set vhds r/a+r/x=1
            d< vhds changed r/a+r/x=1 -r/b
            d> vhds ack
            2d< vhds changed r/a+r/x=1
            2d> vhds ack
            3d< vhds changed r/a+r/x=1
            3d> vhds ack
            set vhds r/b+r/x=2
            d<
            2d< vhds changed r/b+r/x=2
            set vhds -r/a
            d< vhds changed r/b+r/x=2 -r/a
            d> vhds ack
            d<",
        ),
        // A resource of the alias' own name counts more.
        (
            "M136 M137",
            "
            set vhds r/a+r/x=1
            d> vhds +r/x
            d< vhds first r/a+r/x=1
            d> vhds ack
            set vhds r/x=1
            d< vhds changed r/x=1 -r/a
            d> vhds ack
            set vhds r/a+r/x=2
            d<
            set vhds -r/x
            d< vhds changed r/a+r/x=2 -r/x
            d> vhds ack
            d<
            d> vhds -r/x
            set vhds r/a+r/x=3 r/x=2
            d<",
        ),
        (
            "M136 M103",
            "
            set vhds r/a+r/x=1
            d> vhds +r/x
            d< vhds first r/a+r/x=1
            d> vhds ack
            set vhds -r/a r/b+r/x=1  # in one transaction
            d< vhds changed r/b+r/x=1 -r/a
            d> vhds ack
            d<
            set vhds r/b=1 r/c+r/x=1
            set vhds r/b+r/x=1 r/c=1 # and back before the client heard of it
            d< vhds changed r/b+r/x=1
            d> vhds ack
            d<",
        ),
        // An error stands for the alias, then it is over.
        (
            "M136 M171 M176",
            "
            set vhds r/a+r/x=1
            d> vhds +r/x
            d< vhds first r/a+r/x=1
            d> vhds ack
            set vhds !r/x=7
            d< vhds changed !r/x=7
            d> vhds ack
            set vhds -r/x
            d< vhds changed r/a+r/x=1
            d> vhds ack
            set vhds -r/a
            d< vhds changed -r/a -r/x",
        ),
    ]);
    let mut config = ServerConfig::default();
    let mut ty = TypeConfig::of(&url("vhds"));
    ty.removals = Removals::Suppress;
    ty.absence = Absence::EmptyResource;
    config = config.with_type(url("vhds"), ty);
    run_all_with(
        &config,
        &[(
            "M137 M133 X05",
            "
            d> vhds +r/x
            d< vhds first ?r/x
            d> vhds ack
            set vhds r/a+r/x=1
            d< vhds changed r/a+r/x=1
            d> vhds ack
            set vhds r/a=2           # it keeps what it has
            d<
            set vhds r/b+r/x=1
            d< vhds changed r/b+r/x=1
            d> vhds ack
            set vhds -r/b
            d<",
        )],
    );
}

/// What the client says that it has is said of resources, by their own names.
#[test]
fn a_client_comes_back_with_aliases() {
    run_all(&[
        (
            "M136 M116 M117",
            "
            set vhds r/a+r/x=1 r/b+r/y=1
            d> vhds +r/x +r/y
            d< vhds first r/a+r/x=1 r/b+r/y=1
            close
            set vhds r/b+r/y=2
            2d> vhds +r/x +r/y has:r/a+r/x=1 has:r/b+r/y=1
            2d< vhds first r/b+r/y=2
            2d> vhds ack
            set vhds r/a+r/x=2
            2d< vhds changed r/a+r/x=2",
        ),
        (
            "M136 M126",
            "
            set vhds r/a+r/x=1
            d> vhds +r/x
            d< vhds first r/a+r/x=1
            close
            2d> vhds +r/x has:r/a+r/x=1
            2d<
            set vhds -r/a
            2d< vhds first -r/a -r/x",
        ),
        // An alias is not the name of a resource that it could have; if it once was, that is gone.
        (
            "M136 M118 M120",
            "
            set vhds r/a+r/x=1
            d> vhds +r/x has:r/x@old
            d< vhds first r/a+r/x=1 -r/x
            d> vhds ack
            d<
            2d> vhds +r/x has:r/x@old has:r/a+r/x=1
            2d< vhds first r/a+r/x=1 -r/x
            2d> vhds ack
            2d<",
        ),
    ]);
}

#[test]
fn aliases_keep_to_the_rules_of_names() {
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
        // Another resource with the alias is no reason to renew later.
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
    config.on_demand = OnDemand::Told;
    run_all_with(
        &config,
        &[(
            "M136 M254",
            "
            set eds a+x=1
            d> eds +x                # there is nothing to ask for
            asked
            d< eds first a+x=1
            d> eds ack +y
            wanted eds y
            d<
            set eds b+y=1            # which is an answer
            d< eds changed b+y=1
            d> eds ack -y
            unwanted eds y",
        )],
    );
}

/// M146, M147: the alias goes with the resource, when that may be told; another one is sent before.
#[test]
fn aliases_of_what_lingers() {
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(AckGated::default());
    config.admission = Admission::Asked;
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

/// M222, M223, M224: what an alias stands for depends on the view, which may be made of layers.
#[test]
fn aliases_in_views() {
    let mut config = ServerConfig::default();
    config.admission = Admission::Asked;
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
        assign 1 over                # r/b is another one there and has lost an alias
        d< vhds changed r/d+r/y=1 -r/b
        d> vhds ack
        set @own vhds r/a+r/y=3      # hides the one below
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

#[test]
fn nothing_is_left_of_an_alias_that_nobody_has() {
    let mut rig = Rig::script("set eds a+x=1\nd> eds +x\nd< eds first a+x=1\nd> eds ack");
    assert_eq!(rig.server.stats().names, 2);
    rig.run("set eds -a\nd< eds changed -a -x\nclose");
    let stats = rig.server.stats();
    assert_eq!((stats.names, stats.types, stats.payloads), (0, 0, 0));
    println!("covers: M136 M243");
}

/// M218: nothing is applied then.
#[test]
fn an_alias_must_be_one_that_a_client_can_ask_for() {
    let mut config = ServerConfig::default();
    config.limits.name_bytes = 100;
    config.limits.aliases_per_resource = 3;
    let long = "x".repeat(101);
    let apply = |aliases: &[&str]| {
        let mut server = Server::new(config.clone(), 1, Time::ZERO);
        let mut transaction = Transaction::new();
        let options =
            aliases.iter().fold(ResourceOptions::default(), |it, alias| it.with_alias(*alias));
        transaction.set("type.test/own", "fine", payload("fine", "1"));
        transaction.set_with("type.test/own", "a", payload("a", "1"), options);
        let applied = server.apply(transaction, Time::ZERO);
        assert_eq!(server.stats().resources, if applied.is_ok() { 2 } else { 0 });
        applied.map(drop)
    };
    assert_eq!(apply(&["x", "y", "z"]), Ok(()));
    assert_eq!(apply(&["x", "y", "z", "x"]), Ok(()), "the same again is no other");
    for (alias, error) in [
        ("", TransactionError::EmptyName { change: 1 }),
        ("*", TransactionError::WildcardName { change: 1 }),
        ("xdstp://au/other/a", TransactionError::ForeignName { change: 1 }),
        ("xdstp://au/own/g/*", TransactionError::GlobName { change: 1 }),
        (&long, TransactionError::NameTooLong { change: 1, bytes: 101, limit: 100 }),
    ] {
        assert_eq!(apply(&["good", alias]), Err(error));
    }
    let error = apply(&["xdstp:own/a"]).expect_err("malformed");
    assert!(matches!(error, TransactionError::MalformedName { change: 1, .. }), "{error}");
    let error = TransactionError::TooManyAliases { change: 1, aliases: 4, limit: 3 };
    assert_eq!(apply(&["1", "2", "3", "4"]), Err(error));
    println!("covers: M218");
}

/// M72, M104, M141: the order in which aliases are given is not part of a resource, nor the form of one.
#[test]
fn aliases_are_a_set() {
    let mut rig = Rig::default();
    let mut set = |aliases: &[&str]| {
        let options =
            aliases.iter().fold(ResourceOptions::default(), |it, alias| it.with_alias(*alias));
        let mut transaction = Transaction::new();
        transaction.set_with("type.test/own", "a", payload("a", "1"), options);
        rig.server.apply(transaction, rig.now).expect("good aliases").changed
    };
    assert_eq!(set(&["x", "xdstp://au/own/a?x=1&y=2"]), 1);
    assert_eq!(set(&["xdstp://au/own/a?y=2&x=%31", "x", "x"]), 0);
    assert_eq!(set(&["xdstp://au/own/a?y=2&x=%31", "a"]), 1);
    let name = "xdstp://au/own/a?y=2&x=1";
    rig.run(&format!("d> own +{name}\nd< own first a+xdstp://au/own/a?x=1&y=2=1"));
    println!("covers: M104 M141");
}

const NAMES: [&str; 4] = ["a", "b", "c", "x"];
const ALIASES: [&str; 2] = ["x", "y"];
const ASKED: [&str; 6] = ["a", "b", "c", "x", "y", "*"];

#[derive(Clone, Debug)]
enum Op {
    Set(usize, Vec<(usize, Option<(u8, u8)>)>),
    Change(u8, u8),
    Assign(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let content = proptest::option::weighted(0.7, (0..2u8, 0..4u8));
    prop_oneof![
        5 => (0..2usize, vec((0..NAMES.len(), content), 1..3)).prop_map(|(view, set)| Op::Set(view, set)),
        2 => (0..64u8, 0..64u8).prop_map(|(add, drop)| Op::Change(add & drop, drop & !add)),
        3 => (0..6u8, any::<bool>()).prop_map(|(bit, add)| match add {
            true => Op::Change(1 << bit, 0),
            false => Op::Change(0, 1 << bit),
        }),
        1 => (0..3usize).prop_map(Op::Assign),
    ]
}

/// The resources of a view: what is sent of each, and its aliases.
type View = BTreeMap<&'static str, (String, Vec<&'static str>)>;

/// What a name stands for.
fn meaning(view: &View, name: &'static str) -> Option<&'static str> {
    let by_alias = || view.iter().find(|(_, (_, aliases))| aliases.contains(&name)).map(|it| *it.0);
    view.contains_key(name).then_some(name).or_else(by_alias)
}

/// What a client sees: one of the views, or the first above the second.
fn seen(views: &[View; 2], current: usize) -> View {
    match views.get(current) {
        Some(view) => view.clone(),
        None => views.iter().rev().flatten().map(|(name, it)| (*name, it.clone())).collect(),
    }
}

/// What is subscribed to by names.
fn meant(view: &View, asked: &BTreeSet<&'static str>) -> BTreeSet<&'static str> {
    asked.iter().filter_map(|name| meaning(view, name)).collect()
}

/// A client that remembers what it was told.
#[derive(Default)]
struct Client {
    asked: BTreeSet<&'static str>,
    held: BTreeMap<String, String>,
    /// The names that it was told to stand for nothing.
    absent: BTreeSet<String>,
}

impl Client {
    fn change(&mut self, view: &View, add: u8, drop: u8) -> String {
        let before = meant(view, &self.asked);
        let is_in = |bits: u8, bit: usize| bits & (1 << bit) != 0;
        let named = |bits: u8| {
            ASKED.into_iter().enumerate().filter(move |it| is_in(bits, it.0)).map(|it| it.1)
        };
        let mut words = String::new();
        for name in named(add) {
            self.asked.insert(name);
            self.absent.remove(name);
            words += &format!(" +{name}");
        }
        for name in named(drop) {
            words += &format!(" -{name}");
            // What it does not subscribe to by this name, it means by all names of that.
            if !self.asked.remove(name)
                && let Some(resource) = meaning(view, name)
            {
                self.asked.retain(|name| meaning(view, name) != Some(resource));
            }
        }
        if !self.asked.contains("*") {
            // What it has dropped itself it forgets.
            let now = meant(view, &self.asked);
            self.held.retain(|name, _| now.contains(&**name) || !before.contains(&**name));
        }
        words
    }

    fn take(&mut self, rig: &mut Rig) -> bool {
        let Some(received) = rig.receive(1) else { return false };
        let all = received.resources();
        for name in all.iter().filter_map(|text| text.strip_prefix('-')) {
            self.held.remove(name);
            self.absent.insert(name.into());
        }
        for text in all.iter().filter(|text| !text.starts_with('-')) {
            let names: Vec<_> = text.split('=').next().unwrap().split('+').collect();
            self.held.insert(names[0].into(), text.clone());
            for name in names {
                self.absent.remove(name);
            }
        }
        rig.run("d> eds ack");
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// IS5, IS11: a client of names, aliases and the wildcard ends up with what they stand for in
    /// its view, and knows which stand for nothing.
    #[test]
    fn a_client_holds_what_its_names_stand_for(ops in vec(op(), 1..40)) {
        let mut config = ServerConfig::default();
        config.admission = Admission::Asked;
        let mut rig = Rig::new(config);
        let mut views = [View::new(), View::new()];
        let mut current = 0;
        let mut client = Client::default();
        rig.run("layers v2 v0 v1\nd> eds +none\nassign 1 v0\nd< eds first -none\nd> eds ack -none\nd<");
        for op in ops {
            match op {
                Op::Set(view, changes) => {
                    let mut words = String::new();
                    for (name, content) in changes {
                        let name = NAMES[name];
                        views[view].remove(name);
                        let Some((content, bits)) = content else {
                            words += &format!(" -{name}");
                            continue;
                        };
                        let is_in = |alias: &&str| {
                            **alias != *name && bits & (1 << usize::from(**alias == *"y")) != 0
                        };
                        let aliases: Vec<_> = ALIASES.into_iter().filter(is_in).collect();
                        let text = aliases.iter().fold(String::from(name), |it, alias| it + "+" + alias);
                        let text = format!("{text}={content}");
                        words += &format!(" {text}");
                        views[view].insert(name, (text, aliases));
                    }
                    rig.run(&format!("set @v{view} eds{words}"));
                }
                Op::Change(add, drop) => {
                    // What crosses a response is another test's matter.
                    while client.take(&mut rig) {}
                    let words = client.change(&seen(&views, current), add, drop);
                    rig.run(&format!("d> eds{words}"));
                }
                Op::Assign(view) => {
                    rig.run(&format!("assign 1 v{view}"));
                    current = view;
                }
            }
            let mut rounds = 0;
            while client.take(&mut rig) {
                rounds += 1;
                prop_assert!(rounds < 10, "it never ends");
            }
            let view = &seen(&views, current);
            let wanted = meant(view, &client.asked);
            let everything = client.asked.contains("*");
            let wanted: BTreeMap<String, String> = view
                .iter()
                .filter(|(name, _)| everything || wanted.contains(*name))
                .map(|(name, (text, _))| ((*name).into(), text.clone()))
                .collect();
            prop_assert_eq!(&client.held, &wanted);
            for name in client.asked.iter().filter(|name| **name != "*") {
                let is_told = client.absent.contains(*name);
                prop_assert_eq!(is_told, meaning(view, name).is_none(), "{} stands for nothing", name);
            }
        }
        rig.run("1close");
        let names: usize = views.iter().map(BTreeMap::len).sum();
        prop_assert_eq!(rig.server.stats().names, names);
    }
}
