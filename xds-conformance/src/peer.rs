//! A management server that a test case controls step by step.

use core::{convert::Infallible, net::SocketAddr, time::Duration};
use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_io::{Async, Timer};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use futures_channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures_util::{StreamExt as _, future::poll_fn};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{body::Incoming, rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::TokioIo;
use prost::Message;
use rustls::ServerConfig;
use smol::Task;
use tokio_rustls::TlsAcceptor;
use tokio_util::compat::FuturesAsyncReadCompatExt as _;
use xds_core::proto::{Any, DiscoveryRequest, DiscoveryResponse};

use crate::wait::soon;

/// Executor for hyper's tasks.
#[derive(Clone, Copy)]
pub(crate) struct Tasks;

impl<F> Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        smol::spawn(task).detach();
    }
}

/// Time at which the server sends response headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headers {
    AtOnce,
    /// Waits for a request, as some servers do.
    AfterFirstRequest,
}

pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    calls: UnboundedReceiver<Call>,
    /// Number of calls of [`Peer::stop_io`].
    stopped: Arc<AtomicUsize>,
    _accepting: Task<()>,
}

/// Stream of a client.
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    requests: UnboundedReceiver<Bytes>,
    responses: UnboundedSender<Result<Frame<Bytes>, Infallible>>,
}

impl Peer {
    pub(crate) fn start(headers: Headers) -> Self {
        Self::start_with(headers, None)
    }

    pub(crate) fn start_with(headers: Headers, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], 0)).expect("loopback");
        let address = listener.get_ref().local_addr().expect("it is bound");
        let (sender, calls) = mpsc::unbounded();
        let stopped = Arc::new(AtomicUsize::new(0));
        let (stopped_count, acceptor) = (Arc::clone(&stopped), tls.map(TlsAcceptor::from));
        let accepting = smol::spawn(async move {
            // Connections end with the listener.
            let mut connections = Vec::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (sender, stopped_count, acceptor) =
                    (sender.clone(), Arc::clone(&stopped_count), acceptor.clone());
                connections.push(smol::spawn(async move {
                    let socket = socket.compat();
                    match acceptor {
                        None => serve(TokioIo::new(socket), headers, sender, stopped_count).await,
                        Some(acceptor) => {
                            if let Ok(socket) = acceptor.accept(socket).await {
                                serve(TokioIo::new(socket), headers, sender, stopped_count).await;
                            }
                        }
                    }
                }));
            }
        });
        Self { address, calls, stopped, _accepting: accepting }
    }

    pub(crate) async fn call(&mut self) -> Call {
        soon("a call", self.calls.next()).await.expect("the peer runs")
    }

    /// Stops reading and writing on the open connections without closing them. New
    /// connections are served.
    pub(crate) fn stop_io(&self) {
        self.stopped.fetch_add(1, Ordering::SeqCst);
    }
}

async fn serve<I>(io: I, headers: Headers, calls: UnboundedSender<Call>, stopped: Arc<AtomicUsize>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let answer = service_fn(move |request| take(request, headers, calls.clone()));
    let connection = http2::Builder::new(Tasks).serve_connection(io, answer);
    let mut connection = core::pin::pin!(connection);
    let before = stopped.load(Ordering::SeqCst);
    poll_fn(|cx| match stopped.load(Ordering::SeqCst) == before {
        true => connection.as_mut().poll(cx).map(drop),
        false => core::task::Poll::Pending,
    })
    .await;
}

