//! Errors of single resources.
// TP3

use crate::support::{Rig, run_all, url};
use xds_core::server::{
    Observation, ServerConfig, ServerLimits, StatusCode, Transaction, TransactionError,
};

// M171-M179: an error is sent once to clients that name the resource, next to valid resources,
// until the resource is sent.
#[test]
fn resource_error_is_sent_once_to_named_subscriptions() {
    run_all(&[
        (
            "M171 M172 M174 M175 M176 IS28 S3.002",
            "
            set eds a=1 !b=7 !c=14
            d> eds +a +b +c
            d< eds first a=1 !b=7 !c=14
            d> eds ack
            set eds !b=7
            d<
            set eds !b=13
            d< eds changed !b=13
            d> eds ack
            set eds b=1 -c
            d< eds changed b=1 -c
            d> eds ack
            d<",
        ),
        (
            "M171 M172 M173 IS28",
            "
            set eds a=1 !b=5
            > eds a b
            < eds first a=1 !b=5
            > eds a b
            <
            set eds !b=7
            < eds changed !b=7
            > eds a b
            set eds b=1
            < eds changed b=1",
        ),
        // If a resource is removed with its error, the removal is reported.
        (
            "M176 M129",
            "
            set eds b=1
            set eds !b=7
            d> eds +b
            d< eds first !b=7
            d> eds ack
            set eds -b
            d< eds changed -b
            d> eds ack
            d<",
        ),
        (
            "M177 M172",
            "
            set cds a=1 b=1
            > cds a b
            < cds first a=1 b=1
            > cds a b
            set cds !b=7
            < cds changed a=1 !b=7
            > cds a b
            <
            set cds a=2
            < cds changed a=2
            > cds a b
            set cds b=1
            < cds changed a=2 b=1",
        ),
        // A missing resource does not clear an error; "does not exist" is an error like others
        // (TP3).
        (
            "M171 M173 M177",
            "
            set cds a=1
            > cds a
            < cds first a=1
            > cds a
            set cds !a=14
            < cds changed !a=14
            > cds a
            set cds !a=5
            < cds changed !a=5
            > cds a
            set cds -a
            < cds changed
            > cds a
            <",
        ),
        (
            "M178",
            "
            set cds a=1 b=1
            d> cds +* +b +c
            d< cds first a=1 b=1 -c
            d> cds ack
            set cds !b=7 !c=7
            d< cds changed !c=7
            2> cds
            2< cds first a=1 b=1
            3d> cds
            3d< cds first a=1 b=1",
        ),
        // A client that got an error no longer has the resource, and a wildcard brings it again.
        (
            "M178",
            "
            set eds a=1 b=1
            > eds a b
            < eds first a=1 b=1
            > eds a b
            set eds !b=7
            < eds changed !b=7
            > eds a b
            > eds * b
            < eds resubscribed b=1
            > eds * b
            <
            set eds !b=13
            <",
        ),
        (
            "M178",
            "
            set eds a=1 b=1
            > eds a b
            < eds first a=1 b=1
            > eds a b
            set eds !b=7
            < eds changed !b=7
            > eds a b
            > eds *
            < eds resubscribed b=1
            > eds *
            <",
        ),
        (
            "M178",
            "
            set cds a=1 b=1
            d> cds +a +b
            d< cds first a=1 b=1
            d> cds ack
            set cds !b=7
            d< cds changed !b=7
            d> cds ack
            d> cds +*
            d< cds resubscribed b=1
            d> cds ack
            d<",
        ),
        // A client that has a resource by wildcard gets its removal, not its later error.
        (
            "M178 IS28",
            "
            set cds a=1 b=1 c=1
            d> cds +*
            d< cds first a=1 b=1 c=1
            2d> cds +* has:a=1 has:b=1
            set cds -a
            set cds !a=7
            2d< cds first c=1 -a
            2d> cds ack
            2d<",
        ),
        (
            "M223",
            "
            set eds a=1 b=1
            set @v eds a=1 b=1
            > eds a b
            < eds first a=1 b=1
            > eds a b
            set eds !b=7
            < eds changed !b=7
            > eds a b
            assign 1 v
            < eds changed b=1",
        ),
        (
            "M179",
            "
            set eds !b=5
            d> eds +b
            d< eds first -b
            d> eds ack
            set eds !b=7
            d< eds changed !b=7
            d> eds ack
            set eds -b
            d< eds changed -b",
        ),
        (
            "M171 IS6",
            "
            set eds !b=7
            d> eds +b
            d< eds first !b=7
            d> eds ack
            d> eds +b
            d< eds resubscribed !b=7",
        ),
    ]);
}

// M171: a client ignores a resource error with the status OK, so none is sent.
#[test]
fn resource_error_with_status_ok_is_sent_as_unknown() {
    run_all(&[("M171", "set eds !a=0\nd> eds +a\nd< eds first !a=2")]);
}

