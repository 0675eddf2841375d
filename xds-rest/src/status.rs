//! Conversion between gRPC and HTTP statuses. HTTP to gRPC follows
//! [gRPC's mapping](https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md).

use http::StatusCode;

/// A gRPC status.
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

/// Returns the HTTP status for a gRPC status.
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

/// Returns the gRPC status for an HTTP response without a gRPC status.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// gRPC's table of statuses for HTTP responses without a gRPC status.
    #[test]
    fn http_status_maps_to_grpc_status() {
        for (http, grpc) in [
            (301, UNKNOWN),
            (400, INTERNAL),
            (401, UNAUTHENTICATED),
            (403, PERMISSION_DENIED),
            (404, UNIMPLEMENTED),
            (405, UNKNOWN),
            (429, UNAVAILABLE),
            (500, UNKNOWN),
            (502, UNAVAILABLE),
            (503, UNAVAILABLE),
            (504, UNAVAILABLE),
        ] {
            let status = StatusCode::from_u16(http).expect("a status");
            assert_eq!(over_grpc(status), grpc, "{http}");
        }
        println!("covers: RJ-04");
    }

    #[test]
    fn grpc_status_maps_to_http_status() {
        let expected =
            [200, 500, 500, 400, 504, 404, 500, 403, 429, 500, 500, 500, 404, 500, 503, 500, 401];
        for (code, expected) in (0..).zip(expected) {
            assert_eq!(over_http(code).as_u16(), expected, "{code}");
        }
        // An unknown code is not a success.
        assert_eq!((over_http(-1).as_u16(), over_http(17).as_u16()), (500, 500));
    }
}
