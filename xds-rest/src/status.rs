//! Conversion between gRPC and HTTP statuses. HTTP to gRPC follows
//! [gRPC's mapping](https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md).

use http::StatusCode;
use xds_core::StatusCode as Code;

/// A gRPC status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// Returns the HTTP status for a gRPC status.
pub(crate) fn over_http(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound | Code::Unimplemented => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the gRPC status for an HTTP response without a gRPC status.
pub(crate) fn over_grpc(status: StatusCode) -> Code {
    match status {
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gRPC's table of statuses for HTTP responses without a gRPC status.
    #[test]
    fn http_status_maps_to_grpc_status() {
        for (http, grpc) in [
            (301, Code::Unknown),
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (405, Code::Unknown),
            (429, Code::Unavailable),
            (500, Code::Unknown),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
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
            assert_eq!(over_http(Code::from_i32(code)).as_u16(), expected, "{code}");
        }
        // An unknown code is not a success.
        for code in [-1, 17] {
            assert_eq!(over_http(Code::from_i32(code)).as_u16(), 500, "{code}");
        }
    }
}
