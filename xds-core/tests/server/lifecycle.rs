//! Admission and end of streams.

use core::time::Duration;

use prost::Message as _;

use crate::support::{Rig, request_of, run_all_with};
use xds_core::{
    StreamId, Time, ViewName,
    server::{
        Admission, CloseReason, Rate, Refusal, ServerConfig, ServerLimits, ServerOutput,
        StatusCode, StreamAge, StreamEvent, StreamKind, Variant,
    },
};

const VIA: StreamKind = StreamKind::Aggregated(Variant::StateOfTheWorld);

fn limited(limit: impl FnOnce(&mut ServerLimits)) -> ServerConfig {
    let mut limits = ServerLimits::default();
    limit(&mut limits);
    ServerConfig::default().with_limits(limits)
}

// M17: new streams are rate limited, for clients that all reconnect at once.
#[test]
fn new_streams_are_rate_limited() {
    let mut rig =
        Rig::new(limited(|limits| limits.new_streams = Some(Rate { per_second: 10, burst: 3 })));
    let mut accept = |millis: u64| {
        let now = Time::from_nanos(millis * 1_000_000);
        rig.server.accept(VIA, now).map(|_| ())
    };
    let refusal = Refusal::TooManyNewStreams { per_second: 10 };
    let expected = [
        (0, Ok(())),
        (0, Ok(())),
        (0, Ok(())),
        (0, Err(refusal)),
        (99, Err(refusal)),
        (100, Ok(())),
        (100, Err(refusal)),
        (5_000, Ok(())),
        (5_000, Ok(())),
        (5_000, Ok(())),
        (5_000, Err(refusal)),
        // Contract rule 1: a clock that goes backwards stands still (M244).
        (10, Err(refusal)),
    ];
    for (millis, wanted) in expected {
        assert_eq!(accept(millis), wanted, "at {millis} ms");
    }
    assert_eq!(refusal.code(), StatusCode::ResourceExhausted);
    assert_eq!(rig.server.stats().refused.too_many_new, 5);
    println!("covers: M17");
}

// IS24, M18: streams are counted per node id, and a restarted client may overlap.
#[test]
fn streams_per_node_are_limited() {
    let mut rig = Rig::new(limited(|limits| limits.streams_per_node = 2));
    let again = |rig: &mut Rig, stream: u32| {
        let request = request_of("node-1", "cds");
        let id = rig.stream(stream);
        rig.message(id, &request);
    };
    rig.run("set cds a=1\n> cds\n< cds first a=1");
    again(&mut rig, 2);
    rig.run("2open\n2< cds first a=1\nclose\nset cds a=2\n2> cds\n2< cds changed a=2");
    again(&mut rig, 1);
    rig.run("open\n< cds first a=2");
    again(&mut rig, 3);
    let reason = rig.take_close(3).expect("closed");
    assert_eq!(reason, CloseReason::TooManyStreamsOfNode { limit: 2 });
    assert_eq!(reason.code(), StatusCode::ResourceExhausted);
    assert_eq!(reason.to_string(), "more than 2 streams of one node");
    assert_eq!(rig.server.stats().closed.streams_per_node, 1);
    // Refused streams do not count, and other nodes are not affected.
    rig.run("2close\n4> cds\n4< cds first a=2\n4open\nopen");
    again(&mut rig, 5);
    rig.run("5open\n5< cds first a=2");
    println!("covers: M18 IS24");
}

// M242, IS24: a client above the request rate is not read, and finally closed; ACKs are free.
#[test]
fn requests_are_rate_limited() {
    let mut rig =
        Rig::new(limited(|limits| limits.requests = Some(Rate { per_second: 10, burst: 3 })));
    rig.run("set eds a=1 b=1\n> eds a\n< eds first a=1");
    let stream = rig.stream(1);
    // Answers to responses are free.
    for content in 0..20 {
        rig.run(&format!("> eds a\nset eds a={content}x\n< eds changed a={content}x"));
    }
    assert!(rig.server.wants_read(stream));
    rig.run("> eds a\n> eds a b\n> eds a");
    assert!(!rig.server.wants_read(stream), "after a burst of three");
    let due = rig.server.poll_timeout().expect("a deadline").at;
    assert_eq!(due, rig.now.after(Duration::from_millis(100)));
    rig.run("wait 99ms");
    assert!(!rig.server.wants_read(stream));
    rig.run("wait 1ms");
    assert!(rig.server.wants_read(stream), "the driver is woken to read on");
    rig.run("> eds a\n> eds a b\n> eds a\nopen\n> eds a b\nopen\n> eds a");
    let reason = rig.take_close(1).expect("closed");
    assert_eq!(reason, CloseReason::RequestRate { per_second: 10 });
    assert_eq!(reason.code(), StatusCode::ResourceExhausted);
    let stats = rig.server.stats();
    assert_eq!((stats.throttled, stats.closed.requests, stats.closed.limits), (2, 1, 1));
    assert_eq!(rig.server.poll_timeout(), None, "nothing is waited for");
    println!("covers: M242 IS24");
}

