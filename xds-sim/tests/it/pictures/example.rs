//! Example traces.

use xds_core::Time;
use xds_sim::trace::{
    Description, EventKind, Extent, Header, Keep, ParticipantKind, Phase, Recorder, Trace,
    Violation,
};

/// A name that a hostile peer might use.
pub(crate) const HOSTILE: &str =
    "</script><img src=x onerror=alert(1)>&\"'\u{2028}\u{202e}\x1b[31m\n#;end";

fn millis(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// Returns a short run in which each kind of event occurs.
pub(crate) fn small() -> Trace {
    let mut recorder = Recorder::new(Keep::All);
    let client = recorder.lane(ParticipantKind::Client, "client-0", None);
    let watcher = recorder.lane(ParticipantKind::Watcher, "w6", Some(client));
    let server = recorder.lane(ParticipantKind::Server, "server-0", None);
    let local = |sort, text: &str| Description::new(sort, text).about(["a"]);

    recorder.phase(millis(0), Phase::WarmUp);
    recorder.local(millis(0), watcher, b"", || local(EventKind::Watch, "watches cds a"));
    let asks =
        recorder.send(millis(0), client, server, b"", || local(EventKind::Request, "cds +a"));
    recorder.deliver(millis(5), asks);
    recorder.phase(millis(5), Phase::Faults);
    recorder.fault(millis(5), &[server], Extent::Begins, "the server is slow");
    let answer =
        recorder.send(millis(3_000), server, client, b"", || local(EventKind::Response, "cds a=1"));
    recorder.fault(millis(3_000), &[server], Extent::Ends, "the server is slow");
    recorder.fault(millis(3_001), &[client, server], Extent::Instant, "reset");
    recorder.lost(millis(3_001), answer, "the stream was reset");
    let again =
        recorder.send(millis(3_002), client, server, b"", || local(EventKind::Request, "cds +a"));
    recorder.deliver(millis(3_002), again);
    recorder.send(millis(3_004), server, client, b"", || local(EventKind::Response, "cds a=2"));
    recorder.local(millis(3_005), watcher, b"", || local(EventKind::Notice, "a=1"));
    let violation = Violation {
        invariant: "IC16",
        rule: "A watcher is told only what the server has sent on this stream.",
        what: "w6 was told a=1, which was lost".into(),
        at: millis(3_005),
        number: 13,
    };
    recorder.finish(Header::new(Some(0x5eed), vec!["clients=1 servers=1".into()]), Some(violation))
}

/// Returns a run with hostile names.
pub(crate) fn hostile() -> Trace {
    let mut recorder = Recorder::new(Keep::All);
    let client = recorder.lane(ParticipantKind::Client, HOSTILE, None);
    let server = recorder.lane(ParticipantKind::Server, "server-0", None);
    let what = || Description::new(EventKind::Request, HOSTILE).about([HOSTILE]);
    let sent = recorder.send(millis(0), client, server, b"", what);
    recorder.deliver(millis(1), sent);
    recorder.fault(millis(1), &[client], Extent::Instant, HOSTILE);
    let violation = Violation {
        invariant: "IC36",
        rule: "No input makes it panic.",
        what: HOSTILE.into(),
        at: millis(1),
        number: 2,
    };
    let header = Header { tape: Some(HOSTILE.into()), ..Header::new(None, vec![HOSTILE.into()]) };
    recorder.finish(header, Some(violation))
}

/// Returns a long synthetic run of two clients and two servers.
pub(crate) fn long(events: u64) -> Trace {
    let mut recorder = Recorder::new(Keep::All);
    let clients =
        [0, 1].map(|i| recorder.lane(ParticipantKind::Client, &format!("client-{i}"), None));
    let servers =
        [0, 1].map(|i| recorder.lane(ParticipantKind::Server, &format!("server-{i}"), None));
    let watchers = [0, 1, 2, 3]
        .map(|i| recorder.lane(ParticipantKind::Watcher, &format!("w{i}"), Some(clients[i / 2])));
    let stores = [0, 1]
        .map(|i| recorder.lane(ParticipantKind::Store, &format!("store-{i}"), Some(servers[i])));

    // Deterministic pseudo-random numbers.
    let mut state = 7_u64;
    let mut chance = move |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let types = ["cds", "eds", "lds", "rds"];
    let mut now = 0;
    let mut under_way = Vec::new();
    recorder.phase(millis(0), Phase::WarmUp);
    let phases = [Phase::Faults, Phase::Heal, Phase::Converge, Phase::Teardown];
    let mut next_phase = 0;
    let mut slow = false;
    while recorder.count() < events {
        now += [0, 0, 0, 1, 3, 5, 40][chance(7) as usize];
        now += if chance(60) == 0 { 5_000 + chance(9_000) } else { 0 };
        if recorder.count() > events * (next_phase as u64 + 1) / 5 && next_phase < phases.len() {
            recorder.phase(millis(now), phases[next_phase]);
            next_phase += 1;
        }
        under_way.retain(|&(due, message)| {
            if due <= now {
                if due % 11 == 0 {
                    recorder.lost(millis(now), message, "the stream was reset");
                } else {
                    recorder.deliver(millis(now), message);
                }
            }
            due > now
        });
        let side = chance(2) as usize;
        let (client, server) = (clients[side], servers[chance(2) as usize]);
        let name = format!("outbound|80||reviews-{}.default.svc.cluster.local", chance(9));
        let kind = types[chance(4) as usize];
        let version = chance(40);
        let what = |sort, text: String| Description::new(sort, text).about([name.clone()]);
        let (from, to, said) = match chance(16) {
            0 | 1 => (client, server, what(EventKind::Request, format!("{kind} +{{{name}}} n="))),
            2..=4 => {
                (client, server, what(EventKind::Ack, format!("{kind} ACK v{version} n{version}")))
            }
            5 => (
                client,
                server,
                what(
                    EventKind::Nack,
                    format!(
                        "{kind} NACK v{version} n{version}: {name}: lb_policy: unknown value 97 of enum LbPolicy"
                    ),
                ),
            ),
            6..=9 => (
                server,
                client,
                what(
                    EventKind::Response,
                    format!(
                        "{kind} v{version} n{version} {{{name}=endpoints 10.0.0.{version}:8080}}"
                    ),
                ),
            ),
            10 => {
                (server, client, what(EventKind::Removal, format!("{kind} -{{{name}}} n{version}")))
            }
            other => {
                let (lane, it) = match other {
                    11 => (
                        stores[side],
                        what(EventKind::Store, format!("sets {kind} {name} to v{version}")),
                    ),
                    12 => {
                        (watchers[side * 2], what(EventKind::Notice, format!("{name}=v{version}")))
                    }
                    13 => (
                        watchers[side * 2 + 1],
                        what(EventKind::Watch, format!("watches {kind} {name}")),
                    ),
                    14 => (client, what(EventKind::Transport, "opens ch3 to server-0".into())),
                    _ => (client, what(EventKind::Timer, format!("does not exist: {name}"))),
                };
                recorder.local(millis(now), lane, b"", || it);
                if chance(40) == 0 {
                    let extent = if slow { Extent::Ends } else { Extent::Begins };
                    slow = !slow;
                    recorder.fault(
                        millis(now),
                        &[servers[0]],
                        extent,
                        "slow: answers after 14.9 s",
                    );
                }
                continue;
            }
        };
        let message = recorder.send(millis(now), from, to, b"", || said);
        under_way.push((now + [0, 1, 5, 5, 200, 3_000][chance(6) as usize], message));
    }
    let violation = Violation {
        invariant: "IC15",
        rule: "A resource without a watch whose unsubscription was sent is never served from the cache later.",
        what: "w2 received cds reviews-3 v1 from the cache, but it had no watcher and no subscription since 12.003s".into(),
        at: millis(now),
        number: recorder.count() * 3 / 4,
    };
    let options = vec![
        "clients=2 servers=2 variant=delta types=4".into(),
        "faults={reset:0.03, half_open:0.01, slow_server:0.1, skew:off}".into(),
    ];
    recorder.finish(Header::new(Some(0x5eed_91c4), options), Some(violation))
}
