//! Past of an arena: versions that ended, and removals in their order.
//!
//! A version is a resource between two changes. It ends when it is replaced or removed. Its content
//! is kept while a session holds a snapshot at which it was current. The last content of a removed
//! resource is also kept while its removal may be withheld, which is while the name has a tombstone
//! or subscribers.
//!
//! The tombstones are the removals of these versions, back to the horizon. A client that was not
//! sent older removals has to start over.

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use core::{
    mem,
    ops::Bound::{Excluded, Included, Unbounded},
};

use super::{Arena, ResourceEntry};
use crate::{
    server::store::{encode::body::Payload, revision::Revision},
    slab::Slot,
};

/// Versions that ended, and removals in their order.
#[derive(Debug, Default)]
pub(crate) struct Past {
    versions: BTreeMap<VersionKey, EndedVersion>,
    /// Versions with a content, by the revision at which they ended.
    contents: BTreeMap<Revision, Slot>,
    /// Removals in their order, back to the horizon.
    tombstones: VecDeque<VersionKey>,
    /// Revision up to which tombstones were dropped.
    horizon: Revision,
    /// Number of sessions that need tombstones.
    tombstone_users: usize,
    /// Number of sessions that may need the last contents of removed resources.
    pub(crate) removal_users: usize,
    /// Number of sessions that may hold snapshots.
    pub(crate) snapshot_users: usize,
    /// Snapshots of the sessions that hold any.
    held: BTreeMap<Slot, HeldSnapshots>,
    /// Number of sessions that hold the snapshot of each revision.
    snapshots: BTreeMap<Revision, usize>,
    /// Ranges of ends of versions that may not be needed any more.
    unsettled: Vec<(Revision, Revision)>,
    /// Revision after which versions that ended are not settled yet.
    settled: Revision,
}

/// Resource and the revision at which its version ended.
type VersionKey = (Slot, Revision);

#[derive(Debug)]
struct EndedVersion {
    /// Revision at which the resource was created, which is the start of the life of this version.
    created: Revision,
    version: Option<Arc<Version>>,
}

/// Content of a resource between two changes.
#[derive(Debug)]
struct Version {
    /// Revision at which it was set.
    set: Revision,
    payload: Payload,
}

/// Snapshots that a session holds: revisions at which it needs the versions that were current.
/// There are none at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldSnapshots {
    /// Snapshot of the response that was accepted last.
    pub(crate) accepted: Revision,
    /// Snapshot of the newest response.
    pub(crate) sent: Revision,
}

/// Content of a resource at an earlier revision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PastContent<'a> {
    Known(&'a Payload),
    /// The resource did not exist.
    Missing,
    /// The resource existed and its content is not kept, or nothing is known of that time.
    Unknown,
}

impl<'a> PastContent<'a> {
    pub(crate) fn known(self) -> Option<&'a Payload> {
        match self {
            Self::Known(payload) => Some(payload),
            Self::Missing | Self::Unknown => None,
        }
    }
}

/// Removals of which a client was informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentRemovals {
    /// Revision up to which the client was sent all removals.
    pub(crate) removals_to: Revision,
    /// Revision up to which it was sent removals in the current sequence of responses, limited to
    /// those that existed when the sequence began.
    pub(crate) partial_to: Revision,
}

/// Maximum number of versions that are settled at once after a snapshot was released. The rest is
/// settled with later changes and answers.
const PART: usize = 256;

impl Past {
    /// Records that a version of a resource is being replaced.
    pub(super) fn replace(&mut self, key: VersionKey, entry: &ResourceEntry, old: &Payload) {
        if self.snapshot_users > 0 {
            self.end(key, entry, Some(old));
        }
    }

    /// Records that a resource is being removed.
    pub(super) fn remove(&mut self, key: VersionKey, entry: &ResourceEntry, old: &Payload) {
        if self.tombstone_users > 0 {
            self.tombstones.push_back(key);
        } else {
            self.horizon = key.1;
        }
        if self.tombstone_users + self.removal_users > 0 {
            self.end(key, entry, Some(old).filter(|_| self.removal_users > 0));
        }
    }

    fn end(&mut self, key: VersionKey, entry: &ResourceEntry, old: Option<&Payload>) {
        let version =
            old.map(|old| Arc::new(Version { set: entry.revision, payload: old.clone() }));
        if version.is_some() {
            self.contents.insert(key.1, key.0);
        }
        self.versions.insert(key, EndedVersion { created: entry.created, version });
    }

    /// Records that the removal of a resource is not withheld any more, because it came back.
    pub(super) fn note_recreated(&mut self, removed_at: Revision) {
        if self.contents.contains_key(&removed_at) {
            self.unsettled.push((removed_at.before(), removed_at));
        }
    }

