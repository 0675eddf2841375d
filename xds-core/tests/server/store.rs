//! Transactions: their effects, their errors, and versions.

use crate::support::{Rig, payload, run_all, transaction, url};
use bytes::Bytes;
use std::collections::BTreeSet;
use xds_core::{
    Time,
    server::{Server, ServerConfig, ServerLimits, ServerOutput, Transaction, TransactionError},
};

// M211, M214, M215, M217, M104: the result of a transaction.
#[test]
fn transaction_result_counts_changes() {
    let mut rig = Rig::default();
    let cases = [
        // (transaction, sequence, changed, removed)
        ("cds a=1 b=1; eds x=1", 1, 3, 0),
        ("cds a=1; eds x=1", 1, 0, 0),
        ("cds -missing; odd -x", 1, 0, 0),
        ("cds a=2 -b c=1", 2, 2, 1),
        ("cds a=3 a=2", 2, 0, 0),
        ("cds d=1 -d", 2, 0, 0),
        ("cds -a a=5", 3, 1, 0),
        ("cds -a -c; eds -x", 4, 0, 3),
    ];
    for (changes, sequence, changed, removed) in cases {
        let applied = rig.set(changes);
        assert_eq!(
            (applied.sequence, applied.changed, applied.removed),
            (sequence, changed, removed),
            "{changes}"
        );
    }
    assert_eq!(rig.server.stats().resources, 0);
    assert_eq!(rig.outputs, [], "nobody is subscribed (M211)");
    println!("covers: M104 M211 M215 M217 M219");
}

#[test]
fn resource_bytes_are_stored_unchanged() {
    let mut rig = Rig::script("set cds a=1\nset cds a=2 b=1");
    assert_eq!(rig.server.resource(&url("cds"), "a"), Some(&payload("a", "2")));
    assert_eq!(rig.server.resource(&url("cds"), "c"), None);
    assert_eq!(rig.server.resource(&url("eds"), "a"), None);
    let mut empty = Transaction::new();
    empty.set(url("cds").as_str(), "empty", Bytes::new());
    rig.server.apply(empty, Time::ZERO).expect("an empty message is a resource");
    assert_eq!(rig.server.resource(&url("cds"), "empty"), Some(&Bytes::new()));
    rig.run("> cds empty");
    let received = rig.receive(1).expect("a response");
    assert_eq!(received.resources(), [""]);
    assert_eq!(received.full().resources.len(), 1);
}

/// Adds an invalid change to a transaction.
type Spoil<'a> = &'a dyn Fn(&mut Transaction);

