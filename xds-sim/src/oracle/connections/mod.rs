//! Connections, backoff, does-not-exist timers and reported errors of clients.

mod attempts;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use xds_core::{
    Time,
    client::{Notice, ResourceState, WatchErrorKind},
};

use self::attempts::{AttemptKey, Attempts, StreamRecord, is_wanted};
use super::{Event, Oracle, Report, Rule, StreamEnd};
use crate::{
    options::{Fault, Feature, ProfileName, Streams, Transport, Verdicts},
    situations::Situation,
    trace::Phase,
    world::{
        LinkId, Party, World, alias_of,
        message::{Request, Response, Text},
        subscription::ALL,
    },
};

const PATIENCE: Rule = Rule::new(
    "IC24",
    "a resource is reported missing only after it was requested on a stream for the whole timeout",
);
const NOT_CACHED: Rule =
    Rule::new("IC25", "a resource in use is never reported missing because of silence");
const SILENCE: Rule = Rule::new(
    "IC25",
    "the timeout of a resource means that it does not exist, unless its server reports nonexistence itself and no wildcard covers it",
);
const ANSWERED_ERROR: Rule =
    Rule::new("IC31", "any response about a resource, including an error, stops its timer");
const BACKOFF: Rule = Rule::new(
    "IC26",
    "one connection attempt at a time per server, with bounded exponential backoff between failures",
);
const FAILED: Rule = Rule::new(
    "IC27",
    "watchers of a resource with one server are notified of connectivity errors only if it has failed since its last response",
);
const REASON: Rule = Rule::new(
    "IC29",
    "watchers are notified of connectivity errors only if all servers of the resource have failed since their last response",
);
const FALLBACK: Rule = Rule::new(
    "IC29",
    "the next server is used only while the previous one fails, and no longer once that responds",
);
const TURNS: Rule =
    Rule::new("IL5", "clients fall back no more often than the previous server begins to fail");
const HOW_LONG: Rule = Rule::new(
    "IC25",
    "the timeout of a resource is 15 s, or 30 s if its server reports nonexistence itself",
);
const IDLE: Rule = Rule::new("IC10", "a stream without subscriptions is closed in time");

/// Minimum of gRPC's first backoff, with jitter. Later ones grow by a factor of 1.6.
const FIRST_PAUSE: Duration = Duration::from_millis(800);

/// Minimum time between the beginnings of two attempts.
const FLOOR: Duration = Duration::from_secs(1);

/// Does-not-exist timeouts: the default, and that for servers whose resource timer means a
/// transient error.
const SILENT_FOR: Duration = Duration::from_secs(15);
const SILENT_FOR_WHERE_TOLD: Duration = Duration::from_secs(30);

/// Time for which a client keeps a stream without subscriptions, with a margin.
const IDLE_LIMIT: Duration = Duration::from_secs(31);

/// Checks connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    attempts: BTreeMap<AttemptKey, Attempts>,
    streams: BTreeMap<LinkId, StreamRecord>,
    /// Names that were subscribed for the does-not-exist timeout without a response since, by
    /// client, type and name.
    waited: BTreeSet<(usize, usize, Text)>,
    /// Wildcards whose remaining resources, of other servers, were not sent for the does-not-exist
    /// timeout, by client and type.
    waited_for_rest: BTreeSet<(usize, usize)>,
    /// Clients that ended a watch since the last drain.
    unwatched_undrained: BTreeSet<usize>,
    phase: Option<Phase>,
}

/// Returns the does-not-exist timeout.
fn timeout(world: &World) -> Duration {
    match world.options().features.contains(Feature::TransientTimer) {
        true => Duration::from_secs(30),
        false => Duration::from_secs(15),
    }
}

fn place(link: LinkId, world: &World) -> AttemptKey {
    let it = world.link(link);
    (it.client, it.server, it.only)
}

/// Iterates over the servers of a name, or of the wildcard.
fn servers_of(name: Option<&str>, world: &World) -> impl Iterator<Item = usize> {
    (0..world.server_count()).filter(move |server| match name {
        Some(name) => world.serves(*server, name),
        None => *server < 2,
    })
}

