//! Rendering of responses for the streams that can take one.

use tonic::Status;
use xds_core::{StreamId, server::StreamEvent};

use super::{driver::Driver, transport_stats::TransportEvent};

impl Driver {
    /// Renders responses for streams that are ready for one.
    pub(super) fn transmit(&mut self) {
        if !self.writable.is_empty() {
            self.budgets.responses.count_unshared();
        }
        while !self.writable.is_empty() {
            let mut writable = core::mem::take(&mut self.writable);
            writable.drain(..).for_each(|id| self.transmit_to(id));
            // Rendering may cause observations.
            self.process_outputs();
        }
    }

    fn transmit_to(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        while stream.slot.is_free() {
            if !stream.responses.has_room() {
                return self.memory_waits.add(id);
            }
            let now = self.clock.now();
            let Some(transmit) = self.server.poll_transmit(id, now, &mut self.frame) else {
                return;
            };
            let bytes = self.frame.len();
            if u32::try_from(bytes).is_err() {
                let why =
                    format!("response of {bytes} bytes exceeds the maximum message size of gRPC");
                stream.slot.end(Status::resource_exhausted(why));
                self.streams.remove(&id);
                return self.server.handle_event(StreamEvent::Closed(id), now);
            }
            self.log.sent(stream, &transmit, &self.frame);
            stream.slot.put(&mut self.frame, &stream.responses);
        }
    }

    /// Ends the streams of a connection that does not read.
    pub(super) fn end_connection(&mut self, connection: u64) {
        let now = self.clock.now();
        self.budgets.counters.note(TransportEvent::UnreadConnection);
        let of_connection = self.streams.iter().filter(|(_, it)| it.responses.id() == connection);
        let ids: Vec<_> = of_connection.map(|(id, _)| *id).collect();
        let why = self.budgets.responses.exceeded();
        if let Some(stream) = ids.first().and_then(|id| self.streams.get(id)) {
            self.log.ended(stream, ids.len(), &why, now);
        }
        for id in ids {
            let Some(stream) = self.streams.remove(&id) else { continue };
            stream.slot.abort(Status::resource_exhausted(why.clone()));
            self.server.handle_event(StreamEvent::Closed(id), now);
        }
        self.process_outputs();
    }
}
