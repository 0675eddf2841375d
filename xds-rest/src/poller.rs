//! Client transport that sends one request at a time over one reused connection.

use core::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    rt::{Read, Timer, Write},
};
use xds_core::{StatusCode as Code, client::ChannelError, error_causes::with_causes};
use xds_format::Schema;

use crate::{gateway::STATED_TIMEOUT, json, status};

/// Connection of an async runtime, through hyper's traits.
pub trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

/// Opens a connection to the server. The error is a description of the failure.
pub type Dial = Arc<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<Box<dyn Io>, String>> + Send>> + Send + Sync,
>;

/// Returns additional headers for one request, such as an authorization token, or an error if they
/// are not available.
pub type Authorize = Arc<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<HeaderMap, ChannelError>> + Send>> + Send + Sync,
>;

/// Server and settings of a [`Poller`].
#[derive(Clone)]
#[non_exhaustive]
pub struct PollerOptions {
    /// Opens connections.
    pub dial: Dial,
    /// Timer for the request timeout.
    pub timer: Arc<dyn Timer + Send + Sync>,
    /// Value of the `host` header.
    pub host: HeaderValue,
    /// Path of requests, as returned by [`rest_path`](xds_core::service::rest_path).
    pub path: &'static str,
    /// Additional headers of all requests.
    pub headers: HeaderMap,
    /// Source of additional headers for each request, such as tokens that expire. Default: `None`.
    pub authorize: Option<Authorize>,
    /// Timeout of a request, including connecting. Default: 60 s. Usually set to
    /// [`PollPolicy::request_timeout`](xds_core::client::PollPolicy).
    pub request_timeout: Duration,
    /// Maximum length of a response in bytes. Default: 256 MiB.
    pub max_response_bytes: usize,
    /// Schema with the types of resources.
    pub schema: &'static Schema,
}

impl PollerOptions {
    /// Creates options for requests to `path` of the server that `dial` connects to, with no
    /// additional headers.
    pub fn new(
        dial: Dial,
        timer: Arc<dyn Timer + Send + Sync>,
        host: HeaderValue,
        path: &'static str,
        schema: &'static Schema,
    ) -> Self {
        Self {
            dial,
            timer,
            host,
            path,
            headers: HeaderMap::new(),
            authorize: None,
            request_timeout: Duration::from_secs(60),
            max_response_bytes: 256 << 20,
            schema,
        }
    }

    /// Sets additional headers of all requests.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the source of additional headers for each request.
    #[must_use]
    pub fn with_authorize(mut self, authorize: Authorize) -> Self {
        self.authorize = Some(authorize);
        self
    }

    /// Sets the timeout of a request, including connecting. It is stated in the header
    /// `x-envoy-expected-rq-timeout-ms`, as Envoy does, so that a server does not hold the request for
    /// longer.
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets the maximum length of a response in bytes.
    #[must_use]
    pub fn with_max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }
}

impl fmt::Debug for PollerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollerOptions")
            .field("host", &self.host)
            .field("path", &self.path)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PollResult {
    /// Encoded `DiscoveryResponse`.
    Response(Bytes),
    /// The server has no new response.
    // RJ-03
    Unchanged,
    /// The response or the request cannot be converted between JSON and protobuf.
    // RJ-06
    Unusable(Arc<str>),
    /// The request failed, timed out, or got an error status.
    // RJ-04, RJ-05
    Failed(ChannelError),
}

/// Transport of a polling client. It has at most one request in flight: a new request cancels the
/// previous one.
// S0.201
pub struct Poller {
    options: PollerOptions,
    state: State,
}

enum State {
    /// No request, with the connection of the last one if it can be reused.
    Idle(Option<Connection>),
    Requesting(Pin<Box<dyn Future<Output = (PollResult, Option<Connection>)> + Send>>),
}

/// A connection, and the future that drives it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the connection is closed.
    driver: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    /// Error that has closed the connection.
    failure: Option<hyper::Error>,
}

