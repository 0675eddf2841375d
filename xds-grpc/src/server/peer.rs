//! Who is at the other end of a connection.

use core::{fmt, net::SocketAddr};
use std::{path::Path, sync::Arc};

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Who is at the other end of a connection, as far as its transport knows.
///
/// Connections of [`ManagementServer::serve`](super::ManagementServer::serve) have one. In a gRPC
/// server of one's own the service looks for one among the extensions of the request, and else for
/// tonic's `TcpConnectInfo` (feature `tonic-server`).
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Where it connects from, if that is an IP address.
    pub address: Option<SocketAddr>,
    /// The socket file of the server that it has connected to, if it came over one. Clients have no address there.
    pub socket: Option<Arc<Path>>,
    /// The certificates that it showed, its own one first, and that were found to be sound; none
    /// without mutual TLS.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

impl Peer {
    /// A client of which nothing is known but its address.
    #[must_use]
    pub fn new(address: Option<SocketAddr>) -> Self {
        Self { address, socket: None, certificates: Arc::default() }
    }

    /// Says over which socket file of the server the client came.
    #[must_use]
    pub fn over_socket(self, socket: impl Into<Arc<Path>>) -> Self {
        Self { socket: Some(socket.into()), ..self }
    }

    /// Adds certificates that whoever terminates TLS has checked.
    #[must_use]
    pub fn with_certificates(self, chain: impl Into<Arc<[CertificateDer<'static>]>>) -> Self {
        Self { certificates: chain.into(), ..self }
    }

    /// The DNS names that the client's certificate is for; none if it showed none.
    #[must_use]
    pub fn dns_names(&self) -> Vec<String> {
        self.names(|certificate| certificate.valid_dns_names().map(Into::into).collect())
    }

    /// The URIs that the client's certificate is for, as a SPIFFE id is one; none if it showed none.
    #[must_use]
    pub fn uris(&self) -> Vec<String> {
        self.names(|certificate| certificate.valid_uri_names().map(Into::into).collect())
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
