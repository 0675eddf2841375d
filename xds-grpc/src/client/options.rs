//! How a client's transport behaves. What is said on it is the core's matter.

use core::time::Duration;
use std::sync::Arc;

use xds_bootstrap::{
    Bootstrap,
    envoy::{EnvoyBootstrap, Target},
};
use xds_core::client::TransportId;

use super::{
    resolve::Resolve,
    service::{Service, Transports},
};
use crate::{
    credentials::Credentials,
    keepalive::Keepalive,
    payload::{PayloadPrinter, Printer},
};

/// How a client connects, and what it logs.
///
/// The longest response it takes is part of what it is protected by, and therefore in the core's
/// [`ClientLimits::response_bytes`](xds_core::client::ClientLimits::response_bytes): 256 MiB by
/// default, not gRPC's 4 MiB, which an ordinary mesh exceeds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// What the core's randomness starts from; `None`, the default, draws it. Two clients with one
    /// seed would come back to a restarted server at the same moment.
    pub seed: Option<u64>,
    /// How long connecting may take: resolving the name, trying every address behind it, TLS, and waiting for the
    /// server's HTTP/2 SETTINGS; 20 s by default, as in gRPC.
    pub connect_timeout: Duration,
    /// How a dead connection is found out; without it a server that vanished is never noticed.
    pub keepalive: Keepalive,
    /// The longest request that is sent, in bytes; 256 MiB by default. A subscription that exceeds
    /// it ends the stream with `RESOURCE_EXHAUSTED`.
    pub max_request_bytes: usize,
    pub(crate) printer: Printer,
    pub(crate) transports: Transports,
    /// `None` is the operating system's.
    pub(crate) resolver: Option<Arc<dyn Resolve>>,
    #[cfg(any(feature = "files", feature = "rest"))]
    pub(crate) schema: Option<&'static xds_format::Schema>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            seed: None,
            connect_timeout: Duration::from_secs(20),
            keepalive: Keepalive::CLIENT,
            max_request_bytes: 256 << 20,
            printer: Printer::default(),
            transports: Transports::default(),
            resolver: None,
            #[cfg(any(feature = "files", feature = "rest"))]
            schema: None,
        }
    }
}

impl ClientOptions {
    /// Fixes the core's randomness.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how long connecting may take.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// States the credentials of the servers that name this transport. The default name is that of
    /// servers that name none.
    #[must_use]
    pub fn with_credentials(mut self, transport: TransportId, credentials: Credentials) -> Self {
        self.transports.set_credentials(transport, credentials);
        self
    }

    /// States the services that stand for the servers that name this transport. The first one is
    /// connected to; when that fails, or its stream ends without a response, the next one is the turn,
    /// and after the last the first again (B18). The core decides when.
    #[must_use]
    pub fn with_services(
        mut self,
        transport: TransportId,
        services: impl IntoIterator<Item = Service>,
    ) -> Self {
        self.transports.set_services(transport, services.into_iter().collect());
        self
    }

    /// Takes the credentials of every server of a bootstrap.
    #[must_use]
    pub fn with_bootstrap(self, bootstrap: &Bootstrap) -> Self {
        bootstrap.all_servers().fold(self, |options, server| {
            options.with_credentials(server.transport_id(), Credentials::from(server))
        })
    }

    /// Takes the places of every server of a proxy's bootstrap. What the name of a cluster stands for,
    /// and what the credentials in a service of Google's form are, only `service` knows. A bound on
    /// responses that the bootstrap states for a cluster holds beside any that `service` sets.
    ///
    /// # Errors
    ///
    /// Those of `service`.
    pub fn with_envoy_bootstrap<E>(
        self,
        bootstrap: &EnvoyBootstrap,
        mut service: impl FnMut(Target<'_>) -> Result<Service, E>,
    ) -> Result<Self, E> {
        bootstrap.transports().try_fold(self, |options, (transport, targets)| {
            let bounded = |target: Target<'_>| {
                let made = service(target)?;
                let bytes = target.max_response_bytes();
                let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
                let bytes = bytes.unwrap_or(usize::MAX).min(made.max_response_bytes());
                Ok(made.with_max_response_bytes(bytes))
            };
            let services: Vec<_> = targets.into_iter().map(bounded).collect::<Result<_, E>>()?;
            Ok(options.with_services(transport, services))
        })
    }

    /// Sets the types of resources that servers which are polled can send, and that files can have; by
    /// default those of the Envoy API.
    #[cfg(any(feature = "files", feature = "rest"))]
    #[must_use]
    pub fn with_schema(mut self, schema: &'static xds_format::Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Replaces the operating system's resolver of names.
    #[must_use]
    pub fn with_resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Sets how a dead connection is found out.
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Sets the longest request that is sent, in bytes.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets what logs at the level TRACE show of resources; by default their sizes.
    #[must_use]
    pub fn with_payload_printer(mut self, printer: impl PayloadPrinter + 'static) -> Self {
        self.printer = Printer(Arc::new(printer));
        self
    }
}
