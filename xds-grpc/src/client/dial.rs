//! One attempt to connect: every address behind a name in turn, TLS where it is asked for, HTTP/2.

use core::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::fmt::Write as _;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::{
    HeaderValue, Uri,
    header::USER_AGENT,
    uri::{Authority, Scheme},
};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
    rt::Timer as _,
};
use tokio::select;
use tonic::{body::Body, client::Grpc};

use super::{
    address::{Place, Target},
    options::ClientOptions,
    service::Service,
};
use crate::{
    grpc::with_causes,
    guard::caught_future,
    keepalive::Keepalive,
    runtime::{Io, Shared},
    tls::{Speaks, Tls},
};

/// A connection of its own for every attempt: one that mends itself would hide failures.
///
/// An attempt is over when a connection is up, when no address behind the service's name has taken one,
/// or after [`ClientOptions::connect_timeout`].
pub(crate) async fn dial(
    service: &Service,
    options: &ClientOptions,
    runtime: &Shared,
) -> Result<Channel, String> {
    in_time(connect(service, options, runtime), options, runtime).await
}

/// A connection that HTTP/1.1 is spoken over.
#[cfg(feature = "rest")]
pub(crate) async fn dial_http1(
    service: &Service,
    options: &ClientOptions,
    runtime: &Shared,
) -> Result<Box<dyn Io>, String> {
    let connecting = async { Ok(connect_io(service, options, runtime, Speaks::Http1).await?.0) };
    in_time(connecting, options, runtime).await
}

async fn in_time<T>(
    connecting: impl Future<Output = Result<T, String>>,
    options: &ClientOptions,
    runtime: &Shared,
) -> Result<T, String> {
    let limit = options.connect_timeout;
    match runtime.timeout(limit, connecting).await {
        Some(done) => done,
        None => Err(format!("no connection within {limit:?}")),
    }
}

async fn connect_io(
    service: &Service,
    options: &ClientOptions,
    runtime: &Shared,
    speaks: Speaks,
) -> Result<(Box<dyn Io>, Scheme, Authority), String> {
    let target = Target::parse(service.target()).map_err(|why| why.to_string())?;
    let security = service.credentials().security(&target, service.metadata(), Some(runtime)).await;
    let security = security.map_err(|why| why.to_string())?;
    let (tls, scheme) = match security {
        Security::Plain => (None, Scheme::HTTP),
        Security::Tls(tls) => (Some(tls.speaking(speaks)), Scheme::HTTPS),
    };
    let keepalive = service.probes().map(|probes| options.keepalive.with_probes(probes));
    let keepalive = keepalive.unwrap_or(options.keepalive);
    let io = match target.place {
        Place::Host(host, port) => {
            let addresses = match &options.resolver {
                Some(resolver) => caught_future(|| resolver.resolve(&host, port)).await,
                None => Some(runtime.runtime().resolve(&host, port).await),
            };
            let addresses = addresses.ok_or_else(|| format!("resolving {host:?} panicked"))?;
            let addresses = addresses.map_err(|why| format!("cannot resolve {host:?}: {why}"))?;
            first_to_connect(addresses, keepalive, tls, runtime).await?
        }
        Place::Addresses(addresses) => first_to_connect(addresses, keepalive, tls, runtime).await?,
        Place::Unix(path) => {
            let connecting = runtime.runtime().connect_unix(path);
            secured(connecting.await.map_err(|why| why.to_string())?, tls).await?
        }
    };
    Ok((io, scheme, service.authority().cloned().unwrap_or(target.authority)))
}

async fn connect(
    service: &Service,
    options: &ClientOptions,
    runtime: &Shared,
) -> Result<Channel, String> {
    let (io, scheme, authority) = connect_io(service, options, runtime, Speaks::Http2).await?;
    let origin = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build();
    let origin = origin.map_err(|why| why.to_string())?;
    let keepalive = options.keepalive;
    let (requests, connection) = http2::Builder::new(runtime.clone())
        .timer(runtime.clone())
        .keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .keep_alive_while_idle(true)
        .handshake(io)
        .await
        .map_err(|error| with_causes(&error))?;
    // It ends with the last call on it; what breaks it is told to the calls.
    runtime.spawn(async { drop(connection.await) });
    Ok(Channel { requests, origin })
}

/// A connection that calls are made on.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    requests: SendRequest<Body>,
    origin: Uri,
}

/// What we are called in the logs of servers.
const OURSELVES: HeaderValue =
    HeaderValue::from_static(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));

impl Channel {
    pub(crate) fn grpc(self) -> Grpc<Self> {
        let origin = self.origin.clone();
        Grpc::with_origin(self, origin)
    }
}

impl tower_service::Service<http::Request<Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        request.headers_mut().insert(USER_AGENT, OURSELVES);
        Box::pin(self.requests.send_request(request))
    }
}

/// What a connection is protected by.
#[derive(Clone, Debug)]
pub(crate) enum Security {
    Plain,
    Tls(Tls),
}

/// How long an address is waited for before the next one is tried beside it (gRFC A61): one that
/// swallows packets must not use up the whole attempt.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// How many failures are told of at most.
const TOLD_FAILURES: usize = 8;

/// The addresses in their order, the next one as soon as one has failed or takes long. The first
/// connection that is up, TLS included, is the one; the attempt fails when all of them have (S1.034).
async fn first_to_connect(
    addresses: Vec<SocketAddr>,
    keepalive: Keepalive,
    tls: Option<Tls>,
    runtime: &Shared,
) -> Result<Box<dyn Io>, String> {
    let is_only_one = addresses.len() == 1;
    let mut waiting = addresses.into_iter();
    // Dropping it ends whatever is still on its way.
    let mut attempts = FuturesUnordered::new();
    let mut failures: Vec<(SocketAddr, String)> = Vec::new();
    loop {
        if let Some(address) = waiting.next() {
            let tls = tls.clone();
            let connecting = runtime.runtime().connect(address, keepalive);
            attempts.push(async move {
                let connected = match connecting.await {
                    Ok(socket) => secured(socket, tls).await,
                    Err(why) => Err(why.to_string()),
                };
                (address, connected)
            });
        } else if attempts.is_empty() {
            break;
        }
        select! {
            Some(done) = attempts.next() => match done {
                (_, Ok(io)) => return Ok(io),
                (address, Err(why)) => failures.push((address, why)),
            },
            () = runtime.sleep(NEXT_ADDRESS_AFTER), if waiting.len() > 0 => {}
        }
    }
    Err(match failures.as_slice() {
        [] => "the name has no addresses".into(),
        [(_, why)] if is_only_one => why.clone(),
        all => {
            let mut text = format!("none of {} addresses can be reached", all.len());
            for (at, (address, why)) in all.iter().take(TOLD_FAILURES).enumerate() {
                let separator = if at == 0 { ": " } else { "; " };
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}{address}: {why}");
            }
            text
        }
    })
}

async fn secured(socket: Box<dyn Io>, tls: Option<Tls>) -> Result<Box<dyn Io>, String> {
    match tls {
        Some(tls) => tls.connect(socket).await,
        None => Ok(socket),
    }
}
