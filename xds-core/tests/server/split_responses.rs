//! Long lists of removals, missing names and errors, split into several responses.
// M83

use crate::support::{Received, Response, Rig};
use prost::Message as _;
use xds_core::server::{OrderingPolicy, ServerConfig, ServerLimits};

/// Maximum bytes of a response, without version, type and nonce.
const LIMIT: usize = 200;

fn rig() -> Rig {
    rig_with(LIMIT)
}

fn rig_with(limit: usize) -> Rig {
    let mut limits = ServerLimits::default();
    limits.response_bytes = limit;
    Rig::new(ServerConfig::default().with_limits(limits))
}

/// Returns a name of 40 bytes, which takes about as many in a message.
fn name(n: usize) -> String {
    format!("{n:040}")
}

fn words(prefix: &str, suffix: &str, range: core::ops::Range<usize>) -> String {
    range.map(|n| format!(" {prefix}{}{suffix}", name(n))).collect()
}

/// Length of a response without version, type and nonce.
fn length(received: &Received) -> usize {
    let (length, envelope) = match &received.response {
        Response::StateOfTheWorld(it) => {
            (it.encoded_len(), it.version_info.len() + it.type_url.len() + it.nonce.len())
        }
        Response::Incremental(it) => {
            (it.encoded_len(), it.system_version_info.len() + it.type_url.len() + it.nonce.len())
        }
    };
    length - envelope - 6
}

/// Takes all responses of the first stream, answering each with `ack`. Returns their sorted
/// contents. Checks that none exceeds the limit.
fn take_all(rig: &mut Rig, ack: &str, limit: usize) -> Vec<String> {
    let mut got = Vec::new();
    while let Some(received) = rig.receive(1) {
        assert!(length(&received) <= limit, "{} bytes: {received:?}", length(&received));
        let resources = received.resources();
        assert!(!resources.is_empty(), "it says something");
        got.extend(resources);
        rig.run(ack);
    }
    rig.run("<");
    got.sort();
    got
}

fn lines(prefix: &str, suffix: &str, range: core::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("{prefix}{}{suffix}", name(n))).collect()
}

/// All resources are deleted.
#[test]
fn removals_are_split() {
    for subscription in
        ["+*".to_owned(), words("+", "", 0..20), format!("+*{}", words("+", "", 0..7))]
    {
        let mut rig = rig();
        rig.run(&format!("set eds{}", words("", "=1", 0..20)));
        rig.run(&format!("d> eds {subscription}"));
        assert_eq!(take_all(&mut rig, "d> eds ack", LIMIT), lines("", "=1", 0..20));
        rig.run(&format!("set eds{}", words("-", "", 0..20)));
        assert_eq!(
            take_all(&mut rig, "d> eds ack", LIMIT),
            lines("-", "", 0..20),
            "{subscription}"
        );
        // Later changes are sent as usual.
        rig.run(&format!("set eds{}", words("", "=2", 3..5)));
        assert_eq!(take_all(&mut rig, "d> eds ack", LIMIT), lines("", "=2", 3..5));
    }
    println!("covers: M83 M129 M134 IS26");
}

/// Resources are deleted and set at the same time.
#[test]
fn removals_and_resources_share_the_limit() {
    for subscription in ["+*".to_owned(), words("+", "", 0..24)] {
        let mut rig = rig();
        rig.run(&format!("set eds{}", words("", "=1", 0..20)));
        rig.run(&format!("d> eds {subscription}"));
        take_all(&mut rig, "d> eds ack", LIMIT);
        rig.run(&format!("set eds{}{}", words("-", "", 0..11), words("", "=2", 18..24)));
        let mut expected = lines("-", "", 0..11);
        expected.extend(lines("", "=2", 18..24));
        assert_eq!(take_all(&mut rig, "d> eds ack", LIMIT), expected, "{subscription}");
    }
    println!("covers: M83 M103 IS26");
}

/// A client reconnects with versions of deleted resources, for example after a response that was
/// too long for it.
#[test]
fn removals_after_reconnect_are_split() {
    for subscription in ["+*".to_owned(), words("+", "", 0..20)] {
        let mut rig = rig();
        rig.run(&format!("set eds{}", words("", "=1", 18..20)));
        let has: String = (0..18).map(|n| format!(" has:{}@1", name(n))).collect();
        rig.run(&format!("d> eds {subscription}{has}"));
        let mut expected = lines("-", "", 0..18);
        expected.extend(lines("", "=1", 18..20));
        assert_eq!(take_all(&mut rig, "d> eds ack", LIMIT), expected, "{subscription}");
    }
    println!("covers: M83 M118 M119 IS26");
}

/// Names that never existed.
#[test]
fn missing_names_are_split() {
    let mut rig = rig();
    rig.run(&format!("d> eds{}", words("+", "", 0..20)));
    assert_eq!(take_all(&mut rig, "d> eds ack", LIMIT), lines("-", "", 0..20));
    println!("covers: M83 M127");
}

