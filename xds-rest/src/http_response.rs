//! Responses of the gateway over HTTP.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

pub(crate) type HttpResponse = Response<Full<Bytes>>;

/// Error response.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    status: StatusCode,
    reason: String,
}

impl ErrorResponse {
    pub(crate) fn new(status: StatusCode, reason: String) -> Self {
        Self { status, reason }
    }

    /// Converts the error to a plain-text response.
    pub(crate) fn into_response(self) -> HttpResponse {
        let mut text = self.reason;
        text.push('\n');
        let mut response = response(self.status, text.into());
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        response
    }
}

/// Creates a response.
pub(crate) fn response(status: StatusCode, body: Bytes) -> HttpResponse {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}