async fn take(
    request: Request<Incoming>,
    headers: Headers,
    calls: UnboundedSender<Call>,
) -> Result<Response<StreamBody<UnboundedReceiver<Result<Frame<Bytes>, Infallible>>>>, Infallible> {
    let (sender, mut requests) = mpsc::unbounded();
    let (responses, outgoing) = mpsc::unbounded();
    let (head, body) = request.into_parts();
    smol::spawn(read(body, sender)).detach();
    if headers == Headers::AfterFirstRequest {
        // The request is passed on to the case.
        let first = requests.next().await;
        let (again, all) = mpsc::unbounded();
        if let Some(first) = first {
            let _ = again.unbounded_send(first);
        }
        let mut rest = core::mem::replace(&mut requests, all);
        smol::spawn(async move {
            while let Some(request) = rest.next().await {
                let _ = again.unbounded_send(request);
            }
        })
        .detach();
    }
    let path = head.uri.path().to_owned();
    let _ = calls.unbounded_send(Call { path, headers: head.headers, requests, responses });
    let mut response = Response::new(StreamBody::new(outgoing));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

async fn read(mut body: Incoming, requests: UnboundedSender<Bytes>) {
    let mut messages = Messages::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        messages.take(data, |message| {
            // A case that has ended does not read.
            let _ = requests.unbounded_send(message);
        });
    }
}

/// Splits a body into messages.
#[derive(Default)]
pub(crate) struct Messages(BytesMut);

impl Messages {
    pub(crate) fn take(&mut self, data: Bytes, mut give: impl FnMut(Bytes)) {
        self.0.put(data);
        while let Some(message) = self.split() {
            give(message);
        }
    }

    fn split(&mut self) -> Option<Bytes> {
        let mut length = self.0.get(1..5)?;
        let length = usize::try_from(length.get_u32()).ok()?;
        if self.0.len() < 5 + length {
            return None;
        }
        self.0.advance(5);
        Some(self.0.split_to(length).freeze())
    }
}

/// Encodes a message with the gRPC frame header.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    framed_bytes(&message.encode_to_vec())
}

fn framed_bytes(bytes: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + bytes.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(bytes.len()).expect("a short message"));
    frame.put_slice(bytes);
    frame.freeze()
}

impl Call {
    pub(crate) async fn request<M: Message + Default>(&mut self) -> M {
        let message = soon("a request", self.requests.next()).await.expect("the stream is open");
        M::decode(message).expect("a request")
    }

    pub(crate) async fn sotw(&mut self) -> DiscoveryRequest {
        self.request().await
    }

    /// Waits until the client has ended the stream.
    pub(crate) async fn ended(&mut self) {
        while soon("the end of the stream", self.requests.next()).await.is_some() {}
    }

    /// Waits until the client's connection accepts no more responses.
    pub(crate) async fn closed(&self) {
        soon("the end of the call", async {
            while !self.responses.is_closed() {
                Timer::after(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    pub(crate) fn send(&self, message: &impl Message) {
        self.send_bytes(&message.encode_to_vec());
    }

    /// Sends a message with these bytes, which need not be valid.
    pub(crate) fn send_bytes(&self, bytes: &[u8]) {
        // An error means that the client has gone.
        let _ = self.responses.unbounded_send(Ok(Frame::data(framed_bytes(bytes))));
    }

    pub(crate) fn respond(
        &self,
        type_url: &str,
        version: &str,
        nonce: &str,
        resources: &[(&str, &str)],
    ) {
        let any = |(name, content): &(&str, &str)| Any {
            type_url: type_url.into(),
            value: resource(name, content),
        };
        self.send(&DiscoveryResponse {
            version_info: version.into(),
            resources: resources.iter().map(any).collect(),
            type_url: type_url.into(),
            nonce: nonce.into(),
            ..Default::default()
        });
    }

    /// Ends the stream with a status.
    pub(crate) fn end(self, code: &'static str) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static(code));
        let _ = self.responses.unbounded_send(Ok(Frame::trailers(trailers)));
    }
}

/// Encodes a resource: its name in the first field, `content` in the second.
pub(crate) fn resource(name: &str, content: &str) -> Bytes {
    let mut bytes =
        xds_core::proto::ResourceName { name: name.into(), ..Default::default() }.encode_to_vec();
    let content = xds_core::proto::Status { message: content.into(), ..Default::default() };
    bytes.extend(content.encode_to_vec());
    bytes.into()
}
