//! Half-open streams: they are closed in time, and their clients reconnect.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use xds_core::{Time, WatchId};

use super::{Event, Oracle, Report, Rule, convergence::LONGEST_PAUSE};
use crate::{
    options::{Options, Transport},
    world::{KEEPALIVE, LinkId, World},
};

const GIVEN_UP: Rule =
    Rule::new("IL3", "a silent stream is closed at both ends within its keepalive time");
const COMES_BACK: Rule = Rule::new(
    "IL3",
    "a client that closed a silent stream and still has watches opens another one within the longest backoff",
);

/// Checks the treatment of silent streams.
#[derive(Debug, Default)]
pub(super) struct HalfOpen {
    silent: BTreeMap<LinkId, Silent>,
    /// Time at which each client last opened a stream, by client and the type that the stream
    /// carries.
    opened: BTreeMap<(usize, Option<usize>), Time>,
}

#[derive(Debug)]
struct Silent {
    since: Time,
    /// Total time by which the clock had jumped at `since`.
    jumped: Duration,
    /// Watches that are subscribed on the stream.
    watches: BTreeSet<WatchId>,
    /// Time that the client has spent since on attempts to reach the server for another stream,
    /// because it makes one attempt at a time.
    tried: Duration,
    /// Time at which the current attempt began, as far as it is not counted.
    trying: Option<Time>,
}

impl HalfOpen {
    /// Whether runs with these options are checked.
    pub(super) fn applies(options: &Options) -> bool {
        options.transport == Transport::Streams
    }

    fn falls_silent(&mut self, link: LinkId, world: &World) {
        let it = world.link(link);
        let is_asked_for_there = |kind: usize, name: Option<&str>| {
            it.only.is_none_or(|only| only == kind)
                && name.is_none_or(|name| world.serves(it.server, name))
        };
        let watches = world.watches(it.client);
        let watches = watches.filter(|(_, it)| is_asked_for_there(it.kind, it.name.as_deref()));
        let silent = Silent {
            since: world.now(),
            jumped: world.jumped(),
            watches: watches.map(|(id, _)| id).collect(),
            tried: Duration::ZERO,
            trying: None,
        };
        self.silent.entry(link).or_insert(silent);
    }

    fn check(&mut self, world: &World, report: &mut Report) {
        let options = world.options();
        let opened = &self.opened;
        self.silent.retain(|link, silent| {
            let it = world.link(*link);
            // Timers that are due during a clock jump fire after it.
            let late = world.jumped().saturating_sub(silent.jumped) + world.slowest();
            let due = silent.since.after(KEEPALIVE + options.latency + options.jitter + late);
            let due = due.max(it.settled_at());
            let is_held = it.is_known_to_client || it.is_known_to_server();
            report.ensure(!is_held || world.now() <= due, GIVEN_UP, || {
                format!("stream {} has been silent since {}", link.0, silent.since)
            });
            let mut of_server =
                world.links(it.client).filter(|(_, other)| other.server == it.server);
            let is_trying = of_server.any(|(_, other)| !other.is_open);
            let began = std::mem::replace(&mut silent.trying, is_trying.then(|| world.now()));
            silent.tried += began.map(|since| world.now().since(since)).unwrap_or_default();
            let is_wanted =
                silent.watches.iter().any(|id| world.watch_of(it.client, *id).is_some());
            let last = opened.get(&(it.client, it.only));
            if is_held || world.links(it.client).any(|(_, other)| other.only == it.only) {
                return is_held;
            }
            let has_come = last.is_some_and(|at| *at > silent.since);
            if has_come || !is_wanted || !world.is_punctual() || world.is_shut_down(it.client) {
                return false;
            }
            let due = due.after(LONGEST_PAUSE + silent.tried);
            report.ensure(world.now() <= due, COMES_BACK, || {
                format!("client-{} has not come back since stream {}", it.client, link.0)
            });
            true
        });
    }
}

impl Oracle for HalfOpen {
    fn rules(&self) -> &'static [Rule] {
        &[GIVEN_UP, COMES_BACK]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Silent { link } => self.falls_silent(link, world),
            Event::Opening { link } => {
                let it = world.link(link);
                self.opened.insert((it.client, it.only), world.now());
            }
            Event::ClientRestarted { client } | Event::ShutDown { client } => {
                self.silent.retain(|link, _| world.link(*link).client != client);
            }
            _ => {}
        }
        if !self.silent.is_empty() {
            self.check(world, report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{oracle::testing::judgement, world::Reach};

    /// Returns the rule broken when a stream is reported silent since this time, and is or is not.
    fn judged(ago: Duration, is_so: bool) -> Option<&'static str> {
        judgement(move |world, link, report| {
            let mut oracle = HalfOpen::default();
            oracle.on_event(&Event::Silent { link }, world, report);
            if is_so {
                world.half_open(link, true, true);
            }
            world.advance(ago);
            oracle.on_event(&Event::Rest, world, report);
        })
    }

    #[test]
    fn half_open_stream_that_is_kept_is_detected() {
        let late = KEEPALIVE + Duration::from_secs(1);
        assert_eq!(judged(KEEPALIVE, false), None, "it may be found out yet");
        assert_eq!(judged(late, false), Some("IL3"));
        assert_eq!(judged(late, true), None);
        println!("covers: IL3");
    }

    #[test]
    fn missing_reconnect_after_a_half_open_stream_is_detected() {
        let judged = |comes_back: bool, is_trying: bool| {
            judgement(move |world, link, report| {
                let mut oracle = HalfOpen::default();
                oracle.on_event(&Event::Silent { link }, world, report);
                world.half_open(link, true, true);
                world.set_reach(0, Reach::Refused, LONGEST_PAUSE * 4);
                let mut waited = Duration::ZERO;
                // Until the client waits in its backoff.
                while waited < KEEPALIVE + LONGEST_PAUSE * 2 || world.links(0).count() > 0 {
                    world.advance(Duration::from_secs(1));
                    waited += Duration::from_secs(1);
                }
                if comes_back {
                    oracle.on_event(&Event::Opening { link }, world, report);
                }
                if is_trying {
                    let silent = oracle.silent.values_mut();
                    silent.for_each(|it| it.tried = LONGEST_PAUSE * 4);
                }
                oracle.on_event(&Event::Rest, world, report);
            })
        };
        assert_eq!(judged(true, false), None);
        assert_eq!(judged(false, false), Some("IL3"));
        assert_eq!(judged(false, true), None, "another of its streams was under way");
        println!("covers: IL3");
    }
}
