//! Records of a client's streams, and of its attempts to reach a server.

use std::collections::{BTreeMap, BTreeSet};

use xds_core::Time;

use crate::world::{World, message::Text};

/// Client, server, and the type that the stream carries.
pub(super) type AttemptKey = (usize, usize, Option<usize>);

#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Attempts in progress.
    pub(super) opening: u32,
    /// Consecutive connection failures.
    pub(super) refusals: u32,
    /// Consecutive streams that ended without a response. Successful connections do not reset it.
    pub(super) early_ends: u32,
    pub(super) not_before: Time,
    /// Whether it has failed since its last response.
    pub(super) is_failing: bool,
    /// Whether it recovered while the client was not drained, which may have fallen back before.
    pub(super) has_recovered_unseen: bool,
    /// Number of times that it began to fail.
    pub(super) breaks: u64,
    /// Number of times that the client fell back to it from the previous server.
    pub(super) turns: u64,
    /// Whether the client has fallen back to it, and not left it for another one.
    pub(super) is_taken: bool,
    /// Whether it had no subscriptions for a moment since the fallback, or since the last drain
    /// before it. Outputs of the fallback may be drained after that moment.
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

#[derive(Debug, Default)]
pub(super) struct StreamRecord {
    pub(super) began: Time,
    pub(super) is_open: bool,
    pub(super) has_responded: bool,
    pub(super) since: BTreeMap<(usize, Text), Time>,
    /// Names in the server's responses since they were subscribed.
    pub(super) answered: BTreeSet<(usize, Text)>,
    /// Time of each wildcard subscription. Resources of other servers that are not in its response
    /// are missing after the does-not-exist timeout.
    pub(super) all_since: BTreeMap<usize, Time>,
}

/// Whether the client has watches that belong to the channel.
pub(super) fn is_wanted((client, server, only): AttemptKey, world: &World) -> bool {
    let mut kinds = (0..world.types().len()).filter(|kind| only.is_none_or(|only| only == *kind));
    kinds.any(|kind| world.watched(client, kind).concerns(server))
}
