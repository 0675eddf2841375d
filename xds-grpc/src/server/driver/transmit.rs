//! Rendering of responses for the streams that can take one.

use tonic::Status;
use xds_core::{StreamId, server::StreamEvent};

use super::{Driver, inbox::Input};
use crate::server::memory::transport_stats::TransportEvent;

/// Maximum number of streams per iteration for which a response is rendered. Connections write what was
/// rendered for them between two iterations, so the fewer streams, the more writes.
pub(crate) const MAX_STREAMS: usize = 512;

/// Maximum bytes per iteration that are rendered for single streams and not shared with others. The
/// responses of one stream may exceed it.
const MAX_UNSHARED_BYTES: usize = 256 << 10;

impl Driver {
    /// Renders responses for streams that are ready for one, of each connection in turn, until the
    /// share of an iteration is used up.
    pub(crate) fn transmit(&mut self) {
        if !self.writable.is_empty() {
            self.budgets.responses.count_unshared();
        }
        let mut unshared = 0;
        for _ in 0..MAX_STREAMS {
            if unshared >= MAX_UNSHARED_BYTES {
                break;
            }
            let Some(id) = self.writable.pop() else { break };
            unshared += self.transmit_to(id);
            // Rendering may cause observations.
            self.process_outputs();
        }
    }

    /// Renders a response for a stream if it is ready for one. Returns the number of bytes that are
    /// not shared with other responses.
    fn transmit_to(&mut self, id: StreamId) -> usize {
        let mut unshared = 0;
        let Some(stream) = self.streams.get(&id) else { return unshared };
        while stream.slot.is_free() {
            if !stream.responses.has_room() {
                self.memory_waits.add(id);
                break;
            }
            let now = self.clock.now();
            let Some(transmit) = self.server.poll_transmit(id, now, &mut self.frame) else {
                break;
            };
            let bytes = self.frame.len();
            unshared += match self.frame.body.is_unique() {
                true => bytes,
                false => self.frame.head.len(),
            };
            if u32::try_from(bytes).is_err() {
                let why =
                    format!("response of {bytes} bytes exceeds the maximum message size of gRPC");
                stream.slot.end(Status::resource_exhausted(why));
                self.streams.remove(&id);
                self.server.handle_event(StreamEvent::Closed(id), now);
                break;
            }
            self.log.sent(stream, &transmit, &self.frame);
            stream.slot.put(&mut self.frame, &stream.responses);
        }
        unshared
    }

    /// Ends the streams of a connection that does not read. Their memory is released immediately, and
    /// the core frees their subscriptions when it is the turn of the connection.
    pub(crate) fn end_connection(&mut self, connection: u64) {
        let now = self.clock.now();
        self.budgets.counters.note(TransportEvent::UnreadConnection);
        let of_connection = self.streams.iter().filter(|(_, it)| it.responses.id() == connection);
        let ids: Vec<_> = of_connection.map(|(id, _)| *id).collect();
        let why = self.budgets.responses.exceeded();
        if let Some(stream) = ids.first().and_then(|id| self.streams.get(id)) {
            self.log.ended(stream, ids.len(), &why, now);
        }
        for id in ids {
            let Some(stream) = self.streams.get(&id) else { continue };
            stream.slot.abort(Status::resource_exhausted(why.clone()));
            self.connections.push(connection, Input::Evicted(id));
        }
    }

    /// Removes a stream whose connection the server has ended.
    pub(crate) fn remove_evicted(&mut self, id: StreamId) {
        if self.streams.remove(&id).is_some() {
            self.server.handle_event(StreamEvent::Closed(id), self.clock.now());
        }
    }
}
