//! Connection to an endpoint.

use std::sync::Arc;

use http::uri::Scheme;
use hyper::client::conn::http2::SendRequest;
use tonic::body::Body;
use xds_routing::SocketAddress;

/// Connection to an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct EndpointConnection {
    pub(crate) requests: SendRequest<Body>,
    /// Scheme of its requests.
    pub(crate) scheme: Scheme,
    pub(crate) address: Arc<SocketAddress>,
}
