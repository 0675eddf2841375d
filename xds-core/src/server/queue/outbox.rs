//! Queue of outputs for the driver.

use alloc::collections::VecDeque;

use crate::{
    id::StreamId,
    server::event::{CloseReason, Observation, ServerEvent, ServerOutput},
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

    /// Queues an event for the application.
    pub(crate) fn event(&mut self, event: ServerEvent) {
        self.observations += usize::from(is_counted(&event));
        self.queue.push_back(ServerOutput::Event(event));
    }

    /// Queues an output that occurs once in the life of a server or of a stream, or once per call
    /// of the application.
    pub(crate) fn push(&mut self, output: ServerOutput) {
        self.queue.push_back(output);
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
        let is_observation = match &output {
            Some(ServerOutput::Observed(_)) => true,
            Some(ServerOutput::Event(event)) => is_counted(event),
            _ => false,
        };
        self.observations -= usize::from(is_observation);
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

/// Whether an event counts as an observation: clients can cause any number of these, and a full
/// queue pauses reading.
const fn is_counted(event: &ServerEvent) -> bool {
    match event {
        ServerEvent::Wanted { .. }
        | ServerEvent::Unwanted { .. }
        | ServerEvent::CustomMessage { .. } => true,
        ServerEvent::Authorize { .. }
        | ServerEvent::ConfirmSource
        | ServerEvent::ViewDropped(_) => false,
    }
}
