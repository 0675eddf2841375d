//! Outputs, and the notices for watchers, built from the newest state when they are polled.

use alloc::vec::Vec;

use super::{
    Client,
    cache::{
        Cache,
        cursor::{Cursor, Told},
        entry::Entry,
    },
    config::profile::AnswerTiming,
    event::{
        Change, Notice, Output, Resource,
        error::{WatchError, WatchErrorKind},
    },
    subscription::{Collection, authority::DEFAULT, registered_type::TypeState},
    watch::{Link, News, Target, Watch, outbox::Queued},
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
                        watch.notice_taken();
                        return Some(Output::Notify(id, notice));
                    }
                    // Without a notice, the watcher will not call `handled`, except for an earlier
                    // notice.
                    let owed = watch.take_owed_for_nothing();
                    self.pay(&owed, self.clock.now());
                }
            }
        }
    }

    fn next_notice(&mut self, id: WatchId) -> Option<Notice> {
        let watch = self.watches.get_mut(id)?;
        watch.dequeued();
        let Target::Name(Link { subscription, .. }) = watch.target else {
            return Some(Notice::Behind);
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
                watch.note_well();
                if error.is_some() {
                    self.watches.tell(id, News::Ambient, &mut self.outbox, &mut None);
                }
                Some(Notice::Changed(Ok(resource)))
            }
            (Some(_), error) if has_ambient => {
                watch.note_beside(error.as_ref()).then_some(Notice::Ambient(error))
            }
            (Some(_), _) => None,
            (None, error) => {
                let error = error.filter(|error| has_changed && watch.note_instead(error))?;
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
        Some(WatchError::new(kind, name.cloned(), source))
    }

    /// Returns whether an error occurred after the last failure of the authority's active server.
    fn is_newer(&self, epoch: u64, authority: usize, type_index: usize) -> bool {
        let active = self.upstreams.active(authority, type_index);
        active.is_some_and(|(_, lane)| epoch > lane.ended)
    }

    /// Returns the next change for a wildcard or glob watch.
    pub(crate) fn step_collection(&mut self, id: WatchId) -> Option<Change> {
        let watch = self.watches.get(id)?;
        let type_index = watch.type_index;
        let glob = match &watch.target {
            Target::Name(_) => return None,
            Target::Wildcard(_) => None,
            Target::Glob(watch) => Some(self.types.get(type_index)?.glob_of(watch.0.subscription)?),
        };
        if let Some(change) = self.collection_change(id, type_index, Resources::Ahead) {
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
            if glob.is_none() && known.cache.get(ahead).is_some_and(|entry| entry.is_foreign) {
                known.cache.pass(cursor, ahead);
                continue;
            }
            if let Some(change) = next_of_entry(&mut known.cache, cursor, ahead) {
                return Some(change);
            }
        }
        cursor.catch_up(known.cache.sequence());
        if let Some(change) = self.collection_change(id, type_index, Resources::Told) {
            return Some(change);
        }
        self.watches.get_mut(id)?.caught_up();
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
        resources: Resources,
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
        if resources == Resources::Ahead && is_received && watch.has_changed() {
            return None;
        }
        if watch.take_changed() {
            if is_received {
                watch.note_well();
                if error.is_some() {
                    watch.expect_ambient();
                }
                return Some(Change::Collection(Ok(())));
            }
            if let Some(error) = error {
                return watch.note_instead(&error).then_some(Change::Collection(Err(error)));
            }
        }
        if watch.take_ambient() && is_received {
            let is_news = watch.note_beside(error.as_ref());
            return is_news.then_some(Change::CollectionAmbient(error));
        }
        None
    }

    /// Handles [`Client::handled`]. If further notices are due, only the handled one stops holding
    /// back reading, otherwise the watcher stops holding it back altogether.
    pub(crate) fn end_notice(&mut self, id: WatchId, now: Time) {
        match self.watches.get_mut(id) {
            Some(watch) if watch.has_news() => watch.notice_done(),
            Some(_) => self.forgive(id, now),
            None => {}
        }
    }

    /// Stops the watcher from holding back reading.
    pub(crate) fn forgive(&mut self, id: WatchId, now: Time) {
        let owed = self.watches.get_mut(id).map(Watch::take_owed).unwrap_or_default();
        self.pay(&owed, now);
    }

    fn pay(&mut self, owed: &[ChannelId], now: Time) {
        let is_owed = !owed.is_empty();
        for &channel in owed {
            if let Some(channel) = self.upstreams.channel_mut(channel)
                && let Some(debts) = &mut channel.debts
            {
                debts.open = debts.open.saturating_sub(1);
                channel.settle_timers(now);
            }
        }
        if is_owed && self.config.profile.answers == AnswerTiming::AfterNotices {
            self.announce();
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
                Target::Wildcard(cursor) => Some(cursor.passed),
                Target::Name(_) | Target::Glob(_) => None,
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
                && let Target::Wildcard(cursor) = &mut watch.target
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
    let told = cursor.told.get(&ahead).copied().filter(|told| told.value == number);
    match told {
        // The entry has no change for wildcard watches.
        None if number == 0 => {
            cache.pass(cursor, ahead);
            None
        }
        None => {
            if resource.is_some() && error.is_some() {
                cursor.told.insert(ahead, Told { value: number, is_wrong: false });
            } else {
                cache.pass(cursor, ahead);
            }
            let result = resource.map_or_else(|| error.map(Err), |resource| Some(Ok(resource)))?;
            Some(Change::Resource { name, result })
        }
        Some(Told { is_wrong, .. }) => {
            cache.pass(cursor, ahead);
            let is_news = error.is_some() || is_wrong;
            (resource.is_some() && is_news).then_some(Change::Ambient { name, error })
        }
    }
}

/// Progress of a watch through the resources of a collection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resources {
    /// Some resources may not have been reported.
    Ahead,
    /// All resources have been reported.
    Told,
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

impl TypeState {
    /// Returns the collection of a wildcard or glob watch; `None` for the watch of a name.
    pub(crate) fn collection_of(&self, target: &Target) -> Option<CollectionState<'_>> {
        match target {
            Target::Name(_) => None,
            Target::Wildcard(_) => {
                let (is_received, error) = match &self.interest.collection {
                    Collection::Requested => (false, None),
                    Collection::Received => (true, None),
                    Collection::Missing { error, epoch } => (false, Some((error, *epoch))),
                };
                Some(CollectionState { authority: DEFAULT, name: None, is_received, error })
            }
            Target::Glob(watch) => {
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
    pub(crate) fn watched_name(&self, target: &Target) -> Option<&ResourceName> {
        Some(&self.entry_of(target.link()?.subscription)?.name)
    }

    fn entry_of(&self, subscription: Slot) -> Option<&Entry> {
        self.cache.get(self.interest.subscriptions.at(subscription)?.entry)
    }
}

impl Cache {
    /// Returns the next entry for a cursor, among the members of `glob` or all entries.
    fn ahead_of(&self, cursor: &Cursor, glob: Option<Slot>) -> Option<Slot> {
        let ahead = match glob {
            None => self.behind_cursor(cursor.marker),
            Some(glob) => self.globs.at(glob)?.after(cursor.passed),
        };
        ahead.filter(|&slot| self.get(slot).is_some())
    }

    /// Returns the resource in use, as given to watchers.
    fn resource(&self, entry: &Entry) -> Option<Resource> {
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
