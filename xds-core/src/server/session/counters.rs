//! Counters of a session.

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionCounters {
    pub(crate) responses: Counter,
    pub(crate) acks: Counter,
    pub(crate) nacks: Counter,
}

/// Saturating counter. It is 32 bits wide because every session has three of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter(u32);

impl Counter {
    pub(crate) fn add_one(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    pub(crate) fn get(self) -> u64 {
        u64::from(self.0)
    }
}
