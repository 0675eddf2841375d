//! Memory that hosts hold.
//!
//! A run is single-threaded, so the memory that a task allocates and frees is the growth of the
//! thread's memory while the task is polled. Memory that the simulation itself allocates meanwhile,
//! for example for bytes in flight, is subtracted.

use core::fmt;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::executor::HostId;

/// Function that runs its argument, and returns by how many bytes the memory of this thread has
/// grown meanwhile. Such a function comes from a counting allocator, for example `|work|
/// allocation_counter::measure(work).bytes_current`. It must support nested calls, in which the
/// outer call includes the growth of the inner ones.
pub type MeasureMemory = fn(&mut dyn FnMut()) -> i64;

/// Memory of all hosts of a run.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<MemoryState>>);

#[derive(Default)]
struct MemoryState {
    measure: Option<MeasureMemory>,
    hosts: BTreeMap<HostId, HostMemory>,
    /// Bytes of the measurements within the current one.
    nested: i64,
    /// Hosts that exceeded their limits, with the bytes that they held. The first time of each.
    exceeded: Vec<(HostId, i64)>,
}

#[derive(Default)]
struct HostMemory {
    held: i64,
    peak: i64,
    limit: Option<i64>,
}

impl Memory {
    pub(crate) fn measure_with(&self, measure: MeasureMemory) {
        self.lock().measure = Some(measure);
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.lock().measure.is_some()
    }

    pub(crate) fn set_limit(&self, host: HostId, limit: u64) {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.lock().hosts.entry(host).or_default().limit = Some(limit);
    }

    /// Bytes that the host holds. Negative if it has freed what others allocated.
    pub(crate) fn held(&self, host: HostId) -> i64 {
        self.lock().hosts.get(&host).map_or(0, |memory| memory.held)
    }

    /// Maximum of the bytes that the host has held.
    pub(crate) fn peak(&self, host: HostId) -> i64 {
        self.lock().hosts.get(&host).map_or(0, |memory| memory.peak)
    }

    pub(crate) fn take_exceeded(&self) -> Vec<(HostId, i64)> {
        core::mem::take(&mut self.lock().exceeded)
    }

    /// Does the work of a host.
    pub(crate) fn of_host<T>(&self, host: HostId, work: impl FnOnce() -> T) -> T {
        self.attribute(Some(host), work)
    }

    /// Does work of the simulation, whose memory belongs to no host.
    pub(crate) fn of_simulation<T>(&self, work: impl FnOnce() -> T) -> T {
        self.attribute(None, work)
    }

    fn attribute<T>(&self, host: Option<HostId>, work: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        let Some(measure) = state.measure else {
            drop(state);
            return work();
        };
        let outer = core::mem::take(&mut state.nested);
        drop(state);
        let (mut work, mut done) = (Some(work), None);
        let grown = measure(&mut || done = work.take().map(|work| work()));
        let mut state = self.lock();
        let own = grown - state.nested;
        state.nested = outer + grown;
        if let Some(host) = host {
            let memory = state.hosts.entry(host).or_default();
            memory.held += own;
            memory.peak = memory.peak.max(memory.held);
            if let Some(limit) = memory.limit
                && memory.held > limit
            {
                memory.limit = None;
                let held = memory.held;
                state.exceeded.push((host, held));
            }
        }
        drop(state);
        done.unwrap_or_else(|| unreachable!("the measurement calls its argument"))
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        // No code that may panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("is_measured", &self.is_measured()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static ALLOCATED: Cell<i64> = const { Cell::new(0) };
    }

    fn allocate(bytes: i64) {
        ALLOCATED.set(ALLOCATED.get() + bytes);
    }

    fn measure(work: &mut dyn FnMut()) -> i64 {
        let before = ALLOCATED.get();
        work();
        ALLOCATED.get() - before
    }

    #[test]
    fn memory_of_the_simulation_and_of_other_hosts_is_subtracted() {
        let memory = Memory::default();
        assert_eq!(memory.of_host(0, || 7), 7);
        memory.measure_with(measure);
        memory.set_limit(1, 30);
        memory.of_host(0, || {
            allocate(100);
            memory.of_simulation(|| {
                allocate(1_000);
                memory.of_host(1, || allocate(30));
            });
            allocate(-10);
        });
        assert_eq!((memory.held(0), memory.held(1)), (90, 30));
        assert_eq!(memory.take_exceeded(), []);
        memory.of_host(1, || allocate(1));
        assert_eq!(memory.take_exceeded(), [(1, 31)]);
        memory.of_host(1, || allocate(-21));
        assert_eq!((memory.held(1), memory.peak(1)), (10, 31));
    }
}
