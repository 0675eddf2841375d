//! Configurations of a server, and the errors in their place.

use alloc::{collections::BTreeMap, sync::Arc};
use core::net::SocketAddr;

use thiserror::Error;
use xds_core::ResourceName;

use crate::{
    SocketAddress,
    dependencies::DependencyError,
    listener::{HttpConnections, Listener, ListenerKind, Routes, SocketListener},
    route::RouteConfiguration,
};

/// Configuration of a server: a listener with its route configurations. Clones share the resources.
#[derive(Clone, Debug)]
pub struct ServerConfiguration {
    pub(super) listener: Arc<Listener>,
    pub(super) routes: ServerRoutes,
}

impl ServerConfiguration {
    /// Returns the listener, whose kind is [`ListenerKind::Socket`].
    ///
    /// When a later configuration has another listener (another `Arc`), the server drains the
    /// connections that it has accepted with this one: it sends GOAWAY, and closes them after their
    /// last call or a grace period, which is 10 minutes in gRPC.
    #[must_use]
    pub const fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// Returns the filter chains of the listener.
    ///
    /// A configuration always has them. `None` means that the listener is not for servers.
    #[must_use]
    pub fn socket(&self) -> Option<&SocketListener> {
        match self.listener.kind() {
            ListenerKind::Socket(socket) => Some(socket),
            ListenerKind::Api(_) => None,
        }
    }

    /// Returns the route configurations.
    #[must_use]
    pub const fn routes(&self) -> &ServerRoutes {
        &self.routes
    }
}

/// Route configurations that the filter chains of a listener name. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ServerRoutes(pub(super) Arc<RoutesByName>);

pub(super) type RoutesByName =
    BTreeMap<ResourceName, Result<Arc<RouteConfiguration>, DependencyError>>;

impl ServerRoutes {
    /// Returns the routes of a filter chain, or the error in their place. `None` if the chain is
    /// not one of the listener that these routes belong to.
    #[must_use]
    pub fn of<'a>(
        &'a self,
        http: &'a HttpConnections,
    ) -> Option<Result<&'a RouteConfiguration, &'a DependencyError>> {
        match &http.routes {
            Routes::Inline(routes) => Some(Ok(routes)),
            Routes::Named(name) => match self.0.get(name)? {
                Ok(routes) => Some(Ok(routes)),
                Err(error) => Some(Err(error)),
            },
        }
    }
}

/// Reason why a server does not serve. It closes its port.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ServingError {
    /// The listener cannot be obtained.
    #[error(transparent)]
    Listener(DependencyError),
    /// The listener is an API listener, which configures clients.
    #[error("listener `{0}` is an API listener, which configures clients and not servers")]
    NotForServers(ResourceName),
    /// The listener is for another address.
    #[error("listener `{listener}` is for the address {stated}, and the server listens on {own}")]
    OtherAddress {
        /// Name of the listener.
        listener: ResourceName,
        /// Address in the listener.
        stated: SocketAddress,
        /// Address of the server.
        own: SocketAddr,
    },
}
