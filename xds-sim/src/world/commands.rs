//! Operations of applications.

use std::time::Duration;

use xds_core::{Client, WatchId, client::Interest};

use super::{
    Party, World,
    message::Text,
    names,
    parts::{NoticeAction, ScheduledEvent, Watch},
    texts,
};
use crate::{
    situations::Situation,
    trace::{Description, EventKind, ParticipantKind},
    world::actor::{Actor, act_as},
    world::events::Event,
};

/// Operations of applications.
impl World {
    /// Begins a watch of a client, for a name or, with `None`, for the wildcard. Returns `None` if
    /// the client rejects it.
    ///
    /// # Panics
    ///
    /// Panics if the run has no such client or kind of resource. [`Options`](crate::Options) has their
    /// numbers.
    #[track_caller]
    pub fn watch(&mut self, client: usize, kind: usize, name: Option<&str>) -> Option<WatchId> {
        self.require_client(client);
        self.require_kind(kind);
        let watch = self.begin_watch(client, kind, name.map(Text::from));
        self.drain_client(client);
        watch
    }

    pub(super) fn begin_watch(
        &mut self,
        client: usize,
        kind: usize,
        name: Option<Text>,
    ) -> Option<WatchId> {
        let now = self.now;
        let node = self.clients.get_mut(client)?;
        let interest = match name.as_deref() {
            None => Interest::Wildcard,
            Some(name) if names::is_glob(name) => Interest::Glob(name),
            Some(name) => Interest::Name(name),
        };
        let _guard = act_as(Actor::Core(Party::Client(client), "starts a watch"));
        let watch = node.core.watch(self.types.get(kind)?, interest, now).ok()?;
        let wanted = name.as_deref().unwrap_or("*");
        let label = format!("{}/{} {wanted}", names::client(client), watch);
        let owner = Some(node.lane);
        let lane = self.recorder.lane(ParticipantKind::Watcher, &label, owner);
        let short = texts::kind(&self.types, kind);
        self.recorder.local(now, lane, wanted.as_bytes(), || {
            Description::new(EventKind::Watch, format!("watches {short} {wanted}")).about([wanted])
        });
        let is_first = !self.watched(client, kind).has(name.as_deref());
        self.emit(&Event::Watched { client, watch, kind, name: name.as_deref(), is_first });
        let known = Watch {
            kind,
            name,
            view: Default::default(),
            is_missing: false,
            lane,
            delay: Duration::ZERO,
            busy: 0,
            action: None,
        };
        self.clients[client].watches.insert(watch, known);
        self.changes += 1;
        Some(watch)
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, client: usize, watch: WatchId) {
        self.end_watch(client, watch);
        self.drain_client(client);
    }

    /// Begins watches of many resources of a type before the client is drained.
    pub fn watch_several(&mut self, client: usize, kind: usize, names: &[String]) {
        for name in names {
            let _ = self.begin_watch(client, kind, Some(name.as_str().into()));
        }
        self.drain_client(client);
    }

    /// Ends many watches before the client is drained.
    pub fn unwatch_several(&mut self, client: usize, watches: &[WatchId]) {
        watches.iter().for_each(|watch| self.end_watch(client, *watch));
        self.drain_client(client);
    }

    /// Ends a watch and begins it again before the client is drained.
    pub fn watch_again(&mut self, client: usize, watch: WatchId) {
        let Some(known) = self.clients.get(client).and_then(|it| it.watches.get(watch)) else {
            return;
        };
        let (kind, name) = (known.kind, known.name.clone());
        self.end_watch(client, watch);
        let _ = self.begin_watch(client, kind, name);
        self.drain_client(client);
    }

    pub(super) fn end_watch(&mut self, client: usize, watch: WatchId) {
        let now = self.now;
        let Some(node) = self.clients.get_mut(client) else { return };
        let Some(known) = node.watches.remove(watch) else { return };
        self.changes += 1;
        let _guard = act_as(Actor::Core(Party::Client(client), "ends a watch"));
        node.core.unwatch(watch, now);
        if let Some(application) = &mut node.application {
            let _guard = act_as(Actor::Application);
            application.unwatched(watch);
        }
        let is_last = node.watches.of_type(known.kind).is_empty();
        if is_last && !node.watches.is_empty() {
            self.note(Situation::LastWatchOfTypeEnds);
        }
        self.recorder
            .local(now, known.lane, b"unwatch", || Description::new(EventKind::Watch, "ends"));
        self.emit(&Event::Unwatched { client, watch });
    }

