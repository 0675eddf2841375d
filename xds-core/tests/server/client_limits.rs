//! Limits of single clients.
// M242

use crate::support::Rig;
use bytes::Bytes;
use xds_core::server::{
    Admission, CloseReason, PerClientLimits, Rate, ServerConfig, ServerLimits, StreamEvent,
};

/// Returns a server whose stream 1 has its own limits, and stream 2 the default ones.
fn rig(limit: impl FnOnce(&mut PerClientLimits)) -> Rig {
    let mut rig = Rig::script("set eds a=1 b=1 c=1; cds a=1; lds a=1");
    let mut limits = PerClientLimits::from(&ServerLimits::default());
    limit(&mut limits);
    let id = rig.stream(1);
    assert!(rig.server.limit_client(id, limits, rig.now));
    rig
}

// M242: the application learns whether the limits are in effect.
#[test]
fn limiting_an_ended_stream_has_no_effect_and_reports_it() {
    let mut limits = PerClientLimits::from(&ServerLimits::default());
    let mut rig = Rig::script("set cds a=1\n> cds\n2> cds");
    let [closed, ended] = [1, 2].map(|stream| rig.stream(stream));
    rig.run("2close");
    assert!(!rig.server.limit_client(ended, limits, rig.now));
    limits.streams_per_node = 0;
    assert!(!rig.server.limit_client(closed, limits, rig.now), "this closes the stream");
    println!("covers: M242");
}

// M242, M12: exceeding a client's own limit closes that client only, with a typed reason.
#[test]
fn lower_client_limit_closes_only_that_client() {
    type Limit = fn(&mut PerClientLimits);
    let cases: [(Limit, &str, CloseReason); 4] = [
        (
            |limits| limits.names_per_stream = 2,
            "> eds a b c",
            CloseReason::TooManyNames { limit: 2 },
        ),
        (|limits| limits.types_per_stream = 1, "> lds", CloseReason::TooManyTypes { limit: 1 }),
        (
            |limits| limits.name_bytes = 60,
            "> eds aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            CloseReason::NameTooLong { bytes: 70, limit: 60 },
        ),
        (
            |limits| limits.request_bytes = 200,
            "> eds aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \
                bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
            CloseReason::RequestTooLong("".into()),
        ),
    ];
    for (limit, request, expected) in cases {
        let mut rig = rig(limit);
        for stream in 1..=2 {
            rig.run(&format!("{stream}> cds\n{stream}< cds first a=1\n{stream}> cds"));
            rig.run(&format!("{stream}{request}"));
        }
        let reason = rig.take_close(1).expect("an end");
        match (&reason, &expected) {
            (CloseReason::RequestTooLong(_), CloseReason::RequestTooLong(_)) => {}
            _ => assert_eq!(reason, expected),
        }
        rig.run("2open\nset cds a=2\n2< cds changed a=2");
        assert_eq!(rig.server.stats().closed.limits, 1);
    }
    println!("covers: M242 IS24");
}

/// A client may have higher limits than the default.
#[test]
fn higher_client_limit_overrides_default() {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = 1;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set eds a=1 b=1");
    let mut more = PerClientLimits::from(&limits);
    more.names_per_stream = 2;
    let id = rig.stream(1);
    rig.server.limit_client(id, more, rig.now);
    rig.run("> eds a b\n< eds first a=1 b=1\n2> eds a b\n2closed 8\nopen");
    println!("covers: M242");
}

// M83: a client with a smaller limit gets more responses, and other clients are not affected.
#[test]
fn client_response_limit_splits_responses() {
    for (subscribe, ack) in [("> eds *", "> eds *"), ("d> eds +*", "d> eds ack")] {
        let mut rig = Rig::script("set eds a=1 b=1 c=1");
        let everybody = PerClientLimits::from(&ServerLimits::default());
        rig.run(&format!("2{subscribe}\n{}", subscribe));
        let mut less = everybody;
        less.response_bytes = 1;
        let id = rig.stream(1);
        rig.server.limit_client(id, less, rig.now);
        assert_eq!(rig.receive(2).expect("all").transmit.resources, 3);
        for _ in 0..3 {
            assert_eq!(rig.receive(1).expect("a part").transmit.resources, 1);
            rig.run(ack);
        }
        rig.run("<");
    }
    println!("covers: M83 M242");
}