impl Connections {
    fn opening(&mut self, link: LinkId, world: &World, report: &mut Report) {
        let place = place(link, world);
        let (client, server, only) = place;
        if server == 1 {
            let before = self.attempts.get(&(client, 0, only));
            let is_failing = before.is_some_and(|it| it.is_failing || it.has_recovered_unseen);
            report.ensure(is_failing, FALLBACK, || {
                format!("client-{client} turns to server-1 while server-0 is well")
            });
            if world.links(client).any(|(_, link)| link.responses_under_way() > 0) {
                report.note(Situation::FallbackWithResponseInFlight);
            }
        }
        let was_idle = self.unwatched_undrained.contains(&client);
        let attempts = self.attempts.entry(place).or_default();
        attempts.opening += 1;
        attempts.turns += u64::from(!attempts.is_taken);
        (attempts.is_taken, attempts.was_idle) = (true, was_idle);
        report.ensure(attempts.opening == 1, BACKOFF, || format!("{place:?}: two at a time"));
        report.ensure(world.now() >= attempts.not_before, BACKOFF, || {
            format!("{place:?} before {}", attempts.not_before)
        });
        self.streams.insert(link, StreamRecord { began: world.now(), ..StreamRecord::default() });
    }

    fn ended(&mut self, link: LinkId, end: StreamEnd, world: &World, report: &mut Report) {
        let place = place(link, world);
        let Some(stream) = self.streams.remove(&link) else { return };
        self.note_waits(place.0, &stream, world);
        let is_grpc = world.options().profile == ProfileName::Grpc;
        let is_wanted = is_wanted(place, world);
        let attempts = self.attempts.entry(place).or_default();
        if !stream.is_open {
            attempts.opening = attempts.opening.saturating_sub(1);
        }
        if end == StreamEnd::ByClient {
            if stream.has_responded {
                attempts.early_ends = 0;
            }
            attempts.is_taken &= !is_wanted || attempts.was_idle;
            // A client that leaves a server may return at once, except for the minimum time between
            // attempts. The beginning of an attempt is not visible if the client was not drained in
            // time.
            let is_dialled = world.options().transport != Transport::Files;
            if is_grpc && is_dialled && !world.options().faults.contains(Fault::Suspend) {
                attempts.not_before = stream.began.after(FLOOR);
            }
            if stream.is_open && stream.since.is_empty() {
                report.note(Situation::IdleClose);
            }
            return;
        }
        if !stream.has_responded || end == StreamEnd::Fault {
            attempts.fail();
        }
        attempts.refusals = if stream.is_open { 0 } else { attempts.refusals + 1 };
        attempts.early_ends = match (stream.is_open, stream.has_responded) {
            (true, true) => 0,
            (true, false) => attempts.early_ends + 1,
            (false, _) => attempts.early_ends,
        };
        let in_a_row = if stream.is_open { attempts.early_ends } else { attempts.refusals };
        if stream.is_open && in_a_row > 1 {
            report.note(Situation::EndedEarlyAgain);
        }
        // The time of a client's own closing is not visible if it was not drained in time.
        let is_seen = end != StreamEnd::Fault || !world.options().faults.contains(Fault::Suspend);
        if is_grpc && is_seen {
            let pause = (1..in_a_row)
                .fold(FIRST_PAUSE, |pause, _| (pause * 8 / 5).min(Duration::from_secs(24)));
            attempts.not_before = world.now().after(pause);
        }
    }

