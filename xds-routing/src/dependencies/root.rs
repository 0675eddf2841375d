//! Root of the dependencies: the listener and its routes.

use alloc::{
    collections::BTreeSet,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};

use xds_core::{ResourceName, client::WatchError, xdstp::Authority};

use super::{
    ConfigurationError, DependencyError, DependencyKind, ResolutionNote, outbox::Outbox,
    watched_resource::WatchedResource,
};
use crate::{
    listener::{Listener, Routes},
    route::RouteConfiguration,
};

/// Listener with its routes.
#[derive(Clone, Debug)]
pub(super) struct ListenerRoutes {
    pub(super) listener: Arc<Listener>,
    pub(super) routes: Arc<RouteConfiguration>,
    /// Index of the virtual host that matches the authority.
    pub(super) host: usize,
    /// Clusters that the routes of the virtual host name.
    pub(super) clusters: BTreeSet<ResourceName>,
}

impl ListenerRoutes {
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.listener, &other.listener) && Arc::ptr_eq(&self.routes, &other.routes)
    }
}

/// Newest state of the listener and its routes.
#[derive(Clone, Debug, Default)]
pub(super) struct RootState {
    pub(super) listener: WatchedResource<Listener>,
    /// Route configuration that the newest listener names.
    routes_name: Option<ResourceName>,
    pub(super) routes: WatchedResource<RouteConfiguration>,
    /// Inline routes of the newest listener.
    inline: Option<Arc<RouteConfiguration>>,
}

impl RootState {
    /// Whether this route configuration is watched.
    pub(super) fn follows_routes(&self, name: &ResourceName) -> bool {
        self.routes_name.as_ref() == Some(name)
    }

    /// Watches the routes that the newest listener names.
    pub(super) fn follow_routes(&mut self, outbox: &mut Outbox) {
        let listener = self.listener.value.as_ref().and_then(|it| it.as_ref().ok());
        let routes = listener.and_then(|listener| listener.api()).map(|api| &api.routes);
        let (name, inline) = match routes {
            Some(Routes::Named(name)) => (Some(name.clone()), None),
            Some(Routes::Inline(routes)) => (None, Some(Arc::new(routes.clone()))),
            None => (None, None),
        };
        self.inline = inline;
        if name == self.routes_name {
            return;
        }
        if let Some(new) = &name {
            outbox.watch(DependencyKind::Routes, new);
        }
        self.routes = WatchedResource::default();
        if let Some(old) = core::mem::replace(&mut self.routes_name, name) {
            outbox.unwatch(DependencyKind::Routes, &old);
        }
    }

    /// Forgets the listener and its routes.
    pub(super) fn forget(&mut self, outbox: &mut Outbox) {
        self.listener = WatchedResource::default();
        self.follow_routes(outbox);
    }

    /// Returns the newest listener with its newest routes, or `None` while either is unknown.
    pub(super) fn newest(
        &self,
        authority: &str,
        node_id: &Arc<str>,
    ) -> Option<Result<ListenerRoutes, ConfigurationError>> {
        let note = || ResolutionNote::new(Arc::clone(node_id), None, self.ambient()).to_string();
        let listener = match self.listener.value.as_ref()? {
            Ok(listener) => listener,
            Err(error) => return Some(Err(ConfigurationError::Listener(error.clone()))),
        };
        if listener.api().is_none() {
            return Some(Err(ConfigurationError::NotForClients {
                listener: listener.name().clone(),
                note: note(),
            }));
        }
        let routes = match (&self.inline, &self.routes.value) {
            (Some(routes), _) | (None, Some(Ok(routes))) => routes,
            (None, Some(Err(error))) => {
                return Some(Err(ConfigurationError::Routes(error.clone())));
            }
            (None, None) => return None,
        };
        let Some(host) = routes.index.find(authority) else {
            return Some(Err(ConfigurationError::NoVirtualHost {
                routes: routes.name().clone(),
                name: String::from(authority),
                note: note(),
            }));
        };
        let clusters = routes.virtual_hosts().get(host).map(|host| host.clusters());
        Some(Ok(ListenerRoutes {
            listener: Arc::clone(listener),
            routes: Arc::clone(routes),
            host,
            clusters: clusters.unwrap_or_default(),
        }))
    }

    /// Returns the authority of the newest routes.
    pub(super) fn home(&self) -> Option<Authority> {
        let listener = self.listener.value.as_ref().and_then(|it| it.as_ref().ok());
        let of_listener = || listener.map(|listener| listener.name());
        let name = self.routes_name.as_ref().or_else(of_listener);
        name.and_then(|name| Authority::of(name.as_str()).ok())
    }

    /// Whether the newest routes are unknown only because of a transient error.
    pub(super) fn is_transiently_unavailable(&self) -> bool {
        matches!(&self.routes.value, Some(Err(error)) if error.is_transient())
            && matches!(&self.listener.value, Some(Ok(_)))
    }

    /// Returns the ambient errors of the listener and the routes.
    pub(super) fn ambient(&self) -> Vec<WatchError> {
        let routes = match &self.routes.value {
            Some(Err(DependencyError::Watch(error))) => Some(error),
            _ => self.routes.ambient.as_ref(),
        };
        self.listener.ambient.iter().chain(routes).cloned().collect()
    }
}
