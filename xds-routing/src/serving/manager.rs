//! State machine that watches the resources of a server.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::net::{IpAddr, SocketAddr};

use xds_core::{
    ResourceName,
    client::{InvalidWatch, Notice},
};

use super::configuration::{RoutesByName, ServerConfiguration, ServerRoutes, ServingError};
use crate::{
    Rules,
    dependencies::{
        Dependency, DependencyError, DependencyKind, Outbox, WatchChange, WatchUpdate,
        WatchedResource,
    },
    listener::{Listener, ListenerKind, Routes, SocketListener},
    route::RouteConfiguration,
};

/// Watches the listener of a server and its route configurations. See the [module](super).
///
/// Inputs update the state. [`poll_output`](Self::poll_output) returns the results; of several
/// unread configurations only the newest is kept. Equal inputs give equal outputs in every process.
///
/// ```
/// use xds_routing::{
///     dependencies::{Dependency, DependencyKind},
///     serving::{ServingManager, ServingOutput},
/// };
///
/// let address = "127.0.0.1:8080".parse()?;
/// let mut manager = ServingManager::new("servers/127.0.0.1:8080", address);
/// let listener = Dependency::new(DependencyKind::Listener, "servers/127.0.0.1:8080".into());
/// let Some(ServingOutput::Watch(watch)) = manager.poll_output() else { panic!("no watch") };
/// assert_eq!(watch, listener);
/// # Ok::<(), core::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServingManager {
    listener: ResourceName,
    address: SocketAddr,
    rules: Rules,
    in_use: Option<Result<Arc<Listener>, ServingError>>,
    /// Newer listener, which is used once its routes are known.
    next: Option<Arc<Listener>>,
    /// Route configurations of both listeners.
    routes: BTreeMap<ResourceName, WatchedResource<RouteConfiguration>>,
    outbox: Outbox,
    is_changed: bool,
}

/// Output of a [`ServingManager`].
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum ServingOutput {
    /// Start this watch, and pass every notice to [`ServingManager::handle_notice`].
    Watch(Dependency),
    /// End this watch.
    Unwatch(Dependency),
    /// Use this configuration from now on, or do not serve because of this error.
    Configuration(Result<ServerConfiguration, ServingError>),
}

impl ServingManager {
    /// Creates a manager for the listener with this name. `address` is the address that the server
    /// listens on, which the listener must have too.
    #[must_use]
    pub fn new(listener: impl Into<ResourceName>, address: SocketAddr) -> Self {
        let listener = listener.into();
        let mut outbox = Outbox::default();
        outbox.watch(DependencyKind::Listener, &listener);
        Self {
            listener,
            address,
            rules: Rules::default(),
            in_use: None,
            next: None,
            routes: BTreeMap::new(),
            outbox,
            is_changed: false,
        }
    }

    /// Sets the rules for resources that the client did not validate because it does not know their
    /// types. Default: gRPC's rules.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Handles a notice of a watch. A notice for a resource that is not watched is ignored.
    pub fn handle_notice(&mut self, dependency: &Dependency, notice: Notice) {
        match dependency.kind {
            DependencyKind::Listener => {
                let update = WatchUpdate::read(notice, &self.rules);
                self.on_listener(&dependency.name, update);
            }
            DependencyKind::Routes => {
                let update = WatchUpdate::read(notice, &self.rules);
                self.on_routes(&dependency.name, update);
            }
            DependencyKind::Cluster | DependencyKind::Endpoints => {}
        }
    }

    /// Handles the refusal of a watch by the client.
    pub fn handle_refusal(&mut self, dependency: &Dependency, why: InvalidWatch) {
        let error = DependencyError::Refused(why);
        match dependency.kind {
            DependencyKind::Listener => {
                self.on_listener(&dependency.name, WatchUpdate::Value(Err(error)));
            }
            DependencyKind::Routes => {
                self.on_routes(&dependency.name, WatchUpdate::Value(Err(error)));
            }
            DependencyKind::Cluster | DependencyKind::Endpoints => {}
        }
    }

    /// Returns the next output: new watches first, then ended ones, then the configuration.
    pub fn poll_output(&mut self) -> Option<ServingOutput> {
        match self.outbox.pop() {
            Some(WatchChange::Start(dependency)) => return Some(ServingOutput::Watch(dependency)),
            Some(WatchChange::End(dependency)) => return Some(ServingOutput::Unwatch(dependency)),
            None => {}
        }
        if !core::mem::take(&mut self.is_changed) {
            return None;
        }
        self.configuration().map(ServingOutput::Configuration)
    }