// IS24: the request rate limit of one client.
#[test]
fn client_request_rate_limit_closes_only_that_client() {
    let mut rig = rig(|limits| limits.requests = Some(Rate { per_second: 1, burst: 2 }));
    rig.run("> eds a\n> eds a b\n2> eds a\n2> eds a b\n2> eds a c");
    let (one, other) = (rig.stream(1), rig.stream(2));
    assert!(!rig.server.wants_read(one) && rig.server.wants_read(other));
    rig.run("> eds a b c\n> eds a\n> eds b");
    assert_eq!(rig.take_close(1), Some(CloseReason::RequestRate { per_second: 1 }));
    println!("covers: M242 IS24");
}

// M9, M236: limits may be set with the admission, and apply to requests that waited for it.
#[test]
fn client_limits_set_at_admission_apply_to_waiting_requests() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run("set eds a=1 b=1\n> eds a b\n2> eds a b");
    let mut limits = PerClientLimits::from(&ServerLimits::default());
    limits.names_per_stream = 1;
    let id = rig.stream(1);
    rig.server.limit_client(id, limits, rig.now);
    for stream in 1..=2 {
        let id = rig.stream(stream);
        rig.server.assign(id, &"".into(), rig.now);
    }
    rig.drain();
    assert_eq!(rig.take_close(1), Some(CloseReason::TooManyNames { limit: 1 }));
    rig.run("2< eds first a=1 b=1");
    println!("covers: M242 M9");
}

/// The limit of streams per node may be lower for one client.
#[test]
fn lower_streams_per_node_limit_refuses_second_stream() {
    let mut rig = Rig::default();
    let mut limits = PerClientLimits::from(&ServerLimits::default());
    limits.streams_per_node = 1;
    for stream in 1..=2 {
        let id = rig.stream(stream);
        let request = crate::support::request_of("twice", "cds");
        rig.server.handle_event(
            StreamEvent::Message(id, Bytes::from(prost::Message::encode_to_vec(&request))),
            rig.now,
        );
        rig.server.limit_client(id, limits, rig.now);
    }
    rig.drain();
    assert_eq!(rig.take_close(2), Some(CloseReason::TooManyStreamsOfNode { limit: 1 }));
    assert_eq!(rig.take_close(1), None);
    assert_eq!(rig.server.stats().closed.streams_per_node, 1);
    println!("covers: M242 IS24");
}

// M9, IS24: a relay may have more streams than other nodes. Streams count when they are admitted;
// waiting streams do not count.
#[test]
fn higher_streams_per_node_limit_counts_admitted_streams() {
    let mut everybody = ServerLimits::default();
    everybody.streams_per_node = 1;
    let mut config = ServerConfig::default().with_limits(everybody);
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    let mut more = PerClientLimits::from(&everybody);
    more.streams_per_node = 2;
    rig.run("set @v cds a=1");
    for stream in 1..=4 {
        let id = rig.stream(stream);
        rig.message(id, &crate::support::request_of("relay", "cds"));
        if stream < 4 {
            rig.server.limit_client(id, more, rig.now);
        }
    }
    // The last stream is admitted first.
    rig.run("assign 4 v\n4< cds first a=1\nassign 1 v\n< cds first a=1\nassign 2 v");
    assert_eq!(rig.take_close(2), Some(CloseReason::TooManyStreamsOfNode { limit: 2 }));
    rig.run("3close\n4close");
    let id = rig.stream(5);
    rig.message(id, &crate::support::request_of("relay", "cds"));
    rig.run("assign 5 v");
    assert_eq!(rig.take_close(5), Some(CloseReason::TooManyStreamsOfNode { limit: 1 }));
    rig.run("set @v cds a=2\n> cds\n< cds changed a=2");
    println!("covers: M9 M242 IS24");
}