    fn read(&mut self, link: LinkId, response: &Response, world: &World) {
        let Some(stream) = self.streams.get_mut(&link) else { return };
        let Some(kind) = response.kind else { return };
        let client = world.link(link).client;
        // Any response is part of the wildcard.
        stream.since.remove(&(kind, ALL.into()));
        self.waited.remove(&(client, kind, ALL.into()));
        let resources = response.resources.iter().map(|item| &item.name);
        for name in resources.chain(response.errors.iter().map(|(name, _)| name)) {
            self.waited.remove(&(client, kind, name.clone()));
        }
        let Some(subscription) = world.link(link).asked(kind) else { return };
        // A removal says nothing new about a name that was reported missing.
        let named = response.resources.iter().map(|item| &item.name);
        let named = named.chain(response.errors.iter().map(|(name, _)| name));
        let own = named.filter(|name| subscription.subscribed.contains(*name));
        stream.answered.extend(own.map(|name| (kind, name.clone())));
        if world.options().has_aliases() {
            // A heartbeat does not concern aliases.
            let whole = response.resources.iter().filter(|item| item.bytes.is_some());
            let others = whole.map(|item| Text::from(alias_of(&item.name)));
            let own = others.filter(|name| subscription.subscribed.contains(name));
            stream.answered.extend(own.map(|name| (kind, name)));
        }
    }

    /// Records the names that were subscribed on an ended stream for the does-not-exist timeout.
    fn note_waits(&mut self, client: usize, stream: &StreamRecord, world: &World) {
        let timeout = timeout(world);
        let waited = stream.since.iter().filter(|(_, since)| world.now().since(**since) >= timeout);
        self.waited.extend(waited.map(|((kind, name), _)| (client, *kind, name.clone())));
        let all = stream.all_since.iter();
        let all = all.filter(|(_, since)| world.now().since(**since) >= timeout);
        self.waited_for_rest.extend(all.map(|(kind, _)| (client, *kind)));
    }

    /// Applies the subscriptions of a request.
    fn asked(&mut self, link: LinkId, request: &Request, world: &World) {
        let Some(kind) = request.kind else { return };
        let Some(stream) = self.streams.get_mut(&link) else { return };
        let it = world.link(link);
        let Some(subscription) = it.asked(kind) else { return };
        let (now, timeout) = (world.now(), timeout(world));
        let watched = |name: &Text| {
            let watched = world.watched(it.client, kind);
            watched.has(Some(name)) || name == ALL && watched.has_all()
        };
        for name in &subscription.lost {
            let key = (kind, name.clone());
            stream.answered.remove(&key);
            let since = stream.since.remove(&key);
            let subject = (it.client, kind, name.clone());
            if !watched(name) {
                self.waited.remove(&subject);
            } else if since.is_some_and(|since| now.since(since) >= timeout) {
                // The name may be omitted because a response crossed its unsubscribe, and be
                // missing throughout.
                self.waited.insert(subject);
            }
        }
        if !subscription.subscribed.contains(ALL) {
            stream.all_since.remove(&kind);
        } else if subscription.gained.contains(ALL) {
            stream.all_since.insert(kind, now);
        }
        for name in &subscription.gained {
            stream.since.entry((kind, name.clone())).or_insert(now);
        }
    }

    /// Whether all servers of a name fail. The second one is contacted only after the first failed,
    /// and only if the client lacks a resource.
    fn all_fail(
        &self,
        client: usize,
        only: Option<usize>,
        (name, is_known): (Option<&str>, bool),
        world: &World,
    ) -> bool {
        servers_of(name, world).all(|server| {
            let mut links = world.links(client);
            let is_asked = links.any(|(_, link)| link.server == server && link.only == only);
            let attempts = self.attempts.get(&(client, server, only));
            attempts.is_some_and(|it| it.is_failing) || server == 1 && !is_asked && is_known
        })
    }