    /// Returns the configuration in use, or the error in its place. `None` until one of them is
    /// known.
    #[must_use]
    pub fn configuration(&self) -> Option<Result<ServerConfiguration, ServingError>> {
        let in_use = self.in_use.as_ref()?;
        Some(in_use.as_ref().map_err(Clone::clone).map(|listener| {
            let known = |name: &ResourceName| {
                let value = self.routes.get(name)?.value.clone()?;
                Some((name.clone(), value))
            };
            let routes: RoutesByName = route_names(listener).iter().filter_map(known).collect();
            ServerConfiguration {
                listener: Arc::clone(listener),
                routes: ServerRoutes(Arc::new(routes)),
            }
        }))
    }

    fn on_listener(&mut self, name: &ResourceName, update: WatchUpdate<Listener>) {
        let WatchUpdate::Value(value) = update else { return };
        if *name != self.listener {
            return;
        }
        let checked = value.map_err(ServingError::Listener).and_then(|listener| {
            check(&listener, self.address)?;
            Ok(listener)
        });
        match checked {
            Ok(listener) => {
                for name in route_names(&listener) {
                    if !self.routes.contains_key(&name) {
                        self.outbox.watch(DependencyKind::Routes, &name);
                        self.routes.insert(name, WatchedResource::default());
                    }
                }
                self.next = Some(listener);
            }
            Err(error) => {
                self.next = None;
                self.in_use = Some(Err(error));
                self.is_changed = true;
            }
        }
        self.advance();
    }

    fn on_routes(&mut self, name: &ResourceName, update: WatchUpdate<RouteConfiguration>) {
        let Some(watched) = self.routes.get_mut(name) else { return };
        if watched.take(update) {
            let in_use = self.in_use.as_ref().and_then(|it| it.as_ref().ok());
            self.is_changed |= in_use.is_some_and(|it| route_names(it).contains(name));
            self.advance();
        }
    }

    /// Uses the newer listener if its routes are known, and ends watches that are not needed.
    fn advance(&mut self) {
        let is_known = |name: &ResourceName| {
            self.routes.get(name).is_some_and(|watched| watched.value.is_some())
        };
        if let Some(next) = self.next.take_if(|next| route_names(next).iter().all(is_known)) {
            // Connections are not drained for a listener that has not changed.
            let is_same = matches!(&self.in_use, Some(Ok(in_use)) if **in_use == *next);
            if !is_same {
                self.in_use = Some(Ok(next));
                self.is_changed = true;
            }
        }
        let in_use = self.in_use.as_ref().and_then(|it| it.as_ref().ok());
        let needed: Vec<_> =
            in_use.into_iter().chain(&self.next).flat_map(|it| route_names(it)).collect();
        let outbox = &mut self.outbox;
        self.routes.retain(|name, _| {
            let is_needed = needed.contains(name);
            if !is_needed {
                outbox.unwatch(DependencyKind::Routes, name);
            }
            is_needed
        });
    }
}

/// Checks that a listener is for a server at this address.
fn check(listener: &Listener, own: SocketAddr) -> Result<(), ServingError> {
    let ListenerKind::Socket(socket) = listener.kind() else {
        return Err(ServingError::NotForServers(listener.name().clone()));
    };
    let ip: Option<IpAddr> = socket.address.host.parse().ok();
    if ip == Some(own.ip()) && socket.address.port == own.port() {
        return Ok(());
    }
    let stated = socket.address.clone();
    Err(ServingError::OtherAddress { listener: listener.name().clone(), stated, own })
}

/// Returns the route configurations that the filter chains of a server listener name.
fn route_names(listener: &Listener) -> alloc::collections::BTreeSet<ResourceName> {
    let ListenerKind::Socket(SocketListener { filter_chains, default_filter_chain, .. }) =
        listener.kind()
    else {
        return Default::default();
    };
    let chains = filter_chains.iter().chain(default_filter_chain);
    chains
        .filter_map(|chain| match &chain.http.routes {
            Routes::Named(name) => Some(name.clone()),
            Routes::Inline(_) => None,
        })
        .collect()
}
