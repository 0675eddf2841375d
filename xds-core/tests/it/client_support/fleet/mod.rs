//! A client, its configured servers and the streams between them, one step at a time.
//!
//! Servers follow the protocol unless a step says otherwise. Rules that hold at every moment are
//! checked after every step; rules that hold at rest are in `rest.rs`.

mod active_server;
pub mod clock;
pub mod exchange;
mod external_verdicts;
mod idle;
pub mod oracle;
pub mod peer;
pub mod rest;
mod sending;
pub mod setup;
pub mod situations;
pub mod step;
pub mod store;
pub mod versions;

use std::{collections::BTreeSet, fmt::Debug, mem, time::Duration};

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time, TypeUrl, WatchId,
    client::{
        Call, Change, ChannelError, ChannelEvent, Interest, Notice, Output, Resource, Streams,
        WatchError,
    },
};

use self::{
    exchange::Talk,
    peer::Peer,
    setup::{AUTHORITIES, Setup, URIS, name_of},
    situations::{Reached, Situation},
    step::Step,
    store::{Held, Store},
    versions::Loss,
};
use super::{TYPES, reported::Reported, watcher::Watcher};

/// The error that a notice reports, if any.
fn notice_error(notice: &Notice) -> Option<&WatchError> {
    match notice {
        Notice::Changed(Err(error)) | Notice::Ambient(Some(error)) => Some(error),
        _ => None,
    }
}

/// Checks that the reported value is the cached one, so that updates are reported in order.
// IC16
fn is_in_use(client: &Client, kind: usize, told: &Resource) -> Result<(), TestCaseError> {
    let mut known = client.status();
    let held = known.find(|it| *it.type_url == *TYPES[kind] && *it.name == told.name);
    let held = held.map(|it| (it.bytes.cloned(), it.version.clone()));
    let told = (Some(told.bytes.clone()), told.version.clone());
    prop_assert_eq!(held, Some(told), "what was in use before is told (IC16)");
    Ok(())
}

/// A client with its watchers, servers and streams.
pub struct World {
    pub client: Client,
    pub setup: Setup,
    pub now: Time,
    pub watchers: Vec<Watcher>,
    pub peers: Vec<Peer>,
    pub stores: [Store; URIS.len()],
    channel_ids: BTreeSet<ChannelId>,
    watch_ids: BTreeSet<WatchId>,
    /// Number in the last version and nonce that any server sent.
    number: u64,
    /// Whether a server has sent an invalid message.
    has_lied: bool,
    /// State shared by the servers and the client's expectations.
    talk: Talk,
    pub reached: Reached,
    /// Status and metrics reported by the client.
    told: Reported,
    is_shut_down: bool,
    /// Steps and outputs, formatted only on failure.
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
            talk: Talk::default(),
            reached: Reached::default(),
            told: Reported::default(),
            is_shut_down: false,
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
            Step::Push { nth, kind } => {
                self.with_peer(nth, |world, at| world.push(at, kind).map(drop))?;
            }
            Step::Close(nth) => self.with_peer(nth, |world, at| {
                let error =
                    ChannelError::Status { code: StatusCode::Unavailable, message: "".into() };
                world.close(at, error);
                Ok(())
            })?,
            Step::Put { server, kind, name, text, ttl } => {
                self.number += 1;
                let ttl = ttl.map(|seconds| Duration::from_secs(seconds.into()));
                let held = Held { version: self.number, text, ttl };
                self.stores[server].put(kind, name_of(kind, name), held);
            }
            Step::Report { server, kind, name, code } => {
                self.stores[server].report(kind, name_of(kind, name), code);
            }
            Step::Beat { nth, kind } => self.with_peer(nth, |world, at| world.beat(at, kind))?,
            Step::Delete { server, kind, name } => {
                self.stores[server].remove(kind, &name_of(kind, name));
            }
            Step::Forge { nth, ref bytes } => {
                self.with_peer(nth, |world, at| world.forge(at, bytes))?;
            }
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

/// Steps of the application.
impl World {
    fn watch(&mut self, kind: usize, name: Option<u8>) -> Result<(), TestCaseError> {
        let name = name.map(|name| name_of(kind, name));
        let interest = name.as_deref().map_or(Interest::Wildcard, Interest::Name);
        // The order of context parameters is ignored (IC30).
        let spelled = name.as_deref().map(|name| name.replace("m=1&n=2", "n=2&m=1"));
        let interest = match spelled.as_deref().filter(|_| self.watch_ids.len() % 2 == 1) {
            Some(spelled) => Interest::Name(spelled),
            None => interest,
        };
        let id = self.client.watch(&TypeUrl::from(TYPES[kind]), interest, self.now);
        let id = id.expect("a registered type and a good name");
        prop_assert!(self.watch_ids.insert(id), "{} is reused (rule 7)", id);
        let mut watcher = Watcher::new(id, kind, name);
        watcher.may_have_missed_an_end = self.talk.has_lied || self.talk.has_expired;
        self.watchers.push(watcher);
        self.note_reasons_to_turn();
        Ok(())
    }

