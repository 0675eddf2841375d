//! One attempt to connect to a service: its addresses in turn, TLS if configured, then HTTP/2.

use core::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::atomic::{AtomicU8, Ordering},
    task::{Context, Poll},
    time::Duration,
};
use std::{fmt::Write as _, io};

use http::{
    HeaderValue, Uri,
    header::USER_AGENT,
    uri::{Authority, Scheme},
};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::select;
use tonic::{body::Body, client::Grpc};

use super::{options::ClientOptions, service::Service};
use crate::{
    address::{Endpoint, Target},
    grpc::with_causes,
    guard::caught_future,
    happy_eyeballs::first_success,
    http2::{CallEnd, EndGuard, NotHttp2, Protection, expect_one_call},
    keepalive::Keepalive,
    runtime::{Io, SharedRuntime},
    tls::{AppProtocol, Security, Tls},
    zoo::{self, Bug},
};

/// Keepalive pings on a connection without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdlePings {
    /// Pings are sent, also before the server's SETTINGS have arrived.
    Sent,
    /// No pings are sent: gRPC servers end connections on which they arrive while there is no call.
    Omitted,
}

/// Connects to a service and opens HTTP/2.
///
/// Every attempt makes a new connection. Reconnection is up to the core, so failures are visible to
/// it. An attempt ends when a connection is up (the server's SETTINGS have arrived), when all
/// addresses have failed, or after
/// [`ClientOptions::connect_timeout`].
pub(crate) async fn dial(
    service: &Service,
    options: &ClientOptions,
    runtime: &SharedRuntime,
    idle_pings: IdlePings,
) -> Result<Http2Connection, String> {
    let progress = Progress::default();
    let connecting = async {
        let pings = (options.keepalive, idle_pings);
        let opened = |io, protection| open(io, protection, pings, runtime, &progress);
        let protocol = AppProtocol::Http2;
        let found = connect(service, options, runtime, protocol, &progress, opened).await?;
        let ((requests, end), scheme, authority) = found;
        let origin = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build();
        let origin = origin.map_err(|why| why.to_string())?;
        Ok(Http2Connection { requests, end, origin })
    };
    with_timeout(connecting, options, runtime, &progress).await
}

/// Connects to a service for HTTP/1.1.
#[cfg(feature = "rest")]
pub(crate) async fn dial_http1(
    service: &Service,
    options: &ClientOptions,
    runtime: &SharedRuntime,
) -> Result<Box<dyn Io>, String> {
    let progress = Progress::default();
    let connecting = async {
        let without_http2 = |io, _| core::future::ready(Ok(io));
        Ok(connect(service, options, runtime, AppProtocol::Http1, &progress, without_http2)
            .await?
            .0)
    };
    with_timeout(connecting, options, runtime, &progress).await
}

async fn with_timeout<T>(
    connecting: impl Future<Output = Result<T, String>>,
    options: &ClientOptions,
    runtime: &SharedRuntime,
    progress: &Progress,
) -> Result<T, String> {
    let limit = options.connect_timeout;
    if zoo::is(Bug::NoConnectTimeout) {
        return connecting.await;
    }
    match runtime.timeout(limit, connecting).await {
        Some(done) => done,
        None => Err(format!("no connection within {limit:?}: {}", progress.missing())),
    }
}

/// Furthest step that any address of an attempt has reached, for the error message.
#[derive(Debug, Default)]
struct Progress(AtomicU8);

/// Steps of an attempt, in order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connect = 1,
    TlsHandshake,
    AwaitSettings,
}

impl Progress {
    fn reach(&self, step: Step) {
        self.0.fetch_max(step as u8, Ordering::Relaxed);
    }

    /// Returns the message for the step at which the attempt timed out.
    fn missing(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            0 => "credentials were not read, or the name was not resolved",
            1 => "no address of the server accepted the connection",
            2 => {
                "the server accepted the connection but did not answer the TLS handshake; is it a \
                 port without TLS?"
            }
            _ => {
                "the server accepted the connection but sent no HTTP/2 SETTINGS; is it the port of \
                 a gRPC server?"
            }
        }
    }
}