    /// Returns the first version of a resource that ended after a revision.
    fn first_ended_after(&self, slot: Slot, after: Revision) -> Option<&EndedVersion> {
        let mut later = self.versions.range((Excluded((slot, after)), Unbounded));
        later.next().filter(|((of, _), _)| *of == slot).map(|(_, ended)| ended)
    }

    fn is_tombstone(&self, (_, end): VersionKey) -> bool {
        self.tombstones.binary_search_by_key(&end, |&(_, end)| end).is_ok()
    }

    /// Whether a resource has tombstones or versions.
    pub(super) fn has(&self, slot: Slot) -> bool {
        self.first_ended_after(slot, Revision::START).is_some()
    }
}

impl Arena {
    /// Returns the snapshots that a session holds.
    pub(crate) fn held_by(&self, session: Slot) -> HeldSnapshots {
        self.past.held.get(&session).copied().unwrap_or_default()
    }

    /// Replaces the snapshots that a session holds, and drops a part of the versions that no
    /// snapshot sees any more.
    pub(crate) fn hold(&mut self, session: Slot, held: HeldSnapshots) {
        let before = match held == HeldSnapshots::default() {
            true => self.past.held.remove(&session),
            false => self.past.held.insert(session, held),
        };
        for at in [held.accepted, held.sent].into_iter().filter(|&at| at > Revision::START) {
            *self.past.snapshots.entry(at).or_default() += 1;
        }
        if let Some(HeldSnapshots { accepted, sent }) = before {
            self.release_snapshot(accepted);
            self.release_snapshot(sent);
            self.settle_part();
        }
    }

    fn release_snapshot(&mut self, at: Revision) {
        let snapshots = &mut self.past.snapshots;
        let Some(sessions) = snapshots.get_mut(&at) else { return };
        *sessions -= 1;
        if *sessions == 0 {
            snapshots.remove(&at);
            let newer = snapshots.range(at..).next().map(|(&newer, _)| newer);
            self.past.unsettled.push((at, newer.unwrap_or(self.past.settled).max(at)));
        }
    }

    /// Drops the versions that ended since the last call and that nobody needs, a part of the older
    /// ones, and the oldest ones if more than `limit` have contents.
    pub(crate) fn settle_past(&mut self, limit: usize) {
        let new = mem::replace(&mut self.past.settled, self.revision);
        self.settle_range(new, self.revision, usize::MAX);
        self.settle_part();
        while self.past.contents.len() > limit
            && let Some((end, slot)) = self.past.contents.pop_first()
        {
            if let Some(ended) = self.past.versions.get_mut(&(slot, end)) {
                ended.version = None;
            }
            self.settle((slot, end));
            self.release(slot);
        }
    }

    fn settle_part(&mut self) {
        let mut left = PART;
        while left > 0
            && let Some((after, to)) = self.past.unsettled.pop()
        {
            left = self.settle_range(after, to, left);
        }
    }

    /// Settles the versions that ended after `after` and up to `to`, at most `limit`. Returns how
    /// many more may be settled.
    fn settle_range(&mut self, after: Revision, to: Revision, limit: usize) -> usize {
        let ended = self.past.contents.range((Excluded(after), Included(to))).take(limit);
        let keys: Vec<VersionKey> = ended.map(|(&end, &slot)| (slot, end)).collect();
        for &(slot, end) in &keys {
            self.settle((slot, end));
            self.release(slot);
        }
        if let Some(&(_, reached)) = keys.last().filter(|_| keys.len() == limit) {
            self.past.unsettled.push((reached, to));
        }
        limit - keys.len()
    }

    /// Drops a version that no snapshot sees, except the last version of a resource whose removal
    /// may be withheld.
    pub(super) fn settle(&mut self, key: VersionKey) {
        let (slot, end) = key;
        let is_tombstone = self.past.is_tombstone(key);
        let is_withheld = self.resources.at(slot).is_some_and(|it| {
            let is_last = it.payload.is_none() && it.revision == end;
            is_last && (is_tombstone || !it.subscribers.is_empty())
        });
        let Past { versions, contents, snapshots, .. } = &mut self.past;
        let Some(ended) = versions.get_mut(&key) else { return };
        let is_needed = |version: &Arc<Version>| {
            is_withheld || snapshots.range(version.set..end).next().is_some()
        };
        if ended.version.as_ref().is_some_and(is_needed) {
            return;
        }
        ended.version = None;
        contents.remove(&end);
        if !is_tombstone {
            versions.remove(&key);
        }
    }

