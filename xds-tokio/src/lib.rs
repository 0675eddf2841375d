//! xDS over gRPC on tokio: a client and a management server.
//!
//! The protocol is in [`xds_core`]; [`xds_grpc`] moves bytes and time between its two state machines and
//! HTTP/2, and this crate lends it tokio's tasks, time and connections. Neither has a say in what is asked,
//! sent, accepted or rejected.
//!
//! ```
//! use tokio::net::TcpListener;
//! use xds_core::{
//!     client::{ClientConfig, ManagementServer as Upstream, Node, Notice, OpaqueType},
//!     server::{ServerConfig, Transaction},
//!     types::CLUSTER,
//! };
//! use xds_tokio::{Client, ClientOptions, ManagementServer, ServerOptions};
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
//! let client = Client::connect(config, ClientOptions::default());
//! let mut web = client.watch_untyped(CLUSTER, "web");
//! let Some(Ok(Notice::Changed(Ok(cluster)))) = web.next().await else { panic!("no cluster") };
//! assert_eq!(cluster.bytes, &b"\x0a\x03web"[..]);
//! # Ok(())
//! # }
//! ```
//!
//! # The client
//!
//! [`Client::connect`] starts a driver task and returns a [`ClientHandle`], whose
//! [`watch`](ClientHandle::watch), [`watch_all`](ClientHandle::watch_all) and
//! [`watch_glob`](ClientHandle::watch_glob) are streams of decoded resources; the untyped ones take types that are known at run time only. Every
//! attempt to reach the server dials anew, pings find out when it is gone, and the core decides when
//! to try again. Which resource types there are, and what makes a resource valid, is in
//! [`ClientConfig`](xds_core::client::ClientConfig).
//!
//! # Credentials
//!
//! A server whose address says `https://` is spoken to over TLS. Anything else that a channel needs has a
//! name, which the core's [`ManagementServer`](xds_core::client::ManagementServer) carries and
//! [`ClientOptions`] explains. A bootstrap has them all:
//!
//! ```
//! use xds_bootstrap::Bootstrap;
//! use xds_core::{client::OpaqueType, types::LISTENER};
//! use xds_tokio::{Client, ClientHandle, ClientOptions};
//!
//! fn connect(bootstrap: &Bootstrap) -> ClientHandle {
//!     let config = bootstrap.client_config().with_type(OpaqueType::new(LISTENER));
//!     Client::connect(config, ClientOptions::default().with_bootstrap(bootstrap))
//! }
//! ```
//!
//! A server whose transport has no explanation is not dialled: nothing falls back to an insecure channel.
//! Files are read for every connection, and in between at their refresh interval; what they last held
//! that was sound is used while they hold nothing that is.
//!
//! # The management server
//!
//! [`ManagementServer::start`] starts a driver task. Give it listeners with
//! [`serve`](ManagementServer::serve), or add its [routes](ManagementServer::routes) to a gRPC server of
//! your own; change resources through its [`ServerHandle`]. Clients reach it by the aggregated service or
//! by the one of each type, in either variant; over TLS with
//! [`ServerCredentials`](credentials::ServerCredentials), and with an
//! [`Authorizer`](server::Authorizer) the application decides what each of them sees. A response is made when its client has room for it, and
//! bytes that several clients are due are shared, so that a slow client costs and delays nobody.
//!
//! # Errors are no statuses
//!
//! Why a resource is not to be had has a number, [`WatchErrorKind::code`], for logs and measurements. It is
//! no status of a call in the data plane, which would take the control plane's NOT_FOUND for the answer of
//! the service that was called; so there is no conversion:
//!
//! ```compile_fail,E0277
//! fn fail(error: xds_core::client::WatchError) -> tonic::Status {
//!     tonic::Status::from(error)
//! }
//! ```
//!
//! [`WatchErrorKind::code`]: xds_core::client::WatchErrorKind::code
//!
//! # What a client holds
//!
//! [`ClientHandle::status`] is for the program itself, [`csds`] for tools that ask from outside, and
//! [`ClientHandle::metrics`] for whatever collects measurements: `examples/metrics.rs` prints them in
//! Prometheus' text format.
//!
//! # Logs
//!
//! Both sides log through `tracing`: connections at INFO, rejected responses and failures at WARN,
//! messages in the protocol's shorthand `(V=version,R=names,N=nonce,T=type)` at DEBUG, responses with
//! `,C=identifier` of the control plane that sent them, where it says that. What is inside
//! resources is not logged at any level, unless the application gives a [`PayloadPrinter`] for TRACE.
#![deny(missing_docs)]

