//! Requests with many names, and ends of streams with many names: they are handled in parts.
// IS25

use crate::support::{Parts, Rig};
use core::time::Duration;
use xds_core::{
    ViewName,
    server::{
        Admission, CloseReason, Connection, DrainPlan, OnDemand, ServerConfig, ServerLimits,
        ServerOutput, StreamEvent, SyncState, Variant,
    },
};

/// Returns a server that handles four names in a turn.
fn rig_with(config: ServerConfig) -> Rig {
    let mut limits = config.limits;
    limits.names_per_call = 4;
    let mut rig = Rig::new(config.with_limits(limits));
    rig.parts = Parts::OnRequest;
    rig
}

fn rig() -> Rig {
    rig_with(ServerConfig::default())
}

/// Names of resources, separated by blanks.
fn names(prefix: &str, count: usize) -> String {
    (0..count).map(|n| format!("{prefix}n{n}")).collect::<Vec<_>>().join(" ")
}

/// Resources with the content `1`.
fn ones(count: usize) -> String {
    (0..count).map(|n| format!("n{n}=1")).collect::<Vec<_>>().join(" ")
}

/// Completes all work and returns the number of names in each part.
fn finish(rig: &mut Rig) -> Vec<u64> {
    core::iter::from_fn(|| rig.part()).collect()
}

#[test]
fn long_request_is_handled_in_parts_of_limited_size() {
    assert_eq!(ServerLimits::default().names_per_call, 256);
    for request in [format!("> eds {}", names("", 10)), format!("d> eds {}", names("+", 10))] {
        let mut rig = rig();
        rig.run(&format!("set eds {}", ones(10)));
        let before = rig.server.handled_names();
        rig.run(&request);
        assert_eq!(rig.server.handled_names() - before, 4, "the first part is handled at once");
        let stream = rig.stream(1);
        assert!(!rig.server.wants_read(stream), "the next request waits");
        assert_eq!(rig.server.stats().unfinished_requests, 1);
        rig.run("<");
        let parts = finish(&mut rig);
        // Node, type and ten names are twelve fields.
        assert_eq!(parts, [4, 4], "{request}");
        assert!(rig.server.wants_read(stream));
        assert_eq!(rig.server.stats().unfinished_requests, 0);
        rig.run(&format!("< eds first {}\nopen", ones(10)));
        assert_eq!(rig.part(), None);
    }
}

#[test]
fn request_that_fits_in_a_part_is_answered_at_once() {
    let mut rig = rig();
    rig.run("set eds a=1\n> eds a b\n< eds first a=1");
    assert_eq!(rig.part(), None);
}

#[test]
fn small_request_is_answered_between_the_parts_of_a_long_one() {
    let mut rig = rig();
    rig.run(&format!("set eds {}\n> eds {}", ones(20), names("", 20)));
    assert_eq!(rig.part(), Some(4));
    rig.run("2> eds n1\n2< eds first n1=1\n2> eds n1\n<");
    finish(&mut rig);
    rig.run(&format!("< eds first {}", ones(20)));
}

#[test]
fn long_requests_take_turns() {
    let mut rig = rig();
    rig.run(&format!("set eds {}", ones(12)));
    rig.run(&format!("> eds {}\n2> eds {}\n3> eds {}", names("", 12), names("", 3), names("", 12)));
    let open = |rig: &Rig| {
        let state = |it: xds_core::server::SubscriptionStatus<'_>| it.subscribed;
        rig.server.status().map(state).collect::<Vec<_>>()
    };
    let mut steps = vec![open(&rig)];
    while rig.part().is_some() {
        steps.push(open(&rig));
    }
    // The node is the first of four fields, and the type follows the names. Streams without a
    // connection count as one each.
    let expected = [
        [3, 3, 3],
        [7, 3, 3],
        [7, 3, 3],
        [7, 3, 7],
        [11, 3, 7],
        [11, 3, 11],
        [12, 3, 11],
        [12, 3, 12],
    ];
    let expected = expected.map(|names| names.map(xds_core::server::SubscribedNames::Names));
    assert_eq!(steps, expected);
}

