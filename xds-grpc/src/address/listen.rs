//! Listen addresses of a server.

use core::{fmt, net::SocketAddr, str::FromStr};
use std::path::{Path, PathBuf};

use http::uri::Authority;

use super::fault::AddressFault;

/// Address on which a server listens.
///
/// | form | meaning |
/// |---|---|
/// | `:PORT` | all interfaces, over IPv6 and IPv4 where available |
/// | `ADDRESS:PORT`, `[ADDRESS]:PORT` | an IP address |
/// | `HOST:PORT` | the first address of a host name that can be bound |
/// | `unix:PATH`, `unix:///PATH` | a socket file, for clients on this machine: see [`UnixSocket`] |
///
/// `0.0.0.0:PORT` is all interfaces over IPv4. `[::]:PORT` is all interfaces over IPv6, and over
/// IPv4 if the system is configured for it. Port 0 selects a free port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// A port on all interfaces.
    AllInterfaces(u16),
    /// An IP address.
    Ip(SocketAddr),
    /// A host name and a port.
    Host(String, u16),
    /// A socket file.
    Unix(UnixSocket),
}

/// Socket file of a Unix domain socket.
///
/// A stale file of a server that has ended is replaced. Listening fails if another server uses the
/// file, or if the file is not a socket. The file is removed when the listener is dropped. While a
/// server starts or ends it holds the lock file `PATH.lock`, so that only one of several servers
/// gets the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSocket {
    path: PathBuf,
    mode: u32,
}

/// Address of a bound listener.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BoundAddress {
    /// An IP address, with the actual port if port 0 was requested.
    Ip(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

impl UnixSocket {
    /// Mode that allows connections from processes of the same user only.
    const OWNER_ONLY: u32 = 0o600;

    /// Creates the address of a socket file to which only processes of the same user can connect
    /// (mode `0o600`).
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), mode: Self::OWNER_ONLY }
    }

    /// Sets the file's mode, as for chmod. Clients need write permission to connect.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the mode of the file.
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.mode
    }
}

impl FromStr for ListenAddress {
    type Err = AddressFault;

    fn from_str(text: &str) -> Result<Self, AddressFault> {
        if let Some(path) = text.strip_prefix("unix:") {
            // An absolute path may be written as a URI.
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            return match path.trim_start_matches('/').chars().next() {
                None => Err(AddressFault::NoPath),
                Some('@') if path.starts_with('@') => Err(AddressFault::Abstract),
                Some(_) => Ok(Self::Unix(UnixSocket::new(path))),
            };
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let fault = || AddressFault::of(text, "unix");
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| match port {
                port if port.is_empty() || port.contains(':') => fault(),
                port => AddressFault::BadPort(port.to_owned()),
            })?;
            return Ok(Self::AllInterfaces(port));
        }
        let authority: Authority = text.parse().map_err(|_| fault())?;
        let (host, port) = (authority.host(), authority.port_u16());
        // A valid IP address in brackets was handled above.
        let is_host = !host.is_empty() && !host.starts_with('[') && !text.contains('@');
        match port.filter(|_| is_host) {
            Some(port) => Ok(Self::Host(host.to_owned(), port)),
            None => Err(fault()),
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl From<UnixSocket> for ListenAddress {
    fn from(socket: UnixSocket) -> Self {
        Self::Unix(socket)
    }
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => fmt::Display::fmt(address, f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_address_forms_are_parsed() {
        let ip = |text: &str| ListenAddress::Ip(text.parse().expect("an address"));
        let host = |host: &str, port| ListenAddress::Host(host.into(), port);
        let unix = |path: &str| ListenAddress::Unix(UnixSocket::new(path));
        for (text, expected) in [
            (":18000", ListenAddress::AllInterfaces(18_000)),
            (":0", ListenAddress::AllInterfaces(0)),
            ("127.0.0.1:18000", ip("127.0.0.1:18000")),
            ("[::]:18000", ip("[::]:18000")),
            ("[::1]:0", ip("[::1]:0")),
            ("localhost:18000", host("localhost", 18_000)),
            ("unix:/run/xds.sock", unix("/run/xds.sock")),
            ("unix:///run/xds.sock", unix("/run/xds.sock")),
            ("unix:xds.sock", unix("xds.sock")),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        let ListenAddress::Unix(socket) = unix("s") else { panic!("a socket") };
        assert_eq!((socket.mode(), socket.with_mode(0o660).mode()), (0o600, 0o660));
    }

    #[test]
    fn invalid_listen_address_is_rejected_with_advice() {
        for (text, says) in [
            ("", "the address is empty"),
            ("localhost", "the port is missing: write HOST:PORT, as in localhost:18000"),
            ("18000", "the host is missing"),
            (":", "the port is missing"),
            (":http", "\"http\" is not a port"),
            (":99999", "\"99999\" is not a port"),
            ("127.0.0.1:99999", "\"99999\" is not a port"),
            ("::1", "as in [::1]:18000"),
            ("/run/xds.sock", "unix:/run/xds.sock"),
            ("xds.sock", "the port is missing"),
            ("unix:", "the path after \"unix:\" is missing"),
            ("unix:///", "the path after \"unix:\" is missing"),
            ("unix:@xds", "abstract sockets are not supported"),
            ("unix-abstract:xds", "abstract sockets are not supported"),
            ("http://127.0.0.1:80", "the scheme \"http:\" is not supported here: expected unix"),
            ("a b:1", "write HOST:PORT"),
        ] {
            let refused = text.parse::<ListenAddress>().expect_err(text).to_string();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }

    #[test]
    fn bound_address_is_printed_as_a_client_target() {
        let ip = BoundAddress::Ip("[::1]:18000".parse().expect("an address"));
        assert_eq!(ip.to_string(), "[::1]:18000");
        assert_eq!(BoundAddress::Unix("/run/x".into()).to_string(), "unix:/run/x");
    }
}
