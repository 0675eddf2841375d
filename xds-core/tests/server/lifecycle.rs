//! When streams are taken, and how they end.

use core::time::Duration;

use prost::Message as _;

use crate::support::{Rig, request_of, run_all_with};
use xds_core::{
    StreamId, Time, ViewName,
    server::{
        Admission, CloseReason, Rate, Refusal, ServerConfig, ServerLimits, ServerOutput,
        StatusCode, StreamAge, StreamEvent, Variant, Via,
    },
};

const VIA: Via = Via::Aggregated(Variant::StateOfTheWorld);

fn limited(limit: impl FnOnce(&mut ServerLimits)) -> ServerConfig {
    let mut limits = ServerLimits::default();
    limit(&mut limits);
    ServerConfig::default().with_limits(limits)
}

/// M17: a fleet that reconnects at once is let in bit by bit.
#[test]
fn new_streams_are_taken_at_a_rate() {
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
        // Contract rule 1: time that goes back stands still (M244).
        (10, Err(refusal)),
    ];
    for (millis, wanted) in expected {
        assert_eq!(accept(millis), wanted, "at {millis} ms");
    }
    assert_eq!(refusal.code(), StatusCode::ResourceExhausted);
    assert_eq!(rig.server.stats().refused.too_fast, 5);
    println!("covers: M17");
}

/// IS24, M18: streams of one node are counted by its id, and a restart still overlaps.
#[test]
fn one_node_has_only_so_many_streams() {
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
    // What was refused does not count, and other nodes are not concerned.
    rig.run("2close\n4> cds\n4< cds first a=2\n4open\nopen");
    again(&mut rig, 5);
    rig.run("5open\n5< cds first a=2");
    println!("covers: M18 IS24");
}

/// M242, IS24: who asks too often is read no more, then closed; who answers often is not.
#[test]
fn requests_are_taken_at_a_rate() {
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

/// M241: all rejections count, not all are observed.
#[test]
fn a_flood_of_rejections_is_observed_in_part() {
    let mut rig = Rig::new(limited(|limits| {
        limits.observed_nacks = Some(Rate { per_second: 1, burst: 2 });
    }));
    let nacks = |rig: &mut Rig, count: usize| {
        for _ in 0..count {
            // Asking again is how a client makes the server send again.
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
fn a_drained_server_lets_each_stream_finish() {
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
                2> cds                  # nothing is on its way on this one
                drain 0s grace 10s
                wait 0s
                2closed 14
                open
                set cds a=2
                > eds x
                <                       # it is sent nothing more
                wait 9s
                open
                > cds                   # the answer that was waited for
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
                > cds nack              # a rejection is an answer; the other is missing
                open
                wait 10s
                closed 14               # it was waited for long enough
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
                < cds first a=1         # its time has not come
                > cds
                set cds a=2
                < cds changed a=2
                > cds
                open
                drain 0s grace 0s       # after all, it must be fast
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
                open                    # it is ending, once it has answered
                3close
                drain 0s grace 600s     # slower it does not become
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
                drain 0s grace 60s      # its time has come, but the alarm has not gone off
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

/// M14, M239: whose age ends it has no more time than all others once the server goes.
#[test]
fn a_drained_server_waits_no_longer_for_streams_that_are_old() {
    let mut config = ServerConfig::default();
    let (age, grace) = (Duration::from_secs(100), Duration::from_secs(300));
    config.max_stream_age = Some(StreamAge { age, jitter_percent: 0, grace });
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

/// M238, IS33: thousands of streams end one after the other, over the time of the plan and not in step.
#[test]
fn draining_is_spread_over_time() {
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

    // Nor do two servers that drain at the same time end their first streams in the same moment.
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

#[test]
fn a_server_without_streams_is_drained_at_once() {
    let mut rig = Rig::default();
    rig.run("drain 100s grace 5s\ndrain 1s grace 5s");
    assert_eq!(rig.effects(), [ServerOutput::Drained]);
    rig.run("ready");
    assert_eq!(rig.server.accept(VIA, rig.now), Err(Refusal::ShuttingDown));
    println!("covers: M14");
}

/// M242, IS24: what asks for nothing belongs to no node, whose streams could be counted.
#[test]
fn a_stream_on_which_nothing_is_asked_is_ended() {
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

    // Who has asked once may be silent for ever.
    rig.run("wait 10000s\nset cds a=2\n< cds changed a=2\n> cds");
    assert_eq!(rig.server.poll_timeout(), None);

    // A server that drains does so as it would.
    let silent = rig.server.accept(VIA, rig.now).expect("a stream");
    rig.run("drain 200s grace 5s\nwait 200s");
    let why = rig.effects().into_iter().find_map(|it| match it {
        ServerOutput::Close(id, why) if id == silent => Some(why),
        _ => None,
    });
    assert_eq!(why, Some(CloseReason::ShuttingDown));
    println!("covers: M242 IS24");
}

/// M9, IS24: an application that does not answer keeps nobody waiting, and nothing of what they asked for.
#[test]
fn a_stream_of_which_nobody_decides_what_it_sees_is_ended() {
    let after = Duration::from_secs(60);
    let mut config = ServerConfig::default();
    config.admission = Admission::Asked;
    config.limits.decision = Some(after);
    config.max_stream_age =
        Some(StreamAge { age: 100 * after, jitter_percent: 0, grace: Duration::ZERO });
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

    // Who was let in stays until it is old, and who is sent away at a drain is so by its plan.
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

/// M239: streams that came together do not come back together.
#[test]
fn old_streams_are_ended_with_jitter() {
    let mut config = ServerConfig::default();
    let age = Duration::from_secs(1_000);
    config.max_stream_age = Some(StreamAge { age, jitter_percent: 20, grace: age });
    config.limits.first_request = None;
    let mut rig = Rig::new(config);
    rig.run("set cds a=1");
    let vias = [VIA, Via::Aggregated(Variant::Incremental)];
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

    // And like all planned ends, this one lets the client answer.
    rig.run("> cds\n< cds first a=1\n2d> cds +*\n2d< cds first a=1\nwait 1201s");
    rig.run("open\n2open\nset cds a=2\n<\n2<\n> cds\n2d> cds ack");
    assert_eq!(rig.take_close(1), Some(CloseReason::StreamAge));
    assert_eq!(rig.take_close(2), Some(CloseReason::StreamAge));
    println!("covers: M239 IS33");
}
