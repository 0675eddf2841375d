//! Queue of outputs for the driver.

use alloc::collections::VecDeque;

use crate::server::event::{Observation, ServerEvent, ServerOutput};

/// Queued outputs in order. A stream has at most one queued `Writable` and one `Close`. The number
/// of observations is bounded because the driver is asked to stop reading.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<ServerOutput>,
    observations: usize,
}

impl Outbox {
    pub(crate) fn push(&mut self, output: ServerOutput) {
        self.observations += usize::from(is_counted(&output));
        self.queue.push_back(output);
    }

    /// Queues an event for the application.
    pub(crate) fn event(&mut self, event: ServerEvent) {
        self.push(ServerOutput::Event(event));
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        self.push(ServerOutput::Observed(observation));
    }

    pub(crate) fn pop(&mut self) -> Option<ServerOutput> {
        let output = self.queue.pop_front()?;
        self.observations -= usize::from(is_counted(&output));
        Some(output)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of observations that have not been polled.
    pub(crate) fn observations(&self) -> usize {
        self.observations
    }
}

/// Whether an output counts as an observation: clients can cause any number of these, and a full
/// queue pauses reading.
const fn is_counted(output: &ServerOutput) -> bool {
    matches!(
        output,
        ServerOutput::Observed(_)
            | ServerOutput::Event(
                ServerEvent::Wanted { .. }
                    | ServerEvent::Unwanted { .. }
                    | ServerEvent::CustomMessage { .. }
            )
    )
}
