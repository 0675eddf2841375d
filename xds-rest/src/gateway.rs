//! REST-JSON gateway to discovery services over gRPC.
//!
//! ```text
//!  POST /v3/discovery:clusters        FetchClusters
//!  {"version_info": "7", ..}  ──────▶ DiscoveryRequest ──▶ the service, which answers once it has
//!                                                           another version than 7
//!  200 {"resources": [..], ..} ◀───── DiscoveryResponse ◀──┘
//!  304 if there was no other version during the hold; 503 if the service is not ready by then
//! ```

use core::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::future::{Either, select};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use hyper::rt::Timer;
use tower_service::Service;
use xds_core::{StatusCode as Code, service::fetch_path_at};
use xds_format::{PrintOptions, Schema};

use crate::{
    budget::{RefusedBody, ResponseBudget},
    grpc,
    http_response::{ErrorResponse, HttpResponse, response},
    json,
    print::ResponsePrinter,
    status,
    unprintable::{state_version, stated_version},
};

/// Options of a [`Gateway`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// Time that a request without a new response is held (long polling). The gateway then responds
    /// with status 304, or with 503 if the service is not [ready](Gateway::with_readiness).
    /// Default: 25 s; maximum: 1 hour, to which a longer time is reduced.
    ///
    /// Envoy states its request timeout, by default 1 s, in the header
    /// `x-envoy-expected-rq-timeout-ms`. Its requests are held for at most three quarters of that.
    /// For clients that do not state a timeout, choose a time that is shorter than theirs. The
    /// disconnection of a client that has sent more than its request is only noticed at the end of
    /// the hold.
    // RJ-05
    pub hold: Duration,
    /// Time for receiving the body of a request, in addition to a second for each 16 KiB received.
    /// A slower request is rejected with status 408. Default: 10 s.
    pub body_timeout: Duration,
    /// Maximum length of a request in bytes. Default: 4 MiB.
    pub max_request_bytes: usize,
    /// Maximum size in bytes of the cache of printed responses. Default: 64 MiB. The cache also has
    /// at most 4,096 entries.
    pub max_printed_bytes: usize,
    /// Options for printing responses. Secrets are always shown, because clients need them.
    pub print: PrintOptions,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(25),
            body_timeout: Duration::from_secs(10),
            max_request_bytes: 4 << 20,
            max_printed_bytes: 64 << 20,
            print: PrintOptions::default(),
        }
    }
}

impl GatewayOptions {
    /// Sets the time that a request without a new response is held.
    #[must_use]
    pub fn with_hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Sets the time for receiving the body of a request.
    #[must_use]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets the maximum length of a request in bytes.
    #[must_use]
    pub fn with_max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets the maximum size in bytes of the cache of printed responses.
    #[must_use]
    pub fn with_max_printed_bytes(mut self, bytes: usize) -> Self {
        self.max_printed_bytes = bytes;
        self
    }

    /// Sets the options for printing responses.
    #[must_use]
    pub fn with_print(mut self, print: PrintOptions) -> Self {
        self.print = print;
        self
    }
}

/// REST-JSON gateway: a service for the REST paths of discovery services that calls the `Fetch`
/// methods of a gRPC service `S`.
///
/// | status | condition |
/// |---|---|
/// | 200 | there is another response than the client has |
/// | 304 | there is none during the [hold](GatewayOptions::hold), which ends before the client's timeout if the client states one |
/// | 400 | the body is not a `DiscoveryRequest` |
/// | 404, 405 | no type has this path, or the method is not POST |
/// | 408 | the body is not received [in time](GatewayOptions::body_timeout) |
/// | 413, 415 | the body is too long; its content type is not JSON, or it has a content encoding |
/// | 500 | a resource has no JSON form, and the client may have an older version of it |
/// | 503 | the service is unavailable, or not [ready](Self::with_readiness) after the hold; or there is [no memory](ResponseBudget) for the response |
/// | other | the HTTP equivalent of the gRPC status of the service, or the status of a [refused body](RefusedBody) |
///
/// JSON has no form for an `Any` of a type that the schema lacks. If such a resource were omitted
/// from a response, the client would delete it. A client that states a version therefore gets
/// status 500 with the name of the resource, and keeps its resources. A client that states no
/// version gets the response without the resource. The version of that response ends in `-without-`
/// and a hash of the omitted names. A client that states such a version gets further responses
/// without the same resources, and the whole response once it can be printed. Each case is logged
/// and [counted](Self::unprintable).
///
/// Clones are cheap and share the cache of printed responses.
// M181, M182, M185, M194, M197, M198
pub struct Gateway<S> {
    service: S,
    schema: &'static Schema,
    timer: Arc<dyn Timer + Send + Sync>,
    options: GatewayOptions,
    printer: Arc<ResponsePrinter>,
    is_ready: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl<S: Clone> Clone for Gateway<S> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            schema: self.schema,
            timer: Arc::clone(&self.timer),
            options: self.options,
            printer: Arc::clone(&self.printer),
            is_ready: self.is_ready.clone(),
        }
    }
}

