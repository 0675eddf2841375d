//! xDS over gRPC on tokio: a client and a management server.
//!
//! The protocol is implemented in [`xds_core`], and [`xds_grpc`] connects its state machines to
//! HTTP/2. This crate provides tokio's tasks, timers and connections. Neither adapter crate decides
//! anything about the protocol.
//!
//! ```
//! use tokio::net::TcpListener;
//! use xds_core::{
//!     client::{ClientConfig, ServerAddress as Upstream, Node, Notice, OpaqueType},
//!     server::{ServerConfig, Transaction},
//!     types::CLUSTER,
//! };
//! use xds_tokio::{ClientOptions, ManagementServer, ServerOptions, client};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A server with one resource: a cluster of which we only know the name.
//! let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let address = listener.local_addr()?.to_string();
//! tokio::spawn(server.serve(listener));
//! let mut change = Transaction::new();
//! change.set(CLUSTER, "web", &b"\x0a\x03web"[..]);
//! server.handle().apply(change).await?;
//!
//! // A client that watches it.
//! let config = ClientConfig::new(Node::new("node-1"), Upstream::new(address))
//!     .with_type(OpaqueType::new(CLUSTER));
//! let client = client::connect(config, ClientOptions::default());
//! let mut web = client.watch_untyped(CLUSTER, "web");
//! let Some(Ok(Notice::Changed(Ok(cluster)))) = web.next().await else { panic!("no cluster") };
//! assert_eq!(cluster.bytes, &b"\x0a\x03web"[..]);
//! # Ok(())
//! # }
//! ```
//!
//! # The client
//!
//! [`client::connect`] starts a driver task and returns a [`ClientHandle`]. Its methods
//! [`watch`](ClientHandle::watch), [`watch_all`](ClientHandle::watch_all) and
//! [`watch_glob`](ClientHandle::watch_glob) return streams of decoded resources. The untyped
//! variants are for types known only at run time.
//!
//! Every attempt to reach the server makes a new connection. Keepalive pings detect a dead server,
//! and the core schedules reconnection. Resource types and their validation are part of
//! [`ClientConfig`](xds_core::client::ClientConfig).
//!
//! # Credentials
//!
//! A server with an `https://` address is reached over TLS. All other credentials belong to a named
//! transport: the core's [`ServerAddress`](xds_core::client::ServerAddress) contains the
//! name, and [`ClientOptions`] defines the transport. A bootstrap defines all its transports:
//!
//! ```
//! use xds_bootstrap::Bootstrap;
//! use xds_core::{client::OpaqueType, types::LISTENER};
//! use xds_tokio::{ClientHandle, ClientOptions, client};
//!
//! fn connect(bootstrap: &Bootstrap) -> ClientHandle {
//!     let config = bootstrap.client_config().with_type(OpaqueType::new(LISTENER));
//!     client::connect(config, ClientOptions::default().with_bootstrap(bootstrap))
//! }
//! ```
//!
//! A server whose transport is not defined is not dialed: there is no fallback to an insecure
//! channel. Files are read for every connection, and in addition at their refresh interval. If they
//! become invalid, the last valid contents are used.
//!
//! # The management server
//!
//! [`ManagementServer::start`] starts a driver task. Give it listeners with
//! [`serve`](ManagementServer::serve), or add its [routes](ManagementServer::routes) to another
//! gRPC server. Change resources through its [`ServerHandle`].
//!
//! Clients use the aggregated service or the service of each type, in either variant. For TLS, set
//! [`ServerCredentials`](credentials::ServerCredentials). With an
//! [`Authorizer`](server::Authorizer) the application decides which view each client sees.
//!
//! A response is rendered when its client can receive it, and bytes sent to several clients are
//! shared. A slow client does not delay others.
//!
//! # Errors are not statuses
//!
//! [`WatchErrorKind::code`] is a number for logs and metrics that identifies why a resource is
//! unavailable. It is not a status for calls in the data plane, where a `NOT_FOUND` of the control
//! plane would be mistaken for the answer of the called service. Therefore no conversion exists:
//!
//! ```compile_fail,E0277
//! fn fail(error: xds_core::client::WatchError) -> tonic::Status {
//!     tonic::Status::from(error)
//! }
//! ```
//!
//! [`WatchErrorKind::code`]: xds_core::client::WatchErrorKind::code
//!
//! # Client status
//!
//! [`ClientHandle::status`] returns the client's resources to the program, [`csds`] serves them to
//! external tools, and [`ClientHandle::metrics`] returns metrics: `examples/metrics.rs` prints them
//! in Prometheus' text format.
//!
//! # Logs
//!
//! Client and server log through `tracing`: connections at INFO, rejected responses and failures at
//! WARN, messages at DEBUG in the shorthand `(V=version,R=names,N=nonce,T=type)`. A response whose
//! control plane identifies itself ends with `,C=identifier`. Contents of resources are not logged
//! at any level, unless the application sets a [`PayloadPrinter`] for TRACE.
#![deny(missing_docs)]
// Code that may panic states why it cannot.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod runtime;

