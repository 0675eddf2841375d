//! Connection to an endpoint.

use std::sync::{Arc, atomic::AtomicBool};

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
    /// Whether the endpoint has no service for load reports on this connection (gRFC A51).
    pub(crate) lacks_load_reports: Arc<AtomicBool>,
}

impl EndpointConnection {
    pub(crate) fn new(
        requests: SendRequest<Body>,
        scheme: Scheme,
        address: Arc<SocketAddress>,
    ) -> Self {
        Self { requests, scheme, address, lacks_load_reports: Arc::default() }
    }
}
