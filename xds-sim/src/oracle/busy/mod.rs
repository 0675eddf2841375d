//! Flow control: reading a stream waits for watchers, and nothing else does.
//!
//! A watcher is busy from a notice until it finishes it. The oracle attributes a notice to a
//! response if existing watches receive it between that response and the next one. The first
//! response after a server's failure may also cause notices that the server has recovered, or that
//! the client uses another server. These do not delay reading, so only values are attributed to
//! such a response.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use xds_core::{
    Time, WatchId,
    client::{Change, FlowControl, Notice, WatchErrorKind},
};

use super::{Event, Oracle, Report, Rule};
use crate::{
    options::{Options, ProfileName, Transport, Verdicts},
    world::{
        Link, LinkId, World,
        message::{Request, Response, Text},
    },
};

const WAITS: Rule = Rule::new(
    "IC34",
    "a stream is not read while a watcher handles a notice from its last response",
);
const READS_ON: Rule = Rule::new(
    "IC34",
    "a stream is read if no watcher handles a notice from it, even if other watchers are busy",
);
const ANSWERS: Rule = Rule::new(
    "IC34",
    "a response is answered while watchers are busy, unless configured otherwise",
);
const NACKS_APART: Rule = Rule::new(
    "IC34",
    "a NACK waits until the client's interval has passed since the last one of its type on the stream, and an ACK does not wait",
);
const ASKS: Rule = Rule::new("IC34", "a new watch is requested while other watchers are busy");

/// Default minimum interval between NACKs.
const NACK_INTERVAL: Duration = Duration::from_secs(1);

/// Checks which operations wait for busy watchers.
#[derive(Debug, Default)]
pub(super) struct Busy {
    clients: BTreeMap<usize, Watchers>,
    links: BTreeMap<LinkId, LinkFlow>,
}

/// Watchers of a client.
#[derive(Debug, Default)]
struct Watchers {
    /// Watchers with unfinished notices.
    busy: BTreeSet<WatchId>,
    /// Watcher of the newest notice, and the channel of the response that caused it, if any. Most
    /// watchers finish at once.
    newest: Option<(WatchId, Option<LinkId>)>,
    /// Watchers notified of a connectivity error that has not been cleared.
    troubled: BTreeSet<WatchId>,
    /// Channel of a response whose notices are being drained.
    reading: Option<LinkId>,
    /// Possible cause of the notices that are being drained.
    origin: Origin,
    /// Watches begun since the response was read.
    new: BTreeSet<WatchId>,
    /// Names watched for the first time, while others are busy, since the last drain.
    wanted: Vec<(usize, Option<Text>)>,
}

/// Possible cause of the notices after a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    /// The response or the server's recovery: it is the first response, or the first after a
    /// failure.
    #[default]
    Either,
    /// The response.
    Response,
}

/// Reasons for which a channel waits, or may wait.
#[derive(Debug, Default)]
struct LinkFlow {
    /// Watchers with unfinished notices of the newest response.
    told: BTreeSet<WatchId>,
    /// Watchers that have been busy since the newest response, which may have further notices for
    /// them.
    suspects: BTreeSet<WatchId>,
    /// Possible cause of the notices of the next response.
    next: Origin,
    /// Whether a response was read since the last drain.
    has_read: bool,
    /// Types and nonces of responses without ACK or NACK.
    unanswered: Vec<(usize, Text)>,
    /// Earliest time of the next NACK of each type.
    paced: BTreeMap<usize, Time>,
    /// Nonces of unanswered responses whose NACKs were seen to wait for the NACK interval.
    waiting: BTreeSet<Text>,
}

impl LinkFlow {
    fn answered(&mut self, request: &Request, now: Time, report: &mut Report) {
        let Some(kind) = request.kind else { return };
        let is_answer = self.unanswered.iter().any(|(_, nonce)| *nonce == request.nonce);
        self.unanswered.retain(|(_, nonce)| *nonce != request.nonce);
        let has_waited = self.waiting.remove(&request.nonce);
        if request.error.is_none() {
            report.ensure(!is_answer || !has_waited, NACKS_APART, || {
                format!("the ACK of {:?} has waited", request.nonce)
            });
            return;
        }
        let until = self.paced.insert(kind, now.after(NACK_INTERVAL));
        report.ensure(until.is_none_or(|until| until <= now), NACKS_APART, || {
            format!("the NACK of {:?} should have waited until {until:?}", request.nonce)
        });
    }

