//! gRPC helpers for client and server: method names and status conversion.

use core::error::Error;
use std::io;

use tonic::{Code, Status};
use xds_core::{StatusCode, error_causes::append_causes};

/// ALPN name of HTTP/2.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

/// ALPN name of HTTP/1.1.
#[cfg(feature = "rest")]
pub(crate) const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Name of the client status discovery service (CSDS).
pub(crate) const CSDS_SERVICE: &str = "envoy.service.status.v3.ClientStatusDiscoveryService";
/// Path of the unary CSDS method.
pub(crate) const FETCH_CLIENT_STATUS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
/// Path of the streaming CSDS method.
pub(crate) const STREAM_CLIENT_STATUS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

/// Returns the text of the status if this side's transport rejected a message because it exceeds
/// `limit` bytes.
///
/// tonic has no error type for this case, so it is recognized by code and text. A test of this
/// crate fails if tonic changes them. The stream would then still end with the new text.
pub(crate) fn over_size_limit(status: &Status, limit: usize) -> Option<&str> {
    let text = status.message().strip_prefix("Error, ")?;
    let is_ours = status.code() == Code::OutOfRange
        && text.starts_with("decoded message length too large")
        && text.ends_with(&format!("the limit is: {limit} bytes"))
        && status.metadata().is_empty();
    is_ours.then_some(text)
}

/// Returns the status code and message to report for a call that ended.
///
/// A status that the peer sent is unchanged. If the connection broke during the call, for example
/// because a keepalive ping was not answered, the code is `UNAVAILABLE` and the message lists the
/// causes.
pub(crate) fn status_parts(status: &Status) -> (StatusCode, String) {
    let code = match status.source() {
        Some(source) => match (code_of_break(source), status.code()) {
            (Some(code), _) => code,
            (None, Code::Unknown) => Code::Unavailable,
            (None, code) => code,
        },
        None => status.code(),
    };
    let mut message = status.message().to_owned();
    if let Some(source) = status.source() {
        append_causes(&mut message, source);
    }
    (StatusCode::from_i32(code.into()), message)
}

/// Returns the gRPC code for an HTTP/2 reset or GOAWAY reason among the causes of `error`. Returns
/// `None` if there is none.
fn code_of_break(error: &(dyn Error + 'static)) -> Option<Code> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(reason) = error.downcast_ref::<h2::Error>().and_then(h2::Error::reason) {
            return Some(match reason {
                h2::Reason::REFUSED_STREAM => Code::Unavailable,
                h2::Reason::CANCEL => Code::Cancelled,
                h2::Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
                h2::Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
                h2::Reason::STREAM_CLOSED | h2::Reason::HTTP_1_1_REQUIRED => return None,
                _ => Code::Internal,
            });
        }
        next = error.source();
    }
    None
}

/// Whether a call has failed because its connection has ended. The HTTP/2 stack reports the reason
/// only to the connection's task.
pub(crate) fn is_of_connection(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.is_io();
        }
        let is_canceled = error.downcast_ref().is_some_and(hyper::Error::is_canceled);
        if is_canceled || error.is::<io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use super::*;

    #[test]
    fn status_of_the_peer_is_kept() {
        let status = Status::new(Code::PermissionDenied, "not you");
        assert_eq!(status_parts(&status), (StatusCode::PermissionDenied, "not you".into()));
        assert_eq!(status_parts(&Status::unknown("odd")), (StatusCode::Unknown, "odd".into()));
    }

    #[test]
    fn broken_connection_is_unavailable_and_has_its_causes() {
        let mut status = Status::unknown("broken");
        status.set_source(Arc::new(io::Error::other("reset")));
        assert_eq!(status_parts(&status), (StatusCode::Unavailable, "broken: reset".into()));
    }

    #[test]
    fn reset_stream_status_depends_on_the_http2_reason() {
        for (reason, code) in [
            (h2::Reason::NO_ERROR, StatusCode::Internal),
            (h2::Reason::PROTOCOL_ERROR, StatusCode::Internal),
            (h2::Reason::REFUSED_STREAM, StatusCode::Unavailable),
            (h2::Reason::STREAM_CLOSED, StatusCode::Unavailable),
            (h2::Reason::CANCEL, StatusCode::Cancelled),
            (h2::Reason::ENHANCE_YOUR_CALM, StatusCode::ResourceExhausted),
            (h2::Reason::INADEQUATE_SECURITY, StatusCode::PermissionDenied),
        ] {
            let mut status = Status::unknown("reset");
            status.set_source(Arc::new(h2::Error::from(reason)));
            assert_eq!(status_parts(&status).0, code, "{reason:?}");
        }
    }

    #[test]
    fn size_limit_of_the_peer_is_distinguished_from_ours() {
        assert_eq!(over_size_limit(&Status::out_of_range("resource 7"), 8), None);
        let ours = Status::out_of_range(
            "Error, decoded message length too large: found 9 bytes, the limit is: 8 bytes",
        );
        assert!(over_size_limit(&ours, 8).is_some_and(|text| text.contains("9 bytes")));
        assert_eq!(over_size_limit(&ours, 80), None, "a peer says the same of what we sent");
    }
}
