//! Notices of watchers.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use foldhash::fast::FixedState;
use xds_core::{
    WatchId,
    client::{Change, Notice, Resource, WatchError, WatchErrorKind},
};

use super::{Event, Oracle, Report, Rule, holding::MAX_WATCHES};
use crate::{
    options::{ProfileName, Transport, Verdicts},
    situations::Situation,
    trace::Phase,
    world::{
        LinkId, World, alias_of, is_alias, is_glob,
        message::{Request, Text},
    },
};

const OWN_NAME: Rule = Rule::new("IC13", "a watch is notified only of its own resources");
const VALUE_FIRST: Rule = Rule::new("IC14", "an ambient error is notified only after a value");
const ASKED_ANEW: Rule = Rule::new(
    "IC15",
    "an unsubscribed resource is requested again for a new watch, and not served from the cache",
);
const NO_REPETITION: Rule =
    Rule::new("IC16", "a value is not notified again unless another state came in between");
const SAME_WORD: Rule =
    Rule::new("IC16", "an error is not notified again unless another notice came in between");
const CLEARED_ONCE: Rule = Rule::new("IC28", "an ambient error is cleared only if there is one");
const SAME_TRUTH: Rule = Rule::new("IC32", "at rest, a watcher has the client's state");
const NEWEST_ONLY: Rule =
    Rule::new("IC35", "a watch is notified only of the newest state since its last notice");
const SILENCE: Rule = Rule::new("IC39", "an ended watch is not notified");
const HIDDEN: Rule =
    Rule::new("IC27", "watchers are notified of connectivity errors only if configured");

/// Checks notices.
#[derive(Debug, Default)]
pub(super) struct Watching {
    clients: BTreeMap<usize, ClientWatches>,
    /// Names that servers were told to unsubscribe, by client and type.
    released: BTreeMap<(usize, usize), BTreeSet<Text>>,
    phase: Option<Phase>,
}

/// A client. It may have thousands of watches, few of which are concerned by an event.
#[derive(Debug, Default)]
struct ClientWatches {
    watches: HashMap<WatchId, WatchRecord, FixedState>,
    /// Number of responses that it has read.
    responses: u64,
    /// Watches notified since the last response or drain.
    notified_watches: Vec<WatchId>,
    /// Watches that may hold a value that the client still has.
    lasting: HashSet<WatchId, FixedState>,
}

/// Notices that a watch has received.
#[derive(Debug, Default)]
struct WatchRecord {
    kind: usize,
    name: Option<Text>,
    /// Values in use, by name.
    held: BTreeMap<Text, Held>,
    /// Last error of each name, and whether it was ambient. An empty name is the collection.
    wrong: BTreeMap<Text, (WatchError, bool)>,
    collection: Option<Ambient>,
    was_missing: bool,
    /// Number of responses read when the watch began, if its resource must be unknown until the
    /// next one.
    unknown_until: Option<u64>,
    /// Number of notices since the last response or drain.
    notices: u32,
}

#[derive(Debug)]
struct Held {
    resource: Resource,
    ambient: Ambient,
    /// Whether the client had another value or none in between, or this cannot be excluded.
    has_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ambient {
    Well,
    Wrong,
}

impl WatchRecord {
    fn value(&mut self, resource: &Resource, responses: u64, report: &mut Report) {
        let name = Text::from(resource.name.as_str());
        if let Some(held) = self.held.get(&name)
            && held.ambient == Ambient::Well
            && held.resource == *resource
        {
            report.ensure(held.has_changed, NO_REPETITION, || format!("{name} is told again"));
        }
        if self.was_missing {
            report.note(Situation::CreatedAfterMissing);
        }
        self.was_missing = false;
        report.ensure(self.unknown_until.is_none_or(|until| responses > until), ASKED_ANEW, || {
            format!("{name} is served before the server was asked")
        });
        let held = Held { resource: resource.clone(), ambient: Ambient::Well, has_changed: false };
        self.held.insert(name, held);
    }

    fn ambient(before: Option<&mut Ambient>, is_wrong: bool, report: &mut Report) {
        let Some(ambient) = before else {
            return report.breach(VALUE_FIRST, || "it has no value".into());
        };
        report.ensure(is_wrong || *ambient == Ambient::Wrong, CLEARED_ONCE, || {
            "it was not told of one".into()
        });
        *ambient = if is_wrong { Ambient::Wrong } else { Ambient::Well };
    }

    /// Records an error or its end. A server's failure may be reported each time.
    fn wrong(&mut self, name: &str, error: Option<(&WatchError, bool)>, report: &mut Report) {
        let Some((error, is_beside)) = error else { return drop(self.wrong.remove(name)) };
        let record = (error.clone(), is_beside);
        let is_trouble = matches!(error.kind(), WatchErrorKind::Unavailable(_));
        let last = self.wrong.insert(name.into(), record);
        let is_again = last.is_some_and(|last| last == (error.clone(), is_beside));
        report.ensure(is_trouble || !is_again, SAME_WORD, || format!("{error} is told again"));
    }

