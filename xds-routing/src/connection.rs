//! Connections of a server, as far as filter chains and access rules ask about them.

use alloc::{string::String, vec::Vec};
use core::net::{IpAddr, SocketAddr};

/// Connection that a server has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// Address of the server.
    pub local: SocketAddr,
    /// Address of the client.
    pub remote: SocketAddr,
    /// Security of the connection.
    pub security: ConnectionSecurity,
}

impl Connection {
    /// Creates a connection without TLS. IPv4 addresses that are mapped to IPv6 become IPv4
    /// addresses, because rules are written with those.
    #[must_use]
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        let security = ConnectionSecurity::Plaintext;
        Self { local: canonical(local), remote: canonical(remote), security }
    }

    /// Sets the security of the connection, after its TLS handshake.
    #[must_use]
    pub fn with_security(self, security: ConnectionSecurity) -> Self {
        Self { security, ..self }
    }
}

/// Security of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionSecurity {
    /// No TLS.
    #[default]
    Plaintext,
    /// TLS without a client certificate.
    Tls,
    /// TLS with a client certificate.
    MutualTls(ClientIdentity),
}

/// Names in the verified certificate of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Subject alternative names that are URIs.
    pub uris: Vec<String>,
    /// Subject alternative names that are DNS names.
    pub dns_names: Vec<String>,
    /// Distinguished name of the subject, in the form of [RFC 2253].
    ///
    /// [RFC 2253]: https://www.rfc-editor.org/rfc/rfc2253
    pub subject: String,
}

fn canonical(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = address.ip().to_canonical();
    SocketAddr::new(ip, address.port())
}