pub use xds_grpc::{
    ClientOptions, Credentials, DiscoveryService, Keepalive, PayloadPrinter, RawCodec,
    ServerHandle, ServerOptions, SizesOnly, TcpProbes,
};
pub use xds_handle::{
    AddStaticResourceError, ClientEnded, ClientHandle, Decode, FailedSnapshot, InvalidTypedWatch,
    NotInUpdate, ResourceSnapshot, Review, Reviews, Typed, TypedChange, TypedNotice, TypedResource,
    TypedWatch, TypedWatchAll, Watch, WatchAll, WeakClientHandle,
};
#[cfg(feature = "validation")]
pub use xds_handle::{Deprecations, Validated, ValidatedTypes};

pub use self::runtime::Tokio;

/// Management server over gRPC.
///
/// It can be part of another gRPC server, together with other services:
///
/// ```
/// use tokio::net::TcpListener;
/// use tonic::transport::{Server, server::TcpIncoming};
/// use xds_core::server::ServerConfig;
/// use xds_tokio::{ManagementServer, ServerOptions, csds::CsdsService};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
/// let routes = server.routes().add_service(CsdsService::new());
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// tokio::spawn(
///     Server::builder().add_routes(routes).serve_with_incoming(TcpIncoming::from(listener)),
/// );
/// # Ok(())
/// # }
/// ```
///
/// It can listen on IP addresses and, for clients on the same machine, on socket files:
///
/// ```
/// # use xds_tokio::ManagementServer;
/// # async fn serve(server: ManagementServer) -> Result<(), Box<dyn std::error::Error>> {
/// let (listener, address) = ManagementServer::bind(&"unix:/run/xds.sock".parse()?).await?;
/// println!("listening on {address}");
/// server.serve(listener).await?;
/// # Ok(())
/// # }
/// ```
///
/// Its listeners can serve routes that the application chooses:
///
/// ```
/// # use tokio::net::TcpListener;
/// # use xds_core::server::ServerConfig;
/// # use xds_tokio::{ManagementServer, ServerOptions};
/// # async fn serve(server: ManagementServer, listener: TcpListener) -> std::io::Result<()> {
/// let routes = server.routes().add_service(server.health());
/// server.serve_routes(listener, routes).await
/// # }
/// ```
pub type ManagementServer = xds_grpc::ManagementServer<Tokio>;

/// Clients, with the options and services of their transport: see [`xds_grpc::client`].
pub mod client {
    pub use xds_grpc::client::{
        AddressFault, CallConnection, ClientOptions, InvalidAddress, MAX_SOURCES, Resolve,
        Resolving, Service, SourceError, Unreachable, check_address,
    };
    #[cfg(feature = "rest")]
    pub use xds_grpc::client::{GetError, GetResponse};

    use xds_core::client::ClientConfig;
    use xds_handle::ClientHandle;

    use crate::Tokio;
    pub use crate::runtime::SystemResolver;

    /// Starts a client on the current tokio runtime. It connects when the first resource is watched.
    /// It ends when it is shut down, or when the last handle and the last watch are dropped.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use = "the client ends when its last handle is dropped"]
    pub fn connect(config: ClientConfig, options: ClientOptions) -> ClientHandle {
        xds_grpc::client::connect(Tokio, config, options)
    }

    /// Creates a client and the future that drives it, to be spawned by the caller.
    ///
    /// The future must run within a tokio runtime with its timers and I/O enabled. Dropping it ends
    /// the client.
    pub fn driver(
        config: ClientConfig,
        options: ClientOptions,
    ) -> (ClientHandle, impl Future<Output = ()> + Send + 'static) {
        xds_grpc::client::driver(Tokio, config, options)
    }

