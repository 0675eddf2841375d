//! One attempt to connect to a service: its addresses in order, TLS if configured, then HTTP/2.

use core::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{
    fmt::{self, Write as _},
    io,
    sync::{Mutex, MutexGuard},
};

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
use xds_core::error_causes::with_causes;

#[cfg(feature = "rest")]
use super::http1_io::Http1Io;
use super::{options::ClientOptions, service::Service};
use crate::{
    address::{Endpoint, Target},
    clock::FAR,
    guard::{caught_future, locked},
    happy_eyeballs::first_success,
    http2::{CallEnd, ClosedGuard, EndGuard, NotHttp2, Protection, expect_one_call},
    keepalive::Keepalive,
    runtime::{Io, SharedRuntime},
    tls::{AppProtocol, Security, Tls},
    zoo::{self, Bug},
};

/// Keepalive pings on a connection without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdlePings {
    /// Pings are sent, even before the server's SETTINGS have arrived.
    Sent,
    /// No pings are sent: gRPC servers close connections that send pings without an active call.
    Omitted,
}

/// Connects to a service and opens HTTP/2.
///
/// Every attempt makes a new connection. The core decides when to reconnect, so it sees every
/// failure. An attempt ends when a connection is up (the server's SETTINGS have arrived), when all
/// addresses have failed, or after [`ClientOptions::connect_timeout`].
pub(crate) async fn dial(
    service: &Service,
    options: &ClientOptions,
    runtime: &SharedRuntime,
    idle_pings: IdlePings,
) -> Result<Http2Connection, String> {
    let progress = Progress::default();
    let connecting = async {
        let pings = (options.keepalive, idle_pings);
        let opened = |io, protection, attempt| open(io, protection, pings, runtime, attempt);
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
        let without_http2 = |io, protection, _| {
            let io = Http1Io::new(TokioIo::new(io), protection);
            core::future::ready(Ok(Box::new(TokioIo::new(io)) as Box<dyn Io>))
        };
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

/// Attempts to connect, one for each address that was tried, for the error message.
#[derive(Debug, Default)]
struct Progress(Mutex<Vec<Attempt>>);

#[derive(Debug)]
struct Attempt {
    /// Address; `None` for a Unix socket.
    address: Option<SocketAddr>,
    step: Step,
    failure: Option<String>,
}

/// Steps of an attempt, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Connect,
    TlsHandshake,
    AwaitSettings,
}

/// Progress of one attempt.
#[derive(Clone, Copy, Debug)]
struct AttemptProgress<'a> {
    progress: &'a Progress,
    index: usize,
}

impl Step {
    /// Describes a server that does not respond at this step.
    fn missing(self) -> &'static str {
        match self {
            Self::Connect => "did not accept the connection",
            Self::TlsHandshake => {
                "accepted the connection but did not answer the TLS handshake; is it a port \
                 without TLS?"
            }
            Self::AwaitSettings => {
                "accepted the connection but sent no HTTP/2 SETTINGS; is it the port of a gRPC \
                 server?"
            }
        }
    }
}

impl AttemptProgress<'_> {
    fn reach(self, step: Step) {
        if let Some(attempt) = self.progress.lock().get_mut(self.index) {
            attempt.step = step;
        }
    }

    fn fail(self, why: &str) {
        if let Some(attempt) = self.progress.lock().get_mut(self.index) {
            attempt.failure = Some(why.to_owned());
        }
    }
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, Vec<Attempt>> {
        locked(&self.0)
    }

    fn begin(&self, address: Option<SocketAddr>) -> AttemptProgress<'_> {
        let mut attempts = self.lock();
        attempts.push(Attempt { address, step: Step::Connect, failure: None });
        AttemptProgress { progress: self, index: attempts.len() - 1 }
    }

    /// Returns the message for an attempt that timed out. If some addresses have failed, it lists
    /// what each address lacks; otherwise it describes the furthest step that an address has
    /// reached.
    fn missing(&self) -> String {
        let attempts = self.lock();
        let Some(furthest) = attempts.iter().map(|it| it.step).max() else {
            return "credentials were not read, or the name was not resolved".into();
        };
        if attempts.iter().all(|it| it.failure.is_none()) {
            return match furthest {
                Step::Connect => "no address of the server accepted the connection".into(),
                step => format!("the server {}", step.missing()),
            };
        }
        listed(attempts.iter().map(|Attempt { address, step, failure }| {
            let address = address.map(|it| it.to_string()).unwrap_or_default();
            (address, failure.as_deref().unwrap_or_else(|| step.missing()))
        }))
    }
}

