//! Multi-version store that keeps every version replaced since the oldest revision that a client
//! has ACKed.

use std::collections::{BTreeMap, VecDeque};

use super::{
    candidate::{Candidate, Payload, Revision, Version},
    snapshots::{SnapshotId, Snapshots},
};

pub(crate) struct Horizon {
    clock: Revision,
    resources: Vec<(Revision, Option<Payload>)>,
    /// Replaced versions, by resource and the revision at which they were replaced.
    past: BTreeMap<(u32, Revision), Version>,
    /// Keys of replaced versions in the order of their replacement.
    order: VecDeque<(u32, Revision)>,
    snapshots: Snapshots<()>,
}

impl Candidate for Horizon {
    type Acked = SnapshotId;

    const NAME: &'static str = "versions since the oldest ACK";

    fn new(resources: u32) -> Self {
        let resources = (1..=u64::from(resources)).map(|n| (n, Some(Payload::new(n))));
        let resources: Vec<_> = resources.collect();
        let (clock, past) = (resources.len() as u64, BTreeMap::new());
        Self { clock, resources, past, order: VecDeque::new(), snapshots: Snapshots::new() }
    }

    fn change(&mut self, resource: u32, payload: Option<Payload>) {
        self.clock += 1;
        let entry = &mut self.resources[resource as usize];
        let (set, replaced) = std::mem::replace(entry, (self.clock, payload));
        let Some(payload) = replaced.filter(|_| self.snapshots.oldest().is_some()) else { return };
        self.order.push_back((resource, self.clock));
        self.past.insert((resource, self.clock), Version { set, payload });
    }

    fn open(&mut self) -> SnapshotId {
        self.snapshots.take(self.clock)
    }

    fn ack(&mut self, acked: &mut SnapshotId, _: &[u32]) {
        let sent = self.snapshots.take(self.clock);
        self.close(std::mem::replace(acked, sent));
    }

    fn close(&mut self, acked: SnapshotId) {
        self.snapshots.release(acked);
        let oldest = self.snapshots.oldest().unwrap_or(Revision::MAX);
        while let Some(key) = self.order.front().filter(|(_, replaced)| *replaced <= oldest) {
            self.past.remove(key);
            self.order.pop_front();
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
