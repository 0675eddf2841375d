//! A client, the servers that it is configured with, and the streams between them, one step at a time.
//!
//! Servers keep to the protocol unless a step says otherwise. The rules that hold at every moment are
//! checked at every step; those that hold once everybody has done their part, in `rest.rs`.

pub mod peer;
pub mod rest;
pub mod step;
pub mod store;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    mem,
    time::Duration,
};

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    ChannelId, Client, Frame, Time, Timer, TypeUrl, WatchId,
    client::{
        Authority, Call, ChannelError, ChannelEvent, ClientConfig, DataErrorPolicy, EntryState,
        Interest, ManagementServer, Node, Output, ReadGate, Streams,
    },
    service::Variant,
};

use self::{
    peer::Peer,
    step::Step,
    store::{Held, Store},
};
use super::{Picky, TYPES, watcher::Watcher};

/// How a client is configured.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub variant: Variant,
    pub streams: Streams,
    pub servers: Servers,
    pub data_errors: DataErrorPolicy,
    pub read_gate: ReadGate,
}

/// Who answers for what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Servers {
    /// One server for everything.
    One,
    /// Two servers in order, and an authority that prefers the second.
    Fallback,
}

const URIS: [&str; 2] = ["a", "b"];

/// The third name states an authority.
pub fn name_of(kind: usize, name: u8) -> String {
    match name {
        2 => format!("xdstp://x/{}/r2", TYPES[kind].rsplit('/').next().unwrap_or_default()),
        name => format!("r{name}"),
    }
}

impl Setup {
    fn to_config(self) -> ClientConfig {
        let server =
            |uri| ManagementServer::new(uri).with_variant(self.variant).with_streams(self.streams);
        let mut config = ClientConfig::new(Node::new("me"), server(URIS[0]));
        let mut authority = Authority::new("x");
        if self.servers == Servers::Fallback {
            config = config.with_fallback(server(URIS[1]));
            authority = authority.with_server(server(URIS[1])).with_server(server(URIS[0]));
        }
        config = config.with_authority(authority);
        config.profile.data_errors = self.data_errors;
        config.profile.read_gate = self.read_gate;
        config.profile.backoff.jitter_percent = 0;
        config.limits.tombstones_per_type = 2;
        TYPES.into_iter().fold(config, |config, it| config.with_type(Picky(TypeUrl::from(it))))
    }

    /// Whether what only the server behind the preferred one had can be left over: such goes with time.
    fn may_have_leftovers(self) -> bool {
        self.servers == Servers::Fallback && self.variant == Variant::Incremental
    }

    /// The position of the server that is preferred for a name.
    pub fn preferred(self, name: &str) -> usize {
        usize::from(self.servers == Servers::Fallback && name.starts_with("xdstp:"))
    }
}

/// Everybody there is.
pub struct World {
    pub client: Client,
    pub setup: Setup,
    pub now: Time,
    pub watchers: Vec<Watcher>,
    pub peers: Vec<Peer>,
    pub stores: [Store; URIS.len()],
    channel_ids: BTreeSet<ChannelId>,
    watch_ids: BTreeSet<WatchId>,
    /// The last version and nonce that any server gave.
    number: u64,
    /// Whether some server has said what no server should.
    has_lied: bool,
    /// What happened, rendered only if it went wrong.
    pub trace: Vec<Box<dyn Debug>>,
}

impl World {
    pub fn new(setup: Setup) -> Self {
        Self {
            client: Client::new(setup.to_config(), 7, Time::ZERO),
            setup,
            now: Time::ZERO,
            watchers: Vec::new(),
            peers: Vec::new(),
            stores: Default::default(),
            channel_ids: BTreeSet::new(),
            watch_ids: BTreeSet::new(),
            number: 0,
            has_lied: false,
            trace: Vec::new(),
        }
    }

    pub fn note(&mut self, what: impl Debug + 'static) {
        self.trace.push(Box::new(what));
    }