    /// Returns the content at a revision of a resource that was changed or removed since.
    pub(crate) fn content_at(&self, slot: Slot, at: Revision) -> PastContent<'_> {
        let ended = self.past.first_ended_after(slot, at);
        if let Some(version) = ended.and_then(|it| it.version.as_deref()).filter(|it| it.set <= at)
        {
            return PastContent::Known(&version.payload);
        }
        let current = || self.at(slot).filter(|it| it.payload.is_some()).map(|it| it.created);
        match ended.map(|it| it.created).or_else(current) {
            Some(created) if created > at => PastContent::Missing,
            _ => PastContent::Unknown,
        }
    }

    /// Returns the last content of a removed resource, if it is known.
    pub(crate) fn removed_content(&self, slot: Slot) -> Option<&Payload> {
        let removed = self.at(slot).filter(|resource| resource.payload.is_none())?;
        self.content_at(slot, removed.revision.before()).known()
    }

    /// Registers a session that needs tombstones.
    pub(crate) fn add_tombstone_user(&mut self) {
        self.past.tombstone_users += 1;
    }

    /// Unregisters a session that needed tombstones, and drops all of them after the last one.
    pub(crate) fn remove_tombstone_user(&mut self) {
        self.past.tombstone_users -= 1;
        if self.past.tombstone_users == 0 {
            self.trim_tombstones(0);
        }
    }

    /// Drops the oldest tombstones until at most `limit` are left. A client that was not sent
    /// these removals has to start over; see [`horizon`](Self::horizon).
    pub(crate) fn trim_tombstones(&mut self, limit: usize) {
        while self.past.tombstones.len() > limit
            && let Some(key) = self.past.tombstones.pop_front()
        {
            let (slot, end) = key;
            self.past.horizon = end;
            if let Some(resource) = self.resources.at_mut(slot)
                && resource.revision == end
            {
                (resource.first, resource.created) = (Revision::START, Revision::START);
            }
            self.settle(key);
            self.release(slot);
        }
    }

    /// Drops the tombstones up to `removals_to`, whose removals were sent to all clients.
    pub(crate) fn drop_tombstones_up_to(&mut self, removals_to: Revision) {
        let kept = self.tombstones_between(removals_to, self.clock());
        self.trim_tombstones(kept);
    }

    /// Number of tombstones after `from` and up to `to`.
    pub(crate) fn tombstones_between(&self, from: Revision, to: Revision) -> usize {
        let up_to = |position| self.past.tombstones.partition_point(|&(_, end)| end <= position);
        up_to(to).saturating_sub(up_to(from))
    }

    /// Number of tombstones.
    pub(crate) fn tombstones(&self) -> usize {
        self.past.tombstones.len()
    }

    /// Returns the revision up to which tombstones were dropped.
    pub(crate) fn horizon(&self) -> Revision {
        self.past.horizon
    }

    /// Returns the revision of the newest tombstone.
    pub(crate) fn newest_tombstone(&self) -> Revision {
        self.past.tombstones.back().map_or(Revision::START, |&(_, end)| end)
    }

    /// Returns the removed resources that a client with everything up to `sent` had, and whose
    /// removal it was not sent.
    pub(crate) fn pending_removals(
        &self,
        SentRemovals { removals_to, partial_to }: SentRemovals,
        sent: Revision,
    ) -> impl Iterator<Item = (Slot, &ResourceEntry)> {
        let after = removals_to.max(partial_to);
        let first = self.past.tombstones.partition_point(|&(_, end)| end <= after);
        self.past.tombstones.range(first..).filter_map(move |&(slot, end)| {
            let removed = self.at(slot).filter(|resource| resource.revision == end)?;
            self.is_known(slot, sent, removals_to).then_some((slot, removed))
        })
    }

    /// Whether a client that was sent everything up to `sent`, and removals up to `removals_to`, has
    /// some version of the resource: that of the first life whose end it was not sent. If this life
    /// had begun by `removals_to`, the end of the one before was not sent either, because the name
    /// had a resource again.
    pub(crate) fn is_known(&self, slot: Slot, sent: Revision, removals_to: Revision) -> bool {
        let Some(resource) = self.at(slot) else { return false };
        let ended = self.past.first_ended_after(slot, removals_to).map(|ended| ended.created);
        let created = ended.or_else(|| resource.payload.as_ref().map(|_| resource.created));
        created.is_some_and(|created| {
            created <= sent || created <= removals_to && resource.first <= sent
        })
    }

    /// Whether a name had no resource up to `position`, as far as is known.
    pub(crate) fn first_created_after(&self, slot: Slot, position: Revision) -> bool {
        self.at(slot).is_some_and(|resource| resource.first > position)
    }

    /// Whether a name had no resource at a revision, and has had one since.
    pub(crate) fn came_after(&self, slot: Slot, at: Revision) -> bool {
        matches!(self.content_at(slot, at), PastContent::Missing)
    }

    /// Whether a name has a resource that came back after `position`.
    pub(crate) fn recreated_after(&self, slot: Slot, position: Revision) -> bool {
        let resource = self.at(slot).filter(|resource| resource.payload.is_some());
        resource.is_some_and(|it| it.first < it.created && it.created > position)
    }
}

impl SentRemovals {
    /// Returns the value for a client that was sent all removals up to `removals_to`.
    pub(crate) fn all(removals_to: Revision) -> Self {
        Self { removals_to, partial_to: removals_to }
    }
}
