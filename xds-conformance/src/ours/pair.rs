//! A client and a server of this repository, each on its own runtime, optionally with TLS.

use core::{marker::PhantomData, net::SocketAddr, time::Duration};

use tonic::service::Routes;
use xds_bootstrap::{IdentityFiles, TlsFiles};
use xds_core::{
    client::{ClientConfig, Node, OpaqueType, PollPolicy, ServerAddress as Upstream},
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};
use xds_format::{Format, Schema, encode_message};
use xds_grpc::{
    ClientOptions, Credentials, ManagementServer, ServerHandle, ServerOptions,
    client::connect,
    credentials::{ClientCertificates, ServerCredentials},
    runtime::Listen,
    server::{BoundAddress, ListenAddress, Listener},
    socket::AddressFamilies,
};
use xds_handle::ClientHandle;
use xds_rest::GatewayOptions;

use crate::{certificates::Authority, folder::Folder};

/// Transport of a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestMode {
    Stream,
    Poll,
}

/// Name of the TLS transport.
const SECURED: &str = "secured";

/// Only name in the server's certificate.
pub(super) const NAME: &str = "cp.test";

/// Certificates and trusted authorities of client and server.
pub(super) struct Certificates {
    folder: Folder,
    servers: Authority,
    clients: Authority,
}

impl Certificates {
    pub(super) fn new() -> Self {
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        Self { folder: Folder::new(), servers, clients }
    }

    /// Credentials of a server that requires client certificates of its authority.
    fn of_server(&self) -> ServerCredentials {
        let own = self.servers.issue(NAME);
        let certificate = self.folder.put("server.pem", &own.certificate);
        let private_key = self.folder.put("server.key", &own.private_key);
        let clients = self.folder.put("clients.pem", &self.clients.pem);
        ServerCredentials::tls(IdentityFiles { certificate, private_key })
            .with_client_authority(clients, ClientCertificates::Required)
    }

    /// Credentials of a client that the server accepts.
    pub(super) fn of_client(&self) -> Credentials {
        let own = self.clients.issue("client");
        let own = (
            self.folder.put("client.pem", &own.certificate),
            self.folder.put("client.key", &own.private_key),
        );
        Credentials::tls(self.trusted().with_identity(own.0, own.1))
    }

    /// Credentials of a client without a certificate.
    pub(super) fn of_unknown_client(&self) -> Credentials {
        Credentials::tls(self.trusted())
    }

    fn trusted(&self) -> TlsFiles {
        TlsFiles::default().with_ca_certificate(self.folder.put("servers.pem", &self.servers.pem))
    }
}

/// Running server, which stops when dropped.
pub(super) struct Served<S> {
    pub(super) handle: ServerHandle,
    server: ManagementServer<S>,
    _of: PhantomData<S>,
}

impl<S: Listen + Default> Served<S> {
    pub(super) fn start(certificates: Option<&Certificates>) -> Self {
        let mut options = ServerOptions::default().with_seed(7);
        if let Some(certificates) = certificates {
            options = options.with_credentials(certificates.of_server());
        }
        let server = ManagementServer::<S>::start(ServerConfig::default(), options);
        Self { handle: server.handle(), server, _of: PhantomData }
    }

    /// Listens for clients with this transport.
    pub(super) async fn listen(&self, mode: RequestMode) -> SocketAddr {
        let (listener, address) = bound::<S>().await;
        self.serve(listener, mode);
        address
    }

    /// Listens on `address` for clients with this transport.
    pub(super) async fn listen_on(
        &self,
        address: &ListenAddress,
        mode: RequestMode,
    ) -> BoundAddress {
        let (listener, bound) =
            ManagementServer::<S>::bind(address).await.expect("it can be bound");
        self.serve(listener, mode);
        bound
    }

    fn serve(
        &self,
        listener: impl Into<Listener<S::Listener, S::UnixListener>>,
        mode: RequestMode,
    ) {
        match mode {
            RequestMode::Stream => {
                let serving = self.server.serve(listener);
                S::default().spawn(Box::pin(async { serving.await.expect("it serves") }));
            }
            RequestMode::Poll => {
                // Longer than any case waits.
                let options = GatewayOptions::default().with_hold(Duration::from_secs(60));
                let serving = self.server.serve_rest(listener, Schema::envoy(), options);
                S::default().spawn(Box::pin(async { serving.await.expect("it serves") }));
            }
        }
    }

    /// Listens for other services, including health.
    pub(super) async fn listen_with(&self, routes: Routes) -> SocketAddr {
        let (listener, address) = bound::<S>().await;
        let serving = self.server.serve_routes(listener, routes.add_service(self.server.health()));
        S::default().spawn(Box::pin(async { serving.await.expect("it serves") }));
        address
    }

    pub(super) async fn set(&self, name: &str, timeout: &str) {
        let mut change = Transaction::new();
        change.set(CLUSTER, name, cluster(name, timeout));
        self.handle.apply(change).await.expect("a sound change");
    }
}

impl<S> Drop for Served<S> {
    fn drop(&mut self) {
        smol::block_on(self.handle.shut_down());
    }
}

async fn bound<S: Listen + Default>() -> (S::Listener, SocketAddr) {
    let runtime = S::default();
    let loopback = ([127, 0, 0, 1], 0).into();
    let listener = runtime.bind(loopback, AddressFamilies::SystemDefault).expect("loopback");
    let address = runtime.local_address(&listener).expect("it is bound");
    (listener, address)
}

/// Starts a client of the server at `address`, over TLS if it has credentials.
pub(super) fn client<C: Listen + Default>(
    address: SocketAddr,
    mode: RequestMode,
    credentials: Option<Credentials>,
) -> ClientHandle {
    let scheme = if credentials.is_some() { "https" } else { "http" };
    client_of::<C>(&format!("{scheme}://{address}"), mode, credentials)
}

/// Starts a client of the server with this URI, over TLS if it has credentials.
pub(super) fn client_of<C: Listen + Default>(
    uri: &str,
    mode: RequestMode,
    credentials: Option<Credentials>,
) -> ClientHandle {
    let mut server = Upstream::new(uri);
    if credentials.is_some() {
        server = server.with_transport(SECURED);
    }
    if let RequestMode::Poll = mode {
        let mut policy = PollPolicy::new(Duration::from_millis(20));
        policy.request_timeout = Duration::from_secs(60);
        server = server.with_polling(policy);
    }
    let config = ClientConfig::new(Node::new("node-1"), server).with_type(OpaqueType::new(CLUSTER));
    let mut options = ClientOptions::default().with_seed(7);
    if let Some(credentials) = credentials {
        options = options.with_credentials(SECURED.into(), credentials);
    }
    connect(C::default(), config, options)
}

pub(super) fn cluster(name: &str, timeout: &str) -> Vec<u8> {
    let text = serde_json::json!({ "name": name, "connect_timeout": timeout }).to_string();
    let message = "envoy.config.cluster.v3.Cluster";
    encode_message(Schema::envoy(), "", message, Format::Json, text.as_bytes()).expect("a cluster")
}
