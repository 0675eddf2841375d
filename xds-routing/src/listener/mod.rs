//! Listeners (LDS) as gRPC understands them: those of clients (A27, A39), and those of servers (A36, A29),
//! which are judged and of which a client has no further use.

mod api;
mod filter_chain;
mod tls;

use alloc::vec::Vec;
use core::time::Duration;

use xds_core::ResourceName;

pub(crate) use self::tls::judge_upstream;
pub use self::{
    filter_chain::{CidrRange, ConnectionSource, FilterChain, FilterChainMatch, Transport},
    tls::{CertificateProvider, TlsContext, TrustedRoots},
};
use crate::{
    filters::HttpFilter,
    judge::Judge,
    proto::envoy::config::listener::v3 as schema,
    route::RouteConfiguration,
    scalars::{SocketAddress, judge_own_address},
};

/// A validated listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    name: ResourceName,
    kind: ListenerKind,
}

impl Listener {
    /// The resource's name.
    #[must_use]
    pub const fn name(&self) -> &ResourceName {
        &self.name
    }

    /// What it is for.
    #[must_use]
    pub const fn kind(&self) -> &ListenerKind {
        &self.kind
    }

    /// What becomes of the requests of a client; `None` if it is for servers.
    #[must_use]
    pub const fn api(&self) -> Option<&HttpConnections> {
        match &self.kind {
            ListenerKind::Api(connections) => Some(connections),
            ListenerKind::Socket(_) => None,
        }
    }
}

/// Whom a listener is for.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there is one for a listener")]
#[non_exhaustive]
pub enum ListenerKind {
    /// A client: the listener stands for what a channel does.
    Api(HttpConnections),
    /// A server.
    Socket(SocketListener),
}

/// What becomes of requests: an `HttpConnectionManager`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HttpConnections {
    /// Which routes they take.
    pub routes: Routes,
    /// What they go through, in turn; the last one sends them on. Empty if the filters were not
    /// asked for.
    pub filters: Vec<HttpFilter>,
    /// How long a call may take if its route does not say; `None` is without limit (A31).
    pub max_stream_duration: Option<Duration>,
}

/// Which routes requests take.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Routes {
    /// Those of the route configuration of this name (S0.020).
    Named(ResourceName),
    /// These.
    Inline(RouteConfiguration),
}

/// The listener of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SocketListener {
    /// Where it listens.
    pub address: SocketAddress,
    /// What becomes of connections, by what they are.
    pub filter_chains: Vec<FilterChain>,
    /// What becomes of all others.
    pub default_filter_chain: Option<FilterChain>,
}

pub(crate) fn judge_listener(
    listener: &schema::Listener,
    judge: &mut Judge<'_>,
) -> Option<Listener> {
    let kind = match listener.api_listener.as_ref() {
        // An address beside it is for others: servers that state both have one listener for all.
        Some(api) => {
            let connections = judge.field("api_listener", |judge| api::judge_api(api, judge));
            ListenerKind::Api(connections?)
        }
        None => ListenerKind::Socket(judge_socket(listener, judge)?),
    };
    Some(Listener { name: ResourceName::from(listener.name.as_str()), kind })
}

fn judge_socket(listener: &schema::Listener, judge: &mut Judge<'_>) -> Option<SocketListener> {
    let Some(address) = listener.address.as_ref() else {
        judge.fault_in("api_listener", "must be set, or address if this is for a server");
        return None;
    };
    let address = judge.field("address", |judge| judge_own_address(address, judge));
    if !listener.listener_filters.is_empty() {
        judge.fault_in("listener_filters", "not supported by gRPC");
    }
    #[allow(deprecated, reason = "servers still send it")]
    if listener.use_original_dst.as_ref().is_some_and(|it| it.value) {
        judge.fault_in("use_original_dst", "not supported by gRPC");
    }
    let mut filter_chains = Vec::new();
    for (index, chain) in listener.filter_chains.iter().enumerate() {
        let judged =
            judge.element("filter_chains", index, |judge| filter_chain::judge_chain(chain, judge));
        filter_chains.extend(judged);
    }
    let default_filter_chain = listener.default_filter_chain.as_ref().and_then(|chain| {
        judge.field("default_filter_chain", |judge| filter_chain::judge_chain(chain, judge))
    });
    filter_chain::judge_duplicates(&filter_chains, judge);
    if listener.filter_chains.is_empty() && listener.default_filter_chain.is_none() {
        judge.fault_in("filter_chains", "must not be empty where there is no default_filter_chain");
    }
    Some(SocketListener { address: address?, filter_chains, default_filter_chain })
}
