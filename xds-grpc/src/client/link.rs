//! Transport of one channel of the core: dial, call, send requests, receive responses.
//!
//! ```text
//!  Dialing ──▶ Connected ──▶ Calling ──▶ Streaming ──▶ Ended
//!         Opened        │            response         │
//!                       └ after the driver            └ Ended
//!                         queued the first
//!                         request
//! ```
//!
//! A server may delay its response headers until it has read a request. Therefore the core receives
//! `Opened` and its first request is queued before the call is made.
//!
//! The outbound queue holds one request. Requests are rendered only when there is space, so a
//! queued request is never based on old state.
// SB-19

use core::{
    error::Error,
    future::pending,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::sync::Arc;

use bytes::Bytes;
use futures_channel::mpsc;
use futures_core::Stream;
use http::uri::PathAndQuery;
use tonic::{Request, Status, Streaming, metadata::MetadataMap};
#[cfg(feature = "rest")]
use xds_core::client::ChannelError;
#[cfg(feature = "files")]
use xds_core::client::RequestCause;
use xds_core::{
    ChannelId,
    client::{Call, ServerAddress, TransportKind},
    error_causes::with_causes,
};

#[cfg(feature = "files")]
use super::file::FileLink;
#[cfg(feature = "rest")]
use super::polling::Polling;
use super::{
    dial::{Http2Connection, IdlePings, dial},
    options::ClientOptions,
    service::Service,
};
use crate::{
    address::without_credentials,
    codec::RawCodec,
    grpc::is_of_connection,
    http2::EndGuard,
    runtime::{BoxFuture, SharedRuntime},
    zoo::{self, Bug},
};

/// Link: the transport of one channel.
pub(crate) struct Link {
    pub(crate) id: ChannelId,
    pub(crate) server: Arc<ServerAddress>,
    /// Address that is dialed, if it differs from the server's.
    pub(crate) target: Option<Arc<str>>,
    /// Number of responses received.
    pub(crate) responses: u64,
    /// Whether the core has a request to send.
    pub(crate) has_requests: bool,
    /// Number of failed attempts before this one, which selects the service.
    pub(crate) failures: usize,
    /// Path of the method to call. `None` if no method exists; then the link fails without
    /// connecting.
    path: Option<PathAndQuery>,
    requests: mpsc::Sender<Bytes>,
    /// Maximum size of a response in bytes.
    pub(crate) max_response_bytes: usize,
    runtime: SharedRuntime,
    state: LinkState,
}

enum LinkState {
    /// Server to poll. A connection is made when there is a request.
    #[cfg(feature = "rest")]
    Preparing(BoxFuture<'static, Result<Polling, String>>),
    #[cfg(feature = "rest")]
    Polling(Box<Polling>),
    /// File, which counts as open at once.
    #[cfg(feature = "files")]
    OpeningFile(Box<FileLink>),
    #[cfg(feature = "files")]
    File(Box<FileLink>),
    Dialing(BoxFuture<'static, Result<DialedService, String>>, mpsc::Receiver<Bytes>),
    Connected(Box<DialedService>, mpsc::Receiver<Bytes>),
    Calling(Http2Connection, BoxFuture<'static, Result<Streaming<Bytes>, Status>>),
    /// Stream, with the connection that it runs on.
    Streaming(Http2Connection, Box<Streaming<Bytes>>),
    /// Stream that has failed, before it is known why its connection has failed.
    Broken(Http2Connection, Status),
    /// The end was reported to the driver.
    Ended,
}

/// Connection, its service and the method to call.
struct DialedService {
    channel: Http2Connection,
    service: Service,
    path: PathAndQuery,
}

/// Event of a link.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The connection is up. The call is made afterwards.
    Opened,
    /// The queue has space for a request.
    QueueSpace,
    Message(Bytes),
    /// A polled server has nothing new.
    #[cfg(feature = "rest")]
    Unchanged,
    /// A response could not be decoded, or exceeds the limit.
    #[cfg(feature = "rest")]
    Malformed(Arc<str>),
    /// A request to a polled server failed.
    #[cfg(feature = "rest")]
    Failed(ChannelError),
    /// A file cannot be read. The link stays open because the file may become readable.
    #[cfg(feature = "files")]
    Unreadable(Arc<str>),
    /// Connecting failed.
    Unreachable(String),
    /// The call has ended.
    Ended(Status),
}

impl Link {
    pub(crate) fn dial(
        id: ChannelId,
        target: Call,
        options: &ClientOptions,
        runtime: &SharedRuntime,
        max_response_bytes: usize,
        failures: usize,
    ) -> Self {
        // A sender has one guaranteed slot, and there is only one sender.
        let (requests, queue) = mpsc::channel(0);
        let path = match &target.server.transport_kind {
            TransportKind::Polling(_) => target.rest_path(),
            TransportKind::File(_) => None,
            _ => target.grpc_path(),
        };
        let path = path.map(PathAndQuery::from_static);
        let service = options.transports.service(&target.server, failures);
        let other_address = |service: &Service| {
            let address = service.target();
            (*address != *target.server.uri).then(|| without_credentials(address).into())
        };
        let address = service.as_ref().ok().and_then(other_address);
        let own_limit = service.as_ref().map_or(usize::MAX, Service::max_response_bytes);
        let max_response_bytes = max_response_bytes.min(own_limit);
        let fails = |why: &str| -> BoxFuture<'static, Result<DialedService, String>> {
            Box::pin(core::future::ready(Err(why.to_owned())))
        };
        let state = match &target.server.transport_kind {
            #[cfg(feature = "files")]
            TransportKind::File(policy) => match FileLink::new(&target, policy, options, runtime) {
                Some(link) => LinkState::OpeningFile(Box::new(link)),
                None => {
                    LinkState::Dialing(fails("a file provides only a single resource type"), queue)
                }
            },
            #[cfg(not(feature = "files"))]
            TransportKind::File(_) => {
                LinkState::Dialing(fails("the feature `files` is disabled"), queue)
            }
            #[cfg(feature = "rest")]
            TransportKind::Polling(_) => LinkState::Preparing(Box::pin(Polling::prepare(
                target.clone(),
                service,
                options.clone(),
                runtime.clone(),
                max_response_bytes,
            ))),
            #[cfg(not(feature = "rest"))]
            TransportKind::Polling(_) => {
                LinkState::Dialing(fails("the feature `rest` is disabled"), queue)
            }
            _ => {
                let connecting = connect(service, path.clone(), options.clone(), runtime.clone());
                LinkState::Dialing(Box::pin(connecting), queue)
            }
        };
        Self {
            id,
            server: target.server,
            target: address,
            path,
            responses: 0,
            has_requests: false,
            requests,
            failures,
            max_response_bytes,
            runtime: runtime.clone(),
            state,
        }
    }

    /// Returns the server's address for logs.
    pub(crate) fn server_name(&self) -> &str {
        without_credentials(&self.server.uri)
    }

    /// Whether a failure of the link is a failure of the service it dialed.
    pub(crate) fn has_method(&self) -> bool {
        self.path.is_some()
    }

    /// Whether the server is a file. Requests to it are not sent.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.server.transport_kind, TransportKind::File(_))
    }

    /// Reads the file if the core subscribes.
    #[cfg(feature = "files")]
    pub(crate) fn read_if_subscribed(&mut self, cause: &RequestCause) {
        if let (LinkState::File(file), RequestCause::Subscription) = (&mut self.state, cause) {
            file.read();
        }
    }

    /// Records a file's current error, if any, and returns whether it differs from the last one.
    #[cfg(feature = "files")]
    pub(crate) fn is_new_error(&mut self, error: Option<&Arc<str>>) -> bool {
        match &mut self.state {
            LinkState::File(file) => file.is_new_error(error),
            _ => false,
        }
    }

    /// Whether the call is open and delivers responses.
    pub(crate) fn is_streaming(&self) -> bool {
        match &self.state {
            LinkState::Streaming(..) => true,
            #[cfg(feature = "rest")]
            LinkState::Polling(polling) => polling.has_response(),
            #[cfg(feature = "files")]
            LinkState::File(_) => true,
            _ => false,
        }
    }

    /// Returns the next event. Responses are read only with [`ReadMode::Read`].
    // B52
    pub(crate) fn poll(&mut self, mode: ReadMode, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        loop {
            match core::mem::replace(&mut self.state, LinkState::Ended) {
                #[cfg(feature = "rest")]
                LinkState::Preparing(mut preparing) => match preparing.as_mut().poll(cx) {
                    Poll::Ready(Ok(polling)) => {
                        self.state = LinkState::Polling(Box::new(polling));
                        return Poll::Ready(LinkEvent::Opened);
                    }
                    Poll::Ready(Err(why)) => return Poll::Ready(LinkEvent::Unreachable(why)),
                    Poll::Pending => {
                        self.state = LinkState::Preparing(preparing);
                        return Poll::Pending;
                    }
                },
                #[cfg(feature = "rest")]
                LinkState::Polling(mut polling) => {
                    let answer = polling.poll(mode, cx);
                    self.state = LinkState::Polling(polling);
                    let event = ready!(answer);
                    self.responses +=
                        u64::from(matches!(event, LinkEvent::Message(_) | LinkEvent::Unchanged));
                    return Poll::Ready(event);
                }
                #[cfg(feature = "files")]
                LinkState::OpeningFile(file) => {
                    self.state = LinkState::File(file);
                    return Poll::Ready(LinkEvent::Opened);
                }
                #[cfg(feature = "files")]
                LinkState::File(mut file) => {
                    let content = file.poll(mode, cx);
                    self.state = LinkState::File(file);
                    let event = ready!(content);
                    self.responses += u64::from(matches!(event, LinkEvent::Message(_)));
                    return Poll::Ready(event);
                }
                LinkState::Dialing(mut dial, queue) => match dial.as_mut().poll(cx) {
                    Poll::Ready(Ok(connection)) => {
                        self.state = LinkState::Connected(Box::new(connection), queue);
                        return Poll::Ready(LinkEvent::Opened);
                    }
                    Poll::Ready(Err(why)) => return Poll::Ready(LinkEvent::Unreachable(why)),
                    Poll::Pending => {
                        self.state = LinkState::Dialing(dial, queue);
                        return Poll::Pending;
                    }
                },
                LinkState::Connected(connection, queue) => {
                    let limit = self.max_response_bytes;
                    let channel = connection.channel.clone();
                    let call = Box::pin(call(*connection, queue, limit, self.runtime.clone()));
                    self.state = LinkState::Calling(channel, call);
                }
                LinkState::Calling(channel, mut call) => match call.as_mut().poll(cx) {
                    Poll::Ready(Ok(responses)) => {
                        self.state = LinkState::Streaming(channel, Box::new(responses));
                    }
                    Poll::Ready(Err(status)) if is_of_connection(&status) => {
                        self.state = LinkState::Broken(channel, status);
                    }
                    Poll::Ready(Err(status)) => return Poll::Ready(LinkEvent::Ended(status)),
                    Poll::Pending => {
                        self.state = LinkState::Calling(channel, call);
                        return self.poll_queue_space(cx);
                    }
                },
                LinkState::Streaming(channel, mut responses) => {
                    // The end of a call is reported even if the driver does not read. Unread
                    // responses before the end are dropped: they could no longer be acknowledged,
                    // and the server sends the resources again on the next stream. They count as
                    // responses in the log. A dropped response is never the first of its stream, on
                    // which the core and the order of services depend: a client only stops reading
                    // because of an earlier response of the same stream.
                    let has_ended = channel.poll_call_end(cx).is_ready();
                    if mode == ReadMode::Pause && !has_ended {
                        self.state = LinkState::Streaming(channel, responses);
                        return self.poll_queue_space(cx);
                    }
                    match Pin::new(&mut *responses).poll_next(cx) {
                        Poll::Ready(Some(Err(_)) | None) if zoo::is(Bug::StreamEndNotReported) => {
                            return Poll::Pending;
                        }
                        Poll::Ready(Some(Ok(message))) => {
                            self.state = LinkState::Streaming(channel, responses);
                            self.responses += 1;
                            if mode == ReadMode::Read {
                                return Poll::Ready(LinkEvent::Message(message));
                            }
                        }
                        Poll::Ready(Some(Err(status))) if is_of_connection(&status) => {
                            self.state = LinkState::Broken(channel, status);
                        }
                        Poll::Ready(Some(Err(status))) => {
                            return Poll::Ready(LinkEvent::Ended(status));
                        }
                        Poll::Ready(None) => return Poll::Ready(LinkEvent::Ended(Status::ok(""))),
                        Poll::Pending => {
                            self.state = LinkState::Streaming(channel, responses);
                            return if has_ended {
                                Poll::Pending
                            } else {
                                self.poll_queue_space(cx)
                            };
                        }
                    }
                }
                LinkState::Broken(channel, status) => {
                    let status = match channel.poll_closed(cx) {
                        Poll::Ready(Some(why)) => {
                            Status::unavailable(format!("the connection has ended: {why}"))
                        }
                        Poll::Ready(None) => status,
                        Poll::Pending => {
                            self.state = LinkState::Broken(channel, status);
                            return Poll::Pending;
                        }
                    };
                    return Poll::Ready(LinkEvent::Ended(status));
                }
                LinkState::Ended => return Poll::Pending,
            }
        }
    }

    /// Returns whether a request can be queued now.
    pub(crate) fn has_queue_space(&mut self) -> bool {
        #[cfg(feature = "rest")]
        if let LinkState::Polling(_) = &self.state {
            return true;
        }
        #[cfg(feature = "files")]
        if let LinkState::File(_) = &self.state {
            return true;
        }
        let mut cx = Context::from_waker(core::task::Waker::noop());
        matches!(self.requests.poll_ready(&mut cx), Poll::Ready(Ok(())))
    }

    /// Queues a request. Requires [`has_queue_space`](Self::has_queue_space).
    pub(crate) fn send(&mut self, request: Bytes) {
        #[cfg(feature = "rest")]
        if let LinkState::Polling(polling) = &mut self.state {
            return polling.request(&request);
        }
        // If the queue is closed, the call has ended and reports its end.
        let _ = self.requests.try_send(request);
    }

    fn poll_queue_space(&mut self, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        if !self.has_requests {
            return Poll::Pending;
        }
        match ready!(self.requests.poll_ready(cx)) {
            Ok(()) => Poll::Ready(LinkEvent::QueueSpace),
            Err(_) => {
                // The queue is closed, so the call has ended, which wakes the task that polls it.
                self.has_requests = false;
                Poll::Pending
            }
        }
    }
}

/// Whether the driver wants the next response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    Read,
    Pause,
}

