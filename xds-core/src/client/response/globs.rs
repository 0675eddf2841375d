//! Effects of a response on globs.
//!
//! Responses do not identify the glob that they answer. A glob therefore counts as received once a
//! response contains one of its members or, if it has none, the glob itself in `removed_resources`.
//! An error with the name of the glob is one of the whole collection.
// FE-23, DE-24

use alloc::vec::Vec;

use super::{ResponseProcessor, classify::Classified};
use crate::{
    client::{
        cache::entry::CacheEntry,
        event::{
            error::{WatchError, WatchErrorKind},
            status::ResourceState,
        },
        subscription::Subscription,
        watch::NoticeKind,
    },
    slab::Slot,
};

impl ResponseProcessor<'_> {
    /// Notes that the response contains the resource, valid or invalid.
    pub(crate) fn note_present(&mut self, slot: Slot) {
        let Some(entry) = self.cache.get(slot).filter(|entry| entry.has_authority) else { return };
        let name = entry.name.clone();
        self.cache.globs.note_present(name.as_str());
    }

    /// Returns the glob with this entry, if it is subscribed on the server.
    fn requested_glob(&self, slot: Slot) -> Option<Slot> {
        let entry = self.cache.get(slot).filter(|entry| entry.is_glob)?;
        let is_requested =
            self.requested.sent.has(entry.subscription) && self.may_be_sent_by_server(slot);
        self.cache.globs.find(entry.name.as_str()).filter(|_| is_requested)
    }

    /// Marks the globs that the response mentions as received, and clears their errors.
    pub(crate) fn receive_globs(&mut self) {
        for glob in self.cache.globs.take_present() {
            if let Some(known) = self.cache.globs.at(glob)
                && self.requested.sent.has(known.subscription)
            {
                self.receive_glob(glob);
            }
        }
    }

    fn receive_glob(&mut self, glob: Slot) -> Option<()> {
        let known = self.cache.globs.at_mut(glob)?;
        let was_received = core::mem::replace(&mut known.is_received, true);
        let subscription = self.interest.subscriptions.at_mut(known.subscription)?;
        subscription.timer = 0;
        let entry = self.cache.get_mut(subscription.entry)?;
        let had_error = entry.error().is_some();
        entry.state = ResourceState::Acked;
        entry.clear_error();
        let kind = match was_received {
            true if !had_error => return None,
            true => NoticeKind::Ambient,
            false => NoticeKind::Changed,
        };
        self.watches.notify_all(subscription.first_watch, kind, self.outbox, self.unhandled);
        Some(())
    }

    /// Ends the does-not-exist timers of the globs that a completely rejected response mentions.
    pub(crate) fn stop_glob_timers(&mut self) {
        for glob in self.cache.globs.take_present() {
            if let Some(glob) = self.cache.globs.at(glob)
                && self.requested.sent.has(glob.subscription)
                && let Some(subscription) = self.interest.subscriptions.at_mut(glob.subscription)
            {
                subscription.timer = 0;
            }
        }
    }

    /// Handles the name of a glob among the removed resources: it has no members other than those
    /// in the response. Does nothing if the response contains a resource whose name is unknown,
    /// because it may be a member.
    pub(crate) fn handle_empty_glob(&mut self, slot: Slot, classified: &Classified<'_>) {
        let Some(glob) = self.requested_glob(slot) else { return };
        self.cache.globs.note_mentioned(glob);
        if classified.faults.has_unnamed() {
            return;
        }
        for member in self.other_members(glob) {
            self.handle_absent(member);
        }
    }

    /// Returns the members of a glob that are not in the response.
    fn other_members(&self, glob: Slot) -> Vec<Slot> {
        let Some(glob) = self.cache.globs.at(glob) else { return Vec::new() };
        glob.members().filter(|&member| !self.cache.is_in_response(member)).collect()
    }

    /// Handles an error that the server reports for a resource or a glob.
    pub(crate) fn handle_reported_error(&mut self, slot: Slot, kind: WatchErrorKind) {
        match self.is_glob(slot) {
            true => self.fail_glob(slot, kind).unwrap_or_default(),
            false => self.set_data_error(slot, ResourceState::ReceivedError, kind),
        }
    }

    /// Sets the error of a glob, which is ambient if the glob was received. If the data-error
    /// policy drops resources, the members are dropped, except those subscribed by name, which have
    /// their own errors.
    fn fail_glob(&mut self, slot: Slot, kind: WatchErrorKind) -> Option<()> {
        let glob = self.requested_glob(slot)?;
        if self.is_dropped_on(&kind) {
            for member in self.other_members(glob) {
                if !self.is_named(member) {
                    self.set_data_error(member, ResourceState::ReceivedError, kind.clone());
                }
            }
            self.cache.globs.at_mut(glob)?.is_received = false;
        }
        let is_received = self.cache.globs.at(glob)?.is_received;
        let entry = self.cache.get_mut(slot)?;
        let error = WatchError::from_origin(kind, Some(entry.name.clone()), self.source);
        let is_new = entry.error() != Some(&error);
        entry.state = ResourceState::ReceivedError;
        entry.set_error(error, self.epoch);
        self.stop_timer(slot);
        if is_new {
            let kind = if is_received { NoticeKind::Ambient } else { NoticeKind::Changed };
            let first = self.interest.first_watch_of(&self.cache.globs, glob);
            self.watches.notify_all(first, kind, self.outbox, self.unhandled);
        }
        Some(())
    }

    fn is_named(&self, slot: Slot) -> bool {
        let subscription =
            self.cache.get(slot).map_or(Slot::NONE, |entry: &CacheEntry| entry.subscription);
        self.interest.subscriptions.at(subscription).is_some_and(Subscription::is_subscribed)
    }
}
