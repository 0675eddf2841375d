//! Channel to a polled (REST) server. Its connections are dialed like those of gRPC.

use core::task::{Context, Poll, ready};
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use xds_core::{
    StatusCode,
    client::{Call, ChannelError, TransportKind},
};
use xds_format::Schema;
use xds_rest::{Authorize, Dial, PollResult, Poller, PollerOptions};

use super::{
    dial::dial_http1,
    link::{LinkEvent, ReadMode},
    options::ClientOptions,
    service::Service,
};
use crate::{address::Target, runtime::SharedRuntime};

/// Poller and a response that was received but not read yet.
#[derive(Debug)]
pub(crate) struct Polling {
    poller: Poller,
    response: Option<Bytes>,
}

impl Polling {
    /// Prepares the parts common to all requests. Does not connect.
    pub(crate) async fn prepare(
        call: Call,
        service: Result<Service, String>,
        options: ClientOptions,
        runtime: SharedRuntime,
        max_response_bytes: usize,
    ) -> Result<Self, String> {
        let no_path = "this type is not available over REST in this protocol variant";
        let path = call.rest_path().ok_or(no_path)?;
        let TransportKind::Polling(policy) = &call.server.transport_kind else {
            return Err(no_path.into());
        };
        let service = service?;
        let target = Target::parse(service.target()).map_err(|why| why.to_string())?;
        let host = service.authority().unwrap_or(&target.authority).as_str();
        let host = HeaderValue::from_str(host).map_err(|why| why.to_string())?;
        let authorize = authorize(&service, &runtime);
        let schema = options.schema.unwrap_or_else(|| Schema::envoy());
        let timer = Arc::new(runtime.clone());
        let dial: Dial = Arc::new(move || {
            let (service, options, runtime) = (service.clone(), options.clone(), runtime.clone());
            Box::pin(async move {
                let io = dial_http1(&service, &options, &runtime).await?;
                Ok(Box::new(io) as Box<dyn xds_rest::Io>)
            })
        });
        let poller_options = PollerOptions::new(dial, timer, host, path, schema)
            .with_authorize(authorize)
            .with_request_timeout(policy.request_timeout)
            .with_max_response_bytes(max_response_bytes);
        Ok(Self { poller: Poller::new(poller_options), response: None })
    }

    pub(crate) fn request(&mut self, request: &[u8]) {
        self.response = None;
        self.poller.start(request);
    }

    /// Whether a received response has not been read yet.
    pub(crate) fn has_response(&self) -> bool {
        self.response.is_some()
    }

    pub(crate) fn poll(&mut self, mode: ReadMode, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        loop {
            if mode == ReadMode::Read
                && let Some(response) = self.response.take()
            {
                return Poll::Ready(LinkEvent::Message(response));
            }
            // While a response is unread, no request is in flight; this only drives the connection.
            match ready!(self.poller.poll(cx)) {
                PollResult::Response(response) => self.response = Some(response),
                PollResult::Unchanged => return Poll::Ready(LinkEvent::Unchanged),
                PollResult::Unusable(why) => return Poll::Ready(LinkEvent::Malformed(why)),
                PollResult::Failed(error) => return Poll::Ready(LinkEvent::Failed(error)),
                _ => {}
            }
        }
    }
}

/// Returns a function for the headers of each request. It reads tokens anew each time, because
/// token files may be renewed while the channel is open.
fn authorize(service: &Service, runtime: &SharedRuntime) -> Authorize {
    let (service, runtime) = (service.clone(), runtime.clone());
    Arc::new(move || {
        let (service, runtime) = (service.clone(), runtime.clone());
        Box::pin(async move {
            service.headers(&runtime).await.map_err(|why| ChannelError::Status {
                code: StatusCode::from_i32(why.code().into()),
                message: why.message().into(),
            })
        })
    })
}