    /// Returns the first unanswered response of each type. Answers of one type are sent in order, so
    /// an ACK may wait for the NACK of an earlier response.
    fn first_unanswered(&self) -> impl Iterator<Item = &(usize, Text)> {
        let is_first = |at: usize, kind: usize| {
            self.unanswered.iter().take(at).all(|(earlier, _)| *earlier != kind)
        };
        self.unanswered
            .iter()
            .enumerate()
            .filter(move |(at, (kind, _))| is_first(*at, *kind))
            .map(|(_, it)| it)
    }

    /// Whether an unanswered response of the type may need a NACK that has to wait for the NACK
    /// interval. `woken` is the time of the client's last wake-up.
    fn is_paced(&self, kind: usize, woken: Time) -> bool {
        let has_response = self.unanswered.iter().any(|(of, _)| *of == kind);
        has_response && self.paced.get(&kind).is_some_and(|until| *until >= woken)
    }
}

impl Busy {
    /// Whether runs with these options are checked.
    pub(super) fn applies(options: &Options) -> bool {
        options.flow_control == FlowControl::On
    }

    fn read(
        &mut self,
        link: LinkId,
        response: Option<&Response>,
        world: &World,
        report: &mut Report,
    ) {
        let it = world.link(link);
        self.note_newest(it.client);
        let flow = self.links.entry(link).or_default();
        report.ensure(flow.told.is_empty(), WAITS, || {
            format!("link {} is read while {:?} are busy", link.0, flow.told)
        });
        flow.told.clear();
        flow.has_read = true;
        if let Some(response) = response
            && let Some(kind) = response.kind.filter(|kind| it.asked(*kind).is_some())
        {
            flow.unanswered.push((kind, response.nonce.clone()));
        }
        let watchers = self.clients.entry(it.client).or_default();
        watchers.reading = Some(link);
        watchers.origin = std::mem::replace(&mut flow.next, Origin::Response);
        watchers.new.clear();
    }

    fn notified(&mut self, client: usize, watch: WatchId, notice: &Notice) {
        self.note_newest(client);
        let watchers = self.clients.entry(client).or_default();
        let is_value = matches!(notice, Notice::Changed(Ok(_)));
        let is_of_response =
            watchers.origin == Origin::Response && !watchers.troubled.contains(&watch);
        let is_told = (is_value || is_of_response) && !watchers.new.contains(&watch);
        watchers.newest = Some((watch, watchers.reading.filter(|_| is_told)));
        match notice {
            Notice::Changed(Err(error)) | Notice::Ambient(Some(error))
                if matches!(error.kind(), WatchErrorKind::Unavailable(_)) =>
            {
                watchers.troubled.insert(watch);
            }
            Notice::Changed(Ok(_)) | Notice::Ambient(None) if !watchers.troubled.is_empty() => {
                watchers.troubled.remove(&watch);
            }
            _ => {}
        }
    }

    /// Marks the watcher of the newest notice as busy.
    fn note_newest(&mut self, client: usize) {
        let Some(watchers) = self.clients.get_mut(&client) else { return };
        let Some((watch, link)) = watchers.newest.take() else { return };
        watchers.busy.insert(watch);
        if let Some(link) = link {
            self.links.entry(link).or_default().told.insert(watch);
        }
    }

    fn changed(&mut self, client: usize, watch: WatchId, change: &Change) {
        let troubled = &mut self.clients.entry(client).or_default().troubled;
        match change {
            Change::Collection(Err(error)) | Change::CollectionAmbient(Some(error))
                if matches!(error.kind(), WatchErrorKind::Unavailable(_)) =>
            {
                troubled.insert(watch);
            }
            Change::Collection(Ok(())) | Change::CollectionAmbient(None) => {
                troubled.remove(&watch);
            }
            _ => {}
        }
    }

    /// Handles the failure of a server at its client.
    fn failed(&mut self, client: usize, world: &World) {
        for (link, _) in world.links(client) {
            if let Some(flow) = self.links.get_mut(&link) {
                flow.next = Origin::Either;
            }
        }
    }

    /// Handles the finishing or the end of a watch.
    fn done(&mut self, client: usize, watch: WatchId, world: &World) {
        let watchers = self.clients.entry(client).or_default();
        if watchers.newest.is_some_and(|(newest, _)| newest == watch) {
            watchers.newest = None;
        }
        if watchers.busy.is_empty() || !watchers.busy.remove(&watch) {
            return;
        }
        for (link, _) in world.links(client) {
            if let Some(flow) = self.links.get_mut(&link) {
                flow.told.remove(&watch);
            }
        }
    }