    /// Connects to a gRPC server for single calls, such as those of an admin service.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached: see [`CallConnection::open`].
    pub async fn open_calls(
        service: Service,
        options: &ClientOptions,
    ) -> Result<CallConnection, Unreachable> {
        CallConnection::open(Tokio, service, options).await
    }

    /// Sends one HTTP/1.1 request with the method GET: see [`xds_grpc::client::http_get`].
    ///
    /// # Errors
    ///
    /// Returns an error if there is no complete response. An error status is a response.
    #[cfg(feature = "rest")]
    pub async fn http_get(
        service: &Service,
        options: &ClientOptions,
        path_and_query: &str,
    ) -> Result<GetResponse, GetError> {
        xds_grpc::client::http_get(Tokio, service, options, path_and_query).await
    }

    /// Clients of a proxy with nested config sources.
    pub type Sources = xds_grpc::client::Sources<Tokio>;
}

/// TLS and call credentials: see [`xds_grpc::credentials`].
pub mod credentials {
    pub use xds_grpc::credentials::{
        ClientCertificates, Credentials, CredentialsError, ExpiringFile, FileContent,
        ServerCredentials,
    };
}

/// Client status discovery service (CSDS): see [`xds_grpc::csds`].
///
/// [`CsdsService`](csds::CsdsService) is a gRPC service to add to an application's gRPC server. If
/// the application has none, listen on a loopback port:
///
/// ```
/// use tokio::net::TcpListener;
/// use tonic::transport::{Server, server::TcpIncoming};
/// use xds_core::{
///     client::{ClientConfig, ServerAddress, Node, OpaqueType},
///     types::CLUSTER,
/// };
/// use xds_tokio::{ClientOptions, client, csds::CsdsService};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = ClientConfig::new(Node::new("node-1"), ServerAddress::new("127.0.0.1:18000"))
///     .with_type(OpaqueType::new(CLUSTER));
/// let client = client::connect(config, ClientOptions::default());
/// let web = client.watch_untyped(CLUSTER, "web");
///
/// let csds = CsdsService::new();
/// csds.register("xds:///web", &client);
/// let admin = TcpListener::bind("127.0.0.1:0").await?;
/// tokio::spawn(
///     Server::builder().add_service(csds).serve_with_incoming(TcpIncoming::from(admin)),
/// );
/// # drop(web);
/// # Ok(())
/// # }
/// ```
pub mod csds {
    pub use xds_grpc::csds::{
        CsdsAuthorizer, CsdsCaller, CsdsDecision, ReportedClient, ServerCsdsService, VisibleClients,
    };

    /// Client status discovery service for the clients of this process.
    pub type CsdsService = xds_grpc::csds::CsdsService<crate::Tokio>;
}

/// Load reports of a client: see [`xds_grpc::load_reports`].
pub mod load_reports {
    pub use xds_grpc::load_reports::{
        CallRecord, ClusterRecorder, LoadReports, LocalityRecorder, MAX_NAMED_METRICS,
    };
}

/// Types for management servers: see [`xds_grpc::server`].
pub mod server {
    pub use xds_grpc::server::{
        AddressFault, Admitted, AllowSans, ApplyError, AuthorizationDecision, AuthorizationRequest,
        Authorizer, BothAuthorizers, BoundAddress, ConvergenceError, Denied, DiscoveryService,
        InvalidSanPattern, ListenAddress, LoadCollector, LoadReportingService, NodeFromSan,
        Observations, Observed, Peer, RejectionSnapshot, RolloutCommandError, RolloutError,
        RolloutHandle, SendCustomMessageError, ServerEnded, ServerEvent, ServerEvents,
        ServerHandle, ServerOptions, SetLayersError, SharedEvent, SharedEvents, SharedNews,
        SourceReport, SubscriptionSnapshot, TransportStats, UnixSocket,
    };

    /// Listener of a server.
    pub type Listener = xds_grpc::server::Listener<
        <crate::Tokio as Listen>::Listener,
        <crate::Tokio as Listen>::UnixListener,
    >;

    use xds_grpc::runtime::Listen;

    pub use crate::ManagementServer;
}
