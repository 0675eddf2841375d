//! Whether servers' addresses are some: told at once, rather than by a client that tries for ever.

use tokio::{net::lookup_host, task::JoinSet};
use tracing::warn;
use xds_tokio::client::check_address;

use crate::failure::Failure;

/// An address, and where it is written if that needs saying.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub(crate) address: &'a str,
    pub(crate) place: Option<String>,
}

/// Checks the form of every address, and that there is a host of one of them at least. Those of which there
/// is none are warned of: a fallback is there for the day on which something is missing.
pub(crate) async fn check(servers: &[Written<'_>]) -> Result<(), Failure> {
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

/// Whether there is such a host, where the address has one.
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
