//! Options of a client's transport. The protocol is configured with the core's `ClientConfig`.

use core::time::Duration;
use std::sync::Arc;

use xds_bootstrap::{
    Bootstrap,
    envoy::{EnvoyBootstrap, Target},
};
use xds_core::client::TransportId;

use super::service::{Service, Transports};
use crate::{
    credentials::Credentials,
    keepalive::Keepalive,
    payload::{PayloadPrinter, Printer},
    resolve::Resolve,
};

/// Options for connections and logs of a client.
///
/// The maximum response size is set in the core, because it protects against misbehaving servers:
/// [`ClientLimits::response_bytes`](xds_core::client::ClientLimits::response_bytes), 256 MiB by
/// default. gRPC's default of 4 MiB is too small even for ordinary meshes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Seed of the core's random numbers. `None`, the default, selects a random seed. Do not share
    /// a seed between clients: all of them would reconnect to a restarted server at the same
    /// moment.
    pub seed: Option<u64>,
    /// Maximum time of an attempt to connect, including name resolution, all addresses, TLS and the
    /// server's HTTP/2 SETTINGS. 20 s by default, as in gRPC.
    pub connect_timeout: Duration,
    /// Keepalive pings and probes, which detect dead connections; [`Keepalive::CLIENT`] by default.
    pub keepalive: Keepalive,
    /// Maximum size of a request in bytes; 256 MiB by default. A larger request ends the stream
    /// with `RESOURCE_EXHAUSTED`.
    pub max_request_bytes: usize,
    pub(crate) printer: Printer,
    pub(crate) transports: Transports,
    /// Custom resolver; `None` selects the operating system's.
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
    /// Sets the seed of the core's random numbers.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the maximum time of an attempt to connect.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the credentials of a transport, which servers refer to by its name. The default name
    /// applies to servers without a transport name.
    #[must_use]
    pub fn with_credentials(mut self, transport: TransportId, credentials: Credentials) -> Self {
        self.transports.set_credentials(transport, credentials);
        self
    }

    /// Sets the services of a transport. Servers that name this transport are reached through them.
    ///
    /// The client connects to the first service. If connecting fails or the stream ends without a
    /// response, the next attempt uses the next service, and after the last service the first one
    /// again. The core schedules the attempts.
    // B18
    #[must_use]
    pub fn with_services(
        mut self,
        transport: TransportId,
        services: impl IntoIterator<Item = Service>,
    ) -> Self {
        self.transports.set_services(transport, services.into_iter().collect());
        self
    }

    /// Sets the credentials of every server of a gRPC bootstrap.
    #[must_use]
    pub fn with_bootstrap(self, bootstrap: &Bootstrap) -> Self {
        bootstrap.all_servers().fold(self, |options, server| {
            options.with_credentials(server.transport_id(), Credentials::from(server))
        })
    }

    /// Sets the services of every server of an Envoy bootstrap.
    ///
    /// `service` maps a cluster name, or a `google_grpc` service with its credentials, to a
    /// [`Service`]. If the bootstrap limits the response size of a cluster, the smaller of that
    /// limit and the one set by `service` applies.
    ///
    /// # Errors
    ///
    /// Returns the first error of `service`.
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

    /// Sets the resource types that polled servers and files can contain. By default these are the
    /// types of the Envoy API.
    #[cfg(any(feature = "files", feature = "rest"))]
    #[must_use]
    pub fn with_schema(mut self, schema: &'static xds_format::Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Replaces the operating system's name resolver.
    #[must_use]
    pub fn with_resolver(mut self, resolver: impl Resolve + 'static) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Sets the keepalive pings and probes.
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// Sets the maximum size of a request in bytes.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets the printer of resources in logs at the level TRACE. By default only sizes are printed.
    #[must_use]
    pub fn with_payload_printer(mut self, printer: impl PayloadPrinter + 'static) -> Self {
        self.printer = Printer(Arc::new(printer));
        self
    }
}