/// Resources covered only by an unsubscribed wildcard.
#[test]
fn removals_after_wildcard_unsubscribe_are_split() {
    let mut rig = rig();
    rig.run(&format!("set eds{}", words("", "=1", 0..20)));
    rig.run("d> eds +*");
    take_all(&mut rig, "d> eds ack", LIMIT);
    rig.run(&format!("d> eds -* +{}", name(3)));
    let mut expected = lines("-", "", 0..20);
    expected.remove(3);
    expected.push(format!("{}=1", name(3)));
    assert_eq!(take_all(&mut rig, "d> eds ack", LIMIT), expected);
    println!("covers: M83 M93");
}

/// Errors in both variants.
#[test]
fn errors_are_split() {
    let errors = words("!", "=7", 0..20);
    let mut rig = rig();
    rig.run(&format!("set eds{errors}"));
    rig.run(&format!("d> eds{}", words("+", "", 0..20)));
    assert_eq!(take_all(&mut rig, "d> eds ack", LIMIT), lines("!", "=7", 0..20));

    let mut rig = rig_with(LIMIT);
    rig.run(&format!("set eds{errors}"));
    let list = format!("> eds{}", words("", "", 0..20));
    rig.run(&list);
    assert_eq!(take_all(&mut rig, &list, LIMIT), lines("!", "=7", 0..20));
    println!("covers: M83 M171");
}

// M177: in complete responses every part has all valid resources.
#[test]
fn errors_of_complete_response_are_split() {
    let mut rig = rig_with(300);
    rig.run(&format!("set cds a=1 b=1{}", words("!", "=7", 0..20)));
    let list = format!("> cds a b{}", words("", "", 0..20));
    rig.run(&list);
    let mut got = Vec::new();
    while let Some(received) = rig.receive(1) {
        assert!(length(&received) <= 300, "{} bytes", length(&received));
        let resources = received.resources();
        assert_eq!(resources[..2], ["a=1", "b=1"]);
        assert!(resources.len() > 2, "it says something new");
        got.extend_from_slice(&resources[2..]);
        rig.run(&list);
    }
    got.sort();
    assert_eq!(got, lines("!", "=7", 0..20));
    rig.run("<");
    // A state that exceeds the limit is sent once with all errors.
    let mut rig = rig_with(90);
    rig.run("set cds a=1 b=1 c=1 !x=7 !y=7");
    rig.run("> cds a b c x y\n< cds first a=1 b=1 c=1 !x=7 !y=7");
    println!("covers: M83 M171 M177");
}

/// A rejected part is sent again with the next change, whatever became of the other parts.
#[test]
fn rejected_part_of_removals_is_resent() {
    for rejected in 0..4 {
        let mut rig = rig();
        rig.run(&format!("set eds{}", words("", "=1", 0..16)));
        rig.run("d> eds +*");
        take_all(&mut rig, "d> eds ack", LIMIT);
        rig.run(&format!("set eds{}", words("-", "", 0..16)));
        let mut lost = Vec::new();
        for part in 0.. {
            let Some(received) = rig.receive(1) else { break };
            if part == rejected {
                lost = received.resources();
                rig.run("d> eds nack");
            } else {
                rig.run("d> eds ack");
            }
        }
        assert!(!lost.is_empty());
        rig.run("set eds z=1");
        let again = take_all(&mut rig, "d> eds ack", LIMIT);
        assert!(lost.iter().all(|name| again.contains(name)), "{lost:?} in {again:?}");
        rig.run("set eds z=2\nd< eds changed z=2\nd> eds ack\nd<");
    }
    println!("covers: M83 M107 IS11");
}

// IS5: if all resources of a rejected part have changed and been accepted, no other part is
// re-sent.
#[test]
fn replaced_rejected_part_resends_no_other_part() {
    let mut rig = rig();
    let long = "b".repeat(LIMIT / 2);
    rig.run(&format!("set eds a=1\nset eds b={long}\nset eds c=1\nset cds x=1\n> eds *"));
    rig.run("< eds first a=1\n> cds x\n< cds first x=1\n> cds x\nset eds a=2");
    // A client that warms clusters gets all endpoints (IS18), including the change.
    rig.run("> eds nack *");
    let rest = take_all(&mut rig, "> eds *", LIMIT);
    assert_eq!(rest, ["a=2".to_owned(), format!("b={long}"), "c=1".to_owned()]);
    rig.run("set eds a=3\n< eds changed a=3\n> eds *\n<");
    println!("covers: IS5 M107 IS26");
}