/// Returns a server with a limit of three names per stream.
fn of_three_names() -> Rig {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = 3;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set eds a=1 b=1 c=1; cds a=1");
    rig
}

// M96, M242: a repeated subscription does not count again at the limit; a new one does.
#[test]
fn repeated_subscription_counts_once_toward_name_limit() {
    let at_its_limit = || {
        let mut rig = of_three_names();
        rig.run(
            "
            d> eds +a +b
            d< eds first a=1 b=1
            d> eds ack +a +b
            d< eds resubscribed a=1 b=1
            d> eds ack +b +c
            d< eds resubscribed b=1 c=1
            d> eds ack +c +a +b +c
            d< eds resubscribed a=1 b=1 c=1
            d> eds ack
            ",
        );
        rig
    };
    at_its_limit().run("open\nd> eds +c +d\nclosed 8");
    at_its_limit().run("open\nd> cds +a\nclosed 8");
    // A name that replaces another one fits.
    at_its_limit().run("d> eds -a\nd> cds +a\nd< cds first a=1\nopen");
    // The wildcard does not count as a name.
    at_its_limit().run("d> eds +*\nopen\nd< eds resubscribed");
    println!("covers: M96 M242");
}

// M116: stated versions do not add to the names when the client then answers.
#[test]
fn stated_versions_do_not_count_toward_name_limit() {
    let mut rig = of_three_names();
    rig.run(
        "
        d> eds +* +a +b +c has:x@1 has:y@1 has:z@1
        d< eds first a=1 b=1 c=1 -x -y -z
        d> eds ack
        open
        d> eds +a +b +c
        open
        ",
    );
    println!("covers: M116 M242");
}

// IS24: unsubscriptions cost as much as subscriptions, so they are limited by the same number.
#[test]
fn unsubscriptions_are_limited_per_request() {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = 2;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    // As many as the limit allows.
    rig.run("set eds a=1\nd> eds +a +b -c -d -a -b\nopen\nd> eds +a\nd< eds first a=1\nd> eds ack -a -a");
    rig.run("open\nd> eds -a -a -a -a -a");
    assert_eq!(rig.take_close(1), Some(CloseReason::TooManyNames { limit: 2 }));
    rig.run("2d> eds loc:a -loc:a -loc:a -loc:a -loc:a -loc:a\n2closed 8");
    println!("covers: IS24 M242");
}

// IS24: a long request counts as several toward the rate limit; an ACK counts as none.
#[test]
fn long_requests_count_several_times_toward_rate_limit() {
    let mut limits = ServerLimits::default();
    limits.requests = Some(Rate { per_second: 1, burst: 10 });
    limits.request_unit_bytes = 1_000;
    let list = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| format!("{n:0>98}")).collect();
        format!("> eds {}", names.join(" "))
    };
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set eds a=1");
    let one = rig.stream(1);
    // About 4,000 bytes: four or five of ten requests.
    rig.run(&list(40));
    assert!(rig.server.wants_read(one));
    rig.run(&list(41));
    assert!(rig.server.wants_read(one) || rig.server.stats().throttled == 1);
    rig.run(&list(40));
    assert!(!rig.server.wants_read(one));
    rig.run("wait 1s");
    rig.run(&list(41));
    rig.run(&list(40));
    assert_eq!(rig.take_close(1), Some(CloseReason::RequestRate { per_second: 1 }));
    // A single request may be long.
    rig.run(&format!("2{}\n2open", list(1_000)));
    // ACKs are free.
    let names = &list(40)[6..];
    rig.run(&format!("3> eds a {names}\n3< eds first a=1\n3> eds a {names}"));
    for n in 2..20 {
        rig.run(&format!("set eds a={n}\n3< eds changed a={n}\n3> eds a {names}\n3open"));
    }
    println!("covers: IS24 M242");
}
