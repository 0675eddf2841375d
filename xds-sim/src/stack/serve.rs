//! gRPC services on a host, and a connector for gRPC clients on one.

use core::{
    error::Error,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll},
};
use std::io;

use http::{Request, Response, Uri};
use http_body::Body as HttpBody;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{select, sync::watch};
use tonic::body::Body;
use tower_service::Service;
use xds_grpc::runtime::{Runtime as _, SharedRuntime};

use super::{Host, StageListener, network::Socket};

type BoxError = Box<dyn Error + Send + Sync>;

impl Host {
    /// Serves gRPC on a port: routes of tonic
    /// ([`Routes`](https://docs.rs/tonic/latest/tonic/service/struct.Routes.html)), a generated
    /// server, or any other service of HTTP requests. Its tasks are those of the host, so they end
    /// when the host is [killed](super::Stage::kill).
    ///
    /// tonic's own `Server` sends the date of the real clock, and keeps running when the host is
    /// killed.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is in use.
    pub fn serve<S, B>(&self, port: u16, service: S) -> io::Result<Serving>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: HttpBody<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let listener = self.listen((self.address(), port).into())?;
        let address = listener.address();
        let (stage, changes) = watch::channel(ServingStage::Serving);
        self.start(accept(self.clone(), listener, service, changes));
        Ok(Serving { address, stage })
    }

    /// Returns a connector with which a gRPC client of tonic connects from this host:
    /// `Endpoint::from_static("http://server:50051").connect_with_connector(host.connector())`. The
    /// name service of the stage resolves the name.
    #[must_use]
    pub fn connector(&self) -> Connector {
        Connector(self.clone())
    }
}

/// gRPC service on a [`Host`]. It is served until the host is killed or the service is
/// [shut down](Self::shut_down), also after this value was dropped.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    stage: watch::Sender<ServingStage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServingStage {
    Serving,
    Closing,
}

impl Serving {
    /// Address of the service.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections and calls (GOAWAY), and waits until the last call has ended.
    pub async fn shut_down(self) {
        self.stage.send_replace(ServingStage::Closing);
        self.stage.closed().await;
    }
}

/// Waits until the service is shut down.
async fn closing(mut stage: watch::Receiver<ServingStage>) {
    if stage.wait_for(|stage| *stage == ServingStage::Closing).await.is_err() {
        core::future::pending().await
    }
}

async fn accept<S, B>(
    host: Host,
    listener: StageListener,
    service: S,
    stage: watch::Receiver<ServingStage>,
) where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: HttpBody<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    loop {
        let accepted = select! {
            biased;
            () = closing(stage.clone()) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else { return };
        host.start(serve_connection(host.clone(), socket, service.clone(), stage.clone()));
    }
}

async fn serve_connection<S, B>(
    host: Host,
    socket: Socket,
    service: S,
    stage: watch::Receiver<ServingStage>,
) where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: HttpBody<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let runtime = SharedRuntime::new(host);
    let respond = service_fn(move |request: Request<Incoming>| {
        let mut service = service.clone();
        async move {
            poll_fn(|cx| service.poll_ready(cx)).await?;
            service.call(request.map(Body::new)).await
        }
    });
    let connection = http2::Builder::new(runtime.clone())
        .timer(runtime)
        // It would be that of the real clock.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(socket), respond);
    let mut connection = pin!(connection);
    // The client sees how the connection ends.
    select! {
        biased;
        _ = connection.as_mut() => return,
        () = closing(stage) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Connector of a [`Host`], for gRPC clients of tonic. See [`Host::connector`].
///
/// A connection that is [lost without a sign](super::Stage::lose_connections) ends only by a timeout
/// of the client, such as tonic's `http2_keep_alive_interval`.
#[derive(Clone, Debug)]
pub struct Connector(Host);

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Socket>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = self.0.clone();
        Box::pin(async move {
            let no_host = || io::Error::new(io::ErrorKind::InvalidInput, "the URI has no host");
            let name = uri.host().ok_or_else(no_host)?.to_owned();
            let is_tls = uri.scheme_str() == Some("https");
            let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
            let mut failure = io::ErrorKind::NotFound.into();
            for address in host.resolve(&name, port).await? {
                match host.dial(address).await {
                    Ok(socket) => return Ok(TokioIo::new(socket)),
                    Err(why) => failure = why,
                }
            }
            Err(failure)
        })
    }
}