impl Connection {
    /// Drives the connection. Returns whether it is still open.
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(driver) = &mut self.driver
            && let Poll::Ready(result) = driver.as_mut().poll(cx)
        {
            self.failure = result.err();
            self.driver = None;
        }
        self.driver.is_some()
    }
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Poller {
    /// Creates a poller, without connecting.
    #[must_use]
    pub fn new(options: PollerOptions) -> Self {
        Self { options, state: State::Idle(None) }
    }

    /// Starts a request. `request` is an encoded `DiscoveryRequest`. A previous request is
    /// cancelled.
    pub fn start(&mut self, request: &[u8]) {
        let connection = match core::mem::replace(&mut self.state, State::Idle(None)) {
            State::Idle(connection) => connection,
            // The response to the cancelled request would come first, so the connection cannot be
            // reused.
            State::Requesting(_) => None,
        };
        let body = json::print_request(self.options.schema, request);
        let options = self.options.clone();
        self.state = State::Requesting(Box::pin(async move {
            match body {
                Ok(body) => options.exchange_within_timeout(body.into(), connection).await,
                Err(why) => {
                    (PollResult::Unusable(format!("cannot print the request: {why}").into()), None)
                }
            }
        }));
    }

    /// Polls for the result of the current request. Without one, this drives the idle connection
    /// and returns `Pending`.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PollResult> {
        match &mut self.state {
            State::Idle(None) => Poll::Pending,
            State::Idle(Some(connection)) => {
                if !connection.drive(cx) {
                    self.state = State::Idle(None);
                }
                Poll::Pending
            }
            State::Requesting(request) => {
                let (result, connection) = ready!(request.as_mut().poll(cx));
                self.state = State::Idle(connection);
                Poll::Ready(result)
            }
        }
    }
}

impl PollerOptions {
    async fn exchange_within_timeout(
        self,
        body: Bytes,
        last: Option<Connection>,
    ) -> (PollResult, Option<Connection>) {
        let late = self.timer.sleep(self.request_timeout);
        let exchange = core::pin::pin!(self.exchange(body, last));
        match select(exchange, late).await {
            Either::Left((Ok(result), _)) => result,
            Either::Left((Err(error), _)) => (PollResult::Failed(error), None),
            Either::Right(_) => {
                let message = format!("no response within {:?}", self.request_timeout).into();
                (
                    PollResult::Failed(ChannelError::Status {
                        code: Code::DeadlineExceeded,
                        message,
                    }),
                    None,
                )
            }
        }
    }

    async fn exchange(
        &self,
        body: Bytes,
        last: Option<Connection>,
    ) -> Result<(PollResult, Option<Connection>), ChannelError> {
        let mut headers = self.headers.clone();
        if let Some(authorize) = &self.authorize {
            headers.extend(authorize().await?);
        }
        // The server may just have closed the idle connection. In that case a new one is opened.
        if let Some(mut connection) = last
            && let Ok(response) = self.send(&mut connection, &headers, body.clone()).await
        {
            return Ok(self.read(response, connection).await);
        }
        let unreachable = |why: String| ChannelError::Unreachable(why.into());
        let io = (self.dial)().await.map_err(unreachable)?;
        let (sender, driver) =
            http1::handshake(io).await.map_err(|why| unreachable(why.to_string()))?;
        let mut connection = Connection { sender, driver: Some(Box::pin(driver)), failure: None };
        match self.send(&mut connection, &headers, body).await {
            Ok(response) => Ok(self.read(response, connection).await),
            Err(why) => {
                // The request may only state that the connection is closed.
                let why = connection.failure.unwrap_or(why);
                let advice = if why.is_parse() { "; is it a gRPC or TLS port?" } else { "" };
                let message = format!("no response: {}{advice}", with_causes(&why)).into();
                Err(ChannelError::Status { code: Code::Unavailable, message })
            }
        }
    }

