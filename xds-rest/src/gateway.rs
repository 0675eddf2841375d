//! REST-JSON in front of discovery services that speak gRPC.
//!
//! ```text
//!  POST /v3/discovery:clusters        FetchClusters
//!  {"version_info": "7", ..}  ──────▶ DiscoveryRequest ──▶ the service, which answers when it has
//!                                                           something else than version 7
//!  200 {"resources": [..], ..} ◀───── DiscoveryResponse ◀──┘
//!  304, after a while without; 503 if the service is not ready by then
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

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::rt::Timer;
use tower_service::Service;
use xds_core::service::fetch_path_at;
use xds_format::{FormatError, PrintOptions, Schema};

use crate::{
    grpc, json,
    printed::Printed,
    status,
    unprintable::{Reported, stated_version, without_unprintable},
};

/// How a [`Gateway`] answers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// How long a request is held that there is nothing new for; then it is answered with status 304, or 503 if the
    /// service is not [ready](Gateway::with_readiness). 25 s by default. It has to be shorter than the clients' request timeout, which in Envoy is 1 s unless its
    /// configuration says otherwise (RJ-05).
    pub hold: Duration,
    /// How long the body of a request may take to come; then it is refused with status 408. 10 s by default.
    pub body_timeout: Duration,
    /// The longest request, in bytes; 4 MiB by default.
    pub max_request_bytes: usize,
    /// How many bytes of printed responses are kept for clients that ask for the same, with what they were printed
    /// from; 64 MiB by default. Of short ones at most 4,096 are.
    pub max_printed_bytes: usize,
    /// How responses are printed. Secrets are always shown: clients have asked for them.
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
    /// Sets how long a request is held that there is nothing new for.
    #[must_use]
    pub fn with_hold(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Sets how long the body of a request may take to come.
    #[must_use]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }
}

/// The REST paths of discovery services, as a service itself; `S` serves the services over gRPC, their
/// `Fetch` methods among others.
///
/// | status | when |
/// |---|---|
/// | 200 | there is something else than the client has |
/// | 304 | there is not, for as long as a request is [held](GatewayOptions::hold) (M185) |
/// | 400, 413, 415 | the body is no `DiscoveryRequest`, too long, or no JSON at all (M182, M197, M198) |
/// | 408 | the body takes [too long](GatewayOptions::body_timeout) |
/// | 404, 405 | no type has this path, or it was not a POST (M181, M194, M197) |
/// | 503 | who decides what the client sees waits no longer for there to be something; or the service is not [ready](Self::with_readiness) at the end of the hold, so that it is not known whether there is something new |
/// | 500 | a resource has no form in JSON, and the client may have an older one |
/// | else | that of the service, as HTTP has it |
///
/// JSON has no form for an `Any` of a type that the schema lacks. A response without such a resource would have a client
/// delete the resource. A client that states a version therefore gets status 500, whose text names the resource, and
/// keeps what it has. A client that states no version has nothing to lose: it gets the response without the resource.
/// The version of that response ends in `-without-` and a hash of the names left out. A client that states such a version
/// gets further responses without the same resources, and the whole response once it can be printed. All of this is
/// logged and [counted](Self::unprintable).
///
/// Clones are cheap and share what was printed.
pub struct Gateway<S> {
    service: S,
    schema: &'static Schema,
    timer: Arc<dyn Timer + Send + Sync>,
    options: GatewayOptions,
    printed: Arc<Printed>,
    reported: Arc<Reported>,
    is_ready: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl<S: Clone> Clone for Gateway<S> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            schema: self.schema,
            timer: Arc::clone(&self.timer),
            options: self.options,
            printed: Arc::clone(&self.printed),
            reported: Arc::clone(&self.reported),
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
    /// A gateway to `service`. Responses are printed by `schema`.
    pub fn new(
        service: S,
        schema: &'static Schema,
        timer: impl Timer + Send + Sync + 'static,
        options: GatewayOptions,
    ) -> Self {
        let printed = Arc::new(Printed::new(options.max_printed_bytes));
        let reported = Arc::default();
        let is_ready = None;
        Self { service, schema, timer: Arc::new(timer), options, printed, reported, is_ready }
    }

    /// Sets how to find out whether the service is ready to answer. By default it always is.
    ///
    /// A request whose [hold](GatewayOptions::hold) ends while the service is not ready gets status 503. With status 304
    /// a client would conclude that what it has is complete, and later that missing resources do not exist.
    #[must_use]
    pub fn with_readiness(mut self, is_ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_ready = Some(Arc::new(is_ready));
        self
    }

    /// How often a resource was left out of a response, or kept a client from getting one, because it has no form in
    /// JSON. Clones count together.
    #[must_use]
    pub fn unprintable(&self) -> u64 {
        self.reported.count()
    }
}

