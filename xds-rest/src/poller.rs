//! One request after the other, over one connection as long as that holds.

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
use xds_core::client::ChannelError;
use xds_format::Schema;

use crate::{
    json,
    status::{self, DEADLINE_EXCEEDED, UNAVAILABLE},
};

/// What bytes go over: a connection of a runtime in the form that hyper has for it.
pub trait Io: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Io for T {}

/// Makes connections to one server; an error says why there is none.
pub type Dial = Arc<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<Box<dyn Io>, String>> + Send>> + Send + Sync,
>;

/// Finds out what one request states beside what all do, as the token that authorizes it; an error says why that
/// is not known.
pub type Authorize = Arc<
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<HeaderMap, ChannelError>> + Send>> + Send + Sync,
>;

/// Whom a [`Poller`] asks, and how.
#[derive(Clone)]
#[non_exhaustive]
pub struct PollerOptions {
    /// Connects.
    pub dial: Dial,
    /// Counts the time that an answer may take.
    pub timer: Arc<dyn Timer + Send + Sync>,
    /// The `host` header.
    pub host: HeaderValue,
    /// Where requests are posted, as [`rest_path`](xds_core::service::rest_path) says.
    pub path: &'static str,
    /// What else all requests state.
    pub headers: HeaderMap,
    /// What each request states, found out for each: tokens are renewed while a server is polled. Nothing by default.
    pub authorize: Option<Authorize>,
    /// How long an answer may take, connecting included:
    /// [`PollPolicy::request_timeout`](xds_core::client::PollPolicy).
    pub request_timeout: Duration,
    /// The longest answer, in bytes.
    pub max_response_bytes: usize,
    /// Knows the types of resources.
    pub schema: &'static Schema,
}

impl PollerOptions {
    /// Posts requests to `path` of the server that `dial` connects to, without more headers than `host`.
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

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// A `DiscoveryResponse`, encoded.
    Response(Bytes),
    /// There is nothing new (RJ-03).
    Unchanged,
    /// A body came that cannot be read (RJ-06).
    Unusable(Arc<str>),
    /// There was no answer, or none that counts (RJ-04, RJ-05).
    Failed(ChannelError),
}

/// The transport of a channel that polls. One request is under way at a time (S0.201): another one that is
/// asked takes its place.
pub struct Poller {
    options: PollerOptions,
    state: State,
}

enum State {
    /// Between two requests, with the connection of the last one, if it can take another.
    Idle(Option<Connection>),
    Asking(Pin<Box<dyn Future<Output = (Answer, Option<Connection>)> + Send>>),
}

/// A connection, and what keeps it going.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once the server has closed it.
    driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Connection {
    /// Keeps it going. Returns whether it still goes.
    fn drive(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(driver) = &mut self.driver
            && driver.as_mut().poll(cx).is_ready()
        {
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
    /// Asks nothing yet, and connects to nothing.
    #[must_use]
    pub fn new(options: PollerOptions) -> Self {
        Self { options, state: State::Idle(None) }
    }

    /// Asks: `request` is an encoded `DiscoveryRequest`. What was asked before is given up.
    pub fn ask(&mut self, request: &[u8]) {
        let connection = match core::mem::replace(&mut self.state, State::Idle(None)) {
            State::Idle(connection) => connection,
            // An answer may be on its way there, so that connection is of no more use.
            State::Asking(_) => None,
        };
        let body = json::print_request(self.options.schema, request);
        let options = self.options.clone();
        self.state = State::Asking(Box::pin(async move {
            match body {
                Ok(body) => options.ask(body.into(), connection).await,
                Err(why) => {
                    (Answer::Unusable(format!("cannot print the request: {why}").into()), None)
                }
            }
        }));
    }

    /// What came of the request that is under way. Without one, this keeps an eye on the connection, and
    /// is never ready.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        match &mut self.state {
            State::Idle(None) => Poll::Pending,
            State::Idle(Some(connection)) => {
                if !connection.drive(cx) {
                    self.state = State::Idle(None);
                }
                Poll::Pending
            }
            State::Asking(asking) => {
                let (answer, connection) = ready!(asking.as_mut().poll(cx));
                self.state = State::Idle(connection);
                Poll::Ready(answer)
            }
        }
    }
}