    fn notified(&mut self, notice: &Notice, responses: u64, report: &mut Report) {
        self.notices += 1;
        report.ensure(self.notices <= 2, NEWEST_ONLY, || format!("{notice:?} comes on top"));
        let own = self.name.clone().unwrap_or_default();
        match notice {
            Notice::Changed(Ok(_)) => self.wrong(&own, None, report),
            Notice::Changed(Err(error)) => self.wrong(&own, Some((error, false)), report),
            Notice::Ambient(error) => {
                self.wrong(&own, error.as_ref().map(|error| (error, true)), report);
            }
            _ => {}
        }
        match notice {
            Notice::Changed(Ok(resource)) => {
                let own = self.name.as_deref();
                let is_own = own == Some(resource.name.as_str())
                    || own.is_some_and(is_alias) && own == Some(&*alias_of(resource.name.as_str()));
                report.ensure(is_own, OWN_NAME, || {
                    format!("{:?} is told of {}", self.name, resource.name)
                });
                self.value(resource, responses, report);
            }
            Notice::Changed(Err(error)) => {
                if matches!(error.kind(), WatchErrorKind::Deleted | WatchErrorKind::Absent)
                    && !self.held.is_empty()
                {
                    report.note(Situation::DeletedWhileWatched);
                }
                self.was_missing = true;
                self.held.clear();
            }
            Notice::Ambient(error) => {
                if error.as_ref().is_some_and(|it| *it.kind() == WatchErrorKind::Deleted) {
                    report.note(Situation::DeletedWhileWatched);
                }
                let held = self.held.values_mut().next();
                Self::ambient(held.map(|it| &mut it.ambient), error.is_some(), report);
            }
            _ => {}
        }
    }

    fn step(&mut self, change: &Change, responses: u64, report: &mut Report) {
        match change {
            Change::Collection(Ok(())) => self.wrong("", None, report),
            Change::Collection(Err(error)) => self.wrong("", Some((error, false)), report),
            Change::CollectionAmbient(error) => {
                self.wrong("", error.as_ref().map(|error| (error, true)), report);
            }
            _ => {}
        }
        match change {
            Change::Resource { result: Ok(resource), .. } => {
                self.value(resource, responses, report);
            }
            Change::Resource { name, result: Err(_) } => {
                self.held.remove(name.as_str());
            }
            Change::Ambient { name, error } => {
                let held = self.held.get_mut(name.as_str());
                Self::ambient(held.map(|it| &mut it.ambient), error.is_some(), report);
            }
            Change::Collection(result) => {
                self.collection = result.as_ref().ok().map(|()| Ambient::Well);
            }
            Change::CollectionAmbient(error) => {
                Self::ambient(self.collection.as_mut(), error.is_some(), report);
            }
            Change::Resync => self.held.clear(),
            _ => {}
        }
    }
}

fn agree(world: &World, report: &mut Report) {
    for client in 0..world.client_count() {
        let mut held: Vec<BTreeMap<&str, &[u8]>> = vec![BTreeMap::new(); world.types().len()];
        for (kind, it) in world.status(client) {
            if let Some(bytes) = it.bytes {
                held[kind].insert(it.name.as_str(), bytes);
            }
        }
        for (id, watch) in world.watches(client) {
            if watch.name.as_deref().is_some_and(is_alias) && watch.view.is_empty() {
                // The client may have the resource of an alias without knowing it.
                continue;
            }
            let known = watch.covered(&held[watch.kind]).map(|(name, bytes)| (*name, *bytes));
            let view = watch.view.iter().map(|(name, bytes)| (name.as_str(), &**bytes));
            report.ensure(view.eq(known), SAME_TRUTH, || {
                let known = watch.covered(&held[watch.kind]).map(|(name, _)| name);
                let known: Vec<_> = known.collect();
                format!("client-{client} {id}: {:?} and {known:?}", watch.view.keys())
            });
        }
    }
}

impl Oracle for Watching {
    fn rules(&self) -> &'static [Rule] {
        &[
            OWN_NAME,
            VALUE_FIRST,
            NO_REPETITION,
            SAME_WORD,
            CLEARED_ONCE,
            SAME_TRUTH,
            NEWEST_ONLY,
            SILENCE,
            ASKED_ANEW,
            HIDDEN,
        ]
    }

