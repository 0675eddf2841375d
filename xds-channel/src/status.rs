//! Statuses of calls. A management server's status never becomes the status of a call ([gRFC
//! A54][A54]).
//!
//! [A54]: https://github.com/grpc/proposal/blob/master/A54-restrict-control-plane-status-codes.md

use core::fmt::Display;
use std::{borrow::Cow, error::Error as _};

use h2::Reason;
use http::HeaderMap;
use tonic::{Code, Status};
use xds_routing::{SocketAddress, router::Failure};

/// Converts a failure into a status. The note applies to failures without one.
pub(crate) fn of(failure: &Failure, note: impl Display) -> Status {
    Status::new(Code::from_i32(failure.code().as_i32()), failure.message(note))
}

/// Returns the resolution note used if no errors are known.
// S3.095
pub(crate) fn node_note(node_id: &str) -> String {
    format!("xDS node ID: {node_id}")
}

pub(crate) fn with_note(why: impl Display, note: impl Display) -> String {
    format!("{why} (resolution note: {note})")
}

/// Returns the status for an exceeded deadline, with what the call waited for.
pub(crate) fn deadline_exceeded(how: Waiting) -> Status {
    let late = "deadline exceeded";
    Status::deadline_exceeded(match how {
        Waiting::Failing(why) => format!("{late}: {why}"),
        Waiting::For(what, note) => {
            with_note(format_args!("{late} while waiting for {what}"), note)
        }
        Waiting::Noted(note) => with_note(late, note),
    })
}

/// State in which a call waits, for the message of an exceeded deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Calls that do not wait fail with this message, which contains a note.
    Failing(String),
    /// Part that is missing, and a resolution note.
    For(Cow<'static, str>, String),
    /// No failure; only a resolution note.
    Noted(String),
}

impl Waiting {
    pub(crate) fn unresolved(node_id: &str) -> Self {
        Self::For("the xDS configuration".into(), node_note(node_id))
    }

    /// Call that was sent to an endpoint.
    pub(crate) fn sent(address: &SocketAddress, note: String) -> Self {
        Self::For(format!("a response of {address}").into(), note)
    }
}

/// Returns the status of calls after the driver has ended.
pub(crate) fn ended(note: impl Display) -> Status {
    Status::unavailable(with_note("the channel has ended", note))
}

/// Returns the status code for the end of a stream or connection. Reset streams use gRPC's mapping
/// of HTTP/2 error codes; the end of a connection is `UNAVAILABLE`.
pub(crate) fn code_of(error: &hyper::Error) -> Code {
    match http2_error(error) {
        Some(error) if !error.is_go_away() => match error.reason() {
            Some(Reason::REFUSED_STREAM) | None => Code::Unavailable,
            Some(Reason::CANCEL) => Code::Cancelled,
            Some(Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
            Some(Reason::INADEQUATE_SECURITY) => Code::PermissionDenied,
            Some(_) => Code::Internal,
        },
        Some(_) | None => Code::Unavailable,
    }
}

/// Returns whether these headers end a call: the response has no content and no trailers.
pub(crate) fn is_end(headers: &HeaderMap) -> bool {
    headers.contains_key(Status::GRPC_STATUS)
}

/// Returns the status code in these headers or trailers.
pub(crate) fn code_in(headers: &HeaderMap) -> Option<Code> {
    headers.get(Status::GRPC_STATUS).map(|code| Code::from_bytes(code.as_bytes()))
}

/// Returns whether these headers or trailers end a call with `CANCELLED`. Servers use it at the
/// deadline of a call.
pub(crate) fn is_cancelled(headers: &HeaderMap) -> bool {
    headers.get("grpc-status").is_some_and(|status| status == "1")
}

/// Returns whether these headers or trailers end a call with `OK`.
pub(crate) fn is_ok(headers: &HeaderMap) -> bool {
    headers.get("grpc-status").is_some_and(|status| status == "0")
}

/// Returns whether the server reported that it has not processed a request: it refused the stream,
/// or its `GOAWAY` excludes the stream.
pub(crate) fn is_unprocessed(error: &hyper::Error) -> bool {
    http2_error(error).is_some_and(|error| {
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (error.is_go_away() || is_refused)
    })
}

/// Returns whether hyper dropped a request without an error of HTTP/2. If it has read none of the
/// request's content, the request waited for a free stream and was not sent.
pub(crate) fn is_dropped(error: &hyper::Error) -> bool {
    error.is_user() && http2_error(error).is_none()
}

fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref::<h2::Error>() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}
