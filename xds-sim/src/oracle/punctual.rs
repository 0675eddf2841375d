//! Upper bounds of backoff and does-not-exist timers. `connections` checks the lower bounds.
//!
//! They apply in the gRPC profile, with one aggregated stream to one server. Backoff is checked by
//! the requested wake-up time, so late drivers do not matter. Does-not-exist timers are checked
//! only while no driver was late.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use xds_core::{
    Time, WatchId,
    client::{Notice, WatchError, WatchErrorKind},
};

use super::{Event, Oracle, Report, Rule, StreamEnd};
use crate::{
    options::{Options, ProfileName, Streams, Transport, Verdicts},
    world::{LinkId, World, message::Text},
};

const PAUSES_END: Rule = Rule::new(
    "IC26",
    "a needed server is retried when the backoff of its consecutive failures is over",
);
const FOUND_MISSING: Rule = Rule::new(
    "IC25",
    "a resource that does not arrive is reported missing as soon as the configured timeout has passed",
);

/// Maximum of gRPC's first backoff with jitter, and of all of its backoffs.
const FIRST_PAUSE: Duration = Duration::from_millis(1_200);
const LONGEST_PAUSE: Duration = Duration::from_secs(36);

/// Time after its first response for which a stream must live to reset the backoff.
const YOUNG: Duration = Duration::from_secs(10);

/// Checks upper bounds of waiting times.
#[derive(Debug, Default)]
pub(super) struct Punctual {
    servers: BTreeMap<usize, Server>,
    streams: BTreeMap<LinkId, TimedStream>,
    watches: BTreeMap<(usize, WatchId), Time>,
    /// Watches that were notified of a missing or failed resource and have received no value since.
    missing: BTreeSet<(usize, WatchId)>,
}

/// State of the server at a client.
#[derive(Debug, Default)]
struct Server {
    /// Consecutive connection failures, and consecutive streams that ended early.
    refusals: u32,
    early_ends: u32,
    /// Latest time of the next connection attempt.
    due: Option<Time>,
}

#[derive(Debug, Default)]
struct TimedStream {
    is_open: bool,
    responded: Option<Time>,
    /// Time since which each name has been subscribed.
    since: BTreeMap<(usize, Text), Time>,
    /// Nonce of the newest response, and the time at which it was read.
    newest: Option<(Text, Time)>,
    /// Ends and durations of delays of NACKs. Nothing is read in between, so the does-not-exist
    /// timer stops.
    held: Vec<(Time, Duration)>,
}

impl TimedStream {
    fn rejected(&mut self, nonce: &Text, now: Time) {
        if let Some((_, read)) = self.newest.take_if(|(newest, _)| newest == nonce) {
            self.held.push((now, now.since(read)));
        }
    }

    fn held_since(&self, since: Time) -> Duration {
        self.held.iter().filter(|(until, _)| *until >= since).map(|(_, held)| *held).sum()
    }
}

/// Returns the maximum backoff after this number of consecutive failures.
fn pause(in_a_row: u32) -> Duration {
    (1..in_a_row).fold(FIRST_PAUSE, |pause, _| (pause * 8 / 5).min(LONGEST_PAUSE))
}

impl Punctual {
    /// Returns the oracle for runs with these options, if it applies.
    pub(super) fn of(options: &Options) -> Option<Self> {
        let is_simple = options.profile == ProfileName::Grpc
            && options.transport == Transport::Streams
            && options.streams == Streams::Aggregated
            && options.verdicts == Verdicts::AtOnce
            && options.servers == 1;
        is_simple.then(Self::default)
    }

    fn ended(&mut self, link: LinkId, end: StreamEnd, world: &World) {
        let Some(stream) = self.streams.remove(&link) else { return };
        let server = self.servers.entry(world.link(link).client).or_default();
        let has_served = stream.responded.is_some_and(|at| world.now().since(at) >= YOUNG);
        if end == StreamEnd::ByClient {
            server.due = None;
            // Not a failure; after a stream that served, the next failure is the first.
            if has_served {
                server.early_ends = 0;
            }
            return;
        }
        let in_a_row = if !stream.is_open {
            server.refusals += 1;
            server.refusals
        } else if has_served {
            server.early_ends = 0;
            1
        } else {
            server.early_ends += 1;
            server.early_ends
        };
        server.due = Some(world.now().after(pause(in_a_row)));
    }

    fn drained(&self, client: usize, world: &World, report: &mut Report) {
        let due = self.servers.get(&client).and_then(|server| server.due);
        let Some(due) = due.filter(|_| world.watches(client).next().is_some()) else { return };
        let wakes = world.client(client).poll_timeout().map(|deadline| deadline.at);
        report.ensure(wakes.is_some_and(|at| at <= due), PAUSES_END, || {
            format!(
                "client-{client} wants to be woken at {wakes:?}, and an attempt is due at {due}"
            )
        });
    }

    fn requested(&mut self, link: LinkId, kind: usize, world: &World) {
        let Some(stream) = self.streams.get_mut(&link) else { return };
        let Some(subscription) = world.link(link).asked(kind) else { return };
        for name in &subscription.lost {
            stream.since.remove(&(kind, name.clone()));
        }
        for name in &subscription.gained {
            stream.since.insert((kind, name.clone()), world.now());
        }
    }

