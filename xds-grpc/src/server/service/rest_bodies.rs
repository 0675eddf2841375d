//! Bodies of REST requests and responses, which count for the same budgets as those of gRPC.

use core::{
    convert::Infallible,
    error::Error,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tower_service::Service as _;
use xds_rest::{Gateway, RefusedBody, ResponseBudget, ResponseMemory};

use super::DiscoveryService;
use crate::server::{
    driver::body::PIECE,
    memory::{
        budgets::ConnectionBudgets,
        requests::{HeldBytes, MemoryExceeded},
        responses::{ConnectionResponses, HeldResponse},
        transport_stats::TransportEvent,
    },
};

/// Answers a request.
pub(crate) async fn respond(
    mut gateway: Gateway<DiscoveryService>,
    mut request: Request<Incoming>,
    budgets: ConnectionBudgets,
) -> Result<Response<RestResponseBody>, Infallible> {
    let (responses, counters) = (budgets.responses.clone(), budgets.counters.clone());
    request.extensions_mut().insert(ResponseBudget::new(responses.clone()));
    let held = budgets.requests.request();
    request.extensions_mut().insert(budgets);
    let request = request.map(|body| RestRequestBody::new(body, held));
    let response = gateway.call(request).await?;
    if let StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT = response.status() {
        counters.note(TransportEvent::RefusedRequest);
    }
    let (head, mut body) = response.into_parts();
    let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
    let body = frame.and_then(|Ok(frame)| frame.into_data().ok()).unwrap_or_default();
    Ok(Response::from_parts(head, RestResponseBody(responses.hold(body))))
}

impl ResponseMemory for ConnectionResponses {
    fn has_room(&self) -> bool {
        self.has_room_or_asks()
    }

    fn hold(&self, bytes: Bytes) -> Bytes {
        Self::hold(self, bytes).bytes
    }
}

/// Body of a request, whose bytes count until it is read.
struct RestRequestBody {
    body: Incoming,
    held: HeldBytes,
    /// Resolves when the connection has to give up the request.
    evicted: Pin<Box<dyn Future<Output = MemoryExceeded> + Send>>,
}

impl RestRequestBody {
    fn new(body: Incoming, held: HeldBytes) -> Self {
        let evicted = Box::pin(held.evicted());
        Self { body, held, evicted }
    }
}

impl Body for RestRequestBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(why) = this.evicted.as_mut().poll(cx) {
            return Poll::Ready(Some(Err(refused(why).into())));
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            this.held.add(bytes).map_err(refused)?;
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the HTTP status of a request that is given up. One that is too long for its connection is
/// the client's fault. Otherwise the server is overloaded, and the client may try again.
fn refused(why: MemoryExceeded) -> RefusedBody {
    let status = match why {
        MemoryExceeded::Connection(_) => StatusCode::PAYLOAD_TOO_LARGE,
        MemoryExceeded::Server(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    RefusedBody::new(status, why.to_string())
}

/// Body of a response, which HTTP takes in pieces.
#[derive(Debug)]
pub(crate) struct RestResponseBody(HeldResponse);

impl Body for RestResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(self.0.take(PIECE)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.bytes.len() as u64)
    }
}