    fn notified(
        &self,
        client: usize,
        watch: xds_core::WatchId,
        notice: &Notice,
        world: &World,
        report: &mut Report,
    ) {
        let (Notice::Changed(Err(error)) | Notice::Ambient(Some(error))) = notice else { return };
        let Some(watch) = world.watch_of(client, watch) else { return };
        match error.kind() {
            WatchErrorKind::Unavailable(_) => {
                let only = (world.options().streams == Streams::PerType).then_some(watch.kind);
                // A resource known to be missing is no reason for fallback. The Envoy profile has
                // other reasons.
                let is_proxy = world.options().profile == ProfileName::Envoy;
                let is_known = is_proxy
                    || watch.name.as_ref().is_none_or(|name| {
                        let known = world.status_of(client, watch.kind, name);
                        known.is_none_or(|it| it.state != ResourceState::Requested)
                    });
                let what = (watch.name.as_deref(), is_known);
                let is_failing = self.all_fail(client, only, what, world);
                let rule = match servers_of(watch.name.as_deref(), world).count() {
                    1 => FAILED,
                    _ => REASON,
                };
                report.ensure(is_failing, rule, || format!("client-{client}: {error}"));
            }
            WatchErrorKind::DoesNotExist(timeout) | WatchErrorKind::Timeout(timeout) => {
                if world.options().transport == Transport::Files {
                    return; // Missing in a file is known at once.
                }
                if world.options().verdicts != Verdicts::AtOnce {
                    return; // A response counts only after its verdict.
                }
                if world.options().profile != ProfileName::Grpc {
                    return; // Envoy's timer starts with the watch, without a stream.
                }
                let is_trouble = matches!(error.kind(), WatchErrorKind::Timeout(_));
                let is_feature = world.options().features.contains(Feature::TransientTimer);
                // What the response to a wildcard lacks does not exist, whatever the feature says.
                let is_covered = world.watched(client, watch.kind).has_all();
                let is_right = is_trouble == is_feature || is_covered && !is_trouble;
                report.ensure(is_right, SILENCE, || format!("{error}"));
                let due = if is_feature { SILENT_FOR_WHERE_TOLD } else { SILENT_FOR };
                report.ensure(*timeout == due, HOW_LONG, || format!("{error}"));
                let Some(name) = &watch.name else { return };
                let key = (watch.kind, name.clone());
                let of_client =
                    self.streams.iter().filter(|(link, _)| world.link(**link).client == client);
                let mut streams = of_client.clone().map(|(_, stream)| stream);
                report.ensure(
                    !streams.any(|it| it.answered.contains(&key)),
                    ANSWERED_ERROR,
                    || format!("{name} was spoken of"),
                );
                // A resource of one server may be missing at the next one and stay in use, if
                // configured.
                let is_kept = matches!(notice, Notice::Ambient(_)) && world.server_count() > 1;
                // A resource missing from a wildcard is reported to watches of its name.
                let keys = [key, (watch.kind, ALL.into())];
                let waits = of_client
                    .flat_map(|(_, stream)| keys.iter().filter_map(|key| stream.since.get(key)));
                let longest = waits.map(|since| world.now().since(*since)).max();
                let has_waited = longest.is_some_and(|longest| longest >= *timeout)
                    || keys
                        .iter()
                        .any(|(kind, name)| self.waited.contains(&(client, *kind, name.clone())))
                    || (is_kept || world.watched(client, watch.kind).has_all())
                        && self.has_waited_for_rest(client, watch.kind, *timeout, world);
                report.ensure(has_waited, PATIENCE, || {
                    format!("{name} after {longest:?} of {timeout:?}")
                });
                report.ensure(watch.view.is_empty() || is_kept, NOT_CACHED, || {
                    format!("{name} is in use, and does not exist")
                });
            }
            _ => {}
        }
    }

    /// Whether the does-not-exist timeout has passed for another server's resource that the
    /// response to a wildcard lacks.
    fn has_waited_for_rest(
        &self,
        client: usize,
        kind: usize,
        timeout: Duration,
        world: &World,
    ) -> bool {
        let mut streams =
            self.streams.iter().filter(|(link, _)| world.link(**link).client == client);
        let is_over = |since: &Time| world.now().since(*since) >= timeout;
        self.waited_for_rest.contains(&(client, kind))
            || streams.any(|(_, stream)| stream.all_since.get(&kind).is_some_and(is_over))
    }

