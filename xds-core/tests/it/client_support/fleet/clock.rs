//! Time: does-not-exist timers, expiries and reconnection.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    Time, Timer, WatchId,
    client::{ResourceState, ServerFeature},
    service::Variant,
};

use super::{
    super::watcher::{Watcher, timeouts},
    World,
    exchange::{Giver, Place},
    oracle::{Known, Statuses, statuses},
    peer::Peer,
    setup::{AUTHORITIES, Servers, URIS},
    situations::Situation,
    versions::Loss,
};

/// Connection attempts to one place.
#[derive(Debug, Default)]
pub struct Attempts {
    connecting: u32,
    /// Streams that failed in a row: at least, and at most.
    streaming: [u32; 2],
    not_before: Time,
    /// Latest time of the next attempt.
    not_later: Time,
}

impl Attempts {
    /// Records that the client closed a stream, possibly some time ago. If the stream had served by
    /// then, no failure precedes the next one.
    pub fn note_closed(&mut self, peer: &Peer, now: Time) {
        if peer.has_served(now) {
            self.streaming[0] = 0;
        }
        self.not_later = peer.begun.after(pause(1));
    }

    /// Records the end of a stream that the client did not close.
    fn note_end(&mut self, peer: &Peer, now: Time) {
        let failures = if !peer.is_open {
            self.connecting += 1;
            [self.connecting; 2]
        } else if peer.has_served(now) {
            self.streaming = [0; 2];
            [1; 2]
        } else {
            self.streaming = self.streaming.map(|failures| failures + 1);
            self.streaming
        };
        [self.not_before, self.not_later] = failures.map(|failures| now.after(pause(failures)));
    }

    /// Latest time at which the next attempt is due.
    pub fn may_wait_until(&self) -> Time {
        self.not_before.max(self.not_later)
    }
}

/// Backoff after this many consecutive failures, without jitter.
// S1.011
fn pause(failures: u32) -> Duration {
    let longest = Duration::from_secs(120);
    (1..failures).fold(Duration::from_secs(1), |delay, _| (delay * 160 / 100).min(longest))
}

/// Minimum duration of a stream whose end does not count as a failure.
const YOUNG: Duration = Duration::from_secs(10);

impl Peer {
    /// Whether the end of the stream at this time does not count as a failure.
    fn has_served(&self, now: Time) -> bool {
        self.first_response.is_some_and(|first| now.since(first) >= YOUNG)
    }
}

impl World {
    /// Sleeps from deadline to deadline, as a driver may.
    pub fn sleep(&mut self, duration: Duration) -> Result<(), TestCaseError> {
        let end = self.now.after(duration);
        self.note_who_is_wanted();
        for _ in 0..1_000 {
            self.drain()?;
            for peer in self.peers.iter_mut().filter(|peer| peer.is_open) {
                peer.was_held_back |= !self.client.wants_read(peer.channel);
            }
            let Some(due) = self.client.poll_timeout().filter(|due| due.at <= end) else {
                self.pass_until(end)?;
                return Ok(());
            };
            if due.at > self.now {
                // Nothing happens early (IC38).
                let before = (statuses(&self.client), self.client.stats());
                self.now = Time::from_nanos(due.at.as_nanos() - 1).max(self.now);
                self.client.handle_timeout(self.now);
                let after = (statuses(&self.client), self.client.stats());
                prop_assert_eq!(before, after, "before {:?} (IC38)", due);
                prop_assert_eq!(self.client.poll_timeout(), Some(due), "early (IC38)");
            }
            self.pass_until(due.at)?;
            let next = self.client.poll_timeout();
            let is_over =
                next.is_none_or(|next| next.at > self.now || next.why == Timer::QueuedOutput);
            prop_assert!(is_over, "{:?} is due again as {:?} (IC38)", due, next);
        }
        prop_assert!(false, "a due timeout makes no progress (IC38)");
        Ok(())
    }

    /// Checks that a watch has at most one queued notice and one ambient error.
    // IC35
    fn drain(&mut self) -> Result<(), TestCaseError> {
        let mut notices: BTreeMap<WatchId, usize> = BTreeMap::new();
        while let Some(told) = self.take_output_for()? {
            if let Some(watch) = told {
                let count = notices.entry(watch).or_default();
                *count += 1;
                prop_assert!(*count <= 2, "{} is told more than the newest (IC35)", watch);
            }
        }
        Ok(())
    }