    fn unwatch(&mut self, nth: usize) {
        if !self.watchers.is_empty() {
            self.note_who_is_wanted();
            let watcher = self.watchers.remove(nth % self.watchers.len());
            self.client.unwatch(watcher.id, self.now);
            self.note_breath();
            self.note_ended(watcher.id);
            // Fallback may have been used for this watch only.
            for authority in 0..AUTHORITIES {
                let failing = self.talk.failing.iter().map(|place| (*place, authority));
                self.talk.content.extend(failing);
            }
        }
    }

    pub fn take_output(&mut self) -> Result<bool, TestCaseError> {
        Ok(self.take_output_for()?.is_some())
    }

    /// Takes an output, if there is one. Returns the watch that it is for, if any.
    fn take_output_for(&mut self) -> Result<Option<Option<WatchId>>, TestCaseError> {
        let due = self.client.poll_timeout();
        let Some(output) = self.client.poll_output() else { return Ok(None) };
        let watch = if let Output::Notify(watch, _) = &output { Some(*watch) } else { None };
        prop_assert!(due.is_some_and(|due| due.at <= self.now), "{:?} was queued (rule 4)", output);
        self.note(output.clone());
        match output {
            Output::Open(channel, call) => self.accept(channel, &call)?,
            Output::Close(channel, _) => {
                let closed = self.peers.iter().position(|peer| peer.channel == channel);
                if let Some(at) = closed {
                    let peer = self.peers.remove(at);
                    self.was_idle(&peer)?;
                    self.note_closed(&peer);
                }
            }
            Output::Update(id, update) => self.judge(id, &update)?,
            Output::Writable(channel) => {
                if let Some(peer) = self.peers.iter_mut().find(|peer| peer.channel == channel) {
                    peer.is_writable = true;
                }
            }
            Output::Notify(id, notice) => {
                let responses = self.talk.responses();
                match self.watchers.iter_mut().find(|watcher| watcher.id == id) {
                    Some(watcher) => {
                        if let Notice::Changed(Ok(resource)) = &notice {
                            self.talk.was_sent(watcher.kind, resource)?;
                            is_in_use(&self.client, watcher.kind, resource)?;
                        }
                        let name = watcher.name.as_deref().unwrap_or_default();
                        let places = self.setup.places_of(watcher.kind, name);
                        self.talk.is_known_trouble(places, notice_error(&notice))?;
                        watcher.hear(notice, responses)?;
                    }
                    None => prop_assert!(false, "a notice for {}, which has ended (IC39)", id),
                }
            }
            _ => {}
        }
        Ok(Some(watch))
    }

    /// Accepts a channel: one channel of a server opens at a time, and one leads to each place.
    // IC26
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
        self.may_open((server, only))?;
        let is_behind = !self.talk.preferred.contains(&server);
        let is_pending = self.peers.iter().any(|peer| !peer.is_all_answered());
        self.reached.note(Situation::FallbackWhileAnAnswerIsPending, is_behind && is_pending);
        let mut peer = Peer::new(channel, server, call.server.variant, only);
        (peer.begun, peer.wanted_until) = (self.now, self.now);
        self.peers.push(peer);
        Ok(())
    }

