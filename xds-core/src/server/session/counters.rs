//! Counters of a session.

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) responses: Count,
    pub(crate) acks: Count,
    pub(crate) nacks: Count,
}

/// Saturating counter. It is 32 bits wide because every session has three of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count(u32);

impl Count {
    pub(crate) fn add_one(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    pub(crate) fn get(self) -> u64 {
        u64::from(self.0)
    }
}
