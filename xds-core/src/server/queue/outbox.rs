//! The one queue of what the driver is to do.

use alloc::{collections::VecDeque, sync::Arc};

use crate::{
    id::StreamId,
    server::event::{CloseReason, Observation, ServerOutput},
    text::ViewName,
};

/// Queued outputs in order. A stream has at most one `Writable` and one `Close` in it; observations
/// are bounded by the inputs that nobody drained after.
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

    /// What a client makes the server say to the application: counted like observations, which keeps the
    /// client from being read on.
    pub(crate) fn ask(&mut self, output: ServerOutput) {
        self.observations += 1;
        self.queue.push_back(output);
    }

    /// What is said once in a server's life, or once for each call of the application.
    pub(crate) fn tell(&mut self, output: ServerOutput) {
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
            | ServerOutput::Aside { .. },
        ) = output
        {
            self.observations -= 1;
        }
        output
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many observations nobody has polled yet.
    pub(crate) fn observations(&self) -> usize {
        self.observations
    }
}
