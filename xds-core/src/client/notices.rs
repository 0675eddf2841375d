//! Outputs, and the notices for watchers, built from the newest state when they are polled.

use alloc::vec::Vec;

use super::{
    Client,
    cache::{
        Cache,
        cursor::{Cursor, ReportedState},
        entry::CacheEntry,
    },
    config::profile::AckTiming,
    event::{
        Change, Notice, Output, Resource,
        error::{WatchError, WatchErrorKind},
    },
    subscription::{Collection, authority::DEFAULT, registered_type::RegisteredType},
    watch::{NoticeKind, Watch, WatchLink, WatchTarget, outbox::Queued},
};
use crate::{
    id::{ChannelId, WatchId},
    slab::Slot,
    text::ResourceName,
    time::Time,
};

impl Client {
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        loop {
            match self.outbox.pop()? {
                Queued::Open(channel, call) => return Some(Output::Open(channel, *call)),
                Queued::Close(channel, fault) => {
                    return Some(Output::Close(channel, fault.map(|fault| *fault)));
                }
                Queued::Writable(channel) => {
                    if self.upstreams.channel(channel).is_some() {
                        return Some(Output::Writable(channel));
                    }
                }
                Queued::Update(id) => {
                    if let Some(update) = self.take_update(id) {
                        return Some(Output::Update(id, update));
                    }
                }
                Queued::Notify(id) => {
                    let notice = self.next_notice(id);
                    let Some(watch) = self.watches.get_mut(id) else { continue };
                    if let Some(notice) = notice {
                        watch.note_polled();
                        return Some(Output::Notify(id, notice));
                    }
                    // Without a notice, the watcher will not call `handled`, except for an earlier
                    // notice.
                    let held_back = watch.take_unpolled();
                    self.resume_reading(&held_back, self.clock.now());
                }
            }
        }
    }

    fn next_notice(&mut self, id: WatchId) -> Option<Notice> {
        let watch = self.watches.get_mut(id)?;
        watch.note_dequeued();
        let WatchTarget::Name(WatchLink { subscription, .. }) = watch.target else {
            return Some(Notice::ChangesAvailable);
        };
        let (has_changed, has_ambient) = (watch.take_changed(), watch.take_ambient());
        let type_index = watch.type_index;
        let known = self.types.get(type_index)?;
        let authority = known.interest.subscriptions.at(subscription)?.authority;
        let entry = known.entry_of(subscription)?;
        let resource = known.cache.resource(entry);
        let error = match (&resource, entry.error()) {
            // X16: an error of the resource and a connection error do not replace each other. The
            // newer one is reported; when the connection error ends, the other one is reported
            // again.
            (_, Some(error)) if self.is_newer(entry.error_epoch(), authority, type_index) => {
                Some(error.clone())
            }
            (_, error) => self
                .unavailable(type_index, authority, Some(&entry.name))
                .or_else(|| error.cloned()),
        };
        let watch = self.watches.get_mut(id)?;
        match (resource, error) {
            (Some(resource), error) if has_changed => {
                // IC14: a value means that there is no error. An ambient error follows.
                watch.record_value();
                if error.is_some() {
                    self.watches.notify(id, NoticeKind::Ambient, &mut self.outbox, &mut None);
                }
                Some(Notice::Changed(Ok(resource)))
            }
            (Some(_), error) if has_ambient => {
                watch.record_ambient(error.as_ref()).then_some(Notice::Ambient(error))
            }
            (Some(_), _) => None,
            (None, error) => {
                let error =
                    error.filter(|error| has_changed && watch.record_missing_value(error))?;
                Some(Notice::Changed(Err(error)))
            }
        }
    }

    /// Returns the current connection error for the watchers of a resource or collection.
    fn unavailable(
        &self,
        type_index: usize,
        authority: usize,
        name: Option<&ResourceName>,
    ) -> Option<WatchError> {
        let kind = WatchErrorKind::Unavailable(self.reported_error(authority, type_index)?.clone());
        let (server, _) = self.upstreams.active(authority, type_index)?;
        let source = server.sources.get(type_index)?;
        Some(WatchError::from_origin(kind, name.cloned(), source))
    }

    /// Returns whether an error occurred after the last failure of the authority's active server.
    fn is_newer(&self, epoch: u64, authority: usize, type_index: usize) -> bool {
        let active = self.upstreams.active(authority, type_index);
        active.is_some_and(|(_, stream_slot)| epoch > stream_slot.ended)
    }

    /// Returns the next change for a wildcard or glob watch.
    pub(crate) fn step_collection(&mut self, id: WatchId) -> Option<Change> {
        let watch = self.watches.get(id)?;
        let type_index = watch.type_index;
        let glob = match &watch.target {
            WatchTarget::Name(_) => return None,
            WatchTarget::Wildcard(_) => None,
            WatchTarget::Glob(watch) => {
                Some(self.types.get(type_index)?.glob_of(watch.0.subscription)?)
            }
        };
        if let Some(change) = self.collection_change(id, type_index, CollectionProgress::Pending) {
            return Some(change);
        }
        let known = self.types.get_mut(type_index)?;
        let watch = self.watches.get_mut(id)?;
        let cursor = watch.target.cursor_mut()?;
        if core::mem::take(&mut cursor.resync) {
            known.cache.rewind(cursor.marker);
            cursor.restart();
            return Some(Change::Resync);
        }
        while let Some(ahead) = known.cache.ahead_of(cursor, glob) {
            if glob.is_none() && known.cache.get(ahead).is_some_and(|entry| entry.has_authority) {
                known.cache.pass(cursor, ahead);
                continue;
            }
            if let Some(change) = next_of_entry(&mut known.cache, cursor, ahead) {
                return Some(change);
            }
        }
        cursor.catch_up(known.cache.sequence());
        if let Some(change) =
            self.collection_change(id, type_index, CollectionProgress::AllReported)
        {
            return Some(change);
        }
        self.watches.get_mut(id)?.note_caught_up();
        match glob {
            None => self.sweep(type_index),
            Some(glob) => self.sweep_glob(type_index, glob),
        }
        None
    }

    /// Returns the next change of the whole collection. Its first receipt is reported after its
    /// resources.
    fn collection_change(
        &mut self,
        id: WatchId,
        type_index: usize,
        resources: CollectionProgress,
    ) -> Option<Change> {
        let CollectionState { authority, name, is_received, error } =
            self.types.get(type_index)?.collection_of(&self.watches.get(id)?.target)?;
        let unavailable = self.unavailable(type_index, authority, name);
        let error = match error {
            // An error that occurred after the connection error takes precedence.
            Some((error, epoch)) if self.is_newer(epoch, authority, type_index) => {
                Some(error.clone())
            }
            error => unavailable.or_else(|| error.map(|(error, _)| error.clone())),
        };
        let watch = self.watches.get_mut(id)?;
        if resources == CollectionProgress::Pending && is_received && watch.has_changed() {
            return None;
        }
        if watch.take_changed() {
            if is_received {
                watch.record_value();
                if error.is_some() {
                    watch.mark_ambient_due();
                }
                return Some(Change::Collection(Ok(())));
            }
            if let Some(error) = error {
                return watch
                    .record_missing_value(&error)
                    .then_some(Change::Collection(Err(error)));
            }
        }
        if watch.take_ambient() && is_received {
            let is_new = watch.record_ambient(error.as_ref());
            return is_new.then_some(Change::CollectionAmbient(error));
        }
        None
    }

    /// Handles [`Client::handled`]. If further notices are due, only the handled one stops holding
    /// back reading, otherwise the watcher stops holding it back altogether.
    pub(crate) fn end_notice(&mut self, id: WatchId, now: Time) {
        match self.watches.get_mut(id) {
            Some(watch) if watch.has_pending_notice() => watch.note_handled(),
            Some(_) => self.release_held_back(id, now),
            None => {}
        }
    }

    /// Stops the watcher from holding back reading.
    pub(crate) fn release_held_back(&mut self, id: WatchId, now: Time) {
        let held_back = self.watches.get_mut(id).map(Watch::take_held_back).unwrap_or_default();
        self.resume_reading(&held_back, now);
    }

    fn resume_reading(&mut self, held_back: &[ChannelId], now: Time) {
        let has_held_back = !held_back.is_empty();
        for &channel in held_back {
            if let Some(channel) = self.upstreams.channel_mut(channel)
                && let Some(unhandled) = &mut channel.unhandled
            {
                unhandled.count = unhandled.count.saturating_sub(1);
                channel.update_timers(now);
            }
        }
        if has_held_back && self.config.profile.ack_timing == AckTiming::AfterNotices {
            self.signal_writable();
        }
    }

    /// Removes the tombstones that every wildcard watch of the type has seen.
    pub(crate) fn sweep(&mut self, type_index: usize) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        if known.cache.tombstones() == 0 {
            return;
        }
        let seen =
            known.interest.wildcards.iter().filter_map(|&id| match &self.watches.get(id)?.target {
                WatchTarget::Wildcard(cursor) => Some(cursor.passed),
                WatchTarget::Name(_) | WatchTarget::Glob(_) => None,
            });
        let slowest = seen.min().unwrap_or(u64::MAX);
        known.cache.sweep(slowest);
    }

    /// Lets wildcard and glob watches that lag too far behind start over, which bounds the number
    /// of tombstones.
    pub(crate) fn limit_tombstones(&mut self, type_index: usize) {
        self.limit_tombstones_of_globs(type_index);
        let limit = self.config.limits.tombstones_per_type;
        let Some(known) = self.types.get_mut(type_index) else { return };
        if known.cache.tombstones() <= limit {
            return;
        }
        let newest = known.cache.sequence();
        let wildcards: Vec<WatchId> = known.interest.wildcards.clone();
        for id in wildcards {
            if let Some(watch) = self.watches.get_mut(id)
                && let WatchTarget::Wildcard(cursor) = &mut watch.target
                && cursor.passed < newest
            {
                cursor.resync = true;
            }
        }
        known.cache.sweep(u64::MAX);
    }
}

