//! Builder of a management server.

use core::{fmt, marker::PhantomData, time::Duration};
use std::{io, path::PathBuf, sync::Arc};

use thiserror::Error;
use xds_bootstrap::IdentityFiles;
use xds_core::{
    ViewName,
    guards::{Guard, Guards},
    references::Consistency,
    server::{Admission, Readiness, ServerConfig},
};
use xds_grpc::{
    ServerOptions,
    credentials::{ClientCertificates, CredentialsError, ServerCredentials},
    runtime::Listen,
    server::{
        AddressFault, Admitted, AuthorizationDecision, AuthorizationRequest, Authorizer,
        BoundAddress, ListenAddress, Listener, LoadCollector,
    },
};

use super::{ManagementServer, node::NodeInfo};

/// Settings of a [`ManagementServer`] that is not listening yet.
#[must_use = "a server does nothing before it is bound"]
pub struct ServerBuilder<R> {
    config: ServerConfig,
    options: ServerOptions,
    credentials: Option<ServerCredentials>,
    client_authority: Option<PathBuf>,
    guards: Guards,
    runtime: PhantomData<fn() -> R>,
}

/// Reason why a server could not start to listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address is invalid.
    #[error("invalid address {address:?}: {fault}")]
    Address {
        /// The address.
        address: String,
        /// The fault.
        fault: AddressFault,
    },
    /// Client certificates are required, but the server has no certificate of its own.
    #[error("client certificates require TLS: set a certificate and key with `tls`")]
    ClientAuthorityWithoutTls,
    /// A file with a certificate or a key cannot be read or is invalid.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Maximum time for which the first request of a client is held, as in `xds serve`.
///
/// Together with the other delays of a response it must stay below 15 seconds, after which gRPC
/// clients treat a resource as nonexistent.
const MAX_HOLD: Duration = Duration::from_secs(8);

impl<R: Listen + Default> ServerBuilder<R> {
    pub(super) fn new() -> Self {
        let mut config = ServerConfig::default().with_readiness(Readiness::HoldRequests);
        config.limits.decision = Some(MAX_HOLD);
        Self {
            config,
            options: ServerOptions::default(),
            credentials: None,
            client_authority: None,
            guards: Guards::default(),
            runtime: PhantomData,
        }
    }

    /// Serves over TLS, with a certificate chain and its private key in PEM files.
    ///
    /// [`bind`](Self::bind) fails if the files cannot be read or do not fit together. They are read
    /// again when they change; an invalid change is logged and has no effect.
    pub fn tls(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let identity = IdentityFiles { certificate: certificate.into(), private_key: key.into() };
        self.credentials = Some(ServerCredentials::tls(identity));
        self
    }

    /// Requires a client certificate that was issued by one of the root certificates in a PEM file.
    /// Requires [`tls`](Self::tls).
    pub fn client_authority(mut self, roots: impl Into<PathBuf>) -> Self {
        self.client_authority = Some(roots.into());
        self
    }

    /// Chooses the view that each client sees. Without this, all clients see the view named `""`.
    ///
    /// Clients are answered after the first change, of any view. From then on, a view without
    /// resources counts as empty, and its clients are told that nothing exists. To fill all views
    /// first, use one call of [`apply_all`](super::ManagementServer::apply_all). To refuse clients
    /// or limit them, use [`authorizer`](Self::authorizer).
    pub fn view_of<V: Into<ViewName>>(
        self,
        view_of: impl Fn(&NodeInfo) -> V + Send + Sync + 'static,
    ) -> Self {
        self.authorizer(move |request: AuthorizationRequest| {
            let view = view_of(&NodeInfo::of(&request)).into();
            core::future::ready(AuthorizationDecision::Ok(Admitted::to(view)))
        })
    }

