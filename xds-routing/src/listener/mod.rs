//! Listeners (LDS) as gRPC uses them: API listeners for clients ([gRFC A27], [gRFC A39]), and
//! socket listeners for servers ([gRFC A36], [gRFC A29]), which [`serving`](crate::serving) uses.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A39]: https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md
//! [gRFC A36]: https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md
//! [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md

mod filter_chain;
mod http_connections;
mod tls;

use alloc::{sync::Arc, vec::Vec};

use xds_core::ResourceName;

pub(crate) use self::tls::validate_upstream;
pub use self::{
    filter_chain::{ConnectionSource, FilterChain, FilterChainMatch, Transport, UnmetCondition},
    http_connections::{HttpConnections, Routes},
    tls::{CertificateProvider, TlsContext, TrustedRoots},
};
use self::{
    filter_chain::{validate_chain, validate_duplicates},
    http_connections::validate_api,
};
pub use crate::pattern::CidrRange;
use crate::{
    proto::envoy::config::listener::v3 as schema,
    scalars::{SocketAddress, validate_listen_address},
    validation::Validator,
};

/// Validated listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    name: ResourceName,
    kind: ListenerKind,
}

impl Listener {
    /// Returns the name of the resource.
    #[must_use]
    pub const fn name(&self) -> &ResourceName {
        &self.name
    }

    /// Returns the kind of listener.
    #[must_use]
    pub const fn kind(&self) -> &ListenerKind {
        &self.kind
    }

    /// Returns the HTTP connection manager of an API listener, or `None` for a server listener.
    #[must_use]
    pub const fn api(&self) -> Option<&HttpConnections> {
        match &self.kind {
            ListenerKind::Api(connections) => Some(connections),
            ListenerKind::Socket(_) => None,
        }
    }
}

/// Kind of a listener.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "each listener has a single value")]
#[non_exhaustive]
pub enum ListenerKind {
    /// API listener: configures a client channel.
    Api(HttpConnections),
    /// Socket listener: configures a server.
    Socket(SocketListener),
}

/// Listener of a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SocketListener {
    /// Address that the server listens on.
    pub address: SocketAddress,
    /// Filter chains, of which the best match handles a connection.
    pub filter_chains: Vec<Arc<FilterChain>>,
    /// Filter chain for connections that match no other.
    pub default_filter_chain: Option<Arc<FilterChain>>,
}

pub(crate) fn validate_listener(
    listener: &schema::Listener,
    validator: &mut Validator<'_>,
) -> Option<Listener> {
    let kind = match listener.api_listener.as_ref() {
        // `address` is for other clients: a management server may set both for one listener.
        Some(api) => {
            let connections =
                validator.field("api_listener", |validator| validate_api(api, validator));
            ListenerKind::Api(connections?)
        }
        None => ListenerKind::Socket(validate_socket(listener, validator)?),
    };
    Some(Listener { name: ResourceName::from(listener.name.as_str()), kind })
}

fn validate_socket(
    listener: &schema::Listener,
    validator: &mut Validator<'_>,
) -> Option<SocketListener> {
    let Some(address) = listener.address.as_ref() else {
        validator.error_in("api_listener", "must be set, or address for a server listener");
        return None;
    };
    let address =
        validator.field("address", |validator| validate_listen_address(address, validator));
    if !listener.listener_filters.is_empty() {
        validator.error_in("listener_filters", "not supported by gRPC");
    }
    #[allow(deprecated, reason = "servers still send the field")]
    if listener.use_original_dst.as_ref().is_some_and(|it| it.value) {
        validator.error_in("use_original_dst", "not supported by gRPC");
    }
    let mut filter_chains = Vec::new();
    for (index, chain) in listener.filter_chains.iter().enumerate() {
        let validated =
            validator.element("filter_chains", index, |validator| validate_chain(chain, validator));
        filter_chains.extend(validated.map(Arc::new));
    }
    let default_filter_chain = listener.default_filter_chain.as_ref().and_then(|chain| {
        validator.field("default_filter_chain", |validator| validate_chain(chain, validator))
    });
    let default_filter_chain = default_filter_chain.map(Arc::new);
    validate_duplicates(&filter_chains, validator);
    if listener.filter_chains.is_empty() && listener.default_filter_chain.is_none() {
        validator.error_in("filter_chains", "must not be empty without default_filter_chain");
    }
    Some(SocketListener { address: address?, filter_chains, default_filter_chain })
}
