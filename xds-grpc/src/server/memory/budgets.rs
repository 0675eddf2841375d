//! Memory budgets of a server's transports and of each connection.

use core::time::Duration;

use http::Extensions;

use super::{
    requests::{ConnectionMemory, RequestMemory},
    responses::{ConnectionResponses, ResponseMemory},
    transport_stats::{TransportCounters, TransportStats},
};
use crate::{clock::Clock, server::options::ServerOptions};

/// Memory of a server's requests and responses in its transports, and counters. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct TransportBudgets {
    pub(crate) requests: RequestMemory,
    pub(crate) responses: ResponseMemory,
    /// Time for a request to arrive completely, in addition to that at the minimum rate.
    pub(crate) patience: Duration,
    pub(crate) counters: TransportCounters,
}

/// Budgets of one connection. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionBudgets {
    pub(crate) requests: ConnectionMemory,
    pub(crate) responses: ConnectionResponses,
    /// Time for a request to arrive completely, in addition to that at the minimum rate.
    pub(crate) patience: Duration,
    pub(crate) counters: TransportCounters,
}

impl TransportBudgets {
    /// `notify` is called when memory of responses was released, or is exhausted.
    pub(crate) fn new(
        options: &ServerOptions,
        clock: Clock,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            requests: RequestMemory::new(
                options.max_incomplete_bytes_per_connection,
                options.max_incomplete_bytes,
            ),
            responses: ResponseMemory::new(
                options.max_unread_bytes_per_connection,
                options.max_unread_bytes,
                clock,
                notify,
            ),
            patience: options.request_timeout,
            counters: TransportCounters::default(),
        }
    }

    /// Returns the budgets of the connection of a call. In a gRPC server of the application, each
    /// call counts as a connection.
    pub(crate) fn of_call(&self, call: &Extensions) -> ConnectionBudgets {
        call.get::<ConnectionBudgets>().cloned().unwrap_or_else(|| self.connection())
    }

    /// Returns the budgets of a new connection.
    pub(crate) fn connection(&self) -> ConnectionBudgets {
        ConnectionBudgets {
            requests: self.requests.connection(),
            responses: self.responses.connection(),
            patience: self.patience,
            counters: self.counters.clone(),
        }
    }

    pub(crate) fn stats(&self) -> TransportStats {
        self.counters.stats(&self.requests, &self.responses)
    }
}
