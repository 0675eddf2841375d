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
    config::{TransportKind, resource_type::Rejection},
    event::{RequestCause, Transmit, error::ChannelError, status::ResourceState},
    response::ResponseProcessor,
    upstream::{Ack, Channel, TransportState},
};
use crate::{id::ChannelId, slab::Slot};

impl TransportKind {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl Channel {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.transport_state, TransportState::File)
    }
}

impl Client {
    pub(crate) fn is_file(&self, id: ChannelId) -> bool {
        self.upstreams.channel(id).is_some_and(Channel::is_file)
    }

    pub(crate) fn uses_files(&self) -> bool {
        self.upstreams.servers.iter().any(|server| server.server.transport_kind.is_file())
    }

    /// Reports whether contents were accepted. Nothing is sent, so subscriptions are not updated.
    // S0.017
    pub(crate) fn report_file_verdict(&self, ack: Ack) -> Option<Transmit> {
        let type_url = self.types.get(ack.type_index)?.resource_type.type_url().clone();
        let cause = match ack.rejection {
            Some((rejected, message)) => RequestCause::Nack { rejected, message },
            None => RequestCause::Ack,
        };
        Some(Transmit { type_url, version: ack.version, nonce: ack.nonce, cause })
    }

    /// Handles a missing or unreadable file. Later contents may be valid.
    pub(crate) fn on_unreadable(&mut self, id: ChannelId, error: ChannelError) {
        let Some(stream_slot) = self.upstreams.channel(id).map(|channel| channel.stream_slot)
        else {
            return;
        };
        let error = ChannelError::Unreadable(match error {
            ChannelError::Undeliverable(why) => why,
            other => alloc::format!("{other}").into(),
        });
        self.stats.malformed += 1;
        self.upstreams.epoch += 1;
        let epoch = self.upstreams.epoch;
        if let Some(stream_slot) = self.upstreams.stream_slots.get_mut(stream_slot) {
            stream_slot.failures = stream_slot.failures.saturating_add(1);
            stream_slot.ended = epoch;
        }
        self.note_failure(stream_slot, error);
        self.signal_writable();
    }
}

impl ResponseProcessor<'_> {
    /// Marks requested resources that are not in the file as nonexistent if no version is in use,
    /// regardless of their type, because no further response will bring them. If the file has a
    /// resource whose name is unknown, they are rejected instead, because it may be any of them.
    /// Resources in use that are missing are handled according to their type.
    pub(crate) fn handle_missing_in_file(&mut self, is_absence_significant: bool) {
        if !self.context.server.transport_kind.is_file() || self.cache.is_complete() {
            return;
        }
        let missing = self.cache.iter().filter(|&(slot, entry)| {
            let is_unknown =
                matches!(entry.state, ResourceState::Requested | ResourceState::Nacked);
            let is_absent = entry.bytes.is_none() && !self.cache.is_in_response(slot);
            is_unknown && is_absent && self.requested.is_absence_significant(entry, self.interest)
        });
        let missing: alloc::vec::Vec<Slot> = missing.map(|(slot, _)| slot).collect();
        for slot in missing {
            match is_absence_significant {
                true => self.handle_absent(slot),
                false => self.reject(slot, Rejection::new(MAY_BE_UNNAMED)),
            }
        }
    }
}

/// Reason for rejecting a resource that is missing while the file has one whose name is unknown.
const MAY_BE_UNNAMED: &str =
    "not found, and the name of another resource in the file cannot be determined";