    pub fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.note(step.clone());
        match *step {
            Step::Watch { kind, name } => self.watch(kind, name)?,
            Step::Unwatch(nth) => self.unwatch(nth),
            Step::TakeOutput => drop(self.take_output()?),
            Step::TakeChange(nth) => drop(self.take_change(nth)?),
            Step::Handled(nth) => self.say_handled(nth),
            Step::Open(nth) => self.with_peer(nth, |world, at| {
                world.open(at);
                Ok(())
            })?,
            Step::Transmit(nth) => self.with_peer(nth, |world, at| world.transmit(at).map(drop))?,
            Step::Push { nth, kind } => self.with_peer(nth, |world, at| {
                world.push(at, kind);
                Ok(())
            })?,
            Step::Close(nth) => self.with_peer(nth, |world, at| {
                let error = ChannelError::Status { code: 14, message: "".into() };
                world.close(at, error);
                Ok(())
            })?,
            Step::Put { server, kind, name, text } => {
                self.number += 1;
                let held = Held { version: self.number, text };
                self.stores[server].put(kind, name_of(kind, name), held);
            }
            Step::Delete { server, kind, name } => {
                self.stores[server].remove(kind, &name_of(kind, name));
            }
            Step::Forge { nth, ref bytes } => self.with_peer(nth, |world, at| {
                world.forge(at, bytes);
                Ok(())
            })?,
            Step::Sleep { millis } => self.sleep(Duration::from_millis(millis))?,
            Step::Rest => self.come_to_rest()?,
        }
        self.holds_at_every_moment()
    }

    fn with_peer(
        &mut self,
        nth: usize,
        act: impl FnOnce(&mut Self, usize) -> Result<(), TestCaseError>,
    ) -> Result<(), TestCaseError> {
        match self.peers.len() {
            0 => Ok(()),
            peers => act(self, nth % peers),
        }
    }
}

/// The application.
impl World {
    fn watch(&mut self, kind: usize, name: Option<u8>) -> Result<(), TestCaseError> {
        let name = name.map(|name| name_of(kind, name));
        let interest = name.as_deref().map_or(Interest::Wildcard, Interest::Name);
        let id = self.client.watch(&TypeUrl::from(TYPES[kind]), interest, self.now);
        let id = id.expect("a registered type and a good name");
        prop_assert!(self.watch_ids.insert(id), "{} is reused (rule 7)", id);
        let mut watcher = Watcher::new(id, kind, name);
        watcher.is_lied_to = self.has_lied;
        self.watchers.push(watcher);
        Ok(())
    }

    fn unwatch(&mut self, nth: usize) {
        if !self.watchers.is_empty() {
            let watcher = self.watchers.remove(nth % self.watchers.len());
            self.client.unwatch(watcher.id, self.now);
        }
    }

