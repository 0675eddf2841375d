//! Queue of outputs for the driver.

use alloc::{collections::VecDeque, sync::Arc};

use crate::{
    id::StreamId,
    server::event::{CloseReason, Observation, ServerOutput},
    text::ViewName,
};

/// Queued outputs in order. A stream has at most one queued `Writable` and one `Close`. The number
/// of observations is bounded because the driver is asked to stop reading.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<ServerOutput>,
    observations: usize,
}

impl Outbox {
    pub(crate) fn writable(&mut self, stream: StreamId) {
        self.queue.push_back(ServerOutput::Writable(stream));
    }

    pub(crate) fn authorize(&mut self, stream: StreamId, node_id: Arc<str>) {
        self.queue.push_back(ServerOutput::Authorize { stream, node_id });
    }

    /// Queues an output for the application that a client caused. It counts as an observation, so a
    /// full queue pauses reading.
    pub(crate) fn push_counted(&mut self, output: ServerOutput) {
        self.observations += 1;
        self.queue.push_back(output);
    }

    /// Queues an output that occurs once in the life of a server or of a stream, or once per call
    /// of the application.
    pub(crate) fn push(&mut self, output: ServerOutput) {
        self.queue.push_back(output);
    }

    pub(crate) fn view_dropped(&mut self, view: ViewName) {
        self.queue.push_back(ServerOutput::ViewDropped(view));
    }

    pub(crate) fn close(&mut self, stream: StreamId, reason: CloseReason) {
        self.queue.push_back(ServerOutput::Close(stream, reason));
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        self.observations += 1;
        self.queue.push_back(ServerOutput::Observed(observation));
    }

    pub(crate) fn pop(&mut self) -> Option<ServerOutput> {
        let output = self.queue.pop_front();
        if let Some(
            ServerOutput::Observed(_)
            | ServerOutput::Wanted { .. }
            | ServerOutput::Unwanted { .. }
            | ServerOutput::CustomMessage { .. },
        ) = output
        {
            self.observations -= 1;
        }
        output
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of observations that have not been polled.
    pub(crate) fn observations(&self) -> usize {
        self.observations
    }
}