    /// Records a channel that the client closed, possibly some time ago while it was unused.
    fn note_closed(&mut self, peer: &Peer) {
        self.talk.attempts.entry(peer.place()).or_default().note_closed(peer, self.now);
        self.talk.last_end = self.now;
        for kind in (0..TYPES.len()).filter(|kind| peer.subscribed(*kind).contains("*")) {
            self.talk.versions.lose(kind, Loss::Possible, |server| server == peer.server);
        }
    }

    /// Takes one change of a watch. Returns whether there was one.
    fn take_change(&mut self, nth: usize) -> Result<bool, TestCaseError> {
        let nth = nth % self.watchers.len().max(1);
        let Some(watcher) = self.watchers.get_mut(nth) else { return Ok(false) };
        let Some(change) = self.client.next_change(watcher.id) else {
            watcher.has_caught_up = true;
            return Ok(false);
        };
        self.trace.push(Box::new((watcher.id, change.clone())));
        if let Change::Resource { result: Ok(resource), .. } = &change {
            self.talk.was_sent(watcher.kind, resource)?;
            is_in_use(&self.client, watcher.kind, resource)?;
        }
        if let Change::Collection(Err(error)) | Change::CollectionAmbient(Some(error)) = &change {
            let places = self.setup.places_of(watcher.kind, "");
            self.talk.is_known_trouble(places, Some(error))?;
        }
        watcher.step(change, self.talk.responses())?;
        Ok(true)
    }

    fn say_handled(&mut self, nth: usize) {
        let nth = nth % self.watchers.len().max(1);
        if let Some(watcher) = self.watchers.get_mut(nth) {
            self.client.handled(watcher.id, self.now);
            // For a wildcard watch this is true only after it has taken all changes.
            watcher.is_busy &= watcher.name.is_none();
            if watcher.name.is_some() || watcher.has_caught_up {
                for peer in &mut self.peers {
                    peer.debtors.remove(&watcher.id);
                }
            }
        }
    }

    /// Lets each watcher with an unhandled notice take all changes and call `handled`.
    pub fn handle_notices(&mut self) -> Result<(), TestCaseError> {
        for nth in 0..self.watchers.len() {
            if mem::take(&mut self.watchers[nth].is_busy) {
                while self.take_change(nth)? {}
                self.say_handled(nth);
            }
        }
        Ok(())
    }

    /// Names and wildcards that the live watches of a type subscribe to.
    pub fn wanted(watchers: &[Watcher], kind: usize) -> BTreeSet<String> {
        let watchers = watchers.iter().filter(|watcher| watcher.kind == kind);
        watchers.map(|watcher| watcher.name.clone().unwrap_or_else(|| "*".into())).collect()
    }
}

/// Steps of transports and servers.
impl World {
    /// Opens the channel. Returns whether it was not open yet.
    pub fn open(&mut self, at: usize) -> bool {
        let peer = &mut self.peers[at];
        let is_news = !mem::replace(&mut peer.is_open, true);
        if is_news {
            peer.opened = self.now;
            let channel = peer.channel;
            let before = self.client.stats().ignored_events;
            self.client.handle_event(ChannelEvent::Opened(channel), self.now);
            // The client may have closed the channel before.
            if self.client.stats().ignored_events == before {
                self.note_opened(at);
            }
        }
        is_news
    }

    fn close(&mut self, at: usize, error: ChannelError) {
        let peer = self.peers.remove(at);
        let before = self.client.stats().ignored_events;
        self.client.handle_event(ChannelEvent::Closed(peer.channel, error), self.now);
        // The client may have closed the channel first.
        match self.client.stats().ignored_events == before {
            true => self.note_end(&peer),
            false => self.note_closed(&peer),
        }
    }

    /// Sends one request. Returns whether there was one.
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
        let stated = peer
            .read(&frame, &transmit.cause, self.now, |kind| Self::wanted(&self.watchers, kind))?;
        if let Some(stated) = stated {
            self.stated(at, stated)?;
        }
        self.forget_what_nobody_wants();
        Ok(true)
    }
}