/// Advances a cursor at the entry ahead of it: reports the value if it is new, then the ambient
/// error, and passes the entry.
fn next_of_entry(cache: &mut Cache, cursor: &mut Cursor, ahead: Slot) -> Option<Change> {
    let entry = cache.get(ahead)?;
    let (name, number) = (entry.name.clone(), entry.changed);
    let resource = cache.resource(entry);
    let error = entry.error().cloned();
    let reported = cursor.reported.get(&ahead).copied().filter(|reported| reported.value == number);
    match reported {
        // The entry has no change for wildcard watches.
        None if number == 0 => {
            cache.pass(cursor, ahead);
            None
        }
        None => {
            if resource.is_some() && error.is_some() {
                cursor.reported.insert(ahead, ReportedState { value: number, has_error: false });
            } else {
                cache.pass(cursor, ahead);
            }
            let result = resource.map_or_else(|| error.map(Err), |resource| Some(Ok(resource)))?;
            Some(Change::Resource { name, result })
        }
        Some(ReportedState { has_error, .. }) => {
            cache.pass(cursor, ahead);
            let is_new = error.is_some() || has_error;
            (resource.is_some() && is_new).then_some(Change::Ambient { name, error })
        }
    }
}

/// Progress of a watch through the resources of a collection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CollectionProgress {
    /// Some resources may not have been reported.
    Pending,
    /// All resources have been reported.
    AllReported,
}

