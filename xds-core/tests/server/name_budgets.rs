//! Budgets of names, for one connection and for all of them, and quotas by principal.
// M242, IS24

use crate::support::{Rig, request_of};
use xds_core::server::{
    CloseReason, Connection, PerClientLimits, ServerConfig, ServerLimits, StatusCode, Variant,
};

/// Returns a server with these limits, whose streams 1 and 2 are on one connection, and stream 3 on
/// another.
fn rig(variant: Variant, limit: impl FnOnce(&mut ServerLimits)) -> Rig {
    let mut limits = ServerLimits::default();
    limit(&mut limits);
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    for (stream, connection) in [(1, 7), (2, 7), (3, 8)] {
        rig.open_on(stream, variant, &Connection::new(connection));
    }
    rig
}

#[test]
fn default_allows_100_000_names_on_a_connection() {
    let limits = ServerLimits::default();
    assert_eq!((limits.names_per_connection, limits.names), (100_000, 10_000_000));
    assert_eq!(PerClientLimits::from(&limits).names_per_connection, 100_000);
}

#[test]
fn streams_of_a_connection_share_its_budget() {
    let over = CloseReason::TooManyNamesOnConnection { limit: 3 };
    assert_eq!(over.code(), StatusCode::ResourceExhausted);
    assert_eq!(over.to_string(), "more than 3 resource names on one connection");
    for (variant, [two, one, again]) in [
        (Variant::StateOfTheWorld, ["> eds a b", "> eds a", "> cds x"]),
        (Variant::Incremental, ["> eds +a +b", "> eds +a", "> cds +x"]),
    ] {
        let mut rig = rig(variant, |limits| limits.names_per_connection = 3);
        rig.run(&format!("{two}\n2{one}\nopen\n2open\n3{two}"));
        assert_eq!(rig.server.stats().held_names, 5);
        rig.run(&format!("2{again}"));
        assert_eq!(rig.take_close(2), Some(over.clone()), "{variant:?}");
        // The names of the closed stream do not count any more.
        rig.run(&format!("open\n3open\n{again}\nopen"));
        assert_eq!(rig.server.stats().held_names, 5);
        rig.run("close\n3close");
        assert_eq!(rig.server.stats().held_names, 0);
        assert_eq!(rig.server.stats().closed.subscriptions, 1);
    }
    println!("covers: M242 IS24");
}

#[test]
fn stream_without_connection_has_a_budget_of_its_own() {
    let mut rig = rig(Variant::StateOfTheWorld, |limits| limits.names_per_connection = 2);
    rig.run("4> eds a b\n5> eds a b\n4open\n5open\n4> eds a b c");
    assert_eq!(rig.take_close(4), Some(CloseReason::TooManyNamesOnConnection { limit: 2 }));
}

#[test]
fn list_may_replace_as_many_names_as_the_budget_allows() {
    let mut rig = rig(Variant::StateOfTheWorld, |limits| limits.names_per_connection = 3);
    rig.run(
        "set eds a=1\n2> cds x\n> eds a b\n< eds first a=1\n> eds c d\n> eds e\n> eds f g\nopen",
    );
    assert_eq!(rig.server.stats().held_names, 3);
    rig.run("> eds f g h\nclosed 8");
}

#[test]
fn incremental_client_may_repeat_names_at_its_budget() {
    let mut rig = rig(Variant::Incremental, |limits| limits.names_per_connection = 3);
    rig.run("> eds +a +b +c\n> eds +a +b +c +a\n> eds -a\n> eds +d\nopen\n> eds +e\nclosed 8");
}

#[test]
fn long_name_counts_once_per_256_bytes() {
    let [short, long] = [256, 257].map(|bytes| "n".repeat(bytes));
    for (variant, sign) in [(Variant::StateOfTheWorld, ""), (Variant::Incremental, "+")] {
        let mut rig = rig(variant, |limits| limits.names_per_connection = 2);
        rig.run(&format!("> eds {sign}a {sign}{short}\nopen\n3> eds {sign}{long}\n3open"));
        assert_eq!(rig.server.stats().held_names, 4);
        rig.run(&format!("3> cds {sign}a\n3closed 8\nclose"));
        assert_eq!(rig.server.stats().held_names, 0);
    }
}

