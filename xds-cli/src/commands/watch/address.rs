//! Whether a server's address is one: told at once, rather than by a client that tries for ever.

use tokio::net::lookup_host;

use crate::failure::Failure;

/// Checks the form of an address and, where it has a host name, that there is such a host.
pub(crate) async fn check(address: &str) -> Result<(), Failure> {
    xds_tokio::client::check_address(address)?;
    if ["unix:", "ipv4:", "ipv6:"].iter().any(|scheme| address.starts_with(scheme)) {
        return Ok(());
    }
    let host = address.strip_prefix("dns:").map_or(address, |name| name.trim_start_matches('/'));
    let host = ["http://", "https://"]
        .iter()
        .find_map(|scheme| host.strip_prefix(scheme))
        .unwrap_or(host)
        .trim_end_matches('/');
    match lookup_host(host).await {
        Ok(_) => Ok(()),
        Err(why) => Err(Failure::Resolve { address: address.to_owned(), why }),
    }
}