// M218, M243: an error message is limited like a name, and freed with its resource.
#[test]
fn resource_errors_are_limited_and_freed() {
    let mut rig = Rig::script("set eds !a=7");
    let mut long = Transaction::new();
    long.set_error(url("eds"), "a", StatusCode::Internal, "x".repeat(3_000));
    let error = rig.server.apply(long, rig.now).expect_err("too long");
    assert_eq!(error, TransactionError::MessageTooLong { change: 0, bytes: 3_000, limit: 2_048 });
    assert_eq!((rig.server.stats().resources, rig.server.stats().names), (1, 1));
    rig.run("set eds -a");
    assert_eq!((rig.server.stats().resources, rig.server.stats().names), (0, 0));
    assert_eq!(rig.server.stats().types, 0);
    println!("covers: M218 M243");
}

// IS26: a client that cannot receive a response of this size would reconnect for it forever. Named
// subscriptions get an error, the application is notified, and other resources are sent as usual.
#[test]
fn oversized_resource_is_reported_as_error() {
    let mut limits = ServerLimits::default();
    limits.response_bytes = 200;
    let config = ServerConfig::default().with_limits(limits);
    let long = "x".repeat(300);
    let told = |rig: &mut Rig| {
        let observations = rig.observations().into_iter();
        let told = observations.filter_map(|observation| match observation {
            Observation::ResourceTooLong { name, bytes, .. } => Some((name.to_string(), bytes)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    for (d, ty, subscribe, ack) in
        [("d", "eds", "+a +b", "ack"), ("", "eds", "a b", "a b"), ("d", "cds", "+a +b", "ack")]
    {
        let mut rig = Rig::new(config.clone());
        rig.run(&format!("set {ty} a={long} b=1\n{d}> {ty} {subscribe}"));
        let mut got = Vec::new();
        while let Some(received) = rig.receive(1) {
            got.extend(received.resources());
            rig.run(&format!("{d}> {ty} {ack}"));
        }
        got.sort();
        assert_eq!(got, ["!a=8", "b=1"]);
        assert_eq!(told(&mut rig), [("a".into(), 302)]);
        // The error is sent once, and a changed resource is sent.
        rig.run(&format!("{d}<\nset {ty} b=2\n{d}< {ty} changed b=2\n{d}> {ty} {ack}"));
        rig.run(&format!("set {ty} a=2\n{d}< {ty} changed a=2\n{d}> {ty} {ack}"));
        rig.run(&format!("set {ty} a={long}\n{d}< {ty} changed !a=8\n{d}> {ty} {ack}\n{d}<"));
        if d == "d" {
            rig.run(&format!("set {ty} -a\nd< {ty} changed -a\nd> {ty} ack\nd<"));
            rig.run(&format!("set {ty} a={long}\nd< {ty} changed !a=8\nd> {ty} ack"));
            rig.run(&format!("set {ty} -a\nd< {ty} changed -a\nd> {ty} ack\nd<"));
        }
        rig.run("close");
    }
    println!("covers: IS26 M83");
}

// M160, IS26: a resource that was too long is not renewed; a wildcard subscription gets it alone.
#[test]
fn oversized_resource_is_not_renewed() {
    let mut limits = ServerLimits::default();
    limits.response_bytes = 200;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    let long = "x".repeat(300);
    rig.run(&format!("set eds a~10s={long}\ntd> eds +a\ntd< eds first !a=8\ntd> eds ack"));
    rig.run("wait 60s\ntd<");
    rig.observations();
    rig.run(&format!("td> eds +*\ntd< eds resubscribed a~10s={long}\ntd> eds ack"));
    let is_told = |it: &Observation| matches!(it, Observation::Oversize { bytes: 300.., .. });
    assert!(rig.observations().iter().any(is_told));
    println!("covers: IS26 M161");
}

/// A stated resource that is too long by name is not renewed by sending it.
#[test]
fn oversized_stated_resource_gets_error_after_ttl() {
    let mut limits = ServerLimits::default();
    limits.response_bytes = 200;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    let long = "x".repeat(300);
    rig.run(&format!("set eds a~10s={long}\n9d> eds +*\n9d< eds first a={long}"));
    rig.run(&format!("td> eds +a has:a={long}\ntd< eds heartbeat a~10s"));
    // After the TTL, so that the client may have dropped it.
    rig.run("wait 12s\ntd> eds ack\ntd< eds first !a=8\ntd> eds ack\nwait 30s\ntd<");
    println!("covers: IS26 M161");
}

// A wildcard subscription is answered by the first part. If the rest is removed before it is sent,
// no response follows (IS5), unless the client subscribes again (IS7).
#[test]
fn removal_of_unsent_parts_sends_no_empty_response() {
    let mut limits = ServerLimits::default();
    limits.response_bytes = 150;
    let config = ServerConfig::default().with_limits(limits);
    let long = |letter: &str| letter.repeat(60);
    let (a, b, c) = (long("a"), long("b"), long("c"));
    for request in ["+*", "+* +a"] {
        let mut rig = Rig::new(config.clone());
        rig.run(&format!("set eds a={a}\nset eds b={b}\nset eds c={c}\nd> eds {request}"));
        rig.run(&format!("d< eds first a={a}\nset eds -b -c\nd> eds ack\nd<"));
        rig.run(&format!("d> eds {request}\nd< eds resubscribed a={a}\nd> eds ack\nd<"));
        rig.run("set eds -a\nd< eds changed -a\nd> eds ack\nd<");
        rig.run("d> eds +*\nd< eds resubscribed\nd> eds ack\nd<");
    }
    println!("covers: IS5 IS7 IS26");
}