    async fn send(
        &self,
        connection: &mut Connection,
        headers: &HeaderMap,
        body: Bytes,
    ) -> hyper::Result<Response<Incoming>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::from_static(self.path);
        *request.headers_mut() = headers.clone();
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
        request.headers_mut().insert(header::ACCEPT, json);
        request.headers_mut().insert(header::HOST, self.host.clone());
        // A server that holds requests answers before that, so silence is a failure.
        let timeout = u64::try_from(self.request_timeout.as_millis()).unwrap_or(u64::MAX);
        request.headers_mut().insert(STATED_TIMEOUT, timeout.into());
        poll_fn(|cx| {
            connection.drive(cx);
            connection.sender.poll_ready(cx)
        })
        .await?;
        let sending = connection.sender.send_request(request);
        driven(connection, sending).await
    }

    async fn read(
        &self,
        response: Response<Incoming>,
        mut connection: Connection,
    ) -> (PollResult, Option<Connection>) {
        let status = response.status();
        let stated = stated_content(response.headers());
        let body = Limited::new(response.into_body(), self.max_response_bytes).collect();
        let body = match driven(&mut connection, body).await {
            Ok(body) => body.to_bytes(),
            Err(why) if why.is::<LengthLimitError>() => {
                let limit = self.max_response_bytes;
                let why = format!("the response is longer than {limit} bytes");
                return (PollResult::Unusable(why.into()), None);
            }
            Err(why) => {
                let message = format!("cannot read the response: {why}").into();
                return (
                    PollResult::Failed(ChannelError::Status { code: Code::Unavailable, message }),
                    None,
                );
            }
        };
        let result = match status {
            StatusCode::OK => match json::read_response(self.schema, &body) {
                Ok(message) => match json::other_type(self.path, &message) {
                    None => PollResult::Response(message.into()),
                    Some(why) => PollResult::Unusable(why.into()),
                },
                Err(why) => PollResult::Unusable(format!("{why}{stated}").into()),
            },
            StatusCode::NOT_MODIFIED => PollResult::Unchanged,
            other => PollResult::Failed(failure(other, &body)),
        };
        (result, Some(connection))
    }
}

/// Drives a connection until `work` is done.
async fn driven<T>(connection: &mut Connection, work: impl Future<Output = T>) -> T {
    let mut work = core::pin::pin!(work);
    poll_fn(|cx| {
        connection.drive(cx);
        work.as_mut().poll(cx)
    })
    .await
}

/// Describes the body of a response for an error, such as ` (content type text/html, content encoding
/// gzip)`. Some servers send JSON with another content type, so the type is only shown for an error.
fn stated_content(headers: &HeaderMap) -> String {
    let named = [("type", header::CONTENT_TYPE), ("encoding", header::CONTENT_ENCODING)];
    let stated = named.into_iter().filter_map(|(what, name)| {
        Some(format!("content {what} {}", headers.get(name)?.to_str().ok()?))
    });
    match stated.collect::<Vec<_>>().join(", ") {
        stated if stated.is_empty() => stated,
        stated => format!(" ({stated})"),
    }
}

/// Creates the error for a response with an error status, with the first line of its body.
fn failure(status: StatusCode, body: &[u8]) -> ChannelError {
    const SHOWN: usize = 200;
    let text = String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(body));
    let line = text.lines().next().unwrap_or_default().trim();
    let message = match line {
        "" => format!("HTTP status {status}"),
        line => format!("HTTP status {status}: {line}"),
    };
    ChannelError::Status { code: status::over_grpc(status), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_type_and_encoding_are_shown_for_an_unreadable_body() {
        let mut headers = HeaderMap::new();
        assert_eq!(stated_content(&headers), "");
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        assert_eq!(stated_content(&headers), " (content type text/plain)");
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let both = " (content type text/plain, content encoding gzip)";
        assert_eq!(stated_content(&headers), both);
    }
}
