//! Parsing of management server addresses.

use core::net::SocketAddr;
use std::path::PathBuf;

use http::uri::Authority;
use thiserror::Error;

use super::fault::AddressFault;

/// Reason why an address is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidAddress {
    /// The address has none of the forms that [`check_address`] lists.
    #[error("{address:?} is not a server address: {fault}")]
    Malformed {
        /// The address.
        address: String,
        /// Fault in the address.
        fault: AddressFault,
    },
    /// The address contains credentials (`user:password@`).
    #[error("the address {address:?} contains credentials: remove USER:PASSWORD@")]
    Credentials {
        /// The address without the credentials.
        address: String,
    },
}

/// Supported schemes, as listed in error messages.
const SCHEMES: &str = "http, https, dns, ipv4, ipv6, unix";

/// Checks the address of a management server, as in
/// [`ServerAddress::uri`](xds_core::client::ServerAddress::uri), without connecting.
///
/// | form | meaning |
/// |---|---|
/// | `host:port`, `dns:///host:port` | a host name or an IP address |
/// | `http://host:port` | a host name or an IP address, always without TLS |
/// | `https://host:port` | a host name or an IP address, always with TLS |
/// | `ipv4:address:port,...`, `ipv6:[address]:port,...` | addresses to try in this order |
/// | `unix:path`, `unix:///path` | a Unix domain socket |
///
/// For `https`, the system's root certificates are trusted unless other credentials are set.
/// Abstract Unix sockets are not supported. A client reports a server with an invalid address to
/// its watchers as unreachable.
///
/// # Errors
///
/// Returns the reason why the address is invalid.
pub fn check_address(address: &str) -> Result<(), InvalidAddress> {
    Target::parse(address).map(drop)
}

/// Removes `user:password@` from an address, for logs and messages.
pub(crate) fn without_credentials(address: &str) -> &str {
    // A path may contain `@`.
    if address.starts_with("unix:") {
        return address;
    }
    address.rsplit_once('@').map_or(address, |(_, rest)| rest)
}

/// Parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) scheme: Scheme,
    /// Value of `:authority` in calls.
    pub(crate) authority: Authority,
}

/// Endpoint to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Host name or IP address without brackets, and port.
    Host(String, u16),
    /// IP addresses, at least one.
    Addresses(Vec<SocketAddr>),
    Unix(PathBuf),
}

/// TLS requirement of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Unstated,
    Http,
    Https,
}

impl Target {
    pub(crate) fn parse(address: &str) -> Result<Self, InvalidAddress> {
        Self::read(address).ok_or_else(|| {
            let shown = without_credentials(address);
            if shown != address {
                return InvalidAddress::Credentials { address: shown.to_owned() };
            }
            let fault = AddressFault::of(address, SCHEMES);
            InvalidAddress::Malformed { address: address.to_owned(), fault }
        })
    }