    fn pass_until(&mut self, at: Time) -> Result<(), TestCaseError> {
        self.now = self.now.max(at);
        self.note_who_is_wanted();
        self.talk.note_expiry(self.now);
        let before = statuses(&self.client);
        let concluded = timeouts(&self.client);
        self.client.handle_timeout(self.now);
        if timeouts(&self.client) > concluded {
            let of_many = self.watchers.iter_mut().filter(|watcher| watcher.name.is_none());
            of_many.for_each(Watcher::is_found_missing);
        }
        let after = statuses(&self.client);
        for (key, before) in &before {
            let after = after.get(key);
            if Some(before) != after {
                let mut open = self.peers.iter().filter(|peer| peer.is_open);
                let is_held = open.any(|peer| !self.client.wants_read(peer.channel));
                self.reached.note(Situation::TimerWhileReadingIsHeld, is_held);
                let is_new = before.state == ResourceState::Requested;
                self.reached.note(Situation::NotReceivedInTime, is_new);
                self.reached.note(Situation::Expiry, before.bytes.is_some());
            }
            let has_ended =
                before.bytes.is_some() && after.is_none_or(|after| after.bytes.is_none());
            self.talk.has_expired |= has_ended;
            if has_ended && self.setup.servers == Servers::One {
                self.talk.versions.lose(key.0, Loss::Certain, |_| true);
            }
            if self.talk.has_lied || Some(before) == after {
                continue;
            }
            if before.bytes.is_some() && self.setup.may_have_leftovers() {
                continue; // Possibly a resource of the previous server only.
            }
            if before.bytes.is_some() {
                let lease = self.talk.lease_of(key);
                let is_in_time = match lease {
                    Some((_, Giver::Another)) => true,
                    Some((until, Giver::Preferred)) => until == self.now,
                    None => false,
                };
                prop_assert!(
                    is_in_time && has_ended,
                    "{:?} ends, which lives to {:?} (IC33)",
                    key,
                    lease
                );
            } else {
                self.is_concluded_in_time(key, before, after)?;
            }
        }
        for watcher in &mut self.watchers {
            watcher.may_have_missed_an_end |= self.talk.has_expired;
        }
        self.nothing_is_overdue(&after)
    }

    /// Duration of the does-not-exist timer, and the state it leads to.
    // IC25
    pub fn patience(&self) -> (Duration, ResourceState) {
        let is_transient = ServerFeature::ResourceTimerIsTransientError;
        match self.setup.features.contains(is_transient) {
            true => (Duration::from_secs(30), ResourceState::Timeout),
            false => (Duration::from_secs(15), ResourceState::DoesNotExist),
        }
    }

    /// Time since which a wildcard subscription on a new stream waits for a resource that was
    /// rejected on an earlier one and never accepted. An incremental client states no version of
    /// it, so the server sends it again, or has removed it and sends nothing.
    // IC8 IL4
    fn unconfirmed_since(&self, (kind, name): &(usize, String), known: &Known) -> Option<Time> {
        let was_rejected = known.state == ResourceState::Nacked && known.bytes.is_none();
        let is_named =
            self.watchers.iter().any(|it| it.kind == *kind && it.name.as_ref() == Some(name));
        let is_unstated = self.setup.variant == Variant::Incremental && was_rejected && !is_named;
        let since = self.peers.iter().filter_map(|peer| peer.awaited_since(*kind, name));
        since.min().filter(|_| is_unstated)
    }

    /// Checks that a server was subscribed for the whole timer on a working stream.
    // IC24
    fn is_concluded_in_time(
        &self,
        key: &(usize, String),
        before: &Known,
        after: Option<&Known>,
    ) -> Result<(), TestCaseError> {
        let (kind, name) = key;
        let (patience, conclusion) = self.patience();
        if let Some(since) = self.unconfirmed_since(key, before) {
            let is_removed = after.is_none_or(|after| after.state == ResourceState::DoesNotExist);
            let is_due = since.after(patience) <= self.now;
            prop_assert!(is_removed && is_due, "{:?} ends as {:?} (IC8, IL4)", key, after);
            return Ok(());
        }
        let is_requested = before.state == ResourceState::Requested;
        let Some(after) = after.filter(|_| is_requested) else {
            let why = format!("a timer of {key:?}, {before:?} (IC24, IC25)");
            return Err(TestCaseError::fail(why));
        };
        prop_assert_eq!(after.state, conclusion, "{} (IC25)", name);
        let has_had_its_time = self.peers.iter().any(|peer| {
            let since = peer.subscribed_since(*kind, name);
            since.is_some_and(|since| since.after(patience) <= self.now)
        });
        prop_assert!(has_had_its_time, "{} is not late (IC24, IC25)", name);
        Ok(())
    }

    fn nothing_is_overdue(&self, known: &Statuses) -> Result<(), TestCaseError> {
        if self.talk.has_lied {
            return Ok(());
        }
        let (patience, _) = self.patience();
        for (key, known) in known {
            let lease = self.talk.lease_of(key).filter(|_| known.bytes.is_some());
            let is_alive =
                lease.is_none_or(|(until, giver)| giver == Giver::Another || until > self.now);
            prop_assert!(is_alive, "{:?} has outlived its time (IC33)", key);
            let (kind, name) = key;
            self.is_not_unconfirmed_for_ever(key, known)?;
            let asked = || self.peers.iter().filter(|peer| peer.covers(*kind, name));
            if known.state != ResourceState::Requested || asked().any(|peer| peer.was_held_back) {
                continue;
            }
            // The timer restarts for the last server asked, and for a remaining server when another
            // one is removed. A fallback server may be out of use before it gets the
            // unsubscription.
            let best = self.setup.place_of(*kind, name);
            let is_best_asked =
                asked().any(|it| it.place() == best && it.subscribed_since(*kind, name).is_some());
            let since = asked().filter_map(|peer| peer.subscribed_since(*kind, name)).max();
            let since = since.map(|since| since.max(self.talk.last_end));
            let is_late = since.is_some_and(|since| since.after(patience) <= self.now);
            let is_late = is_late && is_best_asked;
            prop_assert!(!is_late, "{} is waited for for ever (IC24)", name);
        }
        Ok(())
    }