    fn notified(
        &mut self,
        client: usize,
        id: WatchId,
        notice: &Notice,
        world: &World,
        report: &mut Report,
    ) {
        let Notice::Changed(result) = notice else { return };
        let kind = result.as_ref().err().map(WatchError::kind);
        let timeout = match kind {
            Some(WatchErrorKind::DoesNotExist(timeout) | WatchErrorKind::Timeout(timeout)) => {
                timeout
            }
            Some(WatchErrorKind::Unavailable(_)) => {
                // Resources known to be missing are reported again after the recovery.
                self.missing.insert((client, id));
                return;
            }
            _ => {
                self.missing.remove(&(client, id));
                return;
            }
        };
        if !self.missing.insert((client, id)) {
            return;
        }
        let Some(watch) = world.watch_of(client, id) else { return };
        let Some(name) = &watch.name else { return };
        if !world.watched(client, watch.kind).is_of_single_ones() {
            return; // Resources missing from a wildcard are reported by name.
        }
        let key = (watch.kind, name.clone());
        let of_client = self.streams.iter().filter(|(link, _)| world.link(**link).client == client);
        let since = of_client.filter_map(|(_, stream)| {
            let since = stream.since.get(&key)?;
            Some((since, stream.held_since(*since)))
        });
        let since = since.max();
        let (Some((since, held)), Some(begun)) = (since, self.watches.get(&(client, id))) else {
            return;
        };
        if !world.is_punctual() {
            return;
        }
        let due = since.after(*timeout).after(held);
        // A later watch is notified at once of an earlier result.
        report.ensure(world.now() <= due.max(*begun), FOUND_MISSING, || {
            format!("client-{client} {id}: {name} was asked for at {since}")
        });
    }
}

impl Oracle for Punctual {
    fn rules(&self) -> &'static [Rule] {
        &[PAUSES_END, FOUND_MISSING]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Opening { link } => {
                self.servers.entry(world.link(link).client).or_default().due = None;
                self.streams.insert(link, TimedStream::default());
            }
            Event::Opened { link } => {
                self.servers.entry(world.link(link).client).or_default().refusals = 0;
                if let Some(stream) = self.streams.get_mut(&link) {
                    stream.is_open = true;
                }
            }
            Event::Reading { link, response } => {
                if let Some(stream) = self.streams.get_mut(&link) {
                    stream.responded.get_or_insert_with(|| world.now());
                    stream.newest = Some((response.nonce.clone(), world.now()));
                }
            }
            Event::Requested { link, request } => {
                if let Some(stream) = self.streams.get_mut(&link)
                    && request.error.is_some()
                {
                    stream.rejected(&request.nonce, world.now());
                }
                if let Some(kind) = request.kind {
                    self.requested(link, kind, world);
                }
            }
            Event::EndedAtClient { link, end } => self.ended(link, end, world),
            Event::ClientDrained { client } => self.drained(client, world, report),
            Event::Watched { client, watch, .. } => {
                self.watches.insert((client, watch), world.now());
            }
            Event::Notified { client, watch, notice } => {
                self.notified(client, watch, notice, world, report);
            }
            Event::ClientRestarted { client } => {
                self.servers.remove(&client);
                self.watches.retain(|(owner, _), _| *owner != client);
                self.missing.retain(|(owner, _)| *owner != client);
                self.streams.retain(|link, _| world.link(*link).client != client);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::testing::{broken_rule, errors_told, judgement};

    /// Regression test: the stream has not ended, so the client requests no wake-up.
    #[test]
    fn client_that_does_not_reconnect_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = Punctual::of(world.options()).expect("it is simple");
            oracle.on_event(&Event::Opening { link }, world, report);
            oracle.on_event(&Event::Opened { link }, world, report);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
            assert!(report.breach.is_none(), "nothing has failed");
            oracle.on_event(
                &Event::EndedAtClient { link, end: StreamEnd::ByServer },
                world,
                report,
            );
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
        });
        assert_eq!(found, Some("IC26"));
        println!("covers: IC26");
    }

    #[test]
    fn backoff_grows_to_its_maximum() {
        assert_eq!(pause(1), Duration::from_millis(1_200));
        assert_eq!(pause(2), Duration::from_millis(1_920));
        assert_eq!(pause(30), LONGEST_PAUSE);
    }

    #[test]
    fn late_does_not_exist_notice_is_detected() {
        let told = errors_told(Options::default(), |world| {
            world.watch(0, 1, Some("r9"));
            world.advance(Duration::from_secs(40));
        });
        let error = told.into_iter().next().expect("it is missing");
        let after = move |wait: Duration| {
            let error = error.clone();
            broken_rule(Options::default(), move |world, link, report| {
                let watch = world.watches(0).next().expect("there is one").0;
                let mut oracle = Punctual::default();
                let since = BTreeMap::from([((0, "r0".into()), world.now())]);
                oracle.streams.insert(link, TimedStream { since, ..TimedStream::default() });
                oracle.watches.insert((0, watch), world.now());
                world.advance(wait);
                let notice = &Notice::Changed(Err(error.clone()));
                oracle.on_event(&Event::Notified { client: 0, watch, notice }, world, report);
            })
        };
        assert_eq!(after(Duration::from_secs(15)), None);
        assert_eq!(after(Duration::from_secs(16)), Some(FOUND_MISSING));
        println!("covers: IC25");
    }
}