    /// Returns the host name that the server's certificate must match, without brackets.
    pub(crate) fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }

    fn read(address: &str) -> Option<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            // An absolute path may be written as a URI.
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            let endpoint = Endpoint::Unix(path.into());
            let is_path = !path.trim_start_matches('/').is_empty() && !path.starts_with('@');
            let authority = Authority::from_static("localhost");
            return is_path.then_some(Self { endpoint, scheme: Scheme::Unstated, authority });
        }
        for (scheme, is_family) in [
            ("ipv4:", SocketAddr::is_ipv4 as fn(&SocketAddr) -> bool),
            ("ipv6:", SocketAddr::is_ipv6),
        ] {
            if let Some(list) = address.strip_prefix(scheme) {
                let addresses: Vec<SocketAddr> = list
                    .split(',')
                    .map(|one| one.parse().ok().filter(is_family))
                    .collect::<Option<_>>()?;
                let authority = addresses.first()?.to_string().parse().ok()?;
                let endpoint = Endpoint::Addresses(addresses);
                return Some(Self { endpoint, scheme: Scheme::Unstated, authority });
            }
        }
        let (scheme, rest) = if let Some(rest) = address.strip_prefix("http://") {
            (Scheme::Http, rest.strip_suffix('/').unwrap_or(rest))
        } else if let Some(rest) = address.strip_prefix("https://") {
            (Scheme::Https, rest.strip_suffix('/').unwrap_or(rest))
        } else {
            let name = address.strip_prefix("dns:");
            (Scheme::Unstated, name.map_or(address, |name| name.trim_start_matches('/')))
        };
        let authority: Authority = rest.parse().ok()?;
        // Addresses are logged, so they must not contain credentials.
        if authority.as_str().contains('@') {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16()?;
        let endpoint = Endpoint::Host(host, port);
        (!authority.host().is_empty()).then_some(Self { endpoint, scheme, authority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_address_forms_are_parsed() {
        let host = |host: &str, port| Endpoint::Host(host.into(), port);
        let socket = || Endpoint::Unix("/run/xds.sock".into());
        for (address, scheme, endpoint, authority) in [
            ("127.0.0.1:1", Scheme::Unstated, host("127.0.0.1", 1), "127.0.0.1:1"),
            ("localhost:1", Scheme::Unstated, host("localhost", 1), "localhost:1"),
            ("[::1]:18000", Scheme::Unstated, host("::1", 18000), "[::1]:18000"),
            ("http://xds.example:80", Scheme::Http, host("xds.example", 80), "xds.example:80"),
            ("http://xds.example:80/", Scheme::Http, host("xds.example", 80), "xds.example:80"),
            ("https://xds.example:443", Scheme::Https, host("xds.example", 443), "xds.example:443"),
            ("dns:///a.b:443", Scheme::Unstated, host("a.b", 443), "a.b:443"),
            ("dns:a.b:443", Scheme::Unstated, host("a.b", 443), "a.b:443"),
            ("unix:/run/xds.sock", Scheme::Unstated, socket(), "localhost"),
            ("unix:///run/xds.sock", Scheme::Unstated, socket(), "localhost"),
        ] {
            let authority = Authority::from_static(authority);
            assert_eq!(
                Target::parse(address),
                Ok(Target { endpoint, scheme, authority }),
                "{address}"
            );
        }
        let addresses = |list: &[&str]| {
            Endpoint::Addresses(list.iter().map(|one| one.parse().expect("an address")).collect())
        };
        let target = Target::parse("ipv4:10.0.0.1:80,10.0.0.2:81").expect("a list");
        assert_eq!(target.endpoint, addresses(&["10.0.0.1:80", "10.0.0.2:81"]));
        assert_eq!((target.authority.as_str(), target.host()), ("10.0.0.1:80", "10.0.0.1"));
        let target = Target::parse("ipv6:[::1]:80").expect("a list");
        assert_eq!((target.endpoint.clone(), target.host()), (addresses(&["[::1]:80"]), "::1"));
    }

    #[test]
    fn invalid_target_address_is_rejected() {
        for address in [
            "",
            ":80",
            "xds.example",
            "ftp://xds.example:21",
            "a b:1",
            "h:1/path",
            "https://h:1/path",
            "https://h",
            "h:99999",
            "dns://8.8.8.8/h:1",
            "ipv4:",
            "ipv4:localhost:1",
            "ipv4:[::1]:1",
            "ipv4:10.0.0.1:80,",
            "ipv6:10.0.0.1:80",
            "unix:",
            "unix:///",
            "unix:@xds",
        ] {
            let refused = match check_address(address) {
                Err(InvalidAddress::Malformed { address, .. }) => address,
                other => panic!("{address}: {other:?}"),
            };
            assert_eq!(refused, address);
        }
    }

    #[test]
    fn credentials_in_an_address_are_rejected_and_not_shown() {
        for address in ["user@h:1", "https://user:hush@h:1", "user:hu@sh@h:1", "ipv4:hush@h:1"] {
            let refused = InvalidAddress::Credentials { address: "h:1".into() };
            assert_eq!(check_address(address), Err(refused.clone()));
            assert!(!refused.to_string().contains("hush"), "{refused}");
        }
        assert_eq!(without_credentials("unix:/run/a@b"), "unix:/run/a@b");
    }
}