// M241: every NACK is counted, but observations are rate limited.
#[test]
fn nack_observations_are_rate_limited() {
    let mut rig = Rig::new(limited(|limits| {
        limits.observed_nacks = Some(Rate { per_second: 1, burst: 2 });
    }));
    let nacks = |rig: &mut Rig, count: usize| {
        for _ in 0..count {
            // A repeated subscription makes the server send again.
            rig.run("d> eds nack +a\nd< eds resubscribed a=1");
        }
        let observed = rig.observations();
        let is_nack = |it: &&_| matches!(it, xds_core::server::Observation::Nacked { .. });
        observed.iter().filter(is_nack).count()
    };
    rig.run("set eds a=1\nd> eds +a\nd< eds first a=1");
    assert_eq!(nacks(&mut rig, 9), 2);
    rig.run("wait 1s");
    assert_eq!(nacks(&mut rig, 3), 1);
    let stats = rig.server.stats();
    assert_eq!((stats.nacks, stats.unobserved_nacks), (12, 9));
    println!("covers: M241");
}

#[test]
fn drain_waits_for_pending_acks_until_grace() {
    run_all_with(
        &ServerConfig::default(),
        &[
            (
                "M14 IS33",
                "
                set cds a=1; eds x=1
                > cds
                < cds first a=1
                2> cds
                2< cds first a=1
                2> cds                  # no response in flight
                drain 0s grace 10s
                wait 0s
                2closed 14
                open
                set cds a=2
                > eds x
                <                       # no more updates
                wait 9s
                open
                > cds                   # the awaited ACK
                closed 14
            ",
            ),
            (
                "M14 IS33",
                "
                set cds a=1; eds x=1
                > cds
                < cds first a=1
                > eds x
                < eds first x=1
                drain 0s grace 10s
                wait 0s
                > cds nack              # a NACK is an answer; the other answer is missing
                open
                wait 10s
                closed 14               # the grace period is over
            ",
            ),
            (
                "M14 IS33",
                "
                set cds a=1
                > cds
                < cds first a=1
                drain 0s grace 0s
                wait 0s
                closed 14
            ",
            ),
            (
                "IS33",
                "
                set cds a=1
                > cds
                drain 60s grace 10s
                < cds first a=1         # not due yet
                > cds
                set cds a=2
                < cds changed a=2
                > cds
                open
                drain 0s grace 0s       # a faster drain
                wait 0s
                closed 14
            ",
            ),
            (
                "M14 IS33",
                "
                set cds a=1
                > cds
                < cds first a=1
                2> cds
                2< cds first a=1
                3> cds
                3< cds first a=1
                drain 0s grace 60s
                wait 0s
                open                    # ends after the ACK
                3close
                drain 0s grace 600s     # a drain is never slowed down
                drain 0s grace 5s
                wait 4s
                open
                2open
                drain 0s grace 0s
                wait 0s
                closed 14
                2closed 14
            ",
            ),
            (
                "M14 IS33",
                "
                set cds a=1
                > cds
                < cds first a=1
                drain 0s grace 60s      # due, but the timer has not fired
                drain 0s grace 10s
                wait 9s
                open
                wait 1s
                closed 14
            ",
            ),
        ],
    );
}

// M14, M239: a stream that ends because of its age waits no longer than others in a drain.
#[test]
fn drain_shortens_grace_of_aged_streams() {
    let mut config = ServerConfig::default();
    let (age, grace_period) = (Duration::from_secs(100), Duration::from_secs(300));
    config.max_stream_age = Some(StreamAge::new(age).with_grace_period(grace_period));
    let mut rig = Rig::new(config);
    rig.run(
        "set cds a=1\n> cds\n< cds first a=1\nwait 101s\nopen\ndrain 0s grace 5s\nwait 4s\nopen",
    );
    assert!(!rig.effects().contains(&ServerOutput::Drained));
    rig.run("wait 1s");
    let id = rig.stream(1);
    let ended = ServerOutput::Close(id, CloseReason::ShuttingDown);
    assert_eq!(rig.effects(), [ended, ServerOutput::Drained]);
    assert_eq!(rig.server.poll_timeout(), None);
    println!("covers: M14 M239 IS33");
}

