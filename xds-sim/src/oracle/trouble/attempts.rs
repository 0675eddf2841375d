//! How often a client tried to reach a server, and how that went.

use xds_core::Time;

/// Where attempts lead: client, server, and the one type that the stream carries.
pub(super) type Place = (usize, usize, Option<usize>);

#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Those under way.
    pub(super) opening: u32,
    /// Failures to connect in a row.
    pub(super) refusals: u32,
    /// Streams in a row that ended without a response. Connections say nothing about these.
    pub(super) early_ends: u32,
    pub(super) not_before: Time,
    /// Whether it failed since its last response.
    pub(super) is_failing: bool,
    /// Whether that ended while nothing was taken out of the client, which may have turned away before.
    pub(super) has_recovered_unseen: bool,
    /// How often it began to fail.
    pub(super) breaks: u64,
    /// How often the client turned to it and away from the one before.
    pub(super) turns: u64,
    /// Whether the client has turned to it, and not left it for another one.
    pub(super) is_taken: bool,
    /// Whether nothing was wanted of it for a moment since the client turned to it, or since the client was last drained
    /// before that: what it says of a turn may be taken out of it when that moment is over.
    pub(super) was_idle: bool,
}

impl Attempts {
    pub(super) fn fail(&mut self) {
        self.breaks += u64::from(!self.is_failing);
        self.is_failing = true;
    }

    pub(super) fn recover(&mut self, is_seen: bool) {
        self.has_recovered_unseen |= self.is_failing && !is_seen;
        self.is_failing = false;
    }
}
