//! Responses of servers to the client, and the resulting expectations of both sides.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    Time,
    client::{ChannelEvent, FlowControl, Resource, ResourceState, WatchError, WatchErrorKind},
};

use super::{
    super::{TYPES, watcher::Watcher},
    World,
    clock::Attempts,
    oracle::{EntryContent, Known, ResponseContent, Statuses, statuses},
    peer::{Listing, Peer, Stated},
    setup::{APART, Places, Servers, URIS},
    situations::Situation,
    versions::{Loss, Versions},
};

/// A server's index, and the single type of the stream or `None` for all types.
pub type Place = (usize, Option<usize>);

/// State of the exchange over all streams.
#[derive(Debug, Default)]
pub struct Talk {
    /// Number of responses.
    responses: u64,
    /// Last accepted versions.
    pub versions: Versions,
    /// State of the world: the content of each version.
    listings: BTreeMap<String, Listing>,
    /// The server that sent each version.
    origins: BTreeMap<String, usize>,
    /// Resources sent while they were subscribed to without interruption.
    sent: BTreeSet<(usize, String, Bytes)>,
    /// TTLs of cached resources.
    leases: BTreeMap<(usize, String), Lease>,
    pub has_expired: bool,
    /// Time at which a resource of each type last expired.
    pub last_expiry: BTreeMap<usize, Time>,
    pub has_lied: bool,
    pub attempts: BTreeMap<Place, Attempts>,
    /// Places whose last stream ended without a response.
    pub failing: BTreeSet<Place>,
    /// Failing places that have been watched since the failure.
    pub trouble: BTreeSet<Place>,
    /// Failing places and authorities without an unknown watched resource at that moment, so
    /// without a reason for fallback.
    pub content: BTreeSet<(Place, usize)>,
    /// Preferred places and authorities that use the fallback server until the preferred one
    /// responds.
    pub fallen_back: BTreeSet<(Place, usize)>,
    /// Time at which a stream last ended, if another server may take over.
    pub last_end: Time,
    /// Time until which the client may pause without a visible reason.
    pub is_breathing_until: Time,
    /// Servers that were ever preferred by a watch.
    pub preferred: BTreeSet<usize>,
    pub reasons: BTreeSet<usize>,
}

/// Version and expiry of a TTL.
#[derive(Clone, Debug)]
struct Lease {
    version: u64,
    until: Time,
    giver: Giver,
}

/// Source of a TTL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Giver {
    Preferred,
    /// A fallback server, which may be out of use without knowing it yet.
    Another,
}

impl Talk {
    pub fn responses(&self) -> u64 {
        self.responses
    }

    /// Expiry of a resource, with the source of its TTL.
    pub fn lease_of(&self, key: &(usize, String)) -> Option<(Time, Giver)> {
        self.leases.get(key).map(|lease| (lease.until, lease.giver))
    }

    /// Records expiries: a wildcard version no longer describes the cache afterwards. The expiry of
    /// an unwatched resource is not visible.
    // DX-32
    pub fn note_expiry(&mut self, now: Time) {
        for ((kind, _), lease) in self.leases.iter().filter(|(_, lease)| lease.until <= now) {
            self.has_expired = true;
            let last = self.last_expiry.entry(*kind).or_default();
            *last = lease.until.max(*last);
            self.versions.lose(*kind, Loss::Possible, |_| true);
        }
    }

    /// Checks that a connectivity error is reported only while the server does not answer, and, if
    /// there was a reason for fallback, only while the fallback server does not answer either.
    // IC27 IC29
    pub fn is_known_trouble(
        &self,
        places: Places,
        error: Option<&WatchError>,
    ) -> Result<(), TestCaseError> {
        let Places { authority, preferred: place, behind } = places;
        let is_unavailable =
            error.is_some_and(|error| matches!(error.kind(), WatchErrorKind::Unavailable(_)));
        let is_known = !is_unavailable || self.has_lied || self.failing.contains(&place);
        prop_assert!(is_known, "{:?}, though it answers (IC27, IC29)", error);
        let all_fail = behind.is_none_or(|behind| self.failing.contains(&behind));
        let is_final = all_fail || self.content.contains(&(place, authority));
        prop_assert!(
            !is_unavailable || self.has_lied || is_final,
            "{:?}, though {:?} may answer (IC29)",
            error,
            behind
        );
        Ok(())
    }

