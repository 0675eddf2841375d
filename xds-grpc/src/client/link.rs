//! Transport of one channel of the core: dial, call, send requests, receive responses.
//!
//! ```text
//!  Dialing ──▶ Connected ──▶ Calling ──▶ Streaming ──▶ Over
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
    client::{Call, Exchange, ManagementServer},
};

#[cfg(feature = "files")]
use super::file::FileLink;
#[cfg(feature = "rest")]
use super::polling::Polling;
use super::{
    dial::{Channel, dial},
    options::ClientOptions,
    service::Service,
};
use crate::{
    address::without_credentials, codec::RawCodec, grpc::with_causes, http2::EndGuard,
    runtime::Shared,
};

type Future<T> = Pin<Box<dyn core::future::Future<Output = T> + Send>>;

/// Link: the transport of one channel.
pub(crate) struct Link {
    pub(crate) id: ChannelId,
    pub(crate) server: Arc<ManagementServer>,
    /// Address that is dialed, if it differs from the server's.
    pub(crate) target: Option<Arc<str>>,
    /// Number of responses received.
    pub(crate) responses: u64,
    /// Whether the core has a request to send.
    pub(crate) has_requests: bool,
    /// Number of failed attempts before this one, which selects the service.
    pub(crate) turn: usize,
    /// Path of the method to call. `None` if no method exists; then the link fails without
    /// connecting.
    path: Option<PathAndQuery>,
    requests: mpsc::Sender<Bytes>,
    /// Maximum size of a response in bytes.
    pub(crate) max_response_bytes: usize,
    runtime: Shared,
    stage: Stage,
}

enum Stage {
    /// Polled server; it connects only when there is a request.
    #[cfg(feature = "rest")]
    Preparing(Future<Result<Polling, String>>),
    #[cfg(feature = "rest")]
    Polling(Box<Polling>),
    /// File, opened at once.
    #[cfg(feature = "files")]
    OpeningFile(Box<FileLink>),
    #[cfg(feature = "files")]
    File(Box<FileLink>),
    Dialing(Future<Result<Connection, String>>, mpsc::Receiver<Bytes>),
    Connected(Box<Connection>, mpsc::Receiver<Bytes>),
    Calling(Channel, Future<Result<Streaming<Bytes>, Status>>),
    /// Stream, with the connection that it runs on.
    Streaming(Channel, Box<Streaming<Bytes>>),
    /// The end was reported to the driver.
    Over,
}

/// Connection, its service and the method to call.
struct Connection {
    channel: Channel,
    service: Service,
    path: PathAndQuery,
}

