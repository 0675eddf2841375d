//! Servers that are files (S0.010-S0.018).
//!
//! A file says everything there is of a type, and says it again whenever it changes. Nothing goes the other
//! way (FS-11): what is rendered is for the adapter alone. A request means that the file is to be read, which
//! happens again when a name comes to be wanted, since what nobody wanted before was not kept. An answer says
//! what became of a content, for logs (S0.017).
//!
//! ```text
//!                      request: read it
//!   core ◀──────────────────────────────▶ adapter ◀──── the file has changed
//!            a content, or why there is none
//! ```
//!
//! A content that cannot be read is trouble with the server, and what was accepted before stays in use, as it
//! does beside resources that are rejected (S0.018). The channel stays through both: it ends when nothing is
//! wanted of it.

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

    /// What became of a content. Nobody is told, and so it says nothing of what is wanted.
    pub(crate) fn note_judgement(&self, ack: Ack) -> Option<Transmit> {
        let type_url = self.types.get(ack.type_index)?.resource_type.type_url().clone();
        let cause = match ack.rejection {
            Some((rejected, message)) => RequestCause::Nack { rejected, message },
            None => RequestCause::Ack,
        };
        Some(Transmit { type_url, version: ack.version, nonce: ack.nonce, cause })
    }

    /// The file is not there, or what is in it cannot be read. The next content may be good.
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
    /// Concludes that a resource does not exist which was asked for, is not in the file, and of which nothing is in use,
    /// whatever the type is: no further response could bring it. It is rejected instead if it may be the
    /// one in the file whose name cannot be determined. The type decides about a resource that is in use and missing.
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

/// Why a resource is rejected that a file lacks, but for one without a name.
const MAY_BE_UNNAMED: &str =
    "not found, and the name of another resource in the file cannot be determined";