// M238, IS33: a drain spreads the ends of streams evenly over its time.
#[test]
fn drain_spreads_stream_ends_over_time() {
    let ends = |seed: u64| {
        let mut rig = Rig::seeded(ServerConfig::default(), seed);
        for _ in 0..1_000 {
            rig.server.accept(VIA, rig.now).expect("a stream");
        }
        rig.drain();
        rig.effects();
        rig.run("drain 100s grace 5s");
        assert_eq!(rig.server.accept(VIA, rig.now), Err(Refusal::ShuttingDown));
        let mut ends = Vec::new();
        for second in 0..100 {
            rig.run("wait 1s");
            let effects = rig.effects();
            let last = effects.last() == Some(&ServerOutput::Drained);
            assert_eq!(last, second == 99, "told once, after the last");
            ends.push(effects.len() - usize::from(last));
        }
        assert_eq!(rig.server.stats().streams, 0);
        assert_eq!(rig.server.stats().closed.shutting_down, 1_000);
        assert_eq!(rig.server.poll_timeout(), None);
        ends
    };
    let one = ends(1);
    assert_eq!(one.iter().sum::<usize>(), 1_000);
    assert!(one.iter().all(|&count| count == 10), "{one:?}");
    assert_eq!(one, ends(1), "the same seed, the same moments");

    // Two servers that drain at the same time end their first streams at different times.
    let first = |seed: u64| {
        let mut rig = Rig::seeded(ServerConfig::default(), seed);
        rig.server.accept(VIA, rig.now).expect("a stream");
        rig.drain();
        rig.run("drain 100s grace 5s");
        rig.server.poll_timeout().expect("a deadline").at
    };
    assert_ne!(first(1), first(2));
    println!("covers: M238 IS33");
}

// M14: a driver that gives up waiting for a drain learns of its end as well, and only once.
#[test]
fn shutdown_ends_drain() {
    for is_draining in [true, false] {
        let mut rig = Rig::default();
        rig.run("set cds a=1\n> cds\n< cds first a=1");
        if is_draining {
            rig.run("drain 100s grace 5s");
        }
        rig.effects();
        let id = rig.stream(1);
        rig.server.shut_down(rig.now);
        let ended = ServerOutput::Close(id, CloseReason::ShuttingDown);
        rig.drain();
        assert_eq!(rig.effects(), [ended, ServerOutput::Drained], "{is_draining}");
        rig.run("drain 1s grace 5s");
        rig.server.shut_down(rig.now);
        rig.drain();
        assert_eq!((rig.effects().len(), rig.server.poll_timeout()), (0, None));
    }
    println!("covers: M14");
}

#[test]
fn drain_without_streams_completes_at_once() {
    let mut rig = Rig::default();
    rig.run("drain 100s grace 5s\ndrain 1s grace 5s");
    assert_eq!(rig.effects(), [ServerOutput::Drained]);
    rig.run("ready");
    assert_eq!(rig.server.accept(VIA, rig.now), Err(Refusal::ShuttingDown));
    println!("covers: M14");
}

// M242, IS24: a stream without a request belongs to no node, so the node limit does not cover it.
#[test]
fn stream_without_request_is_closed() {
    let after = Duration::from_secs(60);
    let mut rig = Rig::default();
    rig.run("set cds a=1\n> cds\n< cds first a=1\n> cds");
    let silent = rig.server.accept(VIA, rig.now).expect("a stream");
    let is_end = |it: &ServerOutput| matches!(it, ServerOutput::Close(id, _) if *id == silent);
    rig.run("wait 59s");
    assert!(!rig.effects().iter().any(is_end));
    rig.run("wait 1s");
    let ends: Vec<_> = rig.effects().into_iter().filter(is_end).collect();
    assert_eq!(ends, [ServerOutput::Close(silent, CloseReason::NoRequest { after })]);
    assert_eq!(CloseReason::NoRequest { after }.code(), StatusCode::DeadlineExceeded);
    assert_eq!(rig.server.stats().closed.no_request, 1);

    // After its first request a client may be silent forever.
    rig.run("wait 10000s\nset cds a=2\n< cds changed a=2\n> cds");
    assert_eq!(rig.server.poll_timeout(), None);

    // A drain ends silent streams as planned.
    let silent = rig.server.accept(VIA, rig.now).expect("a stream");
    rig.run("drain 200s grace 5s\nwait 200s");
    let why = rig.effects().into_iter().find_map(|it| match it {
        ServerOutput::Close(id, why) if id == silent => Some(why),
        _ => None,
    });
    assert_eq!(why, Some(CloseReason::ShuttingDown));
    println!("covers: M242 IS24");
}

