//! Limits of the memory of hosts.

pub use super::run::memory::MeasureMemory;
use super::{Host, Stage};

/// Memory of hosts.
impl Stage {
    /// Measures the memory that each host holds. Call this before hosts are added.
    ///
    /// The memory of a host is what its tasks have allocated and not freed. Tasks that an application
    /// spawns with `tokio::spawn` belong to no host.
    pub fn measure_memory(&self, measure: MeasureMemory) {
        self.executor.memory().measure_with(measure);
    }

    /// Whether the memory of hosts is measured.
    #[must_use]
    pub fn measures_memory(&self) -> bool {
        self.executor.memory().is_measured()
    }

    /// Sets the maximum number of bytes that the host may hold. More is a violation, unless memory is
    /// not [measured](Self::measure_memory).
    pub fn limit_memory(&self, host: &Host, bytes: u64) {
        self.executor.memory().set_limit(host.shared.id, bytes);
    }

    /// Returns the number of bytes that the host holds. It is negative if the host has freed memory
    /// that others had allocated.
    #[must_use]
    pub fn held_memory(&self, host: &Host) -> i64 {
        self.executor.memory().held(host.shared.id)
    }

    /// Maximum number of bytes that the host has held so far.
    #[must_use]
    pub fn peak_memory(&self, host: &Host) -> i64 {
        self.executor.memory().peak(host.shared.id)
    }

    /// Reports hosts that exceeded their limits.
    pub(super) fn judge_memory(&self) {
        for (id, held) in self.executor.memory().take_exceeded() {
            let hosts = self.hosts.borrow();
            let name = hosts.iter().find(|host| host.shared.id == id).map_or("", |it| it.name());
            let rule = "A host holds no more memory than its budgets, whatever its peers do.";
            self.violate("held-bytes", rule, format!("{name} holds {held} bytes"));
        }
    }
}