impl<S> fmt::Debug for Gateway<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<S> Gateway<S> {
    /// Creates a gateway to `service`. `schema` is used to print responses.
    pub fn new(
        service: S,
        schema: &'static Schema,
        timer: impl Timer + Send + Sync + 'static,
        options: GatewayOptions,
    ) -> Self {
        let printer = ResponsePrinter::new(schema, options.print, options.max_printed_bytes);
        Self {
            service,
            schema,
            timer: Arc::new(timer),
            options,
            printer: Arc::new(printer),
            is_ready: None,
        }
    }

    /// Sets a callback that returns whether the service is ready. By default it always is.
    ///
    /// A request whose [hold](GatewayOptions::hold) ends while the service is not ready gets status
    /// 503. After status 304 a client would treat its resources as complete, and later report
    /// missing resources as nonexistent.
    #[must_use]
    pub fn with_readiness(mut self, is_ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_ready = Some(Arc::new(is_ready));
        self
    }

    /// Returns how often a resource without a JSON form was omitted from a response or prevented
    /// one. Clones share the counter.
    #[must_use]
    pub fn unprintable(&self) -> u64 {
        self.printer.unprintable()
    }
}

impl<S, B, R> Service<Request<B>> for Gateway<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gateway = self.clone();
        Box::pin(async move {
            Ok(gateway.respond(request).await.unwrap_or_else(ErrorResponse::into_response))
        })
    }
}

impl<S, R> Gateway<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error = Infallible>,
    R: Body<Data = Bytes>,
{
    async fn respond<B>(mut self, request: Request<B>) -> Result<HttpResponse, ErrorResponse>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
    {
        let method = method_at(request.uri().path(), request.method(), request.headers())?;
        let (head, body) = request.into_parts();
        let budget = head.extensions.get::<ResponseBudget>().cloned();
        let hold = hold(self.options, &head.headers);
        let (request, stated) = {
            // The body is dropped before the request is held.
            let body = read(body, &*self.timer, self.options).await?;
            let mut message = json::read_request(self.schema, &body)
                .map_err(|why| ErrorResponse::new(StatusCode::BAD_REQUEST, why.to_string()))?;
            let stated = stated_version(&message);
            // The service holds the request if its own version is stated.
            if let Some(version) = self.printer.incomplete_versions().complete(method, &stated) {
                state_version(&mut message, version);
            }
            (grpc::request(method, &message, &head.headers, head.extensions), stated)
        };
        let call = async {
            let Ok(()) = core::future::poll_fn(|cx| self.service.poll_ready(cx)).await;
            let Ok(response) = self.service.call(request).await;
            grpc::message_of(response).await
        };
        let held = self.timer.sleep(hold);
        let message = match select(pin!(call), held).await {
            Either::Left((message, _)) => message.map_err(|status| {
                ErrorResponse::new(status::over_http(status.code), status.message)
            })?,
            // Dropping the call cancels it at the service (M192).
            Either::Right(_) if self.is_ready.as_ref().is_none_or(|is_ready| is_ready()) => {
                return Ok(response(StatusCode::NOT_MODIFIED, Bytes::new()));
            }
            Either::Right(_) => {
                let why = "the server is not ready: no resources are served yet".to_owned();
                return Err(ErrorResponse::new(status::over_http(Code::Unavailable), why));
            }
        };
        let message = match &budget {
            Some(budget) => budget.memory().hold(message),
            None => message,
        };
        let Some(json) = self.printer.print(method, &message, &stated, budget.as_ref()).await?
        else {
            return Ok(response(StatusCode::NOT_MODIFIED, Bytes::new()));
        };
        let mut response = response(StatusCode::OK, json);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        Ok(response)
    }
}