// M218: a transaction is applied completely or not at all, and the error names the change.
#[test]
fn invalid_transaction_changes_nothing() {
    let mut limits = ServerLimits::default();
    limits.resources = 3;
    limits.resource_bytes = 8;
    limits.name_bytes = 80;
    let long = "n".repeat(81);
    let mut server = Server::new(ServerConfig::default().with_limits(limits), 1, Time::ZERO);
    let cds = &*url("cds");
    server.apply(transaction("cds a=1 b=1"), Time::ZERO).expect("applied");
    let version = server.version(cds);

    let good = |t: &mut Transaction| {
        t.set(cds, "a", "2").remove(cds, "b");
    };
    let cases: [(Spoil<'_>, TransactionError); 7] = [
        (
            &|t| {
                t.set("", "x", "1");
            },
            TransactionError::EmptyTypeUrl { change: 2 },
        ),
        (
            &|t| {
                t.remove(cds, "");
            },
            TransactionError::EmptyName { change: 2 },
        ),
        (
            &|t| {
                t.set(cds, "*", "1");
            },
            TransactionError::WildcardName { change: 2 },
        ),
        (
            &|t| {
                t.set(cds, &*long, "1");
            },
            TransactionError::NameTooLong { change: 2, bytes: 81, limit: 80 },
        ),
        (
            &|t| {
                t.set(&*long, "x", "1");
            },
            TransactionError::NameTooLong { change: 2, bytes: 81, limit: 80 },
        ),
        (
            &|t| {
                t.set(cds, "x", "123456789");
            },
            TransactionError::ResourceTooLong { change: 2, bytes: 9, limit: 8 },
        ),
        (
            &|t| {
                t.set(cds, "x", "1").set(cds, "y", "1").set("t", "z", "1");
            },
            TransactionError::TooManyResources { resources: 4, limit: 3 },
        ),
    ];
    for (bad, wanted) in cases {
        let mut transaction = Transaction::new();
        good(&mut transaction);
        bad(&mut transaction);
        assert_eq!(server.apply(transaction, Time::ZERO), Err(wanted.clone()));
        assert!(!wanted.to_string().is_empty());
        assert_eq!((server.version(cds), server.stats().resources), (version.clone(), 2));
    }
    let mut within = Transaction::new();
    within.set(cds, "c", "1").set(cds, "d", "1").remove(cds, "a").set(cds, "c", "2");
    assert!(server.apply(within, Time::ZERO).is_ok(), "what is removed makes room");
    println!("covers: M218");
}

// M212, M214, M216: a transaction is seen completely, and only by clients it concerns.
#[test]
fn changes_reach_only_subscribers() {
    run_all(&[
        (
            "M212",
            "
            > eds x y
            > cds
            < cds first
            > cds
            set cds a=1; eds x=1 y=1
            set cds a=2; eds x=2 y=2
            < cds changed a=2
            < eds first x=2 y=2
        ",
        ),
        (
            "M214",
            "
            set eds x=1 y=1
            > eds x
            2> eds y
            3> eds *
            < eds first x=1
            2< eds first y=1
            3< eds first x=1 y=1
            > eds x
            2> eds y
            3> eds *
            set eds x=2
            < eds changed x=2
            2<
            3< eds changed x=2
        ",
        ),
    ]);

    let mut rig = Rig::script("set eds x=1 y=1\n> eds x\n2> eds y\n3> cds\n< eds first x=1");
    rig.run("2< eds first y=1\n3< cds first\n> eds x\n2> eds y\n3> cds");
    rig.effects();
    rig.run("set eds x=1 y=2");
    assert_eq!(rig.effects(), [ServerOutput::Writable(rig.stream(2))], "x is unchanged (M216)");
    println!("covers: M214 M216");
}

// M72, M124, IS15: the version depends on the content only.
#[test]
fn version_depends_on_content_only() {
    let cds = &*url("cds");
    let version = |lines: &str, seed: u64| {
        let mut rig = Rig::seeded(ServerConfig::default(), seed);
        rig.run(lines);
        rig.server.version(cds)
    };
    let one = version("set cds a=1 b=2", 1);
    assert_eq!(one, version("set cds b=3 x=1\nset cds a=1\nset cds -x b=2; eds y=1", 2));
    assert_ne!(one, version("set cds a=1 b=1", 1));
    assert_ne!(one, version("set cds a=1 b=2 c=3", 1));
    assert_ne!(one, version("set cds a=2 b=1", 1));
    assert_eq!(version("set cds a=1\nset cds -a", 1), None);

    let mut rig = Rig::script("set cds a=1\n> cds");
    let received = rig.receive(1).expect("a response");
    assert_eq!(received.full().version_info.len(), 16);
    assert!(received.full().version_info.bytes().all(|b| b.is_ascii_hexdigit()));
    rig.run("> cds\nset cds b=1\n< cds changed a=1 b=1\n> cds\nset cds -b");
    let back = rig.receive(1).expect("a response");
    assert_eq!(back.full().version_info, received.full().version_info);
    println!("covers: M72 M124 IS15 S0.075 S0.076");
}

// M222: equal responses share their bytes.
#[test]
fn equal_responses_share_bytes() {
    for (ty, names) in [("cds", ""), ("eds", "*"), ("eds", "x"), ("lds", "x")] {
        let mut rig = Rig::script(&format!("set {ty} x=1 y=1 z=1"));
        let mut bodies = Vec::new();
        for stream in 1..=3 {
            rig.run(&format!("{stream}> {ty} {names}"));
            let id = rig.stream(stream);
            let mut frame = xds_core::Frame::default();
            let sent = rig.server.poll_transmit(id, rig.now, &mut frame).expect("a response");
            bodies.push((frame.body.as_ptr(), frame.body.len(), sent.resources));
        }
        bodies.dedup();
        assert_eq!(bodies.len(), 1, "{ty} {names}");
    }
    println!("covers: M222");
}

// M222: split responses are encoded once per variant, including names and versions of resources.
#[test]
fn split_responses_share_bytes() {
    let mut limits = ServerLimits::default();
    // A resource takes about a hundred bytes, so about ten fit.
    limits.response_bytes = 1_000;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    let all: Vec<_> = (10..60).map(|n| format!("resource-{n}=1")).collect();
    rig.run(&format!("set eds {}", all.join(" ")));
    let (mut bodies, mut got) = ([const { Vec::new() }; 4], [0; 4]);
    for (stream, (bodies, got)) in (1..).zip(bodies.iter_mut().zip(&mut got)) {
        let [subscribe, ack] = match stream % 2 {
            0 => ["> eds *"; 2],
            _ => ["d> eds +*", "d> eds ack"],
        };
        rig.run(&format!("{stream}{subscribe}"));
        while let Some(received) = rig.receive(stream) {
            *got += received.transmit.resources;
            bodies.push(received.body);
            rig.run(&format!("{stream}{ack}"));
        }
    }
    assert_eq!(got, [50; 4]);
    let [one, other, same, same_as_other] = bodies;
    assert!(one.len() >= 5, "it takes several responses");
    for (one, another) in [(one, same), (other, same_as_other)] {
        let places = |bodies: &[Bytes]| bodies.iter().map(|body| body.as_ptr()).collect::<Vec<_>>();
        assert_eq!(places(&one), places(&another), "the same bytes in the same place");
    }
    println!("covers: M222");
}

// M107, M222: retries of equal rejections are encoded once.
#[test]
fn retries_of_equal_rejections_share_bytes() {
    let mut rig = Rig::script("set eds x=1 y=1 z=1");
    for stream in 1..=3 {
        rig.run(&format!(
            "{stream}d> eds +*\n{stream}d< eds first x=1 y=1 z=1\n{stream}d> eds nack"
        ));
    }
    rig.run("set eds x=2");
    let mut received: Vec<_> = (1..=3).filter_map(|stream| rig.receive(stream)).collect();
    assert!(received.iter().all(|it| it.transmit.resources == 3), "what was rejected goes along");
    received.dedup_by_key(|it| it.body.as_ptr());
    assert_eq!(received.len(), 1);
    println!("covers: M222");
}

// M83, IS26: a long partial response is split, each part with its own nonce.
#[test]
fn long_responses_are_split() {
    let mut limits = ServerLimits::default();
    // A resource takes about 90 bytes in its frame, so two fit.
    limits.response_bytes = 200;
    let config = ServerConfig::default().with_limits(limits);

    for names in ["a b c d e", "*", "* b d"] {
        let mut rig = Rig::new(config.clone());
        rig.run("set eds a=1 b=1 c=1 d=1 e=1");
        rig.run(&format!("> eds {names}"));
        let mut got = Vec::new();
        while let Some(received) = rig.receive(1) {
            assert_eq!(received.transmit.cause.to_string(), "first");
            assert!(received.resources().len() <= 2, "{received:?}");
            got.extend(received.resources());
            rig.run(&format!("<\n> eds {names}"));
        }
        got.sort();
        assert_eq!(got, ["a=1", "b=1", "c=1", "d=1", "e=1"], "{names}");

        // A resource that changes meanwhile is sent once, in its new version.
        rig.run("set eds a=2 b=2 c=2 d=2");
        let part = rig.receive(1).expect("a part");
        assert_eq!(part.transmit.cause.to_string(), "changed");
        rig.run(&format!("set eds a=3 c=3\n> eds {names}"));
        let mut got = part.resources();
        while let Some(received) = rig.receive(1) {
            got.extend(received.resources());
            rig.run(&format!("> eds {names}"));
        }
        got.sort();
        got.retain(|resource| !["a=2", "b=2", "c=2"].contains(&&**resource));
        assert_eq!(got, ["a=3", "c=3", "d=2"], "{names}");
    }

    // A part without room for a named resource continues with wildcard resources.
    Rig::new(config.clone()).run(
        "set eds e=1
        > eds *
        < eds first e=1
        set eds d=1
        > eds nonce: * a b c e
        set eds b=1
        set eds a=1
        set eds c=1
        > eds * a b c e
        < eds changed d=1 b=1
        > eds * a b c e
        < eds changed a=1 c=1
        > eds * a b c e
        < eds resubscribed e=1
        > eds * a b c e
        <",
    );

    // Rejected resources are re-sent once, in as many parts as needed.
    Rig::new(config.clone()).run(
        "set eds a=1 b=1 c=1 d=1
        > eds *
        < eds first a=1 b=1
        > eds nack *
        < eds first c=1 d=1
        > eds nack *
        <
        set eds e=1
        < eds changed a=1 b=1
        > eds nack *
        < eds changed c=1 d=1
        > eds nack *
        < eds changed e=1
        > eds nack *
        <
        set eds f=1
        < eds changed e=1 f=1
        > eds nack *
        <",
    );

    let mut rig = Rig::new(config);
    rig.run("set cds a=1 b=1 c=1 d=1\n> cds");
    rig.observations();
    rig.run("< cds first a=1 b=1 c=1 d=1");
    assert!(matches!(
        &*rig.observations(),
        [xds_core::server::Observation::Oversize { bytes: 200.., .. }]
    ));
    println!("covers: M83 IS26");
}

// M212: every response has the state of one transaction, the newest one.
#[test]
fn response_has_state_of_one_transaction() {
    let mut rig = Rig::script("> cds\n> eds x y\n2d> cds +*\n2d> eds +x +y\n3d> eds +*");
    let mut responses = 0;
    for round in 0..60_usize {
        let all = format!("set cds a={round} b={round}; eds x={round} y={round}");
        rig.run(&all);
        for (turn, stream) in [1, 2, 3].into_iter().enumerate() {
            // Each client reads at its own pace.
            let reads = (round + turn) % (turn + 2);
            for _ in 0..reads {
                let Some(received) = rig.receive(stream) else { break };
                responses += 1;
                let contents = received.resources().into_iter().map(|it| {
                    it.split_once('=').map_or_else(|| it.clone(), |(_, content)| content.to_owned())
                });
                let contents: BTreeSet<_> = contents.collect();
                assert_eq!(contents, BTreeSet::from([round.to_string()]), "stream {stream}");
                let short =
                    if received.transmit.type_url.as_str() == url("cds") { "cds" } else { "eds" };
                rig.run(&match (stream, short) {
                    (1, "cds") => "> cds".to_owned(),
                    (1, _) => "> eds x y".to_owned(),
                    (_, short) => format!("{stream}d> {short} ack"),
                });
            }
        }
    }
    assert!(responses > 60, "{responses}");
    println!("covers: M212");
}
