//! Streams that wait for memory for a response.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use xds_core::{StreamId, Time};

use super::responses::{Relief, ResponseMemory};

/// Interval of checks whether the end of connections has released enough memory.
const RELIEF_INTERVAL: Duration = Duration::from_millis(250);

/// Streams that may have a response to send, but whose connection or server has no memory for it.
#[derive(Debug)]
pub(crate) struct MemoryWaits {
    responses: ResponseMemory,
    streams: BTreeSet<StreamId>,
    check: Check,
}

/// Time of the next check whether connections that do not read have to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    NotNeeded,
    Now,
    At(Time),
}

impl MemoryWaits {
    pub(crate) fn new(responses: ResponseMemory) -> Self {
        Self { responses, streams: BTreeSet::new(), check: Check::NotNeeded }
    }

    /// Adds a stream for which there is no memory.
    pub(crate) fn add(&mut self, id: StreamId) {
        self.streams.insert(id);
        if self.check == Check::NotNeeded {
            self.check = Check::Now;
        }
    }

    /// Removes and returns all waiting streams, because memory was released. Streams whose
    /// connections hold fewer bytes come first, and among these the ones whose connections have
    /// fewer waiting streams, so that no connection delays others by opening many streams. Among
    /// equal streams, the newest and the oldest alternate, so that neither a long queue nor new
    /// arrivals starve a stream. `connection` returns the id of a stream's connection and the bytes
    /// that it holds.
    pub(crate) fn take(
        &mut self,
        connection: impl Fn(StreamId) -> Option<(u64, usize)>,
    ) -> Vec<StreamId> {
        self.check = Check::Now;
        let streams = core::mem::take(&mut self.streams).into_iter();
        let streams = streams.filter_map(|id| connection(id).map(|of| (id, of)));
        let streams: Vec<_> = streams.collect();
        let mut waiting = BTreeMap::<u64, usize>::new();
        for (_, (connection, _)) in &streams {
            *waiting.entry(*connection).or_default() += 1;
        }
        let waiting = |connection| waiting.get(connection).copied().unwrap_or_default();
        let mut streams: Vec<_> = streams
            .iter()
            .map(|(id, (connection, held))| (*held, waiting(connection), *id))
            .collect();
        streams.sort_unstable();
        let equal = streams.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
        equal.flat_map(newest_and_oldest).map(|(_, _, id)| *id).collect()
    }

    /// Returns the time at which to call [`relieve`](Self::relieve).
    pub(crate) fn due(&self) -> Option<Time> {
        match self.check {
            Check::At(at) => Some(at),
            Check::NotNeeded | Check::Now => None,
        }
    }

    /// Closes the connections that hold most and do not read, if the memory is exhausted. Returns
    /// their ids.
    pub(crate) fn relieve(&mut self, now: Time) -> Vec<u64> {
        match self.check {
            Check::NotNeeded => return Vec::new(),
            Check::At(at) if at > now => return Vec::new(),
            Check::Now | Check::At(_) => {}
        }
        let (next, evicted) = match self.responses.relieve(now) {
            Relief::NotNeeded => (Check::NotNeeded, Vec::new()),
            Relief::After(at) => (Check::At(at), Vec::new()),
            Relief::Evicted(ids) => (Check::At(now.after(RELIEF_INTERVAL)), ids),
        };
        self.check = if self.streams.is_empty() { Check::NotNeeded } else { next };
        evicted
    }
}

/// Returns the items in alternating order: last, first, second to last, second, and so on.
fn newest_and_oldest<T>(items: &[T]) -> impl Iterator<Item = &T> {
    let (newest, oldest) = (items.iter().rev(), items.iter());
    newest.zip(oldest).flat_map(|(newest, oldest)| [newest, oldest]).take(items.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_and_oldest_take_turns() {
        let turns = |items: &[u8]| newest_and_oldest(items).copied().collect::<Vec<_>>();
        assert!(turns(&[]).is_empty());
        assert_eq!(turns(&[1]), [1]);
        assert_eq!(turns(&[1, 2, 3, 4]), [4, 1, 3, 2]);
        assert_eq!(turns(&[1, 2, 3, 4, 5]), [5, 1, 4, 2, 3]);
    }
}
