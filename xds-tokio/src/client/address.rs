//! The forms in which a management server's address may be written.

use thiserror::Error;
use tonic::transport::Endpoint;

/// Why an address is not one that can be dialled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidAddress {
    /// It is neither `host:port`, nor `http://host:port`, nor `unix:path`.
    #[error("{0:?} is not the address of a server")]
    Malformed(String),
    /// It asks for TLS, which this version does not speak yet.
    #[error("{0:?} asks for TLS, which is not supported yet")]
    TlsNotSupported(String),
}

/// Checks the address of a management server, as
/// [`ManagementServer::uri`](xds_core::client::ManagementServer::uri) has it, without dialling it.
///
/// `host:port`, `http://host:port`, `dns:///host:port` and `unix:path` are understood. A client that
/// is given anything else reports it to its watchers as a server that cannot be reached.
///
/// # Errors
///
/// Why the address cannot be dialled.
pub fn check_address(address: &str) -> Result<(), InvalidAddress> {
    endpoint(address).map(drop)
}

/// What dials the address.
pub(crate) fn endpoint(address: &str) -> Result<Endpoint, InvalidAddress> {
    let malformed = || InvalidAddress::Malformed(address.to_owned());
    if address.starts_with("https:") {
        return Err(InvalidAddress::TlsNotSupported(address.to_owned()));
    }
    if let Some(path) = address.strip_prefix("unix:") {
        if path.trim_start_matches('/').is_empty() {
            return Err(malformed());
        }
        return Endpoint::from_shared(address.to_owned()).map_err(|_| malformed());
    }
    let host = address.strip_prefix("dns:").map_or(address, |name| name.trim_start_matches('/'));
    let uri = if host.starts_with("http://") { host.to_owned() } else { format!("http://{host}") };
    let parsed: http::Uri = uri.parse().map_err(|_| malformed())?;
    let has_host = parsed.host().is_some_and(|host| !host.is_empty());
    let has_path = parsed.path() != "/" || parsed.query().is_some();
    // Credentials have no business in an address that is logged.
    let has_user = parsed.authority().is_some_and(|authority| authority.as_str().contains('@'));
    if !has_host || parsed.port_u16().is_none() || has_path || has_user {
        return Err(malformed());
    }
    Endpoint::from_shared(uri).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_forms_are_understood() {
        for address in [
            "127.0.0.1:18000",
            "localhost:1",
            "[::1]:18000",
            "http://xds.example:80",
            "http://xds.example:80/",
            "dns:///xds.example:443",
            "dns:xds.example:443",
            "unix:/run/xds.sock",
            "unix:///run/xds.sock",
        ] {
            assert_eq!(check_address(address), Ok(()), "{address}");
        }
    }

    #[test]
    fn anything_else_is_refused_before_dialling() {
        for address in [
            "",
            ":80",
            "xds.example",
            "ftp://xds.example:21",
            "a b:1",
            "h:1/path",
            "h:99999",
            "unix:",
        ] {
            assert_eq!(
                check_address(address),
                Err(InvalidAddress::Malformed(address.into())),
                "{address}"
            );
        }
        assert!(matches!(
            check_address("https://xds.example:443"),
            Err(InvalidAddress::TlsNotSupported(_))
        ));
    }
}