    fn at_rest(&self, world: &World, report: &mut Report) {
        if world.options().profile != ProfileName::Grpc {
            return;
        }
        for client in 0..world.client_count() {
            let answers = |only: Option<usize>| {
                let mut links =
                    world.links(client).filter(|(_, it)| it.server == 0 && it.only == only);
                links.any(|(link, _)| self.streams.get(&link).is_some_and(|it| it.has_responded))
            };
            let behind = world.links(client).find(|(_, it)| it.server == 1 && answers(it.only));
            report.ensure(behind.is_none(), FALLBACK, || {
                format!("client-{client} stays at server-1")
            });
        }
        for (place, attempts) in self.attempts.iter().filter(|((_, server, _), _)| *server == 1) {
            let before = self.attempts.get(&(place.0, 0, place.2));
            let bound = before.map_or(0, |it| it.breaks);
            report.ensure(attempts.turns <= bound, TURNS, || {
                format!("{place:?}: {} of {bound}", attempts.turns)
            });
        }
        if world.options().transport == Transport::Files {
            return; // Subscriptions to files are not visible.
        }
        for (link, _) in self.streams.iter().filter(|(_, stream)| stream.is_open) {
            let is_idle = world
                .link(*link)
                .asked
                .iter()
                .all(|subscription| subscription.subscribed.is_empty());
            report.ensure(!is_idle, IDLE, || format!("stream {} after {IDLE_LIMIT:?}", link.0));
        }
    }
}

impl Oracle for Connections {
    fn rules(&self) -> &'static [Rule] {
        &[
            PATIENCE,
            HOW_LONG,
            SILENCE,
            ANSWERED_ERROR,
            NOT_CACHED,
            BACKOFF,
            FAILED,
            REASON,
            FALLBACK,
            TURNS,
            IDLE,
        ]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Opening { link } => self.opening(link, world, report),
            Event::Opened { link } => {
                let attempts = self.attempts.entry(place(link, world)).or_default();
                attempts.opening = attempts.opening.saturating_sub(1);
                attempts.refusals = 0;
                if let Some(stream) = self.streams.get_mut(&link) {
                    stream.is_open = true;
                }
            }
            Event::Requested { link, request } => self.asked(link, request, world),
            Event::Unreadable { link } => {
                let attempts = self.attempts.entry(place(link, world)).or_default();
                attempts.fail();
            }
            Event::Reading { link, .. } | Event::Unchanged { link } => {
                let (client, server, only) = place(link, world);
                if let Some(stream) = self.streams.get_mut(&link) {
                    let is_back = !stream.has_responded
                        && server == 0
                        && world.links(client).any(|(_, it)| it.server == 1 && it.only == only);
                    if is_back {
                        report.note(Situation::PreferredServerReturns);
                    }
                    stream.has_responded = true;
                }
                let is_seen = !world.is_suspended(Party::Client(client));
                self.attempts.entry((client, server, only)).or_default().recover(is_seen);
            }
            Event::Read { link, response: Some(response) } => self.read(link, response, world),
            Event::EndedAtClient { link, end } => self.ended(link, end, world, report),
            Event::ClientDrained { client } => {
                let of_client =
                    self.attempts.iter_mut().filter(|((owner, ..), _)| *owner == client);
                of_client.for_each(|(_, attempts)| attempts.has_recovered_unseen = false);
                self.unwatched_undrained.remove(&client);
            }
            Event::Unwatched { client, .. } => {
                self.unwatched_undrained.insert(client);
                let of_client =
                    self.attempts.iter_mut().filter(|((owner, ..), _)| *owner == client);
                for (place, attempts) in of_client {
                    attempts.was_idle |= !is_wanted(*place, world);
                }
            }
            Event::ClientRestarted { client } => {
                self.attempts.retain(|(owner, ..), _| *owner != client);
                self.streams.retain(|link, _| world.link(*link).client != client);
                self.waited.retain(|(owner, ..)| *owner != client);
                self.waited_for_rest.retain(|(owner, _)| *owner != client);
                self.unwatched_undrained.remove(&client);
            }
            Event::Notified { client, watch, notice } => {
                self.notified(client, watch, notice, world, report);
            }
            Event::Phase(phase) => self.phase = Some(phase),
            Event::Rest if self.phase == Some(Phase::Converge) => self.at_rest(world, report),
            _ => {}
        }
    }
}
