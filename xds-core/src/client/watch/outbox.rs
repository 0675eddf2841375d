//! Queue of actions for the driver.

use alloc::{boxed::Box, collections::VecDeque};

use crate::{
    client::event::{Call, error::ChannelError},
    id::{ChannelId, UpdateId, WatchId},
};

/// Queued outputs in order. The queue contains at most one notice per watch and four entries per
/// channel. Notices of ended watches are removed before they outnumber the others, so its size is
/// bounded by the number of watches and channels.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Queued>,
    /// Number of notices of ended watches queued since the last removal.
    dead: usize,
}

/// Minimum number of such notices for a removal.
const MIN_DEAD_NOTICES: usize = 64;

#[derive(Debug)]
pub(crate) enum Queued {
    /// Boxed, because it is rare and larger than a notice.
    Open(ChannelId, Box<Call>),
    Close(ChannelId, Option<Box<ChannelError>>),
    Writable(ChannelId),
    Notify(WatchId),
    Update(UpdateId),
}

impl Outbox {
    pub(crate) fn open(&mut self, channel: ChannelId, call: Call) {
        self.queue.push_back(Queued::Open(channel, Box::new(call)));
    }

    pub(crate) fn close(&mut self, channel: ChannelId, fault: Option<ChannelError>) {
        self.queue.push_back(Queued::Close(channel, fault.map(Box::new)));
    }

    pub(crate) fn writable(&mut self, channel: ChannelId) {
        self.queue.push_back(Queued::Writable(channel));
    }

    pub(crate) fn notify(&mut self, watch: WatchId) {
        self.queue.push_back(Queued::Notify(watch));
    }

    pub(crate) fn update(&mut self, update: UpdateId) {
        self.queue.push_back(Queued::Update(update));
    }

    /// Notes that a queued notice belongs to an ended watch.
    pub(crate) fn note_dead(&mut self, is_alive: impl Fn(WatchId) -> bool) {
        self.dead += 1;
        if self.dead >= MIN_DEAD_NOTICES && self.dead * 2 > self.queue.len() {
            self.queue.retain(|queued| match queued {
                Queued::Notify(watch) => is_alive(*watch),
                Queued::Open(..) | Queued::Close(..) | Queued::Writable(_) | Queued::Update(_) => {
                    true
                }
            });
            self.dead = 0;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let next = self.queue.pop_front();
        crate::room::shrink_if_empty(&mut self.queue);
        next
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn retain_closes(&mut self) {
        self.queue.retain(|queued| matches!(queued, Queued::Close(..)));
    }
}