    /// Checks that a reported resource was sent and has been watched without interruption since.
    // IC13 IC15
    pub fn was_sent(&self, kind: usize, resource: &Resource) -> Result<(), TestCaseError> {
        let told = (kind, resource.name.to_string(), resource.bytes.clone());
        let is_known = self.has_lied || self.sent.contains(&told);
        prop_assert!(is_known, "{} was forgotten, or never sent (IC13, IC15)", resource.name);
        Ok(())
    }
}

/// Steps of servers.
impl World {
    /// Sends the next response if the client reads. Returns whether one was sent.
    pub fn push(&mut self, at: usize, kind: usize) -> Result<bool, TestCaseError> {
        let Some(at) = self.clear_the_way(at)? else { return Ok(false) };
        let peer = &mut self.peers[at];
        if !self.client.wants_read(peer.channel) {
            return Ok(false);
        }
        let Some((said, frame)) = peer.push(kind, &self.stores[peer.server], self.number + 1)
        else {
            return Ok(false);
        };
        self.deliver(at, &said, frame)?;
        Ok(true)
    }

    /// Sends heartbeats for resources with a TTL.
    pub fn beat(&mut self, at: usize, kind: usize) -> Result<(), TestCaseError> {
        let Some(at) = self.clear_the_way(at)? else { return Ok(()) };
        let known = statuses(&self.client);
        let peer = &self.peers[at];
        if !self.client.wants_read(peer.channel) {
            return Ok(());
        }
        let (leases, now) = (&self.talk.leases, self.now);
        let is_in_use = |name: &str, version: u64| {
            let key = (kind, name.to_owned());
            // An unwatched resource is still cached, but not visible, until the unsubscription is
            // sent.
            let has_bytes = known.get(&key).is_none_or(|known| known.bytes.is_some());
            let lease = leases.get(&key).filter(|lease| lease.until > now);
            has_bytes && lease.is_some_and(|lease| lease.version == version)
        };
        let said = peer.beat(kind, &self.stores[peer.server], self.number + 1, is_in_use);
        let Some((said, frame)) = said else { return Ok(()) };
        self.deliver(at, &said, frame)
    }