    /// Decides which clients are served, and which view each sees.
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.config.admission = Admission::ByApplication;
        self.options = self.options.with_authorizer(authorizer);
        self
    }

    /// Asks clients for load reports (LRS), and collects them.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use xds::{ManagementServer, server::{LoadCollector, LoadRequest}};
    ///
    /// let loads = LoadCollector::new(LoadRequest::all(Duration::from_secs(10)));
    /// let server = ManagementServer::builder().load_reports(loads.clone());
    /// let server = server.bind("127.0.0.1:18000").await?;
    /// for (place, calls) in loads.totals().localities() {
    ///     println!("{}: {} calls to {}", place.cluster, calls.issued, place.zone);
    /// }
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn load_reports(mut self, collector: LoadCollector) -> Self {
        self.options = self.options.with_load_reports(collector);
        self
    }

    /// Refuses changes that leave a reference to a resource that does not exist in the view, for
    /// example a route to a missing cluster. This is the [rule](Self::guard) `references`.
    pub fn deny_dangling_references(self) -> Self {
        self.guard(Guard::references(Consistency::default()))
    }

    /// Refuses changes that violate a rule ([`ChangeError::Refused`](super::ChangeError::Refused)).
    /// May be called several times. The [table of rules](xds_core::guards) describes each rule, and
    /// how the first change of a view is checked.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")]
    /// # fn build() -> Result<(), Box<dyn std::error::Error>> {
    /// use xds::{ManagementServer, server::Guard};
    ///
    /// let builder = ManagementServer::builder()
    ///     .guard("max-removal:cds=20".parse()?)
    ///     .guard(Guard::hook("freeze", |change| match change.is_first() {
    ///         true => Ok(()),
    ///         false => Err("changes are frozen".into()),
    ///     }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guards.push(guard);
        self
    }

    /// Changes settings for which the builder has no method.
    ///
    /// The configuration holds requests until the first change ([`bind`](Self::bind)). A preset that
    /// replaces it, such as [`ServerConfig::envoy`], does not, so clients of a server that restarts
    /// would be told that nothing exists. Keep `readiness` and `limits.decision`:
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use xds::{ManagementServer, protocol::server::ServerConfig};
    ///
    /// let builder = ManagementServer::builder().configure(|default| {
    ///     let mut config = ServerConfig::envoy().with_readiness(default.readiness);
    ///     config.limits.decision = default.limits.decision;
    ///     config
    /// });
    /// # drop(builder); }
    /// ```
    pub fn configure(mut self, change: impl FnOnce(ServerConfig) -> ServerConfig) -> Self {
        self.config = change(self.config);
        self
    }

    /// Changes settings of the transport for which the builder has no method.
    pub fn transport(mut self, change: impl FnOnce(ServerOptions) -> ServerOptions) -> Self {
        self.options = change(self.options);
        self
    }

    /// Binds an address, such as `127.0.0.1:18000`, `localhost:0` or `unix:/run/xds.sock`, and
    /// starts to serve on it.
    ///
    /// Clients are only answered after the first [`apply`](ManagementServer::apply), because a
    /// response without resources would make a client delete the resources that it has. A client
    /// whose request has waited for 8 seconds is disconnected with `UNAVAILABLE`; it keeps its
    /// resources and reconnects. Use [`configure`](Self::configure) to change this with
    /// [`Readiness`] and [`ServerLimits::decision`](xds_core::server::ServerLimits::decision).
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid or cannot be bound, if a file with a certificate
    /// or a key is invalid, or if client certificates are required without TLS.
    ///
    /// # Panics
    ///
    /// Panics if tasks cannot be spawned; with tokio, outside of a runtime.
    pub async fn bind(self, address: impl AsRef<str>) -> Result<ManagementServer<R>, BindError> {
        self.bind_on(R::default(), address).await
    }

    /// Binds and serves like [`bind`](Self::bind), on a given runtime, such as that of the
    /// application or a simulated host.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bind`](Self::bind).
    ///
    /// # Panics
    ///
    /// Panics like [`bind`](Self::bind).
    pub async fn bind_on<S: Listen>(
        self,
        runtime: S,
        address: impl AsRef<str>,
    ) -> Result<ManagementServer<S>, BindError> {
        let address = address.as_ref();
        if self.client_authority.is_some() && self.credentials.is_none() {
            return Err(BindError::ClientAuthorityWithoutTls);
        }
        let parsed = parsed(address)?;
        let mut options = self.options;
        if let Some(mut credentials) = self.credentials {
            if let Some(roots) = self.client_authority {
                credentials =
                    credentials.with_client_authority(roots, ClientCertificates::Required);
            }
            credentials.check().await?;
            options = options.with_credentials(credentials);
        }
        let (listener, bound) = listener(&runtime, address, &parsed).await?;
        let grace_period = options.shutdown_grace;
        let server = xds_grpc::ManagementServer::start_on(runtime, self.config, options);
        server.spawn_serve(listener);
        Ok(ManagementServer {
            server,
            address: bound,
            guards: self.guards.into(),
            grace_period,
            is_ready: Arc::default(),
        })
    }
}

/// Parses the address of a listener.
fn parsed(address: &str) -> Result<ListenAddress, BindError> {
    address.parse().map_err(|fault| BindError::Address { address: address.into(), fault })
}

/// Binds an address, and returns the listener with its actual address.
async fn listener<R: Listen>(
    runtime: &R,
    address: &str,
    parsed: &ListenAddress,
) -> Result<(Listener<R::Listener, R::UnixListener>, BoundAddress), BindError> {
    xds_grpc::ManagementServer::bind_on(runtime, parsed)
        .await
        .map_err(|source| BindError::Listen { address: address.into(), source })
}

#[cfg(feature = "rest")]
impl<R: Listen> ManagementServer<R> {
    /// Binds another address, and starts to serve REST-JSON on it, to Envoys with `api_type: REST` and
    /// to other clients that poll. Returns the address with the port that was chosen for port 0.
    ///
    /// The certificate, the views and the limits are those of the server, and
    /// [`run_until`](ManagementServer::run_until) closes this listener too. Between two polls a client
    /// is not connected: [`converged`](super::ServerHandle::converged) does not wait for it, and
    /// [`status`](super::ServerHandle::status) does not contain it.
    ///
    /// To answer polls on a listener of the application, such as that of an axum server, use
    /// [`Gateway`](xds_rest::Gateway). For types that the Envoy API does not define, give their schema
    /// to `spawn_serve_rest` of [`services`](ManagementServer::services).
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid or cannot be bound.
    ///
    /// # Panics
    ///
    /// Panics like [`bind`](ServerBuilder::bind).
    pub async fn bind_rest(
        &self,
        address: impl AsRef<str>,
        options: xds_rest::GatewayOptions,
    ) -> Result<BoundAddress, BindError> {
        let address = address.as_ref();
        let (listener, bound) = listener(self.server.runtime(), address, &parsed(address)?).await?;
        self.server.spawn_serve_rest(listener, xds_format::Schema::envoy(), options);
        Ok(bound)
    }
}

impl<R> fmt::Debug for ServerBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("config", &self.config)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