/// Connects to the service's addresses and completes each connection with `finish`. Tries the next
/// address if one fails or is slow.
async fn connect<'p, T, F>(
    service: &Service,
    options: &ClientOptions,
    runtime: &SharedRuntime,
    protocol: AppProtocol,
    progress: &'p Progress,
    finish: impl Fn(Box<dyn Io>, Protection, AttemptProgress<'p>) -> F + Sync,
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
    let secured = |connected: io::Result<Box<dyn Io>>, tls: Option<Tls>, attempt| {
        let finish = &finish;
        async move {
            let io = connected.map_err(|why| why.to_string())?;
            let Some(tls) = tls else { return finish(io, Protection::Plaintext, attempt).await };
            attempt.reach(Step::TlsHandshake);
            finish(tls.connect(io, runtime).await?, Protection::Tls, attempt).await
        }
    };
    let attempt = |address: SocketAddr| {
        let attempt = progress.begin(Some(address));
        let (connecting, tls) = (runtime.runtime().connect(address, keepalive), tls.clone());
        let secured = &secured;
        async move {
            let connected = secured(connecting.await, tls, attempt).await;
            connected.map_err(|why| {
                attempt.fail(&why);
                (address, why)
            })
        }
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
            let attempt = progress.begin(None);
            let connecting = runtime.runtime().connect_unix(path);
            secured(connecting.await, tls, attempt).await?
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
    attempt: AttemptProgress<'_>,
) -> Result<(SendRequest<Body>, CallEnd), String> {
    attempt.reach(Step::AwaitSettings);
    let (io, mut opening, end) = expect_one_call(TokioIo::new(io), protection);
    let closed =
        |error: hyper::Error| format!("{}: {}", NotHttp2::Closed(protection), with_causes(&error));
    let interval = (!zoo::is(Bug::KeepaliveOff)).then_some(keepalive.interval.min(FAR));
    let (requests, connection) = http2::Builder::new(runtime.clone())
        .timer(runtime.clone())
        .keep_alive_interval(interval)
        .keep_alive_timeout(keepalive.timeout.min(FAR))
        .keep_alive_while_idle(idle_pings == IdlePings::Sent)
        .handshake(TokioIo::new(io))
        .await
        .map_err(closed)?;
    let mut connection = Box::pin(connection);
    if zoo::is(Bug::ConnectionLeaked) {
        core::mem::forget(requests.clone());
    }
    if zoo::is(Bug::OpenBeforeSettings) {
        runtime.spawn(run(connection, end.clone()));
        return Ok((requests, end));
    }
    let why = select! {
        biased;
        opened = &mut opening => match opened {
            Ok(()) => {
                // The connection task ends with the last call.
                runtime.spawn(run(connection, end.clone()));
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

/// Drives a connection to its end.
async fn run(connection: impl Future<Output = hyper::Result<()>>, end: CallEnd) {
    let mut guard = ClosedGuard { end, failure: None };
    guard.failure = connection.await.err().map(|error| with_causes(&error));
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

    /// Waits for the end of the connection, and returns the failure that ended it.
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<Option<&str>> {
        self.end.poll_closed(cx)
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
            let count = all.len();
            let failures = listed(all.iter().map(|(address, why)| (address, why.as_str())));
            format!("none of {count} addresses can be reached: {failures}")
        }
    })
}

/// Lists addresses with their failures.
fn listed<'a>(failures: impl Iterator<Item = (impl fmt::Display, &'a str)>) -> String {
    let mut text = String::new();
    for (at, (address, why)) in failures.take(MAX_LISTED_FAILURES).enumerate() {
        let separator = if at == 0 { "" } else { "; " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{address}: {why}");
    }
    text
}
