//! Aliases: a subscription by alias gets the resource under its own name.

use crate::support::{Rig, payload, run_all, run_all_with, url};
use xds_core::{
    Time,
    server::{
        Absence, Removals, ResourceOptions, Server, ServerConfig, Transaction, TransactionError,
        TypeConfig,
    },
};

#[test]
fn alias_subscription_gets_resource_under_its_name() {
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
            d> vhds +r/x             # answered again
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
            d> vhds ack -r/a         # by the resource's name
            set vhds r/a+r/x=3
            d<
            d> vhds +r/a
            d< vhds resubscribed r/a+r/x=3
            d> vhds ack -r/x         # by the resource's alias
            set vhds r/a+r/x=4
            d<
            d> vhds -r/x -r/none
            d<",
        ),
        // As clients do after learning the name.
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
        // Under the wildcard, an unsubscription is answered with the current state of the name.
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
fn subscriptions_by_several_names_get_resource_once() {
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
        // The name is unsubscribed while an alias stays: the client may have dropped the resource.
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
            d> vhds ack -r/a         # ends all subscriptions
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
            d> vhds ack -r/a         # the wildcard stays
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
            d> vhds ack +* +r/x      # subscribed to, so it is in the answer
            d< vhds resubscribed r/a+r/x=1",
        ),
        // The end of the wildcard does not end the subscription by alias.
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

// A removal is reported to clients that were sent the resource; an alias without a resource is
// reported as missing.
#[test]
fn removed_or_reassigned_alias_updates_its_subscribers() {
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
        // Of several resources the first by name counts; a client that has one by another name
        // keeps it.
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
        // A resource named like the alias takes precedence.
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
            set vhds r/b+r/x=1 r/c=1 # restored before it was sent
            d< vhds changed r/b+r/x=1
            d> vhds ack
            d<",
        ),
        // An error has no aliases: it is reported under the names subscribed to.
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
            set vhds !r/a=7          # the client may have learned the name
            d< vhds changed !r/a=7 !r/x=7 !r/y=7
            d> vhds ack +r/a -r/x -r/y
            d< vhds resubscribed !r/a=7
            d> vhds ack
            set vhds !r/a=13
            d< vhds changed !r/a=13",
        ),
        // An error replaces the alias until it is cleared.
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
            set vhds r/a=2           # the client keeps the resource
            d<
            set vhds r/b+r/x=1
            d< vhds changed r/b+r/x=1
            d> vhds ack
            set vhds -r/b
            d<",
        )],
    );
}

/// Stated versions are matched by the resources' own names.
#[test]
fn reconnecting_client_with_aliases_gets_difference() {
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
        // A client that names the resource in another way may not know that the alias belongs to
        // it.
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
        // An alias is not a resource name; if there once was a resource of that name, it is
        // removed.
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
fn unused_alias_leaves_no_state() {
    let mut rig = Rig::script("set eds a+x=1\nd> eds +x\nd< eds first a+x=1\nd> eds ack");
    assert_eq!(rig.server.stats().names, 2);
    rig.run("set eds -a\nd< eds changed -a -x\nclose");
    let stats = rig.server.stats();
    assert_eq!((stats.names, stats.types, stats.payloads), (0, 0, 0));
    println!("covers: M136 M243");
}

// M218: nothing is applied on an error.
#[test]
fn invalid_alias_is_refused() {
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

// M72, M104, M141: neither the order nor the spelling of aliases is part of a resource.
#[test]
fn alias_order_and_spelling_are_ignored() {
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