/// Sends `request` on 100 streams of a connection and then `other` on the stream of another
/// connection. Returns the number of parts until `other` is handled, at most `limit`.
fn parts_beside_100_streams(rig: &mut Rig, request: &str, other: &str, limit: usize) -> usize {
    let [busy, modest] = [1, 2].map(Connection::new);
    for stream in 1..=100 {
        rig.open_on(stream, Variant::StateOfTheWorld, &busy);
        rig.run(&format!("{stream}{request}"));
    }
    rig.open_on(101, Variant::StateOfTheWorld, &modest);
    rig.run(&format!("101{other}"));
    let stream = rig.stream(101);
    let mut parts = 0;
    while !rig.server.wants_read(stream) && parts < limit {
        assert!(rig.part().is_some());
        parts += 1;
    }
    parts
}

#[test]
fn long_request_waits_for_one_part_of_each_other_connection() {
    let mut limits = ServerLimits::default();
    limits.names_per_connection = 100_000_000;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.parts = Parts::OnRequest;
    let request = format!("> eds {}", names("", 100_000));
    let parts = parts_beside_100_streams(&mut rig, &request, &request, 1_000);
    // A request has 391 parts, of which the first one is handled at once.
    assert_eq!(parts, 2 * 390);
}

#[test]
fn rest_of_a_part_is_not_the_turn_of_another_connection() {
    let mut rig = rig();
    // The node, the type and five names are seven fields: three are left.
    let request = format!("> eds {}", names("", 5));
    let parts =
        parts_beside_100_streams(&mut rig, &request, &format!("> eds {}", names("", 38)), 50);
    // Nine parts of four fields are left.
    assert_eq!(parts, 2 * 9);
}

// S0.133: names that a list lacks end with its last part, and no response shows a part.
#[test]
fn no_response_shows_a_half_applied_list() {
    let mut rig = rig();
    rig.run(&format!("set cds {} x=1\n> cds {}", ones(8), names("", 8)));
    finish(&mut rig);
    rig.run(&format!("< cds first {}", ones(8)));
    rig.run(&format!("> cds {} x", names("", 4)));
    let mut version = 1;
    let stream = rig.stream(1);
    while !rig.server.wants_read(stream) {
        version += 1;
        rig.run(&format!("set cds n0={version}\n<"));
        rig.part();
    }
    assert!(version > 3, "several parts");
    rig.run(&format!("< cds changed n0={version} n1=1 n2=1 n3=1 x=1"));
    assert_eq!(rig.server.stats().held_names, 5);
}

#[test]
fn changes_between_parts_are_sent_once() {
    for (request, sign) in [("> eds", ""), ("d> eds", "+")] {
        let mut rig = rig();
        rig.run(&format!("set eds {}\n{request} {}", ones(8), names(sign, 8)));
        rig.run("set eds n0=2 n7=2 -n1 -n6");
        assert_eq!(rig.part(), Some(4));
        rig.run("set eds n0=3 n7=3");
        finish(&mut rig);
        let gone = if sign.is_empty() { "" } else { "-n1 -n6" };
        let direction = request.replace("> eds", "<");
        rig.run(&format!("{direction} eds first n0=3 n2=1 n3=1 n4=1 n5=1 n7=3 {gone}"));
        rig.run(&format!(
            "{}\n{direction}",
            if sign.is_empty() { "> eds n0" } else { "d> eds ack" }
        ));
    }
}

#[test]
fn other_types_of_the_stream_are_sent_after_the_request() {
    let mut rig = rig();
    rig.run("set cds a=1\n> cds\n< cds first a=1\n> cds");
    rig.run(&format!("set eds {}\n> eds {}\nset cds a=2\n<", ones(8), names("", 8)));
    finish(&mut rig);
    rig.run(&format!("< cds changed a=2\n< eds first {}", ones(8)));
}

#[test]
fn requests_that_arrive_meanwhile_are_handled_afterwards() {
    let mut rig = rig();
    rig.run(&format!("set eds {}; cds a=1\n> eds {}\n> cds\n> rds x\n<", ones(8), names("", 8)));
    assert_eq!(rig.server.status().count(), 1);
    finish(&mut rig);
    assert_eq!(rig.server.stats().requests, 3);
    rig.run(&format!("< cds first a=1\n< eds first {}\n<", ones(8)));
    assert_eq!(rig.server.status().count(), 3);
}

#[test]
fn half_closed_stream_finishes_after_its_long_request() {
    let mut rig = rig();
    rig.run(&format!("set eds {}\n> eds {}", ones(8), names("", 8)));
    let id = rig.stream(1);
    rig.event(StreamEvent::HalfClosed(id));
    assert_eq!(rig.part(), Some(4));
    assert!(!rig.effects().contains(&ServerOutput::Finished(id)));
    finish(&mut rig);
    assert_eq!(rig.server.stats().streams, 1);
    rig.run(&format!("< eds first {}", ones(8)));
    assert!(rig.effects().contains(&ServerOutput::Finished(id)));
    finish(&mut rig);
    assert_eq!(rig.server.stats().names, 8);
}

