//! Which services stand behind a management server, and which of them is dialled.

use core::fmt;
use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, uri::Authority};
use tonic::Status;
use xds_core::client::{ManagementServer, TransportId};

use crate::{credentials::Credentials, keepalive::TcpProbes, runtime::Shared};

/// A gRPC service that a client can connect to: where it is, how the channel is secured, what calls
/// carry.
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
    /// The service at an address in one of the forms of [`check_address`](super::check_address).
    #[must_use]
    pub fn new(target: impl Into<Arc<str>>, credentials: Credentials) -> Self {
        let target = target.into();
        let metadata = HeaderMap::new();
        let (authority, max_response_bytes, probes) = (None, usize::MAX, None);
        Self { target, credentials, authority, metadata, max_response_bytes, probes }
    }

    /// Names another `:authority` in calls than the one in the address.
    #[must_use]
    pub fn with_authority(mut self, authority: Authority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Adds a header to every call. Its value may be a secret: it is not printed. Whoever can read an
    /// insecure channel can read it all the same, except for `authorization`: with that header, the
    /// client does not connect without TLS.
    #[must_use]
    pub fn with_metadata(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.metadata.append(name, value);
        self
    }

    /// Takes no response from the service that is longer than this, in bytes: `max_receive_message_length`
    /// of a proxy's bootstrap (B18). A longer one ends the stream, as one does that is longer than what the
    /// core takes from anybody
    /// ([`ClientLimits::response_bytes`](xds_core::client::ClientLimits::response_bytes)).
    #[must_use]
    pub fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Has the operating system probe a silent connection to the service like this, whatever
    /// [`ClientOptions::keepalive`](super::ClientOptions::keepalive) says of others (S0.175).
    #[must_use]
    pub const fn with_tcp_probes(mut self, probes: TcpProbes) -> Self {
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

    /// What a call carries that is about to be made.
    pub(crate) async fn headers(&self, runtime: &Shared) -> Result<HeaderMap, Status> {
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

/// What the names of transports stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transports {
    known: BTreeMap<TransportId, Transport>,
    /// For servers that name no transport.
    default: Credentials,
}

#[derive(Clone, Debug)]
enum Transport {
    /// The server at its own address.
    Direct(Credentials),
    /// Others that stand for it, at least one.
    Services(Arc<[Service]>),
}

impl Transports {
    pub(crate) fn set_credentials(&mut self, id: TransportId, credentials: Credentials) {
        self.known.insert(id, Transport::Direct(credentials));
    }

    pub(crate) fn set_services(&mut self, id: TransportId, services: Arc<[Service]>) {
        self.known.insert(id, Transport::Services(services));
    }

    /// The service to connect to at an attempt, when so many before it have failed: all of them in turn
    /// (B18).
    pub(crate) fn service(
        &self,
        server: &ManagementServer,
        failures: usize,
    ) -> Result<Service, String> {
        let direct = |credentials: &Credentials| Service::new(&*server.uri, credentials.clone());
        match self.known.get(&server.transport) {
            Some(Transport::Direct(credentials)) => Ok(direct(credentials)),
            Some(Transport::Services(services)) => failures
                .checked_rem(services.len())
                .and_then(|at| services.get(at))
                .cloned()
                .ok_or_else(|| "no service stands behind the server".into()),
            None if server.transport.is_default() => Ok(direct(&self.default)),
            // Least of all is it dialled without protection.
            None => {
                Err(format!("nothing is known of the transport {:?}", server.transport.as_str()))
            }
        }
    }
}
