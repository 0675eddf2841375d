//! Revisions that clients have ACKed, with the number of clients at each.

use super::candidate::Revision;

/// ACKed revisions in a list, oldest first. A revision without clients is removed.
pub(crate) struct Snapshots<T> {
    nodes: Vec<Snapshot<T>>,
    free: Vec<SnapshotId>,
    oldest: Option<SnapshotId>,
    newest: Option<SnapshotId>,
}

pub(crate) struct Snapshot<T> {
    pub(crate) revision: Revision,
    clients: u32,
    older: Option<SnapshotId>,
    newer: Option<SnapshotId>,
    pub(crate) extra: T,
}

/// Position of a snapshot, which stays the same.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotId(u32);

impl<T: Default> Snapshots<T> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), oldest: None, newest: None }
    }

    /// Takes a snapshot of the newest revision.
    pub(crate) fn take(&mut self, clock: Revision) -> SnapshotId {
        let id = match self.newest.filter(|&newest| self.at(newest).revision == clock) {
            Some(newest) => newest,
            None => self.push(clock),
        };
        self.at_mut(id).clients += 1;
        id
    }

    fn push(&mut self, revision: Revision) -> SnapshotId {
        let older = self.newest;
        let node = Snapshot { revision, clients: 0, older, newer: None, extra: T::default() };
        let id = match self.free.pop() {
            Some(free) => free,
            None => SnapshotId(u32::try_from(self.nodes.len()).expect("few snapshots")),
        };
        match self.nodes.get_mut(id.0 as usize) {
            Some(place) => *place = node,
            None => self.nodes.push(node),
        }
        match older {
            Some(older) => self.at_mut(older).newer = Some(id),
            None => self.oldest = Some(id),
        }
        self.newest = Some(id);
        id
    }

    pub(crate) fn at(&self, id: SnapshotId) -> &Snapshot<T> {
        &self.nodes[id.0 as usize]
    }

    fn at_mut(&mut self, id: SnapshotId) -> &mut Snapshot<T> {
        &mut self.nodes[id.0 as usize]
    }

    pub(crate) fn oldest(&self) -> Option<Revision> {
        Some(self.at(self.oldest?).revision)
    }

    pub(crate) fn newest(&mut self) -> Option<&mut Snapshot<T>> {
        Some(self.at_mut(self.newest?))
    }

    /// Releases a snapshot. If no client has it any more, returns what it held, and the next older
    /// snapshot.
    pub(crate) fn release(&mut self, id: SnapshotId) -> Option<(T, Option<&mut Snapshot<T>>)> {
        let snapshot = self.at_mut(id);
        snapshot.clients -= 1;
        if snapshot.clients > 0 {
            return None;
        }
        let (older, newer) = (snapshot.older, snapshot.newer);
        let held = std::mem::take(&mut snapshot.extra);
        match older {
            Some(older) => self.at_mut(older).newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.at_mut(newer).older = older,
            None => self.newest = older,
        }
        self.free.push(id);
        Some((held, older.map(|older| self.at_mut(older))))
    }
}
