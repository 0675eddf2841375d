//! Notifications of a server's failure and recovery. A server has recovered when it responds, or
//! when its stream has been silent for the does-not-exist timeout.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use xds_core::{
    Time, WatchId,
    client::{ChannelError, Notice, WatchErrorKind},
};

use super::{Event, Oracle, Report, Rule, StreamEnd};
use crate::{
    options::{Feature, Options, ProfileName, Streams, Transport},
    world::{LinkId, Watch, World},
};

const TOLD: Rule = Rule::new(
    "IC27",
    "an unreachable server is reported to all watchers that depend on it, as an ambient error or instead of a value",
);
const ONCE: Rule = Rule::new("IC27", "an unreachable server is reported once to each watcher");
const CLEARED: Rule = Rule::new(
    "IC28",
    "an ambient connectivity error is cleared when the server responds, or after enough silence",
);
const NOT_BEFORE: Rule =
    Rule::new("IC28", "an ambient connectivity error is not cleared while it lasts");

/// Client, and the type that the stream carries.
type ConnectionKey = (usize, Option<usize>);

/// Checks failure and recovery notices in the gRPC profile with one server, for watches of one
/// name.
#[derive(Debug, Default)]
pub(super) struct Reachability {
    /// Clients whose server has failed.
    failing: BTreeSet<ConnectionKey>,
    /// Watches that must be notified of the failure before the client is drained.
    unnotified: BTreeSet<(usize, WatchId)>,
    /// Last notification of each watch, if it was a failure.
    reported: BTreeMap<(usize, WatchId), ReportedFailure>,
    responded: BTreeSet<LinkId>,
    /// Time of the first request on each stream without a response.
    asked: BTreeMap<LinkId, Time>,
}

#[derive(Debug)]
struct ReportedFailure {
    error: ChannelError,
    is_beside_value: bool,
    connection: ConnectionKey,
    /// Whether the server has recovered since.
    is_over: bool,
}

fn connection(link: LinkId, world: &World) -> ConnectionKey {
    (world.link(link).client, world.link(link).only)
}

fn connection_of(client: usize, watch: &Watch, world: &World) -> ConnectionKey {
    let only = (world.options().streams == Streams::PerType).then_some(watch.kind);
    (client, only)
}

impl Reachability {
    /// Whether runs with these options are checked.
    pub(super) fn applies(options: &Options) -> bool {
        options.profile == ProfileName::Grpc
            && options.transport == Transport::Streams
            && options.servers == 1
    }

    fn ended(&mut self, link: LinkId, end: StreamEnd, world: &World) {
        self.asked.remove(&link);
        let has_responded = self.responded.remove(&link);
        let is_failure = matches!(end, StreamEnd::Refused | StreamEnd::ByServer) && !has_responded;
        let connection = connection(link, world);
        if !is_failure || !self.failing.insert(connection) {
            return;
        }
        let watches = world.watches(connection.0).filter(|(_, watch)| {
            watch.is_of_one() && connection_of(connection.0, watch, world) == connection
        });
        self.unnotified.extend(watches.map(|(watch, _)| (connection.0, watch)));
    }

    fn answers(&mut self, link: LinkId, world: &World) {
        self.responded.insert(link);
        self.asked.remove(&link);
        self.recovers(connection(link, world), world);
    }

    /// Handles a wake-up: streams may have been silent for the does-not-exist timeout.
    fn woken(&mut self, client: usize, world: &World) {
        let timeout = match world.options().features.contains(Feature::TransientTimer) {
            true => Duration::from_secs(30),
            false => Duration::from_secs(15),
        };
        let of_client = self.asked.iter().filter(|(link, _)| world.link(**link).client == client);
        let silent = of_client.filter(|(_, since)| since.after(timeout) <= world.now());
        let places: Vec<ConnectionKey> = silent.map(|(link, _)| connection(*link, world)).collect();
        for connection in places {
            self.recovers(connection, world);
        }
    }