/// Reads the body of a request. The bytes are copied, because a chunk may be a small part of a
/// large buffer.
async fn read<B>(
    body: B,
    timer: &(dyn Timer + Send + Sync),
    options: GatewayOptions,
) -> Result<Bytes, ErrorResponse>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    let GatewayOptions { body_timeout, max_request_bytes: limit, .. } = options;
    let too_long = || {
        let why = format!("the request is longer than {limit} bytes");
        ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_long());
    }
    let begun = timer.now();
    let (mut body, mut read) = (pin!(body), BytesMut::new());
    loop {
        let more = Duration::from_millis(read.len() as u64 * 1_000 / MIN_RATE);
        let late = timer.sleep_until(begun + body_timeout.min(LONGEST) + more);
        let frame = match select(pin!(body.frame()), late).await {
            Either::Left((Some(frame), _)) => frame.map_err(|why| refused(why.into()))?,
            Either::Left((None, _)) => return Ok(read.freeze()),
            Either::Right(_) => {
                let why = format!(
                    "the request was not complete within {body_timeout:?} and a second for \
                     each 16 KiB: {} bytes were received",
                    read.len()
                );
                return Err(ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, why));
            }
        };
        // Trailers have no meaning.
        let Ok(mut data) = frame.into_data() else { continue };
        if read.len() + data.remaining() > limit {
            return Err(too_long());
        }
        read.extend_from_slice(&data);
        data.clear();
    }
}

/// Returns the response to a request whose body cannot be read.
fn refused(why: Box<dyn core::error::Error + Send + Sync>) -> ErrorResponse {
    match why.downcast::<RefusedBody>() {
        Ok(refused) => ErrorResponse::new(refused.status, refused.reason),
        Err(why) => {
            ErrorResponse::new(StatusCode::BAD_REQUEST, format!("cannot read the body: {why}"))
        }
    }
}

/// Minimum rate at which the body of a request must arrive after the
/// [timeout](GatewayOptions::body_timeout), in bytes per second.
const MIN_RATE: u64 = 16 << 10;

/// Maximum time that a request is held.
const LONGEST_HOLD: Duration = Duration::from_secs(3_600);

/// Maximum time of a request. Longer configured times, such as [`Duration::MAX`], cannot be added to
/// every instant.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

const JSON: &str = "application/json";

/// Request timeout that a client states, in milliseconds.
pub(crate) const STATED_TIMEOUT: HeaderName =
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

/// Returns the maximum time for which a request is held. It leaves a quarter of the timeout that the
/// client states for the network.
fn hold(options: GatewayOptions, headers: &HeaderMap) -> Duration {
    let stated = headers.get(STATED_TIMEOUT).and_then(|stated| stated.to_str().ok()?.parse().ok());
    let within = match stated {
        None | Some(0) => LONGEST_HOLD,
        Some(millis) => Duration::from_millis(millis) / 4 * 3,
    };
    options.hold.min(LONGEST_HOLD).min(within)
}

/// Returns the gRPC method for a request.
fn method_at(
    path: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<&'static str, ErrorResponse> {
    let no_such = || {
        ErrorResponse::new(StatusCode::NOT_FOUND, format!("no resource type is served at {path}"))
    };
    let fetch = fetch_path_at(path).ok_or_else(no_such)?;
    if method != Method::POST {
        return Err(ErrorResponse::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "the method must be POST".into(),
        ));
    }
    // A request without a content type is taken as JSON.
    let is_json = headers.get(header::CONTENT_TYPE).is_none_or(|stated| {
        let stated = stated.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
        stated.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes())
    });
    let is_plain = headers
        .get_all(header::CONTENT_ENCODING)
        .into_iter()
        .all(|stated| stated.as_bytes().eq_ignore_ascii_case(b"identity"));
    let why = match (is_json, is_plain) {
        (true, true) => return Ok(fetch),
        (false, _) => format!("the content type must be {JSON}"),
        (true, false) => "the body must not have a content encoding".to_owned(),
    };
    Err(ErrorResponse::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}