#[test]
fn closing_a_stream_drops_its_long_request() {
    let mut rig = rig();
    rig.run(&format!("> eds {}\nclose", names("", 20)));
    assert_eq!(rig.server.stats().unfinished_requests, 0);
    finish(&mut rig);
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions, stats.names), (0, 0, 0));
    assert_eq!((stats.held_names, stats.unfinished_closes), (0, 0));

    let mut rig = self::rig();
    rig.run(&format!("> eds {}\nshutdown\nclosed 14", names("", 20)));
    finish(&mut rig);
    assert_eq!(rig.server.stats().names, 0);
}

#[test]
fn draining_server_ends_a_stream_with_a_long_request() {
    let mut rig = rig();
    rig.run(&format!("> eds {}", names("", 20)));
    let [period, grace_period] = [Duration::ZERO, Duration::from_secs(1)];
    rig.server.drain(DrainPlan::new(grace_period).with_period(period), rig.now);
    finish(&mut rig);
    rig.run("closed 14");
    assert!(rig.effects().contains(&ServerOutput::Drained));
}

// IS23: a closed stream with many names is freed in parts, and receives nothing meanwhile.
#[test]
fn names_of_a_closed_stream_are_freed_in_parts() {
    let mut rig = rig();
    rig.run(&format!("set eds {}\nd> eds {} +missing", ones(10), names("+", 10)));
    finish(&mut rig);
    rig.run(&format!("d< eds first {} -missing\nd> eds ack\nclose", ones(10)));
    let stats = rig.server.stats();
    assert_eq!((stats.streams, stats.subscriptions, stats.held_names), (0, 0, 0));
    assert_eq!(stats.unfinished_closes, 1);
    // Changes of its resources concern nobody, and a new stream does not take its place.
    rig.run("set eds n0=2 -n1 n2=2\n2d> eds +n0\n2d< eds first n0=2\n2d> eds ack");
    rig.run("tell eds 2\ntold eds 2");
    let parts = finish(&mut rig);
    assert!(parts.iter().all(|names| *names <= 4), "{parts:?}");
    let stats = rig.server.stats();
    assert_eq!((stats.unfinished_closes, stats.held_names, stats.names), (0, 1, 9));
    rig.run("set eds n0=3\n2d< eds changed n0=3");
}

#[test]
fn names_of_closed_streams_are_freed_as_fast_as_others_are_added() {
    let mut rig = rig();
    for stream in 1..=5 {
        rig.run(&format!("{stream}d> eds {}", names("+", 12)));
        finish(&mut rig);
        rig.run(&format!("{stream}close"));
        let before = rig.server.stats();
        assert_eq!(before.unfinished_closes, 1);
        // Each request with two names, a node and a type frees four names.
        for (n, freed) in [(0, 4), (1, 8), (2, 8)] {
            rig.run(&format!("1{stream}{n}d> eds +{stream}a{n} +{stream}b{n}"));
            let names = before.names + 2 * (n + 1) - freed;
            assert_eq!(rig.server.stats().names, names, "{stream} {n}");
        }
        finish(&mut rig);
    }
}

#[test]
fn stream_moves_to_another_view_after_its_whole_request() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = rig_with(config);
    rig.run("set @v eds n0=1 n7=1\nset @w eds n0=2 n7=2 n8=2");
    rig.run(&format!("> eds {}\nassign 1 v", names("", 8)));
    assert_eq!(rig.part(), Some(4));
    rig.run("assign 1 w");
    assert_eq!(finish(&mut rig), [0], "no name is left");
    rig.run("< eds first n0=2 n7=2");
    assert_eq!(rig.server.stats().held_names, 8);
}

#[test]
fn held_requests_are_handled_in_parts_after_the_decision() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = rig_with(config);
    rig.run("set @v eds n0=1; cds a=1");
    rig.run(&format!("d> eds {}\nd> cds +*\nd> rds +x\nassign 1 v", names("+", 9)));
    assert_eq!(rig.server.status().count(), 1);
    let stream = rig.stream(1);
    assert!(!rig.server.wants_read(stream));
    let parts = finish(&mut rig);
    assert!(parts.iter().all(|names| *names <= 4), "{parts:?}");
    assert!(rig.server.wants_read(stream));
    assert_eq!((rig.server.status().count(), rig.server.stats().requests), (3, 3));
    rig.run("d< cds first a=1");
}