/// Connects, or fails if there is no method to call.
async fn connect(
    service: Result<Service, String>,
    path: Option<PathAndQuery>,
    options: ClientOptions,
    runtime: SharedRuntime,
) -> Result<DialedService, String> {
    let path =
        path.ok_or("no discovery service has a method for this type and protocol variant")?;
    let service = service?;
    let channel = dial(&service, &options, &runtime, IdlePings::Sent).await?;
    Ok(DialedService { channel, service, path })
}

async fn call(
    DialedService { channel, service, path }: DialedService,
    requests: mpsc::Receiver<Bytes>,
    max_response_bytes: usize,
    runtime: SharedRuntime,
) -> Result<Streaming<Bytes>, Status> {
    let headers = service.headers(&runtime).await?;
    let requests = Requests { queue: requests, _end: channel.call_end_guard() };
    let mut request = Request::new(requests);
    *request.metadata_mut() = MetadataMap::from_headers(headers);
    let mut grpc = channel.grpc().max_decoding_message_size(max_response_bytes);
    if let Err(error) = grpc.ready().await {
        if is_ignored(&error) {
            return pending().await;
        }
        return Err(Status::unavailable(with_causes(&error)));
    }
    match grpc.streaming(request, path, RawCodec).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => {
            if is_ignored(&status) {
                return pending().await;
            }
            Err(status)
        }
    }
}

/// Whether a call never ends because of [`Bug::GoAwayIgnored`]: its connection was closed before it
/// was sent.
fn is_ignored(error: &(dyn Error + 'static)) -> bool {
    let mut cause = zoo::is(Bug::GoAwayIgnored).then_some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return error.is_canceled() || error.is_closed();
        }
        cause = error.source();
    }
    false
}

/// Outgoing requests of a call. The transport drops them when the call ends.
struct Requests {
    queue: mpsc::Receiver<Bytes>,
    _end: EndGuard,
}

impl Stream for Requests {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Pin::new(&mut self.queue).poll_next(cx)
    }
}