    fn on_event(&mut self, event: &Event<'_>, world: &World, report: &mut Report) {
        match *event {
            Event::Watched { client, watch, kind, name, .. } => {
                // An external verdict may concern an earlier subscription.
                let is_released = world.options().verdicts == Verdicts::AtOnce
                    // Members of a glob may be known from another watch.
                    && name.is_some_and(|name| {
                        !is_glob(name) && !is_alias(name) && self.is_released(client, kind, name, world)
                    });
                let watcher = self.clients.entry(client).or_default();
                let record = WatchRecord {
                    kind,
                    name: name.map(Text::from),
                    unknown_until: is_released.then_some(watcher.responses),
                    ..WatchRecord::default()
                };
                watcher.watches.insert(watch, record);
            }
            Event::Requested { link, request } => self.requested(link, request, world),
            Event::Unwatched { client, watch } => {
                drop(self.clients.entry(client).or_default().watches.remove(&watch));
            }
            Event::ClientRestarted { client } | Event::ShutDown { client } => {
                self.clients.entry(client).or_default().watches.clear();
                self.released.retain(|(owner, _), _| *owner != client);
            }
            Event::Read { link, .. } => {
                let client = world.link(link).client;
                let watcher = self.clients.entry(client).or_default();
                watcher.responses += 1;
                watcher.forget_notices();
                watcher.note_changes(client, world);
            }
            Event::ClientWoken { client } => {
                self.clients.entry(client).or_default().note_changes(client, world);
            }
            Event::ClientDrained { client } => {
                let watcher = self.clients.entry(client).or_default();
                watcher.forget_notices();
                watcher.note_changes(client, world);
            }
            Event::Notified { client, watch, notice } => {
                let watcher = self.clients.entry(client).or_default();
                let Some(record) = watcher.watches.get_mut(&watch) else {
                    return report.breach(SILENCE, || format!("{notice:?}"));
                };
                if let Notice::Changed(Err(error)) | Notice::Ambient(Some(error)) = notice
                    && matches!(error.kind(), WatchErrorKind::Unavailable(_))
                {
                    let is_wanted = world.options().profile == ProfileName::Grpc
                        || world.options().transport == Transport::Files;
                    report.ensure(is_wanted, HIDDEN, || format!("{error}"));
                }
                record.notified(notice, watcher.responses, report);
                watcher.notified_watches.push(watch);
                if matches!(notice, Notice::Changed(Ok(_))) {
                    watcher.lasting.insert(watch);
                }
            }
            Event::Changed { client, watch, change } => {
                let watcher = self.clients.entry(client).or_default();
                let Some(record) = watcher.watches.get_mut(&watch) else {
                    return report.breach(SILENCE, || format!("{change:?}"));
                };
                record.step(change, watcher.responses, report);
                if matches!(change, Change::Resource { result: Ok(_), .. }) {
                    watcher.lasting.insert(watch);
                }
            }
            Event::Phase(phase) => self.phase = Some(phase),
            Event::Rest if self.phase == Some(Phase::Converge) => agree(world, report),
            _ => {}
        }
    }
}

impl Watching {
    /// Records the names that a request unsubscribes.
    fn requested(&mut self, link: LinkId, request: &Request, world: &World) {
        let it = world.link(link);
        let Some(kind) = request.kind else { return };
        let Some(subscription) = it.asked(kind) else { return };
        let released = self.released.entry((it.client, kind)).or_default();
        released.retain(|name| !subscription.covers(name));
        released.extend(subscription.lost.iter().cloned());
    }

    /// Whether no subscription or watch of the client covers a resource.
    fn is_released(&mut self, client: usize, kind: usize, name: &str, world: &World) -> bool {
        let is_covered = || {
            let watched = world.watched(client, kind);
            let mut links = world.links(client).filter_map(|(_, link)| link.asked(kind));
            watched.covers(name)
                || watched.has_all()
                || links.any(|subscription| subscription.covers(name))
        };
        let released = self.released.get_mut(&(client, kind));
        released.is_some_and(|names| names.remove(name)) && !is_covered()
    }
}

impl ClientWatches {
    /// Records which values of watchers the client has lost or replaced. A lost value stays
    /// recorded.
    fn note_changes(&mut self, client: usize, world: &World) {
        if self.lasting.is_empty() {
            return;
        }
        let is_crowd = world.watch_count(client) > MAX_WATCHES;
        let Self { watches, lasting, .. } = self;
        lasting.retain(|watch| {
            let Some(record) = watches.get_mut(watch) else { return false };
            let mut lasts = false;
            for (name, held) in &mut record.held {
                let has = || world.status_of(client, record.kind, name).and_then(|it| it.bytes);
                held.has_changed |= is_crowd || has() != Some(&held.resource.bytes);
                lasts |= !held.has_changed;
            }
            lasts
        });
    }

    fn forget_notices(&mut self) {
        for watch in self.notified_watches.drain(..) {
            if let Some(record) = self.watches.get_mut(&watch) {
                record.notices = 0;
            }
        }
    }
}
