//! Commands of an application that follows a source together with other servers.

use xds_core::server::SourceStatus;

use super::handle::{ServerEnded, ServerHandle};

impl ServerHandle {
    /// Notes that all changes of the source up to a revision were applied
    /// ([`Server::source_reached`](xds_core::server::Server::source_reached) has the rules for
    /// replicas).
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M257
    pub async fn source_reached(&self, revision: u64) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.source_reached(revision, now)).await
    }

    /// Answers [`ServerEvent::ConfirmSource`](xds_core::server::ServerEvent::ConfirmSource) with the
    /// newest revision of the source, from a linearizable read.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M258
    pub async fn source_confirmed(&self, revision: u64) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.source_confirmed(revision, now)).await
    }

    /// Notes that an attempt to confirm the revision of the source has failed. It is to be repeated.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M259
    pub async fn source_confirmation_failed(&self) -> Result<(), ServerEnded> {
        self.with_server(|server, now| server.source_confirmation_failed(now)).await
    }

    /// Notes that reading or watching the source has failed. The last state stays in use.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M259
    pub async fn source_unreachable(&self) -> Result<(), ServerEnded> {
        self.with_server(|server, now| server.source_unreachable(now)).await
    }

    /// Returns what the server knows of its source.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn source_status(&self) -> Result<SourceStatus, ServerEnded> {
        self.with_server(|server, _| server.source_status()).await
    }
}