/// Connects to the service's addresses and completes each connection with `finish`. Tries the next
/// address if one fails or is slow.
async fn connect<T, F>(
    service: &Service,
    options: &ClientOptions,
    runtime: &SharedRuntime,
    protocol: AppProtocol,
    progress: &Progress,
    finish: impl Fn(Box<dyn Io>, Protection) -> F + Sync,
) -> Result<(T, Scheme, Authority), String>
where
    F: Future<Output = Result<T, String>>,
{
    let target = Target::parse(service.target()).map_err(|why| why.to_string())?;
    let security = service.credentials().security(&target, service.metadata(), Some(runtime)).await;
    let security = security.map_err(|why| why.to_string())?;
    let (tls, scheme) = match security {
        Security::Plain => (None, Scheme::HTTP),
        Security::Tls(tls) => (Some(tls.with_protocol(protocol)), Scheme::HTTPS),
    };
    let keepalive = service.probes().map(|probes| options.keepalive.with_probes(probes));
    let mut keepalive = keepalive.unwrap_or(options.keepalive);
    if zoo::is(Bug::KeepaliveOff) {
        keepalive.probes.after = Some(Duration::from_secs(30_000));
    }
    let secured = |connected: io::Result<Box<dyn Io>>, tls: Option<Tls>| {
        let finish = &finish;
        async move {
            let io = connected.map_err(|why| why.to_string())?;
            let Some(tls) = tls else { return finish(io, Protection::Plaintext).await };
            progress.reach(Step::TlsHandshake);
            finish(tls.connect(io, runtime).await?, Protection::Tls).await
        }
    };
    let attempt = |address: SocketAddr| {
        progress.reach(Step::Connect);
        let (connecting, tls) = (runtime.runtime().connect(address, keepalive), tls.clone());
        let secured = &secured;
        async move { secured(connecting.await, tls).await.map_err(|why| (address, why)) }
    };
    let connected = match target.endpoint {
        Endpoint::Host(host, port) => {
            let addresses = match &options.resolver {
                Some(resolver) => caught_future(|| resolver.resolve(&host, port)).await,
                None => Some(runtime.runtime().resolve(&host, port).await),
            };
            let addresses = addresses.ok_or_else(|| format!("resolving {host:?} panicked"))?;
            let addresses = addresses.map_err(|why| format!("cannot resolve {host:?}: {why}"))?;
            first_to_connect(addresses, attempt, runtime).await?
        }
        Endpoint::Addresses(addresses) => first_to_connect(addresses, attempt, runtime).await?,
        Endpoint::Unix(path) => {
            progress.reach(Step::Connect);
            let connecting = runtime.runtime().connect_unix(path);
            secured(connecting.await, tls).await?
        }
    };
    Ok((connected, scheme, service.authority().cloned().unwrap_or(target.authority)))
}

/// Opens HTTP/2 on a connection. Returns after the server's SETTINGS have arrived.
async fn open(
    io: Box<dyn Io>,
    protection: Protection,
    (keepalive, idle_pings): (Keepalive, IdlePings),
    runtime: &SharedRuntime,
    progress: &Progress,
) -> Result<(SendRequest<Body>, CallEnd), String> {
    progress.reach(Step::AwaitSettings);
    let (io, mut opening, end) = expect_one_call(TokioIo::new(io), protection);
    let closed =
        |error: hyper::Error| format!("{}: {}", NotHttp2::Closed(protection), with_causes(&error));
    let interval = (!zoo::is(Bug::KeepaliveOff)).then_some(keepalive.interval);
    let (requests, connection) = http2::Builder::new(runtime.clone())
        .timer(runtime.clone())
        .keep_alive_interval(interval)
        .keep_alive_timeout(keepalive.timeout)
        .keep_alive_while_idle(idle_pings == IdlePings::Sent)
        .handshake(TokioIo::new(io))
        .await
        .map_err(closed)?;
    let mut connection = Box::pin(connection);
    if zoo::is(Bug::ConnectionLeaked) {
        core::mem::forget(requests.clone());
    }
    if zoo::is(Bug::OpenBeforeSettings) {
        runtime.spawn(async { drop(connection.await) });
        return Ok((requests, end));
    }
    let why = select! {
        biased;
        opened = &mut opening => match opened {
            Ok(()) => {
                // The connection task ends with the last call. The calls report connection errors.
                runtime.spawn(async { drop(connection.await) });
                return Ok((requests, end));
            }
            Err(why) => why,
        },
        ended = &mut connection => match (opening.failure(), ended) {
            (None, Err(error)) => return Err(closed(error)),
            (why, _) => why,
        }
    };
    Err(why.unwrap_or(NotHttp2::Silent).to_string())
}

/// HTTP/2 connection for one call.
#[derive(Clone, Debug)]
pub(crate) struct Http2Connection {
    requests: SendRequest<Body>,
    end: CallEnd,
    origin: Uri,
}

/// Value of the `user-agent` header.
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));

impl Http2Connection {
    /// Waits for the end of the connection's call.
    pub(crate) fn poll_call_end(&self, cx: &Context<'_>) -> Poll<()> {
        self.end.poll(cx)
    }

    /// Returns a guard that marks the call as ended. Attach it to a part that the call cannot
    /// outlive.
    pub(crate) fn call_end_guard(&self) -> EndGuard {
        EndGuard(self.end.clone())
    }

    pub(crate) fn grpc(self) -> Grpc<Self> {
        let origin = self.origin.clone();
        Grpc::with_origin(self, origin)
    }
}

impl tower_service::Service<http::Request<Body>> for Http2Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        request.headers_mut().insert(USER_AGENT, USER_AGENT_VALUE);
        Box::pin(self.requests.send_request(request))
    }
}

/// Maximum number of failed addresses in the error message.
const MAX_LISTED_FAILURES: usize = 8;

/// Tries the addresses in order, the next one as soon as one fails or after a delay. Returns the
/// first completed connection, or an error when all addresses have failed.
async fn first_to_connect<T, F>(
    addresses: Vec<SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
    runtime: &SharedRuntime,
) -> Result<T, String>
where
    F: Future<Output = Result<T, (SocketAddr, String)>>,
{
    let is_only_one = addresses.len() == 1;
    let failures = match first_success(runtime, addresses, attempt).await {
        Ok(connected) => return Ok(connected),
        Err(failures) => failures,
    };
    Err(match failures.as_slice() {
        [] => "the name has no addresses".into(),
        [(_, why)] if is_only_one => why.clone(),
        all => {
            let mut text = format!("none of {} addresses can be reached", all.len());
            for (at, (address, why)) in all.iter().take(MAX_LISTED_FAILURES).enumerate() {
                let separator = if at == 0 { ": " } else { "; " };
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}{address}: {why}");
            }
            text
        }
    })
}
