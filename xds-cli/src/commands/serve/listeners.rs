//! Addresses that the server listens on.

use std::io;

use xds_tokio::{
    ManagementServer,
    server::{BoundAddress, ListenAddress, Listener},
};

use super::metrics::{self, MetricsListener};
use crate::{args::ServeArgs, failure::Failure};

/// Default permissions of socket files.
const OWNER_ONLY: u32 = 0o600;

/// Bound address and its listener.
pub(super) type Bound = (BoundAddress, Listener);

/// Listeners that the flags select.
pub(super) struct Listeners {
    pub(super) grpc: Bound,
    pub(super) rest: Option<Bound>,
    pub(super) csds: Option<Bound>,
    pub(super) metrics: Option<MetricsListener>,
}

impl Listeners {
    pub(super) async fn bind(args: &ServeArgs) -> Result<Self, Failure> {
        Ok(Self {
            grpc: bind(&args.listen, args).await?,
            rest: bind_if(args.rest.as_deref(), args).await?,
            csds: bind_if(args.csds.as_deref(), args).await?,
            metrics: match &args.metrics {
                Some(address) => Some(metrics::bind(address).await?),
                None => None,
            },
        })
    }
}

async fn bind(address: &str, args: &ServeArgs) -> Result<Bound, Failure> {
    let listening = |why| Failure::Listen { address: address.to_owned(), why };
    let wrong = |fault| listening(io::Error::new(io::ErrorKind::InvalidInput, fault));
    let at = match address.parse::<ListenAddress>().map_err(wrong)? {
        ListenAddress::Unix(socket) => {
            ListenAddress::Unix(socket.with_mode(args.socket_mode.unwrap_or(OWNER_ONLY)))
        }
        at => at,
    };
    let (listener, bound) = ManagementServer::bind(&at).await.map_err(listening)?;
    Ok((bound, listener))
}

async fn bind_if(address: Option<&str>, args: &ServeArgs) -> Result<Option<Bound>, Failure> {
    match address {
        Some(address) => bind(address, args).await.map(Some),
        None => Ok(None),
    }
}
