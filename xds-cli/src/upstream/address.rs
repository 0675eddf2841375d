//! Early check of server addresses, so that a wrong address is an error instead of endless retries.

use tokio::{net::lookup_host, task::JoinSet};
use tracing::warn;
use xds_tokio::client::check_address;

use crate::failure::Failure;

/// Address, and the place where it is written, if errors must name it.
#[derive(Debug)]
pub(crate) struct ConfiguredAddress<'a> {
    pub(crate) address: &'a str,
    pub(crate) place: Option<String>,
}

/// Checks the syntax of all addresses and resolves their hosts.
///
/// A host that cannot be resolved causes a warning if another one can, because a fallback server
/// may replace it.
///
/// # Errors
///
/// Returns an error if an address is invalid, or if no host can be resolved.
pub(crate) async fn check(servers: &[ConfiguredAddress<'_>]) -> Result<(), Failure> {
    for server in servers {
        check_address(server.address).map_err(|why| at(server.place.clone(), why.into()))?;
    }
    let mut lookups = JoinSet::new();
    for (order, server) in servers.iter().enumerate() {
        let (address, place) = (server.address.to_owned(), server.place.clone());
        lookups.spawn(async move {
            let resolved = resolve(&address).await;
            (order, resolved.map_err(|why| at(place, Failure::Resolve { address, why })))
        });
    }
    let mut lookups = lookups.join_all().await;
    lookups.sort_unstable_by_key(|(order, _)| *order);
    let is_any_there = lookups.iter().any(|(_, resolved)| resolved.is_ok());
    for unresolved in lookups.into_iter().filter_map(|(_, resolved)| resolved.err()) {
        if !is_any_there {
            return Err(unresolved);
        }
        warn!("{unresolved}");
    }
    Ok(())
}

/// Resolves the host of an address, if the address has one.
async fn resolve(address: &str) -> std::io::Result<()> {
    if ["unix:", "ipv4:", "ipv6:"].iter().any(|scheme| address.starts_with(scheme)) {
        return Ok(());
    }
    let host = address.strip_prefix("dns:").map_or(address, |name| name.trim_start_matches('/'));
    let host = ["http://", "https://"]
        .iter()
        .find_map(|scheme| host.strip_prefix(scheme))
        .unwrap_or(host)
        .trim_end_matches('/');
    lookup_host(host).await.map(drop)
}

fn at(place: Option<String>, why: Failure) -> Failure {
    match place {
        Some(place) => Failure::Server { place, why: Box::new(why) },
        None => why,
    }
}