    /// Delivers the response and checks its effects.
    fn deliver(
        &mut self,
        at: usize,
        said: &ResponseContent,
        frame: Vec<u8>,
    ) -> Result<(), TestCaseError> {
        self.number += 1;
        self.note_breath();
        self.talk.responses += 1;
        let number = self.number;
        let peer = &self.peers[at];
        let (server, channel) = (peer.server, peer.channel);
        for (name, word) in &said.words {
            if let EntryContent::Resource { bytes, version, .. } = word {
                self.talk.origins.insert(version.clone(), server);
                self.talk.sent.insert((said.kind, name.clone(), bytes.clone()));
            }
        }
        let place = peer.place();
        self.talk.failing.remove(&place);
        self.talk.trouble.remove(&place);
        self.talk.fallen_back.retain(|(preferred, _)| *preferred != place);
        let others = |world: &Self| {
            // A server that answers may end the streams to servers that share an authority with it.
            let is_apart = |other: &&Peer| match world.setup.servers {
                Servers::One => other.channel != channel,
                Servers::Fallback => (other.server == APART) != (server == APART),
            };
            let others = world.peers.iter().filter(is_apart);
            others.map(|other| world.client.wants_read(other.channel)).collect::<Vec<_>>()
        };
        let reading = others(self);
        let (before, stats) = (statuses(&self.client), self.client.stats());
        let message = ChannelEvent::Message(channel, Bytes::from(frame));
        self.trace.push(Box::new(message.clone()));
        self.client.handle_event(message, self.now);
        self.hear_verdicts(stats)?;
        // Streams to unneeded servers may have closed with the verdict.
        let at = self.peers.iter().position(|peer| peer.channel == channel);
        let Some(at) = at else { return Err(TestCaseError::fail("it ends, answered")) };
        let after = statuses(&self.client);

        let now = self.client.stats();
        let (acks, nacks) = (now.acks - stats.acks, now.nacks - stats.nacks);
        prop_assert_eq!(acks + nacks, 1, "one answer to each response (IC1)");
        let is_rejected = nacks == 1;
        if self.is_all_for(server, said, &before) && !self.has_lied {
            prop_assert_eq!(is_rejected, said.is_faulty(), "{:?} (IC2, IC3)", said);
        }
        let peer = &self.peers[at];
        if let Some(listing) = peer.said(said.kind) {
            self.talk.listings.insert(format!("v{number}"), listing.clone());
        }
        let said_at = (server, said.kind);
        if is_rejected {
            self.talk.versions.reject(said_at);
        } else if said.is_renewal() {
            self.talk.versions.renew(said_at, format!("v{number}"));
        } else {
            let is_of_everything = peer.began_with_wildcard(said.kind);
            self.talk.versions.accept(said_at, format!("v{number}"), is_of_everything);
        }
        self.talk.versions.lose(said.kind, Loss::Possible, |other| other != server);
        let accepted = self.talk.versions.of(server, said.kind);
        let accepted = Some(accepted).filter(|_| !self.talk.has_lied);
        let is_back =
            self.peers.iter().any(|other| other.channel != channel && other.place().1 == place.1)
                && self.peers[at].first_response.is_none()
                && self.talk.reasons.iter().any(|&behind| behind > place.0);
        self.reached.note(Situation::PreferredServerReturns, is_back);
        self.reached.note_response((place, channel), said, is_rejected);
        if self.peers[at].first_response.is_none() {
            self.note_gone(); // Its fallback servers are no longer used.
        }
        let peer = &mut self.peers[at];
        peer.note_response(said.kind, number, accepted, is_rejected);
        peer.first_response.get_or_insert(self.now);
        if self.setup.flow_control == FlowControl::On {
            for watcher in &mut self.watchers {
                if watcher.has_news_in(&before, &after) {
                    watcher.has_caught_up = false;
                    peer.debtors.insert(watcher.id);
                }
            }
        }
        prop_assert_eq!(reading, others(self), "other streams go on (IC34)");
        self.is_taken_as_it_should(at, said, &before, &after)?;
        self.note_leases(server, said, &after);
        Ok(())
    }

    /// Whether the server is authoritative for everything in the response, and it is watched.
    fn is_all_for(&self, server: usize, said: &ResponseContent, before: &Statuses) -> bool {
        said.words.iter().all(|(name, word)| {
            let is_watched = before.contains_key(&(said.kind, name.clone()));
            let is_heartbeat = matches!(word, EntryContent::Heartbeat { .. });
            // A client that is leaving the wildcard ignores responses to it.
            let is_wanted = is_watched || Self::wanted(&self.watchers, said.kind).contains("*");
            self.setup.preferred(said.kind, name) == server
                && is_wanted
                && (is_watched || !is_heartbeat)
        })
    }

    fn is_taken_as_it_should(
        &self,
        at: usize,
        said: &ResponseContent,
        before: &Statuses,
        after: &Statuses,
    ) -> Result<(), TestCaseError> {
        if self.has_lied {
            return Ok(());
        }
        let peer = &self.peers[at];
        let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for key in names {
            let (kind, name) = key;
            let is_its_business = self.setup.servers_of(*kind, name).contains(&peer.server);
            let is_asked = *kind == said.kind && is_its_business && peer.covers(*kind, name);
            let (before, after) = (before.get(key), after.get(key));
            // An unwatched name that was never received is dropped with the last stream that still
            // has it.
            let is_it = |it: &Watcher| it.kind == *kind && it.name.as_ref() == Some(name);
            let is_named = self.watchers.iter().any(is_it);
            if after.is_none() && !is_named && before.is_some_and(|it| it.bytes.is_none()) {
                continue;
            }
            // The answer to an unsubscription may arrive after the next subscription (IS14).
            let is_spoken_of = *kind == said.kind && said.words.contains_key(name);
            if !is_asked && is_its_business && is_spoken_of {
                continue;
            }
            if !is_asked {
                prop_assert_eq!(before, after, "{} is not for this server (IC13, IC30)", name);
            } else if self.setup.preferred(*kind, name) == peer.server {
                let expected = said.expected(URIS[peer.server], name, before, self.setup.policy());
                expected.compare(name, before, after)?;
            }
        }
        Ok(())
    }