    pub fn take_output(&mut self) -> Result<bool, TestCaseError> {
        let due = self.client.poll_timeout();
        let Some(output) = self.client.poll_output() else { return Ok(false) };
        prop_assert!(due.is_some_and(|due| due.at <= self.now), "{:?} was queued (rule 4)", output);
        self.note(output.clone());
        match output {
            Output::Open(channel, call) => self.accept(channel, &call)?,
            Output::Close(channel, _) => self.peers.retain(|peer| peer.channel != channel),
            Output::Writable(channel) => {
                if let Some(peer) = self.peers.iter_mut().find(|peer| peer.channel == channel) {
                    peer.is_writable = true;
                }
            }
            Output::Notify(id, notice) => {
                match self.watchers.iter_mut().find(|watcher| watcher.id == id) {
                    Some(watcher) => watcher.hear(notice)?,
                    None => prop_assert!(false, "a notice for {}, which has ended (IC39)", id),
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// One channel of a server opens at a time, and one leads to each place (IC26).
    fn accept(&mut self, channel: ChannelId, call: &Call) -> Result<(), TestCaseError> {
        prop_assert!(self.channel_ids.insert(channel), "{} is reused (rule 7)", channel);
        let server = URIS.iter().position(|uri| *uri == &*call.server.uri).expect("configured");
        let only =
            call.type_url.as_ref().and_then(|it| TYPES.iter().position(|known| it == *known));
        prop_assert_eq!(only.is_some(), self.setup.streams == Streams::PerType);
        for peer in self.peers.iter().filter(|peer| peer.server == server) {
            prop_assert!(peer.is_open, "two channels open at a time (IC26)");
            prop_assert!(peer.only != only, "two channels to one place (IC26)");
        }
        self.peers.push(Peer::new(channel, server, call.server.variant, only));
        Ok(())
    }

    /// Whether the watch had not caught up.
    fn take_change(&mut self, nth: usize) -> Result<bool, TestCaseError> {
        let nth = nth % self.watchers.len().max(1);
        let Some(watcher) = self.watchers.get_mut(nth) else { return Ok(false) };
        let Some(change) = self.client.next_change(watcher.id) else { return Ok(false) };
        self.trace.push(Box::new((watcher.id, change.clone())));
        watcher.step(change)?;
        Ok(true)
    }

    fn say_handled(&mut self, nth: usize) {
        let nth = nth % self.watchers.len().max(1);
        if let Some(watcher) = self.watchers.get_mut(nth) {
            self.client.handled(watcher.id, self.now);
            // Of a wildcard watch that is true only once it has caught up.
            watcher.is_busy &= watcher.name.is_none();
        }
    }

    /// Whoever has taken a notice reads what there is to read and says so; nobody else does.
    pub fn handle_notices(&mut self) -> Result<(), TestCaseError> {
        for nth in 0..self.watchers.len() {
            if mem::take(&mut self.watchers[nth].is_busy) {
                while self.take_change(nth)? {}
                self.client.handled(self.watchers[nth].id, self.now);
            }
        }
        Ok(())
    }

    /// The names, and the wildcard, that live watches of a type ask for.
    pub fn wanted(watchers: &[Watcher], kind: usize) -> BTreeSet<String> {
        let watchers = watchers.iter().filter(|watcher| watcher.kind == kind);
        watchers.map(|watcher| watcher.name.clone().unwrap_or_else(|| "*".into())).collect()
    }
}

/// Transports, servers and the clock.
impl World {
    /// Whether the channel was not open yet.
    pub fn open(&mut self, at: usize) -> bool {
        let peer = &mut self.peers[at];
        let is_news = !mem::replace(&mut peer.is_open, true);
        if is_news {
            self.client.handle_event(ChannelEvent::Opened(peer.channel), self.now);
        }
        is_news
    }

    fn close(&mut self, at: usize, error: ChannelError) {
        let peer = self.peers.remove(at);
        self.client.handle_event(ChannelEvent::Closed(peer.channel, error), self.now);
    }

    /// Whether there was a request to send.
    pub fn transmit(&mut self, at: usize) -> Result<bool, TestCaseError> {
        let peer = &mut self.peers[at];
        if !peer.is_writable {
            return Ok(false);
        }
        let mut frame = Frame::default();
        let Some(transmit) = self.client.poll_transmit(peer.channel, self.now, &mut frame) else {
            peer.is_writable = false;
            return Ok(false);
        };
        self.trace.push(Box::new((peer.channel, transmit.clone(), frame.to_bytes())));
        peer.read(&frame, &transmit.cause, |kind| Self::wanted(&self.watchers, kind))?;
        Ok(true)
    }

    /// The server says what it has to say, if the client wants to read. Whether it did.
    pub fn push(&mut self, at: usize, kind: usize) -> bool {
        let peer = &mut self.peers[at];
        if !self.client.wants_read(peer.channel) {
            return false;
        }
        let Some(frame) = peer.push(kind, &self.stores[peer.server], self.number + 1) else {
            return false;
        };
        self.number += 1;
        let message = ChannelEvent::Message(peer.channel, Bytes::from(frame));
        self.trace.push(Box::new(message.clone()));
        self.client.handle_event(message, self.now);
        true
    }

    /// The server says what no server should. A stream on which that cannot be read is over, though
    /// its server hears of it only later.
    fn forge(&mut self, at: usize, bytes: &[u8]) {
        self.has_lied = true;
        self.watchers.iter_mut().for_each(|watcher| watcher.is_lied_to = true);
        let peer = &mut self.peers[at];
        let before = self.client.stats();
        let message = ChannelEvent::Message(peer.channel, Bytes::copy_from_slice(bytes));
        self.client.handle_event(message, self.now);
        let after = self.client.stats();
        let is_answered = after.acks + after.nacks > before.acks + before.nacks;
        if is_answered {
            peer.note_lie();
        }
    }

    /// Sleeps until each deadline, as a driver may.
    pub fn sleep(&mut self, duration: Duration) -> Result<(), TestCaseError> {
        let end = self.now.after(duration);
        for _ in 0..1_000 {
            while self.take_output()? {}
            let Some(due) = self.client.poll_timeout().filter(|due| due.at <= end) else {
                self.now = end;
                self.client.handle_timeout(end);
                return Ok(());
            };
            self.now = self.now.max(due.at);
            let before = self.states();
            self.client.handle_timeout(self.now);
            for (name, state) in self.states() {
                let before = before.get(&name).copied();
                let is_concluded = Some(state) != before && before.is_some();
                prop_assert!(
                    due.why == Timer::TimeToLive
                        || self.setup.may_have_leftovers()
                        || !is_concluded
                        || before == Some(EntryState::Requested),
                    "a timer of {:?}, which was {:?} (IC24, IC25)",
                    name,
                    before
                );
            }
        }
        prop_assert!(false, "a due timeout makes no progress (IC38)");
        Ok(())
    }

    fn states(&self) -> BTreeMap<(String, String), EntryState> {
        let key = |type_url: &TypeUrl, name: &str| (type_url.to_string(), name.to_owned());
        self.client.status().map(|it| (key(it.type_url, it.name.as_str()), it.state)).collect()
    }
}