mod runtime;

pub use xds_grpc::{
    ClientOptions, Credentials, DiscoveryService, Keepalive, PayloadPrinter, ServerHandle,
    ServerOptions, SizesOnly, TcpProbes,
};
pub use xds_handle::{
    ClientEnded, ClientHandle, Decode, FailedSnapshot, InvalidTypedWatch, NotAdded, NotInUpdate,
    ResourceSnapshot, Review, Reviews, Typed, TypedChange, TypedNotice, TypedResource, TypedWatch,
    TypedWatchAll, Watch, WatchAll, WeakClientHandle,
};
#[cfg(feature = "validation")]
pub use xds_handle::{Deprecations, Validated, ValidatedTypes};

pub use self::runtime::Tokio;

/// Where clients are started.
pub type Client = xds_grpc::Client<Tokio>;

/// A management server over gRPC.
///
/// On a gRPC server of one's own it is served beside whatever else that serves:
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
/// It listens on IP addresses and, for clients on the same machine, on socket files:
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
/// Its own listeners serve what the application says:
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

/// What a client's transport consists of: see [`xds_grpc::client`].
pub mod client {
    pub use xds_grpc::client::{
        AddressFault, ClientOptions, InvalidAddress, MAX_SOURCES, Resolve, Resolving, Service,
        SourceError, check_address,
    };

    pub use crate::{Client, runtime::SystemResolver};

    /// The clients of one proxy, whose resources name further sources.
    pub type Sources = xds_grpc::client::Sources<crate::Tokio>;
}

/// How channels to management servers are secured: see [`xds_grpc::credentials`].
pub mod credentials {
    pub use xds_grpc::credentials::{
        ClientCertificates, Credentials, CredentialsError, Holds, ServerCredentials,
    };
}

/// Client status discovery (CSDS): see [`xds_grpc::csds`].
///
/// [`CsdsService`](csds::CsdsService) is a gRPC service to be mounted on a server of one's own, which for a program with
/// nothing else to serve is a port on loopback:
///
/// ```
/// use tokio::net::TcpListener;
/// use tonic::transport::{Server, server::TcpIncoming};
/// use xds_core::{
///     client::{ClientConfig, ManagementServer, Node, OpaqueType},
///     types::CLUSTER,
/// };
/// use xds_tokio::{Client, ClientOptions, csds::CsdsService};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = ClientConfig::new(Node::new("node-1"), ManagementServer::new("127.0.0.1:18000"))
///     .with_type(OpaqueType::new(CLUSTER));
/// let client = Client::connect(config, ClientOptions::default());
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
        ReadAuthorizer, ReadPermission, Readable, Readee, Reader, ServerCsdsService,
    };

    /// The service as clients answer it.
    pub type CsdsService = xds_grpc::csds::CsdsService<crate::Tokio>;
}

/// What a management server consists of: see [`xds_grpc::server`].
pub mod server {
    pub use xds_grpc::server::{
        AddressFault, Admitted, Applicant, ApplyError, AsideRefused, Authorizer, BoundAddress,
        ConvergenceError, Denied, DiscoveryService, LayersRefused, ListenAddress, Observations,
        Observed, Peer, Permission, RejectionSnapshot, ServerEnded, ServerEvent, ServerEvents,
        ServerHandle, ServerOptions, SubscriptionSnapshot, UnixSocket,
    };

    /// Where a server takes connections from.
    pub type Listener = xds_grpc::server::Listener<
        <crate::Tokio as Listen>::Listener,
        <crate::Tokio as Listen>::UnixListener,
    >;

    use xds_grpc::runtime::Listen;

    pub use crate::ManagementServer;
}