    /// Checks a drained client: everything that still waits must wait for watchers or for the
    /// network.
    fn drained(&mut self, client: usize, world: &World, report: &mut Report) {
        self.note_newest(client);
        let watchers = self.clients.entry(client).or_default();
        watchers.reading = None;
        let wanted = std::mem::take(&mut watchers.wanted);
        // A response that waits for an external verdict blocks reading and its ACK.
        let is_alone = world.options().verdicts == Verdicts::AtOnce;
        for (link, it) in world.links(client).filter(|(_, it)| it.is_open) {
            let flow = self.links.entry(link).or_default();
            match std::mem::take(&mut flow.has_read) {
                true => flow.suspects.clone_from(&watchers.busy),
                false => flow.suspects.retain(|watch| watchers.busy.contains(watch)),
            }
            let waits = !flow.suspects.is_empty();
            if !it.takes_requests() || !is_alone {
                // Reading also stops if many ACKs cannot be sent.
                continue;
            }
            // A client that is due now has not processed later times.
            let due = world.client(client).poll_timeout().map(|deadline| deadline.at);
            let now = world.now();
            let woken = due.map_or(now, |due| due.min(now));
            // A response damaged by a lie may be of any type.
            let is_judged = world.options().lies.spare_clients();
            let is_paced = match is_judged {
                true => flow.unanswered.iter().any(|(kind, _)| flow.is_paced(*kind, woken)),
                false => flow.paced.values().any(|until| *until >= woken),
            };
            let may_read = waits || is_paced || world.client(client).wants_read(it.channel);
            report.ensure(may_read, READS_ON, || format!("link {} is not read", link.0));
            // An Envoy client sends no ACK while it applies a response.
            if waits && world.options().profile == ProfileName::Envoy
                || world.options().transport != Transport::Streams
            {
                continue;
            }
            let mut late = flow.unanswered.iter().filter(|(kind, _)| !flow.is_paced(*kind, woken));
            report.ensure(!is_judged || late.next().is_none(), ANSWERS, || {
                format!("link {}: {:?} are not answered", link.0, flow.unanswered)
            });
            flow.waiting = match is_judged {
                true => flow.first_unanswered().map(|(_, nonce)| nonce.clone()).collect(),
                false => BTreeSet::new(),
            };
            let mut lacking = wanted.iter().filter(|of| !is_asked_for(of, it, world));
            let lacking = lacking.find(|(kind, _)| !flow.is_paced(*kind, woken));
            report.ensure(lacking.is_none(), ASKS, || {
                format!("link {}: {lacking:?} is not asked for", link.0)
            });
        }
    }
}

/// Whether a client has subscribed to a watched name, or need not do so on this channel.
fn is_asked_for((kind, name): &(usize, Option<Text>), link: &Link, world: &World) -> bool {
    let is_for = link.only.is_none_or(|only| only == *kind)
        && name.as_deref().is_none_or(|name| world.serves(link.server, name));
    // With several servers, another one may be in use.
    if !is_for || world.server_count() > 1 {
        return true;
    }
    if !world.watched(link.client, *kind).has(name.as_deref()) {
        return true;
    }
    let asked = link.asked(*kind);
    asked.is_some_and(|subscription| match name {
        Some(name) => subscription.subscribed.contains(name),
        None => subscription.has_all(),
    })
}

impl Oracle for Busy {
    fn rules(&self) -> &'static [Rule] {
        &[WAITS, READS_ON, ANSWERS, NACKS_APART, ASKS]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Watched { client, watch, kind, name, is_first } => {
                self.note_newest(client);
                let watchers = self.clients.entry(client).or_default();
                if watchers.reading.is_some() {
                    watchers.new.insert(watch);
                }
                if is_first && !watchers.busy.is_empty() {
                    watchers.wanted.push((kind, name.map(Text::from)));
                }
            }
            Event::Unwatched { client, watch } => {
                self.done(client, watch, world);
                self.clients.entry(client).or_default().troubled.remove(&watch);
            }
            Event::Requested { link, request } => {
                if let Some(flow) = self.links.get_mut(&link)
                    && world.options().transport == Transport::Streams
                {
                    flow.answered(request, world.now(), report);
                }
            }
            Event::Read { link, response } => self.read(link, response, world, report),
            Event::Notified { client, watch, notice } => self.notified(client, watch, notice),
            Event::Changed { client, watch, change } => self.changed(client, watch, change),
            Event::Handled { client, watch } => self.done(client, watch, world),
            Event::ClientDrained { client } => self.drained(client, world, report),
            Event::EndedAtClient { link, .. } => {
                self.links.remove(&link);
                self.failed(world.link(link).client, world);
            }
            Event::Unreadable { link } => self.failed(world.link(link).client, world),
            Event::ClientRestarted { client } | Event::ShutDown { client } => {
                drop(self.clients.remove(&client));
                self.links.retain(|link, _| world.link(*link).client != client);
            }
            _ => {}
        }
    }
}
