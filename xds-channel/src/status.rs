//! Statuses of calls. What management servers say is never one (A54).

use core::fmt::Display;
use std::error::Error as _;

use h2::Reason;
use tonic::{Code, Status};
use xds_routing::router::Failure;

/// The note is for failures that have none themselves.
pub(crate) fn of(failure: &Failure, note: impl Display) -> Status {
    Status::new(Code::from_i32(failure.code()), failure.message(note))
}

/// Whose configuration it is, where no more is known (S3.095).
pub(crate) fn bare_note(node_id: &str) -> String {
    format!("xDS node ID: {node_id}")
}

pub(crate) fn noted(why: impl Display, note: impl Display) -> String {
    format!("{why} (resolution note: {note})")
}

/// Time is up, while this was how things were.
pub(crate) fn late(how: Waiting) -> Status {
    let late = "the call took longer than it may";
    Status::deadline_exceeded(match how {
        Waiting::Failing(why) => format!("{late}: {why}"),
        Waiting::Noted(note) => noted(late, note),
    })
}

/// What a call has to say of how things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Calls that do not wait fail with that, which has a note.
    Failing(String),
    /// Nothing but this note.
    Noted(String),
}

/// There is no driver any more.
pub(crate) fn ended(note: impl Display) -> Status {
    Status::unavailable(noted("the channel has ended", note))
}

/// What the end of a stream or connection means, by gRPC's table of HTTP/2's reasons. That table is for streams
/// that were reset; a connection that ends is one that is not there.
pub(crate) fn code_of(error: &hyper::Error) -> Code {
    match in_http2(error) {
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

/// Whether the server says that it has done nothing with a call: it refused the stream, or said when it went away
/// that this stream is one of those it did not look at.
pub(crate) fn is_unprocessed(error: &hyper::Error) -> bool {
    in_http2(error).is_some_and(|error| {
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (error.is_go_away() || is_refused)
    })
}

fn in_http2(error: &hyper::Error) -> Option<&h2::Error> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref::<h2::Error>() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

pub(crate) fn with_causes(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
