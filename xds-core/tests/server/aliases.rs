//! Resources with other names: who subscribes to one of these is sent the resource under its own.

use crate::support::{Rig, payload, run_all, run_all_with, url};
use xds_core::{
    Time,
    server::{
        Absence, Removals, ResourceOptions, Server, ServerConfig, Transaction, TransactionError,
        TypeConfig,
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
        // Under the wildcard, an end of a subscription is answered with where the name stands.
        (
            "M136 M91 IS11",
            "
            d> vhds +r/x
            d< vhds first -r/x
            d> vhds +*
            d> vhds -r/x
            set vhds r/a+r/x=1
            d> vhds ack
            d< vhds changed r/a+r/x=1",
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
        // An error of the resource has no other names beside it: it is told under those that are asked for.
        (
            "M136 M171 M176 S0.191",
            "
            set vhds r/a+r/x+r/y=1
            set vhds !r/a=7
            d> vhds +r/x
            d< vhds first !r/x=7
            d> vhds ack
            set vhds !r/a=13
            d< vhds changed !r/x=13
            d> vhds ack +r/y
            d< vhds resubscribed !r/x=13 !r/y=13
            d> vhds ack
            set vhds r/a+r/x+r/y=2
            d< vhds changed r/a+r/x+r/y=2
            d> vhds ack
            set vhds !r/a=7          # it may have learned the name of what it has
            d< vhds changed !r/a=7 !r/x=7 !r/y=7
            d> vhds ack +r/a -r/x -r/y
            d< vhds resubscribed !r/a=7
            d> vhds ack
            set vhds !r/a=13
            d< vhds changed !r/a=13",
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
        // Who asks for what it has in another way as well may not know that the alias is a name of it.
        (
            "M136 IS7",
            "
            set vhds r/a+r/x+r/y=1 r/b=1
            d> vhds +r/a +r/b
            d< vhds first r/a+r/x+r/y=1 r/b=1
            close
            2d> vhds +r/a +r/x has:r/a+r/x+r/y=1
            2d< vhds first r/a+r/x+r/y=1
            2d> vhds ack
            2d<
            4d> vhds +r/x +r/y has:r/a+r/x+r/y=1
            4d< vhds first r/a+r/x+r/y=1
            4d> vhds ack
            4d<
            3d> vhds +* +r/x has:r/a+r/x+r/y=1 has:r/b=1
            3d< vhds first r/a+r/x+r/y=1
            3d> vhds ack
            3d<",
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