    /// Makes the watcher take this long for each notice.
    pub fn slow_down(&mut self, client: usize, watch: WatchId, delay: Duration) {
        if let Some(known) = self.clients.get_mut(client).and_then(|it| it.watches.get_mut(watch)) {
            known.delay = delay;
            self.is_punctual &= delay.is_zero();
        }
    }

    /// Makes the watcher begin another watch while it handles its next notice.
    pub fn watch_on_notice(
        &mut self,
        client: usize,
        watch: WatchId,
        kind: usize,
        name: Option<&str>,
    ) {
        self.act_on_notice(client, watch, NoticeAction::Watch { kind, name: name.map(Text::from) });
    }

    /// Makes the watcher end its watch while it handles its next notice.
    pub fn unwatch_on_notice(&mut self, client: usize, watch: WatchId) {
        self.act_on_notice(client, watch, NoticeAction::Unwatch);
    }

    fn act_on_notice(&mut self, client: usize, watch: WatchId, action: NoticeAction) {
        if let Some(known) = self.clients.get_mut(client).and_then(|it| it.watches.get_mut(watch)) {
            known.action = Some(action);
        }
    }

    /// Makes the applications of a client handle notices at once.
    pub(super) fn hurry(&mut self, client: usize) {
        for known in self.clients[client].watches.values_mut() {
            known.delay = Duration::ZERO;
            known.action = None;
        }
    }

    /// Shuts a client down, which ends all of its watches. The world notifies the application of
    /// this; the client does not.
    pub fn shut_down(&mut self, client: usize) {
        let now = self.now;
        if !self.clients[client].watches.is_empty() {
            self.note(Situation::ShutDownWhileWatched);
        }
        let node = &mut self.clients[client];
        node.is_shut_down = true;
        let _guard = act_as(Actor::Core(Party::Client(client), "shuts down"));
        node.core.shut_down(now);
        for (watch, known) in node.watches.take() {
            if let Some(application) = &mut node.application {
                let _guard = act_as(Actor::Application);
                application.unwatched(watch);
            }
            self.recorder
                .local(now, known.lane, b"unwatch", || Description::new(EventKind::Watch, "ends"));
        }
        self.recorder.local(now, node.lane, b"shut down", || {
            Description::new(EventKind::Note, "shuts down")
        });
        self.emit(&Event::ShutDown { client });
        self.drain_client(client);
    }

    /// Restarts a client with the same watches. Its resources and streams are lost.
    pub fn restart_client(&mut self, client: usize) {
        let links: Vec<_> = self.clients[client].links.iter().map(|(_, link)| *link).collect();
        for link in links {
            self.links[link.at()].is_cut = true;
            self.links[link.at()].is_known_to_client = false;
            self.links[link.at()].is_open = false;
            let at = self.arrival(link);
            self.schedule(at, ScheduledEvent::EndAtServer(link));
        }
        let config = names::client_config(&self.options, &self.types, client);
        let node = &mut self.clients[client];
        node.incarnation += 1;
        node.links.clear();
        let seed = u64::from(node.incarnation) << 32 | client as u64;
        node.core = Client::new(config, seed, self.now);
        let watches = node.watches.take();
        if let Some(application) = &mut node.application {
            let _guard = act_as(Actor::Application);
            application.restarted();
        }
        self.recorder.local(self.now, node.lane, b"restart", || {
            Description::new(EventKind::Note, "restarts")
        });
        self.changes += 1;
        self.emit(&Event::ClientRestarted { client });
        for watch in watches.into_values() {
            let _ = self.begin_watch(client, watch.kind, watch.name);
        }
        self.drain_client(client);
    }

    /// Calls a client's timeout handler even if no timer is due.
    pub fn wake_client(&mut self, client: usize) {
        let due = self.clients[client].core.poll_timeout();
        self.changes += u64::from(due.is_none_or(|due| due.at > self.now));
        let _guard = act_as(Actor::Core(Party::Client(client), "handles a timeout"));
        self.clients[client].core.handle_timeout(self.now);
        self.emit(&Event::ClientWoken { client });
        self.drain_client(client);
    }
}