#[test]
fn long_request_that_exceeds_a_limit_closes_its_stream() {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = 9;
    let mut rig = rig_with(ServerConfig::default().with_limits(limits));
    rig.run(&format!("d> eds {}", names("+", 30)));
    finish(&mut rig);
    assert_eq!(rig.take_close(1), Some(CloseReason::TooManyNames { limit: 9 }));
    assert_eq!(rig.server.stats().names, 0);
    assert!(rig.server.handled_names() < 40, "the rest of the request is not handled");
}

// M116, M242: versions of resources that do not exist count, too, although their removals are one-shot.
#[test]
fn long_request_that_states_too_many_missing_resources_closes_its_stream() {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = 9;
    let versions: Vec<_> = (0..30).map(|n| format!("has:n{n}@")).collect();
    for wildcard in ["cds", "eds +*"] {
        let mut rig = rig_with(ServerConfig::default().with_limits(limits));
        rig.run(&format!("d> {wildcard} {}", versions.join(" ")));
        finish(&mut rig);
        let close = rig.take_close(1);
        assert_eq!(close, Some(CloseReason::TooManyNames { limit: 9 }), "{wildcard}");
        assert_eq!(rig.server.stats().names, 0, "{wildcard}");
    }
    // Without a wildcard, they are ignored and nothing is kept.
    let mut rig = rig_with(ServerConfig::default().with_limits(limits));
    rig.run(&format!("d> eds +n0 {}", versions.join(" ")));
    finish(&mut rig);
    rig.run("open\nd< eds first -n0");
    assert_eq!(rig.server.stats().names, 1);
}

// IS24: an unfinished request counts with its bytes.
#[test]
fn bytes_of_an_unfinished_request_count_towards_the_names_of_the_connection() {
    let long = "n".repeat(200);
    let mut limits = ServerLimits::default();
    limits.names_per_connection = 4;
    let mut rig = rig_with(ServerConfig::default().with_limits(limits));
    // Unsubscribing needs no name, but the request has 2,000 bytes.
    rig.run(&format!("d> eds {}", vec![format!("-{long}"); 8].join(" ")));
    assert_eq!(rig.server.stats().held_names, 7, "of 256 bytes each");
    finish(&mut rig);
    rig.run("open");
    assert_eq!(rig.server.stats().held_names, 0);
    rig.run(&format!("d> eds +a +b +c {}", vec![format!("-{long}"); 8].join(" ")));
    assert_eq!(rig.take_close(1), Some(CloseReason::TooManyNamesOnConnection { limit: 4 }));
    assert_eq!(rig.server.stats().held_names, 0);
}

#[test]
fn wanted_names_of_a_long_request_are_reported_in_order() {
    let mut rig = rig_with(ServerConfig::default().with_on_demand(OnDemand::Notify));
    rig.run(&format!("d> eds {}", names("+", 9)));
    finish(&mut rig);
    for n in 0..9 {
        rig.run(&format!("wanted eds n{n}"));
    }
    rig.run("asked\nclose");
    finish(&mut rig);
    for _ in 0..9 {
        assert!(rig.server.poll_output().is_none());
    }
    let removed = rig.server.remove_unless_named(&ViewName::default(), "x", "n0", rig.now);
    assert!(removed.expect("a sound removal").is_some(), "no client names it");
}

// B04: the answer in a long request counts at once, its names at the end.
#[test]
fn nack_with_a_long_list_is_reported_and_resolved() {
    let mut rig = rig();
    rig.run(&format!("set cds {}\n> cds {}", ones(8), names("", 8)));
    finish(&mut rig);
    rig.run(&format!("< cds first {}\n> cds nack {} more", ones(8), names("", 8)));
    let state = |rig: &Rig| rig.server.status().map(|it| it.state).next();
    assert_eq!(state(&rig), Some(SyncState::Nacked));
    rig.run("tell cds 1\nuntold");
    finish(&mut rig);
    assert_eq!(rig.server.rejections().count(), 1);
    rig.run("set cds n0=2");
    rig.run("< cds changed n0=2 n1=1 n2=1 n3=1 n4=1 n5=1 n6=1 n7=1");
    rig.run(&format!("> cds {} more", names("", 8)));
    finish(&mut rig);
    assert_eq!((state(&rig), rig.server.rejections().count()), (Some(SyncState::Acked), 0));
}