/// Event of a link.
#[derive(Debug)]
pub(crate) enum News {
    /// The connection is up. The call is made afterwards.
    Opened,
    /// The queue has space for a request.
    Room,
    Message(Bytes),
    /// A polled server has nothing new.
    #[cfg(feature = "rest")]
    Unchanged,
    /// A response could not be decoded, or exceeds the limit.
    #[cfg(feature = "rest")]
    Undeliverable(Arc<str>),
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
        runtime: &Shared,
        max_response_bytes: usize,
        turn: usize,
    ) -> Self {
        // A sender has one guaranteed slot, and there is only one sender.
        let (requests, queue) = mpsc::channel(0);
        let path = match &target.server.exchange {
            Exchange::Polls(_) => target.rest_path(),
            Exchange::Files(_) => None,
            _ => target.grpc_path(),
        };
        let path = path.map(PathAndQuery::from_static);
        let service = options.transports.service(&target.server, turn);
        let stands_in = |service: &Service| {
            let address = service.target();
            (*address != *target.server.uri).then(|| without_credentials(address).into())
        };
        let address = service.as_ref().ok().and_then(stands_in);
        let own_limit = service.as_ref().map_or(usize::MAX, Service::max_response_bytes);
        let max_response_bytes = max_response_bytes.min(own_limit);
        let fails = |why: &str| -> Future<Result<Connection, String>> {
            Box::pin(core::future::ready(Err(why.to_owned())))
        };
        let stage = match &target.server.exchange {
            #[cfg(feature = "files")]
            Exchange::Files(policy) => match FileLink::new(&target, policy, options) {
                Some(link) => Stage::OpeningFile(Box::new(link)),
                None => Stage::Dialing(fails("a file is read for one type"), queue),
            },
            #[cfg(not(feature = "files"))]
            Exchange::Files(_) => Stage::Dialing(fails("the feature `files` is off"), queue),
            #[cfg(feature = "rest")]
            Exchange::Polls(_) => Stage::Preparing(Box::pin(Polling::prepare(
                target.clone(),
                service,
                options.clone(),
                runtime.clone(),
                max_response_bytes,
            ))),
            #[cfg(not(feature = "rest"))]
            Exchange::Polls(_) => Stage::Dialing(fails("the feature `rest` is off"), queue),
            _ => {
                let connecting = connect(service, path.clone(), options.clone(), runtime.clone());
                Stage::Dialing(Box::pin(connecting), queue)
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
            turn,
            max_response_bytes,
            runtime: runtime.clone(),
            stage,
        }
    }

    /// Returns the server's address for logs.
    pub(crate) fn server_name(&self) -> &str {
        without_credentials(&self.server.uri)
    }

    /// Whether a failure of the link is a failure of the service it dialed.
    pub(crate) fn is_dialled(&self) -> bool {
        self.path.is_some()
    }

    /// Whether the server is a file. Requests to it are not sent.
    pub(crate) fn is_of_a_file(&self) -> bool {
        matches!(self.server.exchange, Exchange::Files(_))
    }

    /// Reads the file if the core subscribes.
    #[cfg(feature = "files")]
    pub(crate) fn read_if_asked(&mut self, cause: &RequestCause) {
        if let (Stage::File(file), RequestCause::Subscription) = (&mut self.stage, cause) {
            file.read();
        }
    }

    /// Records a file's current error, if any, and returns whether it differs from the last one.
    #[cfg(feature = "files")]
    pub(crate) fn is_news(&mut self, trouble: Option<&Arc<str>>) -> bool {
        match &mut self.stage {
            Stage::File(file) => file.is_news(trouble),
            _ => false,
        }
    }

    /// Whether the call is open and delivers responses.
    pub(crate) fn is_streaming(&self) -> bool {
        match &self.stage {
            Stage::Streaming(..) => true,
            #[cfg(feature = "rest")]
            Stage::Polling(polling) => polling.has_response(),
            #[cfg(feature = "files")]
            Stage::File(_) => true,
            _ => false,
        }
    }

    /// Returns the next event. Responses are read only with [`Reads::Yes`].
    // B52
    pub(crate) fn poll(&mut self, reads: Reads, cx: &mut Context<'_>) -> Poll<News> {
        loop {
            match core::mem::replace(&mut self.stage, Stage::Over) {
                #[cfg(feature = "rest")]
                Stage::Preparing(mut preparing) => match preparing.as_mut().poll(cx) {
                    Poll::Ready(Ok(polling)) => {
                        self.stage = Stage::Polling(Box::new(polling));
                        return Poll::Ready(News::Opened);
                    }
                    Poll::Ready(Err(why)) => return Poll::Ready(News::Unreachable(why)),
                    Poll::Pending => {
                        self.stage = Stage::Preparing(preparing);
                        return Poll::Pending;
                    }
                },
                #[cfg(feature = "rest")]
                Stage::Polling(mut polling) => {
                    let answer = polling.poll(reads, cx);
                    self.stage = Stage::Polling(polling);
                    let news = ready!(answer);
                    self.responses += u64::from(matches!(news, News::Message(_) | News::Unchanged));
                    return Poll::Ready(news);
                }
                #[cfg(feature = "files")]
                Stage::OpeningFile(file) => {
                    self.stage = Stage::File(file);
                    return Poll::Ready(News::Opened);
                }
                #[cfg(feature = "files")]
                Stage::File(mut file) => {
                    let content = file.poll(reads, cx);
                    self.stage = Stage::File(file);
                    let news = ready!(content);
                    self.responses += u64::from(matches!(news, News::Message(_)));
                    return Poll::Ready(news);
                }
                Stage::Dialing(mut dial, queue) => match dial.as_mut().poll(cx) {
                    Poll::Ready(Ok(connection)) => {
                        self.stage = Stage::Connected(Box::new(connection), queue);
                        return Poll::Ready(News::Opened);
                    }
                    Poll::Ready(Err(why)) => return Poll::Ready(News::Unreachable(why)),
                    Poll::Pending => {
                        self.stage = Stage::Dialing(dial, queue);
                        return Poll::Pending;
                    }
                },
                Stage::Connected(connection, queue) => {
                    let limit = self.max_response_bytes;
                    let channel = connection.channel.clone();
                    let call = Box::pin(call(*connection, queue, limit, self.runtime.clone()));
                    self.stage = Stage::Calling(channel, call);
                }
                Stage::Calling(channel, mut call) => match call.as_mut().poll(cx) {
                    Poll::Ready(Ok(responses)) => {
                        self.stage = Stage::Streaming(channel, Box::new(responses));
                    }
                    Poll::Ready(Err(status)) => return Poll::Ready(News::Ended(status)),
                    Poll::Pending => {
                        self.stage = Stage::Calling(channel, call);
                        return self.poll_room(cx);
                    }
                },
                Stage::Streaming(channel, mut responses) => {
                    // The end of a call is reported even if the driver does not read. Unread
                    // responses before the end are dropped: they could not be acknowledged any
                    // more, and the next stream brings them again. They count as responses for the
                    // log. They are never the first of a stream, which the core and the order of
                    // services depend on: a client stops reading only because of a response of the
                    // same stream.
                    let has_ended = channel.poll_call_end(cx).is_ready();
                    if reads == Reads::No && !has_ended {
                        self.stage = Stage::Streaming(channel, responses);
                        return self.poll_room(cx);
                    }
                    match Pin::new(&mut *responses).poll_next(cx) {
                        Poll::Ready(Some(Ok(message))) => {
                            self.stage = Stage::Streaming(channel, responses);
                            self.responses += 1;
                            if reads == Reads::Yes {
                                return Poll::Ready(News::Message(message));
                            }
                        }
                        Poll::Ready(Some(Err(status))) => return Poll::Ready(News::Ended(status)),
                        Poll::Ready(None) => return Poll::Ready(News::Ended(Status::ok(""))),
                        Poll::Pending => {
                            self.stage = Stage::Streaming(channel, responses);
                            return if has_ended { Poll::Pending } else { self.poll_room(cx) };
                        }
                    }
                }
                Stage::Over => return Poll::Pending,
            }
        }
    }

    /// Returns whether a request can be queued now.
    pub(crate) fn has_room(&mut self) -> bool {
        #[cfg(feature = "rest")]
        if let Stage::Polling(_) = &self.stage {
            return true;
        }
        #[cfg(feature = "files")]
        if let Stage::File(_) = &self.stage {
            return true;
        }
        let mut cx = Context::from_waker(core::task::Waker::noop());
        matches!(self.requests.poll_ready(&mut cx), Poll::Ready(Ok(())))
    }

    /// Queues a request. Requires [`has_room`](Self::has_room).
    pub(crate) fn send(&mut self, request: Bytes) {
        #[cfg(feature = "rest")]
        if let Stage::Polling(polling) = &mut self.stage {
            return polling.ask(&request);
        }
        // If the queue is closed, the call has ended and reports its end.
        let _ = self.requests.try_send(request);
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        if !self.has_requests {
            return Poll::Pending;
        }
        match ready!(self.requests.poll_ready(cx)) {
            Ok(()) => Poll::Ready(News::Room),
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
pub(crate) enum Reads {
    Yes,
    No,
}

/// Connects, or fails if there is no method to call.
async fn connect(
    service: Result<Service, String>,
    path: Option<PathAndQuery>,
    options: ClientOptions,
    runtime: Shared,
) -> Result<Connection, String> {
    let path = path.ok_or("no discovery service has such a stream for this type")?;
    let service = service?;
    Ok(Connection { channel: dial(&service, &options, &runtime).await?, service, path })
}

async fn call(
    Connection { channel, service, path }: Connection,
    requests: mpsc::Receiver<Bytes>,
    max_response_bytes: usize,
    runtime: Shared,
) -> Result<Streaming<Bytes>, Status> {
    let headers = service.headers(&runtime).await?;
    let requests = Requests { queue: requests, _end: channel.call_end_guard() };
    let mut request = Request::new(requests);
    *request.metadata_mut() = MetadataMap::from_headers(headers);
    let mut grpc = channel.grpc().max_decoding_message_size(max_response_bytes);
    grpc.ready().await.map_err(|error| Status::unavailable(with_causes(&error)))?;
    grpc.streaming(request, path, RawCodec).await.map(tonic::Response::into_inner)
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
