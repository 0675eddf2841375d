//! Clocks that go backwards (contract rule 1).
// M244

use crate::support::{request_of, transaction, url};
use core::time::Duration;
use prost::Message as _;
use xds_core::{
    Frame, Time, ViewName,
    server::{
        Admission, DrainPlan, MakeBeforeBreakPolicy, OrderingPolicy, ResourceOptions, Server,
        ServerConfig, ServerOutput, StreamEvent, StreamKind, Transaction, Variant,
    },
};

fn at(millis: u64) -> Time {
    Time::ZERO.after(Duration::from_millis(millis))
}

/// Outputs of a server with all kinds of timers, with inputs at these times.
fn life(times: impl Fn(u64) -> u64) -> Vec<String> {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    config.ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
    config.idle_view_timeout = Some(Duration::from_secs(20));
    let mut server = Server::new(config, 1, at(times(0)));
    let (mut said, mut turn) = (Vec::new(), 0);
    let mut streams = Vec::new();
    for step in 0..200_u64 {
        turn += 1;
        let now = at(times(turn));
        match step % 8 {
            0 => {
                let mut change = transaction(&format!("cds c={step}; lds l={step}"));
                let options = ResourceOptions::default().with_ttl(Duration::from_secs(9));
                change.set_with(url("eds"), "e", vec![step as u8], options);
                said.push(format!("{:?}", server.apply(change, now)));
            }
            1 => {
                let stream = server.accept(StreamKind::Aggregated(Variant::StateOfTheWorld), now);
                streams.extend(stream.inspect(|it| said.push(format!("{it:?}"))));
            }
            2 | 3 => {
                let short = if step % 8 == 2 { "cds" } else { "lds" };
                for (n, &stream) in streams.iter().enumerate() {
                    let request = request_of(&format!("n{n}"), short).encode_to_vec();
                    server.handle_event(StreamEvent::Message(stream, request.into()), now);
                }
            }
            4 => streams.iter().for_each(|&it| {
                server.assign(it, &ViewName::default(), now);
            }),
            5 if step > 150 => server.drain(
                DrainPlan::new(Duration::from_secs(5)).with_period(Duration::from_secs(5)),
                now,
            ),
            _ => server.handle_timeout(now),
        }
        for &stream in &streams {
            let mut frame = Frame::default();
            while let Some(sent) = server.poll_transmit(stream, now, &mut frame) {
                said.push(format!("{sent:?}"));
            }
        }
        while let Some(output) = server.poll_output() {
            if let ServerOutput::Close(gone, _) = &output {
                streams.retain(|stream| stream != gone);
            }
            said.push(format!("{output:?}"));
        }
        said.push(format!("{:?}", server.poll_timeout()));
    }
    let mut last = Transaction::new();
    last.remove(url("cds"), "c");
    said.push(format!("{:?} {:?}", server.apply(last, at(0)), server.stats()));
    said
}

/// A time before the previous one is treated as the previous one in every input, so that no timer
/// fires early, late or twice.
#[test]
fn backward_clock_is_treated_as_standing_still() {
    // Steps of 400 ms; every third one goes back by up to minutes.
    let jumps = |turn: u64| match turn % 3 {
        2 => (turn * 400).saturating_sub(turn * turn * 37 % 200_000),
        _ => turn * 400,
    };
    let stands = |turn: u64| (0..=turn).map(jumps).max().unwrap_or(0);
    let (back, still) = (life(jumps), life(stands));
    assert!(still.len() > 300, "{}", still.len());
    for (n, (back, still)) in back.iter().zip(&still).enumerate() {
        assert_eq!(back, still, "output {n}");
    }
    assert_eq!(back.len(), still.len());
    println!("covers: M244");
}

/// A heartbeat after the last representable time is never due.
#[test]
fn heartbeat_at_the_last_representable_time_is_skipped() {
    let last = Time::from_nanos(u64::MAX);
    let mut server = Server::new(ServerConfig::default(), 1, last);
    let mut change = Transaction::new();
    let options = ResourceOptions::default().with_ttl(Duration::from_secs(9));
    change.set_with(url("eds"), "e", vec![1], options);
    server.apply(change, last).unwrap();
    server.handle_timeout(last);
    assert_eq!(server.poll_timeout(), None);
}