#[test]
fn unsubscribed_and_covered_names_do_not_count() {
    let mut rig = rig(Variant::Incremental, |_| {});
    let long = "n".repeat(300);
    rig.run(&format!("set eds a=1 b=1\n> eds +a +b +{long}\n< eds first a=1 b=1 -{long}"));
    assert_eq!(rig.server.stats().held_names, 4);
    rig.run(&format!("> eds ack -{long} -a"));
    assert_eq!(rig.server.stats().held_names, 1);
    // Under the wildcard, an unsubscribed name counts until it is answered.
    rig.run("> eds +*\n< eds resubscribed a=1\n> eds ack -b");
    assert_eq!(rig.server.stats().held_names, 1);
    rig.run("< eds resubscribed b=1\n> eds ack");
    assert_eq!(rig.server.stats().held_names, 0);
}

#[test]
fn moved_client_keeps_its_count() {
    let mut rig = rig(Variant::Incremental, |_| {});
    let long = "n".repeat(300);
    rig.run(&format!("set eds a=1\nset @v eds a=1\n> eds +a +{long}\nassign 1 v"));
    assert_eq!(rig.server.stats().held_names, 3);
    rig.run("close");
    assert_eq!(rig.server.stats().held_names, 0);
}

// The rule for all connections: that with most names gives way.
#[test]
fn heaviest_connection_ends_when_all_hold_too_many_names() {
    let over = CloseReason::TooManyNamesInTotal { limit: 5 };
    assert_eq!(over.code(), StatusCode::ResourceExhausted);
    let mut rig = rig(Variant::StateOfTheWorld, |limits| limits.names = 5);
    rig.run("> eds a b\n2> cds a\n3> eds a b\nopen\n2open\n3open\n3> eds a\n3> eds a b\n3open");
    rig.run("4> rds x");
    for stream in [1, 2] {
        assert_eq!(rig.take_close(stream), Some(over.clone()));
    }
    rig.run("3open\n4open");
    assert_eq!(rig.server.stats().held_names, 3);
    // It may be the one that subscribes.
    rig.run("4> rds u v w x");
    assert_eq!(rig.take_close(4), Some(over));
    rig.run("3open");
    assert_eq!(rig.server.stats().closed.subscriptions, 3);
}

#[test]
fn limit_of_a_client_replaces_that_of_its_connection() {
    let mut rig = rig(Variant::StateOfTheWorld, |limits| limits.names_per_connection = 2);
    let mut more = PerClientLimits::from(&ServerLimits::default());
    more.names_per_connection = 4;
    let id = rig.stream(1);
    rig.server.limit_client(id, more, rig.now);
    rig.run("> eds a b c d\nopen\n2> eds a");
    assert_eq!(rig.take_close(2), Some(CloseReason::TooManyNamesOnConnection { limit: 2 }));
    rig.run("> eds a b c d e");
    assert_eq!(rig.take_close(1), Some(CloseReason::TooManyNamesOnConnection { limit: 4 }));
}

// IS24: a client cannot use up the streams of a node of another identity.
#[test]
fn streams_per_node_are_counted_by_principal() {
    let mut limits = ServerLimits::default();
    limits.streams_per_node = 2;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    let variant = Variant::StateOfTheWorld;
    let open = |rig: &mut Rig, stream, connection: &Connection| {
        rig.open_on(stream, variant, connection);
        let id = rig.stream(stream);
        rig.message(id, &request_of("node", "cds"));
    };
    let [thief, owner] = ["spiffe://a/thief", "spiffe://a/owner"];
    let of = |id, principal| Connection::new(id).with_principal(principal);
    for stream in 1..=2 {
        open(&mut rig, stream, &of(stream.into(), thief));
    }
    for stream in 3..=4 {
        open(&mut rig, stream, &of(stream.into(), owner));
    }
    open(&mut rig, 5, &Connection::new(5));
    for stream in 1..=5 {
        assert_eq!(rig.take_close(stream), None, "{stream}");
    }
    let over = Some(CloseReason::TooManyStreamsOfNode { limit: 2 });
    open(&mut rig, 6, &of(6, thief));
    assert_eq!(rig.take_close(6), over);
    open(&mut rig, 7, &of(7, owner));
    assert_eq!(rig.take_close(7), over);
    rig.run("3close");
    open(&mut rig, 8, &of(8, owner));
    assert_eq!(rig.take_close(8), None);
    println!("covers: M242 IS24");
}