    fn recovers(&mut self, connection: ConnectionKey, world: &World) {
        if self.failing.remove(&connection) {
            let of_place =
                self.reported.values_mut().filter(|reported| reported.connection == connection);
            of_place.for_each(|reported| reported.is_over = true);
            let is_of_place = |client: usize, watch: WatchId| {
                let watch = world.watch_of(client, watch);
                watch.is_some_and(|it| connection_of(client, it, world) == connection)
            };
            self.unnotified.retain(|(client, watch)| !is_of_place(*client, *watch));
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
        let key = (client, id);
        let Some(watch) = world.watch_of(client, id) else { return };
        if !watch.is_of_one() {
            return;
        }
        let before = self.reported.remove(&key);
        if let Notice::Ambient(None) = notice {
            let goes_on = before.as_ref().is_some_and(|reported| !reported.is_over);
            report.ensure(!goes_on, NOT_BEFORE, || format!("client-{client} {id}"));
        }
        let (error, is_beside_value) = match notice {
            Notice::Changed(Err(error)) => (error, false),
            Notice::Ambient(Some(error)) => (error, true),
            // A failure is repeated with each new value of a watch.
            _ => return,
        };
        let WatchErrorKind::Unavailable(failure) = error.kind() else { return };
        self.unnotified.remove(&key);
        let is_again =
            before.is_some_and(|reported| !reported.is_over && reported.error == *failure);
        report.ensure(!is_again, ONCE, || format!("client-{client} {id}: {failure}"));
        let reported = ReportedFailure {
            error: failure.clone(),
            is_beside_value,
            connection: connection_of(client, watch, world),
            is_over: false,
        };
        self.reported.insert(key, reported);
    }

    /// Checks that a drained client has sent all due failure notices and has cleared those that are
    /// over.
    fn drained(&self, client: usize, report: &mut Report) {
        let unnotified = self.unnotified.iter().find(|(owner, _)| *owner == client);
        report.ensure(unnotified.is_none(), TOLD, || format!("{unnotified:?} was not told"));
        let mut of_client = self.reported.iter().filter(|((owner, _), _)| *owner == client);
        let standing = of_client.find(|(_, reported)| reported.is_over && reported.is_beside_value);
        report.ensure(standing.is_none(), CLEARED, || format!("{standing:?}"));
    }

    fn forget(&mut self, client: usize, world: &World) {
        self.failing.retain(|(owner, _)| *owner != client);
        self.unnotified.retain(|(owner, _)| *owner != client);
        self.reported.retain(|(owner, _), _| *owner != client);
        self.asked.retain(|link, _| world.link(*link).client != client);
    }
}

impl Oracle for Reachability {
    fn rules(&self) -> &'static [Rule] {
        &[TOLD, ONCE, CLEARED, NOT_BEFORE]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::EndedAtClient { link, end } => self.ended(link, end, world),
            Event::Requested { link, .. } if !self.responded.contains(&link) => {
                self.asked.entry(link).or_insert_with(|| world.now());
            }
            Event::ClientWoken { client } => self.woken(client, world),
            Event::Reading { link, .. } => self.answers(link, world),
            Event::Notified { client, watch, notice } => {
                self.notified(client, watch, notice, world, report);
            }
            Event::Unwatched { client, watch } => {
                self.unnotified.remove(&(client, watch));
                self.reported.remove(&(client, watch));
            }
            Event::ClientDrained { client } => self.drained(client, report),
            Event::ClientRestarted { client } | Event::ShutDown { client } => {
                self.forget(client, world)
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::testing::{broken_rule, errors_told, judgement};

    #[test]
    fn missing_connectivity_error_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = Reachability::default();
            oracle.on_event(
                &Event::EndedAtClient { link, end: StreamEnd::ByServer },
                world,
                report,
            );
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
        });
        assert_eq!(found, Some("IC27"));
    }

    #[test]
    fn stream_end_after_a_response_needs_no_error() {
        let found = judgement(|world, link, report| {
            let mut oracle = Reachability::default();
            oracle.answers(link, world);
            oracle.on_event(
                &Event::EndedAtClient { link, end: StreamEnd::ByServer },
                world,
                report,
            );
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
        });
        assert_eq!(found, None);
    }

    /// Returns the oracle after a watch with a value was notified of a failure.
    fn troubled(world: &World, link: LinkId) -> Reachability {
        let mut oracle = Reachability::default();
        let (watch, _) = world.watches(0).next().expect("there is one");
        let reported = ReportedFailure {
            error: ChannelError::Unreachable("nobody is there".into()),
            is_beside_value: true,
            connection: connection(link, world),
            is_over: false,
        };
        oracle.reported.insert((0, watch), reported);
        oracle.failing.insert(connection(link, world));
        oracle
    }

    #[test]
    fn connectivity_error_kept_after_a_response_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = troubled(world, link);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
            assert!(report.breach.is_none(), "it goes on");
            oracle.answers(link, world);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
        });
        assert_eq!(found, Some("IC28"));
    }

    #[test]
    fn connectivity_error_kept_on_a_silent_stream_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = troubled(world, link);
            oracle.asked.insert(link, world.now());
            oracle.on_event(&Event::ClientWoken { client: 0 }, world, report);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
            assert!(report.breach.is_none(), "it has been silent for a moment only");
            world.advance(Duration::from_secs(15));
            oracle.on_event(&Event::ClientWoken { client: 0 }, world, report);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
        });
        assert_eq!(found, Some("IC28"));
    }

    #[test]
    fn connectivity_error_cleared_too_early_is_detected() {
        let found = judgement(|world, link, report| {
            let mut oracle = troubled(world, link);
            let (watch, _) = world.watches(0).next().expect("there is one");
            let notice = &Notice::Ambient(None);
            oracle.on_event(&Event::Notified { client: 0, watch, notice }, world, report);
        });
        assert_eq!(found, Some("IC28"));
    }

    #[test]
    fn connectivity_error_cleared_after_a_response_is_accepted() {
        let found = judgement(|world, link, report| {
            let mut oracle = troubled(world, link);
            oracle.answers(link, world);
            let (watch, _) = world.watches(0).next().expect("there is one");
            let notice = &Notice::Ambient(None);
            oracle.on_event(&Event::Notified { client: 0, watch, notice }, world, report);
            oracle.on_event(&Event::ClientDrained { client: 0 }, world, report);
        });
        assert_eq!(found, None);
        println!("covers: IC27 IC28");
    }

    #[test]
    fn repeated_connectivity_error_is_detected() {
        let reported = errors_told(Options::default(), |world| {
            world.set_reach(0, crate::world::Reach::Refused, Duration::from_secs(10));
            world.watch(0, 0, Some("r0"));
            world.advance(Duration::from_secs(5));
        });
        let error = reported.into_iter().next().expect("nobody is there");
        let found = broken_rule(Options::default(), move |world, _, report| {
            let mut oracle = Reachability::default();
            let watch = world.watches(0).next().expect("there is one").0;
            let notice = &Notice::Ambient(Some(error.clone()));
            let reported = Event::Notified { client: 0, watch, notice };
            oracle.on_event(&reported, world, report);
            assert!(report.breach.is_none(), "it is told once");
            oracle.on_event(&reported, world, report);
        });
        assert_eq!(found, Some(ONCE));
    }
}