// M9, IS24: a stream without an admission decision is closed, and its state is freed.
#[test]
fn stream_without_admission_decision_is_closed() {
    let after = Duration::from_secs(60);
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    config.limits.decision = Some(after);
    config.max_stream_age = Some(StreamAge::new(100 * after));
    let mut rig = Rig::new(config);
    let ask = |rig: &mut Rig| {
        let stream = rig.server.accept(VIA, rig.now).expect("a stream");
        for _ in 0..2 {
            let message = request_of("n", "cds").encode_to_vec().into();
            rig.server.handle_event(StreamEvent::Message(stream, message), rig.now);
            rig.run("wait 29s");
        }
        stream
    };
    let closes = |rig: &mut Rig, of: StreamId| {
        rig.effects().into_iter().find_map(|it| match it {
            ServerOutput::Close(id, why) if id == of => Some(why),
            _ => None,
        })
    };
    let waiting = ask(&mut rig);
    assert_eq!(closes(&mut rig, waiting), None);
    rig.run("wait 2s");
    assert_eq!(closes(&mut rig, waiting), Some(CloseReason::NoDecision { after }));
    assert_eq!(CloseReason::NoDecision { after }.code(), StatusCode::Unavailable);
    assert_eq!(rig.server.stats().closed.no_decision, 1);

    // An admitted stream stays until its maximum age; a drain ends waiting streams as planned.
    let served = ask(&mut rig);
    rig.server.assign(served, &ViewName::default(), rig.now);
    rig.run("wait 5990s");
    assert_eq!(closes(&mut rig, served), None);
    rig.run("wait 20s");
    assert_eq!(closes(&mut rig, served), Some(CloseReason::StreamAge));
    let late = ask(&mut rig);
    rig.run("drain 200s grace 5s\nwait 200s");
    assert_eq!(closes(&mut rig, late), Some(CloseReason::ShuttingDown));
    println!("covers: M9 IS24");
}

// M239: the maximum age has jitter, so that streams do not end together.
#[test]
fn aged_streams_are_closed_with_jitter() {
    let mut config = ServerConfig::default();
    let age = Duration::from_secs(1_000);
    config.max_stream_age =
        Some(StreamAge::new(age).with_jitter_percent(20).with_grace_period(age));
    config.limits.first_request = None;
    let mut rig = Rig::new(config);
    rig.run("set cds a=1");
    let vias = [VIA, StreamKind::Aggregated(Variant::Incremental)];
    let vias = vias.into_iter().cycle().take(200);
    let streams: Vec<_> =
        vias.map(|via| rig.server.accept(via, rig.now).expect("a stream")).collect();
    rig.server.handle_event(StreamEvent::Closed(streams[0]), rig.now);
    rig.run("wait 799s");
    let of_age = |rig: &mut Rig| {
        let ends = |it: &ServerOutput| matches!(it, ServerOutput::Close(_, CloseReason::StreamAge));
        rig.effects().into_iter().filter(ends).count()
    };
    assert_eq!(of_age(&mut rig), 0);
    let mut closed = Vec::new();
    for _ in 0..8 {
        rig.run("wait 50s");
        closed.push(of_age(&mut rig));
    }
    rig.run("wait 2s");
    assert_eq!(closed.iter().sum::<usize>() + of_age(&mut rig), 199);
    assert!(closed.iter().all(|&count| (5..60).contains(&count)), "{closed:?}");
    assert_eq!(rig.server.stats().closed.aged, 199);
    assert_eq!(CloseReason::StreamAge.code(), StatusCode::Unavailable);

    // A stream that ends because of its age waits for a pending ACK.
    rig.run("> cds\n< cds first a=1\n2d> cds +*\n2d< cds first a=1\nwait 1201s");
    rig.run("open\n2open\nset cds a=2\n<\n2<\n> cds\n2d> cds ack");
    assert_eq!(rig.take_close(1), Some(CloseReason::StreamAge));
    assert_eq!(rig.take_close(2), Some(CloseReason::StreamAge));
    println!("covers: M239 IS33");
}
