//! Driver of a server: listens as long as it has a configuration.

use core::{future::pending, net::SocketAddr, pin::pin, time::Duration};
use std::sync::Arc;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use hyper::rt::Timer as _;
use tokio::{
    select,
    sync::{oneshot, watch},
};
use tonic::service::Routes;
use xds_grpc::{
    runtime::{BoxFuture, Listen, Runtime as _, SharedRuntime},
    server::Http2Server,
};
use xds_handle::ClientHandle;
use xds_routing::{
    listener::Listener,
    serving::{HandleServing, ServerConfiguration, ServerRoutes, ServingError, ServingManager},
};

use super::{
    handler::{CurrentListener, ServerHandler},
    options::XdsServerOptions,
    state::ServingState,
};
use crate::certificates::{Provider, Providers};

/// Time until the port is tried again.
const BIND_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct ServerDriver<R: Listen> {
    serving: HandleServing,
    http2: Arc<Http2Server<R>>,
    handler: ServerHandler,
    address: SocketAddr,
    options: XdsServerOptions,
    runtime: SharedRuntime,
    states: watch::Sender<ServingState>,
    /// Listener in use. Connections see it through `listener`.
    in_use: Option<InUse>,
    listener: watch::Sender<Option<CurrentListener>>,
    /// Ends the open port, and gives its calls this time.
    port: Option<oneshot::Sender<Duration>>,
    /// Open port, and closed ones whose calls have not ended.
    ports: FuturesUnordered<BoxFuture<'static, ()>>,
    client_has_ended: bool,
}

/// Listener in use. Dropping it drains its connections.
struct InUse {
    listener: Arc<Listener>,
    routes: watch::Sender<ServerRoutes>,
}

impl<R: Listen> ServerDriver<R> {
    pub(super) fn new(
        client: ClientHandle,
        address: SocketAddr,
        options: XdsServerOptions,
        runtime: R,
        states: watch::Sender<ServingState>,
        services: Routes,
    ) -> Self {
        let manager = ServingManager::new(options.listener.clone(), address);
        let shared = SharedRuntime::new(runtime.clone());
        let provider = |files| Provider::new(files, shared.clone());
        let files = options.certificate_providers.iter();
        let providers: Providers =
            files.map(|(name, files)| (name.clone(), provider(files.clone()))).collect();
        let (listener, current) = watch::channel(None);
        let seed = options.seed.unwrap_or_else(|| shared.entropy());
        let handler =
            ServerHandler::new(current, services.prepare(), providers, options.drain_grace, seed);
        Self {
            serving: HandleServing::new(manager, client),
            http2: Arc::new(Http2Server::new(runtime, options.connections.clone())),
            handler,
            address,
            options,
            runtime: shared,
            states,
            in_use: None,
            listener,
            port: None,
            ports: FuturesUnordered::new(),
            client_has_ended: false,
        }
    }

    /// Runs until `ended` completes and the calls have ended.
    pub(super) async fn run(mut self, ended: impl Future<Output = ()>) {
        let mut ended = pin!(ended);
        let mut retry = None;
        loop {
            let due = async {
                match &mut retry {
                    Some(sleep) => core::pin::Pin::as_mut(sleep).await,
                    None => pending().await,
                }
            };
            select! {
                biased;
                () = ended.as_mut() => break,
                // A port that was told to close does so here, before it may be opened again.
                Some(()) = self.ports.next() => continue,
                configuration = self.serving.next(), if !self.client_has_ended => {
                    match configuration {
                        Some(Ok(configuration)) => self.configure(&configuration),
                        Some(Err(error)) => self.stop(&error),
                        None => self.client_has_ended(),
                    }
                }
                () = due => {}
            }
            let is_open = self.in_use.is_none() || self.open_port().await;
            retry = (!is_open).then(|| self.runtime.sleep(BIND_INTERVAL));
        }
        self.shut_down().await;
    }

    fn configure(&mut self, configuration: &ServerConfiguration) {
        let (listener, routes) = (configuration.listener(), configuration.routes());
        match &self.in_use {
            Some(in_use) if Arc::ptr_eq(&in_use.listener, listener) => {
                in_use.routes.send_replace(routes.clone());
            }
            _ => {
                let (sender, receiver) = watch::channel(routes.clone());
                let current = CurrentListener::new(Arc::clone(listener), receiver);
                self.listener.send_replace(Some(current));
                // The connections of the listener before are drained.
                self.in_use = Some(InUse { listener: Arc::clone(listener), routes: sender });
            }
        }
    }

    /// Closes the port and drains its connections.
    fn stop(&mut self, error: &ServingError) {
        self.listener.send_replace(None);
        self.in_use = None;
        if let Some(port) = self.port.take() {
            // The port has ended if nothing receives it.
            let _ = port.send(self.options.drain_grace);
        }
        self.set_state(ServingState::NotServing(error.to_string().into()));
    }

    /// The last configuration stays in use.
    fn client_has_ended(&mut self) {
        self.client_has_ended = true;
        if self.in_use.is_none() {
            let reason = "the xDS client has ended";
            self.set_state(ServingState::NotServing(reason.into()));
        }
    }

    /// Opens the port unless it is open. Returns whether it is open.
    async fn open_port(&mut self) -> bool {
        if self.port.is_some() {
            return true;
        }
        match self.http2.bind(self.address).await {
            Ok(listener) => {
                let (sender, receiver) = oneshot::channel();
                self.port = Some(sender);
                let (http2, handler) = (Arc::clone(&self.http2), self.handler.clone());
                self.ports.push(Box::pin(async move {
                    let ended = async { receiver.await.unwrap_or_default() };
                    http2.serve(listener, handler, ended).await;
                }));
                self.set_state(ServingState::Serving);
                true
            }
            Err(error) => {
                let reason = format!("cannot listen on {}: {error}", self.address);
                self.set_state(ServingState::NotServing(reason.into()));
                false
            }
        }
    }

    fn set_state(&self, state: ServingState) {
        let listener = self.options.listener.as_str();
        let is_changed = self.states.send_if_modified(|current| {
            let is_changed = *current != state;
            current.clone_from(&state);
            is_changed
        });
        match state {
            _ if !is_changed => {}
            ServingState::Serving => {
                tracing::info!(listener, address = %self.address, "the server is serving");
            }
            ServingState::NotServing(reason) => {
                tracing::warn!(listener, address = %self.address, %reason, "the server is not serving");
            }
        }
    }

    async fn shut_down(mut self) {
        self.set_state(ServingState::NotServing("the server is shutting down".into()));
        let grace = self.options.shutdown_grace;
        if let Some(port) = self.port.take() {
            let _ = port.send(grace);
        }
        // Ports that are drained do not take longer either.
        let ports = async { while self.ports.next().await.is_some() {} };
        let _ = self.runtime.timeout(grace, ports).await;
    }
}