impl PollerOptions {
    async fn ask(self, body: Bytes, last: Option<Connection>) -> (Answer, Option<Connection>) {
        let late = self.timer.sleep(self.request_timeout);
        let exchange = core::pin::pin!(self.exchange(body, last));
        match select(exchange, late).await {
            Either::Left((Ok(answered), _)) => answered,
            Either::Left((Err(error), _)) => (Answer::Failed(error), None),
            Either::Right(_) => {
                let message = format!("no answer within {:?}", self.request_timeout).into();
                (Answer::Failed(ChannelError::Status { code: DEADLINE_EXCEEDED, message }), None)
            }
        }
    }

    async fn exchange(
        &self,
        body: Bytes,
        last: Option<Connection>,
    ) -> Result<(Answer, Option<Connection>), ChannelError> {
        let mut headers = self.headers.clone();
        if let Some(authorize) = &self.authorize {
            headers.extend(authorize().await?);
        }
        // A connection that is kept may just have been closed by the server: then there is a new one.
        if let Some(mut connection) = last
            && let Ok(response) = self.send(&mut connection, &headers, body.clone()).await
        {
            return Ok(self.read(response, connection).await);
        }
        let unreachable = |why: String| ChannelError::Unreachable(why.into());
        let io = (self.dial)().await.map_err(unreachable)?;
        let (sender, driver) =
            http1::handshake(io).await.map_err(|why| unreachable(why.to_string()))?;
        // How a connection ends is told by what goes over it.
        let driver = Box::pin(async move { drop(driver.await) });
        let mut connection = Connection { sender, driver: Some(driver) };
        let response = self.send(&mut connection, &headers, body).await.map_err(|why| {
            let message = format!("no answer: {why}").into();
            ChannelError::Status { code: UNAVAILABLE, message }
        })?;
        Ok(self.read(response, connection).await)
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
    ) -> (Answer, Option<Connection>) {
        let status = response.status();
        let stated = response.headers().get(header::CONTENT_TYPE).cloned();
        let body = Limited::new(response.into_body(), self.max_response_bytes).collect();
        let body = match driven(&mut connection, body).await {
            Ok(body) => body.to_bytes(),
            Err(why) if why.is::<LengthLimitError>() => {
                let limit = self.max_response_bytes;
                let why = format!("the answer is longer than {limit} bytes");
                return (Answer::Unusable(why.into()), None);
            }
            Err(why) => {
                let message = format!("the answer breaks off: {why}").into();
                return (Answer::Failed(ChannelError::Status { code: UNAVAILABLE, message }), None);
            }
        };
        let answer = match status {
            StatusCode::OK => match json::read_response(self.schema, &body) {
                Ok(message) => Answer::Response(message.into()),
                Err(why) => Answer::Unusable(unreadable(&why.to_string(), stated.as_ref())),
            },
            StatusCode::NOT_MODIFIED => Answer::Unchanged,
            other => Answer::Failed(failure(other, &body)),
        };
        (answer, Some(connection))
    }
}

/// Keeps a connection going until something that goes over it is done.
async fn driven<T>(connection: &mut Connection, work: impl Future<Output = T>) -> T {
    let mut work = core::pin::pin!(work);
    poll_fn(|cx| {
        connection.drive(cx);
        work.as_mut().poll(cx)
    })
    .await
}

/// Servers state whatever content type they like with what is JSON, so it tells something only of what is none.
fn unreadable(why: &str, stated: Option<&HeaderValue>) -> Arc<str> {
    match stated.and_then(|stated| stated.to_str().ok()) {
        Some(stated) => format!("{why} (the answer says it is {stated})").into(),
        None => why.into(),
    }
}

/// What a server says that has no response, cut to a line that fits a log.
fn failure(status: StatusCode, body: &[u8]) -> ChannelError {
    const SHOWN: usize = 200;
    let text = String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(body));
    let line = text.lines().next().unwrap_or_default().trim();
    let message = match line {
        "" => format!("HTTP status {status}"),
        said => format!("HTTP status {status}: {said}"),
    };
    ChannelError::Status { code: status::over_grpc(status), message: message.into() }
}