    fn note_leases(&mut self, server: usize, said: &ResponseContent, after: &Statuses) {
        for (name, word) in &said.words {
            let key = (said.kind, name.clone());
            let giver = match self.setup.preferred(said.kind, name) == server {
                true => Giver::Preferred,
                false => Giver::Another,
            };
            let is_in_use =
                |bytes| after.get(&key).is_none_or(|it| it.bytes.as_ref() == Some(bytes));
            match word {
                EntryContent::Resource { bytes, lease, is_acceptable: true, .. }
                    if is_in_use(bytes) =>
                {
                    let lease = lease.map(|(version, ttl)| (version, self.now.after(ttl)));
                    match (lease, giver) {
                        (Some((version, until)), _) => {
                            self.talk.leases.insert(key, Lease { version, until, giver });
                        }
                        (None, Giver::Preferred) => drop(self.talk.leases.remove(&key)),
                        (None, Giver::Another) => {
                            if let Some(lease) = self.talk.leases.get_mut(&key) {
                                lease.giver = giver;
                            }
                        }
                    }
                }
                EntryContent::Heartbeat { is_in_use: true, ttl } => {
                    if let Some(lease) = self.talk.leases.get_mut(&key) {
                        (lease.until, lease.giver) = (self.now.after(*ttl), giver);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Steps of the client.
impl World {
    /// Checks that a first request states exactly the versions held from this server.
    // IC7 IC8
    pub fn stated(&mut self, at: usize, stated: Stated) -> Result<(), TestCaseError> {
        if self.has_lied {
            return Ok(());
        }
        let peer = &self.peers[at];
        let (Stated::Version(kind, _) | Stated::VersionAgain(kind, _) | Stated::Versions(kind, _)) =
            stated;
        let has_wildcard = peer.subscribed(kind).contains("*");
        let known = statuses(&self.client);
        let mut of_kind = known.iter().filter(|((it, _), _)| *it == kind);
        let holds = of_kind.any(|((_, name), it)| it.bytes.is_some() && peer.covers(kind, name));
        if let Stated::VersionAgain(_, version) = &stated {
            return self.talk.versions.begin((peer.server, kind), version, has_wildcard, holds);
        }
        let wanted = Self::wanted(&self.watchers, kind);
        match self.setup.servers {
            Servers::One => prop_assert_eq!(peer.subscribed(kind), &wanted, "all of it (IC7, IC8)"),
            Servers::Fallback => {
                let is_wanted = peer.subscribed(kind).is_subset(&wanted);
                prop_assert!(is_wanted, "{:?} of {:?} (IC7, IC8)", peer, wanted);
            }
        }
        let is_held = match &stated {
            Stated::Version(_, version) | Stated::VersionAgain(_, version) => !version.is_empty(),
            Stated::Versions(_, versions) => !versions.is_empty(),
        };
        self.reached.note(Situation::VersionStatedAgain, is_held);
        if is_held {
            self.peers[at].stated.insert(kind);
        }
        let peer = &self.peers[at];
        match stated {
            Stated::VersionAgain(..) => {}
            Stated::Version(kind, version) => {
                self.talk.versions.begin((peer.server, kind), &version, has_wildcard, holds)?;
                if self.setup.servers == Servers::One
                    && let Some(listing) = self.talk.listings.get(&version)
                {
                    self.peers[at].trust(kind, &self.stores[0], listing);
                }
            }
            Stated::Versions(kind, versions) => {
                for (name, version) in &versions {
                    let origin = self.talk.origins.get(version);
                    prop_assert_eq!(origin, Some(&peer.server), "{} of {} (IC8)", version, name);
                    let Some(known) = known.get(&(kind, name.clone())) else {
                        // A resource that was watched by name stays in the cache of a wildcard
                        // watch.
                        prop_assert!(name.starts_with("xdstp:"), "{} is not watched (IC8)", name);
                        continue;
                    };
                    let is_held = known.bytes.is_some() && known.version == *version;
                    let is_deleted = known.state == ResourceState::DoesNotExist;
                    prop_assert!(is_held && !is_deleted, "{}: {:?} (IC8)", name, known);
                }
                for ((_, name), known) in known.iter().filter(|((it, _), _)| *it == kind) {
                    let is_from_here = self.talk.origins.get(&known.version) == Some(&peer.server);
                    let is_sure = self.setup.servers == Servers::One || known.error.is_none();
                    let is_deleted = known.state == ResourceState::DoesNotExist;
                    let is_held = known.bytes.is_some() && is_from_here && is_sure && !is_deleted;
                    if is_held && peer.covers(kind, name) {
                        prop_assert!(versions.contains_key(name), "{} is left out (IC8)", name);
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops what neither a watch nor a server subscribes to: it must be requested again.
    // IC15
    pub fn forget_what_nobody_wants(&mut self) {
        let (watchers, peers) = (&self.watchers, &self.peers);
        for kind in 0..TYPES.len() {
            let is_wanted = watchers.iter().any(|it| it.kind == kind && it.name.is_none());
            if !is_wanted && !peers.iter().any(|it| it.subscribed(kind).contains("*")) {
                self.talk.versions.forget_everything(kind);
            }
        }
        self.talk.sent.retain(|(kind, name, _)| {
            let is_watched = watchers.iter().any(|watcher| watcher.asks_for(*kind, name));
            is_watched || peers.iter().any(|peer: &Peer| peer.covers(*kind, name))
        });
    }

    /// Sends an invalid message. A stream with an undecodable message is closed, which its server
    /// learns later.
    pub fn forge(&mut self, at: usize, bytes: &[u8]) -> Result<(), TestCaseError> {
        let Some(at) = self.clear_the_way(at)? else { return Ok(()) };
        self.has_lied = true;
        self.talk.has_lied = true;
        self.talk.responses += 2;
        self.watchers.iter_mut().for_each(|watcher| watcher.may_have_missed_an_end = true);
        let (channel, server) = (self.peers[at].channel, self.peers[at].server);
        let (before, stats) = (statuses(&self.client), self.client.stats());
        let reading = self.client.wants_read(channel);
        let message = ChannelEvent::Message(channel, Bytes::copy_from_slice(bytes));
        self.client.handle_event(message, self.now);
        self.hear_verdicts(stats)?;
        let (after, now) = (statuses(&self.client), self.client.stats());
        let answers = now.acks + now.nacks - stats.acks - stats.nacks;
        let peer = self.peers.iter_mut().find(|peer| peer.channel == channel);
        if let Some(peer) = peer.filter(|_| answers > 0) {
            peer.note_lie();
        }
        let is_one = now.responses - stats.responses == 1;
        let is_passed_over = now.unsolicited > stats.unsolicited;
        prop_assert_eq!(answers, u64::from(is_one && !is_passed_over), "one answer (IC1, IC36)");
        if is_passed_over {
            let goes_on = self.client.wants_read(channel) == reading;
            prop_assert!(goes_on && now.malformed == stats.malformed, "the stream goes on (IC36)");
        }
        if answers == 0 {
            // An unwatched name without a value may be dropped with the stream.
            let is_held = |(_, known): &(_, &Known)| known.bytes.is_some();
            let (before, after) = (before.iter().filter(is_held), after.iter().filter(is_held));
            prop_assert!(before.eq(after), "nothing was understood (IC36)");
        }
        for (key, after) in &after {
            let is_its_business = self.setup.servers_of(key.0, &key.1).contains(&server);
            if !is_its_business {
                prop_assert_eq!(before.get(key), Some(after), "another server's (IC30)");
            }
        }
        Ok(())
    }
}
