//! Connections and calls of a server.

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::{convert::Infallible, sync::Arc};

use http::{Request, Response, header::HOST};
use hyper::body::Incoming;
use tokio::sync::watch;
use tonic::{Code, Status, body::Body, service::Routes, transport::server::TcpConnectInfo};
use tower_service::Service as _;
use xds_grpc::server::{Acceptance, ConnectionHandler};
use xds_routing::{
    Random,
    listener::{FilterChain, Listener, ListenerKind},
    serving::{CallRefused, Connection, IncomingCall, ServerRoutes},
};

use super::tls::{ServerTls, security_of};
use crate::{certificates::Providers, metadata::Metadata};

/// Handler of a server's connections.
#[derive(Clone)]
pub(super) struct ServerHandler {
    current: watch::Receiver<Option<CurrentListener>>,
    services: Routes,
    providers: Arc<Providers>,
    drain_grace: Duration,
    /// Seed of the next call.
    seed: Arc<AtomicU64>,
}

/// Listener that new connections use.
#[derive(Clone)]
pub(super) struct CurrentListener {
    listener: Arc<Listener>,
    /// Newest routes. Closed when the listener is replaced.
    routes: watch::Receiver<ServerRoutes>,
}

impl CurrentListener {
    pub(super) const fn new(
        listener: Arc<Listener>,
        routes: watch::Receiver<ServerRoutes>,
    ) -> Self {
        Self { listener, routes }
    }
}

/// Connection with its filter chain and routes.
pub(super) struct ConnectionState {
    connection: Connection,
    chain: Arc<FilterChain>,
    routes: watch::Receiver<ServerRoutes>,
}

impl ServerHandler {
    pub(super) fn new(
        current: watch::Receiver<Option<CurrentListener>>,
        services: Routes,
        providers: Providers,
        drain_grace: Duration,
        seed: u64,
    ) -> Self {
        let (providers, seed) = (Arc::new(providers), Arc::new(AtomicU64::new(seed)));
        Self { current, services, providers, drain_grace, seed }
    }

    /// Decides whether a call may reach the services.
    fn admit(&self, state: &ConnectionState, request: &Request<Incoming>) -> Result<(), Status> {
        let authority = authority_of(request)?;
        let metadata = Metadata(request.headers());
        let call = IncomingCall::new(authority, request.uri().path(), &metadata)
            .with_method(request.method().as_str());
        let mut random = Random::new(self.seed.fetch_add(1, Ordering::Relaxed));
        let routes = state.routes.borrow().clone();
        let admitted = routes.admit(&state.chain, &state.connection, &call, &mut random);
        admitted.map_err(|refused| {
            if let CallRefused::Denied(reason) = &refused {
                // The client does not learn the reason.
                let (client, path) = (state.connection.remote, call.path);
                tracing::debug!(%client, path, %reason, "an access rule denies a call");
            }
            Status::new(Code::from_i32(refused.code().as_i32()), refused.to_string())
        })
    }
}

impl ConnectionHandler for ServerHandler {
    type State = ConnectionState;

    async fn accept(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Acceptance<ConnectionState>, String> {
        let current = self.current.borrow().clone();
        let CurrentListener { listener, routes } = current.ok_or("the server is not serving")?;
        let ListenerKind::Socket(socket) = listener.kind() else {
            return Err("the listener is not for servers".into());
        };
        let connection = Connection::new(local, peer);
        let chain = socket.filter_chain(&connection);
        let chain =
            Arc::clone(chain.ok_or_else(|| {
                format!("no filter chain of listener `{}` matches", listener.name())
            })?);
        let mut replaced = routes.clone();
        let tls = chain.tls.as_ref();
        let tls = tls.map(|context| ServerTls::new(context, &self.providers)).transpose()?;
        let acceptance = match tls {
            None => Acceptance::plaintext(ConnectionState { connection, chain, routes }),
            Some(tls) => Acceptance::tls(tls.config().await?, move |certificates| {
                let connection = connection.with_security(security_of(certificates)?);
                Ok(ConnectionState { connection, chain, routes })
            }),
        };
        let replaced = async move { while replaced.changed().await.is_ok() {} };
        Ok(acceptance.drained_after(replaced, self.drain_grace))
    }

    async fn call(
        &self,
        state: Arc<ConnectionState>,
        mut request: Request<Incoming>,
    ) -> Response<Body> {
        if let Err(status) = self.admit(&state, &request) {
            return status.into_http();
        }
        let Connection { local, remote, .. } = state.connection;
        let addresses = TcpConnectInfo { local_addr: Some(local), remote_addr: Some(remote) };
        request.extensions_mut().insert(addresses);
        request.extensions_mut().insert(state.connection.clone());
        drop(state);
        remove_other_authority(&mut request);
        let answered: Result<_, Infallible> = self.services.clone().call(request).await;
        answered.unwrap_or_else(|never| match never {})
    }
}

/// Returns the authority of a request (gRFC A41): `:authority`, or `host` without it.
fn authority_of<B>(request: &Request<B>) -> Result<&str, Status> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let authority = match (request.uri().authority(), hosts.next(), hosts.next()) {
        (_, _, Some(_)) | (None, None, None) => None,
        (Some(authority), _, None) => Some(authority.as_str()),
        (None, Some(host), None) => host.to_str().ok(),
    };
    authority.ok_or_else(|| Status::internal("the request must have exactly one authority"))
}

/// Removes `host` from a request with `:authority`, so that services see the authority that access
/// rules saw.
fn remove_other_authority<B>(request: &mut Request<B>) {
    if request.uri().authority().is_some() {
        request.headers_mut().remove(HOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, hosts: &[&str]) -> Request<()> {
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn request_has_one_authority() {
        let of = |uri, hosts: &[&str]| {
            let mut request = request(uri, hosts);
            let authority = authority_of(&request).map(String::from).map_err(|it| it.code());
            remove_other_authority(&mut request);
            let hosts = request.headers().get_all(HOST).iter();
            (authority, hosts.map(|host| host.to_str().unwrap().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of("http://shop/a", &[]), (Ok("shop".into()), vec![]));
        assert_eq!(of("http://shop/a", &["other"]), (Ok("shop".into()), vec![]));
        assert_eq!(of("http://shop/a", &["shop", "shop"]).0, Err(Code::Internal));
        assert_eq!(of("/a", &["shop"]), (Ok("shop".into()), vec!["shop".into()]));
        for hosts in [&[][..], &["shop", "shop"]] {
            assert_eq!(of("/a", hosts).0, Err(Code::Internal));
        }
    }
}