    /// Checks that a rejected resource that a single server does not send again has ended. With
    /// several servers, the timer starts when one becomes the active server.
    // IC8 IL4
    fn is_not_unconfirmed_for_ever(
        &self,
        key: &(usize, String),
        known: &Known,
    ) -> Result<(), TestCaseError> {
        let was_held_back = self.peers.iter().any(|peer| peer.was_held_back);
        let since = self.unconfirmed_since(key, known);
        let is_late = since.is_some_and(|since| since.after(self.patience().0) <= self.now);
        let is_sure = self.setup.servers == Servers::One && !was_held_back;
        prop_assert!(!is_late || !is_sure, "{:?} is kept for ever (IC8, IL4)", key);
        Ok(())
    }
}

/// Opening and closing of streams.
impl World {
    pub fn note_opened(&mut self, at: usize) {
        let peer = &self.peers[at];
        self.talk.attempts.entry(peer.place()).or_default().connecting = 0;
    }

    /// Records the end of a stream. With a single server, no other server takes over.
    pub fn note_gone(&mut self) {
        if self.setup.servers == Servers::Fallback {
            self.talk.last_end = self.now;
        }
    }

    /// Records the end of a stream that the client did not close.
    pub fn note_end(&mut self, peer: &Peer) {
        self.note_gone();
        let place = peer.place();
        self.talk.attempts.entry(place).or_default().note_end(peer, self.now);
        if peer.first_response.is_none() {
            self.talk.failing.insert(place);
            let (patience, _) = self.patience();
            if peer.first_request.is_some_and(|at| at.after(patience) <= self.now) {
                let carried = |it: &&mut Watcher| peer.only.is_none_or(|only| only == it.kind);
                let watchers = self.watchers.iter_mut().filter(carried);
                watchers.for_each(|it| it.server_fails_again(URIS[peer.server]));
            }
            let known = statuses(&self.client);
            for group in (0..AUTHORITIES).map(|authority| (place, authority)) {
                match self.is_anything_unknown(group, &known) {
                    true => self.talk.content.remove(&group),
                    false => self.talk.content.insert(group),
                };
            }
            if self.watchers.iter().any(|it| self.setup.place_of_watch(it) == place) {
                self.talk.trouble.insert(place);
            }
        }
        self.note_reasons_to_turn();
    }

    /// Checks that no place is retried before its backoff is over, and that a fallback server is
    /// used only for a reason.
    // IC26 IC29
    pub fn may_open(&self, place: Place) -> Result<(), TestCaseError> {
        if self.has_lied {
            return Ok(());
        }
        let not_before = self.talk.attempts.get(&place).map(|it| it.not_before);
        prop_assert!(not_before.is_none_or(|at| at <= self.now), "before its time (IC26)");
        let is_preferred = self.talk.preferred.contains(&place.0);
        let has_reason = self.talk.reasons.contains(&place.0);
        prop_assert!(is_preferred || has_reason, "server {} for no reason (IC29)", place.0);
        Ok(())
    }

    /// Records the preferred servers of all watches, the servers that fallback may use (those after
    /// a failing server with an unknown watched resource), and the fallbacks that must take place.
    pub fn note_reasons_to_turn(&mut self) {
        let known = statuses(&self.client);
        for watcher in &self.watchers {
            let name = watcher.name.as_deref().unwrap_or_default();
            let order = self.setup.servers_of(watcher.kind, name);
            self.talk.preferred.insert(order[0]);
            let key = (watcher.kind, name.to_owned());
            let is_unknown = match watcher.name {
                Some(_) => known.get(&key).is_none_or(|it| it.state == ResourceState::Requested),
                None => !watcher.has_collection(),
            };
            if is_unknown && self.talk.failing.contains(&self.setup.place_of_watch(watcher)) {
                self.talk.reasons.extend(order.iter().skip(1));
            }
        }
        let groups = self.watchers.iter().map(|watcher| self.group_of(watcher));
        let falls_back = |group: &(Place, usize)| self.has_reason_to_fall_back(*group, &known);
        let new: Vec<_> = groups.filter(falls_back).collect();
        self.talk.fallen_back.extend(new);
    }

    /// Ends a watch: no peer waits for it, and errors without a watcher are dropped.
    pub fn note_ended(&mut self, watch: WatchId) {
        for peer in &mut self.peers {
            peer.debtors.remove(&watch);
        }
        let wanted = self.preferred_places();
        self.talk.trouble.retain(|place| wanted.contains(place));
        let groups: BTreeSet<_> = self.watchers.iter().map(|it| self.group_of(it)).collect();
        self.talk.fallen_back.retain(|group| groups.contains(group));
    }
}
