//! Calls outside of discovery streams: calls of other services over gRPC, and, with the feature
//! `rest`, HTTP requests to an admin interface.

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderName, HeaderValue, uri::PathAndQuery};
use thiserror::Error;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};

use super::{
    dial::{Http2Connection, IdlePings, dial},
    options::ClientOptions,
    service::Service,
};
use crate::{
    codec::RawCodec,
    runtime::{Runtime, SharedRuntime},
};

/// Error of a connection attempt: the server was never reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unreachable(String);

/// Connection to a gRPC server for calls to services other than discovery, such as an admin
/// service.
///
/// It uses the credentials and metadata of its [`Service`]. The caller encodes and decodes the
/// messages. The connection is closed when this value is dropped. Keepalive pings are only sent
/// during calls, because gRPC servers close connections that send pings without an active call.
#[derive(Debug)]
pub struct CallConnection {
    connection: Http2Connection,
    service: Service,
    runtime: SharedRuntime,
}

impl CallConnection {
    /// Connects to a service.
    ///
    /// # Errors
    ///
    /// Returns an error if no address accepts the connection, TLS fails, the server does not speak
    /// HTTP/2, or all of this takes longer than [`ClientOptions::connect_timeout`].
    pub async fn open(
        runtime: impl Runtime,
        service: Service,
        options: &ClientOptions,
    ) -> Result<Self, Unreachable> {
        Self::open_on(SharedRuntime::new(runtime), service, options).await
    }

    pub(crate) async fn open_on(
        runtime: SharedRuntime,
        service: Service,
        options: &ClientOptions,
    ) -> Result<Self, Unreachable> {
        let opening = dial(&service, options, &runtime, IdlePings::Omitted);
        let connection = opening.await.map_err(Unreachable)?;
        Ok(Self { connection, service, runtime })
    }

    /// Calls a method with one request and returns its first response. The method is a path such as
    /// `/grpc.health.v1.Health/Check`; it may be unary or streaming.
    ///
    /// # Errors
    ///
    /// Returns the status of a failed call. A response that exceeds
    /// [`Service::with_max_response_bytes`] fails with `OUT_OF_RANGE`.
    pub async fn call(&self, method: &str, request: Bytes) -> Result<Bytes, Status> {
        Ok(self.call_with_metadata(method, request).await?.into_inner())
    }

    /// Calls a method like [`call`](Self::call), and returns the response with the metadata that
    /// preceded it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`call`](Self::call).
    pub async fn call_with_metadata(
        &self,
        method: &str,
        request: Bytes,
    ) -> Result<Response<Bytes>, Status> {
        let responses = self.begin(method, stream::iter([request])).await?;
        let (metadata, mut responses, extensions) = responses.into_parts();
        let response = responses.message().await?;
        let response =
            response.ok_or_else(|| Status::internal("the call ended without a response"))?;
        Ok(Response::from_parts(metadata, response, extensions))
    }

    /// Adds a header to all subsequent calls, like [`Service::with_metadata`].
    #[must_use]
    pub fn with_metadata(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.service = self.service.with_metadata(name, value);
        self
    }