type Answer = Response<Full<Bytes>>;

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
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gateway = self.clone();
        Box::pin(
            async move { Ok(gateway.answer(request).await.unwrap_or_else(Refusal::into_answer)) },
        )
    }
}

impl<S, R> Gateway<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error = Infallible>,
    R: Body<Data = Bytes>,
{
    async fn answer<B>(mut self, request: Request<B>) -> Result<Answer, Refusal>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
    {
        let method = method_at(request.uri().path(), request.method(), request.headers())?;
        let (head, body) = request.into_parts();
        let late = self.timer.sleep(self.options.body_timeout);
        let body = match select(pin!(read(body, self.options.max_request_bytes)), late).await {
            Either::Left((body, _)) => body?,
            Either::Right(_) => {
                let why = format!("no whole request within {:?}", self.options.body_timeout);
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, why));
            }
        };
        let message = json::read_request(self.schema, &body)
            .map_err(|why| Refusal::new(StatusCode::BAD_REQUEST, why.to_string()))?;
        let stated = stated_version(&message);
        let request = grpc::request(method, &message, &head.headers, head.extensions);
        let call = async {
            let Ok(()) = core::future::poll_fn(|cx| self.service.poll_ready(cx)).await;
            let Ok(response) = self.service.call(request).await;
            grpc::message_of(response).await
        };
        let held = self.timer.sleep(self.options.hold);
        let message = match select(pin!(call), held).await {
            Either::Left((message, _)) => message
                .map_err(|status| Refusal::new(status::over_http(status.code), status.message))?,
            // The call is given up, and whoever serves it hears of that (M192).
            Either::Right(_) if self.is_ready.as_ref().is_none_or(|is_ready| is_ready()) => {
                return Ok(answer(StatusCode::NOT_MODIFIED, Bytes::new()));
            }
            Either::Right(_) => {
                let why = "the server is not ready: it does not serve resources now".to_owned();
                return Err(Refusal::new(status::over_http(status::UNAVAILABLE), why));
            }
        };
        let print = |message: &[u8]| json::print_response(self.schema, message, self.options.print);
        let json = match self.printed.get(&message, print) {
            Ok(json) => json,
            Err(why) => match self.without_unprintable(&message, &stated, why)? {
                Some(json) => json,
                None => return Ok(answer(StatusCode::NOT_MODIFIED, Bytes::new())),
            },
        };
        let mut answer = answer(StatusCode::OK, json);
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        Ok(answer)
    }
}

impl<S> Gateway<S> {
    /// A response that cannot be printed, without the resources that are to blame; `None` if the client has that already,
    /// an error if the client may have one of the resources.
    fn without_unprintable(
        &self,
        message: &[u8],
        stated: &str,
        why: FormatError,
    ) -> Result<Option<Bytes>, Refusal> {
        let refusal = |why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why);
        let cannot_print = |why| refusal(format!("cannot print the response: {why}"));
        let options = json::for_programs(self.options.print);
        let Some(printable) = without_unprintable(self.schema, message, &options) else {
            return Err(cannot_print(why));
        };
        self.reported.report(&printable.left_out);
        if !printable.left_out.is_lacked_at(stated) {
            return Err(refusal(printable.left_out.to_string()));
        }
        if printable.version == stated {
            return Ok(None);
        }
        let json = json::print_response(self.schema, &printable.message, self.options.print);
        json.map(|json| Some(json.into())).map_err(cannot_print)
    }
}

async fn read<B>(body: B, limit: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    let collected = Limited::new(body, limit).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|why| match why.is::<LengthLimitError>() {
        true => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the request is longer than {limit} bytes"),
        ),
        false => Refusal::new(StatusCode::BAD_REQUEST, format!("the body breaks off: {why}")),
    })
}

const JSON: &str = "application/json";

/// The method of gRPC that a request means.
fn method_at(path: &str, method: &Method, headers: &HeaderMap) -> Result<&'static str, Refusal> {
    let no_such = || Refusal::new(StatusCode::NOT_FOUND, format!("nothing is served at {path}"));
    let fetch = fetch_path_at(path).ok_or_else(no_such)?;
    if method != Method::POST {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "only POST is served".into()));
    }
    // Whoever says nothing means what there is.
    let is_json = headers.get(header::CONTENT_TYPE).is_none_or(|stated| {
        let stated = stated.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
        stated.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes())
    });
    match is_json {
        true => Ok(fetch),
        false => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("only {JSON} is understood"),
        )),
    }
}

/// Why there is no response.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Refusal {
    fn new(status: StatusCode, reason: String) -> Self {
        Self { status, reason }
    }

    /// The reason is for people.
    fn into_answer(self) -> Answer {
        let mut text = self.reason;
        text.push('\n');
        let mut answer = answer(self.status, text.into());
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, plain);
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        answer
    }
}

fn answer(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer
}
