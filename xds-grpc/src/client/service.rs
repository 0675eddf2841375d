//! Services of a management server, and the order in which they are dialed.

use core::fmt;
use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, uri::Authority};
use tonic::Status;
use xds_core::client::{ServerAddress, TransportId};

use crate::{credentials::Credentials, keepalive::TcpProbes, runtime::SharedRuntime};

/// gRPC service to connect to: its address, credentials and call metadata.
#[derive(Clone)]
pub struct Service {
    target: Arc<str>,
    credentials: Credentials,
    authority: Option<Authority>,
    metadata: HeaderMap,
    max_response_bytes: usize,
    probes: Option<TcpProbes>,
}

impl Service {
    /// Creates a service at an address in one of the forms of
    /// [`check_address`](super::check_address).
    #[must_use]
    pub fn new(target: impl Into<Arc<str>>, credentials: Credentials) -> Self {
        let target = target.into();
        let metadata = HeaderMap::new();
        let (authority, max_response_bytes, probes) = (None, usize::MAX, None);
        Self { target, credentials, authority, metadata, max_response_bytes, probes }
    }

    /// Sets the `:authority` of calls. By default it is taken from the address.
    #[must_use]
    pub fn with_authority(mut self, authority: Authority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Adds a header to every call. The value is not printed, since it may be secret.
    ///
    /// On a connection without TLS anyone on the network path can read it. If an `authorization`
    /// header is set, the client therefore refuses to connect without TLS.
    #[must_use]
    pub fn with_metadata(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.metadata.append(name, value);
        self
    }

    /// Sets the maximum size of a response in bytes, like `max_receive_message_length` in an Envoy
    /// bootstrap.
    ///
    /// A larger response ends the stream. The client's general limit applies too
    /// ([`ClientLimits::response_bytes`](xds_core::client::ClientLimits::response_bytes)).
    // B18
    #[must_use]
    pub fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets the TCP keepalive probes of connections to this service, instead of those of
    /// [`ClientOptions::keepalive`](super::ClientOptions::keepalive).
    // S0.175
    #[must_use]
    pub const fn with_probes(mut self, probes: TcpProbes) -> Self {
        self.probes = Some(probes);
        self
    }

    pub(crate) const fn probes(&self) -> Option<TcpProbes> {
        self.probes
    }

    pub(crate) const fn max_response_bytes(&self) -> usize {
        self.max_response_bytes
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) const fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    pub(crate) const fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    pub(crate) const fn metadata(&self) -> &HeaderMap {
        &self.metadata
    }

    /// Returns the headers of the next call.
    pub(crate) async fn headers(&self, runtime: &SharedRuntime) -> Result<HeaderMap, Status> {
        self.credentials.headers(self.metadata.clone(), runtime).await
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("target", &self.target)
            .field("credentials", &self.credentials)
            .field("authority", &self.authority)
            .field("metadata", &self.metadata.keys())
            .field("max_response_bytes", &self.max_response_bytes)
            .field("probes", &self.probes)
            .finish()
    }
}

/// Configured transports by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transports {
    known: BTreeMap<TransportId, Transport>,
    /// Credentials of servers without a transport name.
    default: Credentials,
}

#[derive(Clone, Debug)]
enum Transport {
    /// The server's own address.
    Direct(Credentials),
    /// Services through which the server is reached, at least one.
    Services(Arc<[Service]>),
}

impl Transports {
    pub(crate) fn set_credentials(&mut self, id: TransportId, credentials: Credentials) {
        self.known.insert(id, Transport::Direct(credentials));
    }

    pub(crate) fn set_services(&mut self, id: TransportId, services: Arc<[Service]>) {
        self.known.insert(id, Transport::Services(services));
    }

    /// Returns the service to connect to after a number of failed attempts, in rotation.
    // B18
    pub(crate) fn service(
        &self,
        server: &ServerAddress,
        failures: usize,
    ) -> Result<Service, String> {
        let direct = |credentials: &Credentials| Service::new(&*server.uri, credentials.clone());
        match self.known.get(&server.transport) {
            Some(Transport::Direct(credentials)) => Ok(direct(credentials)),
            Some(Transport::Services(services)) => failures
                .checked_rem(services.len())
                .and_then(|at| services.get(at))
                .cloned()
                .ok_or_else(|| "the transport of the server has no gRPC services".into()),
            None if server.transport.is_default() => Ok(direct(&self.default)),
            // Never fall back to a connection without protection.
            None => Err(format!("the transport {:?} is not defined", server.transport.as_str())),
        }
    }
}