    /// Calls a method with a stream of requests. Returns its responses once the server has begun to
    /// respond, which some servers do only after a request.
    ///
    /// Dropping the responses cancels the call. While they exist, the connection stays open.
    ///
    /// # Errors
    ///
    /// Returns the status of a failed call. A response that exceeds
    /// [`Service::with_max_response_bytes`] ends the stream with `OUT_OF_RANGE`.
    pub async fn stream(
        &self,
        method: &str,
        requests: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<Streaming<Bytes>, Status> {
        Ok(self.begin(method, requests).await?.into_inner())
    }

    async fn begin(
        &self,
        method: &str,
        requests: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<Response<Streaming<Bytes>>, Status> {
        let method = PathAndQuery::try_from(method);
        let method = method.map_err(|why| Status::invalid_argument(why.to_string()))?;
        let limit = self.service.max_response_bytes();
        let mut grpc = self.connection.clone().grpc().max_decoding_message_size(limit);
        grpc.ready().await.map_err(|why| Status::unavailable(why.to_string()))?;
        let headers = self.service.headers(&self.runtime).await?;
        let mut request = Request::new(requests);
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        grpc.streaming(request, method, RawCodec).await
    }
}

#[cfg(feature = "rest")]
pub use self::http1::{GetError, GetResponse, http_get};

#[cfg(feature = "rest")]
mod http1 {
    use core::{future::poll_fn, pin::pin};

    use bytes::{Bytes, BytesMut};
    use http::{HeaderValue, Request, StatusCode, header};
    use http_body::Body as _;
    use hyper::client::conn::http1;
    use thiserror::Error;
    use tonic::body::Body;
    use xds_core::error_causes::with_causes;

    use super::Unreachable;
    use crate::{
        address::Target,
        client::{dial::dial_http1, options::ClientOptions, service::Service},
        runtime::{Runtime, SharedRuntime},
    };

    /// Response to an HTTP request.
    #[derive(Clone, Debug)]
    #[non_exhaustive]
    pub struct GetResponse {
        /// Status of the response.
        pub status: StatusCode,
        /// Body of the response.
        pub body: Bytes,
    }

    /// Error of an HTTP request.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    #[non_exhaustive]
    pub enum GetError {
        /// The server was never reached.
        #[error(transparent)]
        Unreachable(Unreachable),
        /// The server was reached, and the response is missing, incomplete or not HTTP/1.
        #[error("{0}")]
        Failed(String),
        /// The response exceeds [`Service::with_max_response_bytes`].
        #[error("the response exceeds {0} bytes")]
        TooLarge(usize),
    }

    /// Sends one HTTP/1.1 request with the method GET over a new connection, with the credentials
    /// and metadata of the service. Redirects are not followed.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no complete response. A response with an error status is
    /// returned as `Ok`.
    pub async fn http_get(
        runtime: impl Runtime,
        service: &Service,
        options: &ClientOptions,
        path_and_query: &str,
    ) -> Result<GetResponse, GetError> {
        let runtime = SharedRuntime::new(runtime);
        let unreachable = |why| GetError::Unreachable(Unreachable(why));
        let io = dial_http1(service, options, &runtime).await.map_err(unreachable)?;
        let failed = |why: hyper::Error| GetError::Failed(with_causes(&why));
        let (mut requests, connection) = http1::handshake(io).await.map_err(failed)?;
        // The request reports errors of the connection.
        let _connection = runtime.start(async { drop(connection.await) });
        let request = request(service, &runtime, path_and_query).await?;
        let response = requests.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let limit = service.max_response_bytes();
        let mut body = pin!(response.into_body());
        let mut read = BytesMut::new();
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let Ok(data) = frame.map_err(failed)?.into_data() else { continue };
            if data.len() > limit.saturating_sub(read.len()) {
                return Err(GetError::TooLarge(limit));
            }
            read.extend_from_slice(&data);
        }
        Ok(GetResponse { status, body: read.freeze() })
    }

    async fn request(
        service: &Service,
        runtime: &SharedRuntime,
        path_and_query: &str,
    ) -> Result<Request<Body>, GetError> {
        let failed = |why: &dyn core::fmt::Display| GetError::Failed(why.to_string());
        let target = Target::parse(service.target()).map_err(|why| failed(&why))?;
        let host = service.authority().unwrap_or(&target.authority).as_str();
        let headers = service.headers(runtime).await.map_err(|why| failed(&why.message()))?;
        let mut request = Request::get(path_and_query)
            .header(header::HOST, host)
            .body(Body::empty())
            .map_err(|why| failed(&why))?;
        request.headers_mut().extend(headers);
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Ok(request)
    }
}
