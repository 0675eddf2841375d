//! Options of a server.

use core::time::Duration;
use std::collections::BTreeMap;

use xds_bootstrap::TlsFiles;
use xds_core::ResourceName;
use xds_grpc::server::Http2Options;

/// Options of an [`XdsServer`](super::XdsServer).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct XdsServerOptions {
    /// Name of the listener.
    pub listener: ResourceName,
    /// Certificate provider instances with the files that they watch, by name ([gRFC A29][A29]).
    ///
    /// [A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
    pub certificate_providers: BTreeMap<String, TlsFiles>,
    /// Maximum time for calls to end on a connection whose listener was replaced or deleted; 10
    /// minutes by default. Calls that begin on it more than 10 s after GOAWAY fail.
    pub drain_grace: Duration,
    /// Maximum time for calls to end at a shutdown; 5 s by default.
    pub shutdown_grace: Duration,
    /// Limits of the connections.
    pub connections: Http2Options,
    /// Seed of random decisions, which routes with a runtime fraction need; `None` selects a random
    /// seed.
    pub seed: Option<u64>,
}

impl XdsServerOptions {
    /// Creates the default options for a server whose listener has this name.
    #[must_use]
    pub fn new(listener: impl Into<ResourceName>) -> Self {
        Self {
            listener: listener.into(),
            certificate_providers: BTreeMap::new(),
            drain_grace: Duration::from_secs(600),
            shutdown_grace: Duration::from_secs(5),
            connections: Http2Options::default(),
            seed: None,
        }
    }

    /// Adds a certificate provider instance with the files that it watches
    /// ([`CertificateProvider::file_watcher`](xds_bootstrap::CertificateProvider::file_watcher)).
    #[must_use]
    pub fn with_certificate_provider(mut self, name: impl Into<String>, files: TlsFiles) -> Self {
        self.certificate_providers.insert(name.into(), files);
        self
    }

    /// Sets the maximum time for calls to end on a connection whose listener was replaced or
    /// deleted.
    #[must_use]
    pub fn with_drain_grace(self, drain_grace: Duration) -> Self {
        Self { drain_grace, ..self }
    }

    /// Sets the maximum time for calls to end at a shutdown.
    #[must_use]
    pub fn with_shutdown_grace(self, shutdown_grace: Duration) -> Self {
        Self { shutdown_grace, ..self }
    }

    /// Sets the limits of the connections.
    #[must_use]
    pub fn with_connections(self, connections: Http2Options) -> Self {
        Self { connections, ..self }
    }

    /// Sets the seed of random decisions.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }
}
