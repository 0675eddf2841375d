//! What a status of gRPC is over HTTP, and the other way round. Both are those of gRPC's own mapping.

use http::StatusCode;

/// A status of gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: i32,
    pub(crate) message: String,
}

pub(crate) const OK: i32 = 0;
pub(crate) const UNKNOWN: i32 = 2;
pub(crate) const INVALID_ARGUMENT: i32 = 3;
pub(crate) const DEADLINE_EXCEEDED: i32 = 4;
pub(crate) const NOT_FOUND: i32 = 5;
pub(crate) const PERMISSION_DENIED: i32 = 7;
pub(crate) const RESOURCE_EXHAUSTED: i32 = 8;
pub(crate) const UNIMPLEMENTED: i32 = 12;
pub(crate) const INTERNAL: i32 = 13;
pub(crate) const UNAVAILABLE: i32 = 14;
pub(crate) const UNAUTHENTICATED: i32 = 16;

/// The status of HTTP with which a call ends that ended with this one of gRPC.
pub(crate) fn over_http(code: i32) -> StatusCode {
    match code {
        OK => StatusCode::OK,
        INVALID_ARGUMENT => StatusCode::BAD_REQUEST,
        UNAUTHENTICATED => StatusCode::UNAUTHORIZED,
        PERMISSION_DENIED => StatusCode::FORBIDDEN,
        NOT_FOUND | UNIMPLEMENTED => StatusCode::NOT_FOUND,
        RESOURCE_EXHAUSTED => StatusCode::TOO_MANY_REQUESTS,
        UNAVAILABLE => StatusCode::SERVICE_UNAVAILABLE,
        DEADLINE_EXCEEDED => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The code of gRPC that stands for an answer which is no response.
pub(crate) fn over_grpc(status: StatusCode) -> i32 {
    match status {
        StatusCode::BAD_REQUEST => INTERNAL,
        StatusCode::UNAUTHORIZED => UNAUTHENTICATED,
        StatusCode::FORBIDDEN => PERMISSION_DENIED,
        StatusCode::NOT_FOUND => UNIMPLEMENTED,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => UNAVAILABLE,
        _ => UNKNOWN,
    }
}