/// Changes while the parts are in flight.
#[test]
fn changes_between_parts_are_not_lost() {
    let mut rig = rig();
    rig.run(&format!("set eds{}", words("", "=1", 0..12)));
    rig.run("d> eds +*");
    take_all(&mut rig, "d> eds ack", LIMIT);
    // Deleted, created and deleted again: the last state is sent.
    rig.run(&format!("set eds{}", words("-", "", 0..6)));
    rig.run(&format!("set eds{}", words("", "=2", 0..3)));
    rig.run(&format!("set eds{}", words("-", "", 6..12)));
    rig.run(&format!("set eds{}", words("-", "", 0..3)));
    let first = rig.receive(1).expect("a part").resources();
    // A resource the client never had is not reported, and a re-sent one is held again.
    rig.run("set eds new=1");
    rig.run("set eds -new");
    rig.run(&format!("set eds{}", words("", "=3", 3..5)));
    rig.run("d> eds ack");
    let mut held: Vec<String> = lines("", "", 0..12);
    for line in first.iter().chain(&take_all(&mut rig, "d> eds ack", LIMIT)) {
        match line.strip_prefix('-') {
            Some(gone) => held.retain(|it| it != gone),
            None => held.push(line.clone()),
        }
        assert!(!line.contains("new"));
    }
    held.sort();
    held.dedup();
    let mut expected = lines("", "=3", 3..5);
    expected.sort();
    assert_eq!(held, expected);
    println!("covers: M83 M115 M130 M132");
}

/// Deferred removals of make before break.
#[test]
fn deferred_removals_are_split() {
    let mut limits = ServerLimits::default();
    limits.response_bytes = LIMIT;
    for ordering in [OrderingPolicy::OrderOnly, OrderingPolicy::MakeBeforeBreak(Default::default())]
    {
        let mut config = ServerConfig::default().with_limits(limits);
        config.ordering = ordering;
        let mut rig = Rig::new(config);
        rig.run(&format!("set cds{}", words("", "=1", 0..20)));
        rig.run("d> cds +*");
        take_all(&mut rig, "d> cds ack", LIMIT);
        rig.run(&format!("set cds{} z=1", words("-", "", 0..20)));
        let mut expected = lines("-", "", 0..20);
        expected.push("z=1".into());
        assert_eq!(take_all(&mut rig, "d> cds ack", LIMIT), expected);
    }
    println!("covers: M83 M147");
}

/// Clients with equal pending changes share the bytes of all parts.
#[test]
fn parts_share_bytes_between_clients() {
    let mut rig = rig();
    rig.run(&format!("set eds{}", words("", "=1", 0..20)));
    let mut bodies = [const { Vec::new() }; 2];
    for stream in 1..=2 {
        rig.run(&format!("{stream}d> eds +*"));
        while rig.receive(stream).is_some() {
            rig.run(&format!("{stream}d> eds ack"));
        }
    }
    rig.run(&format!("set eds{}", words("-", "", 0..20)));
    for (stream, bodies) in (1..).zip(&mut bodies) {
        while let Some(received) = rig.receive(stream) {
            bodies.push(received.body.as_ptr());
            rig.run(&format!("{stream}d> eds ack"));
        }
    }
    let [one, other] = bodies;
    assert!(one.len() > 2);
    assert_eq!(one, other);
    println!("covers: M83 M222");
}

/// A state that leaves little room is not sent once per error.
#[test]
fn near_limit_state_carries_several_errors_per_response() {
    let mut rig = rig_with(102_400);
    let long = "x".repeat(102_000);
    rig.run(&format!("set cds a={long}{}", words("!", "=7", 20..60)));
    let list = format!("> cds a{}", words("", "", 20..60));
    rig.run(&list);
    let (mut parts, mut told) = (0, 0);
    while let Some(received) = rig.receive(1) {
        parts += 1;
        told += received.resources().len() - 1;
        rig.run(&list);
    }
    assert_eq!(told, 40);
    assert!(parts <= 40 / 4, "{parts} parts");
    println!("covers: M83 M171");
}

/// After a NACK of the state the remaining errors wait, because the state would be repeated with
/// them.
#[test]
fn nacked_state_is_not_resent_for_remaining_errors() {
    for list in ["> cds", "> cds *"] {
        let mut rig = rig_with(300);
        rig.run(&format!("set cds a=1 b=1{}", words("!", "=7", 0..20)));
        let names = if list == "> cds" { " a b" } else { "" };
        let names = format!("{names}{}", words("", "", 0..20));
        rig.run(&format!("{list}{names}"));
        let first = rig.receive(1).expect("a first part").resources().len();
        assert!(2 < first && first < 22);
        let nack = list.replace("cds", "cds nack");
        rig.run(&format!("{nack}{names}\n<\n{nack}{names}\n<"));
        // The next change brings the remaining errors.
        rig.run("set cds a=2");
        let mut told = first - 2;
        while let Some(received) = rig.receive(1) {
            let resources = received.resources();
            assert_eq!(resources[..2], ["a=2", "b=1"]);
            told += resources.len() - 2;
            rig.run(&format!("{list}{names}"));
        }
        assert_eq!(told, 20);
    }
    println!("covers: IS4 M106 M171");
}

/// A resource is deleted after a client stated it and before the client is answered.
#[test]
fn removal_of_stated_resource_is_sent_after_first_part() {
    let mut rig = rig_with(1);
    rig.run(
        "
        set eds a=1
        d> eds +*
        d< eds first a=1
        d> eds ack
        set eds b=1
        2d> eds +* has:a=1
        set eds -a
        2d< eds first b=1
        2d> eds ack
        2d< eds changed -a
        2d> eds ack
        2d<
        ",
    );
    println!("covers: M83 M120");
}
