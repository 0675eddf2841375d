//! Multi-version store that keeps a version while a client has ACKed a revision at which it was
//! current.
//!
//! A replaced version is kept by the newest snapshot at which it was current. When the last client
//! leaves that snapshot, the version moves to the next older one, or is dropped if it was set after
//! that one.

use std::collections::BTreeMap;

use super::{
    candidate::{Candidate, Payload, Revision, Version},
    snapshots::{SnapshotId, Snapshots},
};

pub(crate) struct Intervals {
    clock: Revision,
    resources: Vec<(Revision, Option<Payload>)>,
    /// Replaced versions, by resource and the revision at which they were replaced.
    past: BTreeMap<Key, Version>,
    snapshots: Snapshots<Vec<Key>>,
}

type Key = (u32, Revision);

impl Candidate for Intervals {
    type Acked = SnapshotId;

    const NAME: &'static str = "versions by interval";

    fn new(resources: u32) -> Self {
        let resources = (1..=u64::from(resources)).map(|n| (n, Some(Payload::new(n))));
        let resources: Vec<_> = resources.collect();
        let clock = resources.len() as u64;
        Self { clock, resources, past: BTreeMap::new(), snapshots: Snapshots::new() }
    }

    fn change(&mut self, resource: u32, payload: Option<Payload>) {
        self.clock += 1;
        let entry = &mut self.resources[resource as usize];
        let (set, replaced) = std::mem::replace(entry, (self.clock, payload));
        let Some(payload) = replaced else { return };
        if let Some(seen_by) = self.snapshots.newest().filter(|it| it.revision >= set) {
            let key = (resource, self.clock);
            seen_by.extra.push(key);
            self.past.insert(key, Version { set, payload });
        }
    }

    fn open(&mut self) -> SnapshotId {
        self.snapshots.take(self.clock)
    }

    fn ack(&mut self, acked: &mut SnapshotId, _: &[u32]) {
        let sent = self.snapshots.take(self.clock);
        self.close(std::mem::replace(acked, sent));
    }

    fn close(&mut self, acked: SnapshotId) {
        let Some((keys, mut older)) = self.snapshots.release(acked) else { return };
        for key in keys {
            match &mut older {
                Some(older) if self.past.get(&key).is_some_and(|it| it.set <= older.revision) => {
                    older.extra.push(key);
                }
                _ => drop(self.past.remove(&key)),
            }
        }
    }

    fn has<'a>(&'a self, acked: &'a SnapshotId, resource: u32) -> Option<(Revision, &'a Payload)> {
        let at = self.snapshots.at(*acked).revision;
        let (set, current) = &self.resources[resource as usize];
        if *set <= at {
            return Some((*set, current.as_ref()?));
        }
        let (&(of, _), version) = self.past.range((resource, at + 1)..).next()?;
        (of == resource && version.set <= at).then_some((version.set, &version.payload))
    }
}
