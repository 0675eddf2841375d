//! Faults in the address of a server, with advice on what to write instead.

use core::net::Ipv6Addr;

use thiserror::Error;

/// Fault in the address of a server. The `Display` text says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressFault {
    /// The address is empty.
    #[error("the address is empty: write HOST:PORT, as in 127.0.0.1:18000, or unix:PATH")]
    Empty,
    /// The port is missing.
    #[error("the port is missing: write HOST:PORT, as in {0}:18000")]
    NoPort(String),
    /// The address is a port without a host.
    #[error("the host is missing: write HOST:PORT, as in 127.0.0.1:{0}")]
    NoHost(String),
    /// The port is not a number up to 65535.
    #[error("{0:?} is not a port: expected a number from 0 to 65535")]
    BadPort(String),
    /// An IPv6 address has no brackets.
    #[error("an IPv6 address needs brackets before the port, as in [{0}]:18000")]
    NoBrackets(String),
    /// An IPv6 address has no brackets, and its end may be a port.
    #[error(
        "an IPv6 address needs brackets before the port: write [{address}]:{port}, or [{address}:{port}]:18000 if {port} is a part of the address"
    )]
    MaybePort {
        /// The address if its last group is a port.
        address: String,
        /// The last group, read as a port.
        port: u16,
    },
    /// An IPv6 address with a port has no brackets.
    #[error("an IPv6 address needs brackets before the port: write [{address}]:{port}")]
    PortWithoutBrackets {
        /// The address.
        address: String,
        /// The port.
        port: u16,
    },
    /// The address is a path without `unix:`.
    #[error("a socket file needs \"unix:\" before its path: unix:{0}")]
    Path(String),
    /// The path after `unix:` is missing.
    #[error("the path after \"unix:\" is missing: write unix:PATH, as in unix:/run/xds.sock")]
    NoPath,
    /// The address names an abstract socket.
    #[error("abstract sockets are not supported: write unix:PATH, as in unix:/run/xds.sock")]
    Abstract,
    /// The scheme is not supported for this kind of address.
    #[error("the scheme \"{scheme}:\" is not supported here: expected {expected}")]
    Scheme {
        /// The unsupported scheme.
        scheme: String,
        /// The supported schemes, separated by commas.
        expected: &'static str,
    },
    /// A path follows the port.
    #[error("a server address ends with its port: remove {0:?}")]
    Rest(String),
    /// Any other fault.
    #[error("write HOST:PORT, as in 127.0.0.1:18000, or unix:PATH")]
    Other,
}

impl AddressFault {
    /// Finds the fault in an address that is neither `host:port` nor a valid URI. `expected` lists
    /// the supported schemes.
    pub(crate) fn of(address: &str, expected: &'static str) -> Self {
        let rest = match address.split_once("://") {
            _ if address.is_empty() => return Self::Empty,
            Some((scheme, _)) if !expected.split(", ").any(|it| it == scheme) => {
                return Self::Scheme { scheme: scheme.to_owned(), expected };
            }
            Some((_, rest)) => rest,
            None => address.strip_prefix("dns:").unwrap_or(address),
        };
        if address.starts_with("unix-abstract:") || address.starts_with("unix:@") {
            return Self::Abstract;
        }
        if address.starts_with("unix:") {
            return Self::NoPath;
        }
        if rest == address && (address.starts_with(['/', '.', '~']) || has_path(address)) {
            return Self::Path(address.to_owned());
        }
        if let Some((host, path)) = rest.split_once('/') {
            let is_slash = path.is_empty();
            return match host.rsplit_once(':') {
                Some((_, port)) if port.parse::<u16>().is_ok() && !is_slash => {
                    Self::Rest(format!("/{path}"))
                }
                _ => Self::of_host_and_port(host),
            };
        }
        Self::of_host_and_port(rest)
    }

