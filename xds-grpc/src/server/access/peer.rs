//! Identity of the other end of a connection.

use core::{fmt, net::SocketAddr};
use std::{path::Path, sync::Arc};

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Identity of the other end of a connection, as known to the transport.
///
/// [`ManagementServer::serve`](crate::server::ManagementServer::serve) sets it for every connection. In
/// another gRPC server, the service reads it from the request's extensions. If it is missing, the
/// address comes from tonic's `TcpConnectInfo` (feature `tonic-server`).
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// IP address and port of the client, if it is connected over TCP.
    pub address: Option<SocketAddr>,
    /// The server's socket file, if the client is connected over one. Such clients have no address.
    pub socket: Option<Arc<Path>>,
    /// Verified certificate chain of the client, its own certificate first. Empty without mutual
    /// TLS.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

impl Peer {
    /// Creates a peer with an address.
    #[must_use]
    pub fn new(address: Option<SocketAddr>) -> Self {
        Self { address, socket: None, certificates: Arc::default() }
    }

    /// Sets the server's socket file over which the client is connected.
    #[must_use]
    pub fn with_socket(self, socket: impl Into<Arc<Path>>) -> Self {
        Self { socket: Some(socket.into()), ..self }
    }

    /// Sets the certificate chain, which must have been verified by the TLS endpoint.
    #[must_use]
    pub fn with_certificates(self, chain: impl Into<Arc<[CertificateDer<'static>]>>) -> Self {
        Self { certificates: chain.into(), ..self }
    }

    /// Returns the DNS names in the client's certificate.
    #[must_use]
    pub fn dns_names(&self) -> Vec<String> {
        self.names(|certificate| certificate.valid_dns_names().map(Into::into).collect())
    }

    /// Returns the URIs in the client's certificate, such as a SPIFFE id.
    #[must_use]
    pub fn uris(&self) -> Vec<String> {
        self.names(|certificate| certificate.valid_uri_names().map(Into::into).collect())
    }

    /// Returns the identity in the client's certificate: its first URI, or its first DNS name if it
    /// has no URI.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        self.uris().into_iter().chain(self.dns_names()).next()
    }

    fn names(&self, names: impl FnOnce(EndEntityCert<'_>) -> Vec<String>) -> Vec<String> {
        let own = self.certificates.first();
        own.and_then(|own| EndEntityCert::try_from(own).ok()).map(names).unwrap_or_default()
    }

    pub(crate) fn of<B>(request: &http::Request<B>) -> Self {
        let extensions = request.extensions();
        if let Some(peer) = extensions.get::<Self>() {
            return peer.clone();
        }
        #[cfg(feature = "tonic-server")]
        let address = {
            use tonic::transport::server::TcpConnectInfo;
            extensions.get().and_then(TcpConnectInfo::remote_addr)
        };
        #[cfg(not(feature = "tonic-server"))]
        let address = None;
        Self::new(address)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("address", &self.address)
            .field("socket", &self.socket)
            .field("certificates", &self.certificates.len())
            .finish()
    }
}
