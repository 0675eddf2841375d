//! Checks at every moment, at rest, and after all servers work again.

use std::time::Duration;

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    Timer,
    client::{ResourceState, ResourceStatus},
    service::Variant,
};

use super::{
    super::{TYPES, watcher::Watcher},
    World,
};

impl World {
    pub fn holds_at_every_moment(&mut self) -> Result<(), TestCaseError> {
        self.forget_what_nobody_wants();
        for status in self.client.status() {
            let is_watched = self.watchers.iter().any(|watcher| watcher.covers(&status));
            prop_assert!(is_watched, "nobody watches {} (IC13, IC15)", status);
        }
        if !self.talk.has_lied {
            for peer in self.peers.iter().filter(|peer| !peer.debtors.is_empty()) {
                let is_read = self.client.wants_read(peer.channel);
                prop_assert!(!is_read, "reading waits for {:?} (IC34)", peer.debtors);
            }
        }
        self.told.agrees_with(&self.client)
    }

    /// Completes all pending work without starting anything new.
    pub fn come_to_rest(&mut self) -> Result<(), TestCaseError> {
        for round in 0.. {
            prop_assert!(round < 1_000, "it comes to rest");
            self.handle_notices()?;
            let mut has_moved = self.take_output()?;
            for at in 0..self.peers.len() {
                has_moved |= self.open(at);
                has_moved |= self.transmit(at)?;
            }
            if !has_moved {
                break;
            }
        }
        let due = self.client.poll_timeout();
        let is_queued = due.is_some_and(|due| due.why == Timer::QueuedOutput);
        prop_assert!(!is_queued, "nothing is left to take (rule 4)");
        for peer in &self.peers {
            prop_assert!(peer.is_all_answered(), "{:?} (IC1)", peer);
            prop_assert!(self.client.wants_read(peer.channel), "reading goes on (IC34)");
            for kind in 0..TYPES.len() {
                let wanted = Self::wanted(&self.watchers, kind);
                prop_assert!(peer.subscribed(kind).is_subset(&wanted), "{:?} (IC10)", peer);
            }
        }
        for watcher in &self.watchers {
            watcher.agrees_with(self.client.status(), false)?;
        }
        self.nobody_idles_for_ever()?;
        self.those_who_count_are_asked()
    }

    /// Checks that nothing follows a shutdown.
    // IC39
    pub fn shut_down(&mut self) -> Result<(), TestCaseError> {
        self.is_shut_down = true;
        self.client.shut_down(self.now);
        self.watchers.clear();
        while self.take_output()? {}
        prop_assert!(self.peers.is_empty(), "the channels are closed (IC39)");
        self.client.handle_timeout(self.now.after(Duration::from_secs(600)));
        prop_assert!(!self.take_output()?, "nothing comes after the end (IC39)");
        prop_assert_eq!(self.client.poll_timeout(), None, "nothing is due after the end (IC39)");
        prop_assert_eq!(self.client.status().count(), 0, "nothing is held after the end (IC39)");
        Ok(())
    }

    /// Repairs every server, replaces invalid resources and delivers everything.
    pub fn heal(&mut self) -> Result<(), TestCaseError> {
        for store in &mut self.stores {
            store.heal(&mut self.number);
        }
        self.note("heal");
        for round in 0.. {
            prop_assert!(round < 100, "it settles (IL2)");
            self.come_to_rest()?;
            let mut has_moved = false;
            for at in 0..self.peers.len() {
                for kind in 0..TYPES.len() {
                    if at < self.peers.len() && self.push(at, kind)? {
                        has_moved = true;
                        self.come_to_rest()?;
                    }
                }
            }
            let is_down = self.is_anything_down();
            if !has_moved && !is_down {
                break;
            }
            if is_down {
                self.sleep(Duration::from_secs(1))?;
            }
        }
        // Resources that only another server had expire.
        let (patience, _) = self.patience();
        self.sleep(patience)?;
        self.come_to_rest()
    }

    /// Whether a preferred server of a watch has no stream at present.
    fn is_anything_down(&self) -> bool {
        (0..TYPES.len()).any(|kind| {
            let wanted = Self::wanted(&self.watchers, kind);
            wanted.iter().any(|name| {
                let server = self.setup.preferred(kind, name);
                let carries = |only: Option<usize>| only.is_none_or(|only| only == kind);
                !self.peers.iter().any(|peer| peer.server == server && carries(peer.only))
            })
        })
    }

    /// Checks that watches, cache and servers agree, and that only the preferred server of a name
    /// has a subscription to it.
    // IL1 FB-08 IC10
    pub fn has_converged(&self) -> Result<(), TestCaseError> {
        for watcher in &self.watchers {
            watcher.agrees_with(self.client.status(), self.has_heard_from_its_server(watcher))?;
        }
        for kind in 0..TYPES.len() {
            for name in Self::wanted(&self.watchers, kind) {
                let server = self.setup.preferred(kind, &name);
                let mut knowing =
                    self.peers.iter().filter(|peer| peer.subscribed(kind).contains(&name));
                prop_assert!(knowing.next().is_some_and(|peer| peer.server == server), "{}", name);
                prop_assert!(knowing.next().is_none(), "another server is asked for {}", name);
            }
        }
        for (kind, type_url) in TYPES.into_iter().enumerate() {
            let wants_all = Self::wanted(&self.watchers, kind).contains("*");
            for name in
                self.stores[self.setup.preferred(kind, "*")].of(kind).keys().filter(|_| wants_all)
            {
                let mut known = self.client.status();
                let is_known =
                    known.any(|it| *it.type_url == *type_url && it.name.as_str() == name);
                prop_assert!(is_known || name.starts_with("xdstp:"), "{} is missing (IL1)", name);
            }
        }
        for status in self.client.status() {
            self.is_as_the_server_has_it(&status)?;
        }
        Ok(())
    }

    /// Whether the preferred server has responded. A server that knows the client is up to date may
    /// send nothing, and only a response clears the previous stream's error.
    fn has_heard_from_its_server(&self, watcher: &Watcher) -> bool {
        let (server, _) = self.setup.place_of_watch(watcher);
        self.peers.iter().any(|peer| {
            let carries = peer.only.is_none_or(|only| only == watcher.kind);
            peer.server == server && carries && peer.has_responded
        })
    }

    fn is_as_the_server_has_it(&self, status: &ResourceStatus<'_>) -> Result<(), TestCaseError> {
        let kind = TYPES.iter().position(|known| *status.type_url == **known).unwrap_or_default();
        let name = status.name.as_str();
        let is_named = Self::wanted(&self.watchers, kind).contains(name);
        if !is_named && name.starts_with("xdstp:") {
            return Ok(()); // A wildcard does not cover it.
        }
        match self.stores[self.setup.preferred(kind, name)].of(kind).get(name) {
            Some(held) => {
                let bytes = status.bytes.map(|bytes| bytes.to_vec());
                prop_assert_eq!(bytes, Some(held.to_bytes(name)), "{} (IL1)", status);
                prop_assert_eq!(status.state, ResourceState::Acked, "{}", status);
            }
            None if self.setup.variant == Variant::Incremental => {
                prop_assert_eq!(status.state, ResourceState::DoesNotExist, "{}", status);
            }
            // Absence from a partial response says nothing.
            None => {}
        }
        Ok(())
    }
}