    fn of_host_and_port(text: &str) -> Self {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
        let with_port = text.rsplit_once(':').filter(|(host, _)| is_address(host));
        let with_port = with_port.and_then(|(host, port)| {
            let port = port.parse().ok().filter(|_| is_number(port))?;
            Some((host.to_owned(), port))
        });
        match (is_address(text), with_port) {
            (true, None) => return Self::NoBrackets(text.to_owned()),
            (true, Some((address, port))) => return Self::MaybePort { address, port },
            (false, Some((address, port))) => return Self::PortWithoutBrackets { address, port },
            (false, None) => {}
        }
        match text.rsplit_once(':') {
            None if is_number(text) => Self::NoHost(text.to_owned()),
            None if text.contains(char::is_whitespace) || text.is_empty() => Self::Other,
            None => Self::NoPort(text.to_owned()),
            Some(("", port)) if is_number(port) => Self::NoHost(port.to_owned()),
            Some((host, "")) => Self::NoPort(host.to_owned()),
            Some((host, _)) if is_address(host) => Self::NoBrackets(host.to_owned()),
            Some((host, _)) if host.starts_with('[') && !host.ends_with(']') => {
                Self::NoPort(text.to_owned())
            }
            Some((_, port)) if port.parse::<u16>().is_err() => Self::BadPort(port.to_owned()),
            Some(_) => Self::Other,
        }
    }
}

/// Returns whether a slash comes before any colon, as in `run/xds.sock`.
fn has_path(address: &str) -> bool {
    address.split(':').next().is_some_and(|first| first.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_errors_state_what_to_write() {
        let expected = "http, https";
        for (address, says) in [
            ("", "the address is empty: write HOST:PORT"),
            ("xds.example", "the port is missing: write HOST:PORT, as in xds.example:18000"),
            (
                "https://xds.example",
                "the port is missing: write HOST:PORT, as in xds.example:18000",
            ),
            (
                "https://xds.example/",
                "the port is missing: write HOST:PORT, as in xds.example:18000",
            ),
            ("xds.example:", "the port is missing"),
            ("[::1]", "the port is missing: write HOST:PORT, as in [::1]:18000"),
            (":18000", "the host is missing: write HOST:PORT, as in 127.0.0.1:18000"),
            ("18000", "the host is missing: write HOST:PORT, as in 127.0.0.1:18000"),
            ("h:99999", "\"99999\" is not a port"),
            ("h:http", "\"http\" is not a port"),
            ("::1", "an IPv6 address needs brackets before the port, as in [::1]:18000"),
            ("::1:8080", "write [::1]:8080, or [::1:8080]:18000 if 8080 is a part of the address"),
            ("http://::1:8080", "write [::1]:8080, or [::1:8080]:18000"),
            ("fe80::a", "as in [fe80::a]:18000"),
            ("fe80::1:a", "as in [fe80::1:a]:18000"),
            ("::1:99999", "as in [::1]:18000"),
            ("1:2:3:4:5:6:7:8:80", "brackets before the port: write [1:2:3:4:5:6:7:8]:80"),
            ("::ffff:10.0.0.1:80", "brackets before the port: write [::ffff:10.0.0.1]:80"),
            ("/run/xds.sock", "needs \"unix:\" before its path: unix:/run/xds.sock"),
            ("./xds.sock", "unix:./xds.sock"),
            ("run/xds.sock", "unix:run/xds.sock"),
            ("unix:", "the path after \"unix:\" is missing"),
            ("unix-abstract:xds", "abstract sockets are not supported"),
            ("unix:@xds", "abstract sockets are not supported"),
            ("ftp://h:21", "the scheme \"ftp:\" is not supported here: expected http, https"),
            ("http://h:80/a/b", "remove \"/a/b\""),
            ("a b", "write HOST:PORT"),
        ] {
            let text = AddressFault::of(address, expected).to_string();
            assert!(text.contains(says), "{address}: {text}");
        }
    }
}
