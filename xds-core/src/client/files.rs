//! Files that serve as management servers.
//!
//! A file contains all resources of a type, and is read again whenever it changes. Nothing is sent
//! to it: rendered requests are for the adapter alone. A request asks the adapter to read the file,
//! again for each new name, because resources that were not subscribed before were not kept. An ACK
//! or NACK reports whether contents were accepted, for logs.
//!
//! ```text
//!                      request: read it
//!   core ◀──────────────────────────────▶ adapter ◀──── the file has changed
//!            contents, or an error
//! ```
//!
//! An unreadable file is a server error. Accepted resources stay in use, as they do when others are
//! rejected. The channel stays open in both cases, until nothing is subscribed any more.
// S0.010-S0.018, FS-11

use super::{
    Client,
    config::{Exchange, resource_type::Rejection},
    event::{RequestCause, Transmit, error::ChannelError, status::EntryState},
    response::Judge,
    upstream::{Ack, Channel, Turns},
};
use crate::{id::ChannelId, slab::Slot};

impl Exchange {
    pub(crate) fn is_of_files(&self) -> bool {
        matches!(self, Self::Files(_))
    }
}

impl Channel {
    pub(crate) fn is_of_a_file(&self) -> bool {
        matches!(self.turns, Turns::OfAFile)
    }
}

impl Client {
    pub(crate) fn is_of_a_file(&self, id: ChannelId) -> bool {
        self.upstreams.channel(id).is_some_and(Channel::is_of_a_file)
    }

    pub(crate) fn has_files(&self) -> bool {
        self.upstreams.servers.iter().any(|server| server.server.exchange.is_of_files())
    }

    /// Reports whether contents were accepted. Nothing is sent, so subscriptions are not updated.
    // S0.017
    pub(crate) fn note_judgement(&self, ack: Ack) -> Option<Transmit> {
        let type_url = self.types.get(ack.type_index)?.resource_type.type_url().clone();
        let cause = match ack.rejection {
            Some((rejected, message)) => RequestCause::Nack { rejected, message },
            None => RequestCause::Ack,
        };
        Some(Transmit { type_url, version: ack.version, nonce: ack.nonce, cause })
    }

    /// Handles a missing or unreadable file. Later contents may be valid.
    pub(crate) fn on_unreadable(&mut self, id: ChannelId, error: ChannelError) {
        let Some(lane) = self.upstreams.channel(id).map(|channel| channel.lane) else { return };
        let error = ChannelError::Unreadable(match error {
            ChannelError::Undeliverable(why) => why,
            other => alloc::format!("{other}").into(),
        });
        self.stats.malformed += 1;
        self.upstreams.epoch += 1;
        let epoch = self.upstreams.epoch;
        if let Some(lane) = self.upstreams.lanes.get_mut(lane) {
            lane.failures = lane.failures.saturating_add(1);
            lane.ended = epoch;
        }
        self.note_failure(lane, error);
        self.announce();
    }
}

impl Judge<'_> {
    /// Marks requested resources that are not in the file as nonexistent if no version is in use,
    /// regardless of their type, because no further response will bring them. If the file has a
    /// resource whose name is unknown, they are rejected instead, because it may be any of them.
    /// Resources in use that are missing are handled according to their type.
    pub(crate) fn conclude_what_the_file_lacks(&mut self, tells_absence: bool) {
        if !self.context.server.exchange.is_of_files() || self.cache.is_complete() {
            return;
        }
        let lacking = self.cache.iter().filter(|&(slot, entry)| {
            let is_unknown = matches!(entry.state, EntryState::Requested | EntryState::Nacked);
            let is_absent = entry.bytes.is_none() && !self.cache.is_in_response(slot);
            is_unknown && is_absent && self.asked.means_absence(entry, self.interest)
        });
        let lacking: alloc::vec::Vec<Slot> = lacking.map(|(slot, _)| slot).collect();
        for slot in lacking {
            match tells_absence {
                true => self.conclude_absent(slot),
                false => self.reject(slot, Rejection::new(MAY_BE_UNNAMED)),
            }
        }
    }
}

/// Reason for rejecting a resource that is missing while the file has one whose name is unknown.
const MAY_BE_UNNAMED: &str =
    "not found, and the name of another resource in the file cannot be determined";