/// State of a whole collection.
pub(crate) struct CollectionState<'a> {
    pub(crate) authority: usize,
    /// Name of a glob; `None` for a wildcard.
    name: Option<&'a ResourceName>,
    pub(crate) is_received: bool,
    /// Error, and the number of channels that had ended when it occurred, plus one.
    pub(crate) error: Option<(&'a WatchError, u64)>,
}

impl RegisteredType {
    /// Returns the collection of a wildcard or glob watch; `None` for the watch of a name.
    pub(crate) fn collection_of(&self, target: &WatchTarget) -> Option<CollectionState<'_>> {
        match target {
            WatchTarget::Name(_) => None,
            WatchTarget::Wildcard(_) => {
                let (is_received, error) = match &self.interest.collection {
                    Collection::Requested => (false, None),
                    Collection::Received => (true, None),
                    Collection::Missing { error, epoch } => (false, Some((error, *epoch))),
                };
                Some(CollectionState { authority: DEFAULT, name: None, is_received, error })
            }
            WatchTarget::Glob(watch) => {
                let subscription = self.interest.subscriptions.at(watch.0.subscription)?;
                let entry = self.cache.get(subscription.entry)?;
                let glob = self.cache.globs.at(self.cache.globs.find(entry.name.as_str())?)?;
                Some(CollectionState {
                    authority: subscription.authority,
                    name: Some(&entry.name),
                    is_received: glob.is_received,
                    error: entry.error().map(|error| (error, entry.error_epoch())),
                })
            }
        }
    }

    /// Returns the name or glob of a watch.
    pub(crate) fn watched_name(&self, target: &WatchTarget) -> Option<&ResourceName> {
        Some(&self.entry_of(target.link()?.subscription)?.name)
    }

    fn entry_of(&self, subscription: Slot) -> Option<&CacheEntry> {
        self.cache.get(self.interest.subscriptions.at(subscription)?.entry)
    }
}

impl Cache {
    /// Returns the next entry for a cursor, among the members of `glob` or all entries.
    fn ahead_of(&self, cursor: &Cursor, glob: Option<Slot>) -> Option<Slot> {
        let ahead = match glob {
            None => self.next_after_cursor(cursor.marker),
            Some(glob) => self.globs.at(glob)?.after(cursor.passed),
        };
        ahead.filter(|&slot| self.get(slot).is_some())
    }

    /// Returns the resource in use, as given to watchers.
    fn resource(&self, entry: &CacheEntry) -> Option<Resource> {
        Some(Resource {
            name: entry.name.clone(),
            version: self.version_of(entry).clone(),
            bytes: entry.bytes.clone()?,
            value: entry.value().cloned(),
            metadata: entry.metadata().cloned(),
            cache_control: entry.cache_control(),
            control_plane: self.control_plane_of(entry),
        })
    }
}
