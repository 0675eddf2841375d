//! The one queue of what the driver is to do.

use alloc::{collections::VecDeque, sync::Arc};

use super::config::ManagementServer;
use crate::id::{ChannelId, WatchId};

/// Queued outputs in order. At most one notice per watch and three entries per channel stand in it,
/// so it is bounded by what the application holds.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Queued>,
}

#[derive(Debug)]
pub(crate) enum Queued {
    Open(ChannelId, Arc<ManagementServer>),
    Close(ChannelId),
    Writable(ChannelId),
    Notify(WatchId),
}

impl Outbox {
    pub(crate) fn open(&mut self, channel: ChannelId, server: Arc<ManagementServer>) {
        self.queue.push_back(Queued::Open(channel, server));
    }

    pub(crate) fn close(&mut self, channel: ChannelId) {
        self.queue.push_back(Queued::Close(channel));
    }

    pub(crate) fn writable(&mut self, channel: ChannelId) {
        self.queue.push_back(Queued::Writable(channel));
    }

    pub(crate) fn notify(&mut self, watch: WatchId) {
        self.queue.push_back(Queued::Notify(watch));
    }

    pub(crate) fn pop(&mut self) -> Option<Queued> {
        self.queue.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}
